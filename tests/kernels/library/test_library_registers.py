"""Loops leave no values in the upper halves of vector registers.

Otherwise each SSE instruction of the process waits for these values: SciPy's and libm's functions
took ten times as long after a chain.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable

import pytest

import gputensor as gt
from gputensor.kernels.compiled import library

from ...harness import shims

pytestmark = pytest.mark.skipif(
    library.choice().library is None or platform.machine() != "x86_64",
    reason="needs the compiled library of x86_64",
)

# The state components that XGETBV reports as in use; processors without this leaf report none.
SOURCE = """
#include <cpuid.h>
unsigned long long in_use(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(13, 1, &a, &b, &c, &d) || !(a & 4)) return 0;
  __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
  return a;
}
void use(void) {
  __asm__ volatile("vpcmpeqb %ymm0, %ymm0, %ymm0\\n vinsertf128 $1, %xmm0, %ymm0, %ymm0");
}
void clear(void) { __asm__ volatile("vzeroupper"); }
"""
# The upper halves of the 256-bit and of the first 16 512-bit registers.
UPPER = 1 << 2 | 1 << 6


@pytest.fixture(scope="module")
def registers(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    shim = ctypes.CDLL(str(shims.built(SOURCE, tmp_path_factory.mktemp("registers"))))
    shim.use()
    if not shim.in_use() & UPPER:
        pytest.skip("this processor does not report the registers in use")
    return shim


X = gt.linspace(1, 2, 4096).reshape(64, 64)
LONG = gt.linspace(1, 2, 1 << 18).reshape(512, 512)
WHOLE = gt.arange(1, 4501, dtype=gt.int32)
CALLS: dict[str, Callable[[], object]] = {
    "sort": X.sort,
    "argsort": X.argsort,
    "topk": lambda: X.topk(3),
    "sum": X.sum,
    "sum of columns": lambda: X.sum(0),
    "prod": lambda: X.prod(1),
    "amax": lambda: LONG.amax(1),
    "aminmax": X.aminmax,
    "any": lambda: (X > 1).any(),
    "one element": gt.tensor(1.0).max,
    "gcd": lambda: WHOLE.gcd(WHOLE[:1]),
    "remainder": lambda: WHOLE.remainder(7),
    "loss": lambda: gt.nn.functional.huber_loss(X, X + 1),
    "matmul": lambda: X @ X,
    "conv2d": lambda: gt.nn.functional.conv2d(X[None, None], X[:3, :9].reshape(3, 1, 3, 3)),
    "softmax": lambda: LONG.softmax(1),
    "exp on all threads": LONG.exp,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_an_operator_leaves_the_upper_halves_clear(
    registers: ctypes.CDLL, call: Callable[[], object]
) -> None:
    call()
    registers.clear()
    call()
    assert not registers.in_use() & UPPER


@pytest.mark.parametrize("x", [X, LONG], ids=["one thread", "all threads"])
def test_a_chain_leaves_the_upper_halves_clear(registers: ctypes.CDLL, x: gt.Tensor) -> None:
    for function in (lambda x: (x.abs() + 1) * 2, lambda x: (x + 1).sum(1)):
        fused = gt.fuse(function)
        for _ in range(3):
            fused(x)
        registers.clear()
        fused(x)
        assert not registers.in_use() & UPPER
