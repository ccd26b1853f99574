"""float8 dtypes are stored, cast, copied, printed, saved and loaded; few operators compute."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import FLOAT8

from ..harness import tier

DEVICES = ["cpu", "cuda"]
dtypes = pytest.mark.parametrize("of", FLOAT8, ids=lambda d: d.name)


def numbers() -> np.ndarray[Any, Any]:
    """Return numbers of all magnitudes, all midpoints between neighbours of a float8 dtype, and
    numbers next to these."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 1 << 32, 40_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    found = [np.array([np.inf, -np.inf, np.nan, -0.0]), drawn]
    found += [(rng.standard_normal(20_000) * 10.0 ** rng.integers(-6, 5, 20_000))]
    for of in FLOAT8:
        codes = np.arange(256, dtype=np.uint8).view(of.np).astype(np.float64)
        exact = np.unique(codes[np.isfinite(codes)])
        half = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
        found += [exact, half, np.nextafter(half, np.float32(np.inf)), np.nextafter(half, -half)]
    return np.concatenate([x.astype(np.float32) for x in found])


def least(of: gt.dtype) -> float:
    """Return the number to which zero is cast: float8_e8m0fnu has only powers of two."""
    return 2.0**-127 if of is gt.float8_e8m0fnu else 0.0


@dtypes
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
def test_casts_are_pytorchs(of: gt.dtype, device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    theirs, x = getattr(torch, of.name), numbers()
    ours = gt.from_numpy(x).to(device).to(of).view(gt.uint8).cpu().numpy()
    wanted = torch.from_numpy(x).to(theirs).view(torch.uint8).numpy()
    assert np.array_equal(ours, wanted)
    codes = np.arange(256, dtype=np.uint8)
    ours = gt.from_numpy(codes).to(device).view(of).float().cpu().numpy()
    wanted = torch.from_numpy(codes).view(theirs).float().numpy()
    assert np.array_equal(ours, wanted, equal_nan=True)
    for other in ("float64", "float16", "bfloat16", "int32", "uint8", "bool", "complex64"):
        values = [0, 1, 2, 3, 100, 200, 17]
        first = gt.tensor(values).to(getattr(gt, other)).to(device).to(of)
        second = torch.tensor(values).to(getattr(torch, other)).to(theirs)
        assert first.float().tolist() == second.float().tolist()
        back = second.to(getattr(torch, other))
        assert first.to(getattr(gt, other)).tolist() == back.tolist()


@dtypes
@pytest.mark.oracle
def test_files_and_texts_are_pytorchs(of: gt.dtype) -> None:
    torch = pytest.importorskip("torch")
    data = [[1.5, -2.0, 100.0], [0.0, 1e-3, float("nan")]]
    if of is gt.float8_e8m0fnu:  # PyTorch prints its 2**-127 as 0.0000
        data = [[1.0, 2.0, 128.0], [4.0, 8.0, 16.0]]
    ours, theirs = gt.tensor(data, dtype=of), torch.tensor(data, dtype=getattr(torch, of.name))
    assert repr(ours).replace("gputensor.", "torch.") == repr(theirs)
    file = io.BytesIO()
    gt.save({"x": ours}, file)
    file.seek(0)
    read = torch.load(file, weights_only=True)["x"]
    assert read.dtype is theirs.dtype and repr(read) == repr(theirs)
    file = io.BytesIO()
    torch.save({"x": theirs}, file)
    file.seek(0)
    assert repr(gt.load(file)["x"]) == repr(ours)


@dtypes
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.full)])
def test_they_are_copied_and_filled(of: gt.dtype, device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    wanted = [[1.0, 2.0, 4.0], [0.25, 8.0, 0.5]]  # all float8 dtypes have it
    x = gt.tensor(wanted, dtype=of, device=device)
    assert (x.dtype, x.element_size(), x.is_floating_point()) == (of, 1, True)
    for _ in range(4):  # the later ones may take a short cut
        for made in (x.clone(), x.t().contiguous().t(), x.cpu(), copy.deepcopy(x), x.repeat(1, 1),
                     pickle.loads(pickle.dumps(x)), x.to(gt.float16).to(of)):  # fmt: skip
            assert made.dtype is of and made.tolist() == wanted
        assert gt.zeros(3, dtype=of, device=device).tolist() == [least(of)] * 3
        assert gt.full((2,), 4, dtype=of, device=device).tolist() == [4, 4]
        assert gt.ones_like(x).fill_(2).tolist() == [[2, 2, 2], [2, 2, 2]]
        y = x.clone()
        y[0, 1] = 8
        y[1] = x[0]
        assert y.tolist() == [[1, 8, 4], [1, 2, 4]] and y[0, 1].item() == 8
    assert gt.ones(300, 300, dtype=of, device=device).float().sum().item() == 90_000
    assert gt.empty(0, dtype=of, device=device).tolist() == []
    leaf = gt.ones(2, device=device, requires_grad=True)
    leaf.to(of).float().sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [1, 1]


@dtypes
def test_numpy_has_them_by_ml_dtypes(of: gt.dtype) -> None:
    array = gt.tensor([0.5, 2.0], dtype=of).numpy()
    assert array.dtype == of.np == of and array.astype(np.float32).tolist() == [0.5, 2]
    for made in (gt.from_numpy(array), gt.tensor(array), gt.asarray(array)):
        assert made.dtype is of and made.tolist() == [0.5, 2]
    shared = gt.from_numpy(array)
    array[0] = 4
    assert shared.tolist() == [4, 2] and gt.finfo(of).bits == 8


def _written(x: Any, places: Any, values: Any) -> Any:
    made = x.clone()
    made[places] = values
    return made


# Calls of the library, x with sizes (3, 4), a mask of these sizes and two row indices.
MOVES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "cat": lambda t, x, mask, at: t.cat([x, x[:1]]),
    "cat of another dimension": lambda t, x, mask, at: t.cat([x, x.clone()], 1),
    "stack": lambda t, x, mask, at: t.stack([x, x], 1),
    "hstack": lambda t, x, mask, at: t.hstack([x, x]),
    "vstack": lambda t, x, mask, at: t.vstack([x, x]),
    "block_diag": lambda t, x, mask, at: t.block_diag(x, x),
    "index": lambda t, x, mask, at: x[at],
    "two indices": lambda t, x, mask, at: x[at, at],
    "an index behind": lambda t, x, mask, at: x[:, at],
    "mask": lambda t, x, mask, at: x[mask],
    "masked_select": lambda t, x, mask, at: t.masked_select(x, mask),
    "index_select": lambda t, x, mask, at: x.index_select(1, at),
    "embedding": lambda t, x, mask, at: t.nn.functional.embedding(at, x),
    "where": lambda t, x, mask, at: t.where(mask, x, x.flip(0)),
    "where of a number": lambda t, x, mask, at: t.where(mask, x, 2.0),
    "where of a number first": lambda t, x, mask, at: t.where(mask, 2.0, x),
    "flip": lambda t, x, mask, at: x.flip(0),
    "roll": lambda t, x, mask, at: x.roll(1),
    "roll of dimensions": lambda t, x, mask, at: x.roll((1, 2), (0, 1)),
    "pad": lambda t, x, mask, at: t.nn.functional.pad(x, (1, 2, 0, 1), value=2.0),
    "eye": lambda t, x, mask, at: t.eye(3, 2, dtype=x.dtype),
    "repeat_interleave": lambda t, x, mask, at: x.repeat_interleave(2, 0),
    "select_scatter": lambda t, x, mask, at: x.select_scatter(x[0], 0, 1),
}
# PyTorch has them only for the four dtypes with a fraction.
OF_FRACTIONS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "index_put": lambda t, x, mask, at: x.index_put((at,), x[:2]),
    "rows written": lambda t, x, mask, at: _written(x, at, x[:2]),
}


@dtypes
@pytest.mark.oracle
@pytest.mark.parametrize("name", [*MOVES, *OF_FRACTIONS])
@pytest.mark.parametrize("device", DEVICES)
def test_elements_are_moved_as_pytorch_does(of: gt.dtype, name: str, device: str) -> None:
    torch = pytest.importorskip("torch")
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    if name in OF_FRACTIONS and of is gt.float8_e8m0fnu or name == "pad" and not least(of) == 0:
        pytest.skip("PyTorch lacks it")
    data = 2.0 ** np.arange(-4, 8).reshape(3, 4)
    mask, at = data > 3, np.array([2, 0])
    call = {**MOVES, **OF_FRACTIONS}[name]
    ours = call(gt, gt.tensor(data, dtype=of, device=device), *[
        gt.tensor(x, device=device) for x in (mask, at)
    ])  # fmt: skip
    theirs = call(torch, *[
        torch.tensor(x, dtype=d) for x, d in ((data, getattr(torch, of.name)), (mask, None),
                                              (at, None))
    ])  # fmt: skip
    wanted = theirs.float().tolist()
    if name == "eye":
        ours = ours.cpu()
    assert ours.dtype is of and ours.float().tolist() == wanted
    assert ours.stride() == theirs.stride()


@dtypes
def test_moves_keep_to_one_dtype(of: gt.dtype) -> None:
    x, idx = gt.ones(2, dtype=of), gt.tensor([0])
    for call in (
        lambda: gt.cat([x, gt.ones(2)]), lambda: gt.cat([x, gt.ones(2, dtype=gt.uint8)]),
        lambda: gt.where(gt.tensor(True), x, gt.ones(2)), lambda: gt.stack([x, gt.ones(2)]),
        lambda: x.index_put((idx,), gt.ones(1)),
    ):  # fmt: skip
        with pytest.raises(gt.GpuTensorError):
            call()
    assert x.tolist() == [1, 1]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "neg": lambda x: -x,
    "lt": lambda x: x < x,
    "bmm": lambda x: x[None] @ x[None],
    "sum": lambda x: x.sum(),
    "amax": lambda x: x.amax(),
    "sort": lambda x: x.sort(),
    "index_add": lambda x: x.index_add(0, gt.tensor([0], device=x.device), x[:1]),
    "scatter_add": lambda x: x.scatter_add(0, gt.tensor([[0]], device=x.device), x),
    "accumulate": lambda x: x.index_put((gt.tensor([0], device=x.device),), x[0], accumulate=True),
    "softmax": lambda x: x.softmax(0),
    "var_mean": lambda x: gt.var_mean(x),
    "cumsum": lambda x: x.cumsum(0),
    "uniform_": lambda x: x.clone().uniform_(),
    "conv1d": lambda x: gt.nn.functional.conv1d(x[None], x[:, :, None]),
}


@pytest.mark.parametrize("name", [*REFUSED][:: tier.pick(8, 1)])
@pytest.mark.parametrize("device", DEVICES)
def test_other_operators_do_not_compute_in_them(name: str, device: str) -> None:
    if device == "cuda" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    x = gt.tensor([[1.5, -2.0], [0.5, 1.0]], dtype=gt.float8_e5m2, device=device)
    with pytest.raises(gt.GpuTensorError, match="float8_e5m2"):
        REFUSED[name](x)
    assert x.tolist() == [[1.5, -2.0], [0.5, 1.0]]


def test_they_meet_no_other_dtype() -> None:
    with pytest.raises(gt.GpuTensorError, match="no dtype holds float8 and another dtype"):
        gt.promote_types(gt.float8_e5m2, gt.float32)
    with pytest.raises(gt.GpuTensorError, match="no dtype holds float8 and another dtype"):
        gt.ones(2) + gt.ones(2, dtype=gt.float8_e5m2)
    assert gt.promote_types(gt.float8_e5m2, gt.float8_e5m2) is gt.float8_e5m2
