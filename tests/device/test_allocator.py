"""Random programs of allocations on several streams: no two live blocks share memory.

Every block is filled with a unique number, which is checked before the block is freed.
"""

from __future__ import annotations

import os
import random

import pytest

import gputensor as gt

STEPS = int(os.environ.get("GPUTENSOR_ALLOCATOR_STEPS", "0")) or (
    300 if gt.cuda.is_emulated() else 5000
)


pytestmark = pytest.mark.usefixtures("order")


def is_whole(x: gt.Tensor, number: int) -> bool:
    return bool((x == number).all().item())


@pytest.mark.parametrize("seed", range(2))
def test_no_two_blocks_share_memory(seed: int) -> None:
    rng = random.Random(seed)
    gt.cuda.synchronize()
    before = gt.cuda.memory_allocated("cuda:0")
    streams = [gt.cuda.default_stream("cuda:0"), *(gt.cuda.Stream("cuda:0") for _ in range(3))]
    largest = 12 if gt.cuda.is_emulated() else 22
    live: list[tuple[gt.Tensor, int, object]] = []
    for number in range(STEPS):
        if live and rng.random() < 0.45 + len(live) / 200:
            x, given, stream = live.pop(rng.randrange(len(live)))
            with gt.cuda.stream(stream):
                if rng.random() < 0.3:
                    assert is_whole(x, given), f"step {number}: block {given} was overwritten"
                else:  # dropped while its stream may still write it
                    x.add_(1)
            del x
        else:
            stream = rng.choice(streams)
            with gt.cuda.stream(stream):
                size = rng.randint(1, 1 << rng.randint(0, largest))
                x = gt.full((size,), number, dtype=gt.int32, device="cuda:0")
            live.append((x, number, stream))
            del x
        if rng.random() < 0.005:
            gt.cuda.empty_cache()
    for x, given, stream in live:
        with gt.cuda.stream(stream):
            assert is_whole(x, given), f"at the end block {given} was overwritten"
    del x
    live.clear()
    gt.cuda.synchronize()
    assert gt.cuda.memory_allocated("cuda:0") == before
    assert gt.cuda.memory_reserved("cuda:0") >= before


def test_memory_that_another_stream_still_reads_is_not_given_away(elements: int) -> None:
    side, main = gt.cuda.Stream("cuda:0"), gt.cuda.current_stream("cuda:0")
    for number in range(20):
        x = gt.full((elements,), number, dtype=gt.int32, device="cuda:0")
        side.wait_stream(main)
        with gt.cuda.stream(side):
            made = x
            for _ in range(8):
                made = made + 0
        x.record_stream(side)
        del x
        trash = gt.full((elements,), -1, dtype=gt.int32, device="cuda:0")
        main.wait_stream(side)
        assert is_whole(made, number), f"round {number}: its source was given away"
        main.synchronize()
        del made, trash


def test_out_of_memory_has_the_figures_and_leaves_the_device_working() -> None:
    x = gt.ones(1000, device="cuda:0")
    with pytest.raises(gt.cuda.OutOfMemoryError, match="cuda:0: cannot allocate"):
        gt.empty(1 << 48, device="cuda:0")
    assert float((x + 1).sum().item()) == 2000.0
    free, total = gt.cuda.mem_get_info("cuda:0")
    assert 0 < free <= total
