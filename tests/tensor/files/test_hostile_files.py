"""Forged files: every field of the format and of its archive, with every bad value.

A load raises one clear error, or returns a value whose data is in the file; its memory is bounded
by the size of the file.
"""

from __future__ import annotations

import io
import json
import os
import random
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors

from ...harness.ids import without_address

FACTOR = int(os.environ.get("GPUTENSOR_FUZZ", "1"))
LONG = "a number of 5001 digits"
BAD = (
    None, True, -1, 0, 1, 3, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), LONG,
    1.5, 1e400, "", "x", "cpu", "meta", "cuda:99", "int64", "\ud800", [], [0], [-1], [2**62, 4],
    [2**63], [2**40, 2**40], [None], [[]], [1] * 65, [0] * 65, {}, {"tensor": 0}, {"size": [-1]},
    {"int": "9" * 10000}, {"dtype": "x"}, {"device": 0},
)  # fmt: skip


def header() -> dict[str, Any]:
    return {
        "format": "gputensor", "version": 1, "byteorder": "little",
        "storages": [{"nbytes": 48, "device": "cpu"}, {"nbytes": 8, "device": "meta"}],
        "tensors": [
            {"storage": 0, "offset": 1, "dtype": "int64", "sizes": [2, 2], "strides": [2, 1]},
            {"storage": 1, "offset": 0, "dtype": "float32", "sizes": [2], "strides": [1],
            "requires_grad": True},
        ],
        "value": {"dict": [["a", {"tensor": 0}], ["b", [{"tensor": 1}, {"tuple": [{"int": "0x7"},
        1.5]}]]]},
    }  # fmt: skip


def dumped(value: Any) -> str:
    """Return JSON text, whose numbers may be longer than Python writes them."""
    return json.dumps(value, default=repr).replace(f'"{LONG}"', "1" + "0" * 5000)


def archive(text: str, *, compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("header.json", text, compress_type=compression)
        made.writestr("storages/0", bytes(range(48)))
    return file.getvalue()


def load(data: bytes, folder: Path | None = None) -> Any:
    """Return the result of a load, or gputensor's error; any other exception fails the test."""
    if folder is None:
        file: Any = io.BytesIO(data)
    else:
        file = folder / "x.gt"
        file.write_bytes(data)
    try:
        found = gt.load(file)
    except errors.GpuTensorError as error:
        assert "\n" not in str(error) and str(error).startswith(("load: '", "device: '")), error
        return error
    for tensor in _tensors(found):
        reach = (tensor._offset + tensor._geometry.extent) * tensor.dtype.itemsize
        assert reach <= tensor.untyped_storage().nbytes()
        repr(tensor)
    return found


def _tensors(value: Any) -> Iterator[gt.Tensor]:
    if isinstance(value, gt.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _tensors(item)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value in a header."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from places(item)


COUNT = sum(1 for _ in places(header()))


def test_what_is_changed_loads_as_it_is() -> None:
    found = load(archive(json.dumps(header())))
    assert found["a"].tolist() and found["b"][1] == (7, 1.5) and COUNT > 40


@pytest.mark.parametrize("number", range(COUNT))
def test_every_place_of_the_header_with_every_bad_value(number: int) -> None:
    for bad in (*BAD, KeyError):
        whole = header()
        container, key = list(places(whole))[number]
        if bad is KeyError:
            del container[key]
        else:
            container[key] = bad
        load(archive(dumped(whole)))


def fields(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield (offset, size) of every number in the archive's own headers."""
    layouts = {
        b"PK\x03\x04": (2, 2, 2, 2, 2, 4, 4, 4, 2, 2),
        b"PK\x01\x02": (2, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4),
        b"PK\x05\x06": (2, 2, 2, 2, 4, 4, 2),
    }
    for mark, sizes in layouts.items():
        at = data.find(mark)
        while at >= 0:
            offset = at + 4
            for size in sizes:
                yield offset, size
                offset += size
            at = data.find(mark, at + 1)


@pytest.mark.parametrize("is_path", [False, True])
def test_every_number_of_the_archive_with_every_edge(tmp_path: Path, is_path: bool) -> None:
    """Archives are also read by path, because a file rejects offsets that BytesIO accepts."""
    data = archive(json.dumps(header()))
    tried = 0
    for offset, size in fields(data):
        value = int.from_bytes(data[offset : offset + size], "little")
        most = 256**size - 1
        for bad in {0, 1, value - 1, value + 1, most, most // 2, most // 2 + 1, 8, 99} - {value}:
            changed = bytearray(data)
            changed[offset : offset + size] = (bad & most).to_bytes(size, "little")
            load(bytes(changed), tmp_path if is_path else None)
            tried += 1
    assert tried > 400


def test_random_bytes_anywhere() -> None:
    data = archive(json.dumps(header()))
    rng = random.Random(0)
    for _ in range(1500 * FACTOR):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        if rng.random() < 0.2:
            at = rng.randrange(len(data))
            changed[at:at] = changed[rng.randrange(len(data)) :][: rng.randrange(200)]
        load(bytes(changed))


# --- bombs --------------------------------------------------------------------------------------


def compressed_header() -> bytes:
    text = json.dumps(header())[:-1] + ', "": "' + "0" * (16 << 20) + '"}'
    return archive(text, compression=zipfile.ZIP_DEFLATED)


def overlapping_storages() -> bytes:
    """Return an archive with a thousand storages over the same hundred kilobytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("storages/0", bytes(100_000))
        whole = header() | {
            "storages": [{"nbytes": 100_000, "device": "cpu"}] * 1000,
            "tensors": [
                {"storage": n, "offset": 0, "dtype": "uint8", "sizes": [100_000], "strides": [1]}
                for n in range(1000)
            ],
            "value": [{"tensor": n} for n in range(1000)],
        }  # fmt: skip
        made.writestr("header.json", json.dumps(whole))
        for number in range(1, 1000):
            entry = zipfile.ZipInfo(f"storages/{number}")
            of = made.getinfo("storages/0")
            entry.header_offset, entry.CRC = of.header_offset, of.CRC
            entry.file_size = entry.compress_size = of.file_size
            made.filelist.append(entry)
    return file.getvalue()


def claims_more_than_there_is() -> bytes:
    whole = header()
    whole["storages"][0]["nbytes"] = 1 << 34
    data = bytearray(archive(json.dumps(whole)))
    at = data.rfind(b"PK\x01\x02")
    data[at + 20 : at + 28] = b"\xfe\xff\xff\xff" * 2
    return bytes(data)


@pytest.mark.parametrize(
    "make", [compressed_header, overlapping_storages, claims_more_than_there_is]
)
def test_a_file_takes_no_more_memory_than_it_has_bytes(make: Callable[[], bytes]) -> None:
    data = make()
    tracemalloc.start()
    try:
        found = load(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(found, errors.FileFormatError)
    assert peak < 20 * len(data) + (4 << 20), peak


def test_save_makes_no_header_that_load_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputensor.serialization.unpickle.MOST_BYTES", 1 << 20)
    gt.save([0] * 100_000, io.BytesIO())
    with pytest.raises(errors.ArgumentError, match="at most 1 MiB besides tensors"):
        gt.save([0] * 400_000, io.BytesIO())


@pytest.mark.parametrize("depth", [10, 500, 100_000])
def test_what_is_saved_however_deep_loads(depth: int) -> None:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    file = io.BytesIO()
    try:
        gt.save(value, file)
    except errors.ArgumentError as error:
        assert depth > 200 and "less deeply" in str(error)
    else:
        gt.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("given", [3, None, [], object()], ids=without_address(repr))
def test_what_is_no_file_is_refused(given: Any) -> None:
    with pytest.raises(errors.ArgumentTypeError, match="be a path or an open binary file"):
        gt.load(given)
    with pytest.raises(errors.ArgumentTypeError, match="be a path or an open binary file"):
        gt.save(1, given)
