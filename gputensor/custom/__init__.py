"""Operators defined by users: functions that define, register, differentiate and check them."""
