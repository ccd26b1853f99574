"""The variants of each family's text, for each operator, type and layout, as dicts of -D defines.

The lists are finite: the compile test builds all variants, and the emulator builds all variants
of an operator. There are type-specific variants only where speed requires them. Contiguous
entries have the storage type, strided entries only the arithmetic type. If signedness does not
matter to an operator, signed and unsigned types share a variant. Plans of pointwise_plan.py for
large layouts have no finite list: `planned` returns the variant of a plan.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from .._generated.loops import LOOPS
from ...core.dtype import ALL, FLOATING, STORED, complex32, dtype
from ...core.dtype_rules import RULES

Defines = dict[str, str]

# The limits on dimensions of strided entries. A coalesced layout of more than 56 dimensions has at
# least 2^57 elements. With 56 dimensions, the parameters of six operands fit into 4 KiB.
FEW_DIMS, MANY_DIMS = 8, 56
WORDS = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "w128"}

_NAME = {d: "b8" if d.short == "bool" else d.short for d in STORED}
_SIGNLESS = re.compile(r"struct (\w+) (?:: takes<\d, \d> )?\{  // signless")
_MARKED = re.compile(r"struct (\w+) (?:: [\w<>]+ )?\{.*// composite")
_TAKES = re.compile(r"struct (\w+) : takes<(\d), (\d)>")
_UNSIGNED = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64"}
_BY_NAME = {name: d for d, name in _NAME.items()}


# Families whose operators are composite. Other devices need no loops for these families, so no row
# of the YAML names the loops. Instead, the functors are marked with `// composite` in the `.cu`
# files. Some functors of the family reduce are marked, too: those of norms.
_COMPOSITE = ("dropout", "moments", "triangle")

FAMILIES = (*LOOPS, *_COMPOSITE)

# Dtype rules of reductions that combine integers in int64.
_WHOLE = ("sums", "sums_real", "products")

# Texts of the copy family. Their variants are not listed: copy_plan.py chooses them on use.
COPIES = ("copy_row", "copy_tile", "copy_skinny", "copy_pack")

# Texts whose variants are built one by one and are in no list of this module.
ALONE = (*COPIES, "attention", "norm")


def arithmetic(of: dtype) -> str:
    """Return the C type in which strided entries compute elements of the dtype `of`."""
    if of.category < 2:
        return "u64" if of.short == "u64" else "i64"
    if of is complex32:
        return "c64"
    return "f32" if of.itemsize < 4 else of.short


def storage(of: dtype) -> str:
    """Return the name of the C++ type in which elements of dtype `of` are stored."""
    return _NAME[of]


def word(of: dtype) -> str:
    """Return the unsigned type that moves elements of `of` unchanged."""
    return WORDS[of.itemsize]


def has(family: str, op: str, of: dtype) -> bool:
    """Return True if pointwise `op` computes in dtype `of`, according to the field `dtypes` of its
    YAML row."""
    word = LOOPS[family].get(op)
    return word is not None and RULES[word].takes(of)


def has_contiguous(family: str, op: str, of: dtype) -> bool:
    """Return True if `op` has a contiguous entry for dtype `of`. The result of `op` must have this
    dtype, except for comparisons. complex32 has only strided entries, which cast it to complex64
    and back."""
    said = RULES[LOOPS[family][op]]
    gives_another = said.gives_bool or (said.gives_real and of.is_complex)
    return has(family, op, of) and not gives_another and of is not complex32


def contiguous_scalar(family: str, op: str, of: dtype) -> str:
    """Return the storage type of the contiguous entry of `op` for dtype `of`."""
    name = _NAME[of]
    return _UNSIGNED.get(name, name) if op in signless(family) else name


@cache
def signless(family: str) -> frozenset[str]:
    """Return operators whose results are bitwise equal for signed and unsigned integers."""
    text = resources.files(__package__).joinpath(f"{family}.cu").read_text(encoding="utf-8")
    return frozenset(_SIGNLESS.findall(text))


@cache
def composite(family: str) -> tuple[str, ...]:
    """Return the functors of composite operators."""
    text = resources.files(__package__).joinpath(f"{family}.cu").read_text(encoding="utf-8")
    return tuple(_MARKED.findall(text))


@cache
def takes(family: str) -> dict[str, tuple[int, int]]:
    """Return, for each functor of the family, the number of inputs and the number of scalars that
    it declares for include/pointwise/computed.cuh."""
    text = resources.files(__package__).joinpath(f"{family}.cu").read_text(encoding="utf-8")
    return {name: (int(inputs), int(n)) for name, inputs, n in _TAKES.findall(text)}


def number_dtype(scalar: str, common: dtype) -> dtype:
    """Return the dtype in which a kernel of type `scalar` reads a number. This is `common`, except
    in kernels of signless operators: they zero-extend elements and numbers, so they read a number
    in the unsigned type `scalar`."""
    return _BY_NAME[scalar] if _UNSIGNED.get(_NAME[common]) == scalar else common


def converts(op: str) -> bool:
    """Return True if a reduction converts elements to the dtype in which it combines them."""
    return LOOPS["reduce"].get(op) in (*_WHOLE, "floating_only")


def reduce_scalar(op: str, of: dtype) -> str | None:
    """Return the C type in which the kernel of `op` reads elements of the dtype `of`, or None if no
    kernel reads this dtype without a conversion."""
    if op in composite("reduce"):
        is_read = of in ALL and of.category >= FLOATING
        if op.endswith("_end"):  # reads partial results
            is_read = of.is_floating_point and of.itemsize > 2
        return storage(of) if is_read else None
    if not has("reduce", op, of) or of is complex32 and LOOPS["reduce"][op] != "any":
        return None
    name = _NAME[of]
    if LOOPS["reduce"][op] in _WHOLE:
        # Sums wrap around at 64 bits, so i64 and u64 sums have the same bits.
        return "i64" if name == "u64" else name
    if name == "b8":
        return "u8"
    return _UNSIGNED.get(name, name) if LOOPS["reduce"][op] == "any" else name


def reduce_partial(op: str, scalar: str) -> str:
    """Return the type of a partial result of `op` over elements of type `scalar`
    (`types::partial`)."""
    if op in composite("reduce"):
        return "f64" if scalar in ("f64", "c128") else "f32"
    if LOOPS["reduce"][op] == "any":
        return "u8"
    if LOOPS["reduce"][op] == "real":
        return scalar
    if scalar in ("f16", "bf16"):
        return "f32"
    return scalar if scalar[0] in "fc" else "i64"


def matmul_scalar(of: dtype) -> str:
    name = _NAME[of]
    return _UNSIGNED.get(name, name)


def range_scalar(op: str, of: dtype, *, has_floats: bool) -> str:
    """Return the arithmetic type of a range operator: f64 for integers with floating scalars."""
    if op == "eye" or (op == "arange" and of.category < 2 and not has_floats):
        return "i64"
    return "c128" if of.is_complex else "f64"


# --- lists --------------------------------------------------------------------------------------


@cache
def group(family: str, dims: int = FEW_DIMS) -> tuple[Defines, ...]:
    """Return the variants of a family that the emulator builds together. dims: the limit on
    dimensions of strided entries. Layouts of more than FEW_DIMS dimensions are rare and form a
    separate group."""
    listed = _LISTS.get(family, _pointwise)(family)
    if dims == FEW_DIMS:
        return tuple([v | {"DIMS": str(dims)} if _has_dims(family, v) else v for v in listed])
    return tuple([v | {"DIMS": str(dims)} for v in listed if _has_dims(family, v)])


def group_of(family: str, defines: Defines) -> tuple[Defines, ...]:
    """Return the variants that are built together with a variant: all variants of its operator. A
    planned variant is built alone."""
    if family in ALONE or "UNIT" in defines:
        return (defines,)
    whole = group(family, int(defines.get("DIMS", FEW_DIMS)))
    return tuple([v for v in whole if v["OP"] == defines["OP"]])


@lru_cache(1 << 12)
def define(op: str, scalar: str, layout: str, dims: int = 0) -> Defines:
    """Return the defines of a variant. Callers share the dict and do not change it."""
    made = {"OP": op, "SCALAR": scalar, "LAYOUT": layout}
    return made | {"DIMS": str(dims)} if dims else made


def planned(op: str, scalar: str, types: tuple[str, ...], plan: Any) -> Defines:
    """Return the variant for a plan of pointwise_plan.py. types: the operands' types in memory."""
    return define(op, scalar, plan.layout, plan.outer_dims) | {
        "TYPES": ",".join(types), "KINDS": ",".join(plan.kinds),
        "WIDTHS": ",".join(map(str, plan.widths)), "HELD": str(plan.held),
        "UNIT": str(plan.unit), "UNROLL": str(plan.unroll), "ALONG": str(plan.along),
    }  # fmt: skip


def _has_dims(family: str, defines: Defines) -> bool:
    return family not in ("matmul", "loss") and defines["LAYOUT"] != "CONTIGUOUS"


def _pointwise(family: str) -> list[Defines]:
    listed = []
    for op in LOOPS[family]:
        scalars = [contiguous_scalar(family, op, d) for d in ALL if has_contiguous(family, op, d)]
        listed += [define(op, scalar, "CONTIGUOUS") for scalar in dict.fromkeys(scalars)]
        computed = [arithmetic(d) for d in ALL if has(family, op, d)]
        listed += [define(op, name, "STRIDED") for name in dict.fromkeys(computed)]
    return listed


def _moves(family: str) -> list[Defines]:
    layouts = ("CONTIGUOUS", "STRIDED")
    listed = [define(family, name, layout) for layout in layouts for name in WORDS.values()]
    if family == "copy":
        listed.append(define("copy", "f32", "CAST"))
        listed += [define("copy", name, "PACKED") for name in ("u8", "u16")]
        listed += [define("copy", name, "AFFINE") for name in ("f32", "f64")]
    if family == "where":
        listed += [define("where", name, "CAST") for name in ("i64", "u64", "c128")]
    return listed


def _reduce(family: str) -> list[Defines]:
    listed, layouts = [], ("ROWS", "COLUMNS", "STRIDED")
    for op in (*LOOPS[family], *composite(family)):
        scalars = dict.fromkeys(filter(None, (reduce_scalar(op, d) for d in STORED)))
        listed += [define(op, name, layout) for name in scalars for layout in layouts]
    for op in filter(converts, LOOPS[family]):
        whole = ("i64",) if LOOPS[family][op] in _WHOLE else ()
        listed += [define(op, name, "CAST") for name in ("f32", "f64", "c64", "c128", *whole)]
    return listed


def _matmul(family: str) -> list[Defines]:
    scalars = dict.fromkeys(map(matmul_scalar, ALL))
    listed = [define(op, name, "STRIDED") for op in LOOPS[family] for name in scalars]
    return [v for v in listed if (v["OP"], v["SCALAR"]) != ("addmm", "b8")]


def _range(family: str) -> list[Defines]:
    asked = [(op, d, floats) for op in LOOPS[family] for d in ALL for floats in (False, True)]
    scalars = [(op, range_scalar(op, d, has_floats=floats)) for op, d, floats in asked]
    return [define(op, name, "STRIDED") for op, name in dict.fromkeys(scalars)]


@cache
def whole() -> frozenset[str]:
    """Return the distributions that can fill integer and bool tensors. They are marked `// whole`
    in random.cu."""
    text = resources.files(__package__).joinpath("random.cu").read_text(encoding="utf-8")
    return frozenset(re.findall(r"struct (\w+) \{  // whole", text))


def random_scalar(of: dtype) -> str:
    """Return the type in which random numbers of dtype `of` are stored."""
    return of.short if of.is_floating_point else word(of)


def _random(family: str) -> list[Defines]:
    takes = [(op, d) for op in LOOPS[family] for d in ALL if not d.is_complex]
    pairs = [(op, random_scalar(d)) for op, d in takes if d.is_floating_point or op in whole()]
    return [define(op, scalar, "CONTIGUOUS") for op, scalar in dict.fromkeys(pairs)]


def _along_rows(family: str) -> list[Defines]:
    takes = [(op, d) for op in LOOPS[family] for d in ALL if has(family, op, d)]
    takes = [(op, d) for op, d in takes if d.category or LOOPS[family][op] != "running"]
    layouts = ("ROWS", "STRIDED") if family == "softmax" else ("STRIDED",)
    return [define(op, _NAME[d], layout) for layout in layouts for op, d in takes]


def _moments(family: str) -> list[Defines]:
    layouts = ("ROWS", "COLUMNS", "STRIDED", "PARTS")
    floats = [d for d in ALL if d.category >= FLOATING]
    takes = [(op, d) for op in composite(family) for d in floats]
    return [
        define(op, d.short, layout)
        for op, d in takes for layout in layouts if op == "var" or not d.is_complex
    ]  # fmt: skip


def _dropout(family: str) -> list[Defines]:
    floats = [d.short for d in ALL if d.is_floating_point]
    layouts = ("CONTIGUOUS", "STRIDED")
    return [define(op, s, name) for op in composite(family) for name in layouts for s in floats]


def _triangle(family: str) -> list[Defines]:
    listed = [(op, w, "STRIDED") for op in composite(family) for w in WORDS.values()]
    listed += [(op, w, "ROWS") for op, w, _ in listed if w != "w128"]
    return [define(*v) for v in listed]


def _loss(family: str) -> list[Defines]:
    """Return the variants of losses: single elements, sums (also for means), and partial sums. The
    header of the family's `.cu` lists the layouts."""
    floats = [d.short for d in ALL if d.is_floating_point]
    layouts = {
        op: ("ELEMENTS", *(() if op.endswith("_backward") else ("SUMS", "PARTS")))
        for op in LOOPS[family]
    }
    return [define(op, s, layout) for op in layouts for layout in layouts[op] for s in floats]


def _indexed(family: str) -> list[Defines]:
    """Return the variants with one index tensor and the variants with several."""
    listed = []
    for op in LOOPS[family]:
        scalars = list(WORDS.values())
        if op not in ("gather", "scatter"):
            is_ordered = op in ("scatter_amax", "scatter_amin")
            takes = [d for d in ALL if d.itemsize >= 4 and not (d.is_complex and is_ordered)]
            scalars = [contiguous_scalar(family, op, d) for d in takes]
        asked = [(s, n) for s in dict.fromkeys(scalars) for n in ("1", "8")]
        listed += [define(op, s, "STRIDED") | {"INDICES": n} for s, n in asked]
    return [v for v in listed if (v["OP"], v["SCALAR"]) != ("scatter_multiply", "c128")]


def _nonzero(family: str) -> list[Defines]:
    layouts = {"nonzero": ("PARTS",), "nonzero_count": ("ELEMENTS", "SUMS")}
    return [define(op, "u8", layout) for op in LOOPS[family] for layout in layouts[op]]


_LISTS = {
    "gather": _indexed, "scatter": _indexed, "nonzero": _nonzero,
    "copy": _moves, "fill": _moves, "where": _moves, "reduce": _reduce, "matmul": _matmul,
    "range": _range, "random": _random, "loss": _loss, "moments": _moments, "dropout": _dropout,
    "triangle": _triangle,
    "argreduce": _along_rows, "softmax": _along_rows, "scan": _along_rows,
}  # fmt: skip
