"""Observation of calls: the profiler and the audit of copies."""
