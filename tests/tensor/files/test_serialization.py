"""save and load: values, shared storages, errors of damaged files, and that no code runs."""

from __future__ import annotations

import io
import json
import os
import random
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import dtype as dt
from gputensor.core import errors


def saved(obj):
    file = io.BytesIO()
    gt.save(obj, file)
    return file.getvalue()


def through(obj, **options):
    return gt.load(io.BytesIO(saved(obj)), **options)


def same(a, b):
    assert (a.dtype, a.shape, a.stride(), a.storage_offset()) == (
        b.dtype,
        b.shape,
        b.stride(),
        b.storage_offset(),
    )
    assert a.device == b.device
    if not a.is_meta and a.numel():
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_every_dtype(element):
    x = gt.asarray((np.arange(6) % 2).astype(element.np)).reshape(2, 3)
    same(x, through(x))


@pytest.mark.parametrize("make", [
    lambda x: x.t(), lambda x: x[1:, ::2], lambda x: x[0, 0], lambda x: x[5:],
    lambda x: x.unsqueeze(0).expand(3, 4, 6),
    lambda x: gt.empty(3, 4, device="meta"), lambda x: gt.empty(0),
])  # fmt: skip
def test_every_layout(make):
    x = make(gt.arange(24).reshape(4, 6))
    same(x, through(x))


VALUES = [
    None, True, 0, -5, 2**63, -(2**200), 1.5, -0.0, float("inf"), -float("inf"), 1e-320, 1 + 2j,
    complex(float("inf"), -0.0),
    "", "text äß\ud800", [], (), {}, [1, [2, (3, {"a": None})]], {1: "a", (2, 3): 4.0,
    None: [True]}, gt.float16,
    gt.device("cuda:1"), gt.Size([2, 3]), {"tensor": 1}, {"dict": [{"list": ()}]},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_values(value):
    back = through(value)
    assert type(back) is type(value) and repr(back) == repr(value)


def test_nan_and_ordered_dict():
    assert np.isnan(through(float("nan")))
    assert list(through(OrderedDict(b=1, a=2)).items()) == [("b", 1), ("a", 2)]


def test_shared_storages_and_tensors_stay_shared():
    x = gt.arange(6)
    state = {"x": x, "again": [x], "tail": x[3:], "other": gt.arange(6)}
    back = through(state)
    assert back["again"][0] is back["x"]
    assert back["tail"].untyped_storage() is back["x"].untyped_storage()
    assert back["other"].untyped_storage() is not back["x"].untyped_storage()
    back["x"][4] = 40
    assert back["tail"].tolist() == [3, 40, 5]
    assert len(saved([x, x[1:], x[2:]])) < len(saved([x])) + 800


def test_file_names_and_objects(tmp_path):
    path = tmp_path / "x.gt"
    gt.save([gt.arange(3)], path)
    assert gt.load(path)[0].tolist() == gt.load(str(path))[0].tolist() == [0, 1, 2]
    with open(path, "rb") as file:
        assert gt.load(file)[0].tolist() == [0, 1, 2]
    assert saved({"a": gt.arange(3)}) == saved({"a": gt.arange(3)})  # no times, no addresses
    with pytest.raises(TypeError):
        gt.save(object(), path)
    assert os.listdir(tmp_path) == ["x.gt"] and gt.load(path)[0].tolist() == [0, 1, 2]
    with pytest.raises(FileNotFoundError):
        gt.load(tmp_path / "absent")


def test_any_zip_tool_can_read_it():
    with zipfile.ZipFile(io.BytesIO(saved([gt.arange(3), gt.empty(0), gt.ones(2)]))) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [
            "archive/data.pkl", "archive/byteorder", "archive/data/0", "archive/data/1",
            "archive/data/2", "archive/version",
        ]  # fmt: skip
        assert np.frombuffer(archive.read("archive/data/0"), np.int64).tolist() == [0, 1, 2]


def test_parameters_come_back_and_types_of_a_storage_too():
    w = gt.nn.Parameter(gt.ones(2, 3), requires_grad=False)
    back = through({"w": w, "again": w, "data": w.detach()})
    assert type(back["w"]) is gt.nn.Parameter and not back["w"].requires_grad
    assert back["again"] is back["w"]
    assert back["data"].untyped_storage() is back["w"].untyped_storage()
    bytes_ = gt.arange(8, dtype=gt.uint8)
    for views in ([bytes_, bytes_.view(gt.float32)], [bytes_.view(gt.float32), bytes_]):
        found = through(views)
        assert [x.dtype for x in found] == [x.dtype for x in views]
        assert found[0].untyped_storage() is found[1].untyped_storage()


def test_safetensors(tmp_path):
    pytest.importorskip("safetensors", reason="it is an extra")
    state = {"a": gt.arange(6).reshape(2, 3).t(), "b": gt.ones(2, dtype=gt.bfloat16)}
    gt.save(state, tmp_path / "x.safetensors")
    for options in ({}, {"map_location": "cpu"}, {"map_location": {"cpu": "cpu"}}):
        found = gt.load(tmp_path / "x.safetensors", **options)
        assert found["a"].tolist() == state["a"].tolist() and found["b"].dtype is gt.bfloat16
    with pytest.raises(errors.ArgumentTypeError, match="'obj.*a.*' must be a tensor"):
        gt.save({"a": 1}, tmp_path / "y.safetensors")
    with pytest.raises(errors.ArgumentTypeError, match="a dict of tensors"):
        gt.save([gt.ones(1)], tmp_path / "y.safetensors")
    (tmp_path / "y.safetensors").write_bytes(b"no such file")
    with pytest.raises(errors.FileFormatError):
        gt.load(tmp_path / "y.safetensors")


def test_map_location():
    x = gt.arange(3)
    assert through(x, map_location="meta").is_meta
    assert through(x, map_location=gt.device("meta")).is_meta
    assert through(x, map_location={"cpu": "meta"}).is_meta
    assert through(x, map_location={"cuda:0": "meta"}).device == x.device


@pytest.mark.parametrize("value, where", [
    (object(), "obj"), ({"a": [1, frozenset({2})]}, r"obj\['a'\]\[1\]"),
    ([np.float64(1)], r"obj\[0\]"),
    ({b"a": 1}, "a key of obj"),
    (lambda: 1, "obj"), (np.arange(3), "obj"),
])  # fmt: skip
def test_what_cannot_be_saved_is_named(value, where):
    with pytest.raises(TypeError, match=where):
        saved(value)


def test_a_list_that_contains_itself():
    loop = []
    loop.append(loop)
    with pytest.raises(RuntimeError, match="contain itself"):
        saved(loop)
    shared = [1]
    assert through([shared, shared]) == [[1], [1]]


# --- damage ---------------------------------------------------------------------------------------


def refuse(data):
    with pytest.raises(errors.FileFormatError) as caught:
        gt.load(io.BytesIO(data))
    assert "\n" not in str(caught.value) and str(caught.value).startswith(
        "load: 'f' must be a whole file"
    )


def test_every_truncation_is_refused():
    data = saved({"x": gt.arange(40), "y": [1.5, "text"]})
    for length in range(0, len(data), 3):
        refuse(data[:length])


def test_changed_bytes_are_refused_or_change_nothing():
    data = saved({"x": gt.arange(40), "y": [1.5, "text"]})
    expected = repr(gt.load(io.BytesIO(data)))
    rng = random.Random(0)
    refused = 0
    for _ in range(1500):
        position = rng.randrange(len(data))
        changed = bytearray(data)
        changed[position] ^= 1 << rng.randrange(8)
        try:
            assert (
                repr(gt.load(io.BytesIO(bytes(changed)))) == expected
            )  # a byte that zip does not read
        except errors.FileFormatError as error:
            assert "\n" not in str(error)
            refused += 1
    assert refused > 900  # the rest is padding, or dates


def forged(change, storage=bytes(24)):
    header = {
        "format": "gputensor", "version": 1, "byteorder": "little", "storages": [{"nbytes": 24,
        "device": "cpu"}],
        "tensors": [{"storage": 0, "offset": 0, "dtype": "int64", "sizes": [3], "strides": [1]}],
        "value": {"tensor": 0},
    }  # fmt: skip
    change(header)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("storages/0", storage)
    return file.getvalue()


def test_an_unchanged_forgery_loads():
    assert gt.load(io.BytesIO(forged(lambda h: None))).tolist() == [0, 0, 0]


@pytest.mark.parametrize("change", [
    lambda h: h["tensors"][0].update(sizes=[4]), lambda h: h["tensors"][0].update(offset=1),
    lambda h: h["tensors"][0].update(strides=[2]), lambda h: h["tensors"][0].update(strides=[-1]),
    lambda h: h["tensors"][0].update(sizes=[3, 1]),
    lambda h: h["tensors"][0].update(dtype="object"),
    lambda h: h["tensors"][0].update(storage=1), lambda h: h["tensors"][0].update(storage=-1),
    lambda h: h["tensors"][0].update(sizes=["3"]), lambda h: h["tensors"][0].update(sizes=[2**80]),
    lambda h: h["storages"][0].update(nbytes=10**15),
    lambda h: h["storages"][0].update(nbytes=True),
    lambda h: h.update(value={"code": "print"}), lambda h: h.update(value={"tensor": 0, "a": 1}),
    lambda h: h.update(value={"dict": [[[], 1]]}), lambda h: h.update(version=2),
    lambda h: h.update(format="zip"),
    lambda h: h.update(byteorder="big"), lambda h: h.pop("value"), lambda h: h.update(tensors=7),
    lambda h: h.update(value={"complex": [1]}) or h.update(value={"complex": "x"}),
    lambda h: h.update(value={"int": "zz"}),
])  # fmt: skip
def test_forged_headers_are_refused(change):
    refuse(forged(change))


def test_other_files_are_refused():
    refuse(b"")
    refuse(b"not a zip at all" * 100)
    other = io.BytesIO()
    np.savez(other, a=np.arange(3))
    refuse(other.getvalue())
    deep = io.BytesIO()
    with zipfile.ZipFile(deep, "w") as archive:
        archive.writestr("header.json", "[" * 100000 + "]" * 100000)
    refuse(deep.getvalue())
