"""Number of blocks of a launch over the elements of an array or a TensorIterator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import errors
from ..dispatch.refusal import declares


@declares(elements="int|int[]", block="int|int[]", per_thread="int")
def grid_for(
    elements: Any, block: int | Sequence[int] = 256, per_thread: int = 1
) -> tuple[int, ...]:
    """Return the grid for a launch over `elements`, with `per_thread` elements in each thread.

    elements: a number; a TensorIterator or a plan, whose elements are counted; or a shape (rows,
    columns) with a block (x, y). In the last case x applies to the columns: `grid_for((480, 640),
    (32, 8))` is (20, 60).
    """
    blocks = (int(block),) if hasattr(block, "__index__") else tuple(block)
    if hasattr(elements, "numel"):
        count = elements.numel
        sizes: tuple[int, ...] = (count() if callable(count) else count,)
    elif hasattr(elements, "__index__"):
        sizes = (int(elements),)
    else:
        sizes = tuple(reversed([int(n) for n in elements]))
    if len(sizes) != len(blocks):
        rule = f"have as many dimensions as the elements, {len(sizes)}"
        raise errors.wrong_value("grid_for", "block", rule, block)
    spans = [blocks[0] * per_thread, *blocks[1:]]
    return tuple([-(-n // span) for n, span in zip(sizes, spans)])
