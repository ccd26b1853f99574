"""Conditions and forms of short cuts: see Note [Short cuts] in dispatch/shortcuts.py."""
