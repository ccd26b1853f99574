"""Conditions and forms of short cuts. See Note [Short cuts] in dispatch/shortcuts.py."""
