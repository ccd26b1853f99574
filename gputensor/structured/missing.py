"""Calls of operators by composite kernels on devices that may lack a loop.

Operators such as `copy_` and `arange` are composite on every device, so devices of other packages
have them too, but the loop that they call may be missing. Then the device's own kernel of a smaller
operator is called, or the device's fallback. If there is neither, the error names the kernel that
must be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core import errors
from ..dispatch.boxing import adapters
from ..dispatch import dispatcher, keys, table_text
from ..dispatch.backend_select import BACKEND_OF_TYPE, remedy, user_name
from ..dispatch.keys import BELOW_ADINPLACEORVIEW
from ..dispatch.operator import Operator
from ..tensor.tensor import Tensor

# Functions that are called with each operator that `fall_back` passes to a fallback.
# gputensor/op_tests/check.py uses this list.
on_fall_back: list[Callable[[Operator], object]] = []


def ask(operator: Operator, out: Tensor, *args: Any) -> Tensor:
    """Call `operator` with those keys of `out` that are below ADInplaceOrView. The operator's table
    selects the kernel, which may be a fallback."""
    key_set = out._keys & BELOW_ADINPLACEORVIEW
    made: Tensor = operator.redispatch_table[key_set](key_set, *args)
    return made


def ask_inplace(operator: Operator, made: Tensor, *args: Any) -> Tensor:
    """Like `ask`, for an in-place operator on `made`. `made` is a new tensor, or its version has
    already been incremented for this write."""
    return ask(operator, made, made, *args)


def fall_back(operator: Operator, on: Tensor, *args: Any) -> Any:
    """Call the fallback of this tensor's device for `operator`. The operator's composite kernel is
    skipped.

    Raises: DispatchError, with the operator's name, if the device has no fallback.
    """
    key = keys.runtime_key(BACKEND_OF_TYPE[on._device.type])
    kernel = dispatcher.fallbacks().get(key)
    if kernel is None or kernel.is_fallthrough:
        table = table_text.lines_of(operator.table, with_fallthroughs=False)
        raise errors.no_kernel(operator, user_name(key), table, remedy(key, operator))
    for hook in on_fall_back:
        hook(operator)
    key_set = on._keys & BELOW_ADINPLACEORVIEW
    return adapters.table_entry(operator.redispatch_table, kernel, key_set)(key_set, *args)
