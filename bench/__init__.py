"""Benchmarks. Each result is a ratio to another library, measured alternately in one process."""
