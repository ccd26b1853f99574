"""Convolutions, attention and recurrent layers with the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Layer(NamedTuple):
    """A function of torch.nn.functional with its arguments. sizes: the sizes of its tensor
    arguments."""

    kind: str
    function: str
    sizes: tuple[tuple[int, ...], ...]
    numbers: dict[str, Any] = {}
    is_channels_last: bool = False

    def inputs(self, torch: Any) -> list[Any]:
        """Return tensors of a library, with the same numbers for all libraries. All require
        grad."""
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


class Recurrent(NamedTuple):
    """A recurrent module of torch.nn. sizes: (steps, samples, width) of the input; the hidden state
    has the same width. layers: the number of stacked layers."""

    module: str
    sizes: tuple[int, int, int]
    layers: int = 1
    kind: str = "recurrent layers"

    def inputs(self, torch: Any) -> list[Any]:
        """Return the input and the module's weights. All of them require grad."""
        random, width = np.random.default_rng(0), self.sizes[2]
        net = getattr(torch.nn, self.module)(width, width, self.layers)
        shapes = [tuple(w.shape) for w in net.parameters()]
        found = [torch.nn.Parameter(torch.from_numpy(x)) for x in (
            random.standard_normal(self.sizes, np.float32),
            *[random.uniform(-1, 1, of).astype(np.float32) / width**0.5 for of in shapes],
        )]  # fmt: skip
        return found

    def call(self, torch: Any, inputs: list[Any]) -> Callable[[], Any]:
        width = self.sizes[2]
        net = getattr(torch.nn, self.module)(width, width, self.layers)
        for (name, _), weight in zip(list(net.named_parameters()), inputs[1:]):
            setattr(net, name, weight)
        return lambda: net(inputs[0])[0]


def _conv(function: str, *sizes: tuple[int, ...], **numbers: Any) -> Layer:
    return Layer("convolutions", function, sizes, numbers)


def _heads(*sizes: int, **numbers: Any) -> Layer:
    return Layer("attention", "scaled_dot_product_attention", (sizes,) * 3, numbers)


LAYERS: dict[str, Layer | Recurrent] = {
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
    "LSTM of 64, 1 sample, 32 steps": Recurrent("LSTM", (32, 1, 64)),
    "LSTM of 256, 1 sample, 128 steps": Recurrent("LSTM", (128, 1, 256)),
    "LSTM of 512, 1 sample, 1 step": Recurrent("LSTM", (1, 1, 512)),
    "LSTM of 256, 8 samples, 32 steps, 2 layers": Recurrent("LSTM", (32, 8, 256), 2),
    "LSTM of 512, 64 samples, 32 steps": Recurrent("LSTM", (32, 64, 512)),
    "GRU of 256, 1 sample, 32 steps": Recurrent("GRU", (32, 1, 256)),
    "GRU of 256, 64 samples, 32 steps": Recurrent("GRU", (32, 64, 256)),
    "RNN of 256, 8 samples, 32 steps": Recurrent("RNN", (32, 8, 256)),
}  # fmt: skip
