"""Batch rules: how operators work on whole batches, by family. table.py says which has which."""
