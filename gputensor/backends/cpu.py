"""`gt.backends.cpu.get_cpu_capability()`: the instruction set of the CPU's loops
(docs/internals/cpu_loops.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core import lazy

if TYPE_CHECKING:
    from ..kernels.compiled.library import get_cpu_capability as get_cpu_capability
else:
    __all__: list[str] = []
    __getattr__, __dir__ = lazy.attributes(globals())
