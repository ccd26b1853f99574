"""Launch plans of the families that visit each element once.

These are unary, binary, comparison, where, fill, and copies that are too small for copy_launch.py.

A layout is contiguous if all its operands are numbers or one dense run; what is left is strided.
Alignment is not decided here: the kernels look at the pointers.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from ...core import errors
from ...core.dtype import bool_, dtype
from . import launch, numbers, variants

# Inputs and scalars of a family: what its parameters have value slots for.
_INPUTS = {
    "unary": (1, 0), "binary": (2, 1), "comparison": (2, 0), "where": (3, 0), "fill": (0, 1),
    "copy": (1, 0),
}  # fmt: skip
_CODES = Struct("<IiiI4i").pack


def bind(family: str, op: str, layout: Any) -> Any:
    if family == "binary" and op in ("add", "sub"):
        return Scaled(op, layout)
    return _bind(family, op, layout)


class Scaled:
    """add and sub: their plain kernel, or add_alpha where a call gives an alpha other than 1."""

    __slots__ = ("op", "layout", "plain", "scaled")

    def __init__(self, op: str, layout: Any) -> None:
        self.op, self.layout = op, layout
        self.plain = _bind("binary", op, layout)
        self.scaled: Any = None

    def __call__(
        self, device_index: int, operands: launch.Operands, scalars: launch.Operands = ()
    ) -> None:
        if not scalars or scalars[0] == 1:
            self.plain(device_index, operands)
            return
        if self.scaled is None:
            self.scaled = _bind("binary", self.op + "_alpha", self.layout)
        self.scaled(device_index, operands, scalars)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)  # entry, defines, grid and block of the usual call


def _bind(family: str, op: str, layout: Any) -> Any:
    shape = layout.shape or (1,)
    strides = [None if s is None else s or (0,) for s in layout.stride_bytes]
    if launch.product(shape) == 0:
        return launch.EmptyLaunch()
    parts = []
    for start, sizes in launch.pieces(shape, launch.MAX_NUMEL):
        offsets = tuple([launch.offset_of(start, s) for s in strides])
        parts.append((offsets, _one(family, op, layout, sizes, strides)))
    return parts[0][1] if len(parts) == 1 else launch.SplitLaunch(parts)


def _one(
    family: str, op: str, layout: Any, shape: tuple[int, ...], strides: list[Any]
) -> launch.Launch:
    """The launch over one part of the layout."""
    functor = "add_alpha" if op == "sub_alpha" else op  # self + (-alpha) * other
    dtypes = tuple(layout.dtypes)
    common = dtypes[0] if family == "fill" else layout.common_dtype
    if family in ("unary", "binary", "comparison"):
        if not variants.has(family, functor, common):
            raise errors.no_cuda_kernel(op, common)
        layout_name, scalar = _computed(family, functor, common, dtypes, shape, strides)
    else:
        layout_name, scalar = _moved(family, common, dtypes, shape, strides)
    packers = _packers(family, op, layout_name, scalar, common, strides)
    n_values = sum(_INPUTS[family])
    values = [numbers.EMPTY] * n_values
    numel, given = launch.product(shape), 0
    for slot, source, _ in packers:
        given |= 1 << slot if source >= 0 else 0
    if layout_name == "CONTIGUOUS":
        packs = launch.UNARY_PACKS if len(strides) < 3 else launch.BINARY_PACKS
        each = launch.PACK_BYTES // _itemsize(scalar) * packs
        defines = variants.define(functor, scalar, layout_name)
        tail = Struct("<II").pack(numel, given)
    else:
        each, dims = launch.STRIDED_UNROLL, launch.dims_for(op, shape)
        defines = variants.define(functor, scalar, layout_name, dims)
        codes = [d.code for d in dtypes] + [0] * (4 - len(dtypes))
        walks = [s or (0,) * len(shape) for s in strides]
        tail = _CODES(numel, len(shape), common.code, given, *codes) + launch.pack_dims(
            shape, walks, dims
        )
    threads = launch.threads_for(numel, each)
    return launch.Launch(
        family, f"{family}_{layout_name.lower()}", defines,
        launch.blocks_for(numel, threads * each), threads, len(strides), values, packers, tail,
    )  # fmt: skip


def _computed(
    family: str,
    op: str,
    common: dtype,
    dtypes: tuple[dtype, ...],
    shape: tuple[int, ...],
    strides: list[Any],
) -> tuple[str, str]:
    """Layout and type of an operator that computes."""
    result = bool_ if family == "comparison" else common
    same = dtypes[0] is result and all(d is common for d in dtypes[1:])
    if same and variants.has_contiguous(family, op, common) and _is_dense(dtypes, shape, strides):
        return "CONTIGUOUS", variants.contiguous_scalar(family, op, common)
    return "STRIDED", variants.arithmetic(common)


def _moved(
    family: str,
    common: dtype,
    dtypes: tuple[dtype, ...],
    shape: tuple[int, ...],
    strides: list[Any],
) -> tuple[str, str]:
    """Layout and type of an operator that moves elements, or casts them."""
    values = dtypes[:1] + dtypes[2:] if family == "where" else dtypes
    if family == "where":
        assert dtypes[1].itemsize == 1 or strides[1] is None, dtypes
    if any(d is not values[0] for d in values):
        if family == "copy":
            return "CAST", "f32"
        return "CAST", variants.arithmetic(common) if common.category < 2 else "c128"
    return "CONTIGUOUS" if _is_dense(dtypes, shape, strides) else "STRIDED", variants.word(
        values[0]
    )


def _is_dense(dtypes: tuple[dtype, ...], shape: tuple[int, ...], strides: list[Any]) -> bool:
    if len(shape) > 1:
        return False
    if shape[0] == 1:
        return True
    return all(s is None or s[0] == d.itemsize for d, s in zip(dtypes, strides))


def _itemsize(scalar: str) -> int:
    """Bytes of a type by its name: the last number in it is its width in bits."""
    return int(scalar.lstrip("abcfiuw")) // 8


def _packers(
    family: str, op: str, layout_name: str, scalar: str, common: dtype, strides: list[Any]
) -> list[tuple[int, int, Any]]:
    """Which value slots a call fills, and how: see launch.Launch."""
    n_inputs, n_scalars = _INPUTS[family]
    if family == "fill":
        return [(0, ~0, numbers.stored(common))]
    computes_in = variants.arithmetic(common)
    if family == "where":
        computes_in = scalar
    found: list[tuple[int, int, Any]] = []
    first = len(strides) - n_inputs
    for k in range(n_inputs):
        if strides[first + k] is None:
            found.append((k, first + k, _number(family, k, layout_name, computes_in, common)))
    if op == "threshold_backward":
        found.append((n_inputs, ~0, numbers.arithmetic(computes_in, common, is_rounded=False)))
    elif op.endswith("_alpha"):
        pack = numbers.arithmetic(computes_in, common, is_rounded=False)
        found.append((n_inputs, ~0, numbers.negated(pack, common) if op == "sub_alpha" else pack))
    return found


def _number(
    family: str, k: int, layout_name: str, computes_in: str, common: dtype
) -> numbers.Packer:
    if family == "where":
        if k == 0:
            return numbers.stored(bool_)
        if layout_name != "CAST":
            return numbers.stored(common)
    # Beside f16 and bf16 arithmetic takes a number as f32; a comparison rounds it, as NumPy does.
    return numbers.arithmetic(computes_in, common, is_rounded=family != "binary")
