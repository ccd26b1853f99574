"""Benchmarks: every figure is a ratio to a peer that was measured in the same process, in turns."""
