"""Launch plans of family scatter: those of gather, with the same parameters."""

from .gather_launch import bind

__all__ = ["bind"]
