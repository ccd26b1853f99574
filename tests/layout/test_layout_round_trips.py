"""gt.layout on CPU arrays of PyTorch and NumPy and on our tensors: layouts, dtypes and odd sizes.

Results have the caller's type and share no memory, unless they are the argument itself; a call that
fails changes nothing. CUDA arrays: tests/cuda/layout_over_cupy.py.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors

NUMPY, TORCH, OURS, EMULATED = "numpy", "torch", "gputensor", "emulated"
LIBRARIES = [NUMPY, TORCH, OURS, pytest.param(EMULATED, marks=pytest.mark.emulator)]
DTYPES = [
    "bool",
    "uint8",
    "int16",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]
# One dtype of each size for the emulator; the CUDA tests compare its kernels in every dtype.
PAIRS = [(library, name) for library in (NUMPY, TORCH, OURS) for name in DTYPES] + [
    pytest.param(EMULATED, name, marks=pytest.mark.emulator)
    for name in ("uint8", "bfloat16", "float32", "complex64", "complex128")
]
# name -> sizes of a dense array, and a view that is written alike in every library.
VIEWS = {
    "0-d": ((), lambda x: x),
    "one": ((1, 1), lambda x: x),
    "empty": ((3, 0, 2), lambda x: permute(x, 2, 0, 1)),
    "empty part": ((5, 4), lambda x: x[2:2]),
    "transposed": ((37, 41), lambda x: permute(x, 1, 0)),
    "nhwc": ((2, 3, 17, 19), lambda x: permute(x, 0, 2, 3, 1)),
    "steps": ((30, 22), lambda x: x[1::3, ::2]),
    "narrow": ((24, 30), lambda x: permute(x[:, 3:-5], 1, 0)),
    "expanded": ((1, 23), lambda x: expand(x, 9, 23)),
    "2^8": ((2,) * 8, lambda x: permute(x, *range(7, -1, -1))),
    "large": ((700, 701), lambda x: permute(x, 1, 0)),
}  # fmt: skip


def permute(x, *order):
    return x.transpose(order) if isinstance(x, np.ndarray) else x.permute(*order)


def expand(x, *sizes):
    return np.broadcast_to(x, sizes) if isinstance(x, np.ndarray) else x.expand(*sizes)


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def host(sizes, name):
    """Return elements that every dtype can represent; neighbours differ."""
    numbers = np.arange(int(np.prod(sizes)), dtype=np.int64) * 7919 % 251
    if name == "bool":
        numbers = numbers % 2
    return (numbers % 97).astype(np_dtype(name)).reshape(sizes)


def given(library, array):
    """Return the array as one of the library, over the same memory."""
    if library == NUMPY:
        return array.copy()
    if library == TORCH:
        torch = pytest.importorskip("torch", reason="PyTorch is not installed")
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        return torch.from_numpy(array.copy())
    if library == EMULATED:
        if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
            pytest.skip("this runs on the emulator")
        return gt.from_numpy(array.copy()).to("cuda")
    return gt.from_numpy(array.copy())


def back(x):
    """Return a NumPy array with the same elements."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, gt.Tensor):
        return x.cpu().numpy()
    import torch

    return (
        x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        if x.dtype == torch.bfloat16
        else x.numpy()
    )


def same(x, array):
    found = back(x)
    assert found.shape == array.shape and found.dtype == array.dtype
    assert (
        np.ascontiguousarray(found).view(np.uint8) == np.ascontiguousarray(array).view(np.uint8)
    ).all()


def is_dense(x):
    return x.flags.c_contiguous if isinstance(x, np.ndarray) else x.is_contiguous()


def address(x):
    return x.__array_interface__["data"][0] if isinstance(x, np.ndarray) else x.data_ptr()


@pytest.mark.parametrize(("library", "name"), PAIRS)
def test_contiguous(library, name):
    for view in VIEWS:
        check_contiguous(library, name, view)


def check_contiguous(library, name, view):
    sizes, look = VIEWS[view]
    array = host(sizes, name)
    x = look(given(library, array))
    made = gt.layout.contiguous(x)
    assert type(made) is type(x) and made.dtype == x.dtype and is_dense(made)
    same(made, look(array))
    if is_dense(x):
        assert made is x
    elif back(x).size:
        assert address(made) != address(x)
    if not isinstance(x, np.ndarray):
        assert made.device == x.device


@pytest.mark.parametrize(("library", "name"), PAIRS)
def test_copy_into_a_view_leaves_the_rest(library, name):
    """The copy writes to every second element of a larger array."""
    for view in VIEWS:
        check_copy_into_a_view(library, name, view)


def check_copy_into_a_view(library, name, view):
    sizes, look = VIEWS[view]
    array = look(host(sizes, name))
    wide = host([2 * n + 1 for n in array.shape], name)
    into = tuple([slice(1, None, 2)] * array.ndim)
    memory = given(library, wide)
    to = memory[into] if array.ndim else memory
    assert gt.layout.copy(to, look(given(library, host(sizes, name)))) is to
    if array.ndim:
        wide[into] = array
    else:
        wide[()] = array
    same(memory, wide)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(("of", "to"), [("uint8", "float32"), ("float32", "bfloat16"), ("bfloat16",
"float32"),
                                        ("float64", "float16"), ("bool", "int64"), ("float32",
                                        "complex64")])  # fmt: skip
def test_copy_casts(library, of, to):
    array = host((19, 23), of)
    out = given(library, np.zeros((23, 19), np_dtype(to)))
    gt.layout.copy(out, permute(given(library, array), 1, 0))
    same(out, array.T.astype(np_dtype(to)))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("of", ["uint8", "float16", "bfloat16", "float32"])
def test_pack(library, form, of):
    pixels = host((2, 9, 11, 3), of)
    view = permute(given(library, pixels), 0, 3, 1, 2)
    scale, bias = [0.5, 2, 4], [1, -1, 0.25]
    made = gt.layout.pack(view, dtype="float32", scale=scale, bias=bias, memory_format=form)
    expected = pixels.transpose(0, 3, 1, 2).astype(np.float32) * np.float32(scale)[:, None, None]
    expected += np.float32(bias)[:, None, None]
    assert type(made) is type(view)
    same(made, expected)
    strides = back(made).strides if library != EMULATED else tuple(4 * s for s in made.stride())
    assert strides[1] == (9 * 11 * 4 if form == "contiguous_format" else 4)
    out = given(library, np.zeros((2, 3, 9, 11), np.float32))
    assert gt.layout.pack(view, scale=scale, bias=bias, out=out) is out
    same(out, expected)


@pytest.mark.parametrize("library", LIBRARIES)
def test_bfloat16_is_bfloat16_on_both_sides(library):
    x = permute(given(library, host((5, 6), "bfloat16")), 1, 0)
    made = gt.layout.contiguous(x)
    assert made.dtype == x.dtype and "bfloat16" in str(made.dtype)
    same(
        gt.layout.pack(given(library, host((3, 4, 5), "float32")), dtype="bfloat16"),
        host((3, 4, 5), "bfloat16"),
    )


@pytest.mark.parametrize("sizes", [(6, 7), (701, 703)])
def test_negative_strides_of_numpy(sizes):
    array = host(sizes, "float32")
    for view in (array[::-1], array[:, ::-1], array[::-1, ::-1], array.T[::-2, 1::3]):
        made = gt.layout.contiguous(view)
        assert made.flags.c_contiguous and made.base is not array and (made == view).all()
        out = np.zeros(view.shape, np.float32)
        gt.layout.copy(out[::-1], view)
        assert (out[::-1] == view).all()
    image = host((2, 9, 11, 3), "uint8")[:, ::-1, :, ::-1].transpose(0, 3, 1, 2)  # upside down, BGR
    packed = gt.layout.pack(image, dtype="float32", scale=2)
    assert (packed == image.astype(np.float32) * 2).all()


def test_read_only_arrays_are_read_and_not_written():
    frozen = host((40, 30), "float32")
    frozen.flags.writeable = False
    made = gt.layout.contiguous(frozen.T)
    assert made.flags.writeable and (made == frozen.T).all()
    assert gt.layout.contiguous(frozen) is frozen
    assert (
        gt.layout.pack(host((3, 4, 5), "uint8"), dtype="float32") == host((3, 4, 5), "uint8")
    ).all()
    for call in (
        lambda: gt.layout.copy(frozen, np.ones((40, 30), np.float32)),
        lambda: gt.layout.contiguous(np.ones((30, 40), np.float32).T, out=frozen),
        lambda: gt.layout.copy(
            np.broadcast_to(np.zeros(3, np.float32), (2, 3)), np.ones((2, 3), np.float32)
        ),
    ):
        with pytest.raises(errors.ArgumentError, match="must be writable"):
            call()
    assert (frozen == host((40, 30), "float32")).all()


@pytest.mark.parametrize("library", [NUMPY, TORCH])
@pytest.mark.parametrize("size", [6, 700])
def test_overlapping_operands_on_the_cpu(library, size):
    x = given(library, host((size, size), "float32"))
    gt.layout.copy(x, permute(x, 1, 0))
    same(x, host((size, size), "float32").T)
    memory = given(library, host((size + 1, size), "float32"))
    gt.layout.copy(memory[1:], memory[:-1])
    same(memory[1:], host((size + 1, size), "float32")[:-1])
    gt.layout.copy(x, x)
    same(x, host((size, size), "float32").T)


def test_copies_between_two_libraries_share_no_memory():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    source = host((30, 20), "float32")
    to = torch.zeros(20, 30)
    assert gt.layout.copy(to, source.T) is to
    source[:] = 0
    same(to, host((30, 20), "float32").T)
    gt.layout.copy(source.T, to)
    same(source, host((30, 20), "float32"))


# One sentence each: {op}: '{arg}' must {rule} (got {what}); {remedy}
WRONG = {
    "out of other sizes": (
        lambda x, out: gt.layout.contiguous(x.T, out=out),
        "'out' must have sizes",
    ),
    "out of another dtype": (
        lambda x, out: gt.layout.contiguous(x, out=out.astype("f8")),
        "'out' must have dtype float32",
    ),
    "no broadcast": (lambda x, out: gt.layout.copy(out, x[:, :2]), "'src' must broadcast to"),
    "fewer dimensions": (lambda x, out: gt.layout.copy(out, x[None]), "'src' must broadcast to"),
    "no array": (lambda x, out: gt.layout.copy(out, [1, 2]), "'src' must be an array"),
    "text": (lambda x, out: gt.layout.copy(out, np.array([["a"]])), "'src' must have a dtype"),
    "swapped bytes": (
        lambda x, out: gt.layout.copy(out, x.astype(">f4")),
        "'src' must have a dtype",
    ),
    "a format of other rank": (
        lambda x, out: gt.layout.contiguous(x, memory_format="channels_last"),
        "contiguous: ",
    ),
    "no such dtype": (
        lambda x, out: gt.layout.pack(x[None], dtype="f5"),
        "'dtype' must be a dtype",
    ),
    "two scales of three": (
        lambda x, out: gt.layout.pack(x[None, :3, :, None], scale=[1, 2]),
        "'scale' must be a number, or 3",
    ),
    "pack into other sizes": (
        lambda x, out: gt.layout.pack(x[None], out=out),
        "'out' must have sizes",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_is_named_in_one_sentence_and_nothing_is_written(case):
    call, message = WRONG[case]
    x, out = host((4, 5), "float32"), np.zeros((4, 5), np.float32)
    with pytest.raises(gt.GpuTensorError, match=message) as caught:
        call(x, out)
    text = str(caught.value)
    assert "\n" not in text and not text.endswith(".") and "(got " in text
    assert not out.any() and (x == host((4, 5), "float32")).all()


@pytest.mark.emulator
def test_host_and_device_are_not_mixed():
    x = given(EMULATED, host((4, 5), "float32"))
    for call in (
        lambda: gt.layout.copy(x, host((4, 5), "float32")),
        lambda: gt.layout.copy(host((4, 5), "float32"), x),
    ):
        with pytest.raises(errors.DeviceError, match="layout.copy: "):
            call()
    same(x, host((4, 5), "float32"))
