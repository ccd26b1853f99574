"""Random convolutions: of one to three dimensions, plain and transposed, in every layout."""

from __future__ import annotations

import random
from typing import Any

import gputensor as gt

F = gt.nn.functional


def whole(draw: random.Random, sizes: Any, dtype: Any) -> gt.Tensor:
    """Return numbers whose sums are exact in any order."""
    gt.manual_seed(draw.randrange(1 << 30))
    return gt.randint(-2, 3, tuple(sizes)).to(dtype)


def _laid_out(draw: random.Random, x: gt.Tensor) -> gt.Tensor:
    """Return the same elements in another layout."""
    how = draw.randrange(5)
    if how == 1 and x.dim() in (4, 5):
        form = gt.channels_last if x.dim() == 4 else gt.channels_last_3d
        return x.contiguous(memory_format=form)
    if how == 2:
        return gt.stack([x, x], -1)[..., 0]
    if how == 3:
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    if how == 4:
        return gt.cat([x[..., :1], x], -1)[..., 1:]
    return x


def case(draw: random.Random, dtype: Any) -> tuple[Any, list[gt.Tensor], dict[str, Any]]:
    """Return a function of three tensors, and matching random shapes."""
    count, transposed = draw.choice([1, 2, 2, 3]), draw.random() < 0.4
    groups, inner, outer = (draw.choice(of) for of in ([1, 1, 2, 5], [1, 1, 3, 17], [1, 2, 9, 20]))
    kernel, steps, pads, gaps = (
        [draw.randint(low, high) for _ in range(count)]
        for low, high in ((1, 4), (1, 3), (0, 2), (1, 2))
    )
    batch = draw.choice([0, 1, 1, 2, 2, 3, 3])
    sizes = [draw.randint(1, 9) + gap * (k - 1) for k, gap in zip(kernel, gaps)]
    of_weight = (inner * groups, outer) if transposed else (outer * groups, inner)
    tensors = [
        _laid_out(draw, whole(draw, shape, dtype))
        for shape in ((batch, inner * groups, *sizes), (*of_weight, *kernel))
    ]
    tensors.append(whole(draw, (outer * groups,), dtype))
    numbers = {"stride": steps, "padding": pads, "dilation": gaps, "groups": groups}
    if not transposed:
        return getattr(F, f"conv{count}d"), tensors, numbers
    numbers["output_padding"] = [draw.randint(0, max(s, g) - 1) for s, g in zip(steps, gaps)]
    return getattr(F, f"conv_transpose{count}d"), tensors, numbers
