"""Functions that make and store the short cuts of operators: see Note [Short cuts] in
dispatch/shortcuts.py."""
