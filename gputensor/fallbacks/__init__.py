"""Fallback kernels that run between a call and its backend: for modes, subclasses and lazy
views."""
