"""Bugs a to j of PyTorch 2.13 that gputensor does not have.

Bugs of tables, registrations and calls are tested in other files: b in test_tables.py; c, e and i
in test_registration.py; d and h in test_calling.py.
"""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher
from gputensor.library import Library

from ..operands import CPU

# --- a: tensors of two devices --------------------------------------------------------------------

MIXED: dict[str, Any] = {
    "mm": lambda a, b: a.mm(b), "matmul": lambda a, b: a @ b, "mm.out": lambda a, b: gt.mm(a, a,
    out=b),
    "add": lambda a, b: a + b, "add_": lambda a, b: a.add_(b), "add.out": lambda a, b: gt.add(a, a,
    out=b),
    "eq": lambda a, b: a == b, "where": lambda a, b: gt.where(a > 0, a, b), "maximum": gt.maximum,
    "cat": lambda a, b: gt.cat([a, b]), "stack": lambda a, b: gt.stack([a, b]),
    "sum.out": lambda a, b: gt.sum(a, 0, out=b),
}  # fmt: skip
PAIRS = [
    ("cpu", "meta"),
    ("meta", "cpu"),
    ("cpu", "cuda:0"),
    ("cuda:1", "cuda:0"),
    ("cuda:0", "meta"),
]


@pytest.mark.parametrize("places", PAIRS, ids="-".join)
@pytest.mark.parametrize("call", MIXED)
def test_a_operands_of_two_devices_are_an_error_that_names_both(
    call: str, places: tuple[str, str]
) -> None:
    """PyTorch returns an uninitialised result, or writes nothing and raises nothing."""
    if any(p.startswith("cuda") for p in places) and gt.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    one, two = (gt.ones(2, 2).to(place) for place in places)
    with pytest.raises(errors.DeviceError, match="must be on one device") as caught:
        MIXED[call](one, two)
    assert all(f" {place}" in str(caught.value) for place in places)
    assert all(x.device.type == "meta" or x.tolist() == [[1, 1], [1, 1]] for x in (one, two))


def test_a_what_has_no_elements_is_no_source() -> None:
    x = gt.ones(2)
    with pytest.raises(errors.GpuTensorError, match="must have data"):
        x.copy_(gt.ones(2, device="meta"))
    assert x.tolist() == [1, 1]


# --- f, g: schemas --------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [
    "f(Tensor x, Tensor x) -> Tensor", 'f(int x="s") -> ()', "f(int x=None) -> ()",
    "f(Tensor x=None) -> Tensor",
])  # fmt: skip
def test_f_what_a_schema_may_not_say(lib: Library, schema: str) -> None:
    with pytest.raises(
        errors.SchemaError,
        match=r"column \d+ must be (a default of type|an argument of a new name)",
    ):
        lib.define(schema)
    assert dispatcher.get(f"{lib.ns}::f") is None


def test_g_an_optional_list_of_tensors_brings_its_keys(lib: Library) -> None:
    lib.define("f(Tensor[]? xs) -> str")
    lib.impl("f", lambda xs: "cpu", "CPU")
    lib.impl("f", lambda xs: "none", "CompositeExplicitAutograd")
    operator = dispatch.find(f"{lib.ns}::f")
    assert operator([CPU]) == "cpu" and operator(None) == operator([]) == "none"


# --- j: to(memory_format=) ------------------------------------------------------------------------


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[:, ::2]])
def test_j_to_compares_with_the_suggested_format_and_contiguous_promises_one(view: Any) -> None:
    """`to` behaves as in PyTorch, which its documentation states. Only contiguous() promises a
    dense result."""
    x = view(gt.ones(4, 6))
    assert x.to(memory_format=gt.contiguous_format) is x and not x.is_contiguous()
    assert (
        x.contiguous().is_contiguous()
        and x.to(memory_format=gt.contiguous_format, copy=True).is_contiguous()
    )
    assert "contiguous() always returns" in " ".join(str(gt.Tensor.to.__doc__).split())
