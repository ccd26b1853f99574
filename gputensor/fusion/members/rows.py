"""Operators over whole rows as members of a chain: argmax and argmin, max and min with indices,
softmax, log_softmax and their derivatives, layer norm and RMS norm.

Note [What takes rows]
argmax and argmin are recorded like reductions (reductions.py). The other operators return as many
elements as they take, or several results; `whole` lists the dimensions of a row. With several
results, the operator's instruction gives the first, and an additional instruction with the same
operand and a `part` other than 0 gives each of the others. On the CPU, if rows are short, operators
that follow continue in the chain, including operators on values with one element per row.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from ...core.arguments import exact
from ...core.device import CPU
from ...core.dtype import FLOATING, bfloat16, dtype, float16, float32, int64
from ...core.geometry import Geometry, contiguous_geometry, reduced_sizes
from ...dispatch.keys import FUSE, LAZY
from ...dispatch.operator import Operator, Table
from ...kernels import stub
from ...kernels.cpu import quiet
from ...registrations.rows import bound
from ...native import argreduce, softmax
from ...native.norm import rms_eps
from ...structured.layers import norm_kernels
from ...tensor.make import from_storage
from ...tensor.tensor import Tensor
from ..chain import Entry, Recorded
from ..record.pending import Pending
from ..record.recorder import current
from .reductions import LARGE, SHORT, has_short_rows

_BOUND = 1 << 11
_HALVES = (float16, bfloat16)


class Output(NamedTuple):
    geometry: Geometry


def _axes(shape: Geometry, dim: Any) -> tuple[int, ...] | None:
    """Return the dimensions in an argument `dim`, in order. Return None if the operator rejects the
    argument."""
    dims, ndim = (dim,) if type(dim) is int else dim, shape.ndim
    if type(dims) not in (tuple, list) or not dims:
        return None
    if any([type(d) is not int or not -ndim <= d < ndim for d in dims]):
        return None
    axes = tuple(sorted({d % ndim for d in dims}))
    return axes if len(axes) == len(dims) else None


def _reduced(
    shape: Geometry, axes: tuple[int, ...], keepdim: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of a result with one element per row, in two forms: with all dimensions of
    the walk, and with the dimensions that the result has."""
    sizes = reduced_sizes(shape.sizes, axes, True)
    return sizes, sizes if keepdim else reduced_sizes(shape.sizes, axes, False)


class Layout(NamedTuple):
    """Substitute for a plan, for operators that have no plan. It has the attributes that `Recorded`
    reads. walk: the order in which the operator's kernel on a device visits the operand's
    elements."""

    device: Any
    common_dtype: dtype
    outputs: tuple[Output, ...]
    walk: Any = None


class Made(NamedTuple):
    """The recorded form of a call: its results, operands and scalars."""

    whats: list[Recorded]
    operands: tuple[int, ...]
    params: tuple[float, ...] = ()


Maker = Callable[..., Made | None]


def recording(
    operator: Operator, run_first: Callable[..., Any], is_own: Callable[[Any], bool]
) -> Callable[..., Any]:
    """Return the kernel of an operator over rows at key Fuse. is_own: a function of a device; True
    if calls on this device reach gputensor's own kernel. Calls that are invalid or not recorded go
    to the kernel below, or to the operators of which this operator is composed."""
    make = MAKERS[operator.qualified_name]

    def below(key_set: int, *args: Any) -> Any:
        if make in (_layer_norm, _rms_norm) and _is_composed(operator.table, *args[:2]):
            return operator.redispatch_table[key_set & ~FUSE](key_set & ~FUSE, *args)
        return run_first(key_set, *args)

    known: dict[Any, Made | None] = {}

    def record(key_set: int, *args: Any) -> Any:
        recorder, first = current.get(), args[0]
        place, tensors = first._device, [x for x in args if type(x) is Tensor]
        if (
            recorder is None or type(first) is not Tensor or place.type == "meta"
            or recorder.trace is None and first._geometry.numel < LARGE
            and not any([type(x._storage) is Pending for x in tensors])
        ):  # fmt: skip
            return below(key_set, *args)
        is_plain = not any([x._keys & LAZY or x._device is not place for x in tensors])
        if not is_plain or not is_own(place) or not first._geometry.numel:
            return below(key_set, *args)
        key = (place, *[x._geometry if type(x) is Tensor else (type(x), exact(x)) for x in args])
        try:
            made = known[key]
        except KeyError:
            if len(known) >= _BOUND:
                known.clear()
            made = known[key] = make(operator, *args)
        except TypeError:  # raised for unhashable arguments
            return below(key_set, *args)
        if made is None or not (results := recorder.record(
            made.whats, tuple([args[n] for n in made.operands]), made.params
        )):  # fmt: skip
            return below(key_set, *args)
        return results[0] if len(results) == 1 else tuple(results)

    return record


def _search(operator: Operator, x: Tensor, dim: Any = None, keepdim: Any = False) -> Made | None:
    shape, place, loop = x._geometry, x._device, bound[operator][1]
    has_values = len(operator.schema.returns) > 1
    if (
        type(keepdim) is not bool or not shape.ndim or shape.dtype.is_complex
        or not shape.is_non_overlapping_and_dense
    ):  # fmt: skip
        return None
    one, axis, dims = x, 0, tuple(range(shape.ndim))
    if type(dim) is int and (axes := _axes(shape, dim)) is not None:
        dims, axis = axes, axes[0]
    elif dim is None and shape.is_row_major and not has_values:
        flat = contiguous_geometry((shape.numel,), shape.dtype)
        one = from_storage(x._get_storage(), x._offset, flat, x._keys)
    else:
        return None
    sizes, kept = _reduced(shape, dims, keepdim)
    entry = argreduce._Entry(loop, one, None, axis, dim is not None)
    run = entry.run

    def write(outs: Any, inputs: Any, params: Any) -> None:
        if place is CPU:
            if dim is None:
                inputs, outs = [inputs[0].reshape(-1)], [outs[0].reshape(())]
            quiet.run(run, inputs[0], axis, *outs, dim is not None)
        else:
            run(place.index, [x._address() for x in (*reversed(outs), inputs[0])])

    found = [contiguous_geometry(sizes, of) for of in (shape.dtype, int64)[not has_values :]]
    layout = Layout(place, shape.dtype, tuple(map(Output, found)), entry.plan)
    both = Entry("argreduce", loop, layout, (shape.dtype,), write, run)
    feeds = keepdim and has_short_rows(shape, dims, place)
    return Made([
        _recorded(operator, both, shape, part, dims, feeds, seen, kept)
        for part, seen in enumerate(found)
    ], (0,))  # fmt: skip


def _recorded(
    operator: Operator, entry: Entry, walk: Geometry, part: int, dims: tuple[int, ...],
    feeds: bool, seen: Geometry, sizes: tuple[int, ...],
) -> Recorded:  # fmt: skip
    """Return the `Recorded` of a result with one element per row. walk: the operand's geometry.
    seen: the result's geometry with all dimensions of `walk`, as with keepdim. sizes: the result's
    own sizes."""
    outputs = (Output(contiguous_geometry(sizes, seen.dtype)), *entry.plan.outputs[1:])
    one = entry._replace(plan=entry.plan._replace(outputs=outputs))
    whole = dims if len(outputs) > 1 and not part else None
    return Recorded(
        operator, entry.kinds, one, dims, walk, feeds, whole=whole, part=part, seen=seen
    )


def _logsumexp(operator: Operator, x: Tensor, dim: Any, keepdim: Any = False) -> Made | None:
    """Return the recorded form of logsumexp on the CPU. Return None for other devices, on which
    logsumexp is composed of other operators."""
    shape, place = x._geometry, x._device
    axes = _axes(shape, dim)
    if (
        place is not CPU or shape.dtype.category != FLOATING or axes is None
        or type(keepdim) is not bool or not shape.is_non_overlapping_and_dense
    ):  # fmt: skip
        return None
    loop = stub.cpu("moments").bind("logsumexp", shape.dtype, shape.dtype)

    def write(outs: Any, inputs: Any, params: Any) -> None:
        quiet.run(loop, inputs[0], axes, None, outs[0], True)

    sizes, kept = _reduced(shape, axes, keepdim)
    found = contiguous_geometry(sizes, shape.dtype)
    layout = Layout(place, shape.dtype, (Output(found),))
    entry = Entry("moments", "logsumexp", layout, (shape.dtype,), write)
    feeds = keepdim and has_short_rows(shape, axes, place)
    return Made([_recorded(operator, entry, shape, 0, axes, feeds, found, kept)], (0,))


def _softmax(operator: Operator, x: Tensor, dim: Any, half_to_float: Any) -> Made | None:
    return None if half_to_float is not False else _of_rows(operator, (x,), dim)


def _softmax_backward(
    operator: Operator, grad: Tensor, output: Any, dim: Any, input_dtype: Any
) -> Made | None:
    if type(output) is not Tensor or input_dtype is not grad._geometry.dtype:
        return None
    return _of_rows(operator, (grad, output), dim)


def _of_rows(operator: Operator, inputs: tuple[Tensor, ...], dim: Any) -> Made | None:
    shape, place, loop = inputs[0]._geometry, inputs[0]._device, bound[operator][1]
    result = contiguous_geometry(shape.sizes, shape.dtype)
    axes = _axes(shape, dim)
    if (
        type(dim) is not int or axes is None or shape.dtype.category != FLOATING
        or any([x._geometry is not result for x in inputs])
    ):  # fmt: skip
        return None
    (axis,) = axes
    entry = softmax._Entry(loop, result, inputs, axis)

    def write(outs: Any, inputs: Any, params: Any) -> None:
        if place is CPU:
            quiet.run(entry.run, *inputs, axis, outs[0])
        else:
            entry.write(outs[0], inputs)

    kinds = tuple([shape.dtype for _ in inputs])
    layout = Layout(place, shape.dtype, (Output(result),))
    made = Entry("softmax", loop, layout, kinds, write, entry.run)
    feeds = has_short_rows(shape, (axis,), place)
    if place.type == "cuda":  # on CUDA the kernel may read these rows again: see cuda/rows.py
        feeds = len(inputs) == 1 and shape.strides[axis] == 1 and 1 < shape.sizes[axis] <= SHORT
    what = Recorded(operator, kinds, made, feeds=feeds, whole=(axis,))
    return Made([what], tuple(range(len(inputs))))


def _is_composed(table: Table, x: Any, normalized_shape: Any) -> bool:
    """True if a norm of rows on CUDA is recorded as the operators that compose it."""
    if type(x) is not Tensor or type(normalized_shape) not in (tuple, list):
        return False
    shape, sizes = x._geometry, tuple(normalized_shape)
    if not sizes or shape.sizes[-len(sizes) :] != sizes or not shape.numel:
        return False
    count = prod(sizes)
    kernels = norm_kernels.launches(table, x, (shape.numel // count, count, 1, 1))
    return kernels is not None and norm_kernels.is_composed_in_chains(kernels, x)


def _layer_norm(
    operator: Operator, x: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: Any
) -> Made | None:
    return _norm(operator, x, normalized_shape, (weight, bias), (2, 3), eps)


def _rms_norm(
    operator: Operator, x: Tensor, normalized_shape: Any, weight: Any, eps: Any
) -> Made | None:
    if eps is None and x._geometry.dtype.category == FLOATING:
        eps = rms_eps(x)
    return _norm(operator, x, normalized_shape, (weight, None), (2,), eps, False)


def _norm(
    operator: Operator, x: Tensor, normalized_shape: Any, beside: tuple[Any, Any],
    places: tuple[int, ...], eps: Any, is_centered: bool = True,
) -> Made | None:  # fmt: skip
    """Return the recorded form of layer norm or, if not is_centered, of RMS norm. beside: weight
    and bias. places: the positions of weight and bias among the operator's arguments."""
    shape, place = x._geometry, x._device
    of = contiguous_geometry(shape.sizes, shape.dtype)
    if place is not CPU or shape is not of or shape.dtype.category != FLOATING:
        return None
    if type(normalized_shape) not in (tuple, list) or type(eps) is not float:
        return None
    wanted, given = tuple(normalized_shape), [y for y in beside if y is not None]
    n_outer = shape.ndim - len(wanted)
    if not wanted or n_outer < 0 or shape.sizes[n_outer:] != wanted:
        return None
    kind = shape.dtype if is_centered or shape.dtype not in _HALVES else float32
    for y in given:
        if type(y) is not Tensor or y._geometry.sizes != wanted:
            return None
        if y._geometry.dtype is float32 and shape.dtype in _HALVES:
            kind = float32
        elif y._geometry.dtype is not shape.dtype:
            return None
    dims = tuple(range(n_outer, shape.ndim))
    has, row = tuple([y is not None for y in beside]), prod(wanted)
    normalized = stub.cpu("norm").normalized

    def write(outs: Any, inputs: Any, params: Any) -> None:
        array, *beside = [x.reshape(-1, row) for x in inputs]
        scale = beside.pop(0) if has[0] else None
        shift = beside.pop(0) if has[1] else None
        mean = outs[1].reshape(-1) if is_centered else None
        made, rstd = outs[0].reshape(-1, row), outs[-1].reshape(-1)
        quiet.run(normalized, array, scale, shift, params[0], made, mean, rstd)

    statistic = contiguous_geometry((*shape.sizes[:n_outer], *[1] * len(wanted)), kind)
    count = 2 if is_centered else 1
    outputs = (Output(shape), *[Output(statistic)] * count)
    layout = Layout(place, shape.dtype, outputs)
    name = "layer_norm" if is_centered else "rms_norm"
    entry = Entry("norm", name, layout, (shape.dtype,), write, has=has)
    feeds = has_short_rows(shape, dims, place)
    whats = [Recorded(operator, entry.kinds, entry, feeds=feeds, whole=dims)]
    whats += [
        _recorded(operator, entry, shape, part, dims, feeds, statistic, statistic.sizes)
        for part in range(1, count + 1)
    ]
    operands = (0, *[n for n, is_there in zip(places, has) if is_there])
    return Made(whats, operands, (eps,))


MAKERS: dict[str, Maker] = {
    "aten::argmax": _search,
    "aten::argmin": _search,
    "aten::max.dim": _search,
    "aten::min.dim": _search,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::logsumexp": _logsumexp,
    "aten::native_layer_norm": _layer_norm,
    "aten::_fused_rms_norm": _rms_norm,
}
