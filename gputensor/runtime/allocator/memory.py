"""Memory: a tensor's reference to a block. When the Memory is dropped, the block returns to its
bin."""

from __future__ import annotations

from .segments import BINNED, Block


class Memory:
    """Device memory that returns to its allocator when the last reference is dropped."""

    __slots__ = ("__weakref__", "block", "device_index", "nbytes", "ptr")

    ptr: int
    nbytes: int
    device_index: int
    block: Block | None

    # Python creates an object without __init__ in half the time.
    @classmethod
    def at(cls, ptr: int, nbytes: int, device_index: int, block: Block | None) -> Memory:
        made = cls()
        made.ptr, made.nbytes, made.device_index, made.block = ptr, nbytes, device_index, block
        return made

    def __del__(self) -> None:
        try:
            block = self.block
        except AttributeError:  # An interrupt came before the object got a block.
            return
        if block is None:
            return
        counts = block.counts
        if counts is None or block.used_on is not None:
            block.give_back(block)
            return
        # From here to the last step, no function may be called: see Note [Finalisers and signals].
        counts.in_use -= block.size
        counts.returns += 1
        block.state = BINNED
        block.home.append(block)


class Unasked:
    """The substitute for an event that cannot be queried, because its stream was destroyed. It
    counts as passed after the host has waited for the device."""

    __slots__ = ("passed",)

    def __init__(self) -> None:
        self.passed = False

    def query(self) -> bool:
        return self.passed
