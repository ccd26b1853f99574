"""All copies use the copy kernels: launches, kernels, and bytes transferred.

Launches and transfers are counted in the runtime, below all code that could hide one. On the CPU
the same calls use the CPU's copy kernels of `native/copy.py`.
"""

from __future__ import annotations

import copy
import io
import pickle
import sys

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.kernels import stub
from gputensor.native import copy as native_copy, rearrange as native_rearrange

SIZES = (8, 64, 48, 32)
NBYTES = 8 * 64 * 48 * 32 * 4
HOST, FIRST, SECOND = -1, 0, 1


def values():
    return (np.arange(NBYTES // 4) % 2039).astype(np.float32).reshape(SIZES)  # exact in f16


def nhwc(x):
    return x.permute(0, 2, 3, 1) if isinstance(x, gt.Tensor) else x.transpose(0, 2, 3, 1)


def into(x, target):
    return target.copy_(x)


def part_of_itself(x):
    x = x.clone()
    x[:, :32] = x[:, 32:]
    return x


def saved(x):
    file = io.BytesIO()
    gt.save(x, file)
    file.seek(0)
    return gt.load(file)


def like(x, *sizes, dtype=gt.float32):
    return gt.empty(*sizes, dtype=dtype, device=x.device)


# name -> (the program, its NumPy equivalent, the launched kernels, bytes written). copy_tile
# changes the order of elements; copy_row copies whole rows.
ON_ONE_DEVICE = {
    "copy_": (lambda x: into(nhwc(x), like(x, 8, 48, 32, 64)), nhwc, ["copy_tile"], NBYTES),
    "copy_ into an order": (lambda x: into(x, nhwc(like(x, 8, 32, 64, 48))), lambda x: x,
    ["copy_tile"], NBYTES),
    "copy_ and cast": (
        lambda x: into(nhwc(x), like(x, 8, 48, 32, 64, dtype=gt.float16)),
        lambda x: nhwc(x).astype(np.float16), ["copy_tile"], NBYTES // 2,
    ),
    "clone": (lambda x: x.clone(memory_format=gt.channels_last), lambda x: x, ["copy_tile"],
    NBYTES),
    "clone of dense": (lambda x: nhwc(x).clone(), nhwc, ["copy_row"], NBYTES),
    "contiguous": (lambda x: nhwc(x).contiguous(), nhwc, ["copy_tile"], NBYTES),
    "contiguous already": (lambda x: x.contiguous(), lambda x: x, [], 0),
    "to a format": (lambda x: x.to(memory_format=gt.channels_last), lambda x: x, ["copy_tile"],
    NBYTES),
    "to a dtype": (lambda x: x.to(gt.float16), lambda x: x.astype(np.float16), ["copy_row"],
    NBYTES // 2),
    "to both at once": (
        lambda x: x.to(gt.float16, memory_format=gt.channels_last),
        lambda x: x.astype(np.float16), ["copy_tile"], NBYTES // 2,
    ),
    "cat": (
        lambda x: gt.cat([nhwc(x), nhwc(x)], 3), lambda x: np.concatenate([nhwc(x)] * 2, 3),
        ["copy_tile"] * 2, 2 * NBYTES,
    ),
    "stack": (
        lambda x: gt.stack([nhwc(x)] * 3), lambda x: np.stack([nhwc(x)] * 3), ["copy_tile"] * 3,
        3 * NBYTES,
    ),
    "repeat": (
        lambda x: nhwc(x).repeat(2, 1, 1, 1), lambda x: np.tile(nhwc(x), (2, 1, 1, 1)),
        ["copy_tile"], 2 * NBYTES,
    ),
    "flip": (lambda x: x.flip(1, 3), lambda x: x[:, ::-1, :, ::-1], ["copy_row"], NBYTES),
    "expand and contiguous": (
        lambda x: x[:1].expand(SIZES).contiguous(), lambda x: np.broadcast_to(x[:1], SIZES),
        ["copy_row"], NBYTES,
    ),
    "reshape": (lambda x: nhwc(x).reshape(-1), lambda x: nhwc(x).reshape(-1), ["copy_tile"],
    NBYTES),
    "deepcopy": (lambda x: copy.deepcopy(nhwc(x)), nhwc, ["copy_row"], NBYTES),
    "gt.layout.contiguous": (lambda x: gt.layout.contiguous(nhwc(x)), nhwc, ["copy_tile"], NBYTES),
    "gt.layout.copy": (lambda x: gt.layout.copy(like(x, 8, 48, 32, 64), nhwc(x)), nhwc,
    ["copy_tile"], NBYTES),
}  # fmt: skip

# name -> (the program, its NumPy equivalent, kernels on the device, transfers: (from, to, bytes)).
# A dense permuted tensor is transferred without a change. A tensor with gaps is packed first. If
# the result has another order, the device changes it. There is always one transfer.
BETWEEN_DEVICES = {
    "cpu of permuted": (lambda x: nhwc(x).cpu(), nhwc, [], [(FIRST, HOST, NBYTES)]),
    "cpu of a part": (lambda x: x[:, ::2].cpu(), lambda x: x[:, ::2], ["copy_row"], [(FIRST, HOST,
    NBYTES // 2)]),
    "into another order on the host": (
        lambda x: into(nhwc(x), gt.empty(8, 48, 32, 64)), nhwc, ["copy_tile"], [(FIRST, HOST,
        NBYTES)],
    ),
    "cuda of permuted": (lambda x: nhwc(gt.from_numpy(values())).cuda(), nhwc, [], [(HOST, FIRST,
    NBYTES)]),
    "cuda of a part": (
        lambda x: gt.from_numpy(values())[:, ::2].cuda(), lambda x: x[:, ::2], [], [(HOST, FIRST,
        NBYTES // 2)],
    ),
    "into another order on the device": (
        lambda x: into(nhwc(gt.from_numpy(values())), like(x, 8, 48, 32, 64)), nhwc, ["copy_tile"],
        [(HOST, FIRST, NBYTES)],
    ),
    "device to device": (lambda x: nhwc(x).to("cuda:1"), nhwc, [], [(FIRST, SECOND, NBYTES)]),
    "a part from device to device": (
        lambda x: x[:, ::2].to("cuda:1"), lambda x: x[:, ::2], ["copy_row"], [(FIRST, SECOND,
        NBYTES // 2)],
    ),
    "into another order on another device": (
        lambda x: into(nhwc(x), gt.empty(8, 48, 32, 64, device="cuda:1")), nhwc, ["copy_tile"],
        [(FIRST, SECOND, NBYTES)],
    ),
    "to another device and a smaller dtype": (
        lambda x: nhwc(x).to("cuda:1", gt.float16), lambda x: nhwc(x).astype(np.float16),
        ["copy_row"],
        [(FIRST, SECOND, NBYTES // 2)],
    ),
    "pickle": (
        lambda x: pickle.loads(pickle.dumps(nhwc(x))), nhwc, [], [(FIRST, HOST, NBYTES), (HOST,
        FIRST, NBYTES)],
    ),
    "save and load": (lambda x: saved(nhwc(x)), nhwc, [], [(FIRST, HOST, NBYTES), (HOST, FIRST,
    NBYTES)]),
}  # fmt: skip


@pytest.fixture
def seen(monkeypatch):
    """Return (names of kernels, transfers, copies of bytes within a device)."""
    if not (gt.cuda.is_available() and gt.cuda.is_emulated()):
        pytest.skip("launches are counted on the emulator")
    cuda, launches, crossings, within = runtime.cuda(), [], [], []
    launch, move = cuda.launch, cuda.copy_async

    def launched(function, *rest):
        launches.append(function.name)
        launch(function, *rest)

    def moved(to, to_device, source, source_device, nbytes, stream):
        (within if to_device == source_device else crossings).append(
            (source_device, to_device, nbytes)
        )
        move(to, to_device, source, source_device, nbytes, stream)

    monkeypatch.setattr(cuda, "launch", launched)
    monkeypatch.setattr(sys.modules[cuda.launcher.__module__], "launch", launched)
    monkeypatch.setattr(cuda, "copy_async", moved)
    return launches, crossings, within


def check(made, expected):
    found = made.cpu().numpy()
    assert found.dtype == expected.dtype and (found == expected).all()


@pytest.mark.emulator
@pytest.mark.parametrize("name", ON_ONE_DEVICE)
def test_on_one_device(seen, name):
    call, meaning, kernels, nbytes = ON_ONE_DEVICE[name]
    launches, crossings, within = seen
    x = gt.from_numpy(values()).cuda()
    del launches[:], crossings[:]
    with gt.audit_copies() as audit:
        made = call(x)
    assert launches == kernels and crossings == [] and within == []
    if not name.startswith("gt.layout"):  # because it is not an operator
        assert audit.total_bytes == nbytes or name == "deepcopy"
    check(made, meaning(values()))


@pytest.mark.emulator
def test_a_part_of_itself_is_assigned_in_one_launch(seen):
    launches, crossings, within = seen
    x = gt.from_numpy(values()).cuda()
    made = part_of_itself(x)
    assert (
        launches == ["copy_row"] * 2 and len(crossings) == 1 and within == []
    )  # clone, assignment
    expected = values()
    expected[:, :32] = expected[:, 32:]
    check(made, expected)


@pytest.mark.emulator
@pytest.mark.parametrize("name", BETWEEN_DEVICES)
def test_between_devices(seen, name):
    call, meaning, kernels, expected = BETWEEN_DEVICES[name]
    launches, crossings, within = seen
    x = gt.from_numpy(values()).cuda()
    del launches[:], crossings[:]
    made = call(x)
    assert launches == kernels and crossings == expected and within == []
    check(made, meaning(values()))


@pytest.mark.emulator
def test_what_is_sent_goes_through_pinned_memory(seen, monkeypatch):
    """The copy is asynchronous: the host reads the tensor once and does not wait."""
    cuda = runtime.cuda()
    pinned, sources = [], []
    allocate, move = cuda.pinned_allocate, cuda.copy_async
    kind = type(cuda.current_stream(0))

    def allocated(nbytes):
        memory = allocate(nbytes)
        pinned.append((memory.ptr, nbytes))
        return memory

    def moved(to, to_device, source, source_device, nbytes, stream):
        sources.append((source, nbytes))
        move(to, to_device, source, source_device, nbytes, stream)

    with monkeypatch.context() as patch:
        patch.setattr(cuda, "pinned_allocate", allocated)
        patch.setattr(cuda, "copy_async", moved)
        patch.setattr(kind, "synchronize", lambda self: pytest.fail("the host waited"))
        made = gt.from_numpy(values())[:, ::2].cuda()
    assert pinned == sources and pinned[0][1] == NBYTES // 2
    check(made, values()[:, ::2])


@pytest.mark.emulator
def test_devices_that_exchange_do_not_make_the_host_wait(seen, monkeypatch):
    kind = type(runtime.cuda().current_stream(0))
    x = gt.from_numpy(values()).cuda()
    with monkeypatch.context() as patch:
        patch.setattr(kind, "synchronize", lambda self: pytest.fail("the host waited"))
        made = into(nhwc(x), gt.empty(8, 48, 32, 64, device="cuda:1"))
    check(made, nhwc(values()))


# --- on the CPU -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ON_ONE_DEVICE)
def test_on_the_cpu(monkeypatch, name):
    """Each byte of the result is written once, by one copy."""
    call, meaning, _kernels, nbytes = ON_ONE_DEVICE[name]
    written = []
    moves = native_copy.cpu_copy

    def counted(dst, src):
        written.append(dst.nbytes)
        moves(dst, src)

    with monkeypatch.context() as patch:
        for module in (native_copy, native_rearrange):
            patch.setattr(module, "cpu_copy", counted)
        patch.setattr(stub.cpu("copy"), "copy", counted)
        made = call(gt.from_numpy(values()))
    assert sum(written) == nbytes
    check(made, meaning(values()))
