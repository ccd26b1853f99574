"""gt.func against torch.func: equal results of the same programs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

RNG = np.random.default_rng(5)
X, Y, W = (RNG.standard_normal(s).astype(np.float32) for s in ((4, 3), (4, 3), (3, 3)))
CLASSES = np.array([0, 2, 1, 0])
Program = Callable[[Any, Any, Any, Any, Any], Any]


def per_sample(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    labels = t.tensor(CLASSES)

    def loss(w: Any, sample: Any, label: Any) -> Any:
        return t.nn.functional.cross_entropy((sample @ w).unsqueeze(0), label.unsqueeze(0))

    return f.vmap(f.grad(loss), (None, 0, 0))(w, x, labels)


def normed(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    def function(a: Any) -> Any:
        return t.nn.functional.layer_norm(a @ w, (3,)).softmax(-1)

    return f.jacrev(function)(x[0]), f.jacfwd(function)(x[0]), f.vmap(f.jacrev(function))(x)


def hessians(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    def function(a: Any) -> Any:
        return (a @ w).tanh().pow(2).sum()

    return (
        f.hessian(function)(x[0]),
        f.vmap(f.hessian(function))(x),
        f.jacrev(f.jacrev(function))(x[0]),
    )


def solved(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    m = w @ w.T + 3 * t.eye(3)

    def function(b: Any) -> Any:
        return t.linalg.solve(m, b.unsqueeze(-1)).squeeze(-1).sum()

    return f.vmap(f.grad_and_value(function))(x), f.jvp(t.linalg.inv, (m,), (w,))


def written(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    def function(a: Any, b: Any) -> Any:
        c = a * b
        c[0] = a.sum()
        c[1:].mul_(b[1:])
        return c.cumsum(0)

    return f.vmap(function)(x, y), f.jvp(function, (x[0], y[0]), (y[0], x[0]))


def indexed(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    n = t.tensor([2, 0])
    return (
        f.vmap(lambda a, i: a[i])(x, t.tensor([0, 1, 2, 1])),
        f.vmap(lambda a: a[n])(x), f.vmap(lambda a: w[:, n] @ a[n])(x),
        f.vmap(lambda a: t.stack([a, a * 2]).flatten().topk(3).values)(x),
        f.vmap(lambda a: a.gather(0, n), in_dims=1)(x),
    )  # fmt: skip


def nested(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    distances = f.vmap(f.vmap(lambda a, b: (a - b).norm(), (None, 0)), (0, None))
    return distances(x, y), f.vmap(distances, (None, 0))(x, y.unsqueeze(0))


def convolved(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    images, filters = x.reshape(2, 1, 2, 3), w.reshape(1, 1, 3, 3)

    def function(filters: Any, image: Any) -> Any:
        made = t.nn.functional.conv2d(image.unsqueeze(0), filters, padding=1)
        return t.nn.functional.max_pool2d(made, 2).sum()

    return f.vmap(f.grad(function), (None, 0))(filters, images)


def linearised(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    out, push = f.linearize(lambda a: (a @ w).sin().logsumexp(-1), x)
    primal, pull = f.vjp(lambda a: (a @ w).sin().logsumexp(-1), x)
    return out, push(y), primal, f.vmap(pull)(t.eye(4))


def batch_normed(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    def function(a: Any) -> Any:
        return t.nn.functional.batch_norm(a, None, None, training=True)

    images = x.reshape(2, 2, 3).unsqueeze(0).expand(2, 2, 2, 3) * t.tensor([[[[1.0]]], [[[2.0]]]])
    return f.vmap(function)(images), f.vmap(lambda a: t.nn.functional.group_norm(a, 2))(images)


def into_zeros(t: Any, a: Any) -> Any:
    made = t.zeros(3)
    made[0] = a[0] ** 2
    made[1:] = a[1:] * a[0]
    return made


def in_place(t: Any, a: Any) -> Any:
    made = t.zeros(3)
    made.add_(a**2)
    made.mul_(a)
    made[0] *= a[1]
    return made


def through_a_view(t: Any, a: Any) -> Any:
    made = t.zeros(2, 3)
    row = made[0]
    row.copy_(a**2)
    return made.sin() * a


def by_index(t: Any, a: Any) -> Any:
    made = t.empty(3).fill_(2.0)
    made.index_put_((t.tensor([0, 1]),), a[:2] * a[1:])
    made.masked_fill_(t.tensor([False, False, True]), 0)
    return t.zeros(3).scatter_(0, t.tensor([2, 1, 0]), made * a)


def of_its_own(t: Any, a: Any) -> Any:
    made = a.new_zeros(2)
    made.resize_(3)
    return made.zero_().add_(a).mul_(a)


def writes(t: Any, f: Any, x: Any, y: Any, w: Any) -> Any:
    """Writes to tensors that the function made, which have neither batch nor tangent."""
    found = []
    for function in (into_zeros, in_place, through_a_view, by_index, of_its_own):
        of, row = functools.partial(function, t), x[0]

        def total(a: Any, of: Any = of) -> Any:
            return of(a).sum()

        found += [
            f.hessian(total)(row), f.hessian(of)(row), f.jacfwd(f.jacfwd(of))(row),
            f.jacrev(f.jacfwd(of))(row), f.jvp(f.grad(total), (row,), (y[0],)),
        ]  # fmt: skip
    own = functools.partial(of_its_own, t)
    mapped = f.vmap(own)(x), f.vmap(f.grad(lambda a: own(a).sum()))(x), f.vmap(f.jacfwd(own))(x)
    return found, mapped


PROGRAMS = [
    per_sample, normed, hessians, solved, written, indexed, nested, convolved, linearised,
    batch_normed, writes,
]  # fmt: skip


@pytest.mark.parametrize(
    "function", [into_zeros, in_place, through_a_view, by_index], ids=lambda f: f.__name__
)
def test_a_batch_is_not_written_into_what_has_none(function: Any) -> None:
    for t, x in ((gt, gt.tensor(X)), (torch, torch.tensor(X))):
        with pytest.raises(RuntimeError):
            t.func.vmap(functools.partial(function, t))(x)
        with pytest.raises(RuntimeError):
            t.func.vmap(lambda a, t=t: t.mul(a, a, out=t.zeros(3)))(x)


def flat(value: Any) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [y for x in value for y in flat(x)]
    return [value.detach().numpy()]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs_agree(program: Program) -> None:
    ours = flat(program(gt, gt.func, *map(gt.tensor, (X, Y, W))))
    theirs = flat(program(torch, torch.func, *map(torch.tensor, (X, Y, W))))
    assert [a.shape for a in ours] == [b.shape for b in theirs]
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
