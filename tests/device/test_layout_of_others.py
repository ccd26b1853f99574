"""gt.layout on GPU arrays of PyTorch, CuPy and JAX: values, types, and no copies to the host.

Skipped without a GPU: other libraries cannot use the emulator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gputensor as gt

pytestmark = pytest.mark.gpu
PIXELS = (np.arange(2 * 40 * 50 * 3) * 7919 % 251).astype(np.uint8).reshape(2, 40, 50, 3)
SCALE, BIAS = np.float32([0.017, 0.0175, 0.0174]), np.float32([-2.1, -2.0, -1.8])


def torch_(array: np.ndarray) -> Any:
    return pytest.importorskip("torch").from_numpy(array).cuda()


def cupy_(array: np.ndarray) -> Any:
    return pytest.importorskip("cupy").asarray(array)


def jax_(array: np.ndarray) -> Any:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX sees no GPU")
    return jax.numpy.asarray(array)


def tensor_(array: np.ndarray) -> Any:
    return gt.from_numpy(array).to("cuda:0")


@pytest.fixture(params=[torch_, cupy_, jax_, tensor_])
def library(request: pytest.FixtureRequest) -> Any:
    if gt.cuda.is_emulated():
        pytest.skip("other libraries see no emulator")
    return request.param


def back(x: Any) -> np.ndarray:
    for name in ("cpu", "get"):  # of PyTorch and ours, of CuPy
        if hasattr(x, name):
            x = getattr(x, name)()
            break
    return np.asarray(x)


def channels_first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2) if hasattr(x, "permute") else x.transpose(0, 3, 1, 2)


def test_contiguous_keeps_values_and_device(library: Any) -> None:
    given = channels_first(library(PIXELS))
    made = gt.layout.contiguous(given)
    assert (back(made) == PIXELS.transpose(0, 3, 1, 2)).all()
    assert type(made) is type(given)  # JAX arrays are contiguous, so the result is the array itself
    assert gt.from_dlpack(made).device == gt.device("cuda:0")


def test_pack_has_the_bits_of_the_cpu(library: Any) -> None:
    made = gt.layout.pack(channels_first(library(PIXELS)), dtype="float16", scale=SCALE, bias=BIAS)
    wanted = gt.layout.pack(PIXELS.transpose(0, 3, 1, 2), dtype="float16", scale=SCALE, bias=BIAS)
    assert back(made).tobytes() == wanted.tobytes()


def test_copy_casts_into_what_is_there(library: Any) -> None:
    if library is jax_:
        pytest.skip("JAX's arrays are not written to")
    given, out = channels_first(library(PIXELS)), library(np.zeros((2, 3, 40, 50), np.float32))
    assert gt.layout.copy(out, given) is out
    assert (back(out) == PIXELS.transpose(0, 3, 1, 2)).all()
