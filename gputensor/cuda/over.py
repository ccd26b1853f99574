"""Launch of a kernel over a TensorIterator, whose plan gives the operands, layouts and grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core import errors
from .declaration import LAYOUT, POINTER
from .grid import grid_for

if TYPE_CHECKING:
    from ..structured.tensor_iterator import TensorIterator
    from .kernel import Kernel


class Over:
    """A launch over an iterator. Call it with the arguments that follow the iterator's operands."""

    __slots__ = ("block", "iterator", "kernel", "per_thread")
    block: int
    iterator: TensorIterator
    kernel: Kernel
    per_thread: int

    def __init__(
        self, kernel: Kernel, iterator: TensorIterator, block: int, per_thread: int
    ) -> None:
        self.kernel, self.iterator = kernel, iterator
        self.block, self.per_thread = block, per_thread
        parameters = kernel.declaration.parameters
        bound = {p.of for p in parameters if p.kind == LAYOUT}
        pointers = [n for n, p in enumerate(parameters) if p.kind == POINTER]
        if bound != set(pointers[: iterator.ntensors]):
            rule = f"take a Layout with each of its first {iterator.ntensors} pointers"
            raise errors.cannot_launch(kernel.entry, "parameters", rule, kernel.declaration)

    def __call__(self, *args: Any, shared: int = 0, stream: Any = None) -> None:
        """Queue the launch, or do nothing if the iterator has no elements."""
        it = self.iterator
        tensors = [it.tensor(i) for i in range(it.ntensors)]
        if it.numel:
            self.kernel.launch(
                *tensors, *args, grid=grid_for(it.numel, self.block, self.per_thread),
                block=self.block, shared=shared, stream=stream,
            )  # fmt: skip
