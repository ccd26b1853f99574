"""Attributes of PyTorch's tensors that are not operators: flags of tensor kinds that gputensor
lacks, methods for memory, and old names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from .._generated import calls
from ..core import dtype as dtypes, errors
from ..core.arguments import element_type, flag
from ..core.device import CPU, device
from ..core.dtype import dtype as _dtype
from ..core.memory_format import memory_format
from ..dispatch.refusal import declares
from .base import TensorBase, materialised

if TYPE_CHECKING:
    from .tensor import Tensor
    from .typed_storage import TypedStorage


# Maps a dtype to the first part of its tensor type's name, such as "Float" of
# "gputensor.cuda.FloatTensor". Source: torch/csrc/utils/tensor_types.cpp.
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
    """Return the device and dtype that a tensor type's name stands for. PyTorch's names are
    accepted too.

    Raises: ArgumentError for any other name.
    """
    package, *place, short = name.split(".") if "." in name else ("", name)
    if package not in _PACKAGES or place not in ([], ["cuda"]) or short not in _DTYPES:
        rule = "be a dtype, or a name such as 'gputensor.FloatTensor'"
        raise errors.must("type", "dtype", rule, errors.Got(repr(name)))
    return device("cuda") if place else CPU, _DTYPES[short]


class TorchNames(TensorBase):
    """The base of Tensor with the attributes and methods of this module."""

    __slots__ = ()
    is_ipu = is_maia = is_mkldnn = is_mps = is_mtia = is_vulkan = is_xla = is_xpu = False
    is_nested = is_quantized = is_sparse = is_sparse_csr = volatile = False
    name: None = None

    # --- memory -----------------------------------------------------------------------------------

    def is_pinned(self, device: Any = None) -> bool:
        """True if the tensor's memory is page-locked. device: ignored, as in PyTorch."""
        from . import host_memory

        return host_memory.is_pinned(self)

    def pin_memory(self, device: Any = None) -> Tensor:
        """Return a copy of this CPU tensor in page-locked memory, or the tensor itself if its
        memory is page-locked.

        Raises: DeviceError without CUDA, which locks the pages.
        """
        from . import host_memory

        made: Tensor = host_memory.pinned("pin_memory", self)
        return made

    def is_shared(self) -> bool:
        """True if processes that receive the tensor share its memory. True for every tensor on
        CUDA."""
        from . import host_memory

        return host_memory.is_shared(self)

    def share_memory_(self) -> Self:
        """Move this CPU tensor's storage to shared memory. Forked processes, and processes to which
        `multiprocessing` sends the tensor, then share its elements."""
        from . import host_memory

        host_memory.share(self)
        return self

    def storage(self) -> TypedStorage:
        """Return the storage with elements of this tensor's dtype. `untyped_storage()` returns its
        bytes."""
        from .typed_storage import TypedStorage

        return TypedStorage(wrap_storage=self._get_storage(), dtype=self._geometry.dtype)

    def const_data_ptr(self) -> int:
        """Return the address of the first element, for reading."""
        return self.data_ptr()

    def dim_order(self, *, ambiguity_check: Any = False) -> tuple[int, ...]:
        """Return the dimensions in order of decreasing strides.

        ambiguity_check: True raises an error if several orders fit. Strides of dimensions of size 1
        are ignored. For a list of memory formats, raise an error unless exactly one of them fits.
        Source: torch/_tensor.py, Tensor.dim_order.
        """
        is_list = isinstance(ambiguity_check, list)
        formats = ambiguity_check if is_list else []
        if not (is_list or type(ambiguity_check) is bool) or any(
            not isinstance(x, memory_format) for x in formats
        ):
            rule = "be a bool or a list of memory formats"
            raise errors.wrong_type("dim_order", "ambiguity_check", rule, ambiguity_check)
        tensor = cast("Tensor", self)
        sizes, strides = self._geometry.sizes, self._geometry.strides
        order = tuple(sorted(range(len(sizes)), key=lambda dim: -strides[dim]))
        if is_list and sum(tensor.is_contiguous(memory_format=x) for x in formats) != 1:
            rule = "have exactly one of the memory formats in ambiguity_check"
            raise errors.must("dim_order", "self", rule, self)
        if ambiguity_check is True:
            told = [strides[dim] for dim in order if sizes[dim] > 1]
            if len(told) < len(sizes) or len(set(told)) < len(told):
                raise errors.must("dim_order", "self", "have one order of its dimensions", self)
        return order

    def to_dense(self, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
        """Return the tensor itself, because it is dense. With another dtype, return a copy."""
        tensor = cast("Tensor", self)
        if dtype is None:
            return tensor
        made: Tensor = calls.to_dtype(tensor, element_type("to_dense", dtype), False, False, None)
        return made

    def is_distributed(self) -> bool:
        """Return False, because no tensor is distributed over processes."""
        return False

    @property
    def grad_dtype(self) -> _dtype:
        """The dtype of the gradient, which equals the tensor's dtype."""
        return self._geometry.dtype

    def new(self, *args: Any, device: Any = None) -> Tensor:
        """Make a tensor of this dtype and device: `x.new(2, 3)` from sizes, uninitialised,
        `x.new([1, 2])` from elements. This is PyTorch's old name of `new_empty` and `new_tensor`.
        """
        from importlib import import_module

        place = self._device if device is None else device
        of_type = import_module("gputensor.exchange.construct").of_type
        made: Tensor = of_type(args, self._geometry.dtype, place)
        return made

    @property
    def real(self) -> Tensor:
        """The real parts, or this tensor if its dtype is real. An assignment writes the real
        parts."""
        return calls.real(cast("Tensor", self))

    @real.setter
    def real(self, parts: Tensor) -> None:
        self.real.copy_(parts)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts of a complex tensor. An assignment writes them."""
        return calls.imag(cast("Tensor", self))

    @imag.setter
    def imag(self, parts: Tensor) -> None:
        self.imag.copy_(parts)

    # --- elements by Python's functions -----------------------------------------------------------

    @declares(callable="Callable")
    def apply_(self, callable: Callable[[Any], Any]) -> Self:
        """Replace each element of this CPU tensor by callable(element)."""
        return self._mapped("apply_", callable)

    @declares(tensor="Tensor", callable="Callable")
    def map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Self:
        """Replace each element of this CPU tensor by callable(element, element of `tensor`)."""
        return self._mapped("map_", callable, tensor)

    @declares(x="Tensor", y="Tensor", callable="Callable")
    def map2_(self, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Self:
        """Replace each element of this CPU tensor by callable(element, element of `x`, element of
        `y`)."""
        return self._mapped("map2_", callable, x, y)

    def _mapped(self, op: str, function: Callable[..., Any], *others: Any) -> Self:
        tensor: Any = self
        for arg, x in zip(("self", "tensor", "y"), (tensor, *others)):
            if x._device is not CPU:
                raise errors.must(op, arg, "be on the CPU", x)
        wide = [calls.expand(x, self._geometry.sizes, False) for x in others]
        lists = [materialised(calls.reshape(x, (-1,))).tolist() for x in (tensor, *wide)]
        made = calls.empty_like(tensor)
        values = [function(*elements) for elements in zip(*lists)]
        made._get_array()[...] = np.reshape(values, self._geometry.sizes)
        calls.copy_(tensor, made, False)
        return self

    # --- signals ----------------------------------------------------------------------------------

    def stft(
        self, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
        window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
        normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the Fourier transforms of overlapping parts of this signal. See gt.stft."""
        from importlib import import_module

        if align_to_window is not None:
            rule = "be left out: parts begin where gt.stft says"
            raise errors.must("stft", "align_to_window", rule, align_to_window)
        made: Tensor = import_module("gputensor.functional").stft(
            self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
            return_complex,
        )  # fmt: skip
        return made

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """Call `gt.linalg.lu_factor` under PyTorch's old name. get_infos: also return the infos, as
        `lu_factor_ex` does."""
        tensor: Any = self
        pivots, infos = flag("lu", "pivot", pivot), flag("lu", "get_infos", get_infos)
        found = calls.linalg_lu_factor_ex(tensor, pivot=pivots, check_errors=not infos)
        return tuple(found) if infos else tuple(found[:2])
