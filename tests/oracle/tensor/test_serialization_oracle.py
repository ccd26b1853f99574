"""gputensor reads PyTorch's checkpoints, and PyTorch ours, with equal bits."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.oracle

NAMES = (
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 "
    "complex32 uint16 uint32 uint64".split()
)


def to_torch(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    gt.save(obj, file)
    file.seek(0)
    return torch.load(file, weights_only=True, **options)


def from_torch(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return gt.load(file)


def bits(x: Any) -> list[int]:
    module = torch if isinstance(x, torch.Tensor) else gt
    whole = x.detach().clone(memory_format=module.contiguous_format)
    found: list[int] = whole.reshape(-1).view(module.uint8).tolist()
    return found


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_both_ways(name: str) -> None:
    ours = gt.arange(24).reshape(2, 3, 4).to(getattr(gt, name))
    made = to_torch({"x": ours, "t": ours.transpose(0, 2), "part": ours[1:, ::2]})
    for key, mine in {"x": ours, "t": ours.transpose(0, 2), "part": ours[1:, ::2]}.items():
        assert made[key].dtype is getattr(torch, name) and bits(made[key]) == bits(mine)
        assert made[key].stride() == mine.stride()
        assert made[key].storage_offset() == mine.storage_offset()
        assert made[key].untyped_storage().data_ptr() == made["x"].untyped_storage().data_ptr()
    back = from_torch(made)
    assert bits(back["part"]) == bits(ours[1:, ::2])
    assert back["t"].untyped_storage() is back["x"].untyped_storage()


@pytest.mark.parametrize("is_zip", [True, False])
def test_a_module_and_its_optimizer(is_zip: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.randn(2, 3, 5, 5)).square().sum().backward()
    optimizer.step()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    found = from_torch(saved, _use_new_zipfile_serialization=is_zip)
    assert found["epoch"] == 3 and type(found["model"]) is OrderedDict
    for name, x in saved["model"].items():
        assert bits(found["model"][name]) == bits(x), name
    ours = gt.nn.Sequential(gt.nn.Conv2d(3, 4, 3), gt.nn.BatchNorm2d(4))
    ours.load_state_dict(found["model"])
    again = gt.optim.AdamW(ours.parameters(), lr=0.5)
    again.load_state_dict(found["optimizer"])
    assert again.param_groups[0]["lr"] == 0.1
    # In the other direction, PyTorch reads gputensor's files.
    theirs = to_torch({"model": ours.state_dict(), "optimizer": again.state_dict()})
    model.load_state_dict(theirs["model"])
    optimizer.load_state_dict(theirs["optimizer"])


def test_plain_values_both_ways() -> None:
    plain = {
        "n": [0, -1, 2**31, -(2**40), 2**80, 1.5, float("inf"), -0.0], "s": "ä\U0001f600",
        "t": ((), (1,), (1, 2, 3, 4)), 5: None, "b": [True, False], "o": OrderedDict(a=[{}]),
        "c": 1 - 2j,
    }  # fmt: skip
    assert to_torch(plain) == plain == from_torch(plain)
    made = to_torch([gt.float16, gt.device("cuda:1"), gt.device("cpu"), gt.Size([2, 3])])
    assert made == [torch.float16, torch.device("cuda:1"), torch.device("cpu"), torch.Size([2, 3])]


def test_parameters_gradients_and_tensors_without_data() -> None:
    w = gt.nn.Parameter(gt.ones(2))
    made = to_torch({"w": w, "g": gt.ones(2, requires_grad=True), "m": gt.empty(3, device="meta")})
    assert type(made["w"]) is torch.nn.Parameter and made["w"].requires_grad
    assert made["g"].requires_grad and made["m"].is_meta and made["m"].shape == (3,)
    bytes_ = gt.arange(8, dtype=gt.uint8)
    for views in ([bytes_, bytes_.view(gt.int64)], [bytes_.view(gt.int64), bytes_]):
        for mine, theirs in zip(views, to_torch(views)):
            assert bits(mine) == bits(theirs)


def test_mapped_files_both_ways(tmp_path: Any) -> None:
    ours = {"x": gt.arange(6.0), "y": gt.ones(3, dtype=gt.uint8)}
    gt.save(ours, tmp_path / "a.pt")
    made = torch.load(tmp_path / "a.pt", weights_only=True, mmap=True)
    torch.save(made, tmp_path / "b.pt")
    found = gt.load(tmp_path / "b.pt", mmap=True)
    for key, x in ours.items():
        assert bits(made[key]) == bits(x) == bits(found[key])


def test_views_that_are_conjugate_or_negative() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j])
    found = from_torch({"conj": x.conj(), "neg": x.clone().conj().imag})
    assert found["conj"].tolist() == [1 - 2j, 3 + 4j] and found["neg"].tolist() == [-2.0, 4.0]


class Settings:
    """An object of a program's class."""

    def __init__(self, width: int, weight: Any) -> None:
        self.width, self.weight, self.names = width, weight, {"a", "b"}


def test_pytorch_reads_objects_of_any_class(tmp_path: Path) -> None:
    path = tmp_path / "objects.pt"
    gt.save([Settings(3, gt.arange(4.0)), Settings, b"\xfe"], path, pickle)
    read, kind, data = torch.load(path, weights_only=False)
    assert read.width == 3 and read.names == {"a", "b"} and kind is Settings and data == b"\xfe"
    assert read.weight.tolist() == [0, 1, 2, 3]
