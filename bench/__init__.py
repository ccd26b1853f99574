"""Benchmarks. Each result is the time of another library divided by ours, or the reverse. One
process measures both libraries alternately."""
