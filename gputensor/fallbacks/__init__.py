"""Fallback kernels that run before a backend's kernel: for modes, subclasses and lazy views."""
