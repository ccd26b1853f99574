"""`torch.FloatTensor` and its kin: what isinstance asks, and what makes tensors of one dtype."""

from __future__ import annotations

from typing import Any

import gputensor as gt

_DTYPES = {
    "Float": gt.float32, "Double": gt.float64, "Half": gt.float16, "BFloat16": gt.bfloat16,
    "Byte": gt.uint8, "Char": gt.int8, "Short": gt.int16, "Int": gt.int32, "Long": gt.int64,
    "Bool": gt.bool,
}  # fmt: skip


class LegacyType(type):
    """The type of the classes below: none of their tensors has them as its own class."""

    dtype: gt.dtype

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor) and x.dtype is cls.dtype and x.is_cpu

    def __call__(cls, *args: Any) -> Any:
        """A tensor of the elements of a sequence, or of these sizes, not initialised."""
        if len(args) == 1 and not isinstance(args[0], int):
            if isinstance(args[0], gt.Size):
                return gt.empty(args[0], dtype=cls.dtype)
            return gt.tensor(args[0], dtype=cls.dtype)
        return gt.empty(args or (0,), dtype=cls.dtype)


TYPES: dict[str, Any] = {
    f"{name}Tensor": LegacyType(f"{name}Tensor", (), {"dtype": dtype, "__module__": "torch"})
    for name, dtype in _DTYPES.items()
}


def set_default_tensor_type(kind: Any) -> None:
    """Make the dtype of such a class, or of its name, the default."""
    found = TYPES[kind.removeprefix("torch.")] if isinstance(kind, str) else kind
    gt.set_default_dtype(found.dtype)


class _VariableType(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, gt.Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Any:
        return data.detach().requires_grad_(requires_grad) if requires_grad else data


class Variable(metaclass=_VariableType):
    """What tensors were wrapped in before they had gradients: any tensor is one."""
