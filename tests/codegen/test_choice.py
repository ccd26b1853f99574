"""The overload that a generated function or method calls, and its arguments.

Operators are replaced by recorders, so nothing is computed; an object with `_keys` is a tensor.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np  # noqa: F401 - the calls below are evaluated
import pytest

import gputensor as gt
from gputensor._generated import functions  # noqa: F401 - the calls below are evaluated
from gputensor.core._generated import index
from gputensor._generated.methods import GeneratedMethods
from gputensor.core.arguments import number
from gputensor.core.errors import ArgumentTypeError
from gputensor.dispatch import families


class Geometry:
    is_contiguous = True


class Fake(GeneratedMethods):
    """A stand-in for a tensor, with the attributes that generated code reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._keys = 1
        self._geometry = Geometry()

    def __repr__(self) -> str:
        return self.name

    def _operand(self, op: str, other: Any, is_boolean: bool) -> Any:
        return number(other)

    def _foreign(self, op: str, other: Any) -> Any:
        return NotImplemented


class Recorder(dict[int, Any]):
    """Replaces an operator's table: every call returns the operator and the arguments."""

    short: dict[Any, Any] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    def __missing__(self, key_set: int) -> Any:
        return lambda key_set, *arguments: (self.name, *arguments)


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in set(index.OPERATORS.values()):
        module = families.called(family)
        for name in [name for name in vars(module) if name.startswith("op_")]:
            recorder = SimpleNamespace(table=Recorder(name.removeprefix("op_")))
            monkeypatch.setattr(module, name, recorder)


x, y, out = Fake("x"), Fake("y"), Fake("out")
f64, cpu = gt.float64, gt.device("cpu")
storage = object()

FUNCTIONS = [
    ("sum(x)", ("sum", x, None)),
    ("sum(x, dtype=f64)", ("sum", x, f64)),
    ("sum(x, 0)", ("sum_dim_IntList", x, 0, False, None)),
    ("sum(x, keepdim=True)", ("sum_dim_IntList", x, None, True, None)),
    ("sum(x, (0, 1), out=out)", ("sum_IntList_out", x, (0, 1), False, None, out)),
    ("sum(x, out=out)", ("sum_out", x, None, out)),
    ("any(x)", ("any", x)),
    ("any(x, 1)", ("any_dim", x, 1, False)),
    ("any(x, [0, 1])", ("any_dims", x, (0, 1), False)),
    ("any(x, None, True)", ("any_dims", x, None, True)),
    ("all(x, 1, out=out)", ("all_out", x, 1, False, out)),
    ("all(x, (0,), out=out)", ("all_dims_out", x, (0,), False, out)),
    ("all(x, out=out)", ("all_all_out", x, out)),
    ("squeeze(x)", ("squeeze", x)),
    ("squeeze(x, 0)", ("squeeze_dim", x, 0)),
    ("squeeze(x, (0, 2))", ("squeeze_dims", x, (0, 2))),
    ("movedim(x, 0, 1)", ("movedim_int", x, 0, 1)),
    ("movedim(x, (0, 1), (1, 0))", ("movedim_intlist", x, (0, 1), (1, 0))),
    ("split(x, 2)", ("split_Tensor", x, 2, 0)),
    ("split(x, [1, 2], 1)", ("split_sizes", x, (1, 2), 1)),
    ("div(x, y)", ("div_Tensor", x, y)),
    ("div(x, 2, rounding_mode='floor')", ("div_Tensor_mode", x, 2, "floor")),
    ("div(x, 2, rounding_mode='floor', out=out)", ("div_out_mode", x, 2, "floor", out)),
    ("add(x, np.float32(2), alpha=3)", ("add_Tensor", x, 2.0, 3)),
    ("add(x, np.float32(2), out=out)", ("add_out", x, 2.0, 1, out)),
    ("where(x, 1, np.int8(2))", ("where_self", x, 1, 2)),
    ("fill_(x, 1)", ("fill__Scalar", x, 1)),
    ("fill_(x, y)", ("fill__Tensor", x, y)),
    ("cat([x, y])", ("cat", [x, y], 0)),
    ("cat((x, y), 1, out=out)", ("cat_out", (x, y), 1, out)),
    ("arange(5)", ("arange", 5, None, None, None, None)),
    ("arange(end=5)", ("arange", 5, None, None, None, None)),
    ("arange(1, 5)", ("arange_start", 1, 5, None, None, None, None)),
    ("arange(1, end=5)", ("arange_start", 1, 5, None, None, None, None)),
    ("arange(1, 5, 2, dtype=f64)", ("arange_start_step", 1, 5, 2, f64, None, None, None)),
    ("arange(5, out=out)", ("arange_out", 5, out)),
    ("arange(1, 5, out=out)", ("arange_start_out", 1, 5, 1, out)),
    ("eye(2)", ("eye", 2, None, None, None, None)),
    ("eye(2, 3, device='cpu')", ("eye_m", 2, 3, None, None, cpu, None)),
    ("eye(2, out=out)", ("eye_out", 2, out)),
    ("zeros(2, 3)", ("zeros", (2, 3), None, None, None, None)),
    ("zeros(2)", ("zeros", (2,), None, None, None, None)),
    ("zeros(())", ("zeros", (), None, None, None, None)),
    ("zeros([2, 3])", ("zeros", (2, 3), None, None, None, None)),
    ("zeros(size=(2, 3))", ("zeros", (2, 3), None, None, None, None)),
    ("zeros(np.int64(2))", ("zeros", (2,), None, None, None, None)),
    ("full((2,), 1.5)", ("full", (2,), 1.5, None, None, None, None)),
    ("permute(x, (1, 0))", ("permute", x, (1, 0))),
]  # fmt: skip


@pytest.mark.parametrize("call, wanted", FUNCTIONS, ids=[call for call, _ in FUNCTIONS])
def test_functions(call: str, wanted: tuple[Any, ...]) -> None:
    found = eval(f"functions.{call}", globals())
    assert len(found) == len(wanted)
    assert all(
        a is b or (not isinstance(b, Fake) and a == b and type(a) is type(b))
        for a, b in zip(found, wanted)
    ), found


METHODS = [
    ("x.view(2, 3)", ("view", x, (2, 3))),
    ("x.view(-1)", ("view", x, (-1,))),
    ("x.view((2, 3))", ("view", x, (2, 3))),
    ("x.view(size=(2, 3))", ("view", x, (2, 3))),
    ("x.view(f64)", ("view_dtype", x, f64)),
    ("x.view(dtype=f64)", ("view_dtype", x, f64)),
    ("x.permute(1, 0)", ("permute", x, (1, 0))),
    ("x.permute(dims=(1, 0))", ("permute", x, (1, 0))),
    ("x.expand(2, 3)", ("expand", x, (2, 3), False)),
    ("x.to(f64)", ("to_dtype", x, f64, False, False, None)),
    ("x.to('cpu')", ("to_dtype_layout", x, None, None, cpu, None, False, False, None)),
    ("x.to('cpu', f64)", ("to_device", x, cpu, f64, False, False, None)),
    ("x.to('cpu', f64, True, True)", ("to_device", x, cpu, f64, True, True, None)),
    ("x.to(f64, True)", ("to_dtype", x, f64, True, False, None)),
    ("x.to(y)", ("to_other", x, y, False, False, None)),
    ("x.to(device='cpu', copy=True)", ("to_dtype_layout", x, None, None, cpu, None, False, True,
    None)),
    ("x.to()", ("to_dtype_layout", x, None, None, None, None, False, False, None)),
    ("x.set_()", ("set_", x)),
    ("x.set_(y)", ("set__source_Tensor", x, y)),
    ("x.set_(storage)", ("set__source_Storage", x, storage)),
    ("x.set_(storage, 0, (2,))", ("set__source_Storage_storage_offset", x, storage, 0, (2,), ())),
    ("x.contiguous()", x),
    ("x.contiguous(memory_format=gt.channels_last)", ("contiguous", x, gt.channels_last)),
    ("x.uniform_(1, 2)", ("uniform_", x, 1, 2, None)),
    ("x.where(y, 0)", ("where_self", y, x, 0)),
    ("x.mT", ("mT", x)),
    ("x + y", ("add_Tensor", x, y, 1)),
    ("x + np.float64(2)", ("add_Tensor", x, 2.0, 1)),
    ("1 + x", ("add_Tensor", x, 1, 1)),
    ("1 - x", ("sub_Tensor", 1, x, 1)),
    ("1 / x", ("div_Tensor", 1, x)),
    ("x // 2", ("div_Tensor_mode", x, 2, "floor")),
    ("7 // x", ("div_Tensor_mode", 7, x, "floor")),
    ("x @ y", ("matmul", x, y)),
    ("-x", ("neg", x)),
    ("abs(x)", ("abs", x)),
    ("x == 1", ("eq_Tensor", x, 1)),
    ("1 < x", ("gt_Tensor", x, 1)),
    ("x.__iadd__(y)", ("add__Tensor", x, y, 1)),
    ("x.__ifloordiv__(2)", ("div__Tensor_mode", x, 2, "floor")),
]  # fmt: skip


@pytest.mark.parametrize("call, wanted", METHODS, ids=[call for call, _ in METHODS])
def test_methods(call: str, wanted: Any) -> None:
    found = eval(call, globals())
    if wanted is x:
        assert found is x
    else:
        assert len(found) == len(wanted)
        assert all(a is b or (not isinstance(b, Fake) and a == b) for a, b in zip(found, wanted)), (
            found
        )


WRONG = [
    ("functions.zeros()", "zeros: 'size' must be given (got nothing)"),
    ("x.view()", "view: 'size' must be given (got nothing)"),
    ("x.view(1, dtype=f64)", "view: arguments must be those of one form: (size) or (dtype)"),
    (
        "functions.zeros(2, dtype=str)",
        "zeros: 'dtype' must be a gputensor dtype (got str)",
    ),
    ("functions.zeros(2, dtype='f4')", "zeros: 'dtype' must be a gputensor dtype (got 'f4')"),
    ("functions.add(x, y, out=3)", "add: 'out' must be a Tensor (got 3)"),
    ("x.to('cpu', f64, True, True, 5)", "to: must have at most 4 positional arguments"),
    ("x.to(1.5)", "device: 'type' must be a device string or a device (got 1.5)"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[call for call, _ in WRONG])
def test_what_is_refused_before_dispatch(call: str, message: str) -> None:
    with pytest.raises(ArgumentTypeError) as raised:
        eval(call, globals())
    assert str(raised.value) == message


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "@", "<", ">="])
def test_foreign_operands_get_their_chance(operator: str) -> None:
    with pytest.raises(TypeError, match="Fake"):
        eval(f"x {operator} 'text'", globals())


def test_equality_with_foreign_objects_is_identity() -> None:
    assert (x == "text") is False and (x != None) is True  # noqa: E711


def test_tensors_hash_by_identity() -> None:
    assert hash(x) == object.__hash__(x) and len({x, y, x}) == 2
