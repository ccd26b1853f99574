"""Merging overloads to one function: with PyTorch's schemas, and against PyTorch's choice."""

from __future__ import annotations

from typing import Any

import pytest

from codegen import load, merge

# Schemas with each kind of difference that the rule must handle; they need not be real operators.
SCHEMAS = """
all(Tensor self)
all.dim(Tensor self, int dim, bool keepdim=False)
all.dims(Tensor self, int[]? dim=None, bool keepdim=False)
argsort(Tensor self, int dim=-1, bool descending=False)
argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False)
bitwise_and.Tensor(Tensor self, Tensor other)
bitwise_and.Scalar(Tensor self, Scalar other)
bitwise_and.Scalar_Tensor(Scalar self, Tensor other)
clamp(Tensor self, Scalar? min=None, Scalar? max=None)
clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None)
count_nonzero(Tensor self, int? dim=None)
count_nonzero.dim_IntList(Tensor self, int[] dim)
div.Tensor(Tensor self, Tensor other)
div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode)
eq.Tensor(Tensor self, Tensor other)
eq.Scalar(Tensor self, Scalar other)
index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value)
index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value)
isin.Tensor_Tensor(Tensor elements, Tensor test_elements, *, bool invert=False)
isin.Tensor_Scalar(Tensor elements, Scalar test_element, *, bool invert=False)
isin.Scalar_Tensor(Scalar element, Tensor test_elements, *, bool invert=False)
lerp.Scalar(Tensor self, Tensor end, Scalar weight)
lerp.Tensor(Tensor self, Tensor end, Tensor weight)
linspace(Scalar start, Scalar end, int steps)
linspace.Tensor_Tensor(Tensor start, Tensor end, int steps)
linspace.Tensor_Scalar(Tensor start, Scalar end, int steps)
linspace.Scalar_Tensor(Scalar start, Tensor end, int steps)
max(Tensor self)
max.dim(Tensor self, int dim, bool keepdim=False)
max.other(Tensor self, Tensor other)
median(Tensor self)
median.dim(Tensor self, int dim, bool keepdim=False)
normal.Tensor_float(Tensor mean, float std=1, *, Generator? generator=None)
normal.float_Tensor(float mean, Tensor std, *, Generator? generator=None)
normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None)
normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None)
pow.Tensor_Tensor(Tensor self, Tensor exponent)
pow.Scalar(Scalar self, Tensor exponent)
pow.Tensor_Scalar(Tensor self, Scalar exponent)
quantile(Tensor self, Tensor q, int? dim=None, bool keepdim=False)
quantile.scalar(Tensor self, float q, int? dim=None, bool keepdim=False)
randint(SymInt high, SymInt[] size)
randint.low(SymInt low, SymInt high, SymInt[] size)
repeat_interleave.Tensor(Tensor repeats)
repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None)
repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None)
round(Tensor self)
round.decimals(Tensor self, *, int decimals)
scatter.src(Tensor self, int dim, Tensor index, Tensor src)
scatter.value(Tensor self, int dim, Tensor index, Scalar value)
scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce)
scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce)
sort(Tensor self, int dim=-1, bool descending=False)
sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False)
std(Tensor self, bool unbiased=True)
std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False)
std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)
tensor_split.sections(Tensor self, SymInt sections, int dim=0)
tensor_split.indices(Tensor self, SymInt[] indices, int dim=0)
trapezoid.x(Tensor y, Tensor x, *, int dim=-1)
trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1)
where(Tensor condition)
where.self(Tensor condition, Tensor self, Tensor other)
where.ScalarOther(Tensor condition, Tensor self, Scalar other)
where.ScalarSelf(Tensor condition, Scalar self, Tensor other)
where.Scalar(Tensor condition, Scalar self, Scalar other)
"""

# call -> the chosen overload; `i` has indices, `b` bools, `v` one dimension.
CHOICES = {
    "all(x)": "all", "all(x, 1)": "all.dim", "all(x, (0, 1))": "all.dims",
    "all(x, keepdim=True)": "all.dims", "all(x, dim=1, keepdim=True)": "all.dim",
    "argsort(x)": "argsort", "argsort(x, 1, True)": "argsort",
    "argsort(x, stable=True)": "argsort.stable",
    "argsort(x, dim=0, stable=True)": "argsort.stable",
    "bitwise_and(i, i)": "bitwise_and.Tensor", "bitwise_and(i, 3)": "bitwise_and.Scalar",
    "bitwise_and(3, i)": "bitwise_and.Scalar_Tensor",
    "clamp(x, 0, 1)": "clamp", "clamp(x, max=1)": "clamp", "clamp(x, x, x)": "clamp.Tensor",
    "clamp(x, max=x)": "clamp.Tensor", "clamp(x, x)": "clamp.Tensor",
    "count_nonzero(x)": "count_nonzero", "count_nonzero(x, 0)": "count_nonzero",
    "count_nonzero(x, (0, 1))": "count_nonzero.dim_IntList",
    "div(x, x)": "div.Tensor", "div(x, x, rounding_mode='floor')": "div.Tensor_mode",
    "eq(x, x)": "eq.Tensor", "eq(x, 3)": "eq.Scalar", "eq(x, other=2.5)": "eq.Scalar",
    "index_fill(x, 0, i0, zero)": "index_fill.int_Tensor",
    "index_fill(x, 0, i0, 1.0)": "index_fill.int_Scalar",
    "isin(x, x)": "isin.Tensor_Tensor", "isin(x, 1)": "isin.Tensor_Scalar",
    "isin(1, x)": "isin.Scalar_Tensor", "isin(x, test_element=1)": "isin.Tensor_Scalar",
    "isin(x, x, invert=True)": "isin.Tensor_Tensor",
    "lerp(x, x, 0.5)": "lerp.Scalar", "lerp(x, x, x)": "lerp.Tensor",
    "linspace(0, 1, 3)": "linspace", "linspace(zero, 1, 3)": "linspace.Tensor_Scalar",
    "linspace(0, zero, 3)": "linspace.Scalar_Tensor",
    "linspace(zero, zero, steps=3)": "linspace.Tensor_Tensor",
    "max(x)": "max", "max(x, 1)": "max.dim", "max(x, dim=1, keepdim=True)": "max.dim",
    "max(x, 0, True)": "max.dim", "max(x, x)": "max.other", "max(x, other=x)": "max.other",
    "median(x)": "median", "median(x, 0)": "median.dim",
    "normal(x)": "normal.Tensor_float", "normal(x, 2.0)": "normal.Tensor_float",
    "normal(0.0, x)": "normal.float_Tensor", "normal(x, x)": "normal.Tensor_Tensor",
    "normal(0.0, 1.0, (2,))": "normal.float_float",
    "normal(0.0, 1.0, size=(2,))": "normal.float_float",
    "pow(x, x)": "pow.Tensor_Tensor", "pow(x, 2)": "pow.Tensor_Scalar", "pow(2, x)": "pow.Scalar",
    "quantile(x, 0.5)": "quantile.scalar", "quantile(x, v, 0)": "quantile",
    "randint(3, (2,))": "randint", "randint(1, 3, (2,))": "randint.low",
    "randint(3, size=(2,))": "randint", "randint(high=3, size=(2,))": "randint",
    "randint(low=1, high=3, size=(2,))": "randint.low", "randint(1, 3, size=[2])": "randint.low",
    "repeat_interleave(i0)": "repeat_interleave.Tensor",
    "repeat_interleave(x, 2)": "repeat_interleave.self_int",
    "repeat_interleave(x, i0, 0)": "repeat_interleave.self_Tensor",
    "repeat_interleave(x, 2, dim=0)": "repeat_interleave.self_int",
    "round(x)": "round", "round(x, decimals=2)": "round.decimals",
    "scatter(x, 0, i, x)": "scatter.src", "scatter(x, 0, i, 1.0)": "scatter.value",
    "scatter(x, 0, i, src=x)": "scatter.src", "scatter(x, 0, i, value=1.0)": "scatter.value",
    "scatter(x, 0, i, x, reduce='add')": "scatter.reduce",
    "scatter(x, 0, i, 1.0, reduce='add')": "scatter.value_reduce",
    "sort(x)": "sort", "sort(x, 1, True)": "sort", "sort(x, stable=True)": "sort.stable",
    "sort(x, dim=1, descending=True, stable=False)": "sort.stable",
    "std(x, True)": "std", "std(x, 1)": "std.dim", "std(x, (0, 1), True, True)": "std.dim",
    "std(x, 0, unbiased=False)": "std.dim", "std(x, unbiased=False)": "std",
    "std(x, 0, correction=1)": "std.correction", "std(x, correction=0)": "std.correction",
    "tensor_split(x, 2)": "tensor_split.sections",
    "tensor_split(x, (1, 2))": "tensor_split.indices",
    "tensor_split(x, [1], 1)": "tensor_split.indices",
    "tensor_split(x, sections=2, dim=1)": "tensor_split.sections",
    "tensor_split(x, indices=(1,))": "tensor_split.indices",
    "trapezoid(x)": "trapezoid.dx", "trapezoid(x, x)": "trapezoid.x",
    "trapezoid(x, dx=2)": "trapezoid.dx", "trapezoid(x, x, dim=0)": "trapezoid.x",
    "where(b)": "where", "where(b, x, x)": "where.self", "where(b, x, 1)": "where.ScalarOther",
    "where(b, 1, x)": "where.ScalarSelf", "where(b, 1, 2)": "where.Scalar",
}  # fmt: skip

# Calls that no overload accepts, in PyTorch either.
REFUSED = (
    "max(x, 1, other=x)", "std(x, unbiased=False, correction=1)", "isin(x, x, test_element=1)",
    "scatter(x, 0, i, x, value=1.0)", "trapezoid(x, x, dx=2)",
)  # fmt: skip


def _operators() -> dict[str, list[load.Op]]:
    entries = [
        f"- func: {line} -> Tensor\n  family: some\n  doc: One.\n"
        for line in SCHEMAS.strip().split("\n")
    ]
    found: dict[str, list[load.Op]] = {}
    for op in load.loads("".join(entries)).ops:
        found.setdefault(op.base, []).append(op)
    return found


OPERATORS = _operators()


def function_of(ops: list[load.Op]) -> Any:
    """Return the merged function, which returns the overload's name and its arguments."""
    base = ops[0].base
    made = merge.merged(ops, is_method=False)
    lines = [f"def {base}({', '.join(made.parameters)}):", *(f"    {x}" for x in made.preamble)]
    for case in made.cases:
        op = next(op for op in ops if op.name == case.overload)
        given = [case.arguments.get(a.name, a.name) for a in op.arguments]
        result = f"return '{op.name}', ({', '.join(given)},)"
        lines.append(f"    {f'if {case.condition}: ' if case.condition else ''}{result}")
    names: dict[str, Any] = {"_sequence": tuple}
    exec("\n".join(lines), names)
    return names[base]


FUNCTIONS = {base: function_of(ops) for base, ops in OPERATORS.items()}


class Fake:
    _keys = 1

    def __init__(self, name: str) -> None:
        self.name = name


FAKES = {name: Fake(name) for name in ("x", "i", "i0", "b", "v", "zero")}


@pytest.mark.parametrize("call", CHOICES)
def test_the_overload_that_is_meant_is_chosen(call: str) -> None:
    chosen, arguments = eval(call, FUNCTIONS | FAKES)
    assert chosen == CHOICES[call]
    op = next(op for op in OPERATORS[chosen.partition(".")[0]] if op.name == chosen)
    for argument, value in zip(op.arguments, arguments):
        # each value goes to an argument that accepts it, and not to another's position
        form = argument.type
        if value is None:
            assert form.is_optional, argument
        elif form.base == "Tensor" and not form.required.is_list:
            assert isinstance(value, Fake), argument
        else:
            assert not isinstance(value, Fake), argument
            assert isinstance(value, (tuple, list, int)) or not form.required.is_list, argument


@pytest.mark.parametrize("call", REFUSED)
def test_what_no_overload_takes_is_not_taken(call: str) -> None:
    assert eval(call, FUNCTIONS | FAKES) is None


def test_each_set_of_overloads_is_called_in_every_way() -> None:
    called = set(CHOICES.values())
    assert {op.name for ops in OPERATORS.values() for op in ops} == called


def test_parameters_read_as_pytorchs() -> None:
    def parameters(base: str) -> str:
        return ", ".join(merge.merged(OPERATORS[base], is_method=False).parameters)

    assert parameters("max") == "self, dim=None, keepdim=False, *, other=None"
    assert parameters("std") == "self, dim=None, unbiased=None, keepdim=False, *, correction=None"
    assert parameters("randint") == "low=None, high=None, size=None"
    assert parameters("quantile") == "self, q, dim=None, keepdim=False"
    assert parameters("sort") == "self, dim=-1, descending=False, *, stable=None"


def _torch() -> tuple[Any, dict[str, Any]]:
    torch = pytest.importorskip("torch")
    x = torch.rand(3, 3)
    i = torch.zeros(3, 3, dtype=torch.int64)
    values = {"x": x, "i": i, "i0": i[0].clone(), "b": x > 0, "v": x[0].clone(), "zero": x.sum()}
    return torch, vars(torch) | values


@pytest.mark.oracle
@pytest.mark.parametrize("call", CHOICES)
@pytest.mark.filterwarnings("ignore")
def test_pytorch_chooses_it_too(call: str) -> None:
    torch, names = _torch()
    profiler = torch.profiler
    config = profiler._ExperimentalConfig(capture_overload_names=True)
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CPU], experimental_config=config
    ) as profile:
        eval(call, names)
    base, _, overload = CHOICES[call].partition(".")
    first = next(event for event in profile.events() if event.name == f"aten::{base}")
    assert first.overload_name == overload


@pytest.mark.oracle
@pytest.mark.parametrize("call", REFUSED)
def test_pytorch_refuses_it_too(call: str) -> None:
    with pytest.raises(TypeError):
        eval(call, _torch()[1])


@pytest.mark.parametrize("call", CHOICES)
def test_the_order_of_rows_does_not_matter(call: str) -> None:
    base = call.partition("(")[0]
    chosen, _ = eval(call, FUNCTIONS | {base: function_of(OPERATORS[base][::-1])} | FAKES)
    assert chosen == CHOICES[call]
