"""Memory formats and their strides, and `strided`, the only layout.

Source of the rules: PyTorch's c10/core/MemoryFormat.h.
"""

from __future__ import annotations

from typing import Any

from . import dtype as dtypes, errors


class memory_format:
    """The order of a dense tensor's dimensions in memory.

    order: dimension numbers, the fastest first; None if the format does not define an order.
    """

    __slots__ = ("name", "rank", "order")
    name: str
    rank: int | None

    def __init__(
        self, name: str, rank: int | None = None, order: tuple[int, ...] | None = None
    ) -> None:
        self.name, self.rank = name, rank
        self.order: tuple[int, ...] | Any = order

    def __repr__(self) -> str:
        return f"{dtypes.package_name}.{self.name}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_by_name, (self.name,))


contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last", 4, (1, 3, 2, 0))
channels_last_3d: memory_format = memory_format("channels_last_3d", 5, (1, 4, 3, 2, 0))

ALL = (contiguous_format, preserve_format, channels_last, channels_last_3d)


def _by_name(name: str) -> memory_format:
    return next(f for f in ALL if f.name == name)


def contiguous_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor. A size of 0 counts as 1, as in
    PyTorch."""
    strides = []
    running = 1
    for size in reversed(sizes):
        strides.append(running)
        running *= size if size > 1 else 1
    strides.reverse()
    return tuple(strides)


def strides_for(op: str, sizes: tuple[int, ...], form: memory_format) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense tensor of `sizes` in the memory format `form`.

    Raises: ArgumentError if the format requires a different number of dimensions, or defines no
    order (preserve_format).
    """
    if form is contiguous_format:
        return contiguous_strides(sizes)
    if not isinstance(form, memory_format):
        raise errors.wrong_type(op, "memory_format", "be a gputensor.memory_format", form)
    if form.order is None:
        raise errors.must(op, "memory_format", "fix an order of dimensions", form)
    if len(sizes) != form.rank:
        rule = f"be {form.name} only for a tensor of {form.rank} dimensions"
        raise errors.must(op, "memory_format", rule, errors.Got(f"{len(sizes)} dimensions"))
    strides = [0] * len(sizes)
    running = 1
    for dim in form.order:
        strides[dim] = running
        running *= sizes[dim]  # a size of 0 makes all strides after it 0, as in PyTorch
    return tuple(strides)


class layout:
    """The storage layout of a tensor. `strided` is the only one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name: str = name

    def __repr__(self) -> str:
        return f"{dtypes.package_name}.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided: layout = layout("strided")
