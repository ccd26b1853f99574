"""pack: per-channel scale and bias, every layout and dtype, against the plain formula in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core.dtype import ALL, COMPLEX, bfloat16
from gputensor.kernels.cpu import copy_pack as packing
from gputensor.runtime import cpu

from ...harness import tier

REAL = [d for d in ALL if d.category != COMPLEX]


def expected(x, scale, bias, to):
    """Return the result, rounded after each step; integers are rounded to nearest even and
    saturated, NaN gives 0."""
    compute = np.float64 if np.float64 in (x.dtype, to) else np.float32
    shape = (-1, *(1,) * (x.ndim - 2))
    by, plus = (np.asarray(v, np.float32).astype(compute).reshape(shape) for v in (scale, bias))
    exact = x.astype(compute) * by + plus
    if np.dtype(to).kind not in "iu":
        return exact.astype(to)
    limits = np.iinfo(to)
    rounded = [0 if v != v else round(max(limits.min, min(limits.max, v)))
               for v in exact.reshape(-1).tolist()]  # fmt: skip
    return np.array(rounded, to).reshape(x.shape)


def raw(x):
    return np.ascontiguousarray(x).view(f"V{x.itemsize}")


def run(x, scale, bias, to, channels_last=False):
    shape = x.shape
    if channels_last:
        order = [0, *range(2, x.ndim), 1]
        dst = np.empty([shape[d] for d in order], to).transpose(
            [order.index(d) for d in range(x.ndim)]
        )
    else:
        dst = np.empty(shape, to)
    packing.pack(dst, x, np.asarray(scale, np.float64), np.asarray(bias, np.float64))
    return dst


@pytest.mark.parametrize("source", REAL, ids=lambda d: d.short)
def test_every_pair_of_dtypes(source):
    x = (
        (np.arange(2 * 3 * 4 * 5) % 23 - (11 if source.is_signed else 0))
        .astype(source.np)
        .reshape(2, 3, 4, 5)
    )
    scale, bias = [0.5, -3.25, 40.0], [0.25, 1.5, -7.0]
    for to in REAL:
        made = run(x, scale, bias, to.np)
        assert (raw(made) == raw(expected(x, scale, bias, to.np))).all(), to


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("view", ["nchw", "nhwc", "gaps"])
@pytest.mark.parametrize(
    "shape", [(2, 3, 40, 51), (1, 1, 9, 9), (3, 64, 7, 7), (2, 4, 3, 5, 6), (1, 3, 700, 250)]
)
@pytest.mark.parametrize("to", [np.float32, np.float16, bfloat16.np, np.uint8], ids=str)
def test_every_layout(shape, view, channels_last, to):
    size = int(np.prod(shape))
    x = (np.arange(size) * 7919 % 251).astype(np.uint8).reshape(shape)
    if view == "nhwc":
        order = [0, *range(2, x.ndim), 1]
        x = np.ascontiguousarray(x.transpose(order)).transpose(
            [order.index(d) for d in range(x.ndim)]
        )
    elif view == "gaps":
        x = np.repeat(x, 2, -1)[..., ::2]
    scale, bias = np.linspace(-1, 1.5, shape[1]), np.linspace(100, -3, shape[1])
    made = run(x, scale, bias, to, channels_last)
    if np.dtype(to) == np.uint8:
        wanted = (x.astype(np.float32) * scale.astype(np.float32).reshape(-1, *(1,) * (x.ndim - 2))
                  + bias.astype(np.float32).reshape(-1, *(1,) * (x.ndim - 2)))  # fmt: skip
        wanted = np.rint(wanted).clip(0, 255).astype(np.uint8)
    else:
        wanted = expected(x, scale, bias, to)
    assert (raw(made) == raw(wanted)).all()


@pytest.mark.parametrize("to", [d for d in REAL if d.category == 1], ids=lambda d: d.short)
def test_integers_saturate_and_nan_is_0(to):
    x = np.array(
        [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, 1.5, -0.5, 2.5, 300, -300, 2.0**31, 2.0**63],
        np.float32,
    )
    x = x.reshape(1, 1, 1, -1)
    assert run(x, [1], [0], to.np).tolist() == expected(x, [1], [0], to.np).tolist()


@tier.examples(40)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 30), st.integers(1, 30)),
    st.booleans(), st.sampled_from([np.uint8, np.float32, np.int16]), st.sampled_from([1, 2]),
)  # fmt: skip
def test_any_sizes_on_any_number_of_threads(shape, channels_last, source, threads):
    before = cpu.get_num_threads()
    cpu.set_num_threads(threads)
    try:
        x = (np.arange(int(np.prod(shape))) % 97).astype(source).reshape(shape)
        scale, bias = np.linspace(0.1, 2, shape[1]), np.linspace(-1, 1, shape[1])
        assert (
            run(x, scale, bias, np.float32, channels_last) == expected(x, scale, bias, np.float32)
        ).all()
    finally:
        cpu.set_num_threads(before)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("to", [np.float32, np.float16, np.uint8], ids=str)
@pytest.mark.parametrize(
    "shape", [(7, 3, 5, 6), (5, 40, 2, 3), (2, 3, 50, 6), (9, 3, 30), (1, 1, 1, 400)]
)
@pytest.mark.parametrize("source", [np.uint8, np.float32])
def test_images_of_any_sizes(shape, to, channels_last, source):
    x = (np.arange(int(np.prod(shape))) % 97).astype(source).reshape(shape)
    scale, bias = np.linspace(0.1, 2, shape[1]), np.linspace(-1, 1, shape[1])
    wanted = raw(expected(x, scale, bias, to))
    assert (raw(run(x, scale, bias, to, channels_last)) == wanted).all()


def test_nothing_to_do():
    packing.pack(np.empty((0, 3, 2, 2)), np.empty((0, 3, 2, 2)), np.ones(3), np.ones(3))
