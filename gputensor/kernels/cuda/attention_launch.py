"""Launches of attention and its gradients: in each head, one block for every 64 queries or every 64
keys."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from ... import runtime
from ...core.dtype import bfloat16, bool_, dtype, float16, float32
from ...core.geometry import Sizes
from ...runtime import capture
from . import launch, module, numbers, variants
from .launch import THREADS

# The number of queries, and the number of keys, per block; SIDE in attention.cu.
SIDE = 64
WIDTHS = (32, 64, 128)  # Each variant supports rows of up to this number of elements.
DTYPES = (float32, float16, bfloat16)
_OPERANDS = ("query", "key", "value", "out", "sums", "deltas", "mask", "of_query", "of_key",
             "of_value")  # fmt: skip
_OPERAND, _REST = Struct("<Q4q").pack, Struct("<Q9IffI").pack
_STRIDES = Struct("<4q").pack
_ABSENT = _OPERAND(0, 0, 0, 0, 0)

# An operand: its pointer, and its stride bytes over samples, heads, rows and elements.
Operand = tuple[int, Sizes]


class Attention(NamedTuple):
    """Sizes and options of a call. served: the number of query heads that share one key head and
    one value head. mask: the mask's dtype. dropout: None, or (seed, block, limit, factor of kept
    weights)."""

    of: dtype
    samples: int
    heads: int
    served: int
    queries: int
    keys: int
    width: int
    value_width: int
    mask: dtype | None
    is_causal: bool
    scale: float
    dropout: tuple[int, int, int, float] | None = None

    def is_taken(self) -> bool:
        """Return True if the kernels support these sizes and dtypes."""
        blocks = self.samples * self.heads * max(self._tiles(self.queries), self._tiles(self.keys))
        return (
            self.of in DTYPES and max(self.width, self.value_width) <= WIDTHS[-1]
            and self.mask in (None, bool_, float32, self.of)
            and max(blocks, self.queries, self.keys) < 1 << 31
        )  # fmt: skip

    def forward(self, device_index: int, **operands: Operand) -> None:
        """Launch the forward kernel, which writes `out` and `sums`."""
        self._launch(device_index, "attention_forward", self.heads, self.queries, operands)

    def backward(self, device_index: int, **operands: Operand) -> None:
        """Launch the backward kernels, which write of_query, of_key and of_value. The operand `out`
        is the gradient of the forward kernel's `out`."""
        self._launch(device_index, "attention_queries", self.heads, self.queries, operands)
        own = self.heads // self.served
        self._launch(device_index, "attention_keys", own, self.keys, operands)

    def fixed(self, *names: str, **walks: Sizes) -> Fixed:
        """Return the launch of the forward kernel for operands of fixed layouts. names: the
        operands, in the order in which a short cut passes them. walks: their stride bytes."""
        return Fixed(self, names, walks)

    def defines(self) -> variants.Defines:
        widest = max(self.width, self.value_width)
        return define(self.of, next(width for width in WIDTHS if widest <= width))

    def params(self, tiles: int, operands: dict[str, Operand]) -> bytes:
        """Pack the struct `attention_params` of attention.cu."""
        given = [operands.get(name) for name in _OPERANDS]
        packed = [_ABSENT if x is None else _OPERAND(x[0], *x[1]) for x in given]
        return b"".join((*packed, self.rest(tiles)))

    def rest(self, tiles: int) -> bytes:
        """Return the parameters after the operands."""
        kind = 0 if self.mask is None else 1 if self.mask is bool_ else 2
        if kind == 2 and self.mask is not float32:
            kind = 3
        seed, block, limit, grown = self.dropout or (0, 0, 0, 1.0)
        # In a graph, the seed is a Place, an address: see Note [Random numbers of a graph].
        of_dropout = 0 if self.dropout is None else 2 if type(seed) is capture.Place else 1
        return numbers.pair(seed, block) + _REST(
            limit, self.heads, self.served, self.queries, self.keys, self.width, self.value_width,
            kind, self.is_causal, tiles, self.scale, grown, of_dropout,
        )  # fmt: skip

    def _tiles(self, rows: int) -> int:
        return launch.blocks_for(rows, SIDE)

    def _launch(
        self, device_index: int, entry: str, heads: int, rows: int, operands: dict[str, Operand]
    ) -> None:
        self.loaded(device_index, entry, heads, rows)(self.params(self._tiles(rows), operands))

    def loaded(
        self, device_index: int, entry: str, heads: int, rows: int
    ) -> Callable[[bytes], None]:  # fmt: skip
        """Return a function of the parameters that launches a kernel."""
        function = module.function("attention", entry, self.defines(), device_index)
        grid = (self.samples * heads * self._tiles(rows), 1, 1)
        run: Callable[[bytes], None] = runtime.cuda().launcher(function, grid, (THREADS, 1, 1))
        return run


class Fixed:
    """One launch of the forward kernel: see `Attention.fixed`."""

    __slots__ = ("by", "names", "walks")

    def __init__(self, by: Attention, names: tuple[str, ...], walks: dict[str, Sizes]) -> None:
        self.by, self.names, self.walks = by, names, walks

    def numbered(self, device_index: int, operands: Any, scalars: Any) -> launch.Straight:
        """Return the parts of the launch: see launch.numbered."""
        by = self.by
        run = by.loaded(device_index, "attention_forward", by.heads, by.queries)
        tail = by.rest(launch.blocks_for(by.queries, SIDE))
        places = [
            (self.names.index(name), _STRIDES(*self.walks[name]))
            for name in _OPERANDS if name in self.names
        ]  # fmt: skip
        parts = ["Q32s" if name in self.names else "40x" for name in _OPERANDS]
        pack = Struct(f"<{''.join(parts)}{len(tail)}s").pack

        def packed(*given: Any) -> bytes:
            return pack(*[x for n, walk in places for x in (given[n], walk)], given[-1])

        return run, packed, tail


def define(of: dtype, width: int) -> variants.Defines:
    return {"SCALAR": variants.storage(of), "WIDTH": str(width)}


def listed() -> list[tuple[str, variants.Defines]]:
    """Return (entry, defines) for each variant of each kernel."""
    entries = ("attention_forward", "attention_queries", "attention_keys")
    return [(entry, define(of, width)) for entry in entries for of in DTYPES for width in WIDTHS]
