"""Annotations of gt.nn.functional that stand for more than one form of an argument.

`dispatch/refusal.py` knows them by these names.
"""

from __future__ import annotations

from typing import Any

Ints = Any  # one for all dimensions, or one for each
Sizes = Any  # likewise; None among them keeps a size
Reals = Any
Padding = Any  # Ints, or a word
