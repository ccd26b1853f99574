"""Row operators as members of chains: extremes and their indices, softmax, layer norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gputensor as gt

from ...harness import tier
from ..same import state_of

functional = gt.nn.functional
SIZES = [(4, 5), (300, 400), (5, 1), (2, 40_000), (7, 90, 400), (20, 17_000), (66_000,), (3, 1, 2)]
DTYPES = [gt.float32, gt.float64, gt.float16, gt.bfloat16]


def same(function: Callable[[], Any]) -> None:
    wanted = state_of(function())
    with gt.fuse():
        found = function()
    assert state_of(found) == wanted


def chains(function: Callable[[], Any]) -> list[tuple[int, int]]:
    """Return the operators and stored values of each chain."""
    found = gt.fuse.explain(function).chains
    return [(len(chain.instructions), len(chain.stores)) for chain, _ in found]


@pytest.mark.parametrize("sizes", tier.pick(SIZES[:4], SIZES))
def test_they_are_what_they_are_eagerly(sizes: tuple[int, ...]) -> None:
    for of in DTYPES:
        x, weight = ((gt.rand(sizes) - 0.5) * 9).to(of), gt.rand(sizes[-1:]).to(of)
        for y in {x, x.transpose(0, -1)}:
            for d in range(x.ndim):
                same(lambda: ((y * 3).softmax(d), (y - 1).log_softmax(d) * 2 + y))
                same(lambda: (*(y * 3).max(d), *(y * 3).min(d, True), y - (y * 3).max(d, True)[0]))
                same(lambda: ((y * 3).argmax(d), (y.round() * 3).argmin(d, True) + 1))
                same(lambda: ((y * 3).logsumexp(d), y - (y * 3).logsumexp(d, True)))
        same(lambda: ((x * 3).argmax(), (x * 3).argmin(keepdim=True), (x * 3).max()))
        for n in range(1, x.ndim + 1):
            same(lambda: functional.layer_norm(x * 3 + 1, sizes[-n:]))
            same(lambda: functional.rms_norm(x * 3 + 1, sizes[-n:]) - x)
        same(lambda: functional.layer_norm(x * 3, sizes[-1:], weight, weight + 1) * 2 + x)
        wide = weight if of is gt.float64 else weight.float()
        same(lambda: gt.native_layer_norm(x * 3, sizes[-1:], None, wide, 1e-5))


def test_nan_and_equal_elements_are_found_where_they_are_eagerly() -> None:
    x = gt.tensor([[1.0, 3, 3, 2], [-0.0, 0, 0, -0.0], [1, float("nan"), float("nan"), 5]])
    for of in (*DTYPES, gt.int64, gt.uint8):
        y = x.nan_to_num(7).to(of) if not of.is_floating_point else x.to(of)
        one = gt.ones((), dtype=of)
        same(lambda: ((y * one).argmax(1), (y * one).argmin(0), *(y * one).max(1)))
        same(lambda: (*(y * one).min(1, True), (y * one).argmax()))


def test_what_is_around_them_is_one_chain() -> None:
    x, weight = gt.rand(300, 400), gt.rand(400)
    mask = gt.rand(300, 400) > 0.1

    def masked(x: gt.Tensor) -> gt.Tensor:
        return gt.where(mask, x * 0.125, -1e9).softmax(-1) * 2

    found = gt.fuse.explain(masked, x)
    assert len(found.chains) == 1 and found.bytes_moved == 2 * x.nbytes + mask.nbytes
    assert "_softmax(" in str(found)

    def normal(x: gt.Tensor) -> gt.Tensor:
        return functional.gelu(functional.layer_norm(x + 1, (400,), weight, weight))

    found = gt.fuse.explain(normal, x)
    assert len(found.chains) == 1 and found.bytes_moved == 2 * x.nbytes + weight.nbytes
    assert chains(lambda: (x * 3).max(1)) == [(3, 2)]
    assert chains(lambda: x - (x * 3).logsumexp(1, True)) == [(3, 1)]
    assert chains(lambda: (x * 3).argmax(1)) == [(2, 1)]
    assert chains(lambda: (x + x).argmax()) == [(2, 1)]


def test_what_each_row_has_one_of_goes_on_in_the_chain() -> None:
    x, scale = gt.rand(300, 400), gt.rand(300, 1)

    def normal(x: gt.Tensor) -> gt.Tensor:
        centered = x - x.mean(-1, keepdim=True)
        variance = (centered * centered).mean(-1, keepdim=True)
        return centered * (scale / (variance + 1e-5).sqrt())

    found = gt.fuse.explain(normal, x)
    assert len(found.chains) == 1 and found.bytes_moved == 2 * x.nbytes + scale.nbytes
    same(lambda: normal(x))
    for sizes in ((7, 30, 40), (3, 200, 300)):
        y = gt.rand(sizes)

        def of_two(y: gt.Tensor = y) -> Any:
            over, along = y.mean(-1, keepdim=True), (y * 2).amax(1, keepdim=True)
            all_of = y.sum((1, 2), True)
            return over + all_of, over * along, (y - over / all_of).exp() * along, along.neg_()

        same(of_two)
        same(lambda: (of_two()[1].sum(1), of_two()[0].transpose(0, 1).contiguous()))


def test_what_is_reduced_is_not_written_to_before() -> None:
    def run() -> Any:
        x = gt.linspace(0, 1, 120_000).view(300, 400) + 0
        found = x.sum(), x.argmax(), x.amax(1, True), x.softmax(1)
        x.add_(x * 3 + 1)
        return x, *found, x.sub_(x * x - found[2])

    same(run)


def test_derivatives_through_them() -> None:
    def gradients(run: Callable[[Callable[[], None]], Any]) -> Any:
        x = gt.linspace(-1, 1, 60_000).view(60, 1000).requires_grad_()
        weight = gt.linspace(0, 2, 1000).requires_grad_()

        def loss() -> None:
            made = functional.layer_norm(x * 2, (1000,), weight, weight * 2).softmax(1)
            other = (x * 3).log_softmax(1) * made + (x - (x * 2).max(1, True)[0])
            (other.square().sum() + (x * x).logsumexp(1).sum()).backward()

        run(loss)
        return state_of((x, weight))

    assert gradients(lambda f: gt.fuse(f)()) == gradients(lambda f: f())


def test_functions_of_them_are_replayed() -> None:
    functions: list[Callable[[gt.Tensor], Any]] = [
        lambda x: (x * 2).softmax(1) + 1, lambda x: (x * 2).argmax(1),
        lambda x: functional.layer_norm(x * x, (x.shape[1],)) * 2,
        lambda x: (x + 1).max(1)[0] * 2, lambda x: (x + 1).min(0, True)[1],
        lambda x: (x * 2).logsumexp(1, True) - x, lambda x: (x + 1).argmin(),
        lambda x: functional.layer_norm(x + 1, (x.shape[1],), x[0], x[1]),
    ]  # fmt: skip
    for function in functions:
        fused = gt.fuse(function)
        for _ in range(3):
            for x in (gt.rand(3, 4), gt.rand(300, 400)):
                assert state_of(fused(x)) == state_of(function(x))
        assert len(fused._replays.plans) == 2, fused._replays.why  # type: ignore[attr-defined]


def test_bad_calls_say_what_they_say_eagerly() -> None:
    x = gt.rand(300, 400)
    calls: list[Callable[[gt.Tensor], Any]] = [
        lambda x: x.softmax(2), lambda x: x.max(-3), lambda x: x.argmax(5),
        lambda x: functional.layer_norm(x, (300,)), lambda x: functional.layer_norm(x, ()),
        lambda x: functional.layer_norm(x, (400,), gt.rand(400).double()),
        lambda x: gt._softmax(x, 1, True), lambda x: gt.softmax((x * 9).long(), 1),
        lambda x: x.to(gt.complex64).max(1),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(Exception) as eager:
            call(x + 1)
        with pytest.raises(type(eager.value)) as fused, gt.fuse():
            call(x + 1)
        assert str(fused.value) == str(eager.value)
