"""Chains on the CPU by loops that g++ builds, where somebody asked for them by name.

What is arithmetic in a chain, with NumPy's inner loops and the reductions of rows between it,
becomes a program (native_program.py), built as kernels/cpu/copy_compiled.py has its loops built.
Here is what may be in one. native_whole.py runs a chain that is one program, native_body.py those
of which only parts are, native_small.py calls of few elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.dtype import bool_, float32, float64, int32, int64, uint8
from ..core.geometry import Geometry
from ..kernels import stub
from . import cpu_body
from .chain import Chain, Instruction
from .reductions import SHORT, lies_alike
from .native_program import Program, inner_loop
from .native_text import LOOP, OF_ROWS, ONCE, REDUCE, SUM, UFUNC, UFUNC_ONCE, Unwritten

# Of which a functor gives the bits that NumPy's loop gives: sums, products, quotients, roots,
# comparisons, what moves or tests bits; not what tells one NaN from another. tests/fusion/
# test_native.py holds each against NumPy.
LOOPS: dict[str, frozenset[str]] = {
    "unary": frozenset(
        (
            "abs", "bitwise_not", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
            "logical_not", "neg", "reciprocal", "relu", "sqrt",
        )
    ),
    "binary": frozenset(
        ("add", "add_alpha", "sub_alpha", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "mul",
         "sub")
    ),
    "comparison": frozenset(
        ("eq", "ge", "gt", "le", "logical_and", "logical_or", "logical_xor", "lt", "ne")
    ),
    "ternary": frozenset(("addcdiv", "addcmul", "clamp", "clamp_max", "clamp_min", "lerp")),
    "where": frozenset(("where",)),
    "copy": frozenset(("copy",)),
}  # fmt: skip
DTYPES = frozenset((bool_, uint8, int32, int64, float32, float64))
# Of a chain: below, what is won is not worth a compiler.
FROM = 1 << 14
# Of a row that is a loop's.
SHORTEST = 16
# NumPy's loops that give the same bits wherever an element lies. It has others, faster than a
# functor for all of a run and not for its last elements.
UFUNCS = frozenset(
    (
        "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "ceil", "cos",
        "cosh", "exp", "exp2", "floor", "log", "log10", "log2", "power", "rint", "sin", "sinh",
        "tan", "tanh", "trunc",
    )
)  # fmt: skip
_REDUCTIONS = frozenset(("amax", "amin", "mean", "sum"))


def source(chain: Chain) -> str | None:
    """Which operators are a program, with its functors, and which stay as they are."""
    found, count = parts(chain, _computed(chain)), len(chain.inputs)
    if found is None:
        return None
    lines = []
    for part in found:
        if isinstance(part, Program):
            lines += part.shown()
        else:
            lines.append(f"NumPy's: v{count + part}")
    return "\n".join(lines)


def whole(chain: Chain) -> Program | None:
    """The one loop that a chain is, of however few elements; None where it is not one."""
    steps, walk, count = chain.instructions, chain.walk, len(chain.inputs)
    is_loop = all([_is_arithmetic(chain, x) for x in steps])
    if len(steps) < 2 or not _is_flat(chain, walk) or not is_loop:
        return None
    kinds = {count + n: LOOP for n in range(len(steps))}
    inner = [0 if x.numel == 1 else x.dtype.itemsize for x in chain.inputs]
    made = _program(chain, 0, len(steps), kinds, inner, chain.stores)
    is_one = made is not None and made.inputs and made.stores and len(made.functors) == 1
    return made if is_one else None


def _computed(chain: Chain) -> tuple[int, ...]:
    """Of `stores`, what is computed element by element, and what is reduced at the end."""
    count = len(chain.inputs)
    read = {x for step in chain.instructions for x in step.operands}
    found = []
    for x in chain.stores:
        what = chain.instructions[x - count].what
        is_end = what.reduces is not None and what.whole is None and not what.part
        found.append(chain.instructions[x - count].operands[0] if is_end and x not in read else x)
    return tuple(dict.fromkeys([x for x in found if x >= count]))


def _program(
    chain: Chain, first: int, last: int, kinds: dict[int, str], inner: list[int],
    stores: tuple[int, ...],
) -> Program | None:  # fmt: skip
    try:
        return Program(chain, first, last, kinds, inner, stores)
    except Unwritten:
        return None


def parts(
    chain: Chain, stores: tuple[int, ...], walk: Geometry | None = None
) -> list[Program | int] | None:
    """Programs, and the numbers of instructions between them. None where there is no program."""
    walk = walk or chain.walk
    if walk.numel < FROM:
        return None
    axis = cpu_body.along(walk) if walk.ndim else 0
    inner = [_step(x, walk, axis) for x in chain.inputs]
    kinds = _kinds(chain, walk, axis, inner)
    order = sorted(range(walk.ndim), key=lambda d: -walk.strides[d])
    is_short = run_length(chain, walk, order, axis) < SHORTEST
    is_short_row = walk.ndim > 0 and walk.sizes[axis] < SHORTEST
    found: list[Program | int] = []
    number, end = 0, len(chain.instructions)
    while number < end:
        last = number
        while last < end and _joins(chain, kinds, number, last):
            last += 1
        made = None
        if last - number > 1:
            made = _program(chain, number, last, kinds, inner, stores)
        if made is not None and made.inputs and made.stores and not (is_short_row and made.is_rows):
            found.append(made)
            number = last
            continue
        found += range(number, max(last, number + 1))
        number = max(last, number + 1)
    is_one = any([isinstance(part, Program) for part in found])
    return found if is_one and not (is_short and not _is_flat(chain, walk)) else None


def _is_flat(chain: Chain, walk: Geometry) -> bool:
    return all([
        x.numel == 1 or x.sizes == walk.sizes and x.strides == walk.strides
        for x in (*chain.inputs, *map(chain.geometry, chain.stores))
    ])  # fmt: skip


def sums(chain: Chain, stores: tuple[int, ...], ends: list[int]) -> Program | None:
    """The program that a chain over runs of memory is, whose end are sums of all elements; None
    where it is not one. Raises: DeviceError without g++."""
    walk, count = chain.walk, len(chain.inputs)
    if walk.numel < FROM:
        return None
    inner = [0 if x.numel == 1 else x.dtype.itemsize for x in chain.inputs]
    kinds = _kinds(chain, walk, cpu_body.along(walk), inner)
    for n, step in enumerate(chain.instructions, count):
        if n in ends and inner[step.operands[0] : step.operands[0] + 1] != [0]:
            kinds[n] = SUM
        elif kinds.get(n) not in (LOOP, UFUNC):
            return None
    made = _program(chain, 0, len(chain.instructions), kinds, inner, stores)
    if made is None or not made.inputs:
        return None
    made.build()
    return made


def _step(x: Geometry, walk: Geometry, axis: int) -> int:
    """The bytes from an element of an input to the next along a dimension of the walk."""
    at = axis - walk.ndim + x.ndim
    if x.numel == 1 or at < 0 or x.sizes[at] == 1:
        return 0
    return x.strides[at] * x.dtype.itemsize


def run_length(chain: Chain, walk: Geometry, order: Sequence[int], axis: int) -> int:
    """Elements of a row, with the dimensions that lie behind one another in all operands. order:
    the dimensions, slowest first."""
    if not walk.ndim:
        return 1
    ends = (walk, *[x for x in chain.inputs if x.numel > 1])
    strides = [
        [0] * (walk.ndim - x.ndim) + [0 if n == 1 else s for n, s in zip(x.sizes, x.strides)]
        for x in ends
    ]
    found = walk.sizes[axis]
    for d in reversed([d for d in order if d != axis and walk.sizes[d] > 1]):
        if any([of[d] != of[axis] * found for of in strides]):
            break
        found *= walk.sizes[d]
    return found


def one(chain: Chain, walk: Geometry, axis: int) -> Program | None:
    """The program that a chain is, with reductions at its end; None where it is not one."""
    inner = [_step(x, walk, axis) for x in chain.inputs]
    kinds = _kinds(chain, walk, axis, inner, True)
    end = len(chain.instructions)
    if not all([_joins(chain, kinds, 0, n) for n in range(end)]):
        return None
    if any([x in OF_ROWS for x in kinds.values()]) and not SHORTEST <= walk.sizes[axis] <= SHORT:
        return None
    made = _program(chain, 0, end, kinds, inner, chain.stores)
    return made if made is not None and made.inputs and {*made.stores} == {*chain.stores} else None


def _joins(chain: Chain, kinds: dict[int, str], first: int, last: int) -> bool:
    """Whether a step may be in a program that begins with another."""
    count = len(chain.inputs)
    kind = kinds.get(count + last)
    if kind == UFUNC_ONCE:  # whose operand lies in the scratch
        return all([x >= count + first for x in chain.instructions[last].operands])
    return kind is not None


def _kinds(
    chain: Chain, walk: Geometry, axis: int, inner: list[int], at_end: bool = False
) -> dict[int, str]:
    """What each value is, of those that a program can give; at_end: reductions that nothing reads
    are, too."""
    found: dict[int, str] = {}
    count = len(chain.inputs)
    read = {x for step in chain.instructions for x in step.operands}
    row = tuple([1 if d == axis else n for d, n in enumerate(walk.sizes)])

    def is_dense(x: int) -> bool:
        """Whether a row of it is a run of memory."""
        if x < 0:
            return False
        shape = chain.geometry(x)
        if x < count:
            return inner[x] == shape.dtype.itemsize
        return shape.sizes == walk.sizes

    for n, step in enumerate(chain.instructions, count):
        what = step.what
        if what.part or what.whole is not None:
            continue
        if what.reduces is not None:
            of = what.result
            if (
                (at_end or n in read) and what.family == "reduce" and what.loop in _REDUCTIONS
                and what.reduces == (axis,) and what.kinds[0] is what.compute is of
                and of in (float32, float64) and walk.strides[axis] == 1
                and is_dense(step.operands[0]) and lies_alike(what, walk, what.entry.keepdim)
                and not hasattr(what.entry.run, "ones")  # a product: see kernels/cpu/reduce.py
                and stub.registered("reduce", what.loop, "cpu") is None
            ):  # fmt: skip
                found[n] = REDUCE
        elif what.walk.sizes == walk.sizes:
            if _is_arithmetic(chain, step):
                found[n] = LOOP
            elif _is_ufunc(chain, step) and all(map(is_dense, step.operands)):
                found[n] = UFUNC
        elif what.walk.sizes == row:
            if _is_arithmetic(chain, step):
                found[n] = ONCE
            elif _is_ufunc(chain, step) and all([found.get(x) in OF_ROWS for x in step.operands]):
                found[n] = UFUNC_ONCE
    return found


def _is_arithmetic(chain: Chain, step: Instruction) -> bool:
    what = step.what
    kinds = {chain.geometry(x).dtype for x in step.operands if x >= 0}
    return (
        what.loop in LOOPS.get(what.family, ())
        and {*kinds, what.compute, what.result} <= DTYPES
        and stub.registered(what.family, what.loop, "cpu") is None
        and not (what.loop == "div" and not what.compute.is_floating_point)
    )


def _is_ufunc(chain: Chain, step: Instruction) -> bool:
    what, loop = step.what, getattr(step.what.entry, "loop", None)
    kinds = {what.compute, what.result}
    kinds.update([chain.geometry(x).dtype for x in step.operands if x >= 0])
    return (
        type(loop) is np.ufunc and loop.__name__ in UFUNCS
        and getattr(np, loop.__name__) is loop
        and len(kinds) == 1 and kinds <= {float32, float64}
        and not step.params and min(step.operands) >= 0
        and stub.registered(what.family, what.loop, "cpu") is None
        and inner_loop(loop, what.result) is not None
    )  # fmt: skip
