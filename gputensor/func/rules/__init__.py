"""Batch rules: how operators work on whole batches, by family. table.py maps operators to rules."""
