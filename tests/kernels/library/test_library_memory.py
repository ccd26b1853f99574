"""Memory of large CPU tensors: freed memory is kept for the next ones, within bounds."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.compiled import library

from .test_library_safety import run

found = library.choice().library
pytestmark = pytest.mark.skipif(
    found is None or found.allocate(1 << 16).base is None,
    reason="the compiled library is not built, or switched off, or built for a sanitizer",
)

MIB = 1 << 20


def library_memory() -> tuple[int, int]:
    assert found is not None
    gc.collect()
    in_use, kept = found.memory_in_use()
    return int(in_use), int(kept)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x * 2,
        lambda x: x.exp(),
        lambda x: x.t() + 1,
        lambda x: x.clamp(min=0.5),
        lambda x: x.t().contiguous(),
        lambda x: gt.empty_like(x),
        lambda x: x.double(),
        lambda x: x @ x,
        lambda x: x[None, None, :512, :512].softmax(-1),
        lambda x: gt.nn.functional.max_pool2d(x[None, None], 2),
        lambda x: gt.nn.functional.interpolate(x[None, None], scale_factor=2.0, mode="bilinear"),
        lambda x: x.gather(1, x.long()),
        lambda x: gt.arange(100_000.0),
        lambda x: gt.rand(300, 300),
    ],
)
def test_the_memory_of_a_freed_result_is_used_again(make: Any) -> None:
    """A second call allocates no further memory: it uses the kept memory."""
    x = gt.zeros(600, 600)
    make(x)
    before = sum(library_memory())
    assert library_memory()[1]
    made = make(x)
    assert sum(library_memory()) == before and made.nbytes >= 1 << 16
    in_use = library_memory()[0]
    del made
    assert library_memory()[0] < in_use


def test_a_result_takes_the_memory_of_a_freed_one() -> None:
    x = gt.rand(MIB // 4)
    y = x * 2
    place = y.data_ptr()
    del y
    for function in (lambda: x + 1, lambda: x.exp(), lambda: gt.empty(MIB // 4), lambda: x.int()):
        assert function().data_ptr() == place


def test_what_is_in_use_and_kept_is_counted() -> None:
    before, _ = library_memory()
    x = gt.empty(3 * MIB, dtype=gt.uint8)
    assert library_memory()[0] == before + 3 * MIB
    kept = library_memory()[1]
    del x
    assert library_memory() == (before, kept + 3 * MIB)


@pytest.mark.parametrize("nbytes", [1 << 16, (1 << 16) + 1, 73_728, 73_729, 3 * MIB + 5, 9 * MIB])
def test_each_byte_is_its_own(nbytes: int) -> None:
    assert found is not None
    arrays = [found.allocate(nbytes) for _ in range(4)]
    for number, array in enumerate(arrays):
        assert array.shape == (nbytes,) and array.dtype == np.uint8
        assert array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % 64 == 0
        array[:] = number
    assert [int(array.min()) for array in arrays] == [*range(4)]
    assert [int(array.max()) for array in arrays] == [*range(4)]


def test_sizes_that_no_memory_has() -> None:
    assert found is not None
    for nbytes in (1 << 46, (1 << 62) + 1, (1 << 63) - 1):
        with pytest.raises(MemoryError):
            found.allocate(nbytes)
    for sizes in ((1 << 40, 1 << 40), (-1,)):
        with pytest.raises((MemoryError, ValueError)):
            found.empty(sizes, np.dtype(np.float32))
    with pytest.raises(MemoryError):
        gt.empty(1 << 44)


@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 0, 1), (1, 0, 2), (2, 1, 0)])
def test_results_have_the_layout_of_dense_operands(dims: tuple[int, ...]) -> None:
    x = gt.rand(40, 50, 60).permute(dims)
    y = x * 2 + x
    assert y.stride() == x.stride()
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2 + x.numpy())
    halved = (x > 0.5).logical_not()
    assert halved.stride() == x.stride()
    np.testing.assert_array_equal(halved.numpy(), x.numpy() <= 0.5)


@pytest.mark.full
def test_kept_memory_is_bounded() -> None:
    """A separate process allocates random sizes. Kept and used memory together never exceed the
    earlier peak of used memory, and no memory belongs to two arrays."""
    program = """
import random
from gputensor.kernels.compiled import library
found = library.choice().library
draw, live, peak = random.Random(0), [], 32 << 20
for n in range(3000):
    if live and draw.random() < 0.5:
        array, value = live.pop(draw.randrange(len(live)))
        assert array[0] == value and array[-1] == value and array[len(array) // 2] == value
        del array
    else:
        array = found.allocate(int((1 << 16) * 2 ** draw.uniform(0, 9)))
        array[0] = array[-1] = array[len(array) // 2] = n % 251
        live.append((array, n % 251))
        del array
    in_use, kept = found.memory_in_use()
    peak = max(peak, in_use)
    assert in_use + kept <= peak and kept <= 256 << 20, (in_use, kept, peak)
del live
big = [found.allocate(100 << 20) for _ in range(4)]
del big
assert found.memory_in_use() == (0, 200 << 20) or found.memory_in_use()[1] <= 256 << 20
one = found.allocate(300 << 20)
kept = found.memory_in_use()[1]
del one
assert found.memory_in_use()[1] == kept
found.empty_cache()
print(found.memory_in_use())
"""
    assert run(program) == "(0, 0)"


def test_kept_memory_goes_where_a_limit_needs_it() -> None:
    program = """
import resource
check()
blocks = [gt.empty(8 << 20, dtype=gt.uint8) for _ in range(16)]
del blocks
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (16 << 20), -1))
x = gt.empty(100 << 20, dtype=gt.uint8)  # fits only where the kept blocks were
x[-1] = 1
try:
    gt.empty(100 << 20, dtype=gt.uint8)
except MemoryError:
    y = gt.empty(1 << 20, dtype=gt.uint8)
    print(int(x[-1]))
"""
    assert run(program) == "1"


@pytest.mark.parametrize("made", [np.ones((300, 400)), np.ones((300, 400), np.float32).T])
def test_large_tensors_of_arrays_are_aligned(made: Any) -> None:
    tensors = [gt.tensor(made + n) for n in range(4)]
    assert not any([x.data_ptr() % 64 for x in tensors])
    for n, x in enumerate(tensors):
        assert x.is_contiguous() and np.array_equal(x.numpy(), made + n)
