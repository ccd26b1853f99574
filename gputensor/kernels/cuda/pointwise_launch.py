"""Launch plans of the families whose operators process each element once.

These families are unary, binary, comparison, where, fill, copies that are too small for
copy_launch.py, and the families whose functors declare their arguments
(include/pointwise/computed.cuh).

A layout is contiguous if each operand is a number or one dense run, and all runs have one dtype;
other layouts are strided. The contiguous and strided entries check the pointers' alignment. For a
large layout, pointwise_plan.py chooses a kernel that is specialised for its strides, dtypes and
alignment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any

from ...core import errors
from ...core.dtype import bool_, dtype
from ...core.geometry import Sizes
from . import launch, numbers, pointwise_plan, variants
from .copy_score import SMALL_BYTES
from .division import divider
from .launch import Operands

# Maps a family to (number of inputs, number of scalars). Each input and each scalar has a value
# slot in the parameters. Families whose functors declare their arguments are not listed.
_INPUTS = {
    "unary": (1, 0), "binary": (2, 1), "comparison": (2, 0), "where": (3, 0), "fill": (0, 1),
    "copy": (1, 0),
}  # fmt: skip
# Families that move or cast elements without computing.
_MOVING = frozenset(("where", "fill", "copy"))
_UNPLANNED = frozenset(("fill", "copy"))
# The keys are the numbers of dtype codes.
_CODES = {count: Struct(f"<IiiI{count}i").pack for count in (4, 8)}
_NUMEL = Struct("<II").pack
_ROWS = Struct("<IIII4I4Iii").pack
_TURNED = Struct("<II4I4Iii").pack


def slots(family: str, op: str) -> tuple[int, int]:
    """Return the number of inputs and the number of scalars of a call."""
    return _INPUTS.get(family) or variants.takes(family)[op]


def bind(family: str, op: str, layout: Any) -> Any:
    if family == "binary" and op in ("add", "sub"):
        return Scaled(op, layout)
    return _bind(family, op, layout)


class Scaled:
    """The launch of add and sub: the plain kernel if alpha is 1, otherwise add_alpha."""

    __slots__ = ("op", "layout", "plain", "scaled")
    op: str
    layout: Any

    def __init__(self, op: str, layout: Any, plain: Any = None) -> None:
        self.op, self.layout = op, layout
        self.plain: Any = plain or _bind("binary", op, layout)
        self.scaled: Any = None

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        if not scalars or scalars[0] == 1:
            self.plain(device_index, operands)
        else:
            (self.scaled or self._scaled())(device_index, operands, scalars)

    def numbered(self, device_index: int, operands: Operands, scalars: Operands) -> launch.Straight:
        """Return the parts of the launch with this alpha: see launch.numbered."""
        if not scalars or scalars[0] == 1:
            return launch.numbered(self.plain, device_index, operands)
        return launch.numbered(self.scaled or self._scaled(), device_index, operands, scalars)

    def _scaled(self) -> Any:
        self.scaled = _bind("binary", self.op + "_alpha", self.layout)
        return self.scaled

    def __getattr__(self, name: str) -> Any:
        # Read attributes such as entry, defines, grid and block from the plain kernel.
        return getattr(self.plain, name)

    def over(self, layout: Any) -> Any:
        """Return the launch over a layout with another number of elements: see Contiguous."""
        over = getattr(self.plain, "over", None)
        plain = over(layout) if over is not None else None
        return plain and Scaled(self.op, layout, plain)


class Contiguous(launch.Launch):
    """A launch whose operands are dense runs or numbers.

    per_thread: the number of elements of a thread. given: a mask of the value slots that numbers
    among the operands fill.
    """

    __slots__ = ("op", "per_thread", "given")
    op: str
    per_thread: int
    given: int

    def __init__(
        self, family: str, op: str, defines: variants.Defines, n_pointers: int,
        values: list[bytes], packers: list[Any], numel: int, per_thread: int, given: int,
    ) -> None:  # fmt: skip
        self.op, self.per_thread, self.given = op, per_thread, given
        threads = launch.threads_for(numel, per_thread)
        blocks = launch.blocks_for(numel, threads * per_thread)
        super().__init__(
            family, f"{family}_contiguous", defines, blocks, threads, n_pointers, values, packers,
            _NUMEL(numel, given),
        )  # fmt: skip

    def over(self, layout: Any) -> Any:
        """Return the launch over a layout that differs only in its number of elements. Return None
        if that layout needs several launches, or if copies of that size use the kernels of
        copy_launch.py."""
        numel, family = layout.numel, self.family
        if numel > launch.MAX_NUMEL:
            return None
        if family == "copy" and numel * layout.dtypes[0].itemsize >= SMALL_BYTES:
            return None
        made = Contiguous(
            family, self.op, self.defines, self.n_pointers, self.values, self.packers,
            numel, self.per_thread, self.given,
        )  # fmt: skip
        made.functions = self.functions
        if numel * 16 < pointwise_plan.SMALL_BYTES:
            return made
        strides = [*layout.stride_bytes]
        return _by_address(made, family, self.op, layout, layout.shape, strides)


def _bind(family: str, op: str, layout: Any) -> Any:
    shape = layout.shape or (1,)
    strides = [None if s is None else s or (0,) for s in layout.stride_bytes]

    def one(sizes: Sizes, before: int) -> Any:
        plain = _one(family, op, layout, sizes, strides)
        return _by_address(plain, family, op, layout, sizes, strides)

    return launch.split(shape, strides, one)


class ByAddress:
    """The launches of a large layout: one for each alignment of its operands, made on first use."""

    __slots__ = ("make", "pointers", "has_numbers", "aligned", "others")

    def __init__(self, make: Callable[[Sizes], Any], pointers: Sizes, has_numbers: bool) -> None:
        self.make, self.pointers, self.has_numbers = make, pointers, has_numbers
        self.aligned: Any = None
        self.others: dict[Sizes, Any] = {}

    def __call__(self, device_index: int, operands: Operands, scalars: Operands = ()) -> None:
        bits = 0
        for x in [operands[k] for k in self.pointers] if self.has_numbers else operands:
            bits |= x
        if bits & 15:
            lows = tuple([operands[k] & 15 for k in self.pointers])
            found = self.others.get(lows) or self.others.setdefault(lows, self.make(lows))
        else:
            found = self.aligned or self.at()
        found(device_index, operands, scalars)

    def at(self, *lows: int) -> Any:
        """Return the launch for operands with these addresses modulo 16. Without arguments, return
        the launch for aligned operands."""
        if any(lows):
            return self.make(lows)
        if self.aligned is None:
            self.aligned = self.make((0,) * len(self.pointers))
        return self.aligned

    def __getattr__(self, name: str) -> Any:
        # Read attributes such as entry, defines, grid and block from the launch for aligned
        # operands.
        return getattr(self.at(), name)


def _by_address(
    one: launch.Launch, family: str, op: str, layout: Any, shape: Sizes, strides: list[Any]
) -> Any:
    """Return `one`, or an object that, at each call, chooses between `one` and the kernels for
    large layouts."""
    if family in _UNPLANNED or launch.product(shape) * 16 < pointwise_plan.SMALL_BYTES:
        return one
    sizes = [d.itemsize for d in layout.dtypes]
    pointers = tuple([k for k, s in enumerate(strides) if s is not None])
    is_contiguous = one.defines["LAYOUT"] == "CONTIGUOUS"

    def make(lows: Sizes) -> launch.Launch:
        all_lows = [0] * len(strides)
        for k, low in zip(pointers, lows):
            all_lows[k] = low
        walk = pointwise_plan.Walk(shape, list(strides), sizes, all_lows)
        plan = None if is_contiguous and not any(lows) else pointwise_plan.choose(walk)
        return one if plan is None else planned(family, op, layout, walk, plan)

    made = ByAddress(make, pointers, len(pointers) < len(strides))
    # Either all alignments have a plan or none has, so one of them is tested.
    return made if is_contiguous or made.at() is not one else one


def planned(
    family: str, op: str, layout: Any, walk: pointwise_plan.Walk, plan: pointwise_plan.Plan
) -> launch.Launch:
    """Make the launch of a plan. walk: the walk of the whole layout, or of a part of it."""
    functor = "add_alpha" if op == "sub_alpha" else op
    common = layout.common_dtype
    scalar, types = _types(family, functor, common, tuple(layout.dtypes))
    packers = packers_of(family, op, plan.layout, scalar, common, walk.strides)
    values = [numbers.EMPTY] * sum(slots(family, op))
    defines = variants.planned(functor, scalar, types, plan)
    return of_plan(family, family, defines, values, packers, walk, plan)


def of_plan(
    family: str, entry: str, defines: variants.Defines, values: list[bytes], packers: list[Any],
    walk: pointwise_plan.Walk, plan: pointwise_plan.Plan,
) -> launch.Launch:  # fmt: skip
    """Make the launch of a plan for the source text `family`. entry: the entry's name without the
    suffix for the layout."""
    strides = [s or (0,) * len(walk.shape) for s in walk.strides]
    taken, tail = (_rows if isinstance(plan, pointwise_plan.Rows) else _turned)(walk, plan, strides)
    outer = [d for d in range(len(walk.shape)) if d not in taken]
    tail += launch.pack_dims(
        tuple([walk.shape[d] for d in outer]),
        [tuple([s[d] for d in outer]) for s in strides], pointwise_plan.MAX_OUTER_DIMS,
    )  # fmt: skip
    return launch.Launch(
        family, f"{entry}_{plan.layout.lower()}", defines, plan.blocks, launch.THREADS,
        len(strides), values, packers, tail,
    )  # fmt: skip


def _rows(walk: pointwise_plan.Walk, plan: Any, strides: list[Sizes]) -> tuple[Sizes, bytes]:
    """Return the dimensions over which rows.cuh iterates, and their parameters."""
    elements, across = walk.shape[0], plan.across
    per_row = launch.blocks_for(elements, plan.unit)
    inner = [s[0] for s in strides]
    taken: Sizes = (0,) if across is None else (0, across)
    if across is None:
        pieces = launch.blocks_for(per_row, launch.THREADS * plan.unroll)
        rows, row, steps = 1, [0] * len(strides), 1
        step = [s * launch.THREADS * plan.unit for s in inner]
        units = pieces
    else:
        rows = walk.shape[across]
        steps = launch.blocks_for(rows, plan.unroll)
        row = [s[across] for s in strides]
        step = [s * steps for s in row]
        units = per_row
    n_outer = len(walk.shape) - len(taken)
    return taken, Struct(f"<{3 * len(strides)}q").pack(*inner, *row, *step) + _ROWS(
        elements, rows, plan.threads, 0, *divider(units), *divider(steps), n_outer, 0
    )


def _turned(walk: pointwise_plan.Walk, plan: Any, strides: list[Sizes]) -> tuple[Sizes, bytes]:
    xs, ys, side = walk.shape[0], walk.shape[plan.y], pointwise_plan.SQUARES * plan.unit
    tiles_x, tiles_y = launch.blocks_for(xs, side), launch.blocks_for(ys, side)
    along = [s[0] for s in strides] + [s[plan.y] for s in strides]
    return (0, plan.y), Struct(f"<{len(along)}q").pack(*along) + _TURNED(
        xs, ys, *divider(tiles_x), *divider(tiles_x * tiles_y), len(walk.shape) - 2, 0
    )


def _types(
    family: str, op: str, common: dtype, dtypes: tuple[dtype, ...]
) -> tuple[str, tuple[str, ...]]:
    """Return the type of the computation, and the type in which each operand is stored. The
    signedness of the result's type matters, because the result may be cast to an `out` of another
    dtype."""
    if family == "where":
        values = dtypes[:1] + dtypes[2:]
        if all(d is common for d in values):
            word = variants.word(common)
            return word, (word, "b8", word, word)
        scalar = variants.storage(common)
    elif variants.has_contiguous(family, op, common) and dtypes[0] in (common, bool_):
        scalar = variants.contiguous_scalar(family, op, common)
    else:
        scalar = variants.storage(common)
    return scalar, tuple([scalar if d is common else variants.storage(d) for d in dtypes])


def _one(family: str, op: str, layout: Any, shape: Sizes, strides: list[Any]) -> launch.Launch:
    """Return the launch over one part of the layout."""
    dtypes = tuple(layout.dtypes)
    common = dtypes[0] if family == "fill" else layout.common_dtype
    numbers_at = tuple([k for k, s in enumerate(strides) if s is None])
    kind = _kind(family, op, common, dtypes, numbers_at, _is_dense(dtypes, shape, strides))
    numel = launch.product(shape)
    if kind.layout == "CONTIGUOUS":
        return Contiguous(
            family, op, kind.defines(0), len(strides), kind.values, kind.packers, numel,
            kind.per_thread, kind.given,
        )  # fmt: skip
    each, dims = launch.STRIDED_UNROLL, launch.dims_for(op, shape)
    walks = [s or (0,) * len(shape) for s in strides]
    head = _CODES[len(kind.codes)](numel, len(shape), common.code, kind.given, *kind.codes)
    threads = launch.threads_for(numel, each)
    return launch.Launch(
        family, kind.entry, kind.defines(dims), launch.blocks_for(numel, threads * each), threads,
        len(strides), kind.values, kind.packers, head + launch.pack_dims(shape, walks, dims),
    )  # fmt: skip


class Kind:
    """The part of a launch that does not depend on sizes and strides.

    layout, entry: the kernel. values, packers: as in launch.Launch. given: the mask of the value
    slots that numbers among the operands fill. codes: the dtypes' codes. per_thread: the number of
    elements of a thread of the contiguous kernel.
    """

    __slots__ = (
        "layout", "entry", "values", "packers", "given", "codes", "per_thread", "functor",
        "scalar", "by_dims",
    )  # fmt: skip
    layout: str
    packers: list[tuple[int, int, Any]]
    scalar: str

    def __init__(
        self, family: str, op: str, common: dtype, dtypes: tuple[dtype, ...],
        numbers_at: tuple[int, ...], is_dense: bool,
    ) -> None:  # fmt: skip
        # sub_alpha computes self + (-alpha) * other.
        self.functor: str = "add_alpha" if op == "sub_alpha" else op
        if family not in _MOVING:
            if not variants.has(family, self.functor, common):
                raise errors.no_cuda_kernel(op, common)
            found = _computed(family, self.functor, common, dtypes, is_dense)
        else:
            found = _moved(family, common, dtypes, 1 in numbers_at, is_dense)
        self.layout, self.scalar = found
        self.entry: str = f"{family}_{self.layout.lower()}"
        strides = [None if k in numbers_at else () for k in range(len(dtypes))]
        self.packers = packers_of(family, op, self.layout, self.scalar, common, strides)
        self.values: list[bytes] = [numbers.EMPTY] * sum(slots(family, op))
        self.given: int = sum([1 << slot for slot, source, _ in self.packers if source >= 0])
        missing = (4 if len(dtypes) <= 4 else 8) - len(dtypes)
        self.codes: list[int] = [d.code for d in dtypes] + [0] * missing
        packs = launch.UNARY_PACKS if len(dtypes) < 3 else launch.BINARY_PACKS
        self.per_thread: int = launch.PACK_BYTES // _itemsize(self.scalar) * packs
        self.by_dims: dict[int, variants.Defines] = {}

    def defines(self, dims: int) -> variants.Defines:
        """Return the defines of the variant for up to `dims` dimensions, or of the contiguous
        variant."""
        found = self.by_dims.get(dims)
        if found is None:
            found = variants.define(self.functor, self.scalar, self.layout, dims)
            self.by_dims[dims] = found
        return found


_kind = lru_cache(maxsize=1 << 11)(Kind)


def _computed(
    family: str, op: str, common: dtype, dtypes: tuple[dtype, ...], is_dense: bool
) -> tuple[str, str]:
    """Return the layout and the scalar type of the kernel for an operator that computes."""
    result = bool_ if family == "comparison" else common
    same = dtypes[0] is result and all(d is common for d in dtypes[1:])
    if same and is_dense and variants.has_contiguous(family, op, common):
        return "CONTIGUOUS", variants.contiguous_scalar(family, op, common)
    return "STRIDED", variants.arithmetic(common)


def _moved(
    family: str, common: dtype, dtypes: tuple[dtype, ...], is_number: bool, is_dense: bool
) -> tuple[str, str]:
    """Return the layout and the scalar type of the kernel for an operator that only moves or casts
    elements. is_number: the condition of `where` is a number."""
    values = dtypes[:1] + dtypes[2:] if family == "where" else dtypes
    if family == "where":
        assert dtypes[1].itemsize == 1 or is_number, dtypes
    if any(d is not values[0] for d in values):
        if family == "copy":
            return "CAST", "f32"
        return "CAST", variants.arithmetic(common) if common.category < 2 else "c128"
    return "CONTIGUOUS" if is_dense else "STRIDED", variants.word(values[0])


def _is_dense(dtypes: tuple[dtype, ...], shape: Sizes, strides: list[Any]) -> bool:
    if len(shape) > 1:
        return False
    if shape[0] == 1:
        return True
    return all(s is None or s[0] == d.itemsize for d, s in zip(dtypes, strides))


def _itemsize(scalar: str) -> int:
    """Return the size of a type in bytes. The type's name ends with the number of bits."""
    return int(scalar.lstrip("abcfiuw")) // 8


def packers_of(
    family: str, op: str, layout_name: str, scalar: str, common: dtype, strides: list[Any]
) -> list[tuple[int, int, Any]]:
    """Return (slot, source, packer) for each value slot that a call fills: see `packers` in
    launch.Launch."""
    n_inputs, n_scalars = slots(family, op)
    if family == "fill":
        return [(0, ~0, numbers.stored(common))]
    if family == "where":
        computes_in = scalar
    else:
        common = variants.number_dtype(scalar, common)
        computes_in = variants.arithmetic(common)
    name = op.partition("_")[0]
    found: list[tuple[int, int, Any]] = []
    first = len(strides) - n_inputs
    for k in range(n_inputs):
        if strides[first + k] is None:
            pack = _number(family, k, layout_name, computes_in, common, name)
            found.append((k, first + k, pack))
    if op == "threshold_backward":
        found.append((n_inputs, ~0, numbers.arithmetic(computes_in, common, is_rounded=False)))
    elif op.endswith("_alpha"):
        pack = numbers.arithmetic(computes_in, common, is_rounded=False, op=name, arg="alpha")
        found.append((n_inputs, ~0, numbers.negated(pack, common) if op == "sub_alpha" else pack))
    elif family not in _INPUTS:
        pack = numbers.arithmetic(computes_in, common, is_rounded=False, op=name)
        found += [(n_inputs + k, ~k, pack) for k in range(n_scalars)]
    return found


def _number(
    family: str, k: int, layout_name: str, computes_in: str, common: dtype, name: str
) -> numbers.Packer:
    if family == "where":
        if k == 0:
            return numbers.stored(bool_)
        if layout_name != "CAST":
            return numbers.stored(common)
    # With f16 and bf16 operands, arithmetic converts a number to f32. A comparison rounds the
    # number to the operands' dtype instead, as NumPy does.
    arg = ("condition", "self", "other", "third input")[min(k + (family != "where"), 3)]
    is_rounded = family in ("comparison", "where")
    return numbers.arithmetic(computes_in, common, is_rounded=is_rounded, op=name, arg=arg)
