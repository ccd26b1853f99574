"""Every exception class and every message of the project.

A message is built here and only on the unhappy path; it has one line, names the operator and the
argument, states the rule and says what was given. Where PyTorch's users match on PyTorch's wording,
that wording is matched here, once. It does not decide *when* something is wrong.
"""

from __future__ import annotations

from typing import Any


class GpuTensorError(Exception):
    """Base of all exceptions raised by gputensor; each subclass is also the builtin type PyTorch raises."""


class ArgumentError(GpuTensorError, RuntimeError):
    """A value that the operator cannot take."""


class ArgumentTypeError(GpuTensorError, TypeError):
    """An argument of the wrong type."""


class ArgumentValueError(GpuTensorError, ValueError):
    """A value outside what the argument may be."""


class ShapeError(GpuTensorError, RuntimeError):
    """Sizes, strides or views that do not fit."""


class IndexRangeError(GpuTensorError, IndexError):
    """A dimension or an index outside its range."""


class DtypeError(GpuTensorError, RuntimeError):
    """A dtype that the operator cannot take or produce."""


class DeviceError(GpuTensorError, RuntimeError):
    """A device that is absent, or devices that may not meet in one operator."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A device allocator that cannot serve a request; the message carries the figures."""


class DispatchError(GpuTensorError, NotImplementedError):
    """No kernel for the keys of a call."""


class RegistrationError(GpuTensorError, RuntimeError):
    """A definition or registration that contradicts another one."""


class SchemaError(GpuTensorError, ValueError):
    """Text that is not an operator schema."""


class KernelError(GpuTensorError, RuntimeError):
    """A CUDA C kernel that does not compile, load, launch or run."""


def describe(value: Any) -> str:
    """One spelling of any value in a message: `f32[3,4] cuda:0` for a tensor, else its repr and type."""
    geometry = getattr(value, "_geometry", None)
    if geometry is not None:
        return describe_layout(geometry, getattr(value, "_device", None))
    if isinstance(value, (list, tuple)) and value and all(hasattr(v, "_geometry") for v in value):
        return "[" + ", ".join(describe(v) for v in value) + "]"
    if value is None or isinstance(value, (bool, int, float, complex, str, list, tuple)):
        return repr(value)
    if hasattr(value, "short") or type(value).__module__.startswith("gputensor"):
        return str(value)
    return type(value).__name__


def describe_layout(geometry: Any, device: Any = None) -> str:
    """`f32[3,4] cpu`; the device is left out where it is not known."""
    text = f"{geometry.dtype.short}[{','.join(map(str, geometry.sizes))}]"
    return text if device is None else f"{text} {device}"


def must(
    op: str, arg: str, rule: str, got: Any, *, kind: type[GpuTensorError] = ArgumentError, remedy: str = ""
) -> GpuTensorError:
    """The house sentence: `{op}: '{arg}' must {rule} (got {what})`, then `; {remedy}` where it is sure.

    `got` is described by `describe`, unless it is already a sentence part given as `Got`.
    """
    what = got.text if type(got) is Got else describe(got)
    tail = f"; {remedy}" if remedy else ""
    return kind(f"{op}: '{arg}' must {rule} (got {what}){tail}")


class Got:
    """A ready-made text for the `(got …)` part of a message."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# --- shapes and dimensions ----------------------------------------------------------------------


def dim_out_of_range(op: str, dim: int, ndim: int, arg: str = "dim") -> IndexRangeError:
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    return IndexRangeError(f"{op}: '{arg}' must be in [{low}, {high}] (got {dim})")


def not_broadcastable(op: str, a: Any, b: Any, dim: int | None = None) -> ShapeError:
    """PyTorch's sentence about the size of tensor a and b, in the house's frame."""
    where = "" if dim is None else f"; they differ at dimension {dim}"
    return ShapeError(f"{op}: 'other' must broadcast with 'self' (got self={describe(a)}, other={describe(b)}){where}")


def view_incompatible(op: str, sizes: Any, geometry: Any) -> ShapeError:
    return ShapeError(
        f"{op}: 'size' must be a view of {describe_layout(geometry)} with strides "
        f"{tuple(geometry.strides)} (got {tuple(sizes)}); use .reshape(...) to copy where needed"
    )


def wrong_numel(op: str, sizes: Any, numel: int) -> ShapeError:
    return ShapeError(f"{op}: 'size' must hold {numel} elements (got {tuple(sizes)})")


# --- devices ------------------------------------------------------------------------------------


def no_device(kind: str, reason: str) -> DeviceError:
    return DeviceError(f"{kind}: no device ({reason}); use device='cpu'")


def mixed_devices(op: str, first: Any, first_arg: str, other: Any, other_arg: str) -> DeviceError:
    return DeviceError(
        f"{op}: all tensors must be on one device (got {first_arg}={describe(first)}, "
        f"{other_arg}={describe(other)})"
    )


# --- values -------------------------------------------------------------------------------------


def no_storage(op: str, what: Any) -> ArgumentError:
    return ArgumentError(f"{op}: 'self' must have data (got {describe(what)})")


# --- schema -------------------------------------------------------------------------------------


def bad_schema(text: str, position: int, rule: str, got: str) -> SchemaError:
    """A schema that does not parse: where it stops, in columns from 1, and the whole text."""
    return SchemaError(f"schema: column {position + 1} must {rule} (got {got!r}) in {text!r}")

# --- dispatch -----------------------------------------------------------------------------------


def schema_missing(operator: Any) -> DispatchError:
    return DispatchError(
        f"{operator.qualified_name}: a kernel is registered but no schema; define it with Library.define"
    )


def operator_not_found(name: str, operator: Any) -> DispatchError:
    if operator is not None:
        return schema_missing(operator)
    return DispatchError(f"{name}: no such operator is registered")


def defined_twice(operator: Any, site: str) -> RegistrationError:
    return RegistrationError(
        f"{operator.qualified_name}: defined twice, at {operator.def_site} and at {site}; schema {operator.schema}"
    )


def fallback_twice(key: Any, first: str, second: str) -> RegistrationError:
    return RegistrationError(f"{key}: a backend fallback is registered at {first}, and again at {second}")


def unknown_key(name: Any, known: Any) -> GpuTensorError:
    """A dispatch key that does not exist, with the nearest one that does."""
    import difflib

    near = difflib.get_close_matches(str(name), known, 1)
    remedy = f"did you mean {near[0]}" if near else ""
    return must("dispatch", "dispatch_key", "name a dispatch key", name, remedy=remedy)


def alias_key(name: str) -> GpuTensorError:
    return must(
        "dispatch", "dispatch_key", "be a run-time key; alias keys exist at registration only", Got(name)
    )


def no_kernel(operator: Any, key: Any, table: str, remedy: str = "") -> DispatchError:
    """Names the operator, the key, the keys that have kernels; a remedy; then the computed table."""
    return DispatchError(
        f"{operator.short_name}: no kernel for key {key} (kernels are registered at: "
        f"{_registered_at(operator)}){'; ' if remedy else ''}{remedy}{_table_of(operator, table)}"
    )


def masked_by_fallthrough(operator: Any, skipped: Any, table: str) -> DispatchError:
    """The operator has no kernel below the keys that were told to fall through."""
    names = ", ".join(f"{key} (registered at {kernel.site})" for key, kernel in skipped)
    return DispatchError(
        f"{operator.short_name}: no kernel is left, as a fallthrough masks the key {names}"
        f"{_table_of(operator, table)}"
    )


def no_dispatch_keys(operator: Any, table: str) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: no tensor arguments, or an empty list of tensors, so nothing chooses a "
        f"backend (kernels are registered at: {_registered_at(operator)}){_table_of(operator, table)}"
    )


def _registered_at(operator: Any) -> str:
    return ", ".join(str(k) for k in operator.kernels) or "none"


def _table_of(operator: Any, table: str) -> str:
    schema = operator.definition.schema if operator.definition else "(none)"
    site = operator.definition.site if operator.definition else "nowhere"
    return f"\nschema: {schema}, registered at {site}\n{table.rstrip()}"


def ambiguous_autograd_other(operator: Any) -> DispatchError:
    return DispatchError(
        f"{operator.short_name}: AutogradOther is ambiguous between CompositeImplicitAutograd and a "
        "backend kernel; register a kernel at AutogradOther"
    )


def wrong_stack(operator: Any, expected: int, got: int) -> DispatchError:
    return DispatchError(
        f"{operator.qualified_name}: a boxed kernel must leave {expected} values on the stack (got {got})"
    )


def short_stack(operator: Any, expected: int, got: int) -> DispatchError:
    return DispatchError(
        f"{operator.qualified_name}: a boxed call must find {expected} values on the stack (got {got})"
    )


def wrong_return(operator: Any, site: str, result: Any) -> ArgumentTypeError:
    returns = operator.schema.returns
    types = str(returns[0]) if len(returns) == 1 else f"({', '.join(map(str, returns))})"
    return ArgumentTypeError(
        f"{operator.short_name}: the kernel registered at {site} must return {types} (got {describe(result)})"
    )


def wrong_argument(operator: Any, argument: Any, position: int, value: Any) -> ArgumentTypeError:
    """A value that the declared type does not take: type found, position, value, declaration."""
    return ArgumentTypeError(
        f"{operator.short_name}: '{argument.name}' must be {argument.type} (got {type(value).__name__} "
        f"{describe(value)} at position {position}); declaration {operator.schema}"
    )


def too_many_arguments(operator: Any, takes: int, got: int) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{operator.short_name}: takes {takes} positional arguments (got {got}); declaration {operator.schema}"
    )


def argument_twice(operator: Any, name: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{operator.short_name}: '{name}' given by position and by name; declaration {operator.schema}"
    )


def argument_missing(operator: Any, name: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{operator.short_name}: '{name}' must be given; declaration {operator.schema}")


def argument_unknown(operator: Any, name: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{operator.short_name}: no argument '{name}'; declaration {operator.schema}")


def no_overload_fits(name: str, reasons: list[str]) -> ArgumentTypeError:
    """One line an overload, in the order in which they were tried."""
    return ArgumentTypeError(f"{name}: no overload takes these arguments\n" + "\n".join(reasons))


# --- library ------------------------------------------------------------------------------------


class OverrideWarning(UserWarning):
    """A kernel took the place of another one."""


def kernel_overridden(operator: Any, key: Any, before: str, after: str) -> OverrideWarning:
    schema = operator.definition.schema if operator.definition else "(none)"
    return OverrideWarning(
        f"{operator.qualified_name}: the kernel for {key} registered at {before} is overridden by the one "
        f"registered at {after}; schema {schema}"
    )


def may_not_override(operator: Any, key: Any, before: str, after: str) -> RegistrationError:
    return RegistrationError(
        f"{operator.qualified_name}: a kernel for {key} is registered at {before}, and allow_override=False "
        f"at {after}"
    )


def kernel_does_not_fit(
    operator: Any, definition: Any, kernel: Any, signature: str, reason: str
) -> RegistrationError:
    name = getattr(kernel.function, "__name__", "kernel")
    return RegistrationError(
        f"{operator.qualified_name}: the schema {definition.schema} registered at {definition.site} and the "
        f"kernel {name}{signature} registered at {kernel.site} must agree: {reason}"
    )


def fallthrough_called() -> DispatchError:
    return DispatchError("fallthrough_kernel: must be given to Library.impl or Library.fallback, not called")


def wrong_registration(what: str, rule: str, site: str, remedy: str = "") -> RegistrationError:
    """A call of Library that breaks a rule of registration; `site` is where the call stands."""
    tail = f"; {remedy}" if remedy else ""
    return RegistrationError(f"{what} must {rule} (at {site}){tail}")


def second_library(namespace: str, first: str, second: str) -> RegistrationError:
    return RegistrationError(
        f"Library: namespace '{namespace}' has one DEF library, made at {first} (got another at {second}); "
        "use FRAGMENT to define more operators, IMPL to register kernels"
    )


def no_schema_for(name: str, what: str, got: Any) -> ArgumentValueError:
    """A function whose annotations do not make a schema."""
    return ArgumentValueError(f"{name}: {what} must have an annotation that a schema can say (got {got})")


# --- runtime ------------------------------------------------------------------------------------


def device_index_out_of_range(op: str, index: object, count: int) -> DeviceError:
    return DeviceError(f"{op}: 'device' must be in [0, {count - 1}] (got {index})")


def out_of_memory(device: str, requested: int, figures: dict[str, int]) -> OutOfMemoryError:
    """What was asked for and where the memory is; the figures are bytes."""
    parts = ", ".join(f"{name} {_size(figures[name])}" for name in figures)
    return OutOfMemoryError(f"{device}: cannot allocate {_size(requested)} ({parts})")


def _size(nbytes: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes / (1 << shift):.2f} {unit}"
    return f"{nbytes} bytes"


def kernel_failed(entry: str, what: str) -> KernelError:
    """A kernel that ran wrong: what happened, and where (block, thread, file and line if known)."""
    return KernelError(f"{entry}: {what}")


def kernel_not_compiled(title: str, defines: dict[str, object], log: str) -> KernelError:
    """The compiler's log, under a first line that names the text and its defines."""
    given = " ".join(f"-D{name}={value}" for name, value in defines.items())
    return KernelError(f"{title}: does not compile with {given or 'no defines'}\n{log.strip()}")


def cannot_launch(entry: str, arg: str, rule: str, got: object) -> KernelError:
    return KernelError(f"{entry}: '{arg}' must {rule} (got {got})")


def wrong_setting(name: str, rule: str, got: str) -> ArgumentValueError:
    """An environment variable with a value that means nothing."""
    return ArgumentValueError(f"{name}: must {rule} (got {got!r})")


def wrong_pointer(op: str, arg: str, rule: str, got: str) -> DeviceError:
    return DeviceError(f"{op}: '{arg}' must {rule} (got {got})")


# --- promotion ----------------------------------------------------------------------------------


def no_promotion(op: str, a: Any, b: Any) -> DtypeError:
    """PyTorch's sentence about uint16, uint32, uint64, in the house's frame."""
    return DtypeError(
        f"{op}: promotion for uint16, uint32, uint64 types is not supported "
        f"(got {a.name} and {b.name}); cast one of them"
    )


def no_operands(op: str) -> ArgumentValueError:
    return ArgumentValueError(f"{op}: 'tensors' must hold at least one tensor or number (got none)")


# --- iterator -----------------------------------------------------------------------------------


class Layout:
    """A geometry on a device, where a message must describe an operand that is no tensor object."""

    __slots__ = ("_geometry", "_device")

    def __init__(self, operand: tuple[Any, Any]) -> None:
        self._geometry, self._device = operand


def operands_do_not_broadcast(op: str, a: Any, a_arg: str, b: Any, b_arg: str, dim: int) -> ShapeError:
    """`dim` counts from the front of the longer shape, as in PyTorch."""
    a_sizes, b_sizes = a[0].sizes, b[0].sizes
    back = dim - max(len(a_sizes), len(b_sizes))
    return ShapeError(
        f"{op}: '{b_arg}' must broadcast with '{a_arg}' (got {a_arg}={describe(Layout(a))}, "
        f"{b_arg}={describe(Layout(b))}); sizes {a_sizes[back]} and {b_sizes[back]} differ at dimension {dim}"
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
        f"{op}: '{arg}' must be on the other operands' device: at most {allowed} CPU scalar may join "
        f"them (got {describe(Layout(operand))})"
    )


def dtypes_differ(op: str, arg: str, operand: Any, expected: Any) -> DtypeError:
    return DtypeError(f"{op}: '{arg}' must be {expected.name} (got {describe(Layout(operand))})")


def cannot_cast_result(op: str, arg: str, result: Any, output: Any) -> DtypeError:
    """PyTorch: result type X can't be cast to the desired output type Y."""
    return DtypeError(
        f"{op}: '{arg}' must be of a dtype that the result type {result.name} can be cast to "
        f"(got {describe(Layout(output))})"
    )


def internal_overlap(op: str, arg: str, output: Any) -> ArgumentError:
    geometry = output[0]
    return ArgumentError(
        f"{op}: '{arg}' must not hold one memory location more than once (got {describe(Layout(output))} "
        f"with strides {geometry.strides}); use .clone() first"
    )


def partial_overlap(op: str, arg: str) -> ArgumentError:
    return ArgumentError(
        f"{op}: '{arg}' must not share part of its memory with the output "
        f"(got a partial overlap); use .clone() first"
    )


def output_resized(op: str, out: Any, wanted: Any) -> str:
    """Text of a warning."""
    return (
        f"{op}: 'out' was resized to {tuple(wanted.sizes)} (got {describe(out)}); "
        "give an empty tensor, or one of the result's size"
    )


# --- stubs --------------------------------------------------------------------------------------


def no_stub(family: str, op: str, device_type: str) -> DispatchError:
    return DispatchError(
        f"{op}: no kernel of family '{family}' for device type '{device_type}' (register one with register_stub)"
    )


# --- cpu kernels --------------------------------------------------------------------------------


class DivisionByZeroError(GpuTensorError, ZeroDivisionError):
    """An integer divided by zero on a device that can tell."""


def division_by_zero(op: str) -> DivisionByZeroError:
    return DivisionByZeroError(f"{op}: 'other' must not hold 0 (got integers, rounded)")


# --- tensor surface -----------------------------------------------------------------------------


class ExchangeError(GpuTensorError, BufferError):
    """Memory that another library cannot be shown, or cannot show us."""


def unsupported_index(index: Any) -> IndexRangeError:
    """The one sentence about advanced indexing."""
    what = index.text if type(index) is Got else describe(index)
    return IndexRangeError(
        "index: 'index' must be made of ints, slices, None, at most one Ellipsis, at most one bool, and 0-d "
        f"tensors of a bool or integer dtype but uint8 (got {what}); lists, arrays, masks and longer tensors are "
        "not supported"
    )


def too_many_indices(tensor: Any, count: int) -> IndexRangeError:
    geometry = tensor._geometry
    return IndexRangeError(
        f"index: 'index' must have at most {geometry.ndim} ints and slices (got {count} for {describe(tensor)})"
    )


def cannot_assign(value: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"index: 'value' must be a number or a tensor (got {type(value).__name__}); use gputensor.asarray(...)"
    )


# --- arguments ----------------------------------------------------------------------------------


def not_a_tensor(op: str, arg: str, wanted: str, got: Any) -> ArgumentTypeError:
    is_list = "list" in wanted and isinstance(got, (list, tuple))
    if is_list and not all(hasattr(value, "_keys") for value in got):
        number, value = next((i, v) for i, v in enumerate(got) if not hasattr(v, "_keys"))
        arg, got, wanted = f"{arg}[{number}]", value, "a Tensor"
    return ArgumentTypeError(f"{op}: '{arg}' must be {wanted} (got {describe(got)})")


def not_a_dtype(op: str, got: Any, arg: str = "dtype") -> ArgumentTypeError:
    name = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}.get(got)
    tail = f"; use gputensor.{name}" if name else ""
    what = got.__name__ if isinstance(got, type) else describe(got)
    return ArgumentTypeError(f"{op}: '{arg}' must be a gputensor dtype (got {what}){tail}")


def not_given(op: str, arg: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: '{arg}' must be given (got nothing)")


def not_exchangeable(op: str, arg: str, rule: str, got: Any, remedy: str = "") -> GpuTensorError:
    return must(op, arg, rule, got, kind=ExchangeError, remedy=remedy)


class MissingAttribute(GpuTensorError, AttributeError):
    """An attribute that this tensor does not have, so that hasattr() says so."""


def no_cuda_array_interface(tensor: Any) -> GpuTensorError:
    return must(
        "__cuda_array_interface__", "self", "be on a real CUDA device", tensor, kind=MissingAttribute
    )


def too_many(op: str, most: int) -> ArgumentTypeError:
    return ArgumentTypeError(f"{op}: must have at most {most} positional arguments")


class FileFormatError(GpuTensorError, ValueError):
    """A file that is damaged, or that `save` did not write."""


def damaged_file(op: str, name: Any, why: str) -> FileFormatError:
    which = "" if name is None else f" {str(name)!r}"
    return FileFormatError(f"{op}: 'f' must be a whole file that save wrote (got{which}: {why})")


# --- cuda kernels -------------------------------------------------------------------------------


def no_cuda_kernel(op: str, dtype: Any) -> DtypeError:
    return DtypeError(f"{op}: no CUDA kernel computes in {dtype.short}")


def too_many_dims(op: str, ndim: int, most: int) -> ShapeError:
    return ShapeError(
        f"{op}: 'self' must have at most {most} dimensions after joining those that memory joins (got {ndim})"
    )


def cannot_load_to(place: Any, error: Exception) -> DeviceError:
    return DeviceError(
        f"load: 'map_location' must name a device of this process (got {place}: {error}); use map_location='cpu'"
    )


def ragged(expected: int, dim: int, got: str) -> ArgumentValueError:
    """PyTorch: expected sequence of length 2 at dim 1 (got 3)."""
    return ArgumentValueError(f"tensor: 'data' must have length {expected} at dim {dim} (got {got})")


def number_out_of_range(op: str, element: Any, number: Any) -> ArgumentError:
    """PyTorch: value cannot be converted to type X without overflow."""
    return ArgumentError(f"{op}: 'data' must be in the range of {element.name} (got {number})")
