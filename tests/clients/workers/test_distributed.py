"""Dask's distributed: tensors are sent to workers and spilled; workers' errors are raised."""

from __future__ import annotations

import os

import numpy as np
import pytest

import gputensor as gt

from .. import all_close, values

pytestmark = pytest.mark.full
dask = pytest.importorskip("dask", reason="Dask is not installed")
distributed = pytest.importorskip("distributed", reason="Dask's distributed is not installed")

import dask.array as da  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402
from distributed.protocol import deserialize, serialize  # noqa: E402
from distributed.spill import SpillBuffer  # noqa: E402

X = values(4, 6)
LAYOUTS = {
    "contiguous": lambda: gt.from_numpy(X.copy()),
    "transposed": lambda: gt.from_numpy(X.copy()).t(),
    "stepped": lambda: gt.from_numpy(X.copy())[::2, 1:],
    "expanded": lambda: gt.ones(1).expand(3, 4),
    "0-d": lambda: gt.tensor(2.5),
    "empty": lambda: gt.empty(0, 3),
    "channels_last": lambda: gt.rand(2, 3, 4, 5).to(memory_format=gt.channels_last),
    "conjugated": lambda: gt.tensor([1 + 2j]).conj(),
    "bfloat16": lambda: gt.from_numpy(X.copy()).bfloat16(),
    "bool": lambda: gt.from_numpy(X.copy()) > 0.5,
    "complex32": lambda: gt.tensor([1 + 2j]).to(gt.complex32),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_tensor_that_is_sent_is_received(layout, place):
    x = LAYOUTS[layout]().to(place)
    header, frames = serialize(x, serializers=("dask",))
    assert header["serializer"] == "dask"
    expected = x.cpu().contiguous().tolist()
    read_only = [memoryview(bytes(frame)) for frame in frames]
    for received in (read_only, frames):
        y = deserialize(header, received)
        assert (y.dtype, y.shape, y.device) == (x.dtype, x.shape, x.device)
        assert y.cpu().contiguous().tolist() == expected
        y.zero_()  # it may be written to
    if layout in ("contiguous", "transposed", "channels_last"):
        assert y.stride() == x.stride()
        if place == "cpu":
            frame = serialize(x, serializers=("dask",))[1][0]
            assert np.frombuffer(frame, np.uint8).ctypes.data == x.data_ptr()


def test_what_requires_grad_is_pickled():
    w = gt.ones(2, requires_grad=True)
    header, frames = serialize(w)
    received = deserialize(header, frames)
    assert (
        header["serializer"] == "pickle" and received.requires_grad and received.tolist() == [1] * 2
    )


def test_a_spilled_tensor_comes_back(tmp_path):
    buffer = SpillBuffer(str(tmp_path), target=100)
    tensors = {f"x{n}": gt.full((50,), n) for n in range(4)}
    buffer.update(tensors)
    assert len(buffer.slow) >= 3
    assert all(buffer[key].tolist() == x.tolist() for key, x in tensors.items())


@pytest.fixture
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore")
def test_workers_compute_with_tensors(client):
    x = gt.from_numpy(np.random.default_rng(0).standard_normal((60, 40)))
    a = da.from_array(x, chunks=(20, 20))
    for program in (
        lambda a: a.mean(axis=0),
        lambda a: a @ a.T,
        lambda a: a.rechunk((60, 5)).std(),
    ):
        found = program(a).compute()
        expected = program(da.from_array(x.numpy(), chunks=(20, 20))).compute()
        all_close(found, expected, "cpu")
    kept = (a + 1).persist()
    all_close(kept.sum().compute(), x.numpy().sum() + x.numel(), "cpu")

    with pytest.raises(distributed.KilledWorker):  # a task that kills its workers
        with dask.config.set({"distributed.scheduler.allowed-failures": 0}):
            client.run_on_scheduler(_allow_no_failure)
            a.map_blocks(_die, dtype=a.dtype, meta=a._meta).compute()
    with pytest.raises(TypeError, match="pickle|serialize"):
        a.map_blocks(lambda block, lock: block, lock=_Unpicklable(), meta=a._meta).compute()


def _allow_no_failure(dask_scheduler):
    dask_scheduler.allowed_failures = 0


def _die(block):
    os._exit(1)


class _Unpicklable:
    def __reduce__(self):
        raise TypeError("cannot pickle this on purpose")
