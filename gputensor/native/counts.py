"""Samples of the Poisson and binomial distributions, in float64 arithmetic for every dtype.

Samples have PyTorch's distributions but not PyTorch's values. An element uses the same random
numbers on all devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from .._generated import calls, functions
from ..core import errors
from ..core.device import CPU
from ..core.dtype import FLOATING, float64
from ..iterator.broadcast import broadcast_sizes
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured.generator import check, default_generator
from ..tensor.tensor import Tensor

# Hörmann's constants hold for means from _LARGE upwards; `_by_counting` handles smaller means.
_LARGE = 10.0
# A Poisson sample with a mean below _LARGE is less than _MOST, because the probability of a larger
# sample is less than the rounding error of the cdf.
_MOST = 100


def poisson(key_set: int, self: Tensor, generator: Any = None) -> Tensor:
    _check("poisson", "input", self)
    if self.is_meta:
        return self.new_empty(self.shape)
    of = self._geometry
    mean = calls.reshape(calls.to_dtype(self, float64, False, False, None), (of.numel,))
    if not calls.item(calls.all(mean >= 0)):
        raise errors.must("poisson", "input", "hold rates, none negative or NaN", self)
    drawn = 0 * mean
    _draw("poisson", drawn, mean, (mean,), generator)
    return calls.to_dtype(calls.reshape(drawn, of.sizes), of.dtype, False, True, None)


def binomial(key_set: int, count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Draw binomial samples. For counts and probabilities out of range, results are as in
    ATen/native/Distributions.h, sample_binomial.
    """
    _check("binomial", "count", count)
    if prob._geometry.dtype is not (of := count._geometry.dtype):
        raise errors.wrong_dtype("binomial", "prob", f"be {of.name}, as 'count' is", prob)
    sizes = broadcast_sizes(count._geometry.sizes, prob._geometry.sizes)
    if sizes is None:
        rule = f"broadcast with 'count' of sizes {list(count._geometry.sizes)}"
        raise errors.wrong_shape("binomial", "prob", rule, prob)
    if count.is_meta:
        return count.new_empty(sizes)
    n, p = [x.to(float64).expand(sizes).flatten() for x in (count, prob)]
    drawn = functions.where((n <= 0) | (p <= 0), 0.0, n * p.clamp(0, 1))
    places = ((n > 0) & (n < math.inf) & (p > 0) & (p < 1)).nonzero()[:, 0]
    n, p = n[places], p[places]
    rare = p.minimum(1 - p)  # count successes or failures, whichever are rarer
    whole, found = n.floor(), functions.empty_like(n)
    _draw("binomial", found, whole * rare, (whole, rare), generator)
    drawn[places] = functions.where(p > 0.5, n - found, found)
    return drawn.reshape(sizes).to(count.dtype, copy=True)


def _check(op: str, arg: str, x: Tensor) -> None:
    if x._geometry.dtype.category != FLOATING:
        raise errors.wrong_dtype(op, arg, "be floating", x)


def _draw(
    op: str, out: Tensor, mean: Tensor, params: tuple[Tensor, ...], generator: Any
) -> None:  # fmt: skip
    """Write samples of finite means to `out`. params: the parameters of the distribution `op`."""
    if mean._device is CPU and (loops := stub.cpu("counts").loops(op)):
        if generator is not None:
            check(op, generator, CPU.type)
        _draw_by_loops(loops, out, mean, params, generator)
        return
    small, large = (mean < _LARGE).nonzero()[:, 0], _is_large(mean).nonzero()[:, 0]
    terms, reject = _METHODS[op]
    out[small] = _by_counting(*terms(*[x[small] for x in params]), generator)
    out[large] = reject(*[x[large] for x in params], generator)


def _draw_by_loops(
    loops: Any, out: Tensor, mean: Tensor, params: tuple[Tensor, ...], generator: Any
) -> None:  # fmt: skip
    """Like `_draw`, by the CPU's loops and with the same random numbers for each element."""
    by_counting, by_rejection = loops
    drawn, means = out._get_array(), mean._get_array()
    given = [numpy.ascontiguousarray(x._get_array()) for x in params]
    stream = generator or default_generator(CPU)
    pending = run(numpy.less, means, _LARGE).nonzero()[0]
    by_counting(drawn, pending, given, _MOST, *stream.take(pending.size))
    pending = run(_is_large, means).nonzero()[0]
    while pending.size:
        accepted = numpy.empty(pending.size, bool)
        seed, first = stream.take(pending.size)
        by_rejection(drawn, accepted, pending, given, seed, first, stream.take(pending.size)[1])
        pending = pending[~accepted]


def _is_large(mean: Any) -> Any:
    """Return True for finite means of _LARGE or more."""
    return (mean >= _LARGE) & (mean < math.inf)


def _by_counting(term: Tensor, a: Tensor, b: Tensor, generator: Any) -> Tensor:
    """Draw samples by inversion: subtract terms of the pmf from a uniform number until the
    difference is negative.

    term: the probability of 0. The probability of k is (a + b / k) times the probability of k - 1.
    """
    count = functions.zeros_like(term)
    rest = 1 - uniform(term, generator) - term
    pending = functions.arange(term.numel(), device=term.device)
    for k in range(1, _MOST):
        goes_on = rest >= 0
        pending, rest, term = pending[goes_on], rest[goes_on], term[goes_on]
        if not pending.numel():
            break
        a, b = a[goes_on], b[goes_on]
        term = term * (a + b / k)
        rest = rest - term
        count[pending] = float(k)
    return count


def _poisson_terms(mean: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (-mean).exp(), functions.zeros_like(mean), mean


def _binomial_terms(count: Tensor, probability: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    odds = probability / (1 - probability)
    return (count * (-probability).log1p()).exp(), -odds, (count + 1) * odds


def _poisson_by_rejection(mean: Tensor, generator: Any) -> Tensor:
    """Draw Poisson samples of means of 10 and more.

    Source: Hörmann, The transformed rejection method for generating Poisson random variables, 1993,
    algorithm PTRS.
    """

    def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
        m = mean[pending]
        b = 0.931 + 2.53 * m.sqrt()
        a = 0.02483 * b - 0.059
        u, v, side = _sides(m, generator)
        k = ((2 * a / side + b) * u + m + 0.43).floor()
        accepted = (side >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        left = (~accepted & (k >= 0)).nonzero()[:, 0]
        m, a, b, v, side, at = (x[left] for x in (m, a, b, v, side, k))
        weight = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / side.square() + b)
        accepted[left] = weight.log() <= at * m.log() - m - functions.lgamma(at + 1)
        return k, accepted

    return by_rejection(mean, propose)


def _binomial_by_rejection(count: Tensor, probability: Tensor, generator: Any) -> Tensor:
    """Draw binomial samples of means of 10 and more, with probabilities up to 1/2.

    Source: Hörmann, The generation of binomial random variates, 1993, algorithm BTRS.
    """

    def propose(pending: Tensor) -> tuple[Tensor, Tensor]:
        n, p = count[pending], probability[pending]
        spread = (n * p * (1 - p)).sqrt()
        b = 1.15 + 2.53 * spread
        a = 0.0248 * b - 0.0873 + 0.01 * p
        u, v, side = _sides(n, generator)
        k = ((2 * a / side + b) * u + n * p + 0.5).floor()
        accepted = (side >= 0.07) & (v <= 0.92 - 4.2 / b)
        left = (~accepted & (k >= 0) & (k <= n)).nonzero()[:, 0]
        n, p, a, b, v, side, at = (x[left] for x in (n, p, a, b, v, side, k))
        weight = v * (2.83 + 5.1 / b) * spread[left] / (a / side.square() + b)
        mode = ((n + 1) * p).floor()
        to_mode = (
            functions.lgamma(mode + 1)
            + functions.lgamma(n - mode + 1)
            - functions.lgamma(at + 1)
            - functions.lgamma(n - at + 1)
        )
        accepted[left] = weight.log() <= to_mode + (at - mode) * (p / (1 - p)).log()
        return k, accepted

    return by_rejection(count, propose)


_Terms = Callable[..., tuple[Tensor, Tensor, Tensor]]
# The functions of a distribution for means below _LARGE, and for other means.
_METHODS: dict[str, tuple[_Terms, Callable[..., Tensor]]] = {
    "poisson": (_poisson_terms, _poisson_by_rejection),
    "binomial": (_binomial_terms, _binomial_by_rejection),
}


def _sides(like: Tensor, generator: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Draw u in (-1/2, 1/2] and v in (0, 1]; return u, v and 1/2 - |u|."""
    u, v = uniform(like, generator) - 0.5, uniform(like, generator)
    return u, v, 0.5 - u.abs()


def by_rejection(like: Tensor, propose: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """Draw one float64 number for each element of `like`.

    propose: takes indices into the flattened `like`; returns proposals and a mask of accepted ones.
    For an invalid parameter it must accept NaN, because the loop runs until every element is
    accepted.
    """
    drawn = functions.empty(like.numel(), dtype=float64, device=like.device)
    pending = functions.arange(like.numel(), device=like.device)
    while pending.numel():
        proposed, accepted = propose(pending)
        drawn[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    return drawn.reshape(like.shape)


def uniform(like: Tensor, generator: Any = None) -> Tensor:
    """Draw uniform numbers in (0, 1]."""
    return 1 - functions.rand(like.shape, generator=generator, dtype=float64, device=like.device)
