"""Launch plans of family scatter. They equal the plans of gather, with the same parameters."""

from .gather_launch import bind

__all__ = ["bind"]
