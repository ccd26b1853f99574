"""Measurement of operator calls: the profiler, and the audit of copies."""
