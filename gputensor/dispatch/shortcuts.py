"""Short cuts from a public function to the loop, past kernels that have nothing to do.

Note [Short cuts]
`a + b` of plain tensors passes a table, the kernel of Autograd, the same table again, and the plans
of its backend's kernel; half of what the call costs. A kernel that has a plan may leave on the
operator's table, under the operands' geometries, a function that does the whole of such calls: the
public function and native code's calls look there first (codegen/gather.py). It does so when a plan
is used again, so that shapes that come once cost nothing more. A short cut asks itself whether a
call is the plain case, in which the kernels in between would do nothing, and returns None where it
is not:

- every operand has the plain keys of its device, and autograd knows nothing of it,
- the thread's state is that outside of every block (`tls.PLAIN`),
- what stands beside the tensors (dims, dtypes, bounds) is what it was made with.

The table asks the rest, once, when a call with plain keys first passes it (`Table._open`): nothing
but makers' kernels and fallthroughs stands above the backend's kernel, no trace or profile is on,
and what leaves short cuts is that very kernel. They lie on the table, so whatever is registered or
taken back, put around kernels or changed of the default dtype takes them away with it.
GPUTENSOR_SHORTCUTS=0 turns them off; no call differs but in its cost.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import backend_select, keys, tls

if TYPE_CHECKING:
    from .operator import Operator, Table

# operands -> the result, or None where the call is not the plain case.
ShortCut = Callable[..., Any]

VARIABLE = "GPUTENSOR_SHORTCUTS"
is_on = os.environ.get(VARIABLE) != "0"
# Where a table keeps none. Nothing is ever written into it.
NONE: dict[Any, ShortCut] = {}


def plain(tensor_keys: int) -> int:
    """The key set of a call of plain tensors outside of every block."""
    include, keep = tls.PLAIN
    return (tensor_keys | include) & keep


# What a table opens at. Short cuts of other devices than the CPU: their kernels leave none yet.
CPU = plain(backend_select.TENSOR_KEYS["cpu"])


def learner(table: Table, key_set: int) -> Callable[..., Any] | None:
    """The backend's kernel, if a plain call that passes this table comes straight to it."""
    rest = key_set
    while True:
        key = keys.highest(rest)
        kernel, _ = table.slot(key)
        if kernel is None:
            return None
        if rest >> keys.N_BACKENDS == _DENSE:
            return kernel.function if kernel.convention == "native" else None
        # A maker's kernel has nothing to do for plain operands, or a short cut does it: it counts
        # writes. So it must not count where somebody made an operator of ours fall through.
        counts_nothing = kernel.is_fallthrough and key.functionality == "ADInplaceOrView"
        if kernel.convention not in ("maker", "fallthrough") or (
            counts_nothing and kernel is not table.fallbacks.get(key)
        ):
            return None
        rest = keys.without_highest(rest)


_DENSE = keys.functionality_bit("Dense") >> keys.N_BACKENDS


def learn(operator: Operator, kernel: Callable[..., Any], key: Any, found: ShortCut) -> None:
    """Leave a short cut on the operator's table, if calls may pass by `kernel` that way."""
    table = operator.table
    if table.learner is kernel:
        table.short[key] = found
