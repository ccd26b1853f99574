"""What looks on: the profiler and the audit of copies."""
