"""Benchmarks of the host time of calls, and of the import."""
