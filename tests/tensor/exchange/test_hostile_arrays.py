"""Foreign arrays with wrong descriptions: DLPack capsules, both array interfaces, buffers.

After an error the memory still belongs to the producer; nothing is read before it is checked. A
size larger than the memory and a wrong pointer are not tested, because no consumer can detect them.
"""

from __future__ import annotations

import array
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core import errors
from gputensor.exchange import cuda_array_interface

from ...harness.ids import without_address

FACTOR = int(os.environ.get("GPUTENSOR_FUZZ", "1"))


def test_every_field_of_a_capsule_with_every_bad_value() -> None:
    script = str(Path(__file__).with_name("hostile_capsules.py"))
    answer = subprocess.run(
        [sys.executable, script, str(1500 * FACTOR)], capture_output=True, text=True,
        env=os.environ | {"GPUTENSOR_CUDA": "off"},
    )  # fmt: skip
    lines = [json.loads(line) for line in answer.stdout.splitlines()]
    assert answer.returncode == 0, f"{lines[-1]}: {answer.stderr[-2000:]}"
    found = list(zip(lines[::2], lines[1::2], strict=True))
    wrong = [(case, what) for case, what in found if what not in ("refused", "taken")]
    assert not wrong, wrong[:10]
    count = Counter(what for _, what in found)
    assert count["taken"] > 100 and count["refused"] > 500


class With:
    """An object with these attributes; functions without parameters become methods."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


BAD = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "x",
    b"x",
    (),
    (1,),
    (1, 2, 3),
    ("a", "b"),
    (None, None),
    {},
    object(),
)


@pytest.mark.parametrize("answer", BAD, ids=without_address(repr))
@pytest.mark.parametrize("entrance", [gt.from_dlpack, gt.asarray, gt.tensor, gt.layout.contiguous])
def test_what_is_no_capsule_is_refused(entrance: Any, answer: Any) -> None:
    with pytest.raises(errors.ExchangeError, match="give a DLPack capsule"):
        entrance(With(__dlpack__=lambda **_: answer, __dlpack_device__=lambda: (1, 0)))


@pytest.mark.parametrize("answer", BAD, ids=without_address(repr))
def test_what_is_no_device_is_refused(answer: Any) -> None:
    with pytest.raises(errors.ExchangeError, match="name its device as two ints"):
        gt.from_dlpack(With(__dlpack__=gt.ones(2).__dlpack__, __dlpack_device__=lambda: answer))


def test_a_class_that_is_called_like_a_capsule_is_none() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="be a DLPack capsule"):
        gt.from_dlpack(type("PyCapsule", (), {})())


@pytest.mark.parametrize(
    "given", [b for b in BAD if b not in (None, -1)], ids=without_address(repr)
)
@pytest.mark.parametrize("keyword", ["dl_device", "max_version", "stream"])
def test_what_a_consumer_asks_is_checked(keyword: str, given: Any) -> None:
    with pytest.raises(errors.ExchangeError, match=f"__dlpack__: '{keyword}' must "):
        gt.ones(2).__dlpack__(**{keyword: given})


def test_what_a_producer_raises_is_passed_on() -> None:
    def fails(**_: Any) -> Any:
        raise LookupError("its own")

    with pytest.raises(LookupError, match="its own"):
        gt.from_dlpack(With(__dlpack__=fails))


# --- array interfaces -----------------------------------------------------------------------------

NUMBERS = (
    None, True, -1, 0, 1.5, "x", b"x", (), (-1,), (2**62, 4), (2**63,), (2**70,), (1.5,), ("a",),
    (None,), (2,) * 65, [2, 2], {}, object(),
)  # fmt: skip
PARTS = {
    "shape": NUMBERS,
    "strides": (*NUMBERS, (8,), (2**62, 2**62), (-(2**62), 8)),
    "typestr": (None, 1, "", "x", "|O", "<f3", ">f4", "|V7", "<U4", b"<f4", "<M8[s]"),
    "data": (
        None, 0, (0, False), (None, False), ("x", False), (-8, False), (2**70, False),
        (), (1,), (1, 2, 3), "x", {},
    ),
    "version": (None, "x", 99),
    "mask": (1, "x"),
    "stream": (0, -1, 1.5, "x", True),
}  # fmt: skip
CASES = [(part, value) for part, values in PARTS.items() for value in (*values, KeyError)]


def described(memory: np.ndarray[Any, Any], part: str, value: Any) -> dict[str, Any]:
    given = {
        "shape": (2, 2), "strides": (16, 8), "typestr": "<i8", "version": 3,
        "data": (memory.ctypes.data, False), "mask": None, "stream": None,
    }  # fmt: skip
    if value is KeyError:
        del given[part]
    else:
        given[part] = value
    return given


# NumPy does not check strides and addresses, and a wrong address cannot be detected.
TOLD = [(p, v) for p, v in CASES if p not in ("strides", "mask", "stream") and v != (-8, False)]


@pytest.mark.parametrize(("part", "value"), TOLD, ids=without_address(str))
@pytest.mark.parametrize("entrance", [gt.asarray, gt.as_tensor, gt.tensor, gt.layout.contiguous])
def test_every_part_of_the_array_interface(entrance: Any, part: str, value: Any) -> None:
    memory = np.arange(64)
    given = {k: v for k, v in described(memory, part, value).items() if k not in ("mask", "stream")}
    try:
        found = entrance(With(__array_interface__=given, memory=memory))
    except errors.GpuTensorError as error:
        assert "\n" not in str(error)
    else:
        assert min(found.shape, default=0) >= 0


class Runtime:
    """The functions of a CUDA runtime that reading a description needs; no memory is accessed."""

    is_emulated = False

    def is_available(self) -> bool:
        return True

    def device_of(self, address: int) -> int:
        assert 0 < address < 2**64
        return 0

    def device_count(self) -> int:
        return 1


@pytest.mark.parametrize(("part", "value"), CASES, ids=without_address(str))
def test_every_part_of_the_cuda_array_interface(
    monkeypatch: pytest.MonkeyPatch, part: str, value: Any
) -> None:
    from gputensor.cuda import operands
    from gputensor.exchange import foreign

    stand_in = Runtime()
    monkeypatch.setattr(runtime, "cuda", lambda: stand_in)
    memory = np.arange(64)
    x = With(__cuda_array_interface__=described(memory, part, value), device=With(id=0))
    for look in (foreign.seen, operands.describe):
        try:
            found = look("op", "x", x)
        except errors.GpuTensorError as error:
            assert str(error).startswith("op: 'x' must ") and "\n" not in str(error)
            continue
        assert len(found.sizes) == len(found.stride_bytes) <= 64
        assert min(found.sizes, default=0) >= 0


@pytest.mark.parametrize("given", BAD, ids=without_address(repr))
def test_a_cuda_array_interface_that_is_no_dict(given: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="^op: 'x' must have a CUDA array interface"):
        cuda_array_interface.read("op", "x", With(__cuda_array_interface__=given))


@pytest.mark.parametrize("index", ["x", 1.5, (), {}], ids=repr)
def test_a_device_without_a_number(index: Any) -> None:
    from gputensor.cuda import operands

    given = described(np.arange(64), "mask", None)
    with pytest.raises(errors.ArgumentTypeError, match="have a device with an int for its id"):
        operands.describe("op", "x", With(__cuda_array_interface__=given, device=With(id=index)))


# --- buffers and __array__ ------------------------------------------------------------------------


@pytest.mark.parametrize("form", "bBhHiIlLqQfd?c")
def test_buffers_of_every_format(form: str) -> None:
    view = memoryview(bytearray(64)).cast(form)
    try:
        found = gt.asarray(view)
    except errors.GpuTensorError as error:
        assert form == "c" and "dtype" in str(error)
    else:
        assert found.numel() * found.element_size() == 64


def test_buffers_without_memory() -> None:
    assert gt.asarray(array.array("d")).shape == (0,)
    assert gt.asarray(bytearray()).shape == (0,)
    assert not gt.asarray(memoryview(b"abc")).numpy().flags.writeable


@pytest.mark.parametrize("answer", [None, 1, "x", [1, 2], object()], ids=without_address(repr))
@pytest.mark.parametrize("entrance", [gt.asarray, gt.tensor])
def test_an_array_method_that_gives_no_array(entrance: Any, answer: Any) -> None:
    class Odd:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return answer

    with pytest.raises(errors.ArgumentTypeError, match="be an array that NumPy can read"):
        entrance(Odd())
