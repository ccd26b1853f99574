"""`gt.fuse`: which operators it records, which code runs them, and that their results are the eager
ones."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors, geometry as geometries
from gputensor.dispatch import tls
from gputensor.fusion import block
from gputensor.fusion.record.pending import Pending
from gputensor.fusion.record.recorder import current

from . import programs
from .same import state_of
from ..harness import tier

N = 300_000  # more elements than a block


def is_pending(x: gt.Tensor) -> bool:
    return type(x._storage) is Pending


def chains(function: Callable[..., Any], *args: Any) -> list[tuple[int, str]]:
    """Return the number of operators of each chain, and why it ran."""
    found = gt.fuse.explain(function, *args)
    return [(len(chain.instructions), reason) for chain, reason in found.chains]


def same(function: Callable[..., Any], *args: Any) -> None:
    assert state_of(gt.fuse(function)(*args)) == state_of(function(*args))


def arithmetic(x: Any, y: Any) -> Any:
    return (x * y + 1) * (x - y) * 0.5 + x * x - y


@pytest.mark.parametrize("sizes", [(4,), (N,), (3, 100_001), (2, 3, 50_000)])
def test_a_chain_is_one_loop(sizes: tuple[int, ...]) -> None:
    x, y = gt.rand(sizes), gt.rand(sizes)
    assert chains(arithmetic, x, y) == [(8, "the block is left")]
    same(arithmetic, x, y)


@pytest.mark.parametrize(
    "x, y",
    [
        (gt.rand(600, 700), gt.rand(700)), (gt.rand(600, 700), gt.rand(600, 1)),
        (gt.rand(600, 700).t(), gt.rand(600)), (gt.rand(700, 600).t(), gt.rand(600, 700)),
        (gt.rand(N, dtype=gt.float64), gt.rand(())), (gt.rand(N).half(), gt.rand(N).half()),
        (gt.rand(N).bfloat16(), gt.rand(N)), (gt.rand(N, 2)[:, 0], gt.rand(N)),
        (gt.arange(N), gt.rand(N)), (gt.rand(2, 3, 300, 400).contiguous(
            memory_format=gt.channels_last), gt.rand(2, 3, 300, 400)),
    ],
)  # fmt: skip
def test_blocks_of_every_layout(x: gt.Tensor, y: gt.Tensor) -> None:
    same(arithmetic, x, y)
    same(lambda x, y: ((x + y).exp(), gt.where(x < y, x, y) / (y + 1)), x, y)


def test_a_result_is_pending_until_somebody_looks() -> None:
    x = gt.rand(3)
    looks: list[Callable[[Any], Any]] = [
        lambda y: y.cumsum(0), lambda y: y.numpy(), lambda y: y[0].item(), repr,
        lambda y: y.sum().item(), lambda y: y.tolist(),
        lambda y: y.data_ptr(), lambda y: np.asarray(y), lambda y: bool((y > 0).all()),
        lambda y: np.from_dlpack(y), pickle.dumps, copy.deepcopy, lambda y: y.sort(),
        lambda y: y.untyped_storage().data, lambda y: y.cumsum_(0), lambda y: gt.cat([y, y]),
    ]  # fmt: skip
    for look in looks:
        with gt.fuse():
            y = x * 2 + 1
            assert is_pending(y) and y.shape == (3,) and y.dtype is gt.float32 and y._version == 0
            v = y.view(1, 3)
            assert is_pending(v)
            look(y)
            assert not is_pending(y) and v._storage is y._storage


def test_what_nobody_holds_is_not_computed() -> None:
    x = gt.rand(4)

    def function() -> Any:
        x.exp().sin()
        kept = x + 1
        (kept * 2).cos()
        return kept

    (found,) = gt.fuse.explain(function).chains
    assert [step.what.operator.short_name for step in found[0].instructions] == ["add"]


def test_common_subexpressions_are_computed_once() -> None:
    x = gt.rand(4)
    assert chains(lambda: ((x + 1) * (x + 1), x + 1)) == [(2, "the block is left")]
    a, b = gt.fuse(lambda: (x + 1, x + 1))()
    assert a._storage is not b._storage
    a.zero_()
    assert b.ne(0).all()


def test_numbers_that_are_equal_and_not_the_same() -> None:
    x = gt.zeros(2)
    same(lambda: (x * 0.0, x * -0.0, (x + 1) / 0.0, (x + 1) / -0.0, x + True, x + 1, x + 1.0))


def test_in_place_writes_of_pending_tensors_are_new_values() -> None:
    x = gt.rand(5)

    def function() -> Any:
        y = x * 2
        z = y + 1
        y.add_(z).mul_(3)
        return y, z, y._version

    assert chains(function) == [(4, "the block is left")]
    same(function)


def test_casts_are_members_of_a_chain() -> None:
    def function(x: Any) -> Any:
        y = (x * 255 + 0.5).to(gt.uint8)
        return y, (y.half() * 2).float().exp(), (x > 0.5).to(gt.int64) - y, y.to("cpu", gt.bool)

    for x in (gt.rand(4), gt.rand(N), gt.rand(600, 500).t(), gt.rand(N, 2)[:, 0]):
        same(function, x)
    assert chains(lambda x: ((x * 255).to(gt.uint8) + 1).half(), gt.rand(4)) == [
        (4, "the block is left")
    ]


def test_a_write_to_memory_ends_its_chain_and_is_a_part_of_it() -> None:
    x, g = gt.rand(N), gt.rand(N)
    assert chains(lambda: x.sub_((g + 1).sqrt() * 0.1)) == [(4, "sub_ writes to memory")]

    def function(x: Any) -> Any:
        y = x.clone()
        y.mul_(g).add_((y + g) * 2)
        kept = y.exp() + 1
        return y.lerp_(kept, 0.5), kept, y._version

    same(function, gt.rand(N))


def test_a_write_that_a_later_block_would_read() -> None:
    def function() -> Any:
        x = gt.arange(N + 1, dtype=gt.float64)
        x[1:].add_(x[:-1] * 2)
        x[:-1].sub_(x[1:] + 1)
        square = gt.arange(360_000.0).view(600, 600)
        square.add_(gt.empty_like(square).copy_(square.t()) + square.t())
        return x, square

    same(function)


def test_writes_are_seen_in_their_order() -> None:
    def function() -> Any:
        x = gt.arange(6.0)
        a = x + 1
        x.mul_(10)
        b = x + a
        x[0] = 7
        c, v = x + b, x.view(2, 3)
        v[1].copy_(a[:3])
        d = x + c
        x.resize_(2)
        return a, b, c, d, x, v

    same(function)


def test_views_read_what_their_base_will_be() -> None:
    def function() -> Any:
        x = gt.arange(9.0).view(3, 3)
        y = x + 1
        v, row = y.t(), y[0]
        z = v + y
        y.mul_(2)
        row.add_(1)
        return x, y, v, row, z, v * y, y.view(gt.int32) + 1

    same(function)


def test_writes_past_every_operator_are_seen() -> None:
    def function() -> Any:
        x = gt.ones(3)
        y = x + 1
        array = x.numpy()
        array[0] = 5
        z = x + 1
        array[1] = 6
        w = gt.from_numpy(array) * 2
        array[2] = 7
        return y, z, w, x

    same(function)


def test_errors_come_where_they_come_eagerly() -> None:
    x, zero = gt.arange(3), gt.zeros(3, dtype=gt.int64)
    with gt.fuse():
        y = x + 1
        with pytest.raises(errors.ShapeError):
            y + gt.ones(4)
        with pytest.raises(ZeroDivisionError):
            y // zero
        with pytest.raises(ZeroDivisionError):
            y.remainder_(0)
        with pytest.raises(errors.GpuTensorError):
            y.add_(0.5)
        z = y * 2
    assert y.tolist() == [1, 2, 3] and z.tolist() == [2, 4, 6]


def test_a_block_that_is_left_by_an_error_has_run() -> None:
    x, kept = gt.ones(2), []
    with pytest.raises(KeyError), gt.fuse():
        kept.append(x + 1)
        raise KeyError
    assert not is_pending(kept[0]) and current.get() is None
    assert kept[0].tolist() == [2, 2]


def test_blocks_within_blocks_and_the_decorator() -> None:
    x = gt.ones(2)
    with gt.fuse():
        y = x + 1
        with gt.fuse():
            z = y + 1
        assert not is_pending(z)
        w = y + z
        assert is_pending(w)
    assert w.tolist() == [5, 5] and not is_pending(x + 1)

    @gt.fuse
    def twice(x: Any) -> Any:
        """Doc."""
        y = x * 2
        assert is_pending(y)
        return y

    assert not is_pending(twice(x)) and twice.__doc__ == "Doc."
    with pytest.raises(TypeError):
        gt.fuse(3)


def test_blocks_left_in_any_order() -> None:
    x, state = gt.ones(2), tls.state.get()
    first, second, third = gt.fuse(), gt.fuse(), gt.fuse()
    first.__enter__()
    second.__enter__()
    y = x + 1
    first.__exit__()
    z = y * 2
    assert not is_pending(y) and is_pending(z)
    third.__enter__()
    second.__exit__()
    assert not is_pending(z) and is_pending(x + 1)
    third.__exit__()
    assert not is_pending(x + 1) and current.get() is None and tls.state.get() is state

    def steps() -> Iterator[Any]:
        with gt.fuse():
            yield x + 1

    made = steps()
    y = next(made)
    with gt.fuse():
        assert list(made) == []
        assert is_pending(x + 1)
    assert not is_pending(y) and tls.state.get() is state


def test_other_threads_may_look() -> None:
    found = []
    with gt.fuse():
        y = gt.ones(3) * 2
        thread = threading.Thread(target=lambda: found.append((y + 1).tolist()))
        thread.start()
        thread.join()
        assert not is_pending(y)
    assert found == [[3, 3, 3]]


def test_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "is_off", True)
    with gt.fuse():
        assert not is_pending(gt.ones(3) + 1)


def test_gradients() -> None:
    def function(*, is_within: bool) -> Any:
        x = gt.linspace(-1, 1, 7).requires_grad_()
        y = gt.linspace(0.5, 2, 7).requires_grad_()

        def forward() -> Any:
            return (gt.tanh(x * y) + x / y).square() * x.exp()

        if is_within:
            with gt.fuse():
                forward().sum().backward()
        else:
            gt.fuse(forward)().sum().backward()
        return state_of((x, y))

    eager_x = gt.linspace(-1, 1, 7).requires_grad_()
    eager_y = gt.linspace(0.5, 2, 7).requires_grad_()
    ((gt.tanh(eager_x * eager_y) + eager_x / eager_y).square() * eager_x.exp()).sum().backward()
    assert function(is_within=True) == function(is_within=False) == state_of((eager_x, eager_y))


def test_saved_tensors_keep_their_versions() -> None:
    with gt.fuse():
        x = gt.ones(3, requires_grad=True)
        y = x.exp()
        z = y * y
        y.detach().add_(1)
        with pytest.raises(RuntimeError):
            z.sum().backward()


def test_a_long_loop_does_not_grow() -> None:
    with gt.fuse():
        x = gt.zeros(3)
        for _ in range(500):
            x = x + 1
        assert len(current.get().pending) <= 2
    assert x.tolist() == [500] * 3


def test_explain() -> None:
    x = gt.rand(8)

    def function(x: Any) -> Any:
        y = (x * 2 + 1).exp()
        return y / y.cumsum(0)

    found = gt.fuse.explain(function, x)
    assert "3 operators over [8] on cpu; it ran as cumsum reads it" in str(found)
    assert "v1 = mul(v0, s0)" in str(found) and "store v3" in str(found)
    assert found.bytes_moved < found.bytes_apart
    assert state_of(found.result) == state_of(function(x))


# --- reductions -----------------------------------------------------------------------------------

OVER_ALL = ["sum", "mean", "prod", "amax", "amin", "any", "all", "nansum"]
LAYOUTS = [(3,), (N,), (3, 100_001), (2, 3, 50_000), (70_000, 5), (300, 400), (2_100_000,),
           (1500, 1500)]  # fmt: skip


def test_a_reduction_takes_its_chain_along() -> None:
    x, y = gt.rand(600, 700), gt.rand(600, 700)
    found = gt.fuse.explain(lambda: (x * y + 1).sum())
    ((chain, reason),) = found.chains
    assert (len(chain.instructions), len(chain.stores)) == (3, 1)
    assert found.bytes_moved == 2 * x.nbytes + 4 and reason == "the block is left"
    assert "v4 = sum(v3)  # gputensor.float32, [] over [0, 1]" in str(found)
    assert chains(lambda: ((y * 2).amax(0) + 1).sum().item()) == [
        (2, "another chain reads it"), (2, "_local_scalar_dense reads it")
    ]  # fmt: skip


def test_a_sum_and_a_sum_of_squares_read_once() -> None:
    x = gt.rand(N)
    found = gt.fuse.explain(lambda: (x.sum(), (x * x).sum(), x.amax()))
    assert len(found.chains) == 1 and found.bytes_moved == x.nbytes + 12
    same(lambda: (x.sum(), (x * x).sum(), x.amax()))


@pytest.mark.parametrize("sizes", tier.pick([(3,), (3, 100_001), (300, 400)], LAYOUTS))
def test_reductions_of_every_layout(sizes: tuple[int, ...]) -> None:
    x, y, row = gt.rand(sizes) - 0.5, gt.rand(sizes) + 0.5, gt.rand(sizes[-1:])
    for of in (gt.float32, gt.float64, gt.float16, gt.bfloat16, gt.int32):
        a, b, c = ((v * 9).to(of) for v in (x, y, row))
        for name in OVER_ALL:
            if name == "mean" and of is gt.int32:
                continue
            operation = getattr(gt, name)
            dims = range(len(sizes))
            same(lambda: [operation(a * b + a, d, True) for d in dims])
            same(lambda: (a * c, operation((a * c).t() if a.ndim == 2 else a + b, -1)))
        same(lambda: ((a * b).sum(), (a + b).amax((), True), a > b, a.sum(), (a * c).sum()))
        same(lambda: ((a * b).float().mean(), (a > b).sum(), (a - c).sum(dtype=gt.float64)))


def softmax(x: Any) -> Any:
    powers = (x - x.amax(-1, True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def spread(x: Any) -> Any:
    mean = x.mean(-1, keepdim=True)
    centered = x - mean
    return centered / ((centered * centered).mean(-1, keepdim=True) + 1e-5).sqrt(), mean, x.sum()


def test_rows_that_are_short_are_read_once() -> None:
    x = gt.rand(300, 500)
    found = gt.fuse.explain(lambda: softmax(x * 2))
    assert len(found.chains) == 1 and found.bytes_moved == 2 * x.nbytes
    small = [(4, 5), (300, 500), (5, 1)]
    for sizes in tier.pick(small, [*small, (70_000, 3), (20, 17_000), (7, 90, 400), (1500, 1500)]):
        y = gt.rand(sizes) - 0.5
        for of in (y, y.double(), y.half(), y.bfloat16(), y.transpose(0, -1)):
            same(lambda of=of: (softmax(of * 3), spread(of + 1), of > of.amax(0, True)))
            same(lambda of=of: (of - of.amin(0, keepdim=True)) / (of * 2).sum((0, -1), True))


def test_a_fused_sum_has_the_same_bits_for_any_number_of_threads() -> None:
    x, count = gt.rand(2_100_000), gt.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3):
            gt.set_num_threads(threads)
            found.add(gt.fuse(lambda: (x * x - x).sum())().item())
    finally:
        gt.set_num_threads(count)
    assert len(found) == 1


def test_functions_that_reduce_are_replayed() -> None:
    functions: list[Callable[..., Any]] = [
        lambda x, y: (x * y).sum(), lambda x, y: ((x * y).sum(0), x + y),
        lambda x, y: (x * y).amax(-1, True) + x, lambda x, y: ((x * y).mean(), (x * y).mean()),
        lambda x, y: softmax(x - y) + spread(y)[0],
    ]  # fmt: skip
    small, large = gt.rand(4, 5), gt.rand(300, 400)
    for function in functions:
        fused = gt.fuse(function)
        for _ in range(3):
            for x in (small, large, small.t()):
                assert state_of(fused(x, x + 1)) == state_of(function(x, x + 1))
        assert len(fused._replays.plans) == 3  # type: ignore[attr-defined]


def test_derivatives_through_fused_reductions() -> None:
    def gradients(run: Callable[..., Any]) -> Any:
        x = gt.linspace(-1, 1, 70_000).view(7, 10_000).requires_grad_()

        def loss() -> None:
            centered = x - x.mean(1, keepdim=True)
            made = centered * ((centered * centered).mean(1, keepdim=True) + 1e-5).rsqrt()
            (made.exp() / made.exp().sum(0)).square().sum().backward()

        run(loss)
        return state_of(x)

    assert gradients(lambda f: gt.fuse(f)()) == gradients(lambda f: f())


# --- problems of cupy.fuse that users reported ----------------------------------------------------


def test_control_flow_on_values() -> None:  # cupy#7878
    def function(x: Any) -> Any:
        y = x * 2
        return y + 1 if y > 0 else y - 1

    for value in (1.0, -1.0):
        same(function, gt.tensor(value))


def test_slices_sorts_and_arrays_from_outside() -> None:  # cupy#9002
    table = gt.tensor([10.0, 20.0, 30.0, 40.0])

    def function(x: Any) -> Any:
        y = x + table
        return y[1:] * 2, (y - table).sort().values + 1, y + np.ones(4, np.float32)

    same(function, gt.rand(4))


def test_a_sum_beside_what_it_is_a_sum_of() -> None:  # cupy#9008
    same(lambda x, y: (x * 2).sum(1, keepdim=True) > y, gt.rand(5, 6), gt.rand(5, 1))


def test_norms() -> None:  # cupy#10016
    same(lambda x: (x + 1) / gt.linalg.norm(x + 1), gt.rand(5))


def test_clip() -> None:  # cupy#7098
    same(lambda x: (gt.clip(x * 2, 0.5, 1) + 1, (x - 1).clip(min=-0.5)), gt.rand(5))


# --- random programs ------------------------------------------------------------------------------


def test_random_programs_are_what_they_are_eagerly() -> None:
    for seed in range(40):
        assert programs.run(seed, True) == programs.run(seed, False), seed


@pytest.mark.full
def test_many_random_programs() -> None:
    for seed in range(60, 1060):
        assert programs.run(seed, True) == programs.run(seed, False), seed


# --- threads --------------------------------------------------------------------------------------


def test_threads_that_run_chains_at_once_share_no_temporary() -> None:
    xs = [gt.rand(70, 1000) for _ in range(4)]
    found: dict[int, list[gt.Tensor]] = {}

    def work(n: int) -> None:
        for _ in range(30):
            with gt.fuse():
                z = (xs[n] * 2 + 1).exp() * (xs[n] + 3)
            found.setdefault(n, []).append(z)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, x in enumerate(xs):
        wanted = (x * 2 + 1).exp() * (x + 3)
        assert len(found[n]) == 30 and all(gt.equal(z, wanted) for z in found[n])


def test_a_layout_is_one_place_also_after_geometries_were_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = gt.rand(20, 31), gt.rand(20, 31)

    def first(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return x * y

    def both(x: gt.Tensor, y: gt.Tensor) -> gt.Tensor:
        return (x * y).atan2(y)

    for _ in range(2):
        gt.fuse.explain(first, x, y)
    monkeypatch.setattr(geometries, "_interned", {})
    monkeypatch.setattr(geometries, "_contiguous", {})
    assert len(gt.fuse.explain(both, x, y).chains) == 1
