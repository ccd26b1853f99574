"""Mean, deviation and principal components of an image set larger than a worker's memory.

    python examples/dask_images.py [--images 16000] [--workers 2] [--memory 600MiB]

Each chunk is a tensor of several hundred images. Two workers make the chunks, use them and drop
them, so that only sums and small matrices stay in memory. Needs `pip install gputensor[clients]`.
"""

from __future__ import annotations

import argparse

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, progress

import gputensor as gt

SIDE, PER_CHUNK, PATTERNS = 64, 200, 3


def images(block_info=None) -> gt.Tensor:
    """Return a chunk of images (n, 3, SIDE, SIDE) in uint8. Each image is a sum of several patterns
    and noise. The images are the same in every run of the program."""
    (first, last), *_ = block_info[None]["array-location"]
    generator = gt.Generator().manual_seed(first)
    axis = gt.linspace(0, 3.14, SIDE)
    patterns = gt.stack(
        [gt.outer(gt.cos(k * axis), gt.sin((k + 1) * axis)) for k in range(PATTERNS)]
    )
    amounts = gt.randn(last - first, 3, PATTERNS, generator=generator)
    amounts *= gt.tensor([40.0, 20.0, 10.0])
    found = (amounts @ patterns.reshape(PATTERNS, -1)).reshape(-1, 3, SIDE, SIDE)
    found += 128 + 4 * gt.randn(last - first, 3, SIDE, SIDE, generator=generator)
    return found.clamp(0, 255).to(gt.uint8)


def features(block: gt.Tensor, mean: gt.Tensor, deviation: gt.Tensor) -> gt.Tensor:
    """Normalise images. Return the mean of each tile of 8 by 8 pixels, as (n, 192)."""
    normal = (block.float() - mean[:, None, None]) / deviation[:, None, None]
    return gt.nn.functional.avg_pool2d(normal, SIDE // 8).reshape(block.shape[0], -1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=16_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="600MiB", help="limit of each worker")
    options = parser.parse_args()

    counts = [PER_CHUNK] * (options.images // PER_CHUNK) or [options.images]
    with (
        LocalCluster(
            n_workers=options.workers, threads_per_worker=1, memory_limit=options.memory,
            dashboard_address=":0",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        print(f"dashboard: {client.dashboard_link}")
        shape = (tuple(counts), (3,), (SIDE,), (SIDE,))
        like = gt.empty((0, 0, 0, 0), dtype=gt.uint8)
        x = da.map_blocks(images, chunks=shape, dtype=np.uint8, meta=like)
        whole = x.size * 4 / 2**20
        print(f"{x.shape[0]} images are {whole:.0f} MiB in float32; a worker has {options.memory}")

        wide = x.astype(np.float32)
        sums = client.persist([wide.mean(axis=(0, 2, 3)), wide.std(axis=(0, 2, 3))])
        progress(sums, notebook=False)
        mean, deviation = (found.compute() for found in sums)
        print(f"\nmean {mean.tolist()}, deviation {deviation.tolist()}")

        rows = x.map_blocks(
            features, mean, deviation, dtype=np.float32, meta=gt.empty((0, 0)),
            drop_axis=(2, 3), chunks=(shape[0], (192,)),
        )  # fmt: skip
        strengths, components = client.persist(da.linalg.svd(rows, coerce_signs=False)[1:])
        progress([strengths, components], notebook=False)
        share, first = strengths.compute() ** 2, components[0].compute()
        share /= share.sum()
    shown = ", ".join(f"{100 * part:.1f} %" for part in share[:12].tolist())
    print(f"\nshares of the variance: {shown}")
    print(f"the first is strongest in channel {int(first.reshape(3, -1).norm(dim=1).argmax())}")
    print(f"{3 * PATTERNS} components carry {100 * share[: 3 * PATTERNS].sum():.1f} % of it")


if __name__ == "__main__":
    main()
