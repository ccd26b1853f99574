"""Geometry: flags against frozen results of PyTorch, interning, sizes of memory."""

from __future__ import annotations

import copy
import itertools
import pickle
import random

import numpy as np


from gputensor.core import dtype as dt
from gputensor.core import geometry as module
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.core.memory_format import contiguous_strides
from tests.golden.notation import parse, rows
from tests.iterator.layouts import random_layout

ROWS = rows("geometry.txt")
assert len(ROWS) > 150


def test_flags():
    for text, flags, *_ in ROWS:
        x = parse(text)
        g = geometry(x.sizes, x.strides, x.dtype)
        shown = (
            g.is_contiguous,
            g.is_channels_last,
            g.is_channels_last_3d,
            g.is_non_overlapping_and_dense,
        )
        found = "".join("CLDN"[i] if flag else "-" for i, flag in enumerate(shown))
        assert found == flags, text


def test_flags_of_all_small_layouts():
    for sizes in itertools.product((0, 1, 2, 3), repeat=3):
        for strides in itertools.product((0, 1, 2, 3, 6), repeat=3):
            g = geometry(sizes, strides, dt.float32)
            offsets = [np.dot(at, strides) for at in np.ndindex(*sizes)]
            array = np.ndarray(sizes, np.float32, bytes(4 * (max(offsets, default=0) + 1)), 0,
                               g.stride_bytes)  # fmt: skip
            assert g.is_contiguous == array.flags.c_contiguous, g
            assert g.is_non_overlapping_and_dense == (sorted(offsets) == list(range(g.numel))), g
            assert g.is_row_major == (strides == contiguous_strides(sizes)), g


def test_equal_layouts_are_one_object():
    a = geometry((2, 3), (3, 1), dt.float32)
    assert a is geometry((2, 3), (3, 1), dt.float32) is contiguous_geometry((2, 3), dt.float32)
    assert a is not geometry((2, 3), (3, 1), dt.int32)
    assert a is not geometry((2, 3), (1, 2), dt.float32)
    assert a is pickle.loads(pickle.dumps(a))
    assert a is copy.deepcopy(a)


def test_a_geometry_in_use_stays_the_only_one_of_its_layout(monkeypatch):
    monkeypatch.setattr(module, "_interned", {})
    monkeypatch.setattr(module, "_contiguous", {})
    monkeypatch.setattr(module, "_BOUND", 4)
    monkeypatch.setattr(module, "_bound", 4)
    kept = [contiguous_geometry((n,), dt.float32) for n in range(3)]
    for n in range(10, 20):
        contiguous_geometry((n,), dt.float32)
    assert len(module._interned) <= 7
    for n, known in enumerate(kept):
        assert contiguous_geometry((n,), dt.float32) is known
    assert not any(key[0] == (10,) for key in module._interned)
    # A table in which everything is in use grows.
    more = [contiguous_geometry((n,), dt.float32) for n in range(20, 40)]
    assert len(module._interned) >= 23 and module._bound >= len(more)


def test_numel_extent_and_bytes():
    rng = random.Random(0)
    for _ in range(300):
        sizes, strides = random_layout(rng)
        g = geometry(sizes, strides, dt.int16)
        numel = 1
        for size in sizes:
            numel *= size
        assert (g.numel, g.nbytes, g.ndim) == (numel, 2 * numel, len(sizes))
        assert g.stride_bytes == tuple(2 * s for s in strides)
        assert g.extent == (1 + sum((n - 1) * s for n, s in zip(sizes, strides)) if numel else 0)
