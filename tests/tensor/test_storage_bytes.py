"""Uses of the bytes of `untyped_storage()` in programs, compared with PyTorch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.tensor.typed_storage import TypedStorage


def _filled(s: Any, t: Any) -> Any:
    s[0] = 7
    s[2:5] = 300
    s[15] = -2
    return s.tolist()


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "tolist": lambda s, t: s.tolist(),
    "list": lambda s, t: list(s),
    "len": lambda s, t: (len(s), s.size(), s.nbytes(), s.element_size()),
    "a byte": lambda s, t: (s[4], s[-4]),
    "written": _filled,
    "fill_": lambda s, t: (s.fill_(0x1FF) is s, s.tolist()),
    "a slice": lambda s, t: s[4:9].tolist(),
    "a slice shares": lambda s, t: (s[4:9].fill_(1).tolist(), s.tolist()),
    "copy_": lambda s, t: s.copy_(t.full((4,), 9, dtype=t.int32).untyped_storage()).tolist(),
    "clone": lambda s, t: (s.clone().fill_(3).tolist(), s.tolist()),
    "smaller": lambda s, t: (s.resize_(6) is s, s.tolist()),
    "larger": lambda s, t: (s.resize_(20).nbytes(), s.tolist()[:16]),
    "nothing": lambda s, t: s.resize_(0).tolist(),
    "places": lambda s, t: (s.cpu() is s, s.is_cuda, s.get_device(), str(s.device)),
    "deepcopy": lambda s, t: (copy.deepcopy(s).fill_(0).tolist(), s.tolist()),
    "address": lambda s, t: s[4:].data_ptr() - s.data_ptr(),
    "untyped": lambda s, t: s.untyped() is s,
    "shared": lambda s, t: (s.is_shared(), s.is_pinned()),
    "a tensor over it": lambda s, t: t.empty(0, dtype=t.uint8).set_(s).tolist(),
    "index beyond": lambda s, t: s[16],
    "index of another type": lambda s, t: s["a"],
    "steps": lambda s, t: s[::2],
    "a float": lambda s, t: s.__setitem__(0, 1.5),
    "another size": lambda s, t: s.copy_(t.arange(3).untyped_storage()),
    "less than nothing": lambda s, t: s.resize_(-1),
}  # fmt: skip
REFUSED = ("index beyond", "index of another type", "steps", "a float", "another size",
           "less than nothing")  # fmt: skip


def storage(t: Any) -> Any:
    return t.arange(1, 5, dtype=t.int32).untyped_storage()


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_it_is_pytorchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    for t in (torch, gt) if name in REFUSED else ():
        s = storage(t)
        with pytest.raises((RuntimeError, IndexError, TypeError, ValueError)):
            CALLS[name](s, t)
        assert s.tolist() == storage(t).tolist()
    if name not in REFUSED:
        assert CALLS[name](storage(gt), gt) == CALLS[name](storage(torch), torch)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_all_tensors_see_it(device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    x = gt.arange(1, 5, dtype=gt.int32, device=device)
    version, view = x._version, x[1:]
    s = x.untyped_storage()
    s[4] = 9
    assert view.tolist() == [9, 3, 4] and x._version == version + 1
    s[4:8].fill_(1)
    assert view.tolist() == [0x01010101, 3, 4]
    s.resize_(64)[60] = 1
    assert x.tolist() == [1, 0x01010101, 3, 4] and s[60] == 1 and s.nbytes() == 64
    s.copy_(gt.full((64,), 2, dtype=gt.uint8).untyped_storage())
    assert x.tolist() == [0x02020202] * 4
    assert s.cpu().device.type == "cpu" and s.cpu().tolist() == [2] * 64


READS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 1,
    "add_": lambda x: x.add_(x),
    "sum": lambda x: x.sum(),
    "fill_": lambda x: x.fill_(2.0),
    "cat": lambda x: gt.cat([x, x]),
    "permuted": lambda x: x.view(4, 8).t().contiguous(),
    "product": lambda x: x.view(4, 8) @ x.view(8, 4),
    "tolist": lambda x: x.tolist(),
    "a part": lambda x: x[3:].clone(),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", READS)
def test_a_tensor_without_its_memory_is_refused(name: str, device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    x = gt.ones(32, device=device)
    for _ in range(4):
        READS[name](x)  # the next call may take a short cut
    # on a GPU, only a storage of 0 bytes is checked
    for nbytes in (0, 16) if device == "cpu" else (0,):
        x.untyped_storage().resize_(nbytes)
        with pytest.raises(errors.ArgumentError, match=f"was resized to {nbytes} bytes"):
            READS[name](x)
        x.untyped_storage().resize_(128)
        x.fill_(1.0)
        READS[name](x)


def test_meta_has_sizes_alone() -> None:
    s = gt.empty(4, device="meta").untyped_storage()
    assert s.resize_(40).nbytes() == 40 and s[:8].nbytes() == 8 and s.clone().nbytes() == 40


def test_memory_shared_with_processes() -> None:
    x = gt.arange(3)
    assert x.untyped_storage().share_memory_().is_shared() and x.is_shared() and x.sum() == 3


def test_programs_make_storages() -> None:
    from gputensor.as_torch.legacy_types import UntypedStorage

    assert len(UntypedStorage(4)) == 4 and UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert UntypedStorage().nbytes() == 0 and UntypedStorage(8, device="meta").nbytes() == 8
    assert isinstance(UntypedStorage(2), UntypedStorage)


# --- typed storages -------------------------------------------------------------------------------


def test_a_typed_storage_is_made_of_a_length_or_elements() -> None:
    assert TypedStorage([1, 2], dtype=gt.int16).tolist() == [1, 2]
    assert TypedStorage([1.5]).dtype is gt.float32 and len(TypedStorage(3)) == 3
    assert len(TypedStorage()) == 0 and TypedStorage(2, device="meta").device.type == "meta"
    bytes_ = gt.tensor([1, 2]).untyped_storage()
    assert TypedStorage(wrap_storage=bytes_, dtype=gt.int64).tolist() == [1, 2]


def test_set_takes_typed_storages_of_the_dtype() -> None:
    source = gt.arange(10.0).storage()
    x = gt.empty(0).set_(source, storage_offset=1, size=(4,), stride=(2,))
    assert x.tolist() == [1, 3, 5, 7] and gt.empty(0).set_(source).numel() == 10
    with pytest.raises(errors.ArgumentError, match="set_: 'source' must have self's dtype f64"):
        gt.empty(0, dtype=gt.float64).set_(source)


def test_the_file_of_mapped_memory(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(4,))
    x = gt.from_numpy(mapped[1:])
    assert x.untyped_storage().filename == str(tmp_path / "x")
    assert gt.ones(2).untyped_storage().filename is None
    assert gt.ones(2, device="meta").untyped_storage().filename is None
