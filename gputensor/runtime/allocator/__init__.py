"""A caching allocator for one device: PyTorch's, with its names for what can be asked of it.

A block that a tensor drops is free for its own stream at once and without a driver call: whoever
takes it next there queues behind the work that used it. `record_stream` covers the other case, a
block used on a second stream: when dropped it waits for an event on each such stream, polled by
later allocations. segments.py splits and merges what the backend gives.

Note [Finalisers and signals]
A block that no other stream used goes from its memory into its bin, and from the bin into the next
memory, without the lock; the others are dropped by one `deque.append`, and the next call that takes
the lock does the bookkeeping. A finaliser, a signal's handler or another thread can run at any call
inside the functions below and may allocate, drop, or raise KeyboardInterrupt. So
- the lock is only taken by `with`, which cannot be interrupted between taking it and the block;
- it is reentrant, and no collection and no wait for a device happens under it;
- what moves a block from one owner to the next has no call but the last, since CPython looks for
  signals and for other threads only after calls and at jumps back; a block is taken out of its bin
  by one statement, since a debugger looks between lines as well, and without a new object, since
  Python 3.11 collects wherever it makes one;
- whoever holds the lock finds that bins lose and gain blocks at any call;
- pools are changed under `_is_changing`: who finds it set has interrupted the change, and leaves
  them alone (an allocation gets a segment to itself). A change that did not come to its end leaves
  `_is_torn` behind, and the next one makes the pools anew.

Note [Pools of graphs]
A CUDA graph has the addresses of its capture, so what a capture allocates may go to nobody else as
long as the graph can be replayed. While a stream is captured it has pools of the graph's instead of
its own (`enter_pool`): no allocation asks whether there is a capture. Blocks go home to the pools
they came from, so what is dropped serves later captures into the same pool, and nobody else; the
segments go back to the backend, like others that are free, once the last graph has gone
(`leave_pool`, `drop_pool`). Meanwhile no event is recorded or asked and nothing is given back: a
driver refuses it. A backend whose blocks are not kept keeps those of graphs.

Note [Allocator backend]
A backend has
  malloc(size, stream) -> (ptr, handle)   raises MemoryError where there is none
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
