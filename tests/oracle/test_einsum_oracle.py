"""einsum of random equations agrees with PyTorch, in values, sizes, strides and errors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gputensor as gt

pytestmark = pytest.mark.oracle


def _operand(labels: str, size_of: dict[str, int], draw: random.Random) -> np.ndarray:
    """Return an array with a dimension per label. Some have size 1 for broadcasting, and a few have
    a wrong size."""
    sizes = [draw.choices([size_of[label], 1, 4], [92, 7, 1])[0] for label in labels]
    return np.array([draw.uniform(-1, 1) for _ in range(int(np.prod(sizes)))]).reshape(sizes)


def _equation(draw: random.Random) -> tuple[str, tuple[str, str]]:
    letters = "abcdef"[: draw.randint(1, 6)]
    most = min(4, len(letters))
    terms = ["".join(draw.sample(letters, draw.randint(0, most))) for _ in range(2)]
    dots = "..." if draw.random() < 0.2 else ""
    equation = ",".join(dots + term for term in terms)
    if draw.random() < 0.8:
        known = sorted(set("".join(terms)))
        equation += f"->{dots}" + "".join(draw.sample(known, draw.randint(0, len(known))))
    return equation, (terms[0], terms[1])


def _strides(x: Any) -> list[int]:
    """Return the strides of dimensions of several elements: the others have no meaning."""
    return [stride for stride, size in zip(x.stride(), x.shape) if size > 1]


@pytest.mark.parametrize("seed", range(4))
def test_random_equations(seed: int) -> None:
    torch = pytest.importorskip("torch")
    draw = random.Random(seed)
    for _ in range(500):
        equation, terms = _equation(draw)
        size_of = {label: draw.choice([1, 2, 3]) for label in "abcdef"}
        arrays = [_operand(term, size_of, draw) for term in terms]
        try:
            wanted = torch.einsum(equation, *[torch.from_numpy(x) for x in arrays])
        except RuntimeError:
            with pytest.raises(gt.GpuTensorError):
                gt.einsum(equation, *[gt.from_numpy(x) for x in arrays])
            continue
        found = gt.einsum(equation, *[gt.from_numpy(x) for x in arrays])
        sizes = [x.shape for x in arrays]
        assert tuple(found.shape) == tuple(wanted.shape), (equation, sizes)
        assert _strides(found) == _strides(wanted), (equation, sizes)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-12, err_msg=equation)
