"""pickle, copy, deepcopy, save and load with autograd: leaves, results, hooks, subclasses."""

from __future__ import annotations

import copy
import io
import json
import pickle
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors


def saved(value: Any) -> Any:
    file = io.BytesIO()
    gt.save(value, file)
    file.seek(0)
    return gt.load(file)


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


DUPLICATES = [pickled, saved, copy.deepcopy, copy.copy]
BY_BYTES = [pickled, saved, copy.copy]
each = pytest.mark.parametrize("duplicate", DUPLICATES, ids=lambda f: f.__name__)


@each
@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_a_leaf_stays_a_leaf(duplicate: Callable[[Any], Any], device: str) -> None:
    if device != "cpu" and gt.cuda.device_count() < 2:
        device = "cuda:0"
    w = gt.ones(2, 3, device=device, requires_grad=True)
    (w * 3).sum().backward()
    back = duplicate(w)
    assert back is not w and back.requires_grad and back.is_leaf and back.grad_fn is None
    assert back.device == w.device and back.tolist() == w.tolist()
    if duplicate is copy.deepcopy:
        assert back.grad.tolist() == w.grad.tolist() and back.grad is not w.grad
    else:
        assert back.grad is None
    back.grad = None
    (back * 2).sum().backward()
    assert back.grad.tolist() == [[2.0] * 3] * 2 and w.grad.tolist() == [[3.0] * 3] * 2
    assert not duplicate(w.detach()).requires_grad


@pytest.mark.parametrize("duplicate", BY_BYTES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [
    lambda w: w * 2, lambda w: w.t(), lambda w: (w * 2).t(), lambda w: (w * 1j).conj(),
], ids=["result", "view of a leaf", "view of a result", "lazy"])  # fmt: skip
def test_a_result_loses_its_history_and_not_its_wish(
    duplicate: Callable[[Any], Any], make: Any
) -> None:
    w = gt.rand(2, 3, requires_grad=True)
    y = make(w)
    back = duplicate(y)
    assert (
        back.requires_grad
        and back.is_leaf
        and back.tolist() == y.tolist()
        and back.stride() == y.stride()
    )
    assert y.grad_fn is not None and w.grad is None
    with gt.no_grad():
        quiet = w.t()
    assert not duplicate(quiet).requires_grad or quiet.requires_grad


def test_results_are_not_deepcopied() -> None:
    w = gt.rand(2, 3, requires_grad=True)
    for y in (w * 2, w.t()):
        with pytest.raises(
            RuntimeError,
            match=r"^Only Tensors created explicitly by the user \(graph leaves\) support the "
            r"deepcopy protocol at the moment\.",
        ):
            copy.deepcopy({"y": y})


@each
def test_modes_do_not_matter(duplicate: Callable[[Any], Any]) -> None:
    w = gt.rand(2, requires_grad=True)
    with gt.no_grad():
        assert duplicate(w).requires_grad
    with gt.inference_mode():
        inside, plain = duplicate(w), gt.ones(2)
        assert inside.requires_grad
    assert inside.is_inference()
    outside = duplicate(plain)
    assert not outside.is_inference()
    outside.requires_grad_()


@each
def test_what_shares_memory_shares_it_after(duplicate: Callable[[Any], Any]) -> None:
    w = gt.rand(4, requires_grad=True)
    back, same, bytes_of = (
        duplicate((w, w, w.detach()[1:])) if duplicate is not copy.copy else (w, w, w.detach()[1:])
    )
    assert back is same and back.requires_grad and not bytes_of.requires_grad
    with gt.no_grad():
        back[2] = 7
    assert bytes_of[1].item() == 7


def test_a_gradient_is_copied_once_with_its_leaf() -> None:
    w = gt.rand(3, requires_grad=True)
    (w * w).sum().backward()
    back, gradient = copy.deepcopy([w, w.grad])
    assert back.grad is gradient and gradient is not w.grad
    gradient, back = copy.deepcopy([w.grad, w])
    assert back.grad is gradient
    w.grad = None
    assert copy.deepcopy(w).grad is None


def test_hooks_stay_behind() -> None:
    w = gt.rand(3, requires_grad=True)
    calls = []
    w.register_hook(lambda g: calls.append("hook"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        twin = copy.deepcopy(w)
    for duplicate in BY_BYTES:
        with pytest.warns(
            UserWarning, match="backward hook <function .*> on tensor will not be serialized"
        ):
            again = duplicate(w)
        again.sum().backward()
    twin.sum().backward()
    assert not calls
    y = w * 2
    y.register_hook(print)
    with pytest.warns(UserWarning, match="backward hook <built-in function print> on tensor"):
        pickle.dumps(y)
    v = gt.rand(3, requires_grad=True)
    v.register_post_accumulate_grad_hook(print)
    with pytest.warns(UserWarning, match="on tensor will not be serialized"):
        pickle.dumps(v)


def test_graphs_are_not_pickled() -> None:
    y = gt.rand(3, requires_grad=True).sum()
    for work in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="^cannot pickle 'SumBackward0' object$"):
            work(y.grad_fn)  # type: ignore[operator]


# --- subclasses -----------------------------------------------------------------------------------


class Parameter(gt.Tensor):
    """A weight class as in user code."""

    def __new__(cls, data: gt.Tensor, name: str = "") -> Parameter:
        made = data.detach().as_subclass(cls).requires_grad_()
        made.name, made.related = name, []
        return made  # type: ignore[no-any-return]

    name: str
    related: list[Any]


class Slotted(gt.Tensor):
    __slots__ = ("note",)


class Handled(gt.Tensor):
    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__gputensor_dispatch__(op, types, args, kwargs)


@pytest.mark.parametrize("duplicate", [pickled, copy.deepcopy, copy.copy], ids=lambda f: f.__name__)
def test_subclasses_keep_their_class_and_attributes(duplicate: Callable[[Any], Any]) -> None:
    p = Parameter(gt.ones(2), "weight")
    p.related.append(p)  # a cycle
    back = duplicate(p)
    assert type(back) is Parameter and back.requires_grad and back.is_leaf and back.name == "weight"
    assert (back.related is p.related) if duplicate is copy.copy else (back.related[0] is back)
    back.sum().backward()
    assert back.grad.tolist() == [1.0, 1.0]
    slotted = gt.ones(2).as_subclass(Slotted)
    slotted.note = "kept"
    assert type(duplicate(slotted)) is Slotted and duplicate(slotted).note == "kept"
    handled = duplicate(gt.ones(2).as_subclass(Handled))
    assert type(handled) is Handled and "Python" in gt.dispatch.key_set(handled)


def test_subclasses_are_saved_as_tensors() -> None:
    back = saved({"p": Parameter(gt.ones(2), "weight")})["p"]
    assert type(back) is gt.Tensor and back.requires_grad


def test_wrappers_have_nothing_to_pickle() -> None:
    wrapped = gt.Tensor._make_wrapper_subclass(Handled, (2, 3))
    for work in (pickle.dumps, copy.deepcopy):
        with pytest.raises(
            errors.GpuTensorError,
            match="'self' must have memory .*; define __reduce_ex__ and __deepcopy__ in its class",
        ):
            work(wrapped)  # type: ignore[operator]


# --- files ----------------------------------------------------------------------------------------


def test_files_say_it_only_where_it_is_true() -> None:
    file = io.BytesIO()
    gt.save([gt.ones(1, requires_grad=True), gt.ones(1)], file)
    back = gt.load(file, map_location="cuda:0")
    assert [(x.requires_grad, x.is_leaf, x.device.type) for x in back] == [
        (True, True, "cuda"),
        (False, True, "cuda"),
    ]


@pytest.mark.parametrize(("value", "dtype"), [(1, "float32"), ("yes", "float32"), (True, "int32")])
def test_damaged_files_say_so(value: Any, dtype: str) -> None:
    """The files have the former format of `save`."""
    described = {
        "format": "gputensor", "version": 1, "byteorder": "little",
        "storages": [{"nbytes": 4, "device": "cpu"}], "value": {"tensor": 0},
        "tensors": [{"storage": 0, "offset": 0, "dtype": dtype, "sizes": [1], "strides": [1],
                     "requires_grad": value}],
    }  # fmt: skip
    damaged = io.BytesIO()
    with zipfile.ZipFile(damaged, "w") as archive:
        archive.writestr("header.json", json.dumps(described))
        archive.writestr("storages/0", bytes(4))
    with pytest.raises(errors.FileFormatError, match="requires_grad"):
        gt.load(damaged)
