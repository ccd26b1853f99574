"""A caching allocator for one device, with the design and the names of PyTorch's allocator.

When a tensor drops a block, the block is free for its own stream at once, without a driver call:
later work on that stream is queued after the work that used the block. `record_stream` marks a
block that a second stream uses. A marked block is free only after an event on each of these
streams, which later allocations poll. segments.py splits and merges the backend's memory.

Note [Finalisers and signals]
A block that no other stream has used moves without the lock, from its Memory into its bin, and from
the bin into the next Memory. Other blocks are appended to a deque when they are dropped, and the
next call that takes the lock does the bookkeeping. A finaliser, a signal handler or another thread
can run at any call inside the functions below. It may allocate, drop a block, or raise
KeyboardInterrupt. Therefore:
- the lock is only taken by `with`, which cannot be interrupted between taking it and the block;
- the lock is reentrant, and under it there is no garbage collection and no wait for a device;
- code that moves a block to its next owner makes no call before its last step, because CPython
  handles signals and switches threads only after calls and at backward jumps. One statement takes a
  block out of its bin, because a debugger also stops between lines. The statement creates no
  object, because Python 3.11 may collect garbage whenever it creates one;
- at any call, bins may lose and gain blocks, even while the lock is held;
- pools are changed only while `_is_changing` is set. Code that finds it set has interrupted a
  change and does not touch the pools (an allocation gets its own segment). An unfinished change
  leaves `_is_torn` set, and the next change rebuilds the pools.

Note [Pools of graphs] A CUDA graph contains the addresses that its capture used. Memory that was
allocated in a capture may therefore not be reused elsewhere while the graph can be replayed. A
captured stream uses the graph's pools instead of its own (`enter_pool`), so an allocation need not
test for a capture. Dropped blocks return to their pools, and only later captures into the same pool
reuse them. When the last graph is gone, its segments return to the backend like other free segments
(`leave_pool`, `drop_pool`). During a capture no event is recorded or queried and no memory is
returned, because drivers reject these calls. A backend that does not keep dropped blocks still
keeps the blocks of graphs.

Note [Allocator backend]
A backend has
  malloc(size, stream) -> (ptr, handle)   raises MemoryError if it has no memory
  free(ptr, handle, stream)               work that is already queued on `stream` may still use it
  mark(stream) -> entry                   the stream, or an object that stands for its present work
  record(entry) -> event | None           `event.query()`: True when the work of the entry is done;
                                          None if its stream can no longer be queried
  synchronize()                           wait for all work of the device
  release()                               let other libraries in this process free their caches
  mem_get_info() -> (free, total)
A stream has `.device_index`, `.ptr`, and `.key`, which is equal for equal streams of a device.
"""

from .allocator import Allocator
from .devices import Allocators, allocating, taking
from .memory import Memory

__all__ = ["Allocator", "Allocators", "Memory", "allocating", "taking"]
