"""Each function of the namespace against array_api_strict: signature, dtypes, values.

Functions of one and two arrays are recognised by their parameters, others need SAMPLES. A function
without samples fails, and so does one for which array_api_strict accepts no dtype.
"""

from __future__ import annotations

import inspect
import subprocess
import sys

import array_api_strict as strict
import numpy as np
import pytest

import gputensor as gt
from gputensor import array_api as xp
from tests.harness import tier

strict.set_array_api_strict_flags(api_version="2025.12")

X = np.array([[3, 1, 2], [1, 2, 4]])
Y = np.array([[2, 1, 1], [1, 3, 2]])
SQUARE = np.array([[4.0, 1.0], [1.0, 3.0]])
DTYPES = ("float32", "int8", "uint16", "int64", "bool", "float64", "complex128", "complex64")


def call(*args, **kwargs):
    return args, kwargs


AXES = [call(X), call(X, axis=0, keepdims=True), call(X, axis=-1), call(X, axis=())]
ONE_AXIS = [call(X), call(X, axis=0, keepdims=True), call(X, axis=-1)]
RUNNING = [call(X, axis=0), call(X[0]), call(X, axis=1, include_initial=True)]
FFT = [call(X), call(X, n=4, axis=0, norm="ortho"), call(X, norm="forward")]
FFTN = [call(X), call(X, axes=(0, 1), s=(2, 4), norm="ortho")]
MATRIX = [call(SQUARE), call(np.stack([SQUARE, 2 * SQUARE]))]
SAMPLES = {
    "arange": [call(5), call(1, 9, 2), call(0.0, 1.0, 0.25), call(3, 1), call(3.5), call(0.5, 3.1)],
    "linspace": [call(0, 1, 5), call(0.0, 1.0, 4, endpoint=False)],
    "asarray": [call([[1, 2], [3, 4]]), call(X, copy=True)],
    "empty": [], "empty_like": [], "from_dlpack": [call(X)],
    "eye": [call(3), call(2, 4, k=1), call(3, 2, k=-1), call(2, k=5)],
    "full": [call((2, 3), 7), call(4, True), call((), 2.5)],
    "full_like": [call(X, 1)],
    "ones": [call((2, 3)), call(4)], "zeros": [call((2, 3)), call(4)],
    "tril": [call(X), call(X, k=1)], "triu": [call(X), call(X, k=-1)],
    "meshgrid": [call(X[0], X[1]), call(X[0], X[1, :2], indexing="ij")],
    "clip": [call(X, 2, 3), call(X, Y), call(X, max=2)],
    "astype": [], "can_cast": [], "finfo": [], "iinfo": [], "isdtype": [], "result_type": [],
    "__array_namespace_info__": [],
    "matmul": [call(X, Y.T), call(X, Y[0])],
    "tensordot": [call(X, Y), call(X, Y, axes=((1,), (1,)))],
    "vecdot": [call(X, Y), call(X, Y, axis=-2)],
    "broadcast_arrays": [call(X, Y[0])], "broadcast_shapes": [call((2, 1), (3,))],
    "broadcast_to": [call(X, (4, 2, 3))],
    "concat": [call([X, Y]), call([X, Y[0]], axis=None)], "stack": [call([X, Y], axis=-1)],
    "expand_dims": [call(X, axis=0), call(X, axis=-1)], "squeeze": [call(X[None], axis=0)],
    "flip": [call(X), call(X, axis=-1)], "moveaxis": [call(X, 0, 1)],
    "permute_dims": [call(X, (1, 0))], "matrix_transpose": [call(X)],
    "repeat": [call(X, 2), call(X, 2, axis=1)],
    "reshape": [call(X, (3, 2)), call(X, (-1,), copy=True)],
    "roll": [call(X, 1), call(X, (1, 2), axis=(0, 1))], "tile": [call(X, (2, 1))],
    "unstack": [call(X), call(X, axis=1)],
    "argmax": ONE_AXIS, "argmin": ONE_AXIS, "count_nonzero": AXES[:3], "nonzero": [call(X - 1)],
    "searchsorted": [call(np.array([1, 3, 5]), X, side="right")],
    "where": [call(X > 2, X, Y), call(X > 2, X, 1)],
    "isin": [call(X, Y), call(X, 3)],
    "unique_all": [call(X)], "unique_counts": [call(X)], "unique_inverse": [call(X)],
    "unique_values": [call(X)],
    "argsort": [call(X), call(X, axis=0, descending=True)],
    "sort": [call(X), call(X, axis=0, descending=True)],
    "take": [call(X, np.array([0, 1]), axis=1)],
    "take_along_axis": [call(X, np.array([[0, 1], [1, 2]]), axis=1)],
    "cumulative_sum": RUNNING, "cumulative_prod": RUNNING,
    "diff": [call(X), call(X, axis=0), call(X, n=2), call(X, prepend=X)],
    **dict.fromkeys(("all", "any", "max", "mean", "min", "prod", "sum"), AXES),
    **dict.fromkeys(("std", "var"), [*AXES, call(X, axis=1, correction=1)]),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.rfft", "fft.irfft", "fft.hfft", "fft.ihfft"), FFT),
    **dict.fromkeys(("fft.fftn", "fft.ifftn", "fft.rfftn", "fft.irfftn"), FFTN),
    **dict.fromkeys(("fft.fftfreq", "fft.rfftfreq"), [call(5), call(6, d=0.5)]),
    **dict.fromkeys(("fft.fftshift", "fft.ifftshift"), [call(X), call(X, axes=1)]),
    **dict.fromkeys(("linalg.cholesky", "linalg.det", "linalg.eigvalsh", "linalg.inv"), MATRIX),
    **dict.fromkeys(("linalg.slogdet", "linalg.svdvals", "linalg.pinv"), MATRIX),
    "linalg.cross": [call(X, Y)], "linalg.outer": [call(X[0], Y[1])],
    "linalg.diagonal": [call(X), call(X, offset=1)], "linalg.trace": [call(X), call(X, offset=1)],
    "linalg.matrix_norm": [call(X), call(X, ord=1, keepdims=True)],
    "linalg.matrix_power": [call(SQUARE, 3)],
    "linalg.matrix_rank": [call(X), call(SQUARE, rtol=0.1)],
    "linalg.solve": [call(SQUARE, X[:, :2]), call(SQUARE, X[:, 0])],
    "linalg.vector_norm": [call(X), call(X, axis=1, ord=1, keepdims=True)],
    # results are unique except for signs or order; their parts are compared below
    **dict.fromkeys(("linalg.eig", "linalg.eigh", "linalg.eigvals", "linalg.qr", "linalg.svd"), []),
}  # fmt: skip
DEFAULTS_DIFFER = {
    "arange",
    "linspace",
    "eye",
    "full",
    "ones",
    "zeros",
    "fft.fftfreq",
    "fft.rfftfreq",
}


def names():
    own = [
        n for n in (*xp.__all__, "__array_namespace_info__") if inspect.isfunction(getattr(xp, n))
    ]
    for part in (xp.fft, xp.linalg):
        room = part.__name__.rpartition(".")[2]
        listed = inspect.getmembers(part, inspect.isfunction)
        own += [f"{room}.{n}" for n, f in listed if f.__module__ == part.__name__]
    return [n for n in own if n not in ("linalg.promoted", "linalg.sum")]


def of(space, name):
    for part in name.split("."):
        space = getattr(space, part)
    return space


def samples(name):
    if name in SAMPLES:
        return SAMPLES[name]
    parameters = list(inspect.signature(of(xp, name)).parameters)
    forms = {("x",): [call(X)], ("x1", "x2"): [call(X, Y), call(X, 2), call(X[0, 0], Y)]}
    plain = [p for p in parameters if p not in ("dtype", "device")]
    assert tuple(plain) in forms, f"{name} needs a row of SAMPLES"
    return forms[tuple(plain)]


def converted(value, make, dtype):
    if isinstance(value, (np.ndarray, np.generic)):
        is_index = value.dtype == bool or dtype is None
        return make(value if is_index else value.astype(dtype))
    if isinstance(value, list) and isinstance(value[0], np.ndarray):
        return [converted(v, make, dtype) for v in value]
    return value


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


def compare(name, device, dtype):
    """Compare the results. Return True if array_api_strict accepts the sample in this dtype."""
    ran = False
    for args, kwargs in samples(name):
        # indices stay integers
        of_each = [None if name in INDEXED and i else dtype for i in range(len(args))]
        theirs = [converted(a, strict.asarray, d) for a, d in zip(args, of_each)]
        more = {k: converted(v, strict.asarray, dtype) for k, v in kwargs.items()}
        try:
            with np.errstate(all="ignore"):
                expected = of(strict, name)(*theirs, **more)
        except (TypeError, NotImplementedError):
            continue
        put = lambda v: gt.asarray(np.asarray(v)).to(device)  # noqa: E731
        ours = [converted(a, put, d) for a, d in zip(args, of_each)]
        more = {k: converted(v, put, dtype) for k, v in kwargs.items()}
        if name in DEFAULTS_DIFFER or name in ("asarray", "meshgrid") and device != "cpu":
            more |= {"device": device} if name != "meshgrid" else {}
        found = of(xp, name)(*ours, **more)
        ran = True
        assert len(parts(found)) == len(parts(expected))
        for a, b in zip(parts(found), parts(expected)):
            b = np.asarray(b)
            if not isinstance(a, gt.Tensor):
                assert a == b, name
                continue
            assert a.device.type == device, name
            assert a.dtype.np == b.dtype or name in DEFAULTS_DIFFER, (name, dtype, a.dtype, b.dtype)
            assert tuple(a.shape) == b.shape, (name, dtype)
            if device != "meta":
                np.testing.assert_allclose(
                    a.cpu().numpy(), b, 1e-4, 1e-5, err_msg=f"{name} {dtype}"
                )
    return ran


# on other devices one dtype is enough, because the operators have their own tests
FIRST = ("float32", "int64", "bool", "complex128")
INDEXED = ("take", "take_along_axis")
WITH_VALUES = [n for n in names() if SAMPLES.get(n) != []]
# the sizes of their results depend on elements
OF_ELEMENTS = ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
FLOATS_ALONE = ("linalg.matrix_rank",)  # array_api_strict takes integers, the standard does not


@pytest.mark.parametrize("name", WITH_VALUES)
def test_values_as_array_api_strict_has_them(name):
    dtypes = [d for d in DTYPES if name not in FLOATS_ALONE or "float" in d]
    ran = [d for d in dtypes if compare(name, "cpu", d)]
    assert ran, f"array_api_strict took no dtype of {name}"


@pytest.mark.parametrize("name", [n for n in WITH_VALUES if n != "from_dlpack"])
def test_sizes_and_dtypes_of_meta_tensors(name):
    if name in OF_ELEMENTS:
        with pytest.raises(gt.GpuTensorError):
            of(xp, name)(gt.ones(3, device="meta"))
    elif name != "broadcast_shapes":
        assert any(compare(name, "meta", dtype) for dtype in FIRST)


ON_CUDA = [n for n in WITH_VALUES if n not in ("from_dlpack", "broadcast_shapes")]


@pytest.mark.parametrize("name", tier.pick(ON_CUDA[::40], ON_CUDA))
def test_values_of_cuda_tensors(name):
    assert any(compare(name, "cuda", dtype) for dtype in FIRST)


@pytest.mark.parametrize("name", names())
def test_signature_as_array_api_strict_has_it(name):
    ours, theirs = [inspect.signature(of(space, name)) for space in (xp, strict)]
    assert [(p.name, p.kind) for p in ours.parameters.values()] == [
        (p.name, p.kind) for p in theirs.parameters.values()
    ]
    for parameter in ours.parameters.values():
        default = theirs.parameters[parameter.name].default
        # some defaults of array_api_strict are an object that means "not given"
        assert parameter.default == default or "Undef" in repr(default), parameter
        assert parameter.annotation is not parameter.empty, f"{parameter} has no type"
    assert ours.return_annotation is not ours.empty and of(xp, name).__doc__


def test_every_function_of_array_api_strict_is_there():
    of_strict = {n for n in strict.__all__ if inspect.isfunction(getattr(strict, n))}
    rest = of_strict - set(names()) - {n for n in of_strict if "flag" in n or n.startswith("__")}
    assert not rest - {"Device"}


@pytest.mark.parametrize("name", ["eig", "eigh", "qr", "svd"])
def test_factors_give_the_matrix_back(name):
    found = of(xp.linalg, name)(gt.asarray(SQUARE))
    whole = {
        "eig": lambda w, v: v * w @ xp.linalg.inv(v), "eigh": lambda w, v: v * w @ v.mT,
        "qr": lambda q, r: q @ r, "svd": lambda u, s, vh: u * s @ vh,
    }[name](*found)  # fmt: skip
    np.testing.assert_allclose(xp.real(whole).numpy(), SQUARE, 1e-6)
    assert xp.linalg.eigvals(gt.asarray(SQUARE)).dtype is gt.complex128


def test_dtypes():
    assert xp.isdtype(xp.uint8, ("bool", "integral")) and not xp.isdtype(xp.bool, "numeric")
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(xp.int64, xp.float64)
    assert xp.result_type(gt.ones(()), xp.float64, 1j) is xp.complex128
    assert xp.finfo(gt.ones(2)).dtype is xp.float32 and xp.iinfo(xp.uint8).max == 255
    assert xp.astype(gt.ones(2), xp.int8, device="meta").device.type == "meta"
    x = gt.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="integral")) == {
        f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)
    }
    assert info.default_dtypes()["real floating"] is gt.get_default_dtype()
    assert info.default_device() in info.devices()
    with pytest.raises(ValueError, match="'kind' must be one of"):
        info.dtypes(kind="real")


def test_a_tensor_without_dimensions_counts_in_promotion():
    assert xp.add(gt.ones(2), gt.ones((), dtype=gt.float64)).dtype is gt.float64
    assert (gt.ones(2) + gt.ones((), dtype=gt.float64)).dtype is gt.float32  # PyTorch's operator


def test_functions_are_differentiable():
    x = gt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    xp.sum(xp.multiply(xp.square(x), 2.0)).backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 8.0, 12.0]


def test_the_namespace_of_a_tensor():
    x = gt.ones(2)
    assert x.__array_namespace__() is xp and xp.__array_api_version__ == "2025.12"
    assert x.__array_namespace__(api_version="2025.12") is xp
    with pytest.raises(ValueError, match="'api_version' must be None or one of 2021.12"):
        x.__array_namespace__(api_version="2020.01")
    assert x.to_device("cpu") is x and x.to_device("cuda").device.type == "cuda"
    with pytest.raises(ValueError, match="'stream' must be None"):
        x.to_device("cpu", stream=1)


@pytest.mark.parametrize("revision", ["2021.12", "2024.12"])
def test_revisions_before_2025_return_lists(revision):
    x = gt.ones(2)
    old = x.__array_namespace__(api_version=revision)
    assert old.__array_api_version__ == "2024.12" and old.add is xp.add and old.fft is xp.fft
    public = [name for name in dir(xp) if name[0] != "_"]
    assert [name for name in dir(old) if name[0] != "_"] == public
    with pytest.raises(AttributeError, match="did you mean"):
        old.meshgird  # noqa: B018
    for name, arguments in {"meshgrid": (x, x), "broadcast_arrays": (x, gt.ones(3, 2))}.items():
        made, now = getattr(old, name)(*arguments), getattr(xp, name)(*arguments)
        assert type(made) is list and type(now) is tuple
        assert [y.tolist() for y in made] == [y.tolist() for y in now]
    assert old.meshgrid() == [] and xp.meshgrid() == ()
    devices = old.__array_namespace_info__().devices()
    assert type(devices) is list
    assert tuple(devices) == xp.__array_namespace_info__().devices()


def test_it_is_loaded_when_asked_for():
    code = "import sys, gputensor; print([m for m in sys.modules if 'tensor.array_api' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("other", [Y, 3])
def test_isin_inverts(other):
    # array_api_strict 2.6.1 accepts `invert` and ignores it
    found = xp.isin(gt.from_numpy(X), gt.asarray(other), invert=True)
    assert np.array_equal(found.numpy(), ~np.isin(X, other))
    assert np.array_equal(xp.isin(gt.from_numpy(X), 3, invert=True).numpy(), X != 3)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    "bounds", [(3.1,), (0.5, 3.1), (-0.9, 2.1, 2.0), (0, 1, 0.25), (4, 0.5, -1)]
)
def test_a_range_of_integers_is_counted_before_it_is_rounded(bounds, device):
    found = xp.arange(*bounds, dtype=gt.int64, device=device)
    first, last, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    expected = [int(first + n * step) for n in range(int(np.ceil((last - first) / step)))]
    assert found.dtype is gt.int64 and found.shape == (len(expected),)
    assert device == "meta" or found.tolist() == expected
