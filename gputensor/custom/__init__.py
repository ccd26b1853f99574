"""Operators of users: functions that define, register, differentiate and check them."""
