"""Test cases for warp_sum.cu. The summands are small integers, whose sums are exact in any
order."""

import numpy as np


def warp_sum(random):
    for number in range(200):
        rows, columns = (int(n) for n in random.integers(1, 70, 2))
        x = random.integers(-50, 50, (rows, columns)).astype(np.float32)
        block = [32, 64, 128, 256][number % 4]
        yield {
            "grid": -(-rows * 32 // block),
            "block": block,
            "args": (x, np.empty(rows, np.float32), rows, columns),
            "expect": {"sums": x.sum(1)},
        }
