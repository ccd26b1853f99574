"""A caching allocator for one device, with the design and the names of PyTorch's allocator.

A block that a tensor drops is free for its own stream at once, without a driver call: later work on
that stream is queued after the work that used the block. `record_stream` marks a block that a
second stream uses. A marked block is free only after an event on each of those streams; later
allocations poll these events. segments.py splits and merges the backend's memory.

Note [Finalisers and signals]
A block used on no other stream moves from its Memory into its bin, and from the bin into the next
Memory, without the lock. Other blocks are appended to a deque when they are dropped, and the next
call that takes the lock does the bookkeeping. A finaliser, a signal handler or another thread can
run at any call inside the functions below and may allocate, drop, or raise KeyboardInterrupt. So
- the lock is only taken by `with`, which cannot be interrupted between taking it and the block;
- it is reentrant, and no collection and no wait for a device happens under it;
- code that moves a block to its next owner makes no call before its last step, since CPython
  handles signals and switches threads only after calls and at backward jumps. A block is taken out
  of its bin by one statement, since a debugger also stops between lines. The statement creates no
  object, since Python 3.11 may collect garbage whenever it creates one;
- bins may lose and gain blocks at any call even while the lock is held;
- pools are changed under `_is_changing`: code that finds it set has interrupted the change and does
  not touch the pools (an allocation gets its own segment). An unfinished change leaves `_is_torn`
  set, and the next change rebuilds the pools.

Note [Pools of graphs]
A CUDA graph contains the addresses of its capture. Memory allocated in a capture may therefore not
be reused elsewhere while the graph can be replayed. A captured stream uses the graph's pools
instead of its own (`enter_pool`), so an allocation need not test for a capture. Dropped blocks
return to their pools, and only later captures into the same pool reuse them. When the last graph is
gone, the segments return to the backend like other free segments (`leave_pool`, `drop_pool`).
During a capture no event is recorded or queried and no memory is returned, because drivers reject
that. A backend that does not keep blocks still keeps the blocks of graphs.

Note [Allocator backend]
A backend has
  malloc(size, stream) -> (ptr, handle)   raises MemoryError if it has no memory
  free(ptr, handle, stream)               work queued on `stream` before this call may still use it
  mark(stream) -> entry                   the stream, or what stands for the work that it has now
  record(entry) -> event | None           `event.query()`: the work of an entry is done; None where
                                          its stream cannot be asked any more
  synchronize()                           wait for all work of the device
  release()                               let others in this process give back what they cache
  mem_get_info() -> (free, total)
where a stream has `.device_index`, `.key`, equal for equal streams of a device, and `.ptr`.
"""

from .allocator import Allocator
from .devices import Allocators, allocating, taking
from .memory import Memory

__all__ = ["Allocator", "Allocators", "Memory", "allocating", "taking"]
