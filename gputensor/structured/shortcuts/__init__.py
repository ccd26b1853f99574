"""Which calls leave a short cut, and of which form: Note [Short cuts] in dispatch/shortcuts.py."""
