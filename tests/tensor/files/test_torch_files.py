"""load of files of PyTorch 2.13 (tests/golden/checkpoints), and of forged ones.

tests/golden/freeze_checkpoints.py made the files.
tests/oracle/tensor/test_serialization_oracle.py tests files that PyTorch reads.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import pickle
import pickletools
import random
import struct
import threading
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.serialization import numpy_values

GOLDEN = Path(__file__).parents[2] / "golden" / "checkpoints"
FILES = ("zip.pt", "legacy.pt")


@pytest.fixture(params=FILES)
def found(request: pytest.FixtureRequest) -> dict[str, Any]:
    made: dict[str, Any] = gt.load(GOLDEN / request.param)
    return made


def test_what_pytorch_wrote(found: dict[str, Any]) -> None:
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["x"].dtype is gt.float32
    view = found["view"]
    assert view.tolist() == [[1, 4], [2, 5]] and view.stride() == (1, 3)
    assert view.untyped_storage() is found["x"].untyped_storage()
    assert found["plain"] == [1, 2.5, "a", None, True, (1, 2), 2**70]
    assert found["bf16"].dtype is gt.bfloat16 and found["c64"].tolist() == [1 - 2j]
    assert found["dtype"] is gt.float32 and found["device"] == gt.device("cpu")
    assert type(found["size"]) is gt.Size and found["size"] == (1, 2)
    assert found["grad"].requires_grad and found["grad"].is_leaf and found["bytes"] == b"ab\xff"


def test_a_module_takes_its_weights(found: dict[str, Any]) -> None:
    state = found["state"]
    assert type(state) is OrderedDict and state._metadata[""] == {"version": 1}
    module = gt.nn.Linear(3, 2)
    module.load_state_dict(state)
    assert module(gt.ones(3)).tolist() == [0 + 1 + 2 + 1, 3 + 4 + 5 - 1]
    assert isinstance(found["parameter"], gt.nn.Parameter) and found["parameter"].requires_grad
    assert found["parameter"].untyped_storage() is state["weight"].untyped_storage()


def test_dtypes_without_a_class_of_storages_and_tensors_without_data() -> None:
    found = gt.load(GOLDEN / "zip.pt")
    assert found["u16"].dtype is gt.uint16 and found["u16"].tolist() == [65535]
    assert found["meta"].is_meta and found["meta"].shape == (2, 3)


@pytest.mark.parametrize("name", FILES)
def test_map_location(name: str) -> None:
    path = GOLDEN / name
    assert gt.load(path, map_location="meta")["x"].is_meta
    assert gt.load(path, map_location={"cpu": "meta"})["x"].is_meta
    seen: list[str] = []

    def where(storage: Any, saved_on: str) -> Any:
        seen.append(saved_on)
        return storage if len(seen) % 2 else None

    assert gt.load(path, map_location=where)["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert set(seen) == {"cpu"}
    with pytest.raises(errors.ArgumentTypeError, match="'map_location' must return a storage"):
        gt.load(path, map_location=lambda storage, saved_on: "cpu")


def test_a_whole_module_is_refused_by_the_name_of_its_class() -> None:
    with pytest.raises(errors.FileFormatError) as caught:
        gt.load(GOLDEN / "module.pt")
    said = str(caught.value)
    assert "names torch.nn.modules.linear.Linear); save its state_dict()" in said
    with pytest.raises(errors.FileFormatError, match="names torch.nn.modules.linear.Linear"):
        gt.load(GOLDEN / "module.pt", weights_only=False)
    with pytest.raises(errors.ArgumentError, match="no code of a file runs"):
        gt.load(GOLDEN / "zip.pt", pickle_module=pickle)


# --- classes that the program allows --------------------------------------------------------------


@dataclasses.dataclass
class Config:
    width: int
    weight: gt.Tensor
    names: set[str]


class Slots:
    __slots__ = ("x", "y")


class Kind(enum.Enum):
    SMALL = 1


class Point(NamedTuple):
    x: int
    y: gt.Tensor


def test_objects_of_allowed_classes_are_written_and_read(tmp_path: Path) -> None:
    slots = Slots()
    slots.x = 3
    weight = gt.arange(3.0)
    made = [Config(4, weight, {"a", "b"}), slots, Kind.SMALL, Point(1, weight)]
    allowed = [Config, Slots, Kind, Point]
    path = tmp_path / "objects.pt"
    with pytest.raises(errors.ArgumentTypeError, match=r"'obj\[0\]' must .* an allowed class"):
        gt.save(made, path)
    with gt.serialization.safe_globals(allowed):
        gt.save(made, path)
        config, read, kind, point = gt.load(path)
        assert gt.serialization.get_safe_globals() == allowed
    assert config.width == 4 and config.names == {"a", "b"}
    assert config.weight.tolist() == [0, 1, 2]
    assert config.weight.data_ptr() == point.y.data_ptr()
    assert read.x == 3 and not hasattr(read, "y")
    assert kind is Kind.SMALL and type(point) is Point
    with pytest.raises(errors.FileFormatError, match="names .*Config"):
        gt.load(path)


class Node:
    """A node that refers to itself through a list."""

    def __init__(self, x: gt.Tensor) -> None:
        self.x, self.all = x, [self]


def test_objects_of_any_class_are_written_as_pickle_does(tmp_path: Path) -> None:
    x = gt.arange(3.0)
    made = {"node": Node(x), "kind": Kind, "bytes": b"\xff1", "counts": Counter("aab"), "x": x}
    path = tmp_path / "any.pt"
    gt.save(made, path, pickle)
    with pytest.raises(errors.FileFormatError, match="names .*Node"):
        gt.load(path)
    with gt.serialization.safe_globals([Node, Kind]):
        read = gt.load(path)
    assert read["node"].all[0] is read["node"]
    assert read["node"].x.data_ptr() == read["x"].data_ptr()
    assert read["kind"] is Kind and read["bytes"] == b"\xff1"
    assert read["counts"] == Counter("aab")
    locked: Any = threading.Lock()
    for wrong in (lambda: 1, Node(locked)):
        with pytest.raises(errors.GpuTensorError, match="be importable|that pickle takes"):
            gt.save(wrong, tmp_path / "wrong.pt", pickle)
    assert not (tmp_path / "wrong.pt").exists()


@pytest.mark.parametrize("value", [
    np.arange(6, dtype=">i2").reshape(2, 3), np.asfortranarray(np.ones((2, 3))), np.float64(1.5),
    np.bool_(True), np.array(["a", "bc"]), np.zeros((0, 2), np.complex64), np.dtype("f4"),
])  # fmt: skip
def test_numpys_values(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "arrays.pt"
    gt.save({"x": [value, value]}, path, pickle)
    for read in gt.load(path)["x"]:
        assert type(read) is type(value) and np.all(read == value)
        if not isinstance(value, np.dtype):
            assert read.dtype == pickle.loads(pickle.dumps(value, 2)).dtype
            assert read.shape == value.shape


@pytest.mark.parametrize("value, said", [
    (np.array([object()]), "NumPy's type 'O8'|holds"), (np.zeros(2, "i4,f4"), "type"),
    (np.array("2020-01-01", "M8[D]"), "NumPy's type 'M8'"),
    (np.ma.masked_array([1.0]), "names numpy.ma"),
])  # fmt: skip
def test_arrays_of_objects_are_refused(tmp_path: Path, value: Any, said: str) -> None:
    path = tmp_path / "arrays.pt"
    gt.save(value, path, pickle)
    with pytest.raises(errors.FileFormatError, match=said):
        gt.load(path)


@pytest.mark.parametrize("state", [
    (1, (1 << 60,), np.dtype("f8"), False, b""), (1, (-1,), np.dtype("f8"), False, b""),
    (1, (1,), np.dtype("O"), False, b"12345678"), (1, (1,), "f8", False, b"12345678"), None,
])  # fmt: skip
def test_forged_states_of_arrays(state: Any) -> None:
    made = np.empty(0, np.int8)
    with pytest.raises(ValueError, match="array|type"):
        numpy_values.build(made, state)
    assert made.shape == (0,)


def test_a_name_may_be_given_with_an_allowed_class(tmp_path: Path) -> None:
    path = tmp_path / "renamed.pt"
    with gt.serialization.safe_globals([Config]):
        gt.save(Config(1, gt.ones(2), set()), path)
    data = path.read_bytes()
    with gt.serialization.safe_globals([(Config, f"{__name__}.Config")]):
        assert gt.load(io.BytesIO(data)).width == 1
    for wrong in (["Config"], [("Config", "x.Config")]):
        with pytest.raises(errors.ArgumentTypeError, match="classes and functions"):
            gt.serialization.add_safe_globals(wrong)
    assert gt.serialization.get_safe_globals() == []


# --- storages mapped from the file ----------------------------------------------------------------


@pytest.mark.parametrize("by", ["pytorch", "here"])
def test_storages_that_are_mapped(tmp_path: Path, by: str) -> None:
    path = GOLDEN / "zip.pt"
    if by == "here":
        path = tmp_path / "x.pt"
        gt.save({"x": gt.arange(6.0).reshape(2, 3), "e": gt.empty(0)}, path)
    before = path.read_bytes()
    found = gt.load(path, mmap=True)
    assert isinstance(found["x"].untyped_storage().data, np.memmap)
    assert found["x"].data_ptr() % 64 == 0
    found["x"].add_(1)
    assert found["x"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert path.read_bytes() == before, "what is written stays here"


def test_what_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(errors.ArgumentError, match="a path for mmap=True"):
        gt.load(io.BytesIO(b""), mmap=True)
    with pytest.raises(errors.ArgumentError, match="be in the zip format for mmap"):
        gt.load(GOLDEN / "legacy.pt", mmap=True)
    path = tmp_path / "x.pt"
    with zipfile.ZipFile(GOLDEN / "zip.pt") as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():  # as repacked by a zip tool: nothing is aligned
            new.writestr(entry.filename, old.read(entry))
    assert gt.load(path)["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(errors.ArgumentError, match="load it without mmap and save it again"):
        gt.load(path, mmap=True)


# --- forged files ---------------------------------------------------------------------------------

STORAGE = b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpu"


def packed(pickled: bytes, storage: bytes = bytes(24), **more: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/data/0", storage)
        for name, data in more.items():
            archive.writestr(f"a/{name}", data)
    return file.getvalue()


def tensor(
    offset: bytes = b"K\x00", sizes: bytes = b"K\x06\x85", strides: bytes = b"K\x01\x85",
    count: bytes = b"K\x06", grad: bytes = b"\x89",
) -> bytes:  # fmt: skip
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    return head + STORAGE + count + b"tQ" + offset + sizes + strides + grad + b"NtR."


def refused(data: bytes, words: str | None = None) -> None:
    with pytest.raises(errors.FileFormatError, match=words) as caught:
        gt.load(io.BytesIO(data))
    assert "\n" not in str(caught.value) and str(caught.value).startswith("load: 'f' must")


def test_an_unchanged_forgery_loads() -> None:
    assert gt.load(io.BytesIO(packed(tensor()))).tolist() == [0] * 6


class Runs:
    def __reduce__(self) -> Any:
        return print, ("this must not run",)


@pytest.mark.parametrize("protocol", range(2, 6))
def test_code_is_refused_by_its_name(protocol: int, capsys: pytest.CaptureFixture[str]) -> None:
    refused(packed(pickle.dumps(Runs(), protocol)), r"it names \w+.print\)")
    refused(packed(pickle.dumps({1: pytest.Item}, protocol)), "it names _pytest.nodes.Item")
    assert capsys.readouterr().out == ""


LIES: dict[str, Callable[[], bytes]] = {
    "beyond its storage": lambda: packed(tensor(sizes=b"K\x07\x85")),
    "behind its storage": lambda: packed(tensor(offset=b"K\x01")),
    "a negative offset": lambda: packed(tensor(offset=b"J\xff\xff\xff\xff")),
    "a negative stride": lambda: packed(tensor(strides=b"J\xff\xff\xff\xff\x85")),
    "sizes without strides": lambda: packed(tensor(sizes=b"K\x01K\x06\x86")),
    "huge sizes": lambda: packed(tensor(sizes=b"\x8a\x09" + b"\x00" * 8 + b"\x40\x85")),
    "a size that is a word": lambda: packed(tensor(sizes=b"X\x01\x00\x00\x00a\x85")),
    "a size that is True": lambda: packed(tensor(sizes=b"\x88\x85")),
    "a storage of another size": lambda: packed(tensor(), bytes(28)),
    "a storage that claims more": lambda: packed(tensor(count=b"J\xff\xff\xff\x7f")),
    "grad that is a word": lambda: packed(tensor(grad=b"X\x01\x00\x00\x00a")),
    "no storage": lambda: packed(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(NK\x00))\x89NtR."),
    "a call of a dtype": lambda: packed(b"\x80\x02ctorch\nfloat32\n)R."),
    "a call of a number": lambda: packed(b"\x80\x02K\x01)R."),
    "a state of a list": lambda: packed(b"\x80\x02]}b."),
    "items of a number": lambda: packed(b"\x80\x02K\x01K\x02K\x03s."),
    "a dict of unhashable keys": lambda: packed(b"\x80\x02}]K\x01s."),
    "an object of a class": lambda: packed(b"\x80\x02ccollections\nOrderedDict\n)\x81."),
    "a text opcode": lambda: packed(b"I1\n."),
    "nothing on the stack": lambda: packed(b"\x80\x02."),
    "no end": lambda: packed(b"\x80\x02K\x01"),
    "a memo that is not there": lambda: packed(b"\x80\x02h\x07."),
    "an id that is no storage": lambda: packed(b"\x80\x02K\x01Q."),
    "an unknown byte order": lambda: packed(tensor(), byteorder=b"x" * 40),
    "a class as weights": lambda: packed(b"\x80\x02ctorch\nFloatStorage\nctorch\nTensor\n\x86R."),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    refused(LIES[name]())


def test_compressed_pickles_and_storages_are_refused() -> None:
    for compressed in ("a/data.pkl", "a/data/0"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in (("a/data.pkl", tensor()), ("a/data/0", bytes(24))):
                how = zipfile.ZIP_DEFLATED if name == compressed else zipfile.ZIP_STORED
                archive.writestr(name, data, how)
        refused(file.getvalue())


BOMBS = {
    # CPython's unpickler allocates an array with twice as many entries as the largest memo number.
    "a memo of 2**31 entries": b"\x80\x02K\x01r\xff\xff\xff\x7f.",
    "a string of 4 GiB": b"\x80\x02X\xff\xff\xff\xff.",
    "a number of 2 GiB": b"\x80\x02\x8b\xff\xff\xff\x7f.",
    "a frame of 2**63 bytes": b"\x80\x04\x95" + b"\xff" * 7 + b"\x7f" + b"K\x01.",
    "a thousand of a thousand of …": b"\x80\x02]q\x00" + b"](" + b"h\x00" * 1000 + b"e.",
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_pickle_takes_no_more_memory_than_it_has_bytes(name: str) -> None:
    data = packed(BOMBS[name])
    tracemalloc.start()
    try:
        try:
            gt.load(io.BytesIO(data))
        except errors.FileFormatError as error:
            assert "\n" not in str(error)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_overlapping_storages_take_no_more_memory_than_the_file() -> None:
    file = io.BytesIO()
    part = b"ctorch._utils\n_rebuild_tensor_v2\n(" + STORAGE.replace(b"X\x01\x00\x00\x000", b"%s")
    tensors = b"".join(
        part % (b"X\x03\x00\x00\x00%03d" % n) + b"J\xa8\x61\x00\x00tQK\x00)N\x89NtR"
        for n in range(500)
    )
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02](" + tensors + b"e.")
        archive.writestr("a/data/000", bytes(100_000))
        of = archive.getinfo("a/data/000")
        for n in range(1, 500):
            entry = zipfile.ZipInfo(f"a/data/{n:03d}")
            entry.header_offset, entry.CRC = of.header_offset, of.CRC
            entry.file_size = entry.compress_size = of.file_size
            archive.filelist.append(entry)
    tracemalloc.start()
    try:
        refused(file.getvalue())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", FILES)
def test_random_bytes_anywhere_are_refused_or_load(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    rng, refusals = random.Random(0), 0
    for _ in range(600):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            changed[rng.randrange(len(data))] = rng.randrange(256)
        try:
            for value in gt.load(io.BytesIO(bytes(changed))).values():
                repr(value)
        except errors.GpuTensorError as error:
            assert "\n" not in str(error)
            refusals += 1
    assert refusals > 100


@pytest.mark.parametrize("name", FILES)
def test_every_cut_is_refused(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    for length in range(0, len(data), 37):
        refused(data[:length])


def test_every_opcode_that_pickle_writes_for_plain_values_is_read() -> None:
    plain = [
        1,
        -1,
        300,
        2**40,
        2**3000,
        1.5,
        "x" * 300,
        b"y" * 300,
        {1: [2, (3,)]},
        {4},
        frozenset({5}),
    ]
    for protocol in range(2, 6):
        data = pickle.dumps(plain, protocol)
        names = {opcode.name for opcode, _, _ in pickletools.genops(data)}
        try:
            assert gt.load(io.BytesIO(packed(data))) == plain
        except errors.FileFormatError:  # in old protocols, sets and bytes are function calls
            assert "GLOBAL" in names and protocol < 4


def test_bytes_of_another_order_are_turned() -> None:
    values = np.arange(6, dtype=">f4").tobytes()
    found = gt.load(io.BytesIO(packed(tensor(), values, byteorder=b"big")))
    assert found.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_legacy_file_of_another_machine_is_refused() -> None:
    data = (GOLDEN / "legacy.pt").read_bytes()
    assert struct.pack("<q", 6) in data
    refused(data.replace(struct.pack("<q", 6), struct.pack("<q", 7), 1), "elements")
