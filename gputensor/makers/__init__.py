"""Kernels made of a schema's shape when a slot is computed, for built-in and custom operators."""
