"""Compute the operands' common device and dtype, and the action for each output.

All exceptions about the devices and dtypes of an iteration are raised here.
"""

from __future__ import annotations

from typing import Any

from ..core import errors, promotion
from ..core.device import CPU
from ..core.dtype import FLOATING, bool_
from ..core.geometry import Sizes
from .overlap import YES, internal_overlap

ALLOCATE, KEEP, RESIZE = "allocate", "keep", "resize"

Operands = tuple[Any, ...]


def common_device(op: str, config: Any, outputs: Operands, inputs: Operands) -> tuple[Any, Sizes]:
    """Return the device of the first operand that is not on the CPU, and the indices of CPU
    scalars.
    """
    named = _named_tensors(config, outputs, inputs)
    first = next(entry for entry in named if entry[2][1] is not CPU)
    device = first[2][1]
    scalars: list[int] = []
    for index, name, x in named:
        if x[1] is device:
            continue
        if x[1] is not CPU or x[0].ndim or index < len(outputs) or not config.cpu_scalars:
            raise errors.operand_devices(op, first[2], first[1], x, name)
        if len(scalars) == config.cpu_scalars:
            raise errors.too_many_cpu_scalars(op, name, x, config.cpu_scalars)
        scalars.append(index)
    return device, tuple(scalars)


def _named_tensors(config: Any, outputs: Operands, inputs: Operands) -> list[tuple[int, str, Any]]:
    named = [(i, output_name(config, x, inputs), x) for i, x in enumerate(outputs)]
    first = len(outputs)
    named += [(i, config.input_name(i - first), x) for i, x in enumerate(inputs, first)]
    return [entry for entry in named if type(entry[2]) is tuple]


def output_name(config: Any, output: Any, inputs: Operands) -> str:
    """Return an output's name in messages: `self` if it is written in place, otherwise `out`."""
    return "self" if not config.resize_outputs or is_read_write(output, inputs) else "out"


def is_read_write(output: Any, inputs: Operands) -> bool:
    for x in inputs:
        if x is output:
            return True
    return False


def common_dtype(op: str, config: Any, inputs: Operands, default_dtype: Any) -> Any:
    """Return the common dtype of the inputs that take part in type promotion. Inputs before them,
    such as a mask, must be bool."""
    start = config.promote_from
    if start:
        for i, x in enumerate(inputs[:start]):
            if x[0].dtype is not bool_:
                raise errors.dtypes_differ(op, config.input_name(i), x, bool_)
        inputs = inputs[start:]
    common = None
    for x in inputs:
        # Promote only if an input is a Python number or the dtypes differ.
        if type(x) is not tuple or (common is not None and x[0].dtype is not common):
            common = promotion.result_type(op, inputs, default_dtype)
            break
        common = x[0].dtype
    assert common is not None, op
    if config.promote_integer_inputs_to_float and common.category < FLOATING:
        return default_dtype
    return common


def single_dtype(op: str, config: Any, outputs: Operands, inputs: Operands, fallback: Any) -> Any:
    """Return the dtype for inputs that take no part in type promotion: the dtype of the first
    input, or of the output if there are no inputs."""
    first = None
    for i, x in enumerate(inputs):
        if type(x) is tuple:
            if first is None:
                first = x[0].dtype
            elif config.check_all_same_dtype and x[0].dtype is not first:
                raise errors.dtypes_differ(op, config.input_name(i), x, first)
    if first is not None:
        return first
    return next((x[0].dtype for x in outputs if x is not None), fallback)


def output_action(
    op: str, config: Any, output: Any, inputs: Operands, sizes: Sizes, result: Any
) -> str:
    """Return the action for an output: allocate, keep or resize. Raise if this output cannot
    receive the result."""
    if output is None:
        return ALLOCATE
    geometry = output[0]
    if config.check_mem_overlap and internal_overlap(geometry) == YES:
        raise errors.internal_overlap(op, output_name(config, output, inputs), output)
    fits = geometry.sizes == sizes
    if not fits and (not config.resize_outputs or is_read_write(output, inputs)):
        raise errors.output_shape(op, output_name(config, output, inputs), output, sizes)
    element = geometry.dtype
    if element is not result:
        if config.check_all_same_dtype or not config.cast_common_dtype_to_outputs:
            raise errors.dtypes_differ(op, output_name(config, output, inputs), output, result)
        if config.enforce_safe_casting_to_output and not promotion.can_cast(result, element):
            raise errors.cannot_cast_result(op, output_name(config, output, inputs), result, output)
    return KEEP if fits else RESIZE
