"""Generated functions with arguments that are not plain tensors and numbers."""

from __future__ import annotations

import enum
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from gputensor.core import arguments, schema


class Level(enum.IntEnum):
    HIGH = 3


def tensor() -> SimpleNamespace:
    """Replaces a tensor: it has the attributes that core reads."""
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


def test_coerced_operands_are_plain_numbers_and_come_behind_their_keys() -> None:
    a, b = SimpleNamespace(_keys=1), SimpleNamespace(_keys=2)
    assert arguments.coerced(a, np.float32(2)) == [1, a, 2.0]
    assert arguments.coerced(a, b, 3) == [3, a, b, 3]
    for given in ((a, "x"), (3, a)):
        with pytest.raises(AttributeError, match="_keys"):
            arguments.coerced(*given)


def test_keys_of_a_list() -> None:
    one, two = SimpleNamespace(_keys=1), SimpleNamespace(_keys=2)
    assert arguments.keys_of_list([one, None, two]) == 3
    assert arguments.keys_of_list(()) == 0
    with pytest.raises(TypeError):
        arguments.keys_of_list(iter([one]))


@pytest.mark.parametrize(
    "value, wanted",
    [([2, 3], (2, 3)), ((2,), (2,)), (4, (4,)), (np.int64(4), (4,)), ("ab", "ab"), (1.5, 1.5)],
)
def test_one_sequence_or_int(value: object, wanted: object) -> None:
    assert arguments.sequence(value) == wanted
