"""complex32 as storage: casts, copies, views and exchange, and arithmetic through complex64.

The tests of rows include it for operators that compute nothing (`dtypes_of`). Here are special
values of casts, bits, files, other libraries, errors.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core.dtype import COMPLEX, STORED
from gputensor.core.errors import ArgumentTypeError, GpuTensorError

from ..harness import tier
from ..harness.cases import CALLABLE, Case, flat, main_form
from ..harness.compare import as_complex32, assert_same, to_numpy

DEVICES = ("cpu", "cuda")
ODD = np.array(
    [0.0, -0.0, 1.0, -1.5, 3.7, 65504.0, 65519.9, 65520.0, -1e5, np.inf, -np.inf, np.nan, 6e-8,
     2.98e-8, 1e-5, 1 + 2**-11, 1 + 2**-11 + 2**-30, 255.0, 1e300]
)  # fmt: skip
PAIRS = np.array([complex(a, b) for a in ODD for b in ODD[::2]])


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not gt.cuda.is_available():
        pytest.skip("no CUDA device, and the emulator is off")
    return str(request.param)


def odd(of: gt.dtype) -> gt.Tensor:
    """Return unusual numbers in a dtype."""
    wide = gt.from_numpy(PAIRS if of.category == COMPLEX else ODD)
    return wide.to(of)


def same(found: gt.Tensor, wanted: np.ndarray, what: Any) -> None:
    assert_same(to_numpy(found), wanted, what)


@pytest.mark.parametrize("of", STORED, ids=lambda d: d.short)
def test_casts_round_each_part_once(of: gt.dtype, device: str) -> None:
    x = odd(of)
    there = x.to(device)
    if of.is_complex:
        with np.errstate(all="ignore"):
            wide = x.to(gt.complex64) if of is gt.complex32 else x
            wanted = as_complex32(wide.numpy())
    else:
        wanted = as_complex32(to_numpy(x.half()).astype(np.complex64))
    same(there.to(gt.complex32), wanted, of)
    h = odd(gt.complex32)
    if of is gt.bool:
        back = gt.view_as_real(h).ne(0).any(-1)
    else:
        back = h.to(gt.complex64).to(of) if of.is_complex else h.real.to(of)
    same(h.to(device).to(of), to_numpy(back), of)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.transpose(0, 2),
    "step 2": lambda x: x[:, :, ::2],
    "expanded": lambda x: x[:1].expand(4, -1, -1),
    "conjugate": lambda x: x.conj(),
    "negative": gt.ops.aten._neg_view,
    "0-d": lambda x: x[1, 0, 1],
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("sizes", [(2, 3, 4), (40, 64, 160)][: tier.pick(1, 2)], ids=str)
@pytest.mark.parametrize("layout", list(LAYOUTS), ids=str)
def test_copies_are_those_of_complex64(layout: str, sizes: tuple[int, ...], device: str) -> None:
    count = sizes[0] * sizes[1] * sizes[2]
    wide = (gt.arange(count) % 1021).to(gt.complex64).mul(1 - 2j).reshape(sizes).to(device)
    x, y = LAYOUTS[layout](wide.to(gt.complex32)), LAYOUTS[layout](wide)
    made = x.clone()
    assert made.stride() == y.clone().stride() and not made.is_conj()
    same(made, to_numpy(y.resolve_neg().to(gt.complex32)), layout)
    same(x.contiguous(), to_numpy(y.contiguous().to(gt.complex32)), layout)
    for source in (x, y, x.real):
        into = gt.zeros((2, *x.shape), dtype=gt.complex32, device=device).copy_(source)
        same(into[1].to(gt.complex64), to_numpy(source.to(gt.complex64).contiguous()), layout)


COMPUTED: dict[str, Callable[[Any], Any]] = {
    "x + x": lambda x: x + x,
    "x * x": lambda x: x * x,
    "x / 3": lambda x: x / 3,
    "1 - x": lambda x: 1 - x,
    "x * 2j": lambda x: x * 2j,
    "-x": lambda x: -x,
    "abs": gt.abs,
    "exp": gt.exp,
    "conj": lambda x: x.conj().resolve_conj(),
    "x == 1": lambda x: x == 1 - 2j,
    "isnan": gt.isnan,
    "isfinite": gt.isfinite,
    "addcmul": lambda x: gt.addcmul(x, x, x, value=0.5),
    "where": lambda x: gt.where(x.real > 3, x, x * 0),
    "transposed": lambda x: x.t() + x.t(),
    "in place": lambda x: x.clone().mul_(x).sub_(1),
    "index_add": lambda x: x.index_add(0, gt.tensor([0, 0], device=x.device), x[:2]),
    "any": lambda x: x.any(1),
    "all": lambda x: x.all(),
    "nonzero": gt.nonzero,
}


@pytest.mark.parametrize("name", [*COMPUTED][:: tier.pick(3, 1)])
def test_what_is_computed_is_complex64_rounded_once(name: str, device: str) -> None:
    wide = gt.tensor([[0.0, 1 - 2j, 3 + 0.5j], [-2j, 7.25, 0.375 + 1j]], device=device)
    run = COMPUTED[name]
    found, wanted = run(wide.to(gt.complex32)), run(wide)
    rounded = {gt.complex64: gt.complex32, gt.float32: gt.float16}
    assert found.dtype is rounded.get(wanted.dtype, wanted.dtype)
    assert found.stride() == wanted.stride()
    assert gt.isclose(found.to(wanted.dtype), wanted, rtol=2**-10, equal_nan=True).all()


def test_halves_meet_complex_numbers_in_it(device: str) -> None:
    x = gt.tensor([1.5, -2.0], dtype=gt.float16, device=device)
    assert (x * 2j).dtype is (x + gt.tensor(1j, device=device)).dtype is gt.complex32
    assert (x * 2j).tolist() == [3j, -4j]
    out = gt.empty(2, dtype=gt.complex32, device=device)
    assert gt.mul(x.float(), 2, out=out).tolist() == [3, -4] and out.dtype is gt.complex32


def test_negative_zeros_are_zeros(device: str) -> None:
    x = gt.tensor([-0.0 - 0j, 0, 1], dtype=gt.complex32, device=device).neg()
    assert x.nonzero().tolist() == [[2]] and x.count_nonzero().item() == 1
    assert not x[:2].any() and not x.all() and x.bool().tolist() == [False, False, True]


def test_views_share_the_memory(device: str) -> None:
    x = gt.zeros(4, dtype=gt.complex32, device=device)
    x.real.fill_(2)
    gt.view_as_real(x)[1] = gt.tensor([5.0, -6.0], device=device)
    pairs = gt.ones(3, 2, dtype=gt.float16, device=device)
    gt.view_as_complex(pairs)[0] = 3j
    assert x.tolist() == [2, 5 - 6j, 2, 2] and pairs.tolist()[0] == [0, 3]
    assert x.view(gt.float16).tolist()[:4] == [2, 0, 5, -6]
    assert x.view(gt.uint8).shape == (16,) and x.view(gt.int32).view(gt.complex32).equal(x)
    assert x.conj().imag.tolist() == [-0.0, 6, -0.0, -0.0]


def test_made_and_read_and_printed(device: str) -> None:
    x = gt.tensor([1 + 2j, 3], dtype=gt.complex32, device=device)
    assert x.dtype is gt.chalf and x.element_size() == 4 and x.type().endswith("ComplexHalfTensor")
    assert x[0].item() == 1 + 2j and x.tolist() == [1 + 2j, 3] and complex(x[1]) == 3
    assert "tensor([1.+2.j, 3.+0.j]" in repr(x) and "dtype=gputensor.complex32" in repr(x)
    assert gt.full((2,), 1e6 + 1j, dtype=gt.complex32, device=device).tolist() == [np.inf + 1j] * 2
    half = gt.full((2,), 1e6, dtype=gt.float16, device=device)
    assert half.tolist() == [np.inf] * 2  # without a warning, which would be an error here
    assert gt.ones_like(x).add(gt.zeros_like(x)).tolist() == [1, 1]
    assert gt.eye(2, dtype=gt.complex32, device=device).tolist() == [[1, 0], [0, 1]]
    assert gt.ones(2, device=device).chalf().imag.tolist() == [0, 0]
    gt.manual_seed(1)
    drawn = gt.randn(50, dtype=gt.complex32, device=device)
    assert len(set(gt.view_as_real(drawn).reshape(-1).tolist())) > 80


def test_files_pickles_and_dlpack() -> None:
    x = gt.tensor([[1 + 2j, 3], [4j, -0.5]], dtype=gt.complex32).t()
    file = io.BytesIO()
    gt.save({"x": x}, file)
    file.seek(0)
    for y in (gt.load(file)["x"], pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.dtype is gt.complex32 and y.stride() == x.stride() and y.equal(x)
    shared = gt.from_dlpack(x)
    shared[0, 0] = 9
    assert shared.dtype is gt.complex32 and x[0, 0].item() == 9


def test_numpy_has_no_such_dtype() -> None:
    x = gt.ones(2, dtype=gt.complex32)
    for call in (x.numpy, lambda: np.asarray(x)):
        with pytest.raises(ArgumentTypeError, match="'self' must have a dtype that NumPy has"):
            call()
    with pytest.raises(ArgumentTypeError, match="'array' must have a dtype that tensors have"):
        gt.from_numpy(np.zeros(2, "V4"))
    assert not hasattr(x, "__cuda_array_interface__")


REFUSED: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(0),
    "cumsum": lambda x: x.cumsum(0),
    "matmul": lambda x: x @ x,
    "mv": lambda x: x @ x[0],
    "bmm": lambda x: gt.bmm(x[None], x[None]),
    "dot": lambda x: x[0].dot(x[0]),
    "sort": lambda x: x.sort(),
    "inv": gt.linalg.inv,
    "fft": gt.fft.fft,
    "unique": gt.unique,
    "max": lambda x: x.max(),
    "softmax": lambda x: x.softmax(0),
    "bernoulli": lambda x: x.bernoulli_(),
}


OURS = ("sum", "mean", "cumsum", "dot")  # the message is that library's


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_computed_is_refused(name: str, device: str) -> None:
    x = gt.tensor([[1 + 2j, 3], [4j, -0.5]], dtype=gt.complex32, device=device)
    with pytest.raises(GpuTensorError, match=name if name in OURS else None):
        REFUSED[name](x)
    assert x.tolist() == [[1 + 2j, 3], [4j, -0.5]] and x._version == 0


def test_gradients_go_through_it() -> None:
    x = gt.tensor([1.5, 2.0], requires_grad=True)
    gt.view_as_real(x.chalf() * (1 + 2j)).sum().backward()
    assert x.grad.tolist() == [3, 3] and x.grad.dtype is gt.float32


def test_meta_knows_its_results() -> None:
    x = gt.empty(2, 3, dtype=gt.complex32, device="meta")
    assert x.t().clone().stride() == (1, 3) and (x + 1).dtype is gt.complex32
    assert x.abs().dtype is gt.float16 and x.to(gt.complex128).dtype is gt.complex128


def test_every_operator_takes_or_refuses_it() -> None:
    faults, taken = [], 0
    for row in [row for row in CALLABLE if not row.name.startswith("_")]:
        case = Case(row, row.samples[0], gt.complex32)
        call = case.build()
        if not any(made.tensor.dtype is gt.complex32 for made in call.built):
            continue
        try:
            flat(main_form(row.name)(call.args, call.kwargs))
            taken += 1
        except (GpuTensorError, NotImplementedError):
            pass
        except Exception as error:
            faults.append(f"{case}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)
    assert taken > 250
