"""torch.signal.windows equals PyTorch's, over lengths, options and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.as_torch.windows import OF_WINDOWS

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "exponential": [{"tau": 2.5}, {"tau": 0.7, "center": 1.25, "sym": False}],
    "gaussian": [{"std": 0.9}], "kaiser": [{"beta": 0.0}, {"beta": 3.5}],
    "general_cosine": [{"a": [0.3, 0.5, 0.2]}], "general_hamming": [{"alpha": 0.25}],
}  # fmt: skip
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("hann", {"M": -1}, "'M' must not be negative"), ("hann", {"M": 2.0}, "'M' must be a length"),
    ("hann", {"M": 3, "dtype": gt.float16}, "'dtype' must be float32 or float64"),
    ("exponential", {"M": 3, "tau": 0}, "'tau' must be positive"),
    ("exponential", {"M": 3, "center": 1.0}, "'center' must be None where sym is True"),
    ("gaussian", {"M": 3, "std": -1.0}, "'std' must be positive"),
    ("kaiser", {"M": 3, "beta": -1.0}, "'beta' must not be negative"),
    ("general_cosine", {"M": 3, "a": []}, "'a' must have a coefficient"),
    ("general_cosine", {"M": 3, "a": 2}, "'a' must be numbers"),
]  # fmt: skip


def test_some_by_hand() -> None:
    np.testing.assert_allclose(OF_WINDOWS["hann"](5), [0, 0.5, 1, 0.5, 0], atol=1e-6)
    np.testing.assert_allclose(OF_WINDOWS["bartlett"](4, sym=False), [0, 0.5, 1, 0.5])
    assert OF_WINDOWS["kaiser"](3, dtype=gt.float64, requires_grad=True).requires_grad


@pytest.mark.parametrize(("name", "given", "said"), REFUSED)
def test_refused(name: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(gt.GpuTensorError, match=f"{name}|general_cosine: {said}") as caught:
        OF_WINDOWS[name](**given)
    assert said in str(caught.value)


@pytest.mark.oracle
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", [*OF_WINDOWS])
def test_as_pytorchs(name: str, sym: bool) -> None:
    torch = pytest.importorskip("torch")
    windows = pytest.importorskip("torch.signal.windows")
    assert {*OF_WINDOWS} == {*windows.__all__}
    for options in SETTINGS.get(name, []) or [{}]:
        for length in (0, 1, 2, 3, 8, 33):
            given = {"sym": sym, **options}
            for dtype, tolerance in (("float32", 2e-6), ("float64", 1e-12)):
                wanted = getattr(windows, name)(length, dtype=getattr(torch, dtype), **given)
                found = OF_WINDOWS[name](length, dtype=getattr(gt, dtype), **given)
                assert str(found.dtype) == f"gputensor.{dtype}"
                np.testing.assert_allclose(found.numpy(), wanted.numpy(), tolerance, tolerance)
