"""Models written for PyTorch run with another import: a residual block, a transformer block, a
small U-Net. Each loads PyTorch's weights from a safetensors file; forward and backward agree."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.nn import functional as gt_functional

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors", reason="weights are exchanged as safetensors")
pytestmark = pytest.mark.oracle


def residual(lib: ModuleType, F: Any) -> Any:
    nn = lib.nn

    class Residual(nn.Module):
        def __init__(self, inside: int, outside: int, stride: int = 1) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inside, outside, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(outside)
            self.conv2 = nn.Conv2d(outside, outside, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(outside)
            self.relu = nn.ReLU(inplace=True)
            self.down = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride=stride, bias=False), nn.BatchNorm2d(outside)
            )

        def forward(self, x: Any) -> Any:
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y)) + self.down(x)
            return self.relu(y)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 8, 7, stride=2, padding=3), nn.BatchNorm2d(8), nn.ReLU(),
                nn.MaxPool2d(3, stride=2, padding=1),
            )  # fmt: skip
            self.block = Residual(8, 12, stride=2)
            self.pool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(12, 5)

        def forward(self, x: Any) -> Any:
            x = self.pool(self.block(self.stem(x)))
            return self.fc(lib.flatten(x, 1))

    return Net()


def transformer(lib: ModuleType, F: Any) -> Any:
    nn = lib.nn

    class Block(nn.Module):
        def __init__(self, width: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x: Any) -> Any:
            batch, length, width = x.shape
            q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
            q, k, v = (
                part.view(batch, length, self.heads, -1).transpose(1, 2) for part in (q, k, v)
            )
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            mask = lib.tril(lib.ones(length, length, dtype=lib.bool, device=x.device))
            scores = scores.masked_fill(~mask, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
            flash = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            y = ((y + flash) / 2).transpose(1, 2).contiguous().view(batch, length, width)
            x = x + self.out(y)
            return x + self.mlp(self.norm2(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(11, 16), nn.Embedding(8, 16)
            self.block, self.norm = Block(16, 4), nn.LayerNorm(16)
            self.head = nn.Linear(16, 11, bias=False)

        def forward(self, x: Any) -> Any:
            places = lib.arange(x.shape[1], device=x.device)
            return self.head(self.norm(self.block(self.token(x) + self.place(places))))

    return Net()


def unet(lib: ModuleType, F: Any) -> Any:
    nn = lib.nn

    def double(inside: int, outside: int) -> Any:
        return nn.Sequential(
            nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(2, outside), nn.SiLU(),
            nn.Conv2d(outside, outside, 3, padding=1), nn.GroupNorm(2, outside), nn.SiLU(),
        )  # fmt: skip

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.bottom = double(1, 4), double(4, 8), double(8, 8)
            self.up2 = nn.ConvTranspose2d(8, 8, 2, stride=2)
            self.mix2, self.mix1 = double(16, 4), double(8, 4)
            self.out = nn.Conv2d(4, 2, 1)

        def forward(self, x: Any) -> Any:
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            y = self.up2(self.bottom(F.avg_pool2d(b, 2)))
            y = self.mix2(lib.cat([y, b], dim=1))
            y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(self.mix1(lib.cat([y, a], dim=1)))

    return Net()


random = np.random.default_rng(0)
MODELS: dict[str, tuple[Any, np.ndarray]] = {
    "residual": (residual, random.normal(size=(2, 3, 32, 32)).astype(np.float32)),
    "transformer": (transformer, random.integers(0, 11, (2, 8))),
    "unet": (unet, random.normal(size=(2, 1, 16, 16)).astype(np.float32)),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_agrees_forward_and_backward(name: str, device: str, tmp_path: Path) -> None:
    from safetensors.numpy import load_file
    from safetensors.torch import save_file

    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip("no CUDA device, real or emulated")
    make, array = MODELS[name]
    torch.manual_seed(0)
    theirs, ours = make(torch, torch.nn.functional), make(gt, gt_functional)
    save_file(theirs.state_dict(), tmp_path / "weights.safetensors")
    ours.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    ours.to(device)
    wanted = theirs(torch.from_numpy(array))
    found = ours(gt.from_numpy(array).to(device))
    near(found, wanted)
    of_all = np.random.default_rng(1).normal(size=tuple(wanted.shape)).astype(np.float32)
    (wanted * torch.from_numpy(of_all)).mean().backward()
    (found * gt.from_numpy(of_all).to(device)).mean().backward()
    largest = max(float(q.grad.abs().max()) for q in theirs.parameters())
    for (key, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert key == other
        near(p.grad, q.grad, largest)  # for a bias before a norm it is 0 plus rounding errors
    for (_, p), (_, q) in zip(ours.named_buffers(), theirs.named_buffers()):
        near(p, q)
    theirs.eval()
    ours.eval()
    near(ours(gt.from_numpy(array).to(device)), theirs(torch.from_numpy(array)))


def near(found: Any, wanted: Any, scale: float = 0.0) -> None:
    wanted = wanted.detach().numpy()
    assert tuple(found.shape) == wanted.shape
    scale = max(scale, float(np.abs(wanted).max())) or 1.0
    np.testing.assert_allclose(found.detach().cpu().numpy(), wanted, rtol=1e-4, atol=2e-5 * scale)
