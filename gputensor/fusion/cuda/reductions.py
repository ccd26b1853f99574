"""Chains with reductions on CUDA. One launch computes all stored values of the same sizes. Each
reduction is one more launch, which also computes the reduction's operand unless the operand is
stored.

cuda/rows.py has chains that read results of reductions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...core.dtype import dtype, int64
from ...core.geometry import Geometry, Sizes, contiguous_geometry
from ...iterator.broadcast import strides_over
from ...iterator.coalesce import coalesce
from ...iterator.order import dimension_order
from ...kernels.cuda import argreduce_chain_launch, reduce_chain_launch
from ...kernels.cuda.chain_source import Body, epilogue, functor
from ...kernels.cuda.reduce_chain_launch import Epilogue
from ..chain import Chain, Instruction
from .body import Written, launched
from ..epilogue import Tail
from ..running import Stage, alone, results


class _Fused(NamedTuple):
    """One kernel that computes a reduction's operand, reduces it, and applies the operators that
    read the result. inputs: the chain's inputs that the kernel reads. after: source of the
    operators on the result."""

    inputs: list[int]
    body: Body
    launch: Callable[..., None]
    after: Epilogue | None = None


def _fused(
    chain: Chain, step: Instruction, tail: Tail | None = None, is_stored: bool = False
) -> _Fused | None:
    """Return the kernel of a reduction, or None if it cannot be generated. is_stored: True if the
    reduction's result is stored too."""
    part, inputs = chain.part(step.operands[:1], chain.walk)
    written, what, plan = Written(part), step.what, step.what.entry.plan
    if written.body is None or what.family not in ("reduce", "argreduce"):
        return None
    if what.family == "argreduce":
        search = _search(part, step, written.body, written.packing)
        return None if search is None else _Fused(inputs, written.body, search)
    shapes, follows = list[Geometry](), None
    if tail is not None:
        follows = Written(tail.chain, written.packing).body
        if follows is None:
            return None
        outputs = [what.geometry] * is_stored + [tail.chain.made(n) for n in tail.chain.stores]
        follows = follows._replace(stores=(0,) * is_stored + follows.stores)
        shapes = [*tail.chain.inputs[1:], *outputs]
    # The strides of the result, of the inputs and of the tail's operands, all over the dimensions
    # of the reduction's plan. The tail's operands broadcast to the result.
    seen = [_as_kept(x, step) for x in (what.geometry, *shapes)]
    source = part.geometry(part.stores[0])
    shape, (result, _, *walks) = coalesced(part, [seen[0], source.stride_bytes], seen[1:])
    if shape != plan.shape:
        return None
    count, after = len(walks) - len(shapes), None
    if follows is not None:
        after = Epilogue(follows, [x[plan.n_reduced :] for x in walks[count:]])
    launch = reduce_chain_launch.bind(
        what.entry.run, written.body, written.packing, what.result, plan.shape, plan.n_reduced,
        [result, *walks[:count]], plan.common_dtype.code, after,
    )  # fmt: skip
    return None if launch is None else _Fused(inputs, written.body, launch, after)


def _search(
    part: Chain, step: Instruction, body: Body, packing: list[Any]
) -> Callable[..., None] | None:
    """Return the launch of argmax, argmin, max or min. Addresses: values, indices, inputs."""
    what, assumed = step.what, step.what.entry.plan.walk
    source = part.geometry(part.stores[0])
    kept = tuple([1 if d in what.dims else n for d, n in enumerate(part.walk.sizes)])
    walks = [row_strides(kept, int64), source.stride_bytes, row_strides(kept, source.dtype)]
    shape, (of_indices, _, of_values, *inputs) = coalesced(part, walks)
    if shape != assumed.shape:
        return None
    bound = argreduce_chain_launch.bind(
        what.entry.run, body, packing, assumed.shape, assumed.n_reduced,
        [of_indices, of_values, *inputs],
    )  # fmt: skip
    if bound is None or what.whole is not None:
        return bound
    return lambda index, addresses, scalars: bound(index, (0, *addresses), scalars)


def row_strides(sizes: Sizes, of: dtype) -> Sizes:
    """Return the strides in bytes of a dense value with one element per row. The stride is 0 along
    dimensions of size 1."""
    return _strides_over(sizes, contiguous_geometry(sizes, of))


def _strides_over(sizes: Sizes, x: Geometry) -> Sizes:
    """Return the strides in bytes of a value that broadcasts to these sizes. The stride is 0 along
    dimensions of size 1."""
    strides = strides_over(x.sizes, x.stride_bytes, sizes)
    return tuple([0 if n == 1 else s for n, s in zip(sizes, strides)])


def _as_kept(x: Geometry, step: Instruction) -> Sizes:
    """Return the strides in bytes of a value that broadcasts to the result of a reduction. They are
    strides over the dimensions of the reduction's operand."""
    what, dims = step.what, range(step.what.walk.ndim)
    kept = [d for d in dims if what.entry.keepdim or d not in what.dims]
    strides = dict(zip(kept, _strides_over(what.geometry.sizes, x)))
    return tuple([0 if d in what.dims else strides[d] for d in dims])


def coalesced(part: Chain, walks: list[Any], more: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """Coalesce a reduction's dimensions. Return the sizes, and the strides in bytes: first `walks`,
    then the strides of the chain's inputs, then `more`. walks: the strides of a result, of the
    operand, and perhaps of a second result."""
    sizes = part.walk.sizes
    order = dimension_order(sizes, walks[:2], n_reduced=1)
    inputs = [_strides_over(sizes, x) for x in part.inputs]
    return coalesce(sizes, [*walks, *inputs, *more], order)


class Reduced:
    """A chain with reductions, as the launches that the module docstring describes."""

    def __init__(
        self, chain: Chain, tails: Sequence[Tail] = (), stored: Sequence[int] = ()
    ) -> None:
        """tails: the chain's tails. self.tails: maps the value of a reduction to the tail that runs
        in the reduction's kernel. stored: all values to store."""
        self.chain, steps = chain, chain.steps
        self.tails: dict[int, Tail] = {}
        # Also store the inputs of each tail, except the result of the tail's reduction.
        self.stored = {*stored, *[n for x in tails for n in x.takes[1:]]}
        self.ends = ends = [n for n, x in steps.items() if is_end(x)]
        stores = [n for n in dict.fromkeys(chain.stores) if not steps[n].what.part]
        self.wanted = [n for n in stores if n not in ends]
        self.fused: dict[int, _Fused] = {}
        in_memory = list(self.wanted)
        for n in ends:
            step = steps[n]
            after = [x for x in tails if x.takes[:1] == [n]]
            # The reduction's kernel runs the tail if it computes the reduction's operand in
            # registers, and if the tail's other inputs are computed before this kernel runs.
            if len(after) == 1 and not [
                x for x in (*step.operands, *after[0].takes[1:])
                if x in in_memory or x in ends[ends.index(n) :]
            ]:  # fmt: skip
                made = _fused(chain, step, after[0], n in self.stored)
                if made is not None:
                    self.fused[n], self.tails[n] = made, after[0]
                    continue
            sources = [x for x in step.operands if x in steps and x not in in_memory]
            if not sources:
                continue
            if (made := _fused(chain, step)) is not None:
                self.fused[n] = made
            else:
                self.wanted += [x for x in dict.fromkeys(sources) if x not in self.wanted]

    def stages(self) -> list[Stage] | None:
        """Return the launches as stages, or None if a kernel cannot compute a stored value."""
        chain, found = self.chain, list[Stage]()
        for some in self._of_like_sizes():
            part, taken = chain.part(some, chain.walk)
            launch = launched(part)
            if launch is None:
                return None
            found.append(Stage(taken, some, launch))
        with_operand = self._with_operand
        return found + [with_operand(n) if n in self.fused else alone(chain, n) for n in self.ends]

    def _with_operand(self, n: int) -> Stage:
        """Return the stage of a reduction whose kernel also computes the operand, and the
        reduction's tail if it runs in this kernel."""
        one, tail = self.fused[n], self.tails.get(n)
        makes, all_results = results(self.chain, n)
        takes, index = list(one.inputs), self.chain.device.index or 0
        if tail is not None:
            makes = [n] * (n in self.stored) + tail.stores
            takes += tail.takes[1:]

        def run(inputs: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[Any]) -> None:
            # `made` keeps memory for unneeded results alive until the launch.
            made = all_results(outputs) if tail is None else outputs
            of = [x._address() for x in made], [x._address() for x in inputs]
            one.launch(index, [*of[0], *of[1]] if tail is None else [0, *of[1], *of[0]], scalars)

        return Stage(takes, makes, run)

    def _of_like_sizes(self) -> list[list[int]]:
        """Return the stored values, grouped by their sizes."""
        found: dict[Any, list[int]] = {}
        for n in self.wanted:
            found.setdefault(self.chain.geometry(n).sizes, []).append(n)
        return [*found.values()]

    def sources(self) -> list[str]:
        """Return the source of each compiled kernel."""
        parts = [self.chain.part(some, self.chain.walk)[0] for some in self._of_like_sizes()]
        bodies: list[Body | None] = [one.body for one in self.fused.values()]
        bodies += [Written(part).body for part in parts]
        after = [one.after.body for one in self.fused.values() if one.after is not None]
        found = [functor(body) for body in dict.fromkeys(bodies) if body is not None]
        return found + [epilogue(body) for body in dict.fromkeys(after)]


def is_end(step: Instruction) -> bool:
    """True if the instruction computes the first result of an operator over rows."""
    return not step.what.part and step.what.takes_rows
