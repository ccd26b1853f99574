"""The op tests' samples as functions of their tensors, with several values for each tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import gputensor as gt
from gputensor import ops
from gputensor.op_tests import operands, samples
from gputensor.op_tests.operands import T

VALUES = 2


class Operand:
    """A tensor of a sample, with its values in each entry of a batch."""

    def __init__(self, of: T, dtype: gt.dtype, position: int) -> None:
        self.values = [
            operands.build(
                of, of.dtype or dtype, of.layout or "contiguous", position + n, "cpu"
            ).tensor
            for n in range(VALUES)
        ]


class Sample:
    """A call of an operator. tensors: its operands, in the order that `call` takes them."""

    def __init__(self, name: str, dtype: gt.dtype, args: Any, kwargs: Any) -> None:
        self.name, self.dtype, self.tensors = name, dtype, list[Operand]()
        self.args, self.kwargs = self._built(args), self._built(kwargs)

    def _built(self, x: Any) -> Any:
        if isinstance(x, T):
            self.tensors.append(Operand(x, self.dtype, 7 * len(self.tensors) + 1))
            return self.tensors[-1]
        if isinstance(x, samples.Fill):
            return self.dtype if x.what == "dtype" else gt.device("cpu")
        if isinstance(x, dict):
            return {name: self._built(value) for name, value in x.items()}
        if isinstance(x, (list, tuple)):
            return tuple([self._built(y) for y in x])
        return x

    def call(self, *given: gt.Tensor) -> tuple[gt.Tensor, ...]:
        """Call the operator and return the tensors among the results."""
        of = {id(operand): x for operand, x in zip(self.tensors, given)}

        def put(x: Any) -> Any:
            if isinstance(x, Operand):
                return of[id(x)]
            if isinstance(x, dict):
                return {name: put(value) for name, value in x.items()}
            return tuple([put(y) for y in x]) if isinstance(x, tuple) else x

        found = packet(self.name)(*put(self.args), **put(self.kwargs))
        return tuple(tensors(found))


def packet(name: str) -> Any:
    """Return the called object: `gt.ops.aten.add`, or an overload of it."""
    found: Any = ops
    for part in ("aten." + name if "::" not in name else name.replace("::", ".")).split("."):
        found = getattr(found, part)
    return found


def tensors(x: Any) -> Iterator[gt.Tensor]:
    if isinstance(x, gt.Tensor):
        yield x
    elif isinstance(x, (list, tuple)):
        for y in x:
            yield from tensors(y)


def all_of(
    *dtypes: gt.dtype, keep: Callable[[Any], bool] = lambda row: True, most: int | None = None
) -> Iterator[Sample]:
    """Return samples that run, each in the first of these dtypes that its operator supports; at
    most `most` for each operator."""
    for row in samples.load():
        of = next((d for d in dtypes if d in row.dtypes), None)
        if of is None or not row.has_values or not keep(row):
            continue
        made = (Sample(row.name, of, args, kwargs) for args, kwargs in row.samples)
        yield from islice((sample for sample in made if sample.tensors), most)
