"""structured/library.py: operators by one function over arrays, on the CPU and the emulator."""

from __future__ import annotations

import math

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor._generated import operators
from gputensor.core import errors
from gputensor.dispatch import dispatcher
from gputensor.kernels import cublas
from gputensor.kernels.cuda import matmul_launch
from gputensor.native import matmul
from gputensor.structured import library

from .support import fresh_emulator, requires_emulator

DEVICES = ["cpu", pytest.param("cuda", marks=[requires_emulator, pytest.mark.emulator])]


@pytest.fixture(params=DEVICES)
def place(request):
    return request.param


def _sorted(namespace, x, dim):
    return namespace.np.sort(x, dim)


sort = library.kernel("sort", lambda self, dim: self._geometry, _sorted)


def test_a_kernel_is_one_function(place):
    x = gt.tensor([[3.0, 1.0, 2.0], [9.0, 8.0, 7.0]]).to(place)
    made = sort(0, x, 1)
    assert made.device == x.device and made.tolist() == [[1.0, 2.0, 3.0], [7.0, 8.0, 9.0]]
    assert sort(0, x.t(), 0).stride() == (1, 3), "strides as promised, whatever the library makes"
    assert sort(0, x.to("meta"), 0).shape == (2, 3)


def test_a_result_is_not_copied_where_it_lies_as_promised():
    made = []

    def twice(namespace, x):
        made.append(x * 2)
        return made[0]

    x = gt.ones(3)
    (result,) = library.call("twice", twice, (x._geometry,), x)
    assert result.data_ptr() == made[0].ctypes.data
    (same,) = library.call("same", lambda namespace, x: x, (x._geometry,), x)
    assert same.data_ptr() != x.data_ptr(), "an operand is not taken for a result"
    parts = lambda namespace, x: (made[0], made[0])  # noqa: E731
    first, second = library.call("parts", parts, (x._geometry,) * 2, x)
    assert first.data_ptr() != second.data_ptr()


@pytest.mark.parametrize("count", [4, 100_000])
@pytest.mark.parametrize("reshaped", [False, True])
def test_memory_that_the_namespace_allocates_is_the_results(count, reshaped):
    made = []

    def twice(namespace, x):
        made.append(namespace.empty((2, count // 2) if reshaped else (count,), x.dtype))
        made[0][...] = x[0] * 2
        return made[0].reshape(count) if reshaped else made[0]

    x = gt.ones(count)
    (result,) = library.call("twice", twice, (x._geometry,), x)
    assert result.data_ptr() == made[0].ctypes.data and result.sum() == 2 * count


def test_outputs_and_operands_are_strided_views(place):
    x, out = gt.arange(12.0).view(3, 4).to(place), gt.zeros(4, 3).to(place)
    library.write("sort", lambda n, out, x: n.np.multiply(x, 2, out), (out.t()[:, 1:],), x[:, 1:])
    assert out.tolist() == [[0, 0, 0], [2, 10, 18], [4, 12, 20], [6, 14, 22]]


def test_sizes_by_values_wait(place):
    x = gt.tensor([4, 1, 4, 4]).to(place)
    values, counts = library.waiting("unique", lambda n, x: n.np.unique(x, return_counts=True), x)
    assert (values.tolist(), counts.tolist()) == ([1, 4], [1, 3]) and values.device == x.device
    with pytest.raises(errors.GpuTensorError, match="unique: 'self' must have values"):
        library.waiting("unique", lambda n, x: n.np.unique(x), x.to("meta"))


@requires_emulator
@pytest.mark.emulator
@pytest.mark.parametrize("order", ["eager", "lazy", "random"])
def test_it_runs_in_the_order_of_the_stream(monkeypatch, order):
    emulator = fresh_emulator(monkeypatch, order=order, devices=2)
    monkeypatch.setattr(runtime, "_chosen", emulator)
    side, log = gt.cuda.Stream("cuda:1"), []

    def add(namespace, out, x):
        log.append(1)
        namespace.np.add(out, x, out)

    with gt.cuda.stream(side):
        x, total = gt.ones(5, device="cuda:1"), gt.zeros(5, device="cuda:1")
        for _ in range(3):
            library.write("add", add, (total,), x)
            x = x * 2
        (dropped,) = library.call("drop", lambda n, x: x + 1, (x._geometry,), x)
        del dropped, x
    assert len(log) == 3 if order == "eager" else len(log) <= 3
    side.synchronize()
    assert total.tolist() == [7.0] * 5 and len(log) == 3


@requires_emulator
@pytest.mark.emulator
def test_a_failure_is_told_when_the_queue_comes_to_it(monkeypatch):
    emulator = fresh_emulator(monkeypatch, order="lazy")
    monkeypatch.setattr(runtime, "_chosen", emulator)
    x = gt.ones(3, device="cuda")

    def writes_what_it_reads(namespace, x):
        x += 1
        return x

    library.call("bad", writes_what_it_reads, (x._geometry,), x)
    with pytest.raises(
        errors.KernelError, match="bad: a library failed: output array is read-only"
    ):
        gt.cuda.synchronize()
    assert x.tolist() == [1, 1, 1]


def test_a_further_device_says_what_it_lacks(monkeypatch):
    class Place:
        type, index = "npu", 0

    monkeypatch.setattr(runtime, "of", lambda of: object())
    with pytest.raises(errors.DispatchError, match="sort: no kernel of family 'sort'"):
        library._on_device("sort", _sorted, (), (), (), Place)


DTYPES = [
    gt.float32, gt.float64, gt.float16, gt.bfloat16, gt.complex64, gt.complex128, gt.int32,
]  # fmt: skip


def _products(x, w, bias, batch):
    yield x[0] @ w.t()
    yield gt.addmm(bias, x[1], w.mT, beta=2, alpha=3)
    yield x @ batch
    yield x[:, ::2, ::3] @ batch[:, :2]  # neither rows nor columns are dense
    yield gt.baddbmm(x[:, :, :1], x, batch, beta=3)
    yield gt.zeros(3, 5, dtype=x.dtype, device=x.device).addmm_(x[1], w.t(), beta=2)
    yield gt.mm(x[0], w.t(), out=gt.empty(5, 3, dtype=x.dtype, device=x.device).t())


@pytest.mark.skipif(not gt.cuda.is_available(), reason=gt.cuda.unavailable_reason() or "")
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_large_products_are_those_of_the_library(monkeypatch, of):
    """Products that cuBLAS does not support use our own kernel."""
    asked = []
    write = matmul._write_by_cublas
    monkeypatch.setattr(cublas, "LARGE", 0)
    monkeypatch.setattr(matmul, "_write_by_cublas", lambda *a: asked.append(a[0]) or write(*a))
    sizes = (2, 3, 4), (5, 4), (5,), (2, 4, 5)
    operands = [gt.arange(math.prod(n)).reshape(n).to(of) for n in sizes]
    on_device = [made.cpu() for made in _products(*[t.cuda() for t in operands])]
    for found, wanted in zip(on_device, _products(*operands), strict=True):
        assert gt.equal(found, wanted)
    names = ["mm", "addmm", "bmm", "bmm", "baddbmm", "addmm", "mm"]
    assert asked == ([] if of is gt.int32 else names)


@pytest.mark.skipif(not gt.cuda.is_available(), reason=gt.cuda.unavailable_reason() or "")
@pytest.mark.parametrize("of", DTYPES, ids=str)
def test_repeated_large_products_use_short_cuts(monkeypatch, of):
    monkeypatch.setattr(cublas, "LARGE", 0)
    dispatcher.forget_plans()
    sizes = (3, 4), (4, 5), (5,), (2, 3, 4), (2, 4, 5)
    operands = [gt.arange(math.prod(n)).reshape(n).to(of) for n in sizes]

    def products(a, b, c, many, others):
        yield a @ b
        yield gt.addmm(c, a, b)
        yield gt.addmm(c, a, b, beta=2, alpha=3)
        yield gt.addmm(c, a, b.t().contiguous().t(), beta=0)
        yield gt.bmm(many, others)

    wanted = list(products(*operands))
    for n in range(5):
        made = list(products(*[t.cuda() for t in operands]))
        assert [x.tolist() for x in made] == [x.tolist() for x in wanted], n
    if cublas.takes(of, (3, 5), 4) and not gt.cuda.is_emulated():
        assert all(len(op.table.short) for op in (operators.mm, operators.addmm, operators.bmm))
    dispatcher.forget_plans()


@requires_emulator
@pytest.mark.emulator
def test_more_products_than_a_grid_is_high(monkeypatch):
    monkeypatch.setattr(matmul_launch, "_MOST_PRODUCTS", 2)
    x, y, z = gt.arange(30).view(5, 2, 3), gt.arange(60).view(5, 3, 4), gt.arange(40).view(5, 2, 4)
    on = [t.to("cuda") for t in (z, x, y)]
    assert gt.bmm(on[1], on[2]).tolist() == gt.bmm(x, y).tolist()
    assert (
        gt.baddbmm(*on, beta=2, alpha=3).tolist() == gt.baddbmm(z, x, y, beta=2, alpha=3).tolist()
    )
    assert gt.baddbmm(*on, beta=0).tolist() == gt.bmm(x, y).tolist()
