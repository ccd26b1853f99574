"""Fusion: element-by-element operators recorded as chains, and what runs a chain at once."""
