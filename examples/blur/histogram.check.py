"""Test cases for histogram.cu."""

import numpy as np


def histogram(random):
    for number in range(200):
        count = (
            [0, 1, 31, 32, 33, 255, 256, 257][number]
            if number < 8
            else int(random.integers(1, 3000))
        )
        values = random.integers(0, 1 << int(random.integers(0, 9)), count).astype(np.uint8)
        bins = random.integers(0, 5, 256).astype(np.uint32)
        counted = bins + np.bincount(values, minlength=256).astype(np.uint32)
        yield {
            "grid": int(random.integers(1, 4)),
            "block": [32, 64, 128, 256][number % 4],
            "args": (values, bins, count),
            "expect": {"bins": counted},
        }
