"""Makers: functions that make a kernel from an operator's schema when a slot of its dispatch table
is computed."""
