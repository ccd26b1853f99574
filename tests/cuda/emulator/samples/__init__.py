"""Kernels of the kinds in CUDA's samples, newly written, and their cases.

Each function returns cases for `gputensor kernel check`. Results are exact unless a case has a
tolerance: integers, or floats whose sums do not round.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
ENTRIES = {"transpose": "transpose<short>"}
NAMES = sorted(path.stem for path in FOLDER.glob("*.cu"))


def _whole(random, shape, most=20):
    return random.integers(-most, most, shape).astype(np.float32)


def reduction(random):
    for n, grid, block in [(1, 1, 32), (1000, 3, 64), (70, 4, 128), (4097, 2, 256)]:
        x = random.integers(-99, 99, n).astype(np.float64)
        yield {
            "grid": grid, "block": block, "shared": 8 * block,
            "args": (x, np.empty(grid), np.empty(1), n), "expect": {"out": [x.sum()]},
        }  # fmt: skip


def scan(random):
    for rows, block in [(1, 16), (3, 32), (2, 128)]:
        x = random.integers(0, 50, (rows, 2 * block)).astype(np.int32)
        sums = np.cumsum(x, 1, dtype=np.int32) - x
        yield {
            "grid": rows, "block": block, "shared": 4 * (2 * block + block // 16 + 1),
            "args": (x, np.empty_like(x)), "expect": {"out": sums},
        }  # fmt: skip


def histogram64(random):
    for words, grid, block in [(1, 1, 32), (333, 2, 64), (1000, 3, 256)]:
        data = random.integers(0, 256, 4 * words).astype(np.uint8)
        bins = np.bincount(data >> 2, minlength=64).astype(np.uint32)
        yield {
            "grid": grid, "block": block,
            "args": (data, np.zeros(64, np.uint32), words), "expect": {"bins": bins},
        }  # fmt: skip


def transpose(random):
    for rows, columns in [(1, 1), (32, 32), (33, 65), (7, 100)]:
        x = random.integers(-999, 999, (rows, columns)).astype(np.int16)
        yield {
            "grid": (-(-columns // 32), -(-rows // 32)), "block": (32, 8),
            "args": (x, np.empty((columns, rows), np.int16), rows, columns), "expect": {"out": x.T},
        }  # fmt: skip


def stencil(random):
    for n, block in [(1, 32), (64, 32), (100, 64)]:
        x, weights = _whole(random, n + 6), _whole(random, 7)
        yield {
            "grid": -(-n // block), "block": block, "shared": 4 * (block + 6),
            "symbols": {"weights": weights}, "args": (x, np.empty(n, np.float32), n),
            "expect": {"out": np.correlate(x, weights, "valid")},
        }  # fmt: skip


def matmul(random):
    for m, n, k in [(1, 1, 1), (16, 16, 16), (17, 33, 20), (40, 5, 3)]:
        a, b = _whole(random, (m, k)), _whole(random, (k, n))
        yield {
            "grid": (-(-n // 16), -(-m // 16)), "block": (16, 16),
            "args": (a, b, np.empty((m, n), np.float32), m, n, k), "expect": {"c": a @ b},
        }  # fmt: skip


def bitonic(random):
    for rows, block in [(1, 1), (2, 16), (1, 256)]:
        keys = np.stack([random.permutation(2 * block) for _ in range(rows)]).astype(np.uint32)
        values = np.arange(keys.size, dtype=np.int32).reshape(keys.shape)
        order = np.argsort(keys, 1)
        yield {
            "grid": rows, "block": block, "args": (keys, values),
            "expect": {"keys": np.sort(keys, 1), "values": np.take_along_axis(values, order, 1)},
        }  # fmt: skip


def nbody(random):
    for n, block in [(1, 32), (50, 32), (96, 64)]:
        bodies = random.random((n, 4), np.float32)
        wide = bodies.astype(np.float64)
        apart = wide[None, :, :3] - wide[:, None, :3]
        force = wide[None, :, 3] * ((apart**2).sum(2) + 0.01) ** -1.5
        sums = np.zeros((n, 4))
        sums[:, :3] = (apart * force[:, :, None]).sum(1)
        yield {
            "grid": -(-n // block), "block": block, "shared": 16 * block,
            "args": (bodies, np.empty_like(bodies), n, 0.01), "expect": {"acceleration": sums},
            "rtol": 1e-4, "atol": 1e-3,
        }  # fmt: skip


def mandelbrot(random):
    for width, height in [(5, 4), (33, 20)]:
        left, top, step = -2.0, -1.25, 3.0 / width
        column, row = np.meshgrid(np.arange(width), np.arange(height))
        re, im = left + column * step, top + row * step
        x, y, steps = np.zeros_like(re), np.zeros_like(re), np.zeros(re.shape, np.uint16)
        for _ in range(40):
            inside = x * x + y * y <= 4.0
            steps += inside
            x, y = np.where(inside, x * x - y * y + re, x), np.where(inside, 2 * x * y + im, y)
        yield {
            "grid": 2, "block": 64,
            "args": (np.empty(re.shape, np.uint16), width, height, 40, struct.pack("3d", left, top,
            step)),
            "expect": {"steps": steps},
        }  # fmt: skip


def warp_aggregate(random):
    """The order of the kept elements is not defined, so all are equal."""
    for n, block in [(1, 32), (100, 64), (333, 128)]:
        x = np.where(random.random(n) < 0.4, 7, -1).astype(np.int32)
        count = int((x > 0).sum())
        kept = np.zeros(n, np.int32)
        kept[:count] = 7
        yield {
            "grid": -(-n // block), "block": block,
            "args": (x, np.zeros(n, np.int32), np.zeros(1, np.int32), n),
            "expect": {"kept": kept, "count": [count]},
        }  # fmt: skip


def dot_half(random):
    for rows, pairs in [(1, 1), (9, 40), (20, 5)]:
        a, b = (_whole(random, (rows, 2 * pairs)).astype(np.float16) for _ in range(2))
        yield {
            "grid": -(-rows // 4), "block": 64,
            "args": (a, b, np.empty(rows, np.float32), rows, pairs),
            "expect": {"out": (a.astype(np.float32) * b).sum(1)},
        }  # fmt: skip
