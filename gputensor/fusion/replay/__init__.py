"""Calls of a fused function that run without its Python: see replays.py."""
