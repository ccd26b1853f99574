"""Every operator with all its arguments by keyword: function, method, overload, packet, redispatch.

Functions name the first operand `input`, as PyTorch does; schemas and `gt.ops` name it `self`,
which must not conflict with Python's self.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt
from codegen.model import Op
from gputensor.dispatch import tls

from ..harness import cases as forms
from ..harness.cases import CALLABLE, OPS, OPS_OF, Call
from ..rows import Row
from .test_ops_variants import assert_equal


def _named(op: Op, function: Callable[..., Any], args: tuple[Any, ...]) -> dict[str, Any] | None:
    """Return the positional arguments by the schema's names; None if the Python signature lacks one
    of them."""
    taken = inspect.signature(function).parameters
    known = {name: x for name, x in taken.items() if x.kind is not x.VAR_POSITIONAL}
    names = [argument.name for argument in op.arguments]
    if "input" in known:
        names = ["input" if name == "self" else name for name in names]
    named = dict(zip([name for name in names if name != "self"], args))
    return named if named.keys() <= known.keys() and len(named) == len(args) else None


def _by_numpy_names(function: Callable[..., Any], named: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments by NumPy's names; None if the function has no such name for any of
    them."""
    taken = inspect.signature(function).parameters
    second = {"dim": "axis", "keepdim": "keepdims"}
    if "dim" not in named or "axis" not in taken or named["dim"] is None:
        return None
    return {second.get(name, name): value for name, value in named.items()}


def _calls(row: Row, call: Call) -> Iterator[tuple[str, Callable[[], Any]]]:
    args, kwargs = call.args, call.kwargs
    for op in OPS_OF[row.name]:
        if op.base != row.name or not op.is_public or not forms.takes(op, args, kwargs):
            continue
        if "function" in op.variants:
            function = forms.public(op)
            named = _named(op, function, args)
            if named is not None:
                yield f"gt.{op.public_name}", lambda f=function, n=named: f(**n, **kwargs)
            by_numpy = _by_numpy_names(function, {**(named or {}), **kwargs})
            if named is not None and by_numpy is not None:
                yield f"gt.{op.public_name}(axis=)", lambda f=function, n=by_numpy: f(**n)
        if "method" in op.variants:
            place = [a.name for a in op.arguments].index("self")
            rest = (*args[:place], *args[place + 1 :])
            bound = getattr(args[place], op.base)
            named = _named(op, bound, rest)
            if named is not None:
                yield f"x.{op.base}", lambda f=bound, n=named: f(**n, **kwargs)
            by_numpy = _by_numpy_names(bound, {**(named or {}), **kwargs})
            if named is not None and by_numpy is not None:
                yield f"x.{op.base}(axis=)", lambda f=bound, n=by_numpy: f(**n)
    for op in OPS_OF[row.name]:
        if op.base != row.name or op.kind == "out" or not forms.takes(op, args, kwargs):
            continue
        operator = forms.operator_of(op)
        named = {**dict(zip([a.name for a in op.arguments], args)), **kwargs}
        yield f"gt.ops.aten.{op.name}", lambda o=operator, n=named: o(**n)
        packet = forms.packet(op.base)
        yield f"gt.ops.aten.{op.base}", lambda p=packet, n=named: p(**n)
        _, key_set = operator.table.signature.arrange(operator, (), named)
        include, keep = tls.state.get()
        key_set = (key_set | include) & keep
        yield f"{op.name}.redispatch", lambda o=operator, k=key_set, n=named: o.redispatch(k, **n)


@pytest.mark.parametrize("row", forms.some(CALLABLE, 4), ids=str)
def test_all_arguments_by_keyword(row: Row) -> None:
    compared = 0
    for case in forms.one_of_each_form(row):
        wanted = case.build().run()
        count = len(list(_calls(row, case.build())))
        for number in range(count):
            form, run = list(_calls(row, case.build()))[number]
            gt.manual_seed(7)
            assert_equal(case, f"{form} by keyword", run(), wanted)
            compared += 1
    assert compared or row.name == "to"


def test_a_dimension_comes_by_one_name() -> None:
    x = gt.arange(6.0).reshape(2, 3)
    assert x.sum(axis=0, keepdims=True).shape == (1, 3) and x.sum(0, keepdims=True).shape == (1, 3)
    assert gt.cat([x, x], axis=1).shape == (2, 6) and x.softmax(axis=0).shape == (2, 3)
    for both in (lambda: x.sum(0, axis=1), lambda: gt.cumsum(x, 0, axis=0)):
        with pytest.raises(TypeError, match="'dim' and 'axis' must not both be given"):
            both()
    for none in (lambda: x.cumsum(), lambda: gt.softmax(x)):
        with pytest.raises(TypeError, match="'dim' must be given"):
            none()
    with pytest.raises(TypeError, match="axis"):
        x.select(axis=0, index=0)  # dim has no second name if a required argument follows it


def test_the_first_operand_is_input_in_functions_and_self_in_schemas() -> None:
    from gputensor._generated import functions

    public = [op for op in OPS if "function" in op.variants and op.is_public and op.kind != "out"]
    with_tensor = [op for op in public if op.tensors]
    assert len(with_tensor) > 60
    for op in with_tensor:
        names = list(inspect.signature(getattr(functions, op.base)).parameters)
        assert "self" not in names, op.base
        overloads = [o for o in with_tensor if o.base == op.base]
        has_input = any(a.name in ("self", "input") for o in overloads for a in o.arguments)
        assert ("input" in names) == has_input, op.base
    x = gt.tensor([-1.0])
    assert gt.abs(input=x).item() == gt.ops.aten.abs.default(self=x).item() == 1
    with pytest.raises(TypeError, match="self"):
        gt.abs(self=x)  # as torch.abs


def test_a_custom_operator_may_have_an_argument_named_self_or_args() -> None:
    with gt.library.Library("keywords", "FRAGMENT") as lib:
        lib.define("f(Tensor self, int key_set, int operator, int args) -> Tensor")
        lib.impl("f", lambda self, key_set, operator, args: self * key_set + operator * args, "CPU")
        x = gt.ones(1)
        named = {"self": x, "key_set": 2, "operator": 3, "args": 4}
        for call in (gt.ops.keywords.f, gt.ops.keywords.f.default):
            assert call(**named).item() == 14
        made = gt.library.custom_op(
            "keywords::g",
            lambda self, args: self * args,
            mutates_args=(),
            schema="(Tensor self, int args) -> Tensor",
        )
        assert made(self=x, args=3).item() == 3
        assert gt.ops.keywords.f.default.redispatch(gt.dispatch.key_set(x), **named).item() == 14
