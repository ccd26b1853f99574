"""Kernel factories for families that implement only the in-place form.

A family binds them by name: `functional = derived.functional`. The in-place form is found by its
name and called through its table.
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
    """`functional` whose copy keeps the layout of self."""
    return _of_inplace(operator, preserve_format)


def out(operator: Operator, loop: str) -> Kernel:
    """The functional form's result, copied to out; so an error leaves out unchanged."""
    base, overload = operator.short_name, operator.overload
    return forms.out(_named(base, overload.removesuffix("out").removesuffix("_")))


def _of_inplace(operator: Operator, layout: memory_format) -> Kernel:
    base, overload = operator.short_name, operator.overload
    writes = _named(f"{base}_", overload)

    def kernel(key_set: int, self: Tensor, *rest: Any) -> Tensor:
        made = calls.clone(self, layout)
        key_set &= BELOW_ADINPLACEORVIEW  # a new tensor: no version to count
        writes.redispatch_table[key_set](key_set, made, *rest)
        return made

    return kernel


def _named(base: str, overload: str) -> Operator:
    found: Operator = getattr(operators, f"{base}_{overload}" if overload else base)
    return found
