"""Kernel factories of families that write the in-place form alone: the others follow from it.

A family binds them by name: `functional = derived.functional`. The form that another one follows
from is found by its name, and is asked through its table.
"""

from __future__ import annotations

from typing import Any

from . import forms
from .._generated import calls, operators
from ..core.memory_format import contiguous_format, memory_format, preserve_format
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor
from .pointwise import Kernel


def functional(operator: Operator, loop: str) -> Kernel:
    """A row-major copy of self, which the in-place form writes to."""
    return _of_inplace(operator, contiguous_format)


def kept_functional(operator: Operator, loop: str) -> Kernel:
    """As `functional`; the copy keeps the layout of self."""
    return _of_inplace(operator, preserve_format)


def out(operator: Operator, loop: str) -> Kernel:
    """What the functional form gives, copied: a refusal changes nothing."""
    base, overload = operator.short_name, operator.overload
    return forms.out(_named(base, overload.removesuffix("out").removesuffix("_")))


def _of_inplace(operator: Operator, layout: memory_format) -> Kernel:
    base, overload = operator.short_name, operator.overload
    writes = _named(f"{base}_", overload)

    def kernel(key_set: int, self: Tensor, *rest: Any) -> Tensor:
        made = calls.clone(self, layout)
        key_set &= BELOW_ADINPLACEORVIEW  # nobody has seen it yet
        writes.redispatch_table[key_set](key_set, made, *rest)
        return made

    return kernel


def _named(base: str, overload: str) -> Operator:
    found: Operator = getattr(operators, f"{base}_{overload}" if overload else base)
    return found
