"""Names of the tensors of a dtype on a device, such as "gputensor.cuda.FloatTensor".

Source: torch/csrc/utils/tensor_types.cpp.
"""

from __future__ import annotations

from ..core import dtype as dtypes, errors
from ..core.device import CPU, device

NAMES = {
    dtypes.bool_: "Bool", dtypes.uint8: "Byte", dtypes.int8: "Char", dtypes.int16: "Short",
    dtypes.int32: "Int", dtypes.int64: "Long", dtypes.uint16: "UInt16", dtypes.uint32: "UInt32",
    dtypes.uint64: "UInt64", dtypes.float16: "Half", dtypes.bfloat16: "BFloat16",
    dtypes.float32: "Float", dtypes.float64: "Double", dtypes.complex64: "ComplexFloat",
    dtypes.complex128: "ComplexDouble", dtypes.complex32: "ComplexHalf",
    **{d: f"Float8_{d.name[7:]}" for d in dtypes.FLOAT8},
}  # fmt: skip
_DTYPES = {f"{name}Tensor": dtype for dtype, name in NAMES.items()}
_PACKAGES = "gputensor", "torch"


def meaning(name: str) -> tuple[device, dtypes.dtype]:
    """The device and dtype of a name; PyTorch's own names are known too.

    Raises: ArgumentError for any other name.
    """
    package, *place, short = name.split(".") if "." in name else ("", name)
    if package not in _PACKAGES or place not in ([], ["cuda"]) or short not in _DTYPES:
        rule = "be a dtype, or a name such as 'gputensor.FloatTensor'"
        raise errors.must("type", "dtype", rule, errors.Got(repr(name)))
    return device("cuda") if place else CPU, _DTYPES[short]
