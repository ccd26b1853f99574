"""PyTorch's samples of its modules (`module_db`): states, outputs, gradients, and in float64 second
derivatives of both libraries.

Classes of quantised modules are left out. Samples that PyTorch itself rejects are not counted.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt

pytest.importorskip("torch")

import torch

from .. import op_db

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

# Their results in training mode depend on random numbers, which differ from PyTorch's.
DRAWN = "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"
DRAWN += ("RReLU",)
# PyTorch's formula for the second derivative takes the first gradient as a constant.
ONCE = ("LinearCrossEntropyLoss",)
TOLERANCES = {"float32": 2e-4, "float64": 1e-7}
CLASSES = 108  # at least
SAMPLES = 2200  # at least, of both modes


def infos() -> list[Any]:
    op_db.op_db()  # a replacement for a package of PyTorch's test tools
    from torch.testing._internal.common_modules import module_db

    return [info for info in module_db if info.module_cls.__module__.startswith("torch.nn.")]


@dataclasses.dataclass
class Pairs:
    """PyTorch's tensors that require gradients, and our tensors made from them."""

    of: list[tuple[Any, Any]]

    def ours(self, value: Any) -> Any:
        """Convert PyTorch's value to ours: tensors, modules, functions and containers of these."""
        if isinstance(value, torch.nn.utils.rnn.PackedSequence):
            parts = [self.ours(x) for x in value]
            return gt.nn.utils.rnn.PackedSequence(*parts)
        if isinstance(value, torch.Tensor):
            made = gt.from_numpy(value.detach().numpy().copy())
            if value.requires_grad:
                self.of.append((value, made.requires_grad_()))
            return made
        if isinstance(value, torch.nn.Module):
            return rebuilt(value)
        if isinstance(value, (torch.dtype, torch.device)):
            return getattr(gt, str(value).removeprefix("torch."), str(value))
        if dataclasses.is_dataclass(value):  # options of LinearCrossEntropyLoss
            of = getattr(gt.nn, type(value).__name__)
            return of(**{f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
        if isinstance(value, dict):
            return {name: self.ours(x) for name, x in value.items()}
        if isinstance(value, (list, tuple)) and type(value) is not torch.Size:
            return type(value)([self.ours(x) for x in value])
        if callable(value):
            return getattr(gt.nn.functional, getattr(value, "__name__", ""), value)
        return value


def rebuilt(module: Any) -> Any:
    """Convert a module that is an argument of another module: a layer of a transformer's
    encoder."""
    attention, norm = module.self_attn, module.norm1
    made = gt.nn.TransformerEncoderLayer(
        attention.embed_dim, attention.num_heads, module.linear1.out_features, module.dropout.p,
        getattr(gt.nn.functional, module.activation.__name__), norm.eps, attention.batch_first,
        module.norm_first, module.linear1.bias is not None,
        dtype=getattr(gt, str(module.linear1.weight.dtype).removeprefix("torch.")),
    )  # fmt: skip
    take_state(made, module)
    return made


def take_state(ours: Any, theirs: Any) -> None:
    ours.load_state_dict(
        {name: gt.from_numpy(x.numpy().copy()) for name, x in theirs.state_dict().items()}
    )


def tensors(found: Any) -> Iterator[Any]:
    """Return the tensors of nested outputs, in order."""
    if isinstance(found, (torch.Tensor, gt.Tensor)):
        yield found
    elif isinstance(found, (list, tuple)):
        for x in found:
            yield from tensors(x)


def differs(what: str, wanted: Any, found: Any, tolerance: float) -> str:
    """Return the difference of our tensor from PyTorch's; "" if there is none."""
    if (wanted is None) != (found is None):
        return f"{what} is on one side only"
    if wanted is None:
        return ""
    a, b = (x.detach().numpy() for x in (wanted, found))
    if a.dtype != b.dtype or a.shape != b.shape:
        return f"{what} is {b.dtype}{b.shape}, not {a.dtype}{a.shape}"
    finite = np.abs(a[np.isfinite(a)]).max(initial=0) if a.dtype.kind in "fc" else 0
    if np.allclose(b, a, tolerance, tolerance * max(1.0, float(finite)) / 10, equal_nan=True):
        return ""
    return f"{what} differs by {np.abs(a.astype(complex) - b).max():.3g}"


def run(lib: Any, module: Any, given: Any) -> tuple[list[Any], Any]:
    """Return outputs, and a number that depends on each element of outputs with gradients."""
    outputs = list(tensors(module(*given.args, **given.kwargs)))
    total: Any = 0.0
    for x in outputs:
        if x.requires_grad:
            weights = np.random.default_rng(0).normal(size=tuple(x.shape))
            weights = weights.astype(x.detach().numpy().real.dtype)
            total = total + (x * lib.from_numpy(weights)).abs().sum() if x.is_complex() else (
                total + (x * lib.from_numpy(weights)).sum()
            )  # fmt: skip
    return outputs, total


def made(info: Any, sample: Any, training: bool, dtype: str) -> Any:
    """Return PyTorch's module; a lazy module gets its parameters."""
    given = sample.constructor_input
    torch.manual_seed(0)
    module = info.module_cls(*given.args, **given.kwargs).train(training)
    module.to(getattr(torch, dtype))
    call = sample.forward_input
    trial = copy.deepcopy(module)
    trial(*copy.deepcopy(call.args), **copy.deepcopy(call.kwargs))
    has_lazy = any(torch.nn.parameter.is_lazy(p) for p in module.parameters())
    return trial if has_lazy else module


def faults(info: Any, sample: Any, training: bool, dtype: str) -> list[str] | None:
    """Return a sentence for each difference; None if PyTorch rejects the sample."""
    given, call = sample.constructor_input, sample.forward_input
    name = info.module_cls.__name__
    try:
        theirs = made(info, sample, training, dtype)
    except Exception:
        return None
    pairs = Pairs([])
    ours = getattr(gt.nn, name)(*pairs.ours(given.args), **pairs.ours(given.kwargs))
    ours.train(training).to(getattr(gt, dtype))
    mine = [f"{k}: {tuple(x.shape)}" for k, x in theirs.state_dict().items()]
    take_state(ours, theirs)
    said = [f"{k}: {tuple(x.shape)}" for k, x in ours.state_dict().items()]
    if mine != said:
        return [f"the state is {said}, not {mine}"]
    inputs = type(call)(*pairs.ours(call.args), **pairs.ours(call.kwargs))
    if not training:  # by PyTorch's names
        names = inspect.signature(theirs.forward).parameters
        inputs = type(call)(**dict(zip(names, inputs.args)), **inputs.kwargs)
    is_drawn = training and name in DRAWN
    has_second = dtype == "float64" and info.supports_gradgrad and name not in ONCE
    return compared(theirs, ours, call, inputs, pairs, is_drawn, TOLERANCES[dtype], has_second)


def compared(
    theirs: Any, ours: Any, call: Any, inputs: Any, pairs: Pairs, is_drawn: bool, tolerance: float,
    has_second: bool = False,
) -> list[str]:  # fmt: skip
    (wanted, total), (found, of_ours) = run(torch, theirs, call), run(gt, ours, inputs)
    if is_drawn:
        sizes = [[(tuple(x.shape), x.requires_grad) for x in xs] for xs in (wanted, found)]
        return [] if sizes[0] == sizes[1] else [f"outputs are {sizes[1]}, not {sizes[0]}"]
    if len(wanted) != len(found):
        return [f"{len(found)} outputs, not {len(wanted)}"]
    said = [differs(f"output {n}", *xs, tolerance) for n, xs in enumerate(zip(wanted, found))]
    if [x.requires_grad for x in wanted] != [x.requires_grad for x in found]:
        return [*said, "other outputs require gradients"]
    if not isinstance(total, float):
        total.backward(retain_graph=has_second)
        of_ours.backward(retain_graph=has_second)
    kept = dict(ours.named_parameters()), dict(ours.named_buffers())
    said += [differs(f"grad of {k}", p.grad, kept[0][k].grad, tolerance)
             for k, p in theirs.named_parameters()]  # fmt: skip
    said += [differs(k, x, kept[1][k], tolerance) for k, x in theirs.named_buffers()]
    said += [differs("grad of an input", x.grad, y.grad, tolerance) for x, y in pairs.of]
    if has_second and not isinstance(total, float):
        leaves = [(p, kept[0][k]) for k, p in theirs.named_parameters()] + pairs.of
        leaves = [both for both in leaves if both[0].requires_grad]
        try:
            once_more = second(torch, total, [x for x, _ in leaves])
        except RuntimeError:  # PyTorch differentiates this module once
            return [x for x in said if x]
        seconds = zip(once_more, second(gt, of_ours, [x for _, x in leaves]))
        said += [differs("a second derivative", *xs, tolerance) for xs in seconds]
    return [x for x in said if x]


def second(lib: Any, total: Any, leaves: list[Any]) -> list[Any]:
    """The derivatives of a number that depends on each element of the first derivatives; zeros
    for a leaf on which it does not depend."""
    first = lib.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    again: Any = 0.0
    for x in first:
        if x is not None and x.requires_grad:
            weights = np.random.default_rng(1).normal(size=tuple(x.shape))
            again = again + (x * lib.from_numpy(weights)).sum()
    found = [None] * len(leaves)
    if not isinstance(again, float):
        found = lib.autograd.grad(again, leaves, allow_unused=True)
    zeros = [lib.zeros_like(leaf) for leaf in leaves]
    return [zero if x is None else zero + x for zero, x in zip(zeros, found)]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_sample_agrees(dtype: str) -> None:
    wrong: list[str] = []
    classes: set[str] = set()
    count = 0
    for info in infos():
        if getattr(torch, dtype) not in info.dtypes:
            continue
        for training in (True, False):
            torch.manual_seed(0)
            samples = info.module_inputs_func(
                info, device="cpu", dtype=getattr(torch, dtype), requires_grad=True,
                training=training,
            )  # fmt: skip
            for n, sample in enumerate(samples):
                try:
                    said = faults(info, sample, training, dtype)
                except Exception as error:
                    said = [f"{type(error).__name__}: {str(error).splitlines()[:1]}"]
                if said is not None:
                    count += 1
                    classes.add(info.module_cls.__name__)
                    where = f"{info.module_cls.__name__} {n} {'training' if training else ''}"
                    wrong += [f"{where}{sample.desc}: {x}" for x in said]
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:60])
    assert len(classes) >= CLASSES and count >= SAMPLES, (len(classes), count)
