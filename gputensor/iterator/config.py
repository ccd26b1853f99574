"""The flags of PyTorch's TensorIteratorConfig, which select the checks and rules of an iteration.

`plan.build` implements them. The public builder is `tensor_iterator.TensorIteratorConfig`.
"""

from __future__ import annotations

from typing import Any

from ..core.dtype import bool_

_DEFAULTS: dict[str, Any] = {
    # True if an output must not overlap itself (checked in the plan) or a part of an input (checked
    # per call).
    "check_mem_overlap": True,
    # True if inputs and given outputs must have one dtype. Not used together with promotion or
    # casting.
    "check_all_same_dtype": True,
    "check_all_same_device": True,
    # True if a given output of the wrong size is resized. Otherwise the wrong size is an error.
    "resize_outputs": True,
    # Inputs from this index on take part in type promotion. Earlier inputs, such as a mask, do not.
    # None: there is no promotion.
    "promote_from": None,
    # True if the default dtype replaces a bool or integer common dtype.
    "promote_integer_inputs_to_float": False,
    # True if a given output may have a dtype other than the result's. Kernels then cast when they
    # store.
    "cast_common_dtype_to_outputs": False,
    # True if a given output must have a dtype to which the result can be cast.
    "enforce_safe_casting_to_output": False,
    # The allowed number of 0-d CPU tensors among operands of another device.
    "cpu_scalars": 0,
    # True if elements must be visited in row-major order, with the last dimension fastest.
    "enforce_linear_iteration": False,
    # The dtype of allocated outputs, independent of the inputs.
    "static_dtype": None,
    # The inputs' names in messages. An output is named "out", or "self" if it is also an input.
    "arg_names": ("self", "other"),
}


class Config:
    """An immutable set of flags. `Config(…).replace(…)` returns a changed copy."""

    __slots__ = tuple(_DEFAULTS)

    check_mem_overlap: bool
    arg_names: tuple[str, ...]

    def __init__(self, **flags: Any) -> None:
        for name, value in _DEFAULTS.items():
            object.__setattr__(self, name, flags.pop(name, value))
        assert not flags, flags

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Config is immutable; use .replace({name}=…)")

    def __repr__(self) -> str:
        changed = (
            f"{n}={getattr(self, n)!r}" for n, v in _DEFAULTS.items() if getattr(self, n) != v
        )
        return f"Config({', '.join(changed)})"

    def replace(self, **flags: Any) -> Config:
        return Config(**{name: getattr(self, name) for name in _DEFAULTS} | flags)

    def input_name(self, index: int) -> str:
        return self.arg_names[index] if index < len(self.arg_names) else f"input {index}"


_PROMOTING: dict[str, Any] = {
    "check_all_same_dtype": False, "promote_from": 0, "cast_common_dtype_to_outputs": True,
    "enforce_safe_casting_to_output": True,
}  # fmt: skip

# Source: ATen/TensorIterator.h, build_binary_op and its neighbours.
BINARY = Config(**_PROMOTING, cpu_scalars=1)
BINARY_FLOAT = BINARY.replace(promote_integer_inputs_to_float=True)
COMPARISON = BINARY.replace(enforce_safe_casting_to_output=False, static_dtype=bool_)
UNARY = Config()
UNARY_FLOAT = Config(**_PROMOTING, promote_integer_inputs_to_float=True)
NULLARY = Config(check_all_same_dtype=False, resize_outputs=False)
# Writing the same value twice is harmless, so fill and zero accept expanded tensors.
FILL = NULLARY.replace(check_mem_overlap=False)
# For `where`: both branches may be CPU scalars. PyTorch moves them to the condition's device.
_MASKED = _PROMOTING | {"promote_from": 1}
WHERE = Config(**_MASKED, cpu_scalars=2, arg_names=("condition", "self", "other"))
COPY = Config(
    check_all_same_dtype=False, check_all_same_device=False, resize_outputs=False,
    cast_common_dtype_to_outputs=True, arg_names=("src",),
)  # fmt: skip
# `build_reduction` has its own checks. It uses this object only for the names in messages.
REDUCTION = Config(check_mem_overlap=False, check_all_same_dtype=False, arg_names=("self",))
