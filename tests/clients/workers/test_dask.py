"""Dask: tensors as chunks of `dask.array`, their tokens and sizes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import gputensor as gt

from .. import all_close, values

pytestmark = pytest.mark.full
dask = pytest.importorskip("dask", reason="Dask is not installed")

import dask.array as da  # noqa: E402
from dask.base import tokenize  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

X = values(4, 6)
CASES = {
    "sum": lambda a: a.sum(),
    "sum along an axis": lambda a: a.sum(axis=0, keepdims=True),
    "mean": lambda a: a.mean(axis=1),
    "std": lambda a: a.std(),
    "var": lambda a: a.var(axis=0, ddof=1),
    "prod": lambda a: a.prod(axis=1),
    "min": lambda a: a.min(axis=0) + a.max(),
    "any": lambda a: (a > 0.9).any(axis=1),
    "argmax": lambda a: a.argmax(axis=0),
    "argmin of all": lambda a: a.argmin(),
    "nansum": lambda a: da.nansum(da.where(a > 0.5, np.nan, a), axis=0),
    "nanmean": lambda a: da.nanmean(da.where(a > 0.5, np.nan, a)),
    "median": lambda a: da.median(a, axis=1),
    "percentile": lambda a: da.percentile(a.ravel().rechunk(24), [25, 50]),
    "cumsum": lambda a: a.cumsum(axis=0),
    "topk": lambda a: da.topk(a, 2),
    "histogram": lambda a: da.histogram(a, bins=3, range=(0, 1))[0],
    "ufuncs": lambda a: da.exp(-a) * da.sqrt(a + 1) // 0.3,
    "arithmetic": lambda a: 2 * a - np.ones(6, np.float32) / (a + 1),
    "clip": lambda a: a.clip(0.2, 0.6),
    "round": lambda a: a.round(1),
    "isnan": lambda a: da.isnan(a),
    "where": lambda a: da.where(a > 0.3, a, 0),
    "astype": lambda a: a.astype("f8").sum(),
    "matmul": lambda a: a @ a.T,
    "dot": lambda a: da.dot(a, a[0]),
    "tensordot": lambda a: da.tensordot(a, a, axes=2),
    "einsum": lambda a: da.einsum("ij,kj->ik", a, a),
    "svd": lambda a: da.linalg.svd(a.rechunk((2, 6)))[1],
    "qr": lambda a: abs(da.linalg.qr(a.T.rechunk((3, 4)))[1]),
    "norm": lambda a: da.linalg.norm(a),
    "transpose": lambda a: a.T,
    "rechunk": lambda a: a.rechunk((3, 4)) + 1,
    "reshape": lambda a: a.reshape(2, 2, 6),
    "concatenate": lambda a: da.concatenate([a, a + 1], axis=1),
    "stack": lambda a: da.stack([a, -a]),
    "block": lambda a: da.block([[a, a], [a, a]]),
    "slices": lambda a: a[1:3, ::2],
    "a list of indices": lambda a: a[[0, 2, 3]],
    "a mask": lambda a: a[a > 0.5],
    "take": lambda a: da.take(a, [5, 0], axis=1),
    "assignment": lambda a: _assigned(a),
    "roll": lambda a: da.roll(a, 1, axis=0),
    "flip": lambda a: da.flip(a, 1),
    "pad": lambda a: da.pad(a, 1),
    "diff": lambda a: da.diff(a, axis=1),
    "map_blocks": lambda a: a.map_blocks(lambda block: block * 2),
    "map_overlap": lambda a: a.map_overlap(lambda b: b + 1, depth=1, boundary="reflect"),
    "maximum": lambda a: da.maximum(a, 0.5),
    "searchsorted": lambda a: da.searchsorted(a[0].cumsum(axis=0), a[1]),
    "ones_like": lambda a: da.ones_like(a) + da.full_like(a, 2),
    "apply_along_axis": lambda a: da.apply_along_axis(np.sum, 1, a),
}


def _assigned(a):
    a[0] = 3
    return a


# Dask or NumPy computes a part of these functions for which gputensor has no operator.
NOT_ON_CUDA = {"percentile", "arithmetic", "apply_along_axis"}


@pytest.mark.parametrize("case", [case for case in CASES if case not in NOT_ON_CUDA])
def test_a_chunk_on_cuda_is_computed_there(case):
    if not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    gt.set_numpy_on_devices(True)
    try:
        with dask.config.set(scheduler="synchronous"):
            x = gt.from_numpy(X.copy()).cuda()
            found = CASES[case](da.from_array(x, chunks=(2, 3))).compute()
            expected = CASES[case](da.from_array(X.copy(), chunks=(2, 3))).compute()
        all_close(found, expected, "cuda", rtol=1e-4)
    finally:
        gt.set_numpy_on_devices(False)


def test_percentiles_on_cuda_want_the_device_as_default():
    """Dask allocates its results by `empty_lookup`, which gets no device."""
    if not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    before = gt.get_default_device()
    gt.set_numpy_on_devices(True)
    gt.set_default_device("cuda")
    try:
        with dask.config.set(scheduler="synchronous"):
            x = da.from_array(gt.from_numpy(X.copy()).cuda().ravel(), chunks=6)
            found = da.percentile(x, [25, 50], method="midpoint").compute()
        assert found.is_cuda
        expected = da.percentile(da.from_array(X.ravel(), chunks=6), [25, 50], method="midpoint")
        all_close(found, expected.compute(), "cuda", rtol=1e-4)
    finally:
        gt.set_numpy_on_devices(False)
        gt.set_default_device(before)


@pytest.mark.parametrize("case", CASES)
def test_a_chunk_is_a_tensor(case):
    with dask.config.set(scheduler="synchronous"):
        found = CASES[case](da.from_array(gt.from_numpy(X.copy()), chunks=(2, 3)))
        expected = CASES[case](da.from_array(X.copy(), chunks=(2, 3)))
        assert found.dtype == expected.dtype and found.chunks == expected.chunks
        if case in {"min", "topk", "argmax", "clip", "diff"}:
            assert isinstance(found._meta, gt.Tensor)
        all_close(found.compute(), expected.compute(), "cpu", rtol=1e-4)


def test_one_chunk_is_not_copied_where_dask_joins_it_alone():
    x, y = gt.from_numpy(X.copy()), gt.from_numpy(X.copy())
    join = da.backends.concatenate_lookup.dispatch(gt.Tensor)
    assert join([x], axis=1) is x and join([x], axis=None).shape == (24,)
    all_close(join([x, y], axis=1), np.concatenate([X, X], 1), "cpu")
    all_close(join([x, X], axis=0), np.concatenate([X, X]), "cpu")
    z = da.concatenate([da.from_array(x, chunks=(2, 6)), da.from_array(y, chunks=(4, 6))])
    all_close(z.rechunk((3, 6)).compute(), np.concatenate([X, X]), "cpu")


@pytest.mark.parametrize("chunks", [4, 2])
def test_what_is_computed_is_the_callers_own(chunks):
    whole = da.from_array(np.zeros(4, "f4"), chunks=chunks).map_blocks(gt.tensor, meta=gt.empty(0))
    kept = whole.persist()
    for array in (kept, kept.blocks[0], kept.rechunk(4)):
        array.compute().fill_(5)
        all_close(kept.compute(), np.zeros(4, "f4"), "cpu")


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), [1], ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_count_is_an_array_of_numpys(axis, keepdims):
    found = da.backends.numel_lookup(gt.from_numpy(X), axis=axis, keepdims=keepdims, dtype="f4")
    axis = tuple(axis) if isinstance(axis, list) else axis
    expected = np.ones_like(X).sum(axis, "f4", keepdims=keepdims)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)
    assert isinstance(found, (np.ndarray, np.generic)) and found.shape == expected.shape


def test_the_backend_makes_tensors():
    with dask.config.set({"array.backend": "gputensor", "scheduler": "synchronous"}):
        for made in (da.ones((4, 4), chunks=2), da.zeros(3), da.full((2, 2), 5), da.empty(2)):
            assert isinstance(made._meta, gt.Tensor) and isinstance(made.compute(), gt.Tensor)
        assert da.arange(5, chunks=2).compute().tolist() == [0, 1, 2, 3, 4]
    there = da.from_array(X, chunks=2).to_backend("gputensor")
    assert isinstance(there.compute(), gt.Tensor) and there.to_backend("gputensor") is there
    assert isinstance(there.to_backend("numpy").compute(), np.ndarray)


def test_equal_tensors_have_one_token_in_every_process():
    x = gt.from_numpy(X)
    code = f"""
import gputensor as gt, numpy as np
from dask.base import tokenize
print(tokenize(gt.tensor({X.tolist()}), gt.float32))
"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert other.stdout.strip() == tokenize(x, gt.float32), other.stderr
    assert tokenize(x.t()) == tokenize(x.t().contiguous())
    different = [x, x + 1, x.double(), x.t(), x.reshape(-1), x.bfloat16(), x.to("meta")]
    different += [x.clone().requires_grad_(), gt.empty(0), gt.empty(0, 2)]
    assert len({tokenize(y) for y in different}) == len(different)


def test_a_size_is_that_of_the_memory():
    assert sizeof(gt.ones(4, 6)) == 96 and sizeof(gt.ones(1).expand(1000, 1000)) == 4
    assert sizeof(gt.ones(4, 6)[0]) == 24 and sizeof(gt.empty(9, device="meta")) == 0
