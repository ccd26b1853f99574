"""Errors of shapes, dimensions, dtypes, devices and other arguments of operators."""

from __future__ import annotations

from typing import Any

from .base import (
    Got, ArgumentError, ArgumentTypeError, ArgumentValueError, DeviceError, DtypeError,
    GpuTensorError, IndexRangeError, ShapeError, describe, describe_layout, must,
    wrong_type, wrong_value,
)  # fmt: skip
from .exchange import ExchangeError


# --- shapes and dimensions ------------------------------------------------------------------------


def dim_out_of_range(op: str, dim: int, ndim: int, arg: str = "dim") -> IndexRangeError:
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexRangeError(f"{op}: '{arg}' must be in [{low}, {high}] (got {describe(dim)})")


def not_broadcastable(op: str, a: Any, b: Any, dim: int | None = None) -> ShapeError:
    """Make the error for tensors a and b whose sizes do not broadcast. dim: a dimension at which
    the sizes differ, if known."""
    where = "" if dim is None else f"; they differ at dimension {dim}"
    got = f"(got self={describe(a)}, other={describe(b)})"
    return ShapeError(f"{op}: 'other' must broadcast with 'self' {got}{where}")


def view_incompatible(op: str, sizes: Any, geometry: Any) -> ShapeError:
    return ShapeError(
        f"{op}: 'size' must be a view of {describe_layout(geometry)} with strides "
        f"{tuple(geometry.strides)} (got {tuple(sizes)}); use .reshape(...) to copy where needed"
    )


def too_large(sizes: Any) -> GpuTensorError:
    """Make the error for sizes that no tensor can have: too many dimensions or elements."""
    rule = "have at most 64 dimensions" if len(sizes) > 64 else "hold fewer than 2**63 elements"
    return must("tensor", "size", rule, tuple(sizes), kind=ShapeError)


def read_only(op: str, arg: str, tensor: Any) -> GpuTensorError:
    remedy = "its memory is another library's and read-only; write to a .clone()"
    return wrong_value(op, arg, "be writable", tensor, remedy=remedy)


def wrong_numel(op: str, sizes: Any, numel: int) -> ShapeError:
    return ShapeError(f"{op}: 'size' must hold {numel} elements (got {tuple(sizes)})")


# --- devices --------------------------------------------------------------------------------------


def no_device(kind: str, reason: str) -> DeviceError:
    """Make the error for a device that this machine does not have. The message has the reason; for
    CUDA it refers to `gputensor doctor`."""
    more = " (gputensor doctor says what is missing)" if kind == "cuda" else ""
    return DeviceError(f"{kind}: no device ({reason}); use device='cpu'{more}")


def mixed_devices(op: str, first: Any, first_arg: str, other: Any, other_arg: str) -> DeviceError:
    return DeviceError(
        f"{op}: all tensors must be on one device (got {first_arg}={describe(first)}, "
        f"{other_arg}={describe(other)})"
    )


# --- values ---------------------------------------------------------------------------------------


def no_storage(op: str, what: Any) -> ArgumentError:
    return ArgumentError(f"{op}: 'self' must have data (got {describe(what)})")


def storage_too_small(nbytes: int) -> ArgumentError:
    return ArgumentError(
        f"storage: a tensor's elements must be in its storage (it was resized to {nbytes} bytes)"
    )


# --- arguments ------------------------------------------------------------------------------------


def not_a_tensor(op: str, arg: str, wanted: str, got: Any) -> ArgumentTypeError:
    is_list = "list" in wanted and isinstance(got, (list, tuple))
    if is_list and not all(hasattr(value, "_keys") for value in got):
        number, value = next((i, v) for i, v in enumerate(got) if not hasattr(v, "_keys"))
        arg, got, wanted = f"{arg}[{number}]", value, "a Tensor"
    return ArgumentTypeError(f"{op}: '{arg}' must be {wanted} (got {describe(got)})")


# Maps a schema type to its words in error messages: the words for one value, and a plural noun.
_WORDS = {
    "Tensor": ("a Tensor", "Tensors"), "int": ("an int", "ints"), "SymInt": ("an int", "ints"),
    "float": ("a number", "numbers"), "complex": ("a number", "numbers"),
    "bool": ("a bool", "bools"), "Scalar": ("a number", "numbers"),
    "number": ("a number", "numbers"), "str": ("a string", "strings"),
    "Device": ("a device", "devices"), "MemoryFormat": ("a memory format", "memory formats"),
    "Layout": ("a layout", "layouts"), "Storage": ("a Storage", "Storages"),
    "Generator": ("a Generator", "Generators"), "Callable": ("callable", "functions"),
    "Iterable": ("iterable", "iterables"), "dict": ("a dict", "dicts"),
    "Mapping": ("a mapping", "mappings"), "Optimizer": ("an Optimizer", "Optimizers"),
    "Parameters": ("a sequence of Tensors", "sequences"),
    "ScalarType": ("a dtype", "dtypes"),
}  # fmt: skip


def unfit(op: str, arg: str, types: list[Any], got: Any) -> GpuTensorError:
    """Make the error for an argument that fits none of its declared types."""
    bases = list(dict.fromkeys(t.base for t in types))
    if bases == ["ScalarType"]:
        return not_a_dtype(op, got, arg)
    if _is_long(got) and not {"Tensor", "str", "Device"}.issuperset(bases):
        return must(op, arg, "fit into 64 bits", got)
    wanted = dict.fromkeys(_in_words(t.required) for t in types)
    if bases == ["Tensor"] and len(wanted) == 1:
        return not_a_tensor(op, arg, next(iter(wanted)), got)
    return wrong_type(op, arg, f"be {' or '.join(wanted)}", got)


def _in_words(form: Any) -> str:
    one, many = _WORDS.get(form.base) or (str(form.base), str(form.base))
    if not form.is_list:
        return one
    return f"a list of {many}" if form.has_tensor else f"a tuple of {many}"


def _is_long(got: Any) -> bool:
    """True if an int, or an int in a sequence, needs more than 64 bits."""
    values = got if isinstance(got, (list, tuple)) else (got,)
    return any(isinstance(x, int) and not -(2**63) <= x < 2**63 for x in values)


def not_a_dtype(op: str, got: Any, arg: str = "dtype") -> ArgumentTypeError:
    what = got.__name__ if isinstance(got, type) else describe(got)
    # show the name of a NumPy dtype, because the name of its class is less helpful
    what = str(got) if what.endswith("DType") else what
    return ArgumentTypeError(f"{op}: '{arg}' must be a gputensor dtype (got {what})")


def not_given(op: str, arg: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: '{arg}' must be given (got nothing)")


def named_twice(op: str, arg: str, other: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: '{arg}' and '{other}' must not both be given")


def not_exchangeable(op: str, arg: str, rule: str, got: Any, remedy: str = "") -> GpuTensorError:
    return must(op, arg, rule, got, kind=ExchangeError, remedy=remedy)


class MissingAttribute(GpuTensorError, AttributeError):
    """Error for an attribute that a tensor or the library does not have. The class is an
    AttributeError, so hasattr() returns False."""


def no_cuda_array_interface(tensor: Any) -> GpuTensorError:
    rule = "be on a real CUDA device"
    return must("__cuda_array_interface__", "self", rule, tensor, kind=MissingAttribute)


def no_array_attribute(reason: GpuTensorError) -> MissingAttribute:
    """Make the error for an array interface that a tensor does not offer. reason: the error that
    explains why NumPy must not read the tensor's memory."""
    return MissingAttribute(str(reason))


def no_form(op: str, *forms: str) -> ArgumentTypeError:
    listed = " or ".join(f"({form})" for form in forms)
    return ArgumentTypeError(f"{op}: arguments must be those of one form: {listed}")


def no_out(op: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: 'out' must be left out beside these arguments")


def too_many(op: str, most: int) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: must have at most {most} positional arguments")


class FileFormatError(GpuTensorError, ValueError):
    """Error for a file that is damaged or that `save` did not write."""


def damaged_file(op: str, name: Any, why: str) -> FileFormatError:
    which = "" if name is None else f" {str(name)!r}"
    return FileFormatError(f"{op}: 'f' must be a whole file that save wrote (got{which}: {why})")


def refused_in_file(op: str, name: Any, what: str) -> FileFormatError:
    """Make the error for a class in a pickle that `load` does not construct."""
    which = "" if name is None else f" {str(name)!r}"
    return FileFormatError(
        f"{op}: 'f' must hold tensors, numbers, strings and containers alone (got{which}: it names "
        f"{what}); save its state_dict(), or allow it by gt.serialization.add_safe_globals"
    )


# --- promotion ------------------------------------------------------------------------------------


def no_promotion(op: str, a: Any, b: Any) -> DtypeError:
    has_float8 = a.name.startswith("float8") or b.name.startswith("float8")
    what = "float8 and another dtype" if has_float8 else "uint64 and negative integers"
    return DtypeError(f"{op}: no dtype holds {what} (got {a.name} and {b.name}); cast one of them")


def no_operands(op: str) -> ArgumentValueError:
    return ArgumentValueError(f"{op}: 'tensors' must hold at least one tensor or number (got none)")


# --- iterator -------------------------------------------------------------------------------------


class Layout:
    """The geometry and the device of an operand. Error messages describe a Layout where no Tensor
    object exists."""

    __slots__ = ("_geometry", "_device")

    def __init__(self, operand: tuple[Any, Any]) -> None:
        self._geometry, self._device = operand


def operands_do_not_broadcast(
    op: str, a: Any, a_arg: str, b: Any, b_arg: str, dim: int
) -> ShapeError:
    """Make the error for operands that do not broadcast. dim counts from the front of the longer
    shape."""
    a_sizes, b_sizes = a[0].sizes, b[0].sizes
    back = dim - max(len(a_sizes), len(b_sizes))
    return ShapeError(
        f"{op}: '{b_arg}' must broadcast with '{a_arg}' (got {a_arg}={describe(Layout(a))}, "
        f"{b_arg}={describe(Layout(b))}); sizes {a_sizes[back]} and {b_sizes[back]} differ at "
        f"dimension {dim}"
    )


def output_shape(op: str, arg: str, output: Any, sizes: tuple[int, ...]) -> ShapeError:
    return ShapeError(
        f"{op}: '{arg}' must have the broadcast shape [{','.join(map(str, sizes))}] "
        f"(got {describe(Layout(output))})"
    )


def operand_devices(op: str, first: Any, first_arg: str, other: Any, other_arg: str) -> DeviceError:
    return mixed_devices(op, Layout(first), first_arg, Layout(other), other_arg)


def too_many_cpu_scalars(op: str, arg: str, operand: Any, allowed: int) -> DeviceError:
    return DeviceError(
        f"{op}: '{arg}' must be on the other operands' device: at most {allowed} CPU scalar may "
        f"join them (got {describe(Layout(operand))})"
    )


def dtypes_differ(op: str, arg: str, operand: Any, expected: Any) -> DtypeError:
    return DtypeError(f"{op}: '{arg}' must be {expected.name} (got {describe(Layout(operand))})")


def cannot_cast_result(op: str, arg: str, result: Any, output: Any) -> DtypeError:
    """Make the error for PyTorch's "result type X can't be cast to the desired output type
    Y"."""
    return DtypeError(
        f"{op}: '{arg}' must be of a dtype that the result type {result.name} can be cast to "
        f"(got {describe(Layout(output))})"
    )


def internal_overlap(op: str, arg: str, output: Any) -> ArgumentError:
    geometry = output[0]
    return ArgumentError(
        f"{op}: '{arg}' must not hold one memory location more than once (got "
        f"{describe(Layout(output))} with strides {geometry.strides}); use .clone() first"
    )


def partial_overlap(op: str, arg: str) -> ArgumentError:
    return ArgumentError(
        f"{op}: '{arg}' must not share part of its memory with the output "
        f"(got a partial overlap); use .clone() first"
    )


def output_resized(op: str, out: Any, wanted: Any) -> str:
    """Return the text of the warning about a resized `out`."""
    return (
        f"{op}: 'out' was resized to {tuple(wanted.sizes)} (got {describe(out)}); "
        "give an empty tensor, or one of the result's size"
    )


def byte_condition(condition: Any) -> str:
    """Return the text of the warning about a uint8 condition."""
    got = f"(got {describe(condition)}); it counts as condition != 0"
    return f"where: 'condition' must be bool {got}"


def target_out_of_range(op: str, target: int, classes: int) -> GpuTensorError:
    rule = f"hold classes in [0, {classes - 1}], or ignore_index"
    return must(op, "target", rule, Got(str(target)), kind=IndexRangeError)


def other_target_sizes(op: str, input: Any, target: Any) -> str:
    """Return the text of the warning about a target with other sizes than the input."""
    rule = f"have input's sizes {list(input)}, or both are broadcast"
    return f"{op}: 'target' should {rule} (got {list(target)})"


def deprecated(op: str, what: str, remedy: str) -> str:
    """Return the text of the warning about an argument or a name that PyTorch deprecates."""
    return f"{op}: {what} deprecated; {remedy}"


def no_probability(op: str) -> GpuTensorError:
    return must(op, "self", "be in [0, 1]", Got("another number"))


def index_out_of_range(op: str, index: int, dim: int, size: int, wraps: bool) -> GpuTensorError:
    rule = f"be in [{-size if wraps else 0}, {size - 1}] at dimension {dim}"
    return must(op, "index", rule, Got(str(index)), kind=IndexRangeError)


def byte_mask(index: Any) -> str:
    """Return the text of the warning about a uint8 mask."""
    return f"index: 'index' must be bool where it is a mask (got {describe(index)}); use .bool()"


def reverses_all_dimensions(x: Any) -> str:
    return f"T: 'self' should have at most 2 dimensions (got {describe(x)}); use .mT or .permute()"


def linear_loss_is_whole() -> str:
    return (
        "linear_cross_entropy: 'options' are ignored, because chunks need one class as the target "
        "of each sample, and no label_smoothing"
    )
