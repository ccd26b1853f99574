"""Fallback kernels between a call and its backend: modes, subclasses, lazy views."""
