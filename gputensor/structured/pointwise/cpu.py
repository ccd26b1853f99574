"""Fast kernels of unary and binary operators on the CPU. They find the plan and call the loop in
one Python frame.

Calls that these kernels do not support are passed to the general kernels in this folder.
"""

from __future__ import annotations

from typing import Any

from numpy import may_share_memory

from ...core.arguments import ONE
from ...core.device import CPU
from ...dispatch.operator import Operator
from ...dispatch.tls import inference_blocks, keys_now
from ...kernels.cpu.quiet import again, enter, run
from ...tensor.make import CPU_KEYS, from_array
from ...tensor.tensor import Tensor, blank
from ..shortcuts import pointwise as short
from . import NUMBERS, Kernel, Rule, check_overlap, make_entry, too_large, write


def unary(operator: Operator, rule: Rule) -> Kernel:
    """Make the functional form of a unary operator on the CPU."""
    loop = rule.loop

    def kernel(key_set: int, self: Tensor) -> Tensor:
        key = self._geometry
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            entry = make_entry(table, rule, loop, None, (self,), key)
        elif entry.is_fresh:
            short.learn(table, kernel, key, entry)
        if entry.numpy_allocates:
            array = self._array
            if array is None:
                array = self._get_array()
            return from_array(run(entry.loop, array), entry.geometry)
        made: Tensor = entry.fresh((self,))
        return made

    return kernel


def binary(operator: Operator, rule: Rule, scaled: Kernel | Any = None) -> Kernel:
    """Make the functional form of a binary operator on the CPU. `a + b` calls this kernel.

    scaled: for operators with `alpha`, the kernel for an `alpha` other than 1.
    """
    loop = rule.loop

    # This kernel is the most frequently called function, so the functions that it would call are
    # inlined (bench/host/overhead.py).
    def kernel(key_set: int, self: Any, other: Any, alpha: Any = ONE) -> Tensor:
        if alpha is not ONE:
            made: Tensor = scaled(key_set, self, other, alpha)
            if type(alpha) is float and type(self) not in NUMBERS and type(other) not in NUMBERS:
                short.learn_scaled(operator.table, kernel, loop + "_alpha", self, other)
            return made
        kind = type(other)
        if kind is Tensor and type(self) is Tensor:
            key: tuple[Any, ...] = (self._geometry, other._geometry)
        elif kind in NUMBERS:
            key = (self._geometry, kind)
        else:
            key = (type(self) if type(self) in NUMBERS else self._geometry, other._geometry)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            entry = make_entry(table, rule, loop, None, (self, other), key)
        elif entry.is_fresh:
            short.learn(table, kernel, key, entry)
        if not entry.numpy_allocates:
            made = entry.fresh((self, other))
            return made
        if kind is Tensor or kind not in NUMBERS:
            x = other._array
            other = x if x is not None else other._get_array()
        if type(self) is Tensor or type(self) not in NUMBERS:
            x = self._array
            self = x if x is not None else self._get_array()
        try:
            array = enter(entry.loop, self, other)
        except (RuntimeError, OverflowError) as error:
            if isinstance(error, OverflowError):
                raise too_large(error, loop, entry.plan.common_dtype, (self, other)) from None
            array = again(error, entry.loop, self, other)
        tensor = blank()
        tensor._geometry = entry.geometry
        tensor._keys = CPU_KEYS if not inference_blocks else keys_now(CPU_KEYS)
        tensor._device = CPU
        tensor._storage = None
        tensor._offset = 0
        tensor._array = array
        tensor._autograd = None
        return tensor

    return kernel


def binary_inplace(operator: Operator, rule: Rule, scaled: Kernel | Any = None) -> Kernel:
    """Make the in-place form of a binary operator on the CPU. scaled: as in `binary`."""
    loop = rule.loop
    general = write(operator, rule)

    def kernel(key_set: int, self: Tensor, other: Any, alpha: Any = ONE) -> Tensor:
        if alpha is not ONE:
            made: Tensor = scaled(key_set, self, other, alpha)
            if type(alpha) is float and type(other) not in NUMBERS:
                short.learn_scaled(operator.table, kernel, loop + "_alpha", self, other, True)
            return made
        kind = type(other)
        is_number = kind is not Tensor and kind in NUMBERS
        key = (self._geometry, kind if is_number else other._geometry)
        table = operator.table
        entry = table.plans.get(key)
        if entry is None:
            entry = make_entry(table, rule, loop, self, (self, other), key)
        elif entry.is_fresh:
            short.learn_inplace(table, kernel, key, entry)
        if entry.block:
            return general(self, (self, other))
        array = self._array
        if array is None:
            array = self._get_array()
        if not is_number:
            mine, theirs = self._storage, other._storage
            if (
                mine is not None and (mine is theirs or mine.may_alias)
                or theirs is not None and theirs.may_alias
            ):  # fmt: skip
                # may_share_memory compares only bounds and takes a tenth of the time of
                # check_overlap.
                if mine is theirs or may_share_memory(array, other._get_array()):
                    check_overlap(operator.short_name, rule, self, (self, other))
            x = other._array
            other = x if x is not None else other._get_array()
        try:
            enter(entry.loop, array, other, array)
        except (RuntimeError, OverflowError) as error:
            if isinstance(error, OverflowError):
                raise too_large(error, loop, entry.plan.common_dtype, (self, other)) from None
            again(error, entry.loop, array, other, array)
        return self

    return kernel
