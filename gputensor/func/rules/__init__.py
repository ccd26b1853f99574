"""Batch rules: functions that let an operator work on a whole batch, for each family. table.py maps
operators to rules."""
