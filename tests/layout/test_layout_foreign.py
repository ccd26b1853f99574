"""gt.layout on arrays of other libraries: the result has the caller's type, and work uses the
caller's stream."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core import errors
from gputensor.exchange import foreign
from gputensor.layout import copying


def numpy_(array):
    return array


def tensor_(array):
    return gt.from_numpy(array)


def torch_(array):
    return pytest.importorskip("torch", reason="PyTorch is not installed").from_numpy(array)


class Other:
    """An array of an unknown library, which supports only DLPack."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


LIBRARIES = [numpy_, tensor_, torch_]


def values(shape, dtype=np.float32):
    return (np.arange(int(np.prod(shape))) * 7919 % 251).astype(dtype).reshape(shape)


def back(x):
    return x if isinstance(x, np.ndarray) else np.asarray(x)


def permuted(x, *order):
    return x.transpose(order) if isinstance(x, np.ndarray) else x.permute(*order)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("form", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 3, 300, 221)])
def test_contiguous_gives_the_callers_type(library, form, shape):
    given = permuted(library(values(shape)), 0, 2, 3, 1)
    made = gt.layout.contiguous(given, memory_format=form)
    assert type(made) is type(given)
    assert (back(made) == back(given)).all()
    strides = [s // 4 for s in back(made).strides]
    _n, c, h, w = back(given).shape
    assert strides == (
        [c * h * w, h * w, w, 1] if form == "contiguous_format" else [c * h * w, 1, w * c, c]
    )
    assert gt.layout.contiguous(made, memory_format=form) is made


@pytest.mark.parametrize("library", LIBRARIES)
def test_out_and_copy_write_where_they_are_told(library):
    given, out = library(values((4, 6))), library(np.zeros((6, 4), np.float32))
    assert gt.layout.contiguous(permuted(given, 1, 0), out=out) is out
    assert (back(out) == values((4, 6)).T).all()
    wide = library(np.zeros((3, 4, 6), np.float64))
    assert gt.layout.copy(wide, given) is wide
    assert (back(wide) == values((4, 6))).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("dtype", "form"),
    [("float32", "contiguous_format"), ("float16", "channels_last"), ("float64", "channels_last")],
)
def test_pack_of_pixels_and_back(library, dtype, form):
    pixels = values((2, 40, 50, 3), np.uint8)
    scale, bias = np.float32([0.017, 0.0175, 0.0174]), np.float32([-2.1, -2.0, -1.8])
    made = gt.layout.pack(
        permuted(library(pixels), 0, 3, 1, 2),
        dtype=dtype,
        scale=scale,
        bias=bias,
        memory_format=form,
    )
    compute = np.float64 if dtype == "float64" else np.float32
    expected = pixels.transpose(0, 3, 1, 2).astype(compute) * scale[:, None, None].astype(compute)
    expected = (expected + bias[:, None, None].astype(compute)).astype(dtype)
    assert type(made) is type(library(pixels))
    assert back(made).dtype == dtype and (back(made) == expected).all()
    again = gt.layout.pack(
        made, dtype="uint8", scale=1 / scale, bias=-bias / scale, memory_format="channels_last"
    )
    assert np.abs(back(again).astype(int) - pixels.transpose(0, 3, 1, 2).astype(int)).max() <= 1
    assert back(again).transpose(0, 2, 3, 1).flags.c_contiguous


def test_pack_without_numbers_is_a_cast_and_one_image_needs_no_batch():
    image = values((3, 8, 9), np.uint8)
    assert (gt.layout.pack(image, dtype=gt.float32) == image).all()
    made = gt.layout.pack(image, dtype=np.float32, scale=2, bias=[1, 2, 3])
    assert (made == image * np.float32(2) + np.float32([1, 2, 3])[:, None, None]).all()
    out = np.empty((3, 8, 9), np.float32)
    assert gt.layout.pack(image, scale=2, out=out) is out
    assert (out == image * np.float32(2)).all()


MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "given",
    [{"mean": MEAN, "std": STD}, {"mean": 0.5}, {"std": STD}, {"mean": MEAN, "std": 2}],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pack_normalizes_as_torchvision(library, given, dtype):
    pixels = values((2, 3, 40, 50), np.uint8)
    mean, std = [
        np.float64(given.get(n, d)).reshape(-1, 1, 1) for n, d in (("mean", 0), ("std", 1))
    ]
    expected = (pixels / 255 - mean) / std
    made = back(gt.layout.pack(library(pixels), dtype=dtype, scale=1 / 255, **given))
    assert np.abs(made - expected).max() < 1e-6  # the numbers are f32
    assert (made == back(gt.layout.pack(library(pixels), dtype, 1 / 255 / std, -mean / std))).all()


def test_normalized_integers_are_no_integers():
    pixels = values((3, 4, 5), np.uint8)
    assert gt.layout.pack(pixels, scale=1 / 255, mean=0.5).dtype == np.float32
    assert gt.layout.pack(pixels.astype(np.float16), mean=0.5).dtype == np.float16
    assert gt.layout.pack(pixels, scale=2).dtype == np.uint8
    out = np.empty((3, 4, 5), np.int16)
    assert (
        gt.layout.pack(pixels, mean=100, out=out) is out and (out == pixels.astype(int) - 100).all()
    )
    with pytest.raises(gt.GpuTensorError, match="'x' must be real"):
        gt.layout.pack(pixels.astype(np.complex64), mean=0.5)


def test_images_of_pil_are_channels_first():
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pixels = values((4, 5, 3), np.uint8)
    image = images.fromarray(pixels)
    made = gt.layout.pack(image, dtype="float32", scale=1 / 255, mean=MEAN, std=STD)
    expected = gt.layout.pack(
        pixels.transpose(2, 0, 1), dtype="float32", scale=1 / 255, mean=MEAN, std=STD
    )
    assert isinstance(made, gt.Tensor) and (made.numpy() == expected).all()
    assert (gt.layout.contiguous(image).numpy() == pixels.transpose(2, 0, 1)).all()
    gray = gt.layout.pack(image.convert("L"), dtype="float32", scale=2)
    assert (
        gray.shape == (1, 4, 5) and (gray[0].numpy() == 2.0 * np.asarray(image.convert("L"))).all()
    )
    assert (
        gt.layout.contiguous(image.convert("L")).numpy() == np.asarray(image.convert("L"))
    ).all()
    out = np.empty((3, 4, 5), np.uint8)
    assert gt.layout.copy(out, image) is out and (out == pixels.transpose(2, 0, 1)).all()
    with pytest.raises(gt.GpuTensorError, match="'dst' must be writable"):
        gt.layout.copy(image, out)


def test_negative_strides_broadcasts_and_overlap_of_numpy_arrays():
    x = values((6, 7, 8))
    assert (gt.layout.contiguous(x[::-1, :, ::-2]) == x[::-1, :, ::-2]).all()
    target = np.zeros((6, 7, 8), np.float32)
    gt.layout.copy(target[::-1], x)
    assert (target[::-1] == x).all()
    gt.layout.copy(target, x[0, 0])
    assert (target == x[0, 0]).all()
    square = values((700, 700))
    expected = square.T.copy()
    gt.layout.copy(square, square.T)
    assert (square == expected).all()
    shared = np.zeros(16, np.float32)
    shared[:8] = np.arange(8)
    gt.layout.copy(shared.view(np.float64)[:8], shared[:8].copy())
    assert (shared.view(np.float64)[:8] == np.arange(8)).all()


def test_a_library_with_dlpack_alone_gets_a_tensor():
    made = gt.layout.contiguous(Other(values((3, 4)).T))
    assert type(made) is gt.Tensor and made.is_contiguous()
    assert (made.numpy() == values((3, 4)).T).all()


def test_pytorchs_names_and_types():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = torch.arange(24, dtype=torch.bfloat16).reshape(1, 2, 3, 4)
    made = gt.layout.contiguous(x, memory_format=torch.channels_last)
    assert made.is_contiguous(memory_format=torch.channels_last) and torch.equal(made, x)
    assert gt.layout.pack(x, dtype=torch.float16).dtype is torch.float16
    assert torch.equal(gt.layout.contiguous(torch.arange(4)[::2]), torch.tensor([0, 2]))
    parameter = torch.nn.Parameter(torch.ones(3, 2))
    with pytest.raises((errors.GpuTensorError, BufferError, RuntimeError)):
        gt.layout.contiguous(parameter.t())
    conjugated = torch.ones(3, 2, dtype=torch.complex64).conj()
    with pytest.raises((errors.GpuTensorError, BufferError, RuntimeError)):
        gt.layout.contiguous(conjugated.t())
    empty = torch.empty(0, 3)
    assert gt.layout.contiguous(empty.t()).shape == (3, 0)


WRONG = [
    (lambda: gt.layout.contiguous([1, 2]), "'x' must be an array"),
    (lambda: gt.layout.contiguous(np.array(["a"])), "'x' must have a dtype"),
    (lambda: gt.layout.contiguous(values((2, 3)), memory_format="nhwc"), "'memory_format' must be"),
    (lambda: gt.layout.contiguous(values((2, 3)), out=values((3, 2))), "'out' must have sizes"),
    (lambda: gt.layout.contiguous(values((2, 3)), out=np.zeros((2, 3))), "'out' must have dtype"),
    (lambda: gt.layout.copy(values((2, 3)), values((4,))), "'src' must broadcast"),
    (lambda: gt.layout.pack(values((2, 3)), scale=2), "'x' must have dimensions"),
    (lambda: gt.layout.pack(values((1, 3, 2, 2)), scale=[1, 2]), "'scale' must be a number, or 3"),
    (lambda: gt.layout.pack(values((1, 3, 2, 2)), dtype="text"), "'dtype' must be"),
    (lambda: gt.layout.pack(values((1, 3, 2, 2)), std=[1, 0, 1]), "'std' must not be 0"),
    (
        lambda: gt.layout.pack(values((1, 3, 2, 2)), bias=1, mean=1),
        "'bias' must not be given beside",
    ),
    (lambda: gt.layout.pack(values((2, 3)), mean=1), r"use x\[None\] for one channel"),
    (
        lambda: gt.layout.pack(values((2, 5, 6, 3)), mean=MEAN),
        r"dimension 1: use x.transpose\(0, 3, 1, 2\) for",
    ),
    (
        lambda: gt.layout.pack(values((5, 6, 3)), std=STD),
        r"dimension 0: use x.transpose\(2, 0, 1\) for pixels",
    ),
    (
        lambda: gt.layout.pack(gt.ones(5, 6, 3), scale=STD),
        r"dimension 0: use x.permute\(2, 0, 1\) for pixels",
    ),
    (lambda: gt.layout.pack(values((1, 3, 2, 2), np.complex64), scale=2), "'x' must be real"),
]


@pytest.mark.parametrize(("call", "message"), WRONG)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(gt.GpuTensorError, match=message):
        call()


@pytest.mark.parametrize("shape", [(4, 5), (700, 701)])
def test_read_only_memory_is_not_written(shape):
    frozen = np.zeros(shape, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(gt.GpuTensorError, match="'dst' must be writable"):
        gt.layout.copy(frozen, np.ones(shape, np.float32))
    assert not frozen.any()


# --- on a device --------------------------------------------------------------------------------


def requires_emulator():
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("these run on the emulator")


@pytest.mark.emulator
def test_tensors_of_a_device_stay_there():
    requires_emulator()
    x = gt.from_numpy(values((2, 3, 4, 5))).to("cuda")
    made = gt.layout.contiguous(x.permute(0, 2, 3, 1))
    assert made.is_cuda and made.is_contiguous()
    assert (made.cpu().numpy() == values((2, 3, 4, 5)).transpose(0, 2, 3, 1)).all()
    out = gt.zeros(2, 4, 5, 3, dtype=gt.float64, device="cuda")
    gt.layout.copy(out, x.permute(0, 2, 3, 1))
    assert (out.cpu().numpy() == values((2, 3, 4, 5)).transpose(0, 2, 3, 1)).all()
    with pytest.raises(errors.DeviceError):
        gt.layout.copy(out, np.zeros(out.shape, np.float32))
    with pytest.raises(gt.GpuTensorError, match="overlap"):
        gt.layout.copy(x[:, :2], x[:, 1:])


@pytest.mark.emulator
@pytest.mark.parametrize("channels", [3, 20])
def test_pack_normalizes_on_a_device_with_the_bits_of_the_cpu(channels):
    requires_emulator()
    view = gt.from_numpy(values((2, 9, 40, channels), np.uint8)).permute(0, 3, 1, 2)
    kinds = {
        "dtype": "float32", "scale": 1 / 255, "mean": np.linspace(0.4, 0.5, channels),
        "std": np.linspace(0.2, 0.3, channels),
    }  # fmt: skip
    made, expected = gt.layout.pack(view.to("cuda"), **kinds), gt.layout.pack(view, **kinds)
    assert (
        made.is_cuda
        and (made.cpu().numpy().view(np.uint32) == expected.numpy().view(np.uint32)).all()
    )


@pytest.mark.emulator
@pytest.mark.parametrize("channels", [3, 20])
@pytest.mark.parametrize(
    ("dtype", "form"), [("float16", "contiguous_format"), ("uint8", "channels_last")]
)
def test_pack_on_a_device_has_the_bits_of_the_cpu(channels, dtype, form):
    requires_emulator()
    x = values((2, 9, 40, channels), np.uint8 if dtype == "float16" else np.float32)
    scale, bias = np.linspace(0.4, 1.3, channels), np.linspace(-90, 20, channels)
    view = gt.from_numpy(x).permute(0, 3, 1, 2)
    kinds = {"dtype": dtype, "scale": scale, "bias": bias, "memory_format": form}
    expected = gt.layout.pack(view, **kinds).numpy()
    made = gt.layout.pack(view.to("cuda"), **kinds)
    assert made.is_cuda and made.stride() == gt.layout.pack(view, **kinds).stride()
    assert (made.cpu().numpy().view(np.uint8 if dtype == "uint8" else np.uint16)
            == expected.view(np.uint8 if dtype == "uint8" else np.uint16)).all()  # fmt: skip


@pytest.mark.emulator
def test_work_runs_on_the_callers_stream(monkeypatch):
    """The emulator stands in for a library with its own stream."""
    requires_emulator()
    cuda = runtime.cuda()
    theirs = cuda.Stream(0)
    x = gt.from_numpy(values((30, 40))).to("cuda")
    theirs.wait_stream(cuda.current_stream(0))
    seen_streams = []
    real = copying.foreign.seen

    def seen(op, arg, given, writes=False):
        found = real(op, arg, given)
        found.stream = theirs.ptr
        return found

    launch = cuda.launch

    def noted(function, grid, block, shared_bytes, stream, params):
        seen_streams.append(stream.ptr)
        launch(function, grid, block, shared_bytes, stream, params)

    monkeypatch.setattr(copying.foreign, "seen", seen)
    monkeypatch.setattr(cuda, "launch", noted)
    monkeypatch.setattr(sys.modules[cuda.launcher.__module__], "launch", noted)
    before = cuda.current_stream(0)
    made = gt.layout.contiguous(x.t())
    assert seen_streams == [theirs.ptr] and cuda.current_stream(0) is before
    monkeypatch.undo()
    theirs.synchronize()
    assert (made.cpu().numpy() == values((30, 40)).T).all()


@pytest.mark.emulator
def test_two_libraries_two_streams_are_ordered(monkeypatch):
    """Earlier work of the source's stream runs before the copy, and later work after it. The host
    does not wait."""
    requires_emulator()
    cuda = runtime.cuda()
    theirs = cuda.Stream(0)
    waits = []
    kind = type(theirs)
    original = kind.wait_stream
    monkeypatch.setattr(
        kind,
        "wait_stream",
        lambda self, other: (waits.append((self.ptr, other.ptr)), original(self, other))[1],
    )
    monkeypatch.setattr(kind, "synchronize", lambda self: pytest.fail("the host waited"))
    x, to = gt.from_numpy(values((30, 40))).to("cuda"), gt.zeros(40, 30, device="cuda")
    source, target = foreign.seen("t", "src", x.t()), foreign.seen("t", "dst", to)
    source.stream = theirs.ptr
    copying.move("t", target, source)
    ours = cuda.current_stream(0).ptr
    assert waits == [(ours, theirs.ptr), (theirs.ptr, ours)]
    monkeypatch.undo()
    assert (to.cpu().numpy() == values((30, 40)).T).all()


def test_the_cuda_array_interface_is_read(monkeypatch):
    """The test has negative strides and another library's stream; no memory is accessed."""
    fake = types.SimpleNamespace(
        is_emulated=False, is_available=lambda: True, device_of=lambda ptr: 0
    )
    monkeypatch.setattr(runtime, "_chosen", fake)
    owner = types.SimpleNamespace(
        __cuda_array_interface__={
            "shape": (3, 4), "typestr": "<f4", "data": (4096, False), "strides": (-16, 4),
            "stream": 7,
            "version": 3,
        }
    )  # fmt: skip
    found = foreign.seen("t", "x", owner)
    assert (found.address, found.stride_bytes, found.stream) == (4096, (-16, 4), 7)
    assert str(found.place) == "cuda:0" and found.geometry.strides == (-4, 1)
    owner.__cuda_array_interface__ |= {"strides": None}
    assert foreign.seen("t", "x", owner).stride_bytes == (16, 4)


def test_nothing_is_imported_for_it():
    assert "jax" not in sys.modules and "cupy" not in [foreign.library_of(np.zeros(1))]
