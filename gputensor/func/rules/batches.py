"""Batch rules: functions that run an operator on a whole batch. The batch is the first dimension of
a tensor.

A rule takes (level, entry, args, argument): the vmap's level, the operator, its arguments (still
wrapped), and the word after the rule's name in native_functions.yaml. It returns the wrapped
result, or NotImplemented; then the operator runs for one entry after another. Source of the
semantics: aten/src/ATen/functorch/BatchRules*.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...autograd.variable import check_resize
from ...core import errors
from ...core.promotion import result_type
from ...dispatch import defaults, families
from ...dispatch.dispatcher import find
from ...dispatch.keys import BATCHED
from ...tensor.tensor import Tensor
from ..levels import aligned, batched, each, physical, unfolded, wrapped
from ..operators import Entry, call

Args = Sequence[Any]


def check_written(level: Any, entry: Entry, args: Args) -> None:
    """Raise an error if an in-place operator would write a batch to a tensor without a batch."""
    if not level.owns(args[0]):
        rule = "have the batch that its other operands have, as it is written to"
        raise errors.must(entry.operator.short_name, "self", rule, args[0])


# --- elementwise operators ----------------------------------------------------------------------


def pointwise(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of operators whose operands broadcast: dimensions of size 1 are inserted after
    the batch dimension."""
    tensors = [args[n] for n in entry.places if isinstance(args[n], Tensor)]
    rank = max(x._geometry.ndim for x in tensors)
    written = entry.kind == "inplace"
    if written:
        rank = args[0]._geometry.ndim
    given = list(args)
    for n in entry.places:
        x = args[n]
        if isinstance(x, (list, tuple)) or n == entry.names.get("value") and level.owns(x):
            return NotImplemented  # one number stands for all elements
        if level.owns(x):
            given[n] = aligned(_promoted(x, tensors), x._geometry.ndim, rank)
    result = call(entry.operator, *_formats(entry, given))
    return args[0] if written else wrapped(level, result)


def _promoted(x: Any, tensors: list[Any]) -> Tensor:
    """Return the content of x, cast if type promotion requires it.

    A 0-d operand does not determine the result's dtype. But the batch of 0-d operands has one
    dimension, so it would determine the dtype. So the batch is cast to the common dtype of the
    entries.
    """
    value: Tensor = x.value
    if x._geometry.ndim == 0 and any(t._geometry.dtype is not x.dtype for t in tensors):
        specs = tuple([(t._geometry, t._device) for t in tensors])
        common = result_type("vmap", specs, defaults.get_default_dtype())
        if common.is_complex and x.dtype.is_floating_point:
            common = common.to_real
        if common is not x.dtype and common.category == x.dtype.category:
            value = value.to(common)
    return value


def _formats(entry: Entry, given: list[Any]) -> list[Any]:
    """Return the arguments with a channels-last format replaced by None, because the format
    describes the entries and not the whole batch."""
    n = entry.names.get("memory_format")
    if n is not None and given[n] is not None and "channels" in str(given[n]):
        given[n] = None
    return given


# --- dimensions -----------------------------------------------------------------------------------

_DIMS = {"dim", "dims", "dim0", "dim1", "dim2", "dimension"}


def shifted(entry: Entry, dim: int, ndim: int) -> int:
    """Return the dimension of the batch that corresponds to `dim` of its entries."""
    if not -ndim <= dim < ndim:
        raise errors.dim_out_of_range(entry.operator.short_name, dim, ndim)
    return dim % ndim + 1


def dims(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for arguments that are dimensions: each dimension is increased by one. If no
    dimension is given, the operator uses all dimensions of the entries.

    argument: "insert" if they are dimensions of a result that has one more dimension than the
    operand; "free" if the index operand has one dimension and no batch; "apart" if an operand has
    fewer dimensions than the others.
    """
    if argument == "free" and any(level.owns(_named(entry, args, x)) for x in _FREE):
        return NotImplemented
    given: list[Any] = list(args)
    ndims = []
    for n in entry.places:
        if argument != "free" or entry.schema.arguments[n].name not in _FREE:
            given[n], ndim = _whole(level, args[n], not argument or argument == "free")
            ndims.append(ndim)
    ndim = ndims[0]
    count = ndim + (argument == "insert") or 1
    flat = False
    for name in _DIMS & entry.names.keys():
        n = entry.names[name]
        value = args[n]
        is_list = entry.schema.arguments[n].type.required.is_list
        if is_list and isinstance(value, int):
            given[n] = shifted(entry, value, count)
        elif value is None and not is_list:
            given[entry.places[0]] = given[entry.places[0]].flatten(1)
            given[n], flat = 1, True
        elif value is None or is_list and not value and not _none_means_none(entry, name):
            given[n] = tuple(range(1, count + 1))
        elif is_list:
            if (
                not value and "shifts" in entry.names
            ):  # without dims, roll rolls the flattened elements
                x = args[0]
                return x.reshape(-1).roll(args[entry.names["shifts"]], 0).reshape(x.shape)
            given[n] = tuple([shifted(entry, d, count) for d in value])
        else:
            given[n] = shifted(entry, value, count)
    result = wrapped(level, call(entry.operator, *given))
    if ndims[-1 if "sparse_grad" in entry.names else 0] == 0 and argument != "insert":
        return each(result, lambda x: x.squeeze(0) if x._geometry.ndim == 1 else x)
    keep = entry.names.get("keepdim")
    if flat and keep is not None and args[keep]:
        return each(result, lambda x: x.reshape((1,) * ndim))
    return result


# Names of operands that have at most one dimension. All entries may share such an operand.
_FREE = ("index", "value")


def _named(entry: Entry, args: Args, name: str) -> Any:
    return args[entry.names[name]] if name in entry.names else None


def _none_means_none(entry: Entry, name: str) -> bool:
    """True if an empty list of dimensions stands for no dimension. Otherwise it stands for all
    dimensions."""
    if "dims" in (name, entry.operator.overload):
        return True
    return families.family_of(entry.operator.qualified_name) == "fft"


def _whole(level: Any, x: Any, is_filled: bool) -> tuple[Any, int]:
    """Return the operand as a batch, and the number of dimensions of its entries. An operand
    without the batch is expanded.

    is_filled: 0-d entries get one dimension.
    """
    if isinstance(x, (list, tuple)):
        ndim = max(item._geometry.ndim for item in x)
        kept = [item for item in x if ndim == 1 or item._geometry.sizes != (0,)]
        return tuple([_whole(level, item, is_filled)[0] for item in kept]), ndim
    if not isinstance(x, Tensor):
        return x, 0
    value, ndim = physical(level, x), x._geometry.ndim
    return value.unsqueeze(-1) if is_filled and not ndim else value, ndim


def whole(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for a reduction of all elements: it flattens each entry and calls the overload
    with `dim`.

    argument: the overload with `dim`; if it has several results, the first one is used.
    """
    by_dim = find(f"aten::{argument}")
    x = args[0]
    flat = x.value.reshape(level.size, -1)
    given: list[Any] = []
    for a in by_dim.schema.arguments:
        n = entry.names.get(a.name)
        if a.name == "self":
            given.append(flat)
        elif a.name in _DIMS:
            given.append((1,) if a.type.required.is_list else 1)
        elif n is not None:
            given.append(args[n])
        else:
            given.append(a.default_value if a.has_default else False)
    result = call(by_dim, *given)
    return batched(level, result if isinstance(result, Tensor) else result[0])


def unfold(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of unfold. A 0-d entry has one window, and its result has no dimension for
    windows."""
    x = args[0]
    made = dims(level, entry, args, "")
    return made if x._geometry.ndim else made.squeeze(0)


def permute(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    x = args[0]
    order = [shifted(entry, d, x._geometry.ndim) for d in args[1]]
    return batched(level, call(entry.operator, x.value, (0, *order)))


def t(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    x = args[0]
    if x._geometry.ndim > 2:
        raise errors.must("t", "self", "have at most 2 dimensions", x)
    return batched(level, x.value.transpose(1, 2) if x._geometry.ndim == 2 else x.value.alias())


def squeeze(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    x = args[0]
    ones = [n + 1 for n, size in enumerate(x._geometry.sizes) if size == 1]
    return batched(level, x.value.squeeze(tuple(ones)) if ones else x.value.alias())


# --- sizes ----------------------------------------------------------------------------------------

_SIZES = {"size", "sizes", "repeats"}


def sizes(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for arguments that are the sizes of a result: the size of the batch is
    inserted first."""
    given = list(args)
    x = args[0]
    given[0] = x.value
    for name in _SIZES & entry.names.keys():
        wanted = args[entry.names[name]]
        if name == "repeats":
            given[0] = aligned(x.value, x._geometry.ndim, len(wanted))
        elif -1 in wanted and not x._geometry.numel * level.size:
            wanted = [_inferred(x, wanted) if s == -1 else s for s in wanted]
        front = 1 if name == "repeats" else level.size
        given[entry.names[name]] = (front, *wanted)
    if "stride" in entry.names:
        strides = args[entry.names["stride"]]
        front = x.value._geometry.strides[0]
        if not entry.schema.is_view:  # the entries of a new tensor are stored one after the other
            extent = sum((n - 1) * s for n, s in zip(args[entry.names["size"]], strides))
            front = max(extent + 1, 1)
        given[entry.names["stride"]] = (front, *strides)
    return batched(level, call(entry.operator, *given))


def _inferred(x: Any, wanted: Sequence[int]) -> int:
    known = prod(s for s in wanted if s != -1)
    return x._geometry.numel // known if known else 0


def expand(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    x, wanted = args[0], args[1]
    value = aligned(x.value, x._geometry.ndim, len(wanted))
    return batched(level, call(entry.operator, value, (level.size, *wanted), *args[2:]))


def resized(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of resize_: each entry keeps its elements, as far as they fit the new sizes.
    PyTorch resizes the whole batch, so a smaller entry gets elements of other entries."""
    x, wanted = args[0], tuple(args[1])
    check_resize("resize_", x)
    count, kept = prod(wanted), x._geometry.numel
    value = x.value.reshape(level.size, kept)
    if count > kept:
        grown = value.new_empty((level.size, count))
        grown.narrow(1, 0, kept).copy_(value)
        value = grown
    made = value.narrow(1, 0, count).reshape(level.size, *wanted)
    x.hold(made, batched(level, made)._geometry, BATCHED)
    return x


# --- operators that take batches ----------------------------------------------------------------


def leading(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for operators on matrices with any number of leading dimensions: the batch
    becomes another leading dimension.

    argument: the number of the operator's own dimensions at the end; 2 by default.
    """
    own = int(argument or 2)
    tensors = [args[n] for n in entry.places if isinstance(args[n], Tensor)]
    if len(tensors) > 1 and any(x._geometry.ndim < own for x in tensors):
        return NotImplemented  # an operand is a vector, not a matrix
    rank = max(x._geometry.ndim for x in tensors)
    if own > rank:
        return NotImplemented
    given = list(args)
    for n in entry.places:
        if level.owns(args[n]) or len(tensors) > 1 and isinstance(args[n], Tensor):
            x = args[n]
            given[n] = aligned(physical(level, x), x._geometry.ndim, rank)
    return wrapped(level, call(entry.operator, *given))


def fold(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for images: the batch is merged with the dimension of samples. If there is no
    dimension of samples, the batch becomes this dimension.

    argument: the number of dimensions of one image, including the channels; 3 by default.
    """
    own = int(argument or 3)
    tensors = [n for n in entry.places if isinstance(args[n], Tensor)]
    ndim = args[tensors[0]]._geometry.ndim
    if ndim not in (own, own + 1) or any(args[n]._geometry.ndim != ndim for n in tensors):
        return NotImplemented
    given, outer = list(args), args[tensors[0]]._geometry.sizes[0]
    for n in tensors:
        value = physical(level, args[n])
        given[n] = value.flatten(0, 1) if ndim > own else value
    for name in {"input_size", "input_sizes"} & entry.names.keys():
        n = entry.names[name]
        wanted = args[n]
        joined = (level.size * outer, *wanted[1:])
        given[n] = joined if ndim > own else (level.size, *wanted)
    result = call(entry.operator, *given)
    return unfolded(level, result, outer) if ndim > own else wrapped(level, result)


def as_strided(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule of as_strided: the sizes and strides apply within each entry. The offset is
    that of the first entry."""
    x, wanted, strides, offset = args
    value = x.value
    offset = value._offset if offset is None else offset
    front = value._geometry.strides[0]
    return batched(
        level, call(entry.operator, value, (level.size, *wanted), (front, *strides), offset)
    )


def first(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule for operators in which only the first operand may have the batch."""
    if any(level.owns(args[n]) for n in entry.places[1:]):
        return NotImplemented
    return wrapped(level, call(entry.operator, args[0].value, *args[1:]))


def together(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule that puts the batch before the operands' own leading dimensions.

    argument: for each operand, the number of dimensions that are not leading dimensions.
    """
    if not all(args[n] for name, n in entry.names.items() if name.startswith("unpack")):
        return NotImplemented  # the result is empty
    given, owns = list(args), [int(n) for n in argument.split()]
    extra = max(args[n]._geometry.ndim - own for n, own in zip(entry.places, owns))
    for n, own in zip(entry.places, owns):
        given[n] = aligned(physical(level, args[n]), args[n]._geometry.ndim, extra + own)
    return wrapped(level, call(entry.operator, *given))


def check(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule that checks LAPACK's `info` of all entries at once."""
    return call(entry.operator, args[0].value, args[1], False)


def refused(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule that rejects an operator which returns element values to Python, or whose
    result's sizes depend on element values.
    """
    raise errors.vmap_data_dependent(entry.operator.short_name)


def loop(level: Any, entry: Entry, args: Args, argument: str) -> Any:
    """The batch rule that makes one call for each entry: for operators to which their family's rule
    does not apply."""
    return NotImplemented
