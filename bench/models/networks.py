"""Eight models of different kinds. Each is written once, with PyTorch's names.

The sizes are taken from public models: ResNet-18 (He et al., 2015), MobileNetV2 (Sandler et al.,
2018), a vision transformer (ViT-Ti/16, Touvron et al., 2020), the small GPT of nanoGPT, a block of
Mamba-130m (Gu and Dao, 2023), U-Net (Ronneberger et al., 2015) at a quarter of its width, a
perceptron for MNIST, and the LSTM of PyTorch's word_language_model. is_small selects smaller sizes,
for tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np


class Network(NamedTuple):
    """A model. module(*inputs) is the forward pass; loss(result) is minimised.

    optimizer: makes an optimizer for parameters. clip: the norm to which gradients are clipped, or
    None.
    """

    module: Any
    inputs: tuple[Any, ...]
    loss: Callable[[Any], Any]
    optimizer: Callable[[Any], Any]
    clip: float | None = None


def _pixels(torch: Any, *sizes: int) -> Any:
    random = np.random.default_rng(0)
    return torch.from_numpy(random.standard_normal(sizes, np.float32))


def _numbers(torch: Any, below: int, *sizes: int) -> Any:
    return torch.from_numpy(np.random.default_rng(1).integers(0, below, sizes))


def _of_classes(torch: Any, classes: int, batch: int) -> Callable[[Any], Any]:
    target = _numbers(torch, classes, batch)
    return lambda made: torch.nn.functional.cross_entropy(made, target)


def _of_words(torch: Any, words: int, *sizes: int) -> Callable[[Any], Any]:
    target = _numbers(torch, words, *sizes).flatten()
    return lambda made: torch.nn.functional.cross_entropy(made.flatten(0, 1), target)


def _momentum(torch: Any) -> Callable[[Any], Any]:
    return lambda of: torch.optim.SGD(of, lr=0.01, momentum=0.9, weight_decay=1e-4)


def _adamw(torch: Any) -> Callable[[Any], Any]:
    return lambda of: torch.optim.AdamW(of, lr=1e-4, weight_decay=0.1)


# --- images ---------------------------------------------------------------------------------------


def residual(torch: Any, is_small: bool) -> Network:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(outputs)
            self.shortcut = None
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = self.relu(self.norm1(self.conv1(x)))
            y = self.norm2(self.conv2(y))
            y += x if self.shortcut is None else self.shortcut(x)
            return self.relu(y)

    width, batch, side = (4, 4, 64) if is_small else (64, 8, 224)
    parts = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    for stage in range(4):
        inputs = width * 2 ** max(0, stage - 1)
        parts.append(Block(inputs, width * 2**stage, 2 if stage else 1))
        parts.append(Block(width * 2**stage, width * 2**stage, 1))
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 1000)]
    images = _pixels(torch, batch, 3, side, side)
    loss = _of_classes(torch, 1000, batch)
    return Network(nn.Sequential(*parts), (images,), loss, _momentum(torch))


def mobile(torch: Any, is_small: bool) -> Network:
    nn = torch.nn

    def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True),
        )  # fmt: skip

    class Inverted(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int, wider: int) -> None:
            super().__init__()
            inner = inputs * wider
            parts = [] if wider == 1 else [conv(inputs, inner)]
            parts += [
                conv(inner, inner, 3, stride, inner), nn.Conv2d(inner, outputs, 1, bias=False),
                nn.BatchNorm2d(outputs),
            ]  # fmt: skip
            self.parts = nn.Sequential(*parts)
            self.adds = stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.parts(x) if self.adds else self.parts(x)

    batch, side = (2, 32) if is_small else (8, 224)
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]  # fmt: skip
    parts, inputs = [conv(3, 32, 3, 2)], 32
    for wider, outputs, count, stride in rows[:2] if is_small else rows:
        for n in range(count):
            parts.append(Inverted(inputs, outputs, stride if n == 0 else 1, wider))
            inputs = outputs
    parts += [
        conv(inputs, 1280), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0),
        nn.Linear(1280, 1000),
    ]  # fmt: skip
    images = _pixels(torch, batch, 3, side, side)
    loss = _of_classes(torch, 1000, batch)
    return Network(nn.Sequential(*parts), (images,), loss, _momentum(torch))


def vision_transformer(torch: Any, is_small: bool) -> Network:
    nn = torch.nn
    width, heads, layers, side, patch, batch = (
        (16, 2, 1, 32, 16, 2) if is_small else (192, 3, 12, 224, 16, 8)
    )

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, patch, patch)
            self.token = nn.Parameter(torch.zeros(1, 1, width))
            self.places = nn.Parameter(0.02 * torch.randn(1, (side // patch) ** 2 + 1, width))
            layer = nn.TransformerEncoderLayer(
                width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
            )
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.norm(self.layers(x))[:, 0])

    images = _pixels(torch, batch, 3, side, side)
    return Network(ViT(), (images,), _of_classes(torch, 1000, batch), _adamw(torch))


def u_net(torch: Any, is_small: bool) -> Network:
    nn = torch.nn
    width, side, batch, depth = (4, 32, 1, 2) if is_small else (16, 192, 4, 4)

    def twice(inputs: int, outputs: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(inplace=True),
        )  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = [width << n for n in range(depth + 1)]
            pairs = list(pairwise(widths))
            self.first = twice(3, width)
            self.down = nn.ModuleList([twice(a, b) for a, b in pairs])
            self.up = nn.ModuleList([nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs)])
            self.merge = nn.ModuleList([twice(b, a) for a, b in reversed(pairs)])
            self.last = nn.Conv2d(width, 2, 1)

        def forward(self, x: Any) -> Any:
            kept = [self.first(x)]
            for down in self.down:
                kept.append(down(torch.nn.functional.max_pool2d(kept[-1], 2)))
            x = kept.pop()
            for up, merge in zip(self.up, self.merge):
                x = merge(torch.cat([kept.pop(), up(x)], 1))
            return self.last(x)

    target = _numbers(torch, 2, batch, side, side)
    return Network(
        UNet(), (_pixels(torch, batch, 3, side, side),),
        lambda made: nn.functional.cross_entropy(made, target), _momentum(torch),
    )  # fmt: skip


def perceptron(torch: Any, is_small: bool) -> Network:
    nn = torch.nn
    width, batch = (32, 8) if is_small else (512, 128)
    module = nn.Sequential(
        nn.Flatten(), nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 10),
    )  # fmt: skip
    images = _pixels(torch, batch, 1, 28, 28)
    return Network(
        module, (images,), _of_classes(torch, 10, batch), lambda of: torch.optim.Adam(of, lr=1e-4)
    )


# --- text -----------------------------------------------------------------------------------------


def gpt(torch: Any, is_small: bool) -> Network:
    nn, F = torch.nn, torch.nn.functional
    words, width, heads, layers, length, batch = (
        (40, 16, 2, 1, 8, 2) if is_small else (65, 384, 6, 6, 256, 4)
    )

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = (
                part.unflatten(-1, (heads, -1)).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).chunk(3, -1)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.back(F.gelu(self.wide(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, x: Any) -> Any:
            x = self.words(x) + self.places(torch.arange(x.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    text = _numbers(torch, words, batch, length)
    return Network(GPT(), (text,), _of_words(torch, words, batch, length), _adamw(torch), clip=1.0)


def state_space(torch: Any, is_small: bool) -> Network:
    nn, F = torch.nn, torch.nn.functional
    width, states, length, batch, rank = (8, 4, 6, 2, 1) if is_small else (768, 16, 64, 2, 48)
    inner = 2 * width

    class Mamba(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = nn.Linear(width, 2 * inner, bias=False)
            self.conv = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
            self.select = nn.Linear(inner, rank + 2 * states, bias=False)
            self.delta = nn.Linear(rank, inner)
            decay = torch.arange(1, states + 1).float().repeat(inner, 1)
            self.log_decay, self.skip = nn.Parameter(decay.log()), nn.Parameter(torch.ones(inner))
            self.leave = nn.Linear(inner, width, bias=False)
            self.norm = nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            y, gate = self.enter(self.norm(x)).chunk(2, -1)
            y = F.silu(self.conv(y.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
            delta, b, c = self.select(y).split([rank, states, states], -1)
            delta = F.softplus(self.delta(delta))
            decays = torch.exp(delta.unsqueeze(-1) * -torch.exp(self.log_decay))
            inputs = delta.unsqueeze(-1) * b.unsqueeze(2) * y.unsqueeze(-1)
            state, found = torch.zeros(x.shape[0], inner, states), []
            for n in range(x.shape[1]):
                state = decays[:, n] * state + inputs[:, n]
                found.append((state @ c[:, n].unsqueeze(-1)).squeeze(-1))
            y = torch.stack(found, 1) + y * self.skip
            return x + self.leave(y * F.silu(gate))

    x = _pixels(torch, batch, length, width)
    return Network(Mamba(), (x,), lambda made: made.square().mean(), _adamw(torch))


def lstm(torch: Any, is_small: bool) -> Network:
    nn = torch.nn
    words, width, length, batch = (50, 8, 5, 2) if is_small else (33278, 200, 35, 20)

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(words, width)
            self.lstm = nn.LSTM(width, width, 2)
            self.head = nn.Linear(width, words)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(self.words(x))[0])

    text = _numbers(torch, words, length, batch)
    return Network(
        Language(), (text,), _of_words(torch, words, length, batch),
        lambda of: torch.optim.SGD(of, lr=math.exp(-3)), clip=0.25,
    )  # fmt: skip


NETWORKS: dict[str, Callable[[Any, bool], Network]] = {
    "residual (ResNet-18)": residual, "mobile (MobileNetV2)": mobile,
    "vision transformer (ViT-Ti)": vision_transformer, "U-Net": u_net, "perceptron": perceptron,
    "GPT (6 layers of 384)": gpt, "state space (Mamba block)": state_space,
    "LSTM (2 layers of 200)": lstm,
}  # fmt: skip
