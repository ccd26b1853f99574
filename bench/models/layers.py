"""Convolutions and attention with the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Layer(NamedTuple):
    """A function of torch.nn.functional and its arguments. sizes: of its tensors."""

    kind: str
    function: str
    sizes: tuple[tuple[int, ...], ...]
    numbers: dict[str, Any] = {}
    is_channels_last: bool = False

    def inputs(self, torch: Any) -> list[Any]:
        """Return a library's tensors, with equal numbers for all; all require grad."""
        random, found = np.random.default_rng(0), []
        for of in self.sizes:
            x = torch.from_numpy(random.standard_normal(of, np.float32) / np.float32(of[-1]))
            if self.is_channels_last:
                x = x.contiguous(memory_format=torch.channels_last)
            found.append(x.requires_grad_())
        return found

    def call(self, torch: Any, inputs: list[Any]) -> Callable[[], Any]:
        function, numbers = getattr(torch.nn.functional, self.function), self.numbers
        return lambda: function(*inputs, **numbers)


def _conv(function: str, *sizes: tuple[int, ...], **numbers: Any) -> Layer:
    return Layer("convolutions", function, sizes, numbers)


def _heads(*sizes: int, **numbers: Any) -> Layer:
    return Layer("attention", "scaled_dot_product_attention", (sizes,) * 3, numbers)


LAYERS: dict[str, Layer] = {
    "3 × 3, 64 channels": _conv("conv2d", (8, 64, 56, 56), (64, 64, 3, 3), padding=1),
    "3 × 3, 512 channels": _conv("conv2d", (8, 512, 7, 7), (512, 512, 3, 3), padding=1),
    "3 × 3, channels last": Layer(
        "convolutions", "conv2d", ((8, 64, 56, 56), (64, 64, 3, 3)), {"padding": 1}, True
    ),
    "3 × 3, step 2, 16 groups": _conv(
        "conv2d", (8, 128, 28, 28), (128, 8, 3, 3), padding=1, stride=2, groups=16
    ),
    "1 × 1, 256 channels": _conv("conv2d", (8, 256, 28, 28), (256, 256, 1, 1)),
    "7 × 7, step 2, images": _conv(
        "conv2d", (8, 3, 224, 224), (64, 3, 7, 7), padding=3, stride=2
    ),
    "3 × 3 depthwise": _conv("conv2d", (8, 144, 56, 56), (144, 1, 3, 3), padding=1, groups=144),
    "3 × 3 depthwise, step 2": _conv(
        "conv2d", (8, 144, 56, 56), (144, 1, 3, 3), padding=1, stride=2, groups=144
    ),
    "2 × 2 transposed, step 2": _conv(
        "conv_transpose2d", (8, 128, 28, 28), (128, 64, 2, 2), stride=2
    ),
    "one dimension": _conv("conv1d", (8, 128, 1000), (128, 128, 5), padding=2),
    "three dimensions": _conv("conv3d", (2, 32, 16, 28, 28), (32, 32, 3, 3, 3), padding=1),
    "6 heads of 64, 256 words": _heads(4, 6, 256, 64),
    "6 heads of 64, 256 words, causal": _heads(4, 6, 256, 64, is_causal=True),
    "12 heads of 64, 1,024 words": _heads(1, 12, 1024, 64),
    "3 heads of 64, 197 patches": _heads(8, 3, 197, 64),
}  # fmt: skip
