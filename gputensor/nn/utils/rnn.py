"""Several sequences of different lengths in one tensor: padded, or packed without padding.

Source: torch/nn/utils/rnn.py.
"""

from __future__ import annotations

from collections.abc import Sequence
import operator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..._generated.functions import cat, stack
from ...core import errors, lazy
from ...core.dtype import float16, float32, float64, int8, int16, int32, int64, uint8
from ...exchange.construct import tensor
from ...tensor.tensor import Tensor
from .. import functional as F

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Several sequences, sorted with the longest first and packed step by step into one tensor.

    batch_sizes: the number of sequences in each step, int64 on the CPU. sorted_indices: the user's
    index of each sequence; None if the user's sequences were sorted.
    """

    def __new__(
        cls, data: Tensor, batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None,
    ) -> Self:  # fmt: skip
        if batch_sizes is None or batch_sizes.device.type != "cpu":
            rule = "be a Tensor on the CPU"
            raise errors.must("PackedSequence", "batch_sizes", rule, batch_sizes)
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Move or cast `data`. The indices move to the same device. Return this object if `data`
        does not change."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [x if x is None else x.to(device=data.device) for x in self[2:]]
        return type(self)(data, self.batch_sizes, *indices)

    def cpu(self) -> PackedSequence:
        return self.to(device="cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        device = args[0] if args else kwargs.get("device")
        return self.to(device="cuda" if device is None else device)

    def double(self) -> PackedSequence:
        return self.to(dtype=float64)

    def float(self) -> PackedSequence:
        return self.to(dtype=float32)

    def half(self) -> PackedSequence:
        return self.to(dtype=float16)

    def long(self) -> PackedSequence:
        return self.to(dtype=int64)

    def int(self) -> PackedSequence:
        return self.to(dtype=int32)

    def short(self) -> PackedSequence:
        return self.to(dtype=int16)

    def char(self) -> PackedSequence:
        return self.to(dtype=int8)

    def byte(self) -> PackedSequence:
        return self.to(dtype=uint8)

    def pin_memory(self) -> PackedSequence:
        indices = [x if x is None else x.pin_memory() for x in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *indices)

    def is_pinned(self) -> bool:
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the inverse of `permutation` as int64, or None for None."""
    return None if permutation is None else permutation.argsort()


def _lengths(op: str, lengths: Any) -> list[int]:
    listed = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    try:
        listed = [operator.index(n) for n in listed]
    except TypeError:
        raise errors.wrong_type(op, "lengths", "hold integers", lengths) from None
    return listed


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences.

    Args:
        input: (L, N, *), or (N, L, *) with batch_first.
        lengths: the length of each sequence, at least 1; a list, or a Tensor on the CPU.
        enforce_sorted: if True, lengths must not increase; otherwise this function sorts.
    """
    name = "pack_padded_sequence"
    counts, indices = _lengths(name, lengths), None
    x = input.transpose(0, 1) if batch_first else input
    if len(counts) != x.shape[1]:
        raise errors.must(name, "lengths", f"hold {x.shape[1]} lengths, the batch's", len(counts))
    if not enforce_sorted:
        order = sorted(range(len(counts)), key=counts.__getitem__, reverse=True)
        indices = tensor(order, dtype=int64, device=input.device)
        counts, x = [counts[n] for n in order], x.index_select(1, indices)
    elif any(a < b for a, b in pairwise(counts)):
        raise errors.must(name, "lengths", "not grow unless enforce_sorted is False", counts)
    if not counts or counts[-1] < 1 or counts[0] > x.shape[0]:
        raise errors.must(name, "lengths", f"be in [1, {x.shape[0]}], the steps of input", counts)
    sizes = [sum(n > step for n in counts) for step in range(counts[0])]
    data = cat([x[step, :n] for step, n in enumerate(sizes)])
    return PackedSequence(data, tensor(sizes, dtype=int64), indices)


def _counts(sizes: list[int]) -> list[int]:
    """Return the length of each sequence, the longest first. sizes: the number of sequences in each
    step."""
    return [sum(n > row for n in sizes) for row in range(sizes[0])]


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Undo pack_padded_sequence.

    Returns: the sequences, (L, N, *) or with batch_first (N, L, *), and their lengths, int64.
    """
    data, sizes = sequence.data, sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        rule = f"be at least {len(sizes)}, the longest sequence"
        raise errors.must("pad_packed_sequence", "total_length", rule, total_length)
    rest = (0, 0) * (data.ndim - 1)
    x = stack([F.pad(step, (*rest, 0, sizes[0] - n), value=padding_value)
               for step, n in zip(data.split(sizes), sizes)])  # fmt: skip
    if total_length is not None and total_length > len(sizes):
        x = F.pad(x, (*rest, 0, 0, 0, total_length - len(sizes)), value=padding_value)
    lengths: Tensor = tensor(_counts(sizes), dtype=int64)
    if sequence.unsorted_indices is not None:
        x = x.index_select(1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices.cpu())
    return (x.transpose(0, 1) if batch_first else x), lengths


def pad_sequence(
    sequences: Tensor | Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:  # fmt: skip
    """Pad sequences (L_i, *) to the longest length and stack them: to (L, N, *), or to (N, L, *)
    with batch_first."""
    if padding_side not in ("left", "right"):
        raise errors.must("pad_sequence", "padding_side", "be 'left' or 'right'", padding_side)
    listed = list(sequences)
    if not listed or not all(isinstance(x, Tensor) for x in listed):
        raise errors.wrong_type("pad_sequence", "sequences", "hold at least one Tensor", sequences)
    most = max(x.shape[0] for x in listed)
    padded = []
    for x in listed:
        around = (0, most - x.shape[0]) if padding_side == "right" else (most - x.shape[0], 0)
        padded.append(F.pad(x, (0, 0) * (x.ndim - 1) + around, value=padding_value))
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded tensor, each (L_i, *)."""
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [one[:n] for one, n in zip(x.unbind(0), _lengths("unpad_sequence", lengths))]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (L_i, *)."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences of a packed sequence, each (L_i, *), in the user's order."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
