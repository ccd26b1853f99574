"""The cases of the benchmark `sweep`: all operators that PyTorch also has, by size and dtype.

The cases are derived from the schemas, so a new overload needs no line here. `SHAPED` has facts
that a schema does not contain, such as the sizes of matrices.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gputensor.core._generated.index import OPERATORS
from gputensor.core.schema import Argument
from gputensor.dispatch import dispatcher
from gputensor.dispatch.operator import Operator
from gputensor.registrations import rows

SIZES = (1 << 10, 1 << 15, 1 << 20, 1 << 24)
# All dtypes except the first are measured only at the third size.
DTYPES = ("float32", "float64", "float16", "int64", "complex64")
# Overloads that call another overload, such as aliases, need fewer cases, because they run that
# overload's loop.
_FORWARDED = ((DTYPES[0], SIZES[0]), (DTYPES[0], SIZES[2]))
_ROW = 1 << 10  # number of elements in a row

Shape = tuple[int, ...]


def _square(n: int, times: int = 1) -> Shape:
    side = math.isqrt(min(n, 1 << 20) // times)
    return (side, side)


def _batch(n: int) -> Shape:
    side = 1 << (max(2, n.bit_length() // 4))
    return (max(1, min(n, 1 << 20) // (side * side)), side, side)


def _image(n: int) -> Shape:
    side = max(4, math.isqrt(min(n, 1 << 20) // 16) // 2 * 2)
    return (2, 8, side, side)


def _heads(n: int) -> Shape:
    n = min(n, 1 << 20)
    length = 1 << (n.bit_length() // 2 - 1)
    return (2, max(1, n // (64 * length)), length, 32)


# Families with cubic operators, most of which need an invertible matrix.
_OF_MATRICES = ("factor", "linalg", "solve", "spectrum")

# Maps an operator or family to a function. The function takes the number of elements and returns a
# dict from argument names to sizes.
SHAPED: dict[str, Callable[[int], dict[str, Shape]]] = {
    "matmul": lambda n: dict.fromkeys(
        ("self", "other", "mat1", "mat2", "input", "weight", "tensor", "vec1", "vec2"), _square(n)
    ),
    "bmm": lambda n: dict.fromkeys(("self", "mat2"), _batch(n)),
    "baddbmm": lambda n: dict.fromkeys(("self", "batch1", "batch2"), _batch(n)),
    "addbmm": lambda n: {"self": _batch(n)[1:], "batch1": _batch(n), "batch2": _batch(n)},
    "mv": lambda n: {"self": _square(n), "vec": _square(n)[:1]},
    "addmv": lambda n: {"self": _square(n)[:1], "mat": _square(n), "vec": _square(n)[:1]},
    "addr": lambda n: {"self": _square(n), "vec1": _square(n)[:1], "vec2": _square(n)[:1]},
    "dot": lambda n: {"self": (n,), "tensor": (n,)},
    "vdot": lambda n: {"self": (n,), "other": (n,)},
    **dict.fromkeys(
        _OF_MATRICES,
        lambda n: dict.fromkeys(("self", "A", "B", "input", "other"), _square(min(n, 1 << 18), 4)),
    ),
    "conv": lambda n: {"input": _image(n), "self": _image(n), "weight": (8, 8, 3, 3), "bias": (8,)},
    **dict.fromkeys(("pool", "max_pool"), lambda n: {"self": _image(n)}),
    "upsample": lambda n: {"self": _image(n)},
    "grid_sampler_2d": lambda n: {"input": _image(n), "grid": (2, *_image(n)[2:], 2)},
    "pixel_shuffle": lambda n: {"self": _image(n)},
    "pixel_unshuffle": lambda n: {"self": _image(n)},
    "group_norm": lambda n: {"input": _image(n)},
    "attention": lambda n: dict.fromkeys(("query", "key", "value"), _heads(n)),
    "tensordot": lambda n: dict.fromkeys(("self", "other"), _square(n)),
    "range": lambda n: {"start": (), "end": ()},
    "nll_loss_forward": lambda n: {"target": (n // _ROW,)},
    **dict.fromkeys(("cov", "corrcoef"), lambda n: {"self": _square(n)}),
    **dict.fromkeys(
        ("index", "index_select", "index_add", "index_copy", "index_fill", "index_reduce"),
        lambda n: {"index": (min(n, _ROW),), "indices": (max(1, n // _ROW),)},
    ),
}
# Maps an argument's name to its value.
GIVEN: dict[str, Any] = {
    "dim": -1, "k": 1, "n": 2, "p": 2.0, "kernel_size": [2, 2], "stride": [1, 1],
    "padding": [0, 0], "dilation": [1, 1], "output_padding": [0, 0], "transposed": False,
    "groups": 1, "half_to_float": False, "exponent": 2, "min": 0.25, "max": 0.75, "shifts": 3,
    "dims": [0], "normalized_shape": [_ROW], "diagonal": 0, "decimals": 1, "value": 0.5,
    "threshold": 0.5, "lambd": 0.5, "weight": 0.5, "repeats": [1, 1], "correction": 1,
    "output_size": [8], "rounding_mode": "floor", "pad": [1, 1], "num_groups": 4,
    "upscale_factor": 2, "downscale_factor": 2, "high": 8, "low": 1, "chunks": 2,
    "dims_self": [1], "dims_other": [0], "ignore_index": -100, "reduction": 1, "reduce": "sum",
}  # fmt: skip
# Maps an operator to argument values that differ from GIVEN.
GIVEN_TO: dict[str, dict[str, Any]] = {
    "native_dropout": {"p": 0.5}, "roll": {"shifts": [3], "dims": [0]}, "tile": {"dims": [2]},
    "scatter.reduce": {"reduce": "add"}, "scatter.value_reduce": {"reduce": "add"},
    "index_reduce": {"reduce": "amax"},
    "grid_sampler_2d": {"interpolation_mode": 0, "padding_mode": 0},
    **dict.fromkeys(("batch_norm", "native_batch_norm"), {"training": True}),
}  # fmt: skip
_UNKNOWN = object()


class Case:
    """A call of an overload with one size and dtype. number: its position in the list of cases."""

    __slots__ = ("number", "operator", "family", "dtype", "size")

    def __init__(self, number: int, operator: Operator, family: str, dtype: str, size: int) -> None:
        self.number, self.operator, self.family = number, operator, family
        self.dtype, self.size = dtype, size

    @property
    def op(self) -> str:
        return self.operator.qualified_name.removeprefix("aten::")

    @property
    def name(self) -> str:
        return f"{self.op} {self.dtype} {self.size}"


# --- cases ----------------------------------------------------------------------------------------


def operators(torch: Any) -> list[tuple[Operator, str]]:
    """Return (overload, family) for the overloads that PyTorch also has and that make new tensors
    from tensors."""
    found = []
    for operator in sorted(dispatcher.operators(), key=lambda o: o.qualified_name):
        name = operator.qualified_name.removeprefix("aten::")
        family = OPERATORS.get(name)
        if family is None or not operator.is_defined or not _is_measured(operator):
            continue
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None)
        if packet is not None and hasattr(packet, overload or "default"):
            found.append((operator, family))
    return found


def _is_measured(operator: Operator) -> bool:
    """Return False for in-place and out forms, views, copies of views, and derivatives."""
    schema, name = operator.schema, operator.short_name
    arguments = schema.arguments
    if (
        name.startswith(("_", "empty", "new_empty"))
        or "backward" in name
        or "view_copy" in operator.tags
    ):
        return False
    if any(a.type.alias is not None for a in arguments) or not schema.returns:
        return False
    return any(a.type.name == "Tensor" for a in arguments)


def cases(torch: Any, scale: int = 1) -> list[Case]:
    made: list[Case] = []
    for operator, family in operators(torch):
        crossed = [(DTYPES[0], size) for size in SIZES if not _is_capped(operator, family, size)]
        crossed += [(dtype, SIZES[2]) for dtype in DTYPES[1:]]
        for dtype, n in _FORWARDED if _forwards(operator) else crossed:
            made.append(Case(len(made) + 1, operator, family, dtype, max(16, n // scale)))
    return made


def _shaped(operator: Operator, family: str) -> Callable[[int], dict[str, Shape]] | None:
    return SHAPED.get(operator.short_name) or SHAPED.get(family)


def _is_capped(operator: Operator, family: str, size: int) -> bool:
    """Return True if the operator's tensors are as large at the next smaller size. This happens
    because the sizes for operators with cubic cost are limited."""
    shaped = _shaped(operator, family)
    smaller = max((n for n in SIZES if n < size), default=0)
    if shaped is None or not smaller:
        return False
    return {*shaped(size).values()} - {()} == {*shaped(smaller).values()} - {()} != set()


def _forwards(operator: Operator) -> bool:
    kernels = [kernel for of in operator.kernels.values() for kernel in of]
    return any(getattr(k.function, "__module__", "") == rows.__name__ for k in kernels)


def arguments(case: Case) -> tuple[list[Any], dict[str, Any]] | None:
    """Return the arrays and numbers of a call, or None if the schema has unknown arguments."""
    shaped = _shaped(case.operator, case.family)
    shapes = shaped(case.size) if shaped is not None else {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for position, argument in enumerate(case.operator.schema.arguments):
        if argument.default_text is not None and argument.name not in shapes:
            continue
        value = _value(argument, case, shapes, position)
        if value is _UNKNOWN:
            return None
        if argument.is_keyword_only or len(args) < position:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _value(argument: Argument, case: Case, shapes: dict[str, Shape], position: int) -> Any:
    kind, name = str(argument.type), argument.name
    if kind == "Tensor?" and name not in shapes:
        return None
    kind = kind.rstrip("?")
    if kind == "Tensor":
        usual = (case.size // _ROW, _ROW) if case.size >= _ROW else (case.size,)
        made = elements(shapes.get(name, usual), _dtype(name, case), position)
        if case.family in _OF_MATRICES and made.dtype.kind in "fc" and made.ndim == 2:
            made = made / len(made) + np.eye(*made.shape, dtype=made.dtype)
        return np.sort(made) if name in ("boundaries", "sorted_sequence") else made
    if kind == "Tensor[]":
        return [elements((case.size,), case.dtype, n) for n in range(2)]
    if kind == "Tensor?[]":
        return [elements(shapes[name], "int64", position)] if name in shapes else _UNKNOWN
    if name == "size" and case.family == "factory":
        return [case.size // _ROW, _ROW] if case.size >= _ROW else [case.size]
    if name == "steps":
        return case.size
    given = GIVEN_TO.get(case.op, {})
    if name in given:
        return given[name]
    if name == "output_size" and kind[-2:-1].isdecimal():
        return GIVEN[name] * int(kind[-2])
    if name in GIVEN and (isinstance(GIVEN[name], list) == kind.endswith("]")):
        return GIVEN[name]
    if kind.endswith("]") and name == "dim":
        return [-1]
    return {"Scalar": 2, "bool": False, "float": 0.5}.get(kind, _UNKNOWN)


def _dtype(name: str, case: Case) -> str:
    if name in ("condition", "mask"):
        return "bool"
    return "index" if name in ("index", "indices", "target") else case.dtype


def elements(shape: Shape, dtype: str, seed: int) -> np.ndarray:
    """Return an array of elements of a dtype. Floats are from 0.1 to 0.9, which every function
    accepts, integers are from 1 to 8, and indices are from 0 to 7. float32 arrays are views of
    memory that all cases share."""
    numbers = _numbers(seed % 4)[: math.prod(shape)].reshape(shape)
    if dtype == "bool":
        return numbers < 0.5
    if dtype in ("int64", "index"):
        return (numbers * 10).astype(np.int64) - (dtype == "index")
    return numbers.astype(dtype, copy=False)


@functools.cache
def _numbers(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    made = random.random(SIZES[-1], np.float32)
    made *= np.float32(0.79)  # 10 * x, truncated, is then an integer from 1 to 8
    made += np.float32(0.105)
    return made
