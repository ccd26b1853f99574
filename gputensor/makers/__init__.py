"""Kernels that are made from an operator's schema when its slot is computed."""
