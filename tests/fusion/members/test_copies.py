"""Layout copies in a chain: strides and bits equal those of eager operators."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt
from gputensor.fusion import cpu, running
from gputensor.fusion.cpu import programs
from gputensor.kernels import stub
from gputensor.kernels.cuda import launch

from ...cuda.kernels.chains import compile_together
from ...cuda.support import requires_emulator
from ...harness import tier
from ..same import state_of

PLACES = ["cpu", pytest.param("cuda", marks=[requires_emulator, pytest.mark.emulator])]
LAST = gt.channels_last


def pixels(place: str) -> Any:
    """(N, H, W, C), u8."""
    return gt.randint(0, 256, (2, 9, 40, 3)).to(place, gt.uint8)


def factors(x: Any) -> Any:
    return gt.arange(1, 4).to(x.device, gt.float32).view(3, 1, 1)


def packed(x: Any) -> Any:
    return (x.permute(0, 3, 1, 2).to(gt.float32) * factors(x) + 0.5).contiguous()


def turned_late(x: Any) -> Any:
    return (x.to(gt.float32) * 2 + 1).permute(0, 3, 1, 2).contiguous()


def turned_first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2).contiguous().to(gt.float32) * 2 + 1


def there_and_back(x: Any) -> Any:
    y = x.permute(0, 3, 1, 2).to(gt.float32).contiguous()
    z = (y * 2).to(gt.float16, memory_format=LAST)
    return y + 1, z, (z + 1).clone(memory_format=gt.contiguous_format)


def turned_twice(x: Any) -> Any:
    y = (x + 1).transpose(1, 2).contiguous()
    return y.transpose(1, 2).contiguous() * 2, y.transpose(1, 2) + 1


def written_to(x: Any) -> Any:
    y = x.to(gt.float32).clone()
    kept = y.clone()
    y.mul_(2)
    z = y.permute(0, 3, 1, 2).contiguous()
    z.add_(1)
    y.add_(3)
    return kept, y, z, y._version, z._version


def written_over(x: Any) -> Any:
    """Copies of an operand's value before the chain's last operator wrote to it."""
    x = x.to(gt.float32).permute(0, 3, 1, 2).contiguous()
    before = gt.fuse.explain(lambda: x.clone()).result
    y = x + 1
    turned = x.clone(memory_format=LAST)
    z = (y * 2).to(gt.float64, memory_format=LAST)
    x.mul_(y)
    return before, turned, z, x, x._version


def written_into(x: Any) -> Any:
    """Writes to existing memory: strided, transposed, of another dtype, or an operand itself."""
    y = x.to(gt.float32)
    wide, planes = gt.zeros_like(y.repeat(1, 1, 2, 1)), gt.zeros_like(y.permute(0, 3, 1, 2))
    small = gt.zeros_like(x)
    square = y[0, :9, :9, 0].contiguous()
    wide[:, :, ::2].copy_(y * 2 + 1)
    planes.copy_((y * 3).permute(0, 3, 1, 2))
    small.copy_(y * 0.5)
    square.copy_((square * 2).t())
    y.copy_(y * 4)
    y[:, 1:].copy_(y[:, :-1] * 2)
    return wide, planes, small, square, y, y._version, wide._version


def written_anew(x: Any) -> Any:
    """Writes to a pending tensor, from an operand that is in memory, repeated, cast, or pending
    too."""
    y, z = x * 2, x.to(gt.float32) + 1
    w = z.clone(memory_format=LAST)
    kept = z * 2
    z.copy_(x[:1, :1, :1])
    y.copy_(z)
    w.copy_(kept)
    total = z.sum()
    z.copy_(kept * 0.5)
    return y, z, w, kept, total, w + 1, y._version, z._version


def kept_twice(x: Any) -> Any:
    """Values that are returned, copied and used in both layouts."""
    planes = x.permute(0, 3, 1, 2)
    y = planes.to(gt.float32)
    z = planes.contiguous()
    w = y * 2
    return z, z.clone(), z + 1, w, w.contiguous(), w.clone(memory_format=LAST), planes.clone()


def summed(x: Any) -> Any:
    y = (x.to(gt.float32) * 0.1).permute(0, 3, 1, 2).contiguous()
    return y.sum(1), y.sum(), y


def summed_and_written(x: Any) -> Any:
    """The last operator of a chain writes to the operand of its sum."""
    y = x.to(gt.float32) + 1
    z = y.clone(memory_format=LAST)
    total, rows = y.sum(), y.sum(0)
    y.add_(x.to(gt.float32) * 2)
    return y, z, total, rows


def repeated(x: Any) -> Any:
    return (x[:, :, :1].expand(2, 9, 5, 3).clone() + 1).contiguous(memory_format=LAST)


def with_a_gradient(x: Any) -> Any:
    w = (x.to(gt.float32) / 255).requires_grad_()
    (w.permute(0, 3, 1, 2).contiguous() * factors(x)).square().sum().backward()
    return w.grad


# Each function with its number of chains; None if the number does not matter.
PROGRAMS: list[tuple[Callable[[Any], Any], int | None]] = [
    (packed, 1), (turned_late, 1), (turned_first, 1), (there_and_back, 1), (turned_twice, 1),
    (written_to, None), (written_over, None), (written_into, None),
    (written_anew, None), (kept_twice, None), (summed, None), (summed_and_written, None),
    (repeated, 1),
    (with_a_gradient, None),
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "program, chains", PROGRAMS[:: tier.pick(3, 1)], ids=lambda x: getattr(x, "__name__", "")
)
def test_a_copy_is_a_member_of_its_chain(program: Any, chains: int | None, place: str) -> None:
    x = pixels(place)
    expected = state_of(program(x))
    with gt.fuse():
        found = program(x)
    assert state_of(found) == expected
    fused = gt.fuse(program)
    for _ in range(4):
        assert state_of(fused(x)) == expected
    seen = gt.fuse.explain(lambda: program(x))
    if chains is not None:
        assert len([c for c, _ in seen.chains if len(c.instructions) > 1]) == chains


def test_one_kernel_scales_and_turns_pixels() -> None:
    x = pixels("cpu")
    found = gt.fuse.explain(packed, x)
    (chain,) = [c for c, _ in found.chains if len(c.instructions) > 1]
    assert chain.bytes_moved == x.nbytes + 4 * x.nbytes + 3 * 4
    assert "clone(" in str(chain) and "strides [1080, 360, 40, 1]" in str(chain)
    assert len(chain.stores) == 1


# Each function with the bytes of the elements that are copied from one layout to another.
PLACED: list[tuple[str, Callable[[Any], Any], list[int]]] = [
    ("after they are widened", lambda x: (x.t().to(gt.float64) * 2).contiguous(), [8]),
    ("after they are narrowed", lambda x: (x * 2).to(gt.uint8).t().contiguous(), [1]),
    ("what both sides are read in", lambda x: (x.t().contiguous() + x) * 2, [4]),
    ("what is kept twice", lambda x: (lambda y: (y, y.t().contiguous()))(x * 2), [4]),
    ("an operand that is kept", lambda x: (lambda y: (y, y + 1))(x.t().contiguous()), [4]),
]  # fmt: skip


@pytest.mark.parametrize("of", PLACED, ids=lambda of: of[0])
def test_elements_change_their_layout_by_the_copy_loop(
    of: tuple[str, Callable[[Any], Any], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, function, expected = of
    x = gt.rand(300, 300)
    wanted = state_of(function(x))
    moved: list[int] = []
    copy = stub.cpu("copy").copy

    def noted(out: Any, source: Any) -> None:
        if out.dtype == source.dtype:
            moved.append(source.itemsize)
        copy(out, source)

    monkeypatch.setattr(stub.cpu("copy"), "copy", noted)
    running._plans.clear()
    with gt.fuse():
        found = function(x)
    assert state_of(found) == wanted
    running._plans.clear()
    assert moved == expected


@pytest.mark.parametrize("function", [
    lambda x: x.t().to(gt.uint8).contiguous(),
    lambda x: x.clone(memory_format=gt.contiguous_format).t().to(
        gt.float64, memory_format=gt.contiguous_format
    ),
])  # fmt: skip
def test_a_copy_alone_is_the_loop_that_copies(
    function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs once, over all elements, and includes the cast."""
    x = gt.rand(300, 300)
    wanted = state_of(function(x))
    sizes: list[int] = []
    copy = stub.cpu("copy").copy

    def noted(out: Any, source: Any) -> None:
        sizes.append(out.size)
        copy(out, source)

    monkeypatch.setattr(stub.cpu("copy"), "copy", noted)
    running._plans.clear()
    with gt.fuse():
        found = function(x)
    assert state_of(found) == wanted
    running._plans.clear()
    assert sizes == [x.numel()]


@requires_emulator
@pytest.mark.emulator
def test_on_cuda_it_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[str] = []
    call = launch.Launch.__call__

    def noted(self: launch.Launch, *args: Any) -> None:
        entries.append(self.entry)
        call(self, *args)

    x = gt.rand(320, 400).to("cuda")

    def function() -> Any:
        return (x * 2 + 1).t().contiguous()

    expected = function()
    gt.fuse(function)()
    monkeypatch.setattr(launch.Launch, "__call__", noted)
    with gt.fuse():
        y = function()
    assert entries == ["chain_turned"]
    assert state_of(y) == state_of(expected)


# --- random chains --------------------------------------------------------------------------------


def _program(seed: int, place: str) -> tuple[Callable[[Any], Any], Any]:
    """Copies and views within a chain over dimensions of 1 to 16."""
    rng = random.Random(seed)
    ndim = rng.choice([2, 3, 4, 4])
    of = [gt.uint8, gt.float32, gt.float16, gt.float64, gt.int64, gt.bfloat16, gt.complex64]
    sizes = [rng.choice([1, 2, 3, 5, 9, 16]) for _ in range(ndim)]
    x = gt.randint(0, 200, sizes).to(place, rng.choice(of))
    orders = [rng.sample(range(ndim), ndim) for _ in range(4)]
    x = x.permute(orders[3])
    picks = [rng.random() for _ in range(10)]
    forms = [rng.choice([gt.contiguous_format] + [LAST] * (ndim == 4)) for _ in range(3)]
    to = [rng.choice([gt.float32, gt.float16, gt.uint8, gt.float64]) for _ in range(2)]
    row = gt.rand(x.shape[-1] if picks[7] < 0.5 else (x.shape[0], *[1] * (ndim - 1))).to(place)

    def function(x: Any) -> Any:
        y = x * 2
        if picks[0] < 0.5:
            y = y + row
        if picks[1] < 0.5 and not y.is_complex():
            y = y.to(to[0])
        z = y.permute(orders[0]) if picks[2] < 0.6 else y
        if picks[3] < 0.6:
            z = z.contiguous(memory_format=forms[0])
        if picks[4] < 0.5 and not z.is_complex():
            z = z.to(to[1], memory_format=forms[1])
        w = z + 1
        u = w.permute(orders[1]).clone(memory_format=forms[2]) if picks[5] < 0.7 else w
        v = u.permute(orders[2]).contiguous()
        made = v.sum(0) if picks[9] < 0.3 and v.dtype is not gt.uint8 else None
        if picks[8] < 0.4:
            u.mul_(2)
        return (y, z, w, u, v, made) if picks[6] < 0.3 else (v, made)

    return function, x


@pytest.mark.parametrize("few", [None, 8])
def test_random_chains_are_what_they_are_eagerly(
    monkeypatch: pytest.MonkeyPatch, few: int | None
) -> None:
    """On the CPU, copies of few elements also run in separate stages."""
    if few is not None:
        monkeypatch.setattr(programs, "_FEW", few)
        monkeypatch.setattr(programs, "_ALIKE", 5)
    for seed in range(150):
        function, x = _program(seed, "cpu")
        expected = state_of(function(x))
        with gt.fuse():
            found = function(x)
        assert state_of(found) == expected, seed


@requires_emulator
@pytest.mark.full
@pytest.mark.emulator
def test_random_chains_are_what_they_are_eagerly_on_cuda() -> None:
    programs = [_program(seed, "cuda") for seed in range(40)]

    def run(is_fused: bool) -> list[Any]:
        made = []
        for function, x in programs:
            if not is_fused:
                made.append(state_of(function(x)))
                continue
            with gt.fuse():
                found = function(x)
            made.append(state_of(found))
        return made

    compile_together(lambda: run(True))
    for seed, (found, expected) in enumerate(zip(run(True), run(False))):
        assert found == expected, seed


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("of", [gt.uint8, gt.int16, gt.float32], ids=str)
def test_channels_of_packed_pixels_become_planes_in_one_program(channels: int, of: Any) -> None:
    """The planes have more than one block, and the last block is not full."""
    x = gt.randint(0, 100, (3, 111, 301, channels)).to(of)
    scale = gt.arange(1, channels + 1).to(gt.float32).view(channels, 1, 1)

    def planes(x: gt.Tensor) -> list[gt.Tensor]:
        wide = x.permute(0, 3, 1, 2).to(gt.float32) * scale
        return [(wide + 0.5).contiguous(), (wide - x.permute(0, 3, 1, 2)).clone(), wide.sqrt()]

    for n in range(3):
        for made in (lambda x: planes(x)[n], lambda x: [y.contiguous() for y in planes(x)]):
            assert state_of(gt.fuse(made)(x)) == state_of(made(x))


@pytest.mark.parametrize("sizes", [(4, 3), (2, 300, 5), (3, 40, 256), (70, 500)])
@pytest.mark.parametrize("dims", [(), (-1,), (-2, -1), (0,)])
def test_copies_to_another_layout_beside_a_reduction(
    sizes: tuple[int, ...], dims: tuple[int, ...]
) -> None:
    x = gt.rand(*sizes)

    def f() -> list[gt.Tensor]:
        y = x * 2
        turned = (y + 1).transpose(-1, -2)
        return [gt.amax(y, dims), turned.contiguous(), gt.empty_like(turned).copy_(turned), y]

    wanted = f()
    with gt.fuse():
        found = f()
    assert [made.stride() for made in found] == [made.stride() for made in wanted]
    assert all(gt.equal(made, plain) for made, plain in zip(found, wanted))


@pytest.mark.parametrize(("edge", "count"), [(32, 1), (128, 2)])
def test_a_program_transposes_few_elements_and_the_copy_loop_many(edge: int, count: int) -> None:
    found = gt.fuse.explain(lambda x: (x * 2).t().contiguous(), gt.rand(edge, edge))
    ((chain, _),) = found.chains
    assert len(cpu.stages(chain)) == count or not programs.library.choice().library
