"""TensorIteratorConfig and TensorIterator: plans over tensors, for users who write loops.

Our operators use `plan.build` and the plan cache instead. A loop receives addresses and stride
bytes of two dimensions at a time, as in PyTorch: `loop(data, stride_bytes, size0, size1)`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .._generated import calls
from ..core import errors
from ..core.dtype import dtype
from ..dispatch import defaults
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..iterator import overlap, parallel, plan, split
from ..iterator.config import Config
from ..iterator.operands import RESIZE
from ..iterator.split import Piece

NUMBERS = (bool, int, float, complex)
# The arguments are a tuple of the operands' addresses, a tuple of strides, the inner size and the
# outer size. The strides are the inner strides of all operands, then the outer strides of all
# operands.
Loop = Callable[[tuple[int, ...], tuple[int, ...], int, int], object]


class TensorIteratorConfig:
    """The operands and flags from which `build()` makes the iterator. All other methods return the
    config itself.

    Flags have PyTorch's names and defaults. Outputs come before inputs, each in the order in which
    they were added. op: the operator's name in messages.
    """

    __slots__ = (
        "_op", "_outputs", "_inputs", "_flags", "_static_dtype", "_static_device", "_static_shape",
    )  # fmt: skip

    def __init__(self, op: str = "TensorIterator") -> None:
        self._op = op
        self._outputs: list[Any] = []
        self._inputs: list[Any] = []
        self._flags: dict[str, Any] = {}
        self._static_dtype: Any = None
        self._static_device: Any = None
        self._static_shape: tuple[int, ...] | None = None

    def add_output(self, output: Tensor | None) -> TensorIteratorConfig:
        """Add an output tensor, or None for an output that `build` allocates."""
        if self._inputs:
            raise errors.must(self._op, "output", "be added before all inputs", output)
        self._outputs.append(self._checked("output", output, (Tensor, type(None))))
        return self

    def add_input(self, x: Tensor | complex) -> TensorIteratorConfig:
        """Add an input, which is a tensor or a number. In type promotion, a number is a Python
        scalar."""
        self._inputs.append(self._checked("input", x, (Tensor, *NUMBERS)))
        return self

    def _checked(self, arg: str, x: Any, kinds: tuple[type, ...]) -> Any:
        if not isinstance(x, kinds):
            rule = "be a tensor or None" if arg == "output" else "be a tensor or a number"
            raise errors.wrong_type(self._op, arg, rule, x)
        return x

    def _set(self, **flags: Any) -> TensorIteratorConfig:
        self._flags.update(flags)
        return self

    def set_check_mem_overlap(self, value: bool) -> TensorIteratorConfig:
        """Reject outputs that overlap themselves or a part of an input. Default: True."""
        return self._set(check_mem_overlap=value)

    def check_all_same_dtype(self, value: bool) -> TensorIteratorConfig:
        """Require that inputs and given outputs have the same dtype. Default: True, unless inputs
        are promoted."""
        return self._set(check_all_same_dtype=value)

    def check_all_same_device(self, value: bool) -> TensorIteratorConfig:
        """Require that all operands are on the same device. Default: True."""
        return self._set(check_all_same_device=value)

    def resize_outputs(self, value: bool) -> TensorIteratorConfig:
        """If `value` is True, resize given outputs of the wrong size. Otherwise, broadcast the
        inputs to the sizes of the outputs.

        Default: True.
        """
        return self._set(resize_outputs=value)

    def promote_inputs_to_common_dtype(self, value: bool) -> TensorIteratorConfig:
        """Compute in the result type of the inputs. This disables `check_all_same_dtype`."""
        if value:
            self._flags["check_all_same_dtype"] = False
        return self._set(promote_from=0 if value else None)

    def promote_integer_inputs_to_float(self, value: bool) -> TensorIteratorConfig:
        """Compute in the default dtype if the common dtype is bool or an integer."""
        if value and self._flags.get("promote_from") is None:
            rule = "follow promote_inputs_to_common_dtype"
            raise errors.must(self._op, "promote_integer_inputs_to_float", rule, value)
        return self._set(promote_integer_inputs_to_float=value)

    def cast_common_dtype_to_outputs(self, value: bool) -> TensorIteratorConfig:
        """Allow outputs whose dtype is not the common dtype."""
        if value:
            self._flags["check_all_same_dtype"] = False
        return self._set(cast_common_dtype_to_outputs=value)

    def enforce_safe_casting_to_output(self, value: bool) -> TensorIteratorConfig:
        """Reject outputs to which the common dtype cannot be cast."""
        return self._set(enforce_safe_casting_to_output=value)

    def allow_cpu_scalars(self, value: bool) -> TensorIteratorConfig:
        """Allow one 0-d CPU tensor among operands of another device."""
        return self._set(cpu_scalars=int(value))

    def enforce_linear_iteration(self, value: bool = True) -> TensorIteratorConfig:
        """Visit elements in row-major order, without sorting dimensions."""
        return self._set(enforce_linear_iteration=value)

    def declare_static_dtype(self, element: dtype) -> TensorIteratorConfig:
        """Set the dtype of allocated outputs."""
        self._static_dtype = element
        return self

    def declare_static_device(self, device: Any) -> TensorIteratorConfig:
        """Set the device of allocated outputs for iterations without tensor operands."""
        self._static_device = device
        return self

    def declare_static_shape(self, shape: Any) -> TensorIteratorConfig:
        """Set the sizes of the iteration, which then do not depend on the operands. Outputs are not
        resized."""
        self._static_shape = tuple(shape)
        return self._set(resize_outputs=False)

    def build(self) -> TensorIterator:
        """Check the operands, allocate or resize outputs, order and coalesce dimensions, and return
        the iterator."""
        names = tuple(f"input {i}" for i in range(len(self._inputs)))
        flags = Config(**self._flags, arg_names=names)
        tensors = [x for x in (*self._outputs, *self._inputs) if isinstance(x, Tensor)]
        pairs = {id(x): (x._geometry, x._device) for x in tensors}
        made = plan.build(
            self._op, flags, tuple([pairs.get(id(x)) for x in self._outputs]),
            tuple([pairs[id(x)] if isinstance(x, Tensor) else _kind(x) for x in self._inputs]),
            default_dtype=defaults.get_default_dtype(), out_dtype=self._static_dtype,
            static_sizes=self._static_shape,
        )  # fmt: skip
        if flags.check_mem_overlap:
            self._check_overlap(flags)
        device = made.device or self._static_device
        if device is None and self._outputs:
            raise errors.must(self._op, "output", "be a tensor, or be given a device", None)
        outputs = [_output(self._op, x, o, device) for x, o in zip(self._outputs, made.outputs)]
        return TensorIterator(made, [*outputs, *self._inputs])

    def _check_overlap(self, flags: Config) -> None:
        for out in self._outputs:
            for i, x in enumerate(self._inputs):
                if out is not None and isinstance(x, Tensor) and x is not out:
                    overlap.check(self._op, out, x, flags.input_name(i))


def _kind(number: complex) -> type:
    # np.float64 is a subclass of float and is treated as a float.
    return next(kind for kind in NUMBERS if isinstance(number, kind))


def _output(op: str, given: Tensor | None, planned: plan.OutputPlan, device: Any) -> Tensor:
    if given is None:
        return allocate(planned.geometry, device)
    if planned.action == RESIZE:
        if given._geometry.numel:
            told = errors.output_resized(op, given, planned.geometry)
            warnings.warn(told, UserWarning, stacklevel=4)
        # New layouts are dense, so resize_ makes the storage large enough for any of them.
        calls.resize_(given, planned.geometry.sizes)
        given._geometry, given._array = planned.geometry, None
    return given


class TensorIterator:
    """An iteration over operands, outputs first, with dimension 0 fastest. TensorIteratorConfig
    makes it.

    `split` and `with_32bit_indexing` may divide a reduced dimension. For a part, accumulate is then
    True if the outputs contain an earlier part's result, and is_final_output is True if no later
    part changes the outputs.
    """

    __slots__ = (
        "_plan", "_tensors", "_scalars", "_shape", "_strides", "_data",
        "accumulate", "is_final_output",
    )  # fmt: skip
    accumulate: bool
    is_final_output: bool

    def __init__(self, made: plan.Plan, operands: list[Any]) -> None:
        self._plan, self._tensors = made, operands
        # Each number gets memory of its own, as in PyTorch.
        numbers = [(i, x) for i, x in enumerate(operands) if not isinstance(x, Tensor)]
        self._scalars = {i: np.array(x, made.common_dtype.np) for i, x in numbers}
        self._shape = made.shape
        still = (0,) * len(made.shape)
        self._strides = tuple([still if s is None else s for s in made.stride_bytes])
        addresses = {i: x.ctypes.data for i, x in self._scalars.items()}
        self._data = tuple([addresses.get(i) or x.data_ptr() for i, x in enumerate(operands)])
        self.accumulate, self.is_final_output = False, True

    def __repr__(self) -> str:
        element = self._plan.common_dtype
        return f"TensorIterator(shape={self._shape}, strides={self._strides}, {element})"

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the coalesced iteration."""
        return self._shape

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def numel(self) -> int:
        numel = 1
        for size in self._shape:
            numel *= size
        return numel

    @property
    def ntensors(self) -> int:
        return len(self._tensors)

    @property
    def noutputs(self) -> int:
        return self._plan.n_outputs

    @property
    def common_dtype(self) -> dtype:
        common: dtype = self._plan.common_dtype
        return common

    def device(self) -> Any:
        return self._plan.device

    def strides(self, i: int) -> tuple[int, ...]:
        """Return the strides of operand `i` over `shape`, in bytes. The strides of a number are
        0."""
        return self._strides[i]

    def dtype(self, i: int = 0) -> dtype:
        """Return the dtype of operand `i` in memory."""
        found: dtype = self._plan.dtypes[i]
        return found

    def tensor(self, i: int) -> Any:
        return self._tensors[i]

    def output(self, i: int = 0) -> Tensor:
        assert i < self._plan.n_outputs, (i, self._plan)
        made: Tensor = self._tensors[i]
        return made

    def input(self, i: int = 0) -> Any:
        return self._tensors[self._plan.n_outputs + i]

    def data_ptr(self, i: int) -> int:
        """Return the address of the first element of operand `i` in this iteration."""
        return self._data[i]

    def is_dim_reduced(self, dim: int) -> bool:
        outputs = self._strides[: self._plan.n_outputs]
        return self._shape[dim] > 1 and any(strides[dim] == 0 for strides in outputs)

    def can_use_32bit_indexing(self) -> bool:
        """Return True if the number of elements and all byte offsets fit into a signed 32-bit
        integer."""
        return split.can_use_32bit(self._shape, self._strides)

    def with_32bit_indexing(self) -> Iterator[TensorIterator]:
        """Yield iterators over parts of this iteration. Each part can use 32-bit indexing."""
        reduced = 0
        while reduced < len(self._shape) and self.is_dim_reduced(reduced):
            reduced += 1
        for piece in split.split_32bit(self._shape, self._strides, reduced):
            yield self._over(piece)

    def split(self, dim: int) -> tuple[TensorIterator, TensorIterator]:
        """Split a dimension into its first half, rounded down, and the rest. Return both
        iterators."""
        if not (0 <= dim < len(self._shape) and self._shape[dim] > 1):
            rule = f"be a dimension of {self._shape} with two elements"
            raise errors.wrong_index(self._plan.op, "dim", rule, dim)
        whole = Piece(self._shape, (0,) * len(self._data), self.accumulate, self.is_final_output)
        first, second = whole.halves(dim, self._strides, self.is_dim_reduced(dim))
        return self._over(first), self._over(second)

    def _over(self, piece: Piece) -> TensorIterator:
        part = object.__new__(TensorIterator)
        part._plan, part._tensors, part._scalars = self._plan, self._tensors, self._scalars
        part._shape, part._strides = piece.shape, self._strides
        moves = piece.offset_bytes
        part._data = tuple([p + (o or 0) for p, o in zip(self._data, moves)])
        part.accumulate, part.is_final_output = piece.accumulate, piece.is_final
        return part

    def for_each(self, loop: Loop, grain: int = parallel.GRAIN) -> None:
        """Run the loop over all elements. Several threads run it if each gets at least `grain`
        elements."""
        work = partial(self.serial_for_each, loop)
        parallel.for_each(self._shape, work, grain)

    def serial_for_each(self, loop: Loop, begin: int = 0, end: int | None = None) -> None:
        """Run the loop over a linear range of elements in this thread."""
        shape, strides = self._shape, self._strides
        counter = split.DimCounter(shape, begin, self.numel if end is None else end)
        inner = tuple([s[0] if s else 0 for s in strides])
        outer = tuple([s[1] if len(s) > 1 else 0 for s in strides])
        while not counter.is_done:
            step = counter.max_2d_step()
            moves = [sum([v * s for v, s in zip(counter.values, own)]) for own in strides]
            loop(tuple([p + m for p, m in zip(self._data, moves)]), inner + outer, *step)
            counter.increment(step)
