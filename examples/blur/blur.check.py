"""Test cases for blur.cu. Run them with `gputensor kernel check examples/blur/blur.cu`."""

import numpy as np

WEIGHTS = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32)


def reference(src):
    """Return the expected sums, added in the kernel's order, so that they are bitwise equal."""
    height, width = src.shape
    padded = np.pad(src, 1, mode="edge")
    total = np.zeros_like(src)
    for dy in range(3):
        for dx in range(3):
            total += WEIGHTS[dy, dx] * padded[dy : dy + height, dx : dx + width]
    return total * np.float32(0.0625)


def blur(random):
    edges = [1, 2, 7, 8, 9, 31, 32, 33, 64, 65]
    shapes = [(h, w) for h in edges for w in edges] + [
        tuple(random.integers(1, 90, 2)) for _ in range(100)
    ]
    for height, width in shapes:
        src = random.random((height, width), np.float32)
        yield {
            "grid": (-(-width // 32), -(-height // 8)),
            "block": (32, 8),
            "args": (src, np.empty_like(src), int(width), int(height)),
            "expect": {"dst": reference(src)},
        }
