"""Random programs over tensors, to compare results of eager runs and of `gt.fuse()`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

import gputensor as gt

from .same import state_of

SIZES = [(3, 4), (4,), (3, 1), (1, 4), (), (4, 3), (2, 3, 4), (1,), (0, 4), (2, 3, 2, 4)]
FORMATS = [gt.contiguous_format, gt.preserve_format, gt.channels_last]
DTYPES = [gt.float32] * 4 + [gt.float64, gt.float16, gt.bfloat16, gt.int64, gt.int8, gt.uint8]
DTYPES += [gt.bool, gt.complex64]
NUMBERS = [0, 1, 2, -1, 0.5, -2.5, 1e-3, True, 0.0, -0.0, 3]
UNARY = ["neg", "abs", "exp", "sqrt", "tanh", "relu", "sigmoid", "floor", "sin", "logical_not"]
UNARY += ["reciprocal", "sign", "isnan", "square", "log1p", "erf"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum", "lt", "eq", "ge", "pow", "atan2"]
BINARY += ["remainder", "floor_divide", "logical_and", "bitwise_xor", "fmod", "copysign"]
INPLACE = ["add_", "mul_", "sub_", "clamp_", "exp_", "neg_", "copy_", "zero_", "fill_", "lt_"]
REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "any", "all", "nansum", "logsumexp"]
VIEWS = ["t", "flatten", "row", "column", "expand", "view", "detach", "squeeze", "diagonal", "imag"]
VIEWS += ["permute", "mT"]


def _operand(rng: random.Random, values: np.random.Generator, gradients: float) -> Any:
    sizes, of = rng.choice(SIZES), rng.choice(DTYPES)
    made = gt.tensor(values.integers(-3, 4, sizes)).to(of)
    if of.is_floating_point:
        made = made + gt.tensor(values.random(sizes)).to(of)
        if rng.random() < gradients:
            made = made.contiguous().requires_grad_()
    if rng.random() < 0.2 and made.ndim == 2:
        made = made.t()
    return made


def _view(x: Any, what: str) -> Any:
    if what == "row":
        return x[0]
    if what == "column":
        return x[..., ::2]
    if what == "expand":
        return x.expand(2, *x.shape)
    if what == "view":
        return x.view(-1)
    if what == "permute":
        return x.permute(*range(1, x.ndim), 0)
    if what == "mT":
        return x.mT
    return getattr(x, what) if what == "imag" else getattr(x, what)()


def _copied(rng: random.Random, x: Any, z: Any) -> Any:
    """Return a copy to another layout, perhaps of a view; perhaps combined with other operators."""
    pick, form = rng.random(), rng.choice(FORMATS)
    if pick < 0.3:
        x = x * 2 + 1
    if rng.random() < 0.6:
        x = _view(x, rng.choice(["t", "permute", "mT", "expand", "column"]))
    calls: list[Callable[[], Any]] = [
        lambda: x.contiguous(), lambda: x.contiguous(memory_format=form), lambda: x.clone(),
        lambda: x.clone(memory_format=form), lambda: x.to(z.dtype, memory_format=form),
        lambda: x.to(memory_format=form), lambda: x.to(z.dtype, copy=True), lambda: x.reshape(-1),
        lambda: gt.empty_like(x, dtype=z.dtype).copy_(x * 2),
        lambda: (x * 2).detach().copy_(x if z.shape != x.shape else z.detach()),
        lambda: gt.zeros_like(x).unsqueeze(-1).repeat_interleave(2, -1)[..., 1].copy_(x * 2),
    ]  # fmt: skip
    made = rng.choice(calls)()
    if pick < 0.5 and made.shape == x.shape:
        return made, made + x, made * 3
    return made


def _drawn(rng: random.Random, x: Any) -> Any:
    """Return random numbers in the shape of x, or a function of them."""
    pick = rng.random()
    calls: list[Callable[[], Any]] = [
        lambda: gt.rand_like(x), lambda: gt.randn_like(x), lambda: gt.dropout(x, 0.4, True),
        lambda: gt.native_dropout(x, 0.4, True)[0], lambda: gt.bernoulli(x, 0.3),
        lambda: x.detach().uniform_(1, 2), lambda: x.detach().bernoulli_(0.6),
        lambda: x.detach().clone().random_(0, 5), lambda: gt.rand(3, 4, dtype=x.dtype),
        lambda: x.detach().t().normal_(), lambda: gt.alpha_dropout(x, 0.4, True),
    ]  # fmt: skip
    made = rng.choice(calls)()
    return (made, made * x) if pick < 0.5 else made


def _reduced(rng: random.Random, x: Any) -> Any:
    """Return a reduction of a value that may be recorded; perhaps combined with other operators."""
    dim = rng.choice([(), 0, -1, tuple(range(x.ndim))])
    keepdim, pick = rng.random() < 0.6, rng.random()
    operation = getattr(gt, rng.choice(REDUCTIONS))
    if pick < 0.3:
        x = x * 2 + 1
    if operation in (gt.prod, gt.any, gt.all) and type(dim) is tuple:
        made = operation(x)
    else:
        made = operation(x, dim, keepdim)
    return (made, x - made) if pick < 0.6 else made


def _of_rows(rng: random.Random, x: Any) -> Any:
    """Return the result of an operator over rows of a value that may be recorded; perhaps with a
    further operator."""
    dim, pick, keepdim = rng.choice([0, -1, 1, -2]), rng.random(), rng.random() < 0.6
    if pick < 0.5:
        x = x * 2 - 1
    sizes = x.shape[rng.choice([0, 1, 2, -1]) :]
    weight = gt.linspace(-1, 1, sizes[-1] if sizes else 1).to(x.dtype)
    functional = gt.nn.functional
    calls: list[Callable[[], Any]] = [
        lambda: gt.argmax(x, dim, keepdim), lambda: gt.argmin(x, dim, keepdim), lambda: x.argmax(),
        lambda: gt.argmin(x, None, keepdim), lambda: tuple(gt.max(x, dim, keepdim)),
        lambda: gt.min(x, dim, keepdim)[0], lambda: gt.max(x, dim, keepdim)[1],
        lambda: gt.softmax(x, dim), lambda: gt.log_softmax(x, dim),
        lambda: functional.layer_norm(x, sizes), lambda: gt.native_layer_norm(x, sizes[-1:], None,
        weight, 1e-5), lambda: functional.layer_norm(x, sizes[-1:], weight, weight + 1),
        lambda: functional.rms_norm(x, sizes[-1:], weight), lambda: functional.rms_norm(x, sizes),
    ]  # fmt: skip
    made = rng.choice(calls)()
    if pick < 0.3 or isinstance(made, tuple):
        return made
    return (made, made * 2 + 1) if pick < 0.4 else (made, x - made)


def _step(rng: random.Random, alive: list[Any], kept: list[Any]) -> Any:
    """Run one statement; return its result, or None."""
    kind, x = rng.random(), rng.choice(alive)
    y = rng.choice(alive) if rng.random() < 0.7 else rng.choice(NUMBERS)
    if kind < 0.18:
        return getattr(gt, rng.choice(UNARY))(x)
    if kind < 0.45:
        return getattr(gt, rng.choice(BINARY))(x, y)
    if kind < 0.52:
        z = rng.choice(alive)
        pick = rng.randrange(6)
        calls: list[Callable[[], Any]] = [
            lambda: gt.where(x > 0, x, y), lambda: gt.clamp(x, -1, 1), lambda: x.to(z.dtype),
            lambda: gt.lerp(x, z, 0.25), lambda: gt.addcmul(z, x, x, value=2),
            lambda: gt.add(x, z, alpha=3),
        ]  # fmt: skip
        return calls[pick]()
    if kind < 0.55:
        return _drawn(rng, x)
    if kind < 0.67:
        name = rng.choice(INPLACE)
        method = getattr(x, name)
        with gt.no_grad() if rng.random() < 0.5 else nullcontext():
            if name in ("exp_", "neg_", "zero_"):
                method()
            elif name == "clamp_":
                method(-1, 2)
            else:
                method(y)
        return None
    if kind < 0.75:
        return _view(x, rng.choice(VIEWS))
    if kind < 0.80:
        return _copied(rng, x, rng.choice(alive))
    if kind < 0.84:
        return _reduced(rng, x)
    if kind < 0.87:
        return _of_rows(rng, x)
    if kind < 0.89:
        return rng.choice([gt.sum, gt.cumsum, gt.amax, gt.sort, gt.softmax, gt.matmul])(
            *((x, x) if rng.random() < 0.2 else (x,)), *((0,) if rng.random() < 0.5 else ())
        )
    if kind < 0.92:
        if rng.random() < 0.5:
            kept.append(x.detach().numpy())
        kept.append(float(x.sum().real) if x.is_complex() else float(x.sum()))
        return None
    if kind < 0.94:
        made = gt.empty_like(x)
        gt.add(x, y, out=made)
        return made
    if kind < 0.96 and kept and isinstance(kept[-1], np.ndarray) and kept[-1].flags.writeable:
        kept[-1][...] = 1  # without calling an operator
        return None
    if kind < 0.98:
        alive.remove(x) if len(alive) > 2 else None
        return None
    if x.requires_grad and x.numel():
        loss = x.abs().sum().float()
        return gt.autograd.grad(loss, [t for t in alive if t.requires_grad and t.is_leaf][:2],
                                allow_unused=True)  # fmt: skip
    return x * 2 if bool((x.detach() != 0).any()) else x + 1


def run(
    seed: int, is_fused: bool, length: int = 24, recompute: bool = False, gradients: float = 0.3
) -> Any:
    """Return all that a program can observe: tensors, values that it read, errors, warnings.
    gradients: the share of floating operands that require a gradient."""
    rng, values = random.Random(seed), np.random.default_rng(seed)
    alive = [_operand(rng, values, gradients) for _ in range(4)]
    kept: list[Any] = []
    told: list[Any] = []
    gt.manual_seed(seed)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with gt.fuse(recompute=recompute) if is_fused else nullcontext():
            for _ in range(length):
                try:
                    made = _step(rng, alive, kept)
                except Exception as error:
                    told.append((type(error), str(error)))
                    continue
                for x in made if isinstance(made, (tuple, list)) else (made,):
                    if isinstance(x, gt.Tensor) and len(alive) < 12:
                        alive.append(x)
                told.append(None)
            if rng.random() < 0.5:
                for x in alive:
                    if x.requires_grad and x.numel() and x.is_floating_point():
                        try:
                            x.sum().backward()
                        except Exception as error:
                            told.append((type(error), str(error)))
    looked = [x.tobytes() if isinstance(x, np.ndarray) else repr(x) for x in kept]
    said = [(w.category, str(w.message)) for w in warned]
    return [state_of(x) for x in alive], looked, told, said, gt.rand(2).tolist()
