"""What generated functions do with arguments that are not what a fast call gives."""

from __future__ import annotations

import enum
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from gputensor.core import arguments, schema
from gputensor.core.errors import ArgumentTypeError


class Level(enum.IntEnum):
    HIGH = 3


def tensor() -> SimpleNamespace:
    """Stands for a tensor: what core knows one by."""
    return SimpleNamespace(_keys=5)


def operator(text: str) -> SimpleNamespace:
    return SimpleNamespace(short_name=text.partition("(")[0], schema=schema.parse(text))


@pytest.mark.parametrize(
    "value, wanted",
    [
        (np.float32(1.5), 1.5), (np.float64(1.5), 1.5), (np.int8(-3), -3), (np.bool_(True), True),
        (np.complex64(1j), 1j), (ml_dtypes.bfloat16(0.5), 0.5), (Level.HIGH, 3),
    ],
)  # fmt: skip
def test_numbers_become_plain(value: object, wanted: object) -> None:
    found = arguments.number(value)
    assert found == wanted and type(found) is type(wanted)


@pytest.mark.parametrize("value", ["1", None, [1], np.zeros(2), np.str_("a"), object()])
def test_other_things_are_no_numbers(value: object) -> None:
    assert arguments.number(value) is None


def test_coerce_keeps_tensors_and_makes_numbers_plain() -> None:
    add = operator("add(Tensor self, Tensor other) -> Tensor")
    a, b = tensor(), tensor()
    assert arguments.coerce(add, a, np.float32(2)) == [a, 2.0]
    assert arguments.coerce(add, a, b) == [a, b]


FAULTS = [
    ("add(Tensor self, Tensor other) -> Tensor", (1, tensor()), "add: 'self' must be a Tensor (got 1)"),
    ("add(Tensor self, Tensor other) -> Tensor", (tensor(), "x"), "add: 'other' must be a Tensor (got 'x')"),
    ("cat(Tensor[] tensors, int dim=0) -> Tensor", ([tensor(), 2],), "cat: 'tensors[1]' must be a Tensor (got 2)"),
    ("cat(Tensor[] tensors, int dim=0) -> Tensor", (3,), "cat: 'tensors' must be a list of Tensors (got 3)"),
    ("f(int n, Tensor? x, Tensor y) -> Tensor", (None, 1.5), "f: 'y' must be a Tensor (got 1.5)"),
]


@pytest.mark.parametrize("text, operands, message", FAULTS)
def test_the_first_wrong_operand_is_named(text: str, operands: tuple[object, ...], message: str) -> None:
    assert str(arguments.wrong_operand(operator(text), *operands)) == message


def test_coerce_refuses_what_is_neither() -> None:
    with pytest.raises(ArgumentTypeError, match="add: 'other' must be a Tensor"):
        arguments.coerce(operator("add(Tensor self, Tensor other) -> Tensor"), tensor(), "x")


def test_keys_of_a_list() -> None:
    one, two = SimpleNamespace(_keys=1), SimpleNamespace(_keys=2)
    assert arguments.keys_of_list([one, None, two]) == 3
    assert arguments.keys_of_list(()) == 0
    with pytest.raises(TypeError):
        arguments.keys_of_list(iter([one]))


@pytest.mark.parametrize(
    "value, wanted", [([2, 3], (2, 3)), ((2,), (2,)), (4, (4,)), (np.int64(4), (4,)), ("ab", "ab"), (1.5, 1.5)]
)
def test_one_sequence_or_int(value: object, wanted: object) -> None:
    assert arguments.sequence(value) == wanted
