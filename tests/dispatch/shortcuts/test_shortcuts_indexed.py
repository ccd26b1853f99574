"""Short cuts of operators that read or write indexed elements."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import dispatcher

from .test_shortcuts import learnt, turned, turned_on  # noqa: F401

pytestmark = pytest.mark.usefixtures("turned_on")

# (x (4, 3), index, values) -> the result, and the operator that stores a short cut.
CALLS: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "index_select": (lambda x, i, y: x.index_select(0, i), "index_select"),
    "gather": (lambda x, i, y: x.gather(0, i.view(4, 1)), "gather"),
    "scatter_": (lambda x, i, y: x.scatter_(0, i.view(4, 1).expand(4, 3), y), "scatter_.src"),
    "scatter_ a number": (lambda x, i, y: x.scatter_(0, i.view(4, 1), 2.5), "scatter_.value"),
    "scatter_ that multiplies": (
        lambda x, i, y: x.scatter_(0, i.view(4, 1), y[:, :1], reduce="multiply"),
        "scatter_.reduce",
    ),
    "scatter_ that adds a number": (
        lambda x, i, y: x.scatter_(0, i.view(4, 1), 2.5, reduce="add"),
        "scatter_.value_reduce",
    ),
    "scatter_reduce_": (
        lambda x, i, y: x.scatter_reduce_(0, i.view(4, 1), y[:, :1], "amax"),
        "scatter_reduce_.two",
    ),
    "scatter_reduce_ of the source alone": (
        lambda x, i, y: x.scatter_reduce_(0, i.view(4, 1), y[:, :1], "prod", include_self=False),
        "scatter_reduce_.two",
    ),
    "index_reduce_": (lambda x, i, y: x.index_reduce_(0, i, y, "amin"), "index_reduce_"),
    "put_": (lambda x, i, y: x.put_(3 * i, y[:, 0].contiguous()), "put_"),
    "put_ that adds": (lambda x, i, y: x.put_(3 * i, y[:, 1], True), "put_"),
    "take": (lambda x, i, y: x.take(3 * i), "take"),
    "scatter_add_": (lambda x, i, y: x.scatter_add_(0, i.view(4, 1), y[:, :1]), "scatter_add_"),
    "index_add_": (lambda x, i, y: x.index_add_(0, i, y), "index_add_"),
    "index_copy_": (lambda x, i, y: x.index_copy_(0, i, y), "index_copy_"),
    "index_put_": (lambda x, i, y: x.index_put_((i,), y), "index_put_"),
    "index_put_ of two": (lambda x, i, y: x.index_put_([i, i % 3], y[0, 0]), "index_put_"),
    "index_fill_": (lambda x, i, y: x.index_fill_(0, i, -1.0), "index_fill_.int_Scalar"),
    "scatter": (lambda x, i, y: x.scatter(0, i.view(4, 1).expand(4, 3), y), "scatter.src"),
    "scatter a number": (lambda x, i, y: x.scatter(0, i.view(4, 1), 2.5), "scatter.value"),
    "scatter_add": (lambda x, i, y: x.scatter_add(0, i.view(4, 1), y[:, :1]), "scatter_add"),
    "scatter_reduce of the source alone": (
        lambda x, i, y: x.scatter_reduce(0, i.view(4, 1), y[:, :1], "amax", include_self=False),
        "scatter_reduce.two",
    ),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), "index_add"),
    "put": (lambda x, i, y: x.put(3 * i, y[:, 0].contiguous()), "put"),
}


def operands() -> tuple[Any, Any, Any]:
    index = gt.tensor([3, 0, 2, 1])
    return gt.arange(12.0).view(4, 3).clone(), index, gt.arange(12.0, 24.0).view(4, 3).clone()


def of_operands(call: Callable[[Any, Any, Any], Any]) -> Any:
    return call(*operands())


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_takes_one_with_the_same_result(name: str) -> None:
    call, at = CALLS[name]
    dispatcher.forget_plans()
    with turned(False):
        expected = call(*operands())
    assert learnt(lambda: call(*operands()), at)
    x, index, y = operands()
    version = x._version
    made = call(x, index, y)
    assert made.tolist() == expected.tolist() and made.stride() == expected.stride()
    assert x._version - version == (made is x) == at.split(".")[0].endswith("_")
    short = dispatcher.find(f"aten::{at}").table.short
    for key in short:
        short[key] = lambda *given: "taken"
    assert call(x, index, y) == "taken"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [4, -5])
def test_an_index_out_of_range_is_refused_and_nothing_is_written(name: str, wrong: int) -> None:
    call, at = CALLS[name]
    assert learnt(lambda: call(*operands()), at)
    x, index, y = operands()
    index[2] = wrong
    with turned(False), pytest.raises(errors.IndexRangeError) as expected:
        call(x, index, y)
    before = x.tolist()
    with pytest.raises(errors.IndexRangeError) as found:
        call(x, index, y)
    assert str(found.value) == str(expected.value) and x.tolist() == before


@pytest.mark.parametrize("name", ["scatter_", "index_add_", "index_copy_", "index_put_"])
@pytest.mark.parametrize("share", ["a tensor", "an array"])
def test_values_that_share_memory_with_self_are_read_before_the_write(
    name: str, share: str
) -> None:
    call, at = CALLS[name]
    assert learnt(lambda: call(*operands()), at)
    found = []
    for is_on in (False, True):
        whole = np.arange(15.0, dtype=np.float32).reshape(5, 3)
        base = gt.from_numpy(whole)
        x = gt.from_numpy(whole[1:]) if share == "an array" else base[1:]
        with turned(is_on):
            call(x, operands()[1], base[:4])
        found.append(whole.tolist())
    assert found[0] == found[1]


@pytest.mark.parametrize("index", [gt.tensor(2), gt.tensor([2, 0], dtype=gt.int32)])
def test_an_index_that_is_converted_takes_none(index: Any) -> None:
    x = operands()[0]
    expected = x[index.reshape(-1).long()].tolist()
    for _ in range(4):
        assert x.index_select(0, index).tolist() == expected


def test_gradients_pass_through_reads() -> None:
    for name in ("index_select", "gather"):
        call, at = CALLS[name]
        assert learnt(partial(of_operands, call), at)
        grads = []
        for is_on in (False, True):
            x, index, y = operands()
            with turned(is_on):
                made = call(x.requires_grad_(), index, y)
            (made * made).sum().backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]


def test_a_write_to_a_leaf_is_refused_as_ever() -> None:
    for name, (call, at) in CALLS.items():
        if at.split(".")[0].endswith("_"):
            assert learnt(partial(of_operands, call), at)
            x, index, y = operands()
            with pytest.raises(RuntimeError):
                call(x.requires_grad_(), index, y)
            assert x.tolist() == operands()[0].tolist(), name


def test_a_functional_form_takes_one_and_its_version_stays_0() -> None:
    x, index, y = operands()
    assert learnt(lambda: x.clone().index_copy_(0, index, y), "index_copy_")
    made = x.index_copy(0, index, y)
    assert made._version == 0 and x.tolist() == operands()[0].tolist()
    assert made.tolist() == x.clone().index_copy_(0, index, y).tolist()


def test_a_functional_form_records_and_tells_its_arguments_apart() -> None:
    x, index, y = operands()
    for _ in range(4):
        made = [x.scatter(dim, index.view(4, 1) % 3, y[:, :1]).tolist() for dim in (0, 1)]
    with turned(False):
        for dim in (0, 1):
            assert x.scatter(dim, index.view(4, 1) % 3, y[:, :1]).tolist() == made[dim]
    x.requires_grad_()
    x.scatter(0, index.view(4, 1), y[:, :1]).sum().backward()
    assert x.grad.tolist() == [[0.0, 1.0, 1.0]] * 4


def test_in_place_on_arrays_of_numpy_takes_one_unless_memory_is_shared() -> None:
    whole = np.arange(6.0, dtype=np.float32)
    x, y = gt.from_numpy(whole[:4]), gt.from_numpy(np.ones(4, np.float32))
    assert learnt(lambda: x.add_(y), "add_.Tensor")
    x.add_(y)
    expected = whole.copy()
    expected[:4] += 1
    assert x.add_(y).tolist() == expected[:4].tolist()
    with pytest.raises(errors.GpuTensorError):
        x.add_(gt.from_numpy(whole[2:]))
    assert whole.tolist() == expected.tolist()
