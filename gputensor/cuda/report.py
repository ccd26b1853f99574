"""Resources of a compiled kernel: registers, spills, memory, and widths of loads and stores.

No GPU is needed. ptxas reports the resources. The widths of accesses are counted in the PTX,
because ptxas does not change them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from ..core import errors

if TYPE_CHECKING:
    from .kernel import Kernel

_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(
    r"Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?(?:[^\n]*?(\d+) bytes cmem\[0\])?"
)
_ACCESS = re.compile(r"\b(ld|st)((?:\.\w+(?:::\w+)*)*?)(?:\.v(\d))?\.[busf](\d+)\b")


@dataclass(slots=True, eq=False)
class Row:
    """One kernel on one architecture. loads, stores: {width of an access in bytes: number of
    accesses}."""

    arch: str
    registers: int = 0
    shared_bytes: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    loads: dict[int, int] = field(default_factory=dict)
    stores: dict[int, int] = field(default_factory=dict)
    shared_loads: dict[int, int] = field(default_factory=dict)
    shared_stores: dict[int, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Report:
    """Rows, one per architecture; `print(report)` shows a table."""

    __slots__ = ("rows",)

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows: list[Row] = list(rows)

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __getitem__(self, arch: str) -> Row:
        for row in self.rows:
            if row.arch == arch:
                return row
        raise KeyError(arch)

    def to_dict(self) -> dict[str, Any]:
        return {row.arch: row.to_dict() for row in self.rows}

    def __str__(self) -> str:
        head = ("arch", "registers", "spill B", "stack B", "shared B", "loads", "stores")
        lines: list[tuple[str, ...]] = [head]
        for r in self.rows:
            figures = (r.registers, r.spill_bytes, r.stack_bytes, r.shared_bytes)
            lines.append((r.arch, *map(str, figures), widths(r.loads), widths(r.stores)))
        sizes = [max(len(line[i]) for line in lines) for i in range(len(head))]
        rows = ("  ".join(c.ljust(n) for c, n in zip(line, sizes)) for line in lines)
        return "\n".join(map(str.rstrip, rows))


def widths(counts: dict[int, int]) -> str:
    """Return a text such as `2x16 B, 1x4 B`, with the widest access first."""
    return ", ".join(f"{counts[w]}x{w} B" for w in sorted(counts, reverse=True)) or "none"


def row(kernel: Kernel, arch: str) -> Row:
    """Compile for one architecture and read the resources from ptxas' output and the PTX."""
    image: Any = kernel.compile(arch)
    name = image.names.get(kernel.entry, kernel.entry)
    result = Row(arch)
    for block in image.log.split("Compiling entry function '")[1:]:
        if not block.startswith(f"{name}'"):
            continue
        stack, used = _STACK.search(block), _USED.search(block)
        if stack is None or used is None:
            break
        result.stack_bytes = int(stack[1])
        result.spill_bytes = int(stack[2]) + int(stack[3])
        result.registers = int(used[1])
        result.shared_bytes = int(used[2] or 0)
        _count_accesses(result, image.ptx, name)
        return result
    what = f"ptxas says nothing about it for {arch}:\n{image.log}"
    raise errors.kernel_failed(kernel.entry, what)


def _count_accesses(result: Row, ptx: str, name: str) -> None:
    match = re.search(rf"\.entry\s+{re.escape(name)}\s*\(.*?^\}}", ptx, re.DOTALL | re.MULTILINE)
    for kind, words, lanes, bits in _ACCESS.findall(match[0] if match else ""):
        spaces = set(re.findall(r"\w+", words))
        if spaces & {"param", "local", "const"}:
            continue
        width = int(bits) // 8 * int(lanes or 1)
        # without "shared", the access is to global memory or through a generic pointer
        prefix = "shared_" if "shared" in spaces else ""
        counts = getattr(result, prefix + ("loads" if kind == "ld" else "stores"))
        counts[width] = counts.get(width, 0) + 1
