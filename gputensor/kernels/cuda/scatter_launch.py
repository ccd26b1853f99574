"""Launch plans of the family scatter. They are the plans of gather, with the same parameters."""

from .gather_launch import bind

__all__ = ["bind"]
