"""Launch plans of family scatter: those of gather, whose parameters they share."""

from .gather_launch import bind

__all__ = ["bind"]
