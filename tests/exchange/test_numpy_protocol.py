"""NumPy's protocols: each row of numpy/table.py against NumPy, and calls outside of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.exchange.numpy import protocol as numpy_protocol, table as numpy_table
from tests.harness import tier

M = np.random.default_rng(0).random((3, 4)) + 0.1
SQUARE = M[:, :3] @ M[:, :3].T + np.eye(3)
BOOLS = M > 0.5

# NumPy's arguments for each row.
CALLS: dict[str, tuple[Any, ...]] = {
    "all": (BOOLS, 0), "any": (BOOLS, 1), "amax": (M, 0), "amin": (M, 1), "max": (M,),
    "min": (M, (0, 1)), "argmax": (M, 1), "argmin": (M,), "argsort": (M, 0),
    "astype": (M, np.float32), "broadcast_to": (M, (2, 3, 4)), "clip": (M, 0.2, 0.7),
    "concatenate": ([M, M], 1), "copy": (M,), "count_nonzero": (BOOLS, 0), "cumsum": (M,),
    "cumprod": (M, 1), "diagonal": (M, 1), "diff": (M, 1, 0), "expand_dims": (M, (0, 2)),
    "flip": (M, 0), "imag": (M * 1j,), "isclose": (M, M + 1e-9), "isin": (M, M[0]),
    "kron": (M, M), "linalg.cholesky": (SQUARE,), "linalg.det": (SQUARE,),
    "linalg.inv": (SQUARE,), "linalg.solve": (SQUARE, M), "linalg.qr": (SQUARE,),
    "linalg.svd": (SQUARE,), "vstack": ([M, M],), "matrix_transpose": (M,),
    "mean": (M, 0), "moveaxis": (M, 0, 1), "nan_to_num": (M * np.nan,),
    "nansum": (M, 0),
    "nonzero": (BOOLS,), "ones_like": (M,), "outer": (M[0], M[1]), "prod": (M, 0), "ravel": (M,),
    "real": (M * 1j,), "repeat": (M, 2, 0), "reshape": (M, (4, 3)), "roll": (M, 1, 0),
    "round": (M, 1), "searchsorted": (np.sort(M[0]), M[1], "right"), "sort": (M, 0),
    "stack": ([M, M], 1), "std": (M, 0), "sum": (M, (0, 1)), "swapaxes": (M, 0, 1),
    "take_along_axis": (M, np.argsort(M, 0), 0), "tensordot": (M, M.T, 1), "trace": (M,),
    "transpose": (M, (1, 0)), "tril": (M, 1), "triu": (M,), "unstack": (M,), "var": (M, 1),
    "where": (BOOLS, M, 0.0), "zeros_like": (M,),
}  # fmt: skip


def tensors(x: Any) -> Any:
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], np.ndarray):
        return type(x)([tensors(y) for y in x])
    return gt.tensor(x) if isinstance(x, np.ndarray) else x


def same(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            same(one, other)
        return
    assert isinstance(ours, gt.Tensor)
    assert ours.numpy().dtype == np.asarray(theirs).dtype
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-9, atol=1e-12)


@pytest.fixture
def ours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(function: Any, *rest: Any) -> Any:
        raise AssertionError(f"NumPy computed {function}")

    monkeypatch.setattr(numpy_protocol, "by_numpy", refused)


@pytest.mark.parametrize("name", numpy_table.FUNCTIONS)
def test_function_of_a_row(name: str, ours_only: None) -> None:
    function: Any = np
    for part in name.split("."):
        if not hasattr(function, part):
            pytest.skip(f"this NumPy has no {name}")
        function = getattr(function, part)
    same(function(*map(tensors, CALLS[name])), function(*CALLS[name]))


INTEGERS = {
    "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "invert", "gcd", "lcm",
}  # fmt: skip


@pytest.mark.parametrize("function", [np.max, np.amin])
def test_an_extreme_of_nothing_is_numpys_error(function: Any, ours_only: None) -> None:
    words = "zero-size array to reduction operation"
    for shape, axis in (((0,), None), ((0, 3), 0), ((0, 3), (0, 1)), ((3, 0), -1)):
        with pytest.raises(ValueError, match=words):
            function(gt.empty(shape), axis=axis)
        with pytest.raises(ValueError, match=words):
            function(np.empty(shape), axis=axis)
    assert function(gt.empty(0, 3), axis=1).shape == (0,)


def test_what_ours_lacks_may_be_none(ours_only: None) -> None:
    x = gt.tensor(M)
    same(np.mean(x, 0, None, None), M.mean(0))
    same(np.std(x, 0, None, None, 1), M.std(0, ddof=1))
    same(np.sum(x, 0, None, None), M.sum(0))
    same(np.max(x, axis=0, out=None), M.max(0))


def test_what_ours_lacks_is_numpys() -> None:
    x = gt.tensor(M)
    same(np.mean(x, 0, np.float32), M.mean(0, np.float32))
    made = gt.empty(4, dtype=gt.float64)
    assert np.sum(x, 0, None, made) is made
    same(made, M.sum(0))


@pytest.mark.parametrize("name", [*numpy_table.OPERATORS, *numpy_table.UFUNCS])
def test_ufunc_of_a_row(name: str, ours_only: None) -> None:
    ufunc = getattr(np, name)
    data = (M * 5).astype(np.int64) if name in INTEGERS else M
    if name.startswith("arc"):
        data = M + 1 if name == "arccosh" else M / 2
    operands = [data, np.array(data[::-1])][: ufunc.nin]
    if name == "matmul":
        operands[1] = operands[1].T.copy()
    if name == "ldexp":
        operands[1] = np.arange(4)
    expected = ufunc(*operands)
    same(ufunc(*map(tensors, operands)), expected)
    if ufunc.nin == 2:  # an array on either side
        same(ufunc(operands[0], tensors(operands[1])), expected)
        same(ufunc(tensors(operands[0]), operands[1]), expected)


@pytest.mark.parametrize("name", numpy_table.REDUCTIONS)
def test_reduce_goes_along_the_first_axis(name: str, ours_only: None) -> None:
    data = BOOLS if name.startswith("logical") else M
    ufunc = getattr(np, name)
    same(ufunc.reduce(tensors(data)), ufunc.reduce(data))
    same(ufunc.reduce(tensors(data), None), ufunc.reduce(data, None))
    same(ufunc.reduce(tensors(data), axis=1, keepdims=True), ufunc.reduce(data, 1, keepdims=True))


@pytest.mark.parametrize("name", numpy_table.RUNNING)
def test_accumulate(name: str, ours_only: None) -> None:
    ufunc = getattr(np, name)
    same(ufunc.accumulate(tensors(M), 1), ufunc.accumulate(M, 1))


def test_what_no_row_has_numpy_computes() -> None:
    x = gt.tensor(M)
    same(np.percentile(x, 50), np.percentile(M, 50))
    same(np.cbrt(x), np.cbrt(M))
    same(np.multiply.outer(x, x), np.multiply.outer(M, M))
    same(np.mean(x.long(), 0), np.mean(M.astype(np.int64), 0))  # gputensor has no mean of integers
    same(np.sum(x, where=BOOLS), np.sum(M, where=BOOLS))
    same(np.transpose(x), M.T)
    assert np.flip(x)[0, 0] == M[-1, -1] and np.allclose(x, M) is True
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2


def test_numpy_computes_on_the_tensors_memory() -> None:
    x = gt.zeros(3)
    before = x._version
    np.copyto(x, np.arange(3.0), casting="same_kind")
    np.add.at(x, np.array([0, 0]), 1)
    assert x.tolist() == [2, 1, 2] and x._version == before + 2
    assert np.broadcast_arrays(x, np.ones(3))[0].data_ptr() == x.data_ptr()


def test_out_is_what_comes_back() -> None:
    x = gt.tensor(M)
    array, tensor = np.empty((3, 4)), gt.empty(3, 4, dtype=gt.float64)
    before = tensor._version
    assert np.sin(x, out=array) is array and np.sin(x, out=tensor) is tensor
    np.testing.assert_array_equal(array, np.asarray(tensor))
    assert tensor._version == before + 1
    assert np.mean(x, 0, out=array[0]) is not None
    assert np.add(x, 1, where=BOOLS, out=tensor) is tensor
    np.testing.assert_allclose(np.asarray(tensor), np.where(BOOLS, M + 1, np.sin(M)))
    with pytest.raises(gt.GpuTensorError, match="'out' must have the sizes"):
        np.sin(x, out=np.empty(4))
    with pytest.raises(gt.GpuTensorError, match="'out' must have a dtype"):
        np.sin(x, out=np.empty((3, 4), np.int64))


def test_in_place() -> None:
    array, x = M.copy(), gt.tensor(M)
    both = array
    both += x
    assert both is array and isinstance(array, np.ndarray)
    np.testing.assert_array_equal(array, 2 * M)
    kept = x
    x += array
    assert x is kept
    np.testing.assert_allclose(np.asarray(x), 3 * M)


def test_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = gt.tensor(M)
    same(special.erf(x), special.erf(M))
    same(special.xlogy(x, M), special.xlogy(M, M))
    same(special.jv(1, x), special.jv(1, M))  # gputensor has no operator for it


def test_a_ufunc_of_anyone_is_not_taken_for_ours() -> None:
    def sin(x: Any) -> Any:
        return x + 1

    found = np.frompyfunc(sin, 1, 1)(gt.ones(2))
    assert list(np.asarray(found)) == [2, 2]


def test_matplotlib() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    x = gt.rand(4, 4)
    figure, ax = plt.subplots()
    lines = ax.plot(x)
    np.testing.assert_array_equal(lines[1].get_ydata(), x[:, 1].numpy())
    ax.set_xlim(x.amin(), x.amax())
    assert ax.get_xlim() == (x.amin().item(), x.amax().item())
    ax.imshow(x)
    ax.hist(x[0])
    ax.scatter(x[0], x[1])
    figure.canvas.draw()
    plt.close(figure)


def test_memory_in_other_hands() -> None:
    x = gt.rand(2, 3)
    interface = x.__array_interface__
    assert interface["data"] == (x.data_ptr(), False) and interface["shape"] == (2, 3)
    array = np.asarray(x.t())
    assert np.shares_memory(array, x.numpy()) and array.shape == (3, 2)
    kept = array.copy()
    x.resize_(1000)  # the array keeps the memory it was given
    np.testing.assert_array_equal(array, kept)
    assert np.asarray(gt.ones(2, dtype=gt.bfloat16)).dtype.name == "bfloat16"
    for hidden in (
        gt.ones(2, device="meta"), gt.ones(2, requires_grad=True), gt.ones(2, dtype=gt.bfloat16),
        gt.ones(2, dtype=gt.complex64).conj(),
    ):  # fmt: skip
        assert not hasattr(hidden, "__array_interface__")
        assert not hasattr(hidden, "__array_struct__")


def test_buffer() -> None:
    x = gt.arange(6).reshape(2, 3)
    view = x.__buffer__(0)  # `memoryview(x)` calls this from Python 3.12 on
    assert view.shape == (2, 3) and view.tolist() == x.tolist()
    view[0, 0] = 7
    assert x[0, 0] == 7


@pytest.mark.parametrize("x", [np.datetime64("2020"), np.longdouble(2), np.clongdouble(2)])
def test_numbers_that_no_tensor_holds_are_numpys(x: np.generic) -> None:
    i = gt.arange(3)
    for found, expected in ((x + i, x + i.numpy()), (i + x, i.numpy() + x)):
        assert isinstance(found, np.ndarray) and found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.fixture
def on_devices():
    gt.set_numpy_on_devices(True)
    yield
    gt.set_numpy_on_devices(False)


def test_on_other_devices_ours_compute_where_that_is_asked_for(on_devices: None) -> None:
    if not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    x = gt.from_numpy(M.copy()).cuda()
    for f in (np.sin, np.sum, lambda y: np.add(y, y, dtype="f8"), lambda y: np.vstack([y, y]),
              lambda y: np.mean(y, axis=0), lambda y: np.ones_like(y, shape=(2, 3)),
              lambda y: np.full_like(y, 2), lambda y: np.add.reduce(y, 1)):  # fmt: skip
        found = f(x)
        assert isinstance(found, gt.Tensor) and found.is_cuda
        same(found.cpu(), f(M))
    for f in (lambda y: np.unwrap(y), np.cross, lambda y: np.percentile(y, 50, method="hazen")):
        with pytest.raises(TypeError, match=r"must be on the CPU .*use .cpu\(\)"):
            f(*[x] * (2 if f is np.cross else 1))
    with pytest.raises(gt.GpuTensorError, match="detach"):
        np.sin(x.requires_grad_())
    gt.set_numpy_on_devices(False)
    with pytest.raises(TypeError, match="must be on the CPU"):
        np.sin(x.detach())
    assert not gt.get_numpy_on_devices()


ELSEWHERE: list[Callable[[Any], Any]] = [
    lambda x: np.median(x), lambda x: np.median(x, axis=0, keepdims=True),
    lambda x: np.median(x, axis=(0, 1)), lambda x: np.quantile(x, 0.3, axis=1),
    lambda x: np.percentile(x, [10, 90], axis=(1, 0), keepdims=True),
    lambda x: np.percentile(x, 40, method="lower"), lambda x: np.partition(x.ravel(), 2)[2],
    lambda x: np.argpartition(x, 0, axis=None)[0], lambda x: np.take(x, [2, 0], axis=1),
    lambda x: np.take(x, [5, 1]), lambda x: np.histogram(x, [-1.0, 0.0, 2.0])[0],
    lambda x: np.histogram(x, bins=4)[0], lambda x: np.histogram(x, 3, (-1, 1), weights=x * x)[0],
    lambda x: np.histogram(x, 3, (-1, 1))[1], lambda x: np.digitize(x, [-1.0, 0.0, 1.0]),
    lambda x: np.digitize(x, [-1.0, 0.0, 1.0], right=True),
    lambda x: np.unravel_index(np.argmax(x), (3, 4))[1], lambda x: np.argmin(x, axis=1),
    lambda x: np.ravel_multi_index(np.unravel_index(np.argmin(x), (3, 4)), (3, 4)),
    lambda x: np.bincount((x > 0).astype(np.int64).ravel(), minlength=4),
    lambda x: np.diag(x), lambda x: np.diag(x[0], 1), lambda x: np.dot(x, x.T),
    lambda x: np.dot(x[0], x[1]), lambda x: np.dot(x, 2.0), lambda x: np.dot(x[None], x[0]),
    lambda x: np.dot(x, np.stack([x.T, x.T])), lambda x: np.linspace(x[0], x[1], 5),
    lambda x: np.linspace(x[0], 2, 3, False, axis=1),
    lambda x: np.linspace(x[0, 0], 9, 4, dtype=int),
    lambda x: np.nanmax(x, axis=0), lambda x: np.nanmin(x), lambda x: np.nanargmin(x, axis=1),
    lambda x: np.nanmax(np.where(x > 0, np.nan, x), axis=1, keepdims=True),
    lambda x: np.nanargmax(np.where(x > 2, np.nan, x)), lambda x: np.unique(x > 0),
    lambda x: np.unique(np.sign(x), True, True, True),
    lambda x: np.angle(x), lambda x: np.angle(x * 1j, deg=True), lambda x: np.fix(x),
    lambda x: np.i0(x), lambda x: np.sinc(x), lambda x: np.isreal(x),
    lambda x: np.iscomplex(x * 1j),
    lambda x: np.percentile(x, np.array([10, 90], like=x)), lambda x: np.diff(x, 0, prepend=1),
    lambda x: np.digitize(x, np.array([-1.0, 0.0, 1.0], like=x)),
    lambda x: np.diff(x, prepend=0.0), lambda x: np.diff(x, 2, 0, x[:1], x[:1]),
    lambda x: np.nanprod(np.where(x > 1, np.nan, x), axis=0),
    lambda x: np.arange(3, like=x), lambda x: np.asarray([1, 2], dtype="f4", like=x),
    lambda x: np.array(x, like=x), lambda x: np.asarray(x, "f4", like=x),
    lambda x: np.tri(3, like=x),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated")  # since NumPy 2.5
@pytest.mark.parametrize("number", range(0, len(ELSEWHERE), tier.pick(20, 1)))
def test_what_numpy_would_compute_several_operators_do_elsewhere(
    number: int, on_devices: None
) -> None:
    if not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    values = np.array([[0.5, -1.5, 1.0, 2.0], [-0.25, 0.75, -1.0, 0.0], [3.0, 1.25, -2.0, 0.1]])
    found = ELSEWHERE[number](gt.from_numpy(values).cuda())
    several = _several(found)
    assert all(isinstance(part, gt.Tensor) and part.is_cuda for part in several)
    same(tuple(part.cpu() for part in several), _several(ELSEWHERE[number](values)))


def _several(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def test_what_several_operators_lack_is_refused_elsewhere(on_devices: None) -> None:
    if not gt.cuda.is_available():
        pytest.skip("needs CUDA devices, real or emulated")
    x = gt.ones(4, device="cuda")
    for f in (lambda: np.percentile(x, 5, method="hazen"), lambda: np.digitize(x, [2.0, 1.0])):
        with pytest.raises(TypeError, match=r"must be on the CPU .*use .cpu\(\)"):
            f()
    with pytest.raises(gt.GpuTensorError, match="hold two bounds at least"):
        np.histogram(x, [1.0])
    with pytest.raises(ValueError, match="nanargmax: 'a' must hold a number in each slice"):
        np.nanargmax(x * np.nan)
    with pytest.raises(gt.GpuTensorError, match="must be on one device"):
        np.asarray(gt.ones(2), like=x)
    kept = np.asarray(x, like=x)
    assert kept is x and np.array(x, like=x) is not x


def test_what_is_made_like_a_tensor() -> None:
    x = gt.from_numpy(M.copy())
    same(np.full_like(x, 7, shape=3), np.full_like(M, 7, shape=3))
    same(np.zeros_like(x, np.int8), np.zeros_like(M, np.int8))
    same(np.full_like(a=x, fill_value=2, dtype="f8"), np.full_like(a=M, fill_value=2, dtype="f8"))
    made = np.zeros_like(x, shape=(2, 3, 4), order="F", device="cpu")
    assert made.stride() == (1, 2, 6) and made.dtype == x.dtype
    same(
        np.full_like(x, 7.5, np.float64, "C", True, ()), np.full_like(M, 7.5, np.float64, shape=())
    )
    assert np.empty_like(x, shape=4).shape == (4,) and np.empty_like(x.t(), order="C").stride(0) > 1
    made = np.ones_like(x, shape=(2, 3), order="F")
    same(made, np.ones((2, 3), M.dtype))
    assert np.empty_like(x.t()).stride() == x.t().stride() and made.stride() == (1, 2)


def test_a_ufunc_computes_in_the_dtype_that_is_named() -> None:
    x, y = gt.from_numpy(M.copy()), gt.ones((), dtype=gt.int8)
    same(np.add(x, y, dtype=np.float64), np.add(M, np.int8(1), dtype=np.float64))
    same(np.multiply(x, 2, dtype="f8"), np.multiply(M, 2, dtype="f8"))
    with pytest.raises(TypeError, match="same_kind|Cannot cast"):
        np.add(x, y, dtype=np.int8)


def test_what_is_joined_again_may_be_of_other_layouts() -> None:
    x, wide, turned = np.ones((2, 3)), np.ones((2, 5)), np.arange(6.0).reshape(3, 2).T
    for _ in range(3):
        for given in ([x, x], [x, wide], [wide, x], [x, turned], [turned, turned], [x, x, x]):
            same(np.concatenate([gt.from_numpy(a) for a in given], 1), np.concatenate(given, 1))
        with pytest.raises(gt.GpuTensorError):
            gt.cat([gt.from_numpy(x)] * 2, True)
        with pytest.raises(gt.GpuTensorError):
            gt.cat([gt.from_numpy(x), 3], 1)
