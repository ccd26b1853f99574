"""Schemas from annotations. tests/oracle/test_custom_op_oracle.py compares the texts with
PyTorch's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, List, Optional, Tuple, Union

import pytest

import gputensor as gt
from gputensor import Tensor
from gputensor.core import schema
from gputensor.core.errors import ArgumentValueError
from gputensor.library import infer_schema

CPU = gt.device("cpu")


def many(
    x: Tensor,
    ys: List[Tensor],
    o: Optional[Tensor],
    oo: Sequence[Optional[Tensor]],
    of: gt.dtype = gt.float64,
    at: gt.device = CPU,
    n: Optional[float] = None,
    s: str = 'a"\\b',
    b: bool | None = False,
    f: float = 1e-5,
    i: int = -3,
    nn: Optional[list[int]] = None,
    *,
    k: float,
    num: int | float | bool = 2,
) -> Tuple[Tensor, List[Tensor], int, float, bool, Union[int, float]]:
    raise AssertionError


TEXT = (
    'Tensor x, Tensor[] ys, Tensor? o, Tensor?[] oo, ScalarType of=float64, Device at="cpu", '
    "float? n=None, "
    'str s="a\\"\\\\b", bool? b=False, float f=1e-05, SymInt i=-3, SymInt[]? nn=None, *, float k, '
    "Scalar num=2) -> "
    "(Tensor, Tensor[], SymInt, float, bool, Scalar)"
)


def test_all_types_and_defaults() -> None:
    assert infer_schema(many) == f"({TEXT}"
    assert infer_schema(many, op_name="t::many", mutates_args=()) == f"t::many({TEXT}"
    parsed = schema.parse(infer_schema(many, op_name="t::many"))
    defaults = {a.name: a.default_value for a in parsed.arguments if a.has_default}
    assert defaults["of"] is gt.float64 and defaults["at"] == "cpu" and defaults["s"] == 'a"\\b'


def test_defaults_reach_the_kernel() -> None:
    def f(x: Tensor, of: gt.dtype = gt.int16, at: gt.device = CPU, n: float = 2) -> Tensor:
        assert of is gt.int16 and at == gt.device("cpu") and type(n) is float
        return x.to(of)

    op = gt.library.custom_op("t::f", f, mutates_args=())
    assert op(gt.ones(1)).dtype is gt.int16


def test_written_arguments_are_marked() -> None:
    marked = infer_schema(many, mutates_args={"ys", "o"})
    assert marked.startswith("(Tensor x, Tensor(a1!)[] ys, Tensor(a2!)? o, Tensor?[] oo,")
    unknown = infer_schema(many, mutates_args="unknown")
    assert unknown.startswith(
        "(Tensor(a0!) x, Tensor(a1!)[] ys, Tensor(a2!)? o, Tensor(a3!)?[] oo, ScalarType"
    )


def test_returns() -> None:
    def nothing(x: Tensor) -> None: ...
    def one(x: Tensor) -> Tuple[Tensor]: ...

    assert (
        infer_schema(nothing) == "(Tensor x) -> ()"
        and infer_schema(one) == "(Tensor x) -> ((Tensor))"
    )
    op = gt.library.custom_op(
        "t::one", lambda x: (x + 1,), mutates_args=(), schema=infer_schema(one)
    )
    made = op(gt.ones(1, requires_grad=True))
    assert type(made) is tuple and made[0].tolist() == [2] and made[0].requires_grad
    with pytest.raises(TypeError, match="must return"):
        op.register_kernel("cpu", lambda x: x + 1)
        op(gt.ones(1))


def tagged(x: Tensor, *, out: Tensor, more: Tensor) -> Tuple[Tensor, Tensor]: ...


def test_tags_return_what_was_written() -> None:
    text = infer_schema(tagged, mutates_args=("out", "more"), tags=("out",))
    assert text == "(Tensor x, *, Tensor(a1!) out, Tensor(a2!) more) -> (Tensor(a1!), Tensor(a2!))"

    def inplace(x: Tensor, y: Tensor) -> Tensor: ...

    assert (
        infer_schema(inplace, mutates_args="x".split(), tags=("inplace",))
        == "(Tensor(a0!) x, Tensor y) -> Tensor(a0!)"
    )
    for arguments, said in (
        ({"y"}, "write to its first"),
        ({"x", "y"}, "to no other"),
        ((), "write to its first"),
    ):
        with pytest.raises(ArgumentValueError, match=said):
            infer_schema(inplace, mutates_args=arguments, tags=("inplace",))
    with pytest.raises(
        ArgumentValueError, match=r"return what it writes to, Tensor, not \(Tensor, Tensor\)"
    ):
        infer_schema(tagged, mutates_args=("out",), tags=("out",))


def _annotated(annotation: Any, result: Any = Tensor, default: Any = None) -> Any:
    def f(x: Any = default) -> Any: ...

    f.__annotations__ = {"x": annotation, "return": result}
    if default is None:
        f.__defaults__ = None
    return f


@pytest.mark.parametrize(
    "function, said",
    [
        (lambda x: x, r"'x' must have an annotation that a schema can say \(got none\)"),
        (_annotated(dict), r"'x' must have .* \(got dict\)"),
        (_annotated(List), r"'x' must have .* \(got List\)"),
        (_annotated(Tuple[int, int]), r"'x' .*Tuple\[int, int\]"),
        (_annotated(dict[str, int]), r"'x' .*dict\[str, int\]"),
        (_annotated(Union[int, Tensor]), "'x' .*Union"),
        (_annotated("nowhere"), "every argument .*'nowhere' is not defined"),
        (_annotated(Tensor, str), r"the result must .*\(got str\)"),
        (_annotated(Tensor, Optional[Tensor]), "the result must .*Optional"),
        (_annotated(Tensor, object), "the result must"),
        (_annotated(int, Tensor, object()), "the default of 'x'"),
    ],
)  # fmt: skip
def test_what_a_schema_cannot_say(function: Any, said: str) -> None:
    with pytest.raises(ArgumentValueError, match=said):
        infer_schema(function)


def test_any_number_of_arguments() -> None:
    def starred(*xs: Tensor) -> Tensor: ...

    with pytest.raises(
        ArgumentValueError, match=r"'\*xs' must have .*a variable number of arguments"
    ):
        infer_schema(starred)

    def without(x: Tensor): ...

    with pytest.raises(ArgumentValueError, match=r"the result must .*\(got none\)"):
        infer_schema(without)
