"""Launch plans of family scatter. They are those of gather, with equal parameters."""

from .gather_launch import bind

__all__ = ["bind"]
