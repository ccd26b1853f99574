"""Copies, pickles and files of leaves and results keep the same attributes as PyTorch's."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def through_file(lib: Any, value: Any) -> Any:
    file = io.BytesIO()
    lib.save(value, file)
    file.seek(0)
    return lib.load(file)


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "pickle": lambda lib, x: pickle.loads(pickle.dumps(x)),
    "deepcopy": lambda lib, x: copy.deepcopy(x),
    "copy": lambda lib, x: copy.copy(x),
    "file": through_file,
}


def with_grad(x: Any) -> Any:
    (x * x).sum().backward()
    return x


def with_hook(x: Any) -> Any:
    x.register_hook(print)
    return x


def without_grad(lib: Any, x: Any) -> Any:
    with lib.no_grad():
        return x.view(-1)


WHAT: dict[str, Callable[[Any, Any], Any]] = {
    "leaf": lambda lib, x: x,
    "plain": lambda lib, x: x.detach(),
    "result": lambda lib, x: x * 2,
    "view of a leaf": lambda lib, x: x.t(),
    "view of a result": lambda lib, x: (x * 2).t(),
    "view under no_grad": without_grad,
    "with a gradient": lambda lib, x: with_grad(x),
    "with a hook": lambda lib, x: with_hook(x),
    "frozen": lambda lib, x: x.requires_grad_(False),
    "scalar": lambda lib, x: x.sum(),
}
MODES: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda lib: lib.enable_grad(), "no_grad": lambda lib: lib.no_grad(),
    "inference": lambda lib: lib.inference_mode(),
}  # fmt: skip


def facts(lib: Any, what: str, way: str, mode: str) -> Any:
    x = WHAT[what](lib, lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))
    try:
        with MODES[mode](lib), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            back = WAYS[way](lib, x)
    except RuntimeError as error:
        return str(error).partition("(graph leaves) support the deepcopy protocol at the moment.")[
            :2
        ]
    told = [str(w.message).partition(" will not be serialized")[0] for w in caught]
    grad = back.grad.tolist() if back.is_leaf and back.grad is not None else None
    shares = back.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    return (
        back.requires_grad, back.is_leaf, back.grad_fn is None, grad, back.tolist(), back.stride(),
        back.is_inference(),
        shares, told,
    )  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", WHAT)
def test_the_same_comes_back(what: str, way: str, mode: str) -> None:
    assert facts(gt, what, way, mode) == facts(torch, what, way, mode)
