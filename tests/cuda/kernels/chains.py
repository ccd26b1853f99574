"""Chains for tests, of one operator and random ones, run as one kernel and as eager operators.

Both use the same memory. Kernels of a list of cases are compiled together, because g++ starts
slowly.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.kernels._generated.loops import LOOPS
from gputensor.core import errors
from gputensor.core.dtype import ALL, bool_, dtype
from gputensor.core.dtype_rules import RULES
from gputensor.core.promotion import promote_types
from gputensor.kernels.cuda import (
    binding, chain_launch, chain_source, launch, module, pointwise_launch, variants,
)  # fmt: skip
from gputensor.kernels.cuda.chain_source import Body, Step

FLOATS = [d for d in ALL if d.is_floating_point]
# These functors take a scalar after their inputs; other binary functors ignore it.
SCALED = ("add_alpha", "threshold_backward")
Operand = tuple[Any, tuple[int, ...]]  # a tensor, its strides in bytes (index 0 fastest)


def takes(family: str, op: str) -> tuple[int, int]:
    if family == "copy":
        return 1, 0
    inputs, scalars = pointwise_launch.slots(family, op)
    return inputs, scalars if family != "binary" or op in SCALED else 0


def result(family: str, op: str, common: dtype) -> dtype:
    if family in ("where", "copy"):
        return common
    said = RULES[LOOPS[family][op]]
    return bool_ if said.gives_bool else common.to_real if said.gives_real else common


def operators() -> list[tuple[str, str]]:
    """Return all operators that a chain may contain, except casts."""
    families = [f for f in LOOPS if f in chain_source.FAMILIES - {"copy"}]
    return [(family, op) for family in families for op in LOOPS[family]]


def dtypes_of(family: str, op: str) -> list[dtype]:
    return [d for d in ALL if family == "where" or variants.has(family, op, d)]


def beside(family: str, ops: list[str], common: dtype, *, numbers: tuple[int, ...] = ()) -> Body:
    """Return a chain that stores the results of some operators with the same inputs; inputs at the
    positions `numbers` are numbers."""
    inputs, n_slots, steps = takes(family, ops[0])[0], len(numbers), []
    types = [bool_ if family == "where" and not k else common for k in range(inputs)]
    places = [k for k in range(inputs) if k not in numbers]
    given = tuple([~numbers.index(k) if k in numbers else places.index(k) for k in range(inputs)])
    for op in ops:
        slots = tuple(range(n_slots, n_slots + takes(family, op)[1]))
        n_slots += len(slots)
        out = result(family, op, common)
        steps.append(Step(family, op, common, out, given, slots, f"aten::{op}"))
    stores = tuple(range(len(places), len(places) + len(ops)))
    return Body(tuple([types[k] for k in places]), tuple(steps), stores)


def groups(family: str, common: dtype) -> list[list[str]]:
    """Return the operators of a family with this dtype, in groups of up to four (the most results
    of a chain here) that take the same number of inputs."""
    of: dict[int, list[str]] = {}
    for found, op in operators():
        if found == family and common in dtypes_of(family, op):
            of.setdefault(takes(family, op)[0], []).append(op)
    return [ops[n : n + 4] for ops in of.values() for n in range(0, len(ops), 4)]


def cast(of: dtype, to: dtype) -> Body:
    return Body((of,), (Step("copy", "copy", of, to, (0,), (), "aten::to"),), (1,))


def some_chain(rng: random.Random, length: int, among: list[tuple[str, str]] | None = None) -> Body:
    """Return a random chain of operators of a list, by default all except slow ones, and of casts.
    It stores up to four values."""
    values: list[dtype] = [rng.choice(ALL) for _ in range(rng.randint(1, 4))]
    inputs, steps, slots = tuple(values), [], 0
    pool = among or [(f, op) for f, op in operators() if f not in ("special", "criterion")]
    while len(steps) < length:
        if rng.random() < 0.2:
            n, to = rng.randrange(len(values)), rng.choice(ALL)
            if not (values[n].is_complex and not to.is_complex):
                steps.append(Step("copy", "copy", values[n], to, (n,), (), "aten::to"))
                values.append(to)
            continue
        family, op = rng.choice(pool)
        n_inputs, n_scalars = takes(family, op)
        given = [rng.randrange(len(values)) for _ in range(n_inputs)]
        if family == "where":
            masks = [n for n, d in enumerate(values) if d is bool_]
            if not masks:
                continue
            given[0] = rng.choice(masks)
        moving = [values[n] for n in given[family == "where" :]]
        try:
            common = reduce(promote_types, moving)
        except errors.DtypeError:  # no dtype can represent both uint64 and negative integers
            continue
        said = None if family == "where" else RULES[LOOPS[family][op]]
        if said is not None and not said.takes(common) or common.short == "c32":
            continue
        if said is not None and any(values[n] is not common for n in given):
            if not LOOPS[family][op].startswith("promoted"):
                continue
        places: list[int] = list(given)
        for k in range(1, n_inputs):
            if rng.random() < 0.3:
                places[k] = ~slots
                slots += 1
        scalars = tuple(range(slots, slots + n_scalars))
        slots += n_scalars
        steps.append(
            Step(family, op, common, result(family, op, common), tuple(places), scalars,
                 f"aten::{op}")
        )  # fmt: skip
        values.append(steps[-1].out)
    last = len(values) - 1
    others = [n for n in range(len(inputs), last) if rng.random() < 0.2]
    return Body(inputs, tuple(steps), (*others[:3], last))


def numbers_of(body: Body, rng: random.Random) -> tuple[Any, ...]:
    """Return a number for each slot, which its dtype can represent."""
    found: dict[int, Any] = {}
    for step in body.steps:
        for place, slot in [(k, ~n) for k, n in enumerate(step.inputs) if n < 0] + [
            (9, n) for n in step.scalars
        ]:
            if step.common is bool_ or step.family == "where" and place == 0:
                found[slot] = rng.random() < 0.5
            elif step.common.category == 1:
                found[slot] = rng.randint(0, 5)
            else:
                found[slot] = rng.choice((0.5, 2.0, -1.25, 3.0, 0.1))
    return tuple([found[slot] for slot in sorted(found)])


def values_of(of: dtype, sizes: tuple[int, ...], seed: int, *, shares: bool = False) -> Any:
    """Return an array with elements that are valid for every operator; shares: in [0, 1]."""
    made = np.random.default_rng(seed)
    if of is bool_:
        return np.asarray(made.integers(0, 2, sizes)).astype(bool)
    if of.category == 1:
        low = 0 if of.short[0] == "u" else -9
        return np.asarray(made.integers(low, 9, sizes)).astype(of.np)
    if shares:
        return np.asarray(made.uniform(0.01, 0.99, sizes)).astype(of.np)
    found = np.asarray(made.normal(size=sizes) * 3)
    if found.size > 8:
        odd = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1, 0.5]
        found.reshape(-1)[::7] = np.resize(odd, -(-found.size // 7))
    if of.is_complex:
        found = np.stack([found, found if found.ndim == 0 else found[::-1]], -1).view(
            np.complex128
        )[..., 0]
    return found.astype(of.np)


# Layouts of operands, outputs too: name -> sizes, and a view of a dense tensor made for it.
def _dense(x: Any) -> Any:
    return gt.from_numpy(x).to("cuda")


def _transposed(x: Any) -> Any:
    return gt.from_numpy(np.ascontiguousarray(x.T)).to("cuda").t()


def _stepped(x: Any) -> Any:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return gt.from_numpy(wide).to("cuda")[..., ::2]


def _expanded(x: Any) -> Any:
    return gt.from_numpy(np.ascontiguousarray(x[:1])).to("cuda").expand(*x.shape)


LAYOUTS: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "contiguous": ((5, 9), _dense), "transposed": ((5, 9), _transposed),
    "stepped": ((5, 9), _stepped), "expanded": ((5, 9), _expanded), "0-d": ((), _dense),
    "empty": ((0, 3), _dense),
}  # fmt: skip


class Case:
    """A chain over operands of one layout, ready to run both ways."""

    def __init__(
        self, body: Body, layout: str, seed: int, sizes: tuple[int, ...] | None = None
    ) -> None:
        rng = random.Random(seed)
        own_sizes, view = LAYOUTS[layout]
        sizes = own_sizes if sizes is None else sizes
        self.body, self.layout, self.sizes = body, layout, sizes
        self.numbers = numbers_of(body, rng)
        shares = any(step.family == "criterion" for step in body.steps)
        arrays = [values_of(d, sizes, seed + k, shares=shares) for k, d in enumerate(body.inputs)]
        # With several inputs, all except one are dense at random.
        self.inputs = [
            (view if not k or rng.random() < 0.7 else _dense)(x) for k, x in enumerate(arrays)
        ]

    def new(self, of: dtype) -> Any:
        return gt.empty(self.sizes, dtype=of, device="cuda")

    def fused(self) -> list[Any]:
        """Return the stored values, computed by one launch."""
        outputs = [self.new(d) for d in self.body.dtypes[: len(self.body.stores)]]
        tensors = [*outputs, *self.inputs]
        self.bound(tensors)(0, tuple([x._address() for x in tensors]), self.numbers)
        return outputs

    def bound(self, tensors: list[Any]) -> Any:
        packing: list[Any] = []
        for step in self.body.steps:
            slots = [~n for n in step.inputs if n < 0] + list(step.scalars)
            packing += chain_launch.packers(step, slots)
        return chain_launch.bind(self.body, walk(tensors), packing)

    def entries(self) -> set[str]:
        """Return the entries of the kernels that it launches."""
        seen = set()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(launch.Launch, "__call__", lambda one, *_: seen.add(one.entry))
            self.fused()
        return seen

    def apart(self) -> list[Any]:
        """Return the stored values, computed by a launch for each operator."""
        values = list(self.inputs)
        for step in self.body.steps:
            out = self.new(step.out)
            tensors = [out, *[values[n] for n in step.inputs if n >= 0]]
            layout = walk(tensors)
            rest = iter(range(1, len(tensors)))
            operands: list[Any] = [out._address()]
            strides, dtypes = [layout.stride_bytes[0]], [step.out]
            for n in step.inputs:
                at = None if n < 0 else next(rest)
                operands.append(self.numbers[~n] if at is None else tensors[at]._address())
                strides.append(None if at is None else layout.stride_bytes[at])
                dtypes.append(step.common if at is None else tensors[at].dtype)
            if step.family == "where" and step.inputs[0] < 0:
                dtypes[1] = bool_
            layout.stride_bytes, layout.dtypes, layout.common_dtype = strides, dtypes, step.common
            scalars = tuple([self.numbers[n] for n in step.scalars])
            binding.bind(step.family, step.op, layout)(0, tuple(operands), scalars)
            values.append(out)
        return [values[n] for n in self.body.stores]

    def check(self) -> None:
        for got, wanted in zip(self.fused(), self.apart()):
            assert_same(got, wanted, f"{self.layout} {chain_source.functor(self.body)}")


def assert_same(got: Any, wanted: Any, what: str) -> None:
    """Check that the bits are equal; NaNs may differ."""
    x, y = got.cpu().contiguous().numpy(), wanted.cpu().contiguous().numpy()
    assert x.dtype == y.dtype
    bits = [a.reshape(-1).view(np.uint8).reshape(x.size, x.itemsize) for a in (x, y)]
    same = bits[0] == bits[1]
    both_nan = np.isnan(x) & np.isnan(y) if x.dtype.kind in "fcV" else np.zeros(x.shape, bool)
    assert (same.all(1) | both_nan.reshape(-1)).all(), f"{what}: {x} {y}"


def walk(tensors: list[Any]) -> Any:
    """The coalesced walk of some tensors, as a launch takes it."""
    from gputensor.fusion.cuda.body import _CONFIG
    from gputensor.iterator.plan import build

    places = [(x._geometry, x._device) for x in tensors]
    made = build("fuse", _CONFIG, tuple(places[:1]), tuple(places[1:]), default_dtype=gt.float32)
    return SimpleNamespace(shape=made.shape, stride_bytes=list(made.stride_bytes))


def compile_together(run: Callable[[], object]) -> None:
    """Compile together all chain kernels that `run` would launch."""
    seen: dict[Any, launch.Launch] = {}

    def note(self: launch.Launch, *_: Any) -> None:
        if self.entry.startswith("chain_"):
            seen.setdefault((self.family, self.entry, frozenset(self.defines.items())), self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch.Launch, "__call__", note)
        run()
    keys = [key for key in seen if (key, 0) not in module._functions]
    if not keys:
        return
    cuda, name = runtime.cuda(), chain_source.NAME
    texts = {family: module.text(family) for family, _, _ in keys}
    marks = {family: f"chain{k}_functor" for k, family in enumerate(texts)}
    functors = []
    for family, text in texts.items():
        begin = text.index('#line 1 "chain"\n') + len('#line 1 "chain"\n')
        functors.append(text[begin : text.index("#line", begin)].replace(name, marks[family]))
    families = [
        family for family in ("random", *sorted(chain_source.FAMILIES - {"copy"}))
        if any(f'#line 1 "{family}.cu"' in text for text in texts.values())
    ]  # fmt: skip
    text = module.composed(families, "".join(functors))
    group = [seen[key].defines | {"OP": marks[key[0]]} for key in keys]
    image = cuda.compile(text, group, cuda.arch(0))
    for number, key in enumerate(keys):
        module._functions[key, 0] = cuda.load(image, key[1], 0, number)
