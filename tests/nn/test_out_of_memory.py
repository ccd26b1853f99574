"""Work beyond the limit of the address space raises one MemoryError and loses nothing; the process
continues. Each program runs in a fresh process."""

from __future__ import annotations

import sys

import pytest

from gputensor.kernels.compiled import library

from ..harness import tier
from ..kernels.library.test_library_safety import run

pytestmark = pytest.mark.skipif(
    library.choice().library is None or not sys.platform.startswith("linux"),
    reason="the compiled library is not built, or the system has no /proc/self/statm",
)

START = """
import resource
import gputensor as gt

F = gt.nn.functional
MIB = 1 << 20
gt.manual_seed(0)
gt.set_num_threads(2)
gt.ones(10) + 1


def fails(work, mib):
    # Python's own objects have 1 MiB more. If that is too little for the frame of a call, CPython
    # 3.11 raises the SystemError below instead of MemoryError, in a program of plain Python too.
    mib += 1
    pages = int(open("/proc/self/statm").read().split()[0])
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + mib * MIB, hard))
    try:
        work()
    except MemoryError:
        return True
    except SystemError as error:
        if sys.version_info >= (3, 12) or str(error) != "error return without exception set":
            raise
        return True
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return False


def bits(*tensors):
    return [None if x is None else x.detach().numpy().tobytes() for x in tensors]
"""

FORWARD = """
net = gt.nn.Sequential(gt.nn.Conv2d(3, 32, 3, padding=1), gt.nn.ReLU(), gt.nn.Conv2d(32, 8, 3))
x = gt.randn(16, 3, 128, 128)
before = bits(*net.parameters())
assert fails(lambda: net(x), 8) and fails(lambda: net(x), 40)
assert bits(*net.parameters()) == before and all(p.grad is None for p in net.parameters())
net(x).sum().backward()
"""

BACKWARD = """
x = gt.randn(1 << 22).requires_grad_()
x.grad = gt.ones(1 << 22)
loss = (x * x).sum()
before = bits(x, x.grad)
assert fails(loss.backward, 4) and bits(x, x.grad) == before
(x * x).sum().backward()
assert gt.equal(x.grad, 2 * x.detach() + 1)
"""

STEP = """
from gputensor.kernels.compiled import _library as library

for name, options in (
    ("SGD", {"momentum": 0.9}), ("Adam", {}), ("RMSprop", {"centered": True}), ("Rprop", {}),
):
    params = [gt.randn(1 << 19).requires_grad_() for _ in range(6)]
    for p in params:
        p.grad = gt.randn(1 << 19)
    optimizer = getattr(gt.optim, name)(params, 0.1, **options)
    before = bits(*params, *[p.grad for p in params])
    for mib in (0, 4, 8):
        library.empty_cache()
        assert fails(optimizer.step, mib), (name, mib)
        assert bits(*params, *[p.grad for p in params]) == before and not optimizer.state
    optimizer.step()
    kept = bits(*[x for p in params for x in optimizer.state[p].values() if gt.is_tensor(x)])
    assert len(kept) >= len(params)
    assert not fails(optimizer.step, 1), name  # a step needs no memory
"""

CONVOLUTION = """
weight, x = gt.randn(1024, 1024, 3, 3), gt.randn(16, 1024, 8, 8)
assert fails(lambda: F.conv2d(x, weight, padding=1), 20)  # the packed weights
leaf = x.clone().requires_grad_()
made = F.conv2d(leaf, weight, padding=1)
assert fails(made.sum().backward, 20) and leaf.grad is None
F.conv2d(leaf, weight, padding=1).sum().backward()
"""

CHAIN = """
x, y = gt.randn(1 << 22), gt.ones(1 << 22)


def chain():
    with gt.fuse():
        return (x * 2 + y).exp() * (y - 1)


before = bits(x, y)
assert fails(chain, 8) and bits(x, y) == before
assert chain().sum() == 0
"""

THREADS = """
x = gt.ones(1 << 20)


def many():
    gt.set_num_threads(200)
    return (x + 1).sum()


fails(many, 30)  # threads that cannot start leave their work to the others
assert float(many()) == 1 << 21
"""

PRODUCTS = """
a, b = gt.randn(1500, 1500), gt.randn(1500, 1500)
assert fails(lambda: a @ b, 2) and not fails(lambda: a @ b, 12)
batch = gt.randn(64, 128, 128).exp()  # starts the library's threads
assert not fails(lambda: batch @ batch, 12)  # they wait for the one buffer of BLAS
layer, x = gt.nn.TransformerEncoderLayer(64, 4), gt.randn(64, 16, 64)
for mib in (0, 1, 2, 4, 8, 16):
    fails(lambda: layer(x).sum().backward(), mib)
layer(x).sum().backward()
"""

LOADER = """
from gputensor.utils.data import DataLoader, TensorDataset

data = TensorDataset(gt.randn(256, 1 << 16))
for workers in (0, 2):
    loader = DataLoader(
        data, batch_size=64, num_workers=workers, persistent_workers=workers > 0
    )
    assert fails(lambda: list(loader), 40)
    for _ in range(2):
        assert gt.equal(gt.cat([x for x, in loader]), data.tensors[0])
"""


PROGRAMS = {
    "step": STEP, "products": PRODUCTS, "forward": FORWARD, "backward": BACKWARD,
    "convolution": CONVOLUTION, "chain": CHAIN, "threads": THREADS, "loader": LOADER,
}  # fmt: skip


@pytest.mark.parametrize("name", [*PROGRAMS][: tier.pick(1, None)])
def test_it_ends_in_one_error_and_the_process_goes_on(name: str) -> None:
    assert run(f'{START}{PROGRAMS[name]}\nprint("went on")\n') == "went on"
