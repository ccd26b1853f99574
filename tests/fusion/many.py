"""Many random programs, fused and eager: python -m tests.fusion.many KIND COUNT [--first SEED].

Each kind is a test of this folder with other seeds. If results differ, their seeds are printed, and
the exit status is 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import gputensor as gt
from bench.measurement import timing
from gputensor.fusion import block
from gputensor.fusion.record import recorder

from . import programs, test_replay, test_shared_memory


def _same(seed: int, recompute: bool = False, gradients: float = 0.3) -> bool:
    fused = programs.run(seed, True, recompute=recompute, gradients=gradients)
    return bool(fused == programs.run(seed, False, gradients=gradients))


# Sizes of several blocks of a program, used instead of the small sizes.
LONG = [(300, 40), (40,), (300, 1), (1, 40), (), (40, 300), (20, 30, 40), (1,), (0, 40)]


def _long(seed: int) -> bool:
    programs.SIZES = LONG
    return _same(seed)


def _default(seed: int) -> bool:
    recorder.SMALL_NUMEL = 1 << 15
    return _same(seed)


def _replay(seed: int) -> bool:
    test_replay._compare(seed)
    return True


def _writes(seed: int, in_block: bool) -> bool:
    fused = {function: gt.fuse(function) for function in test_shared_memory.FUNCTIONS}
    found = test_shared_memory.run(seed, fused, in_block)
    block.is_off = True
    wanted = test_shared_memory.run(seed, {}, in_block)
    block.is_off = False
    return found == wanted


KINDS: dict[str, Callable[[int], bool]] = {
    "blocks": _same,  # whole programs within `with gt.fuse()`, operators on few elements too
    "long": _long,  # operands of several blocks
    "default": _default,  # operators on few elements run at once
    "recompute": lambda seed: _same(seed, recompute=True),
    "gradients": lambda seed: _same(seed, gradients=1.0),
    "replay": _replay,  # fused functions, called with other arguments and settings
    "writes": lambda seed: _writes(seed, False),  # NumPy writes between calls
    "writes-in-blocks": lambda seed: _writes(seed, True),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=100_000)
    given = parser.parse_args()
    recorder.SMALL_NUMEL = 0
    run, differ = KINDS[given.kind], []
    for seed in timing.progress(range(given.first, given.first + given.count), str):
        try:
            is_same = run(seed)
        except AssertionError:
            is_same = False
        if not is_same:
            differ.append(seed)
            print(f"seed {seed} differs")
    capability = gt.backends.cpu.get_cpu_capability()
    print(f"{given.kind}: {given.count} programs at {capability}, {len(differ)} differ")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
