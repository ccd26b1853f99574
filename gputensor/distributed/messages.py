"""Messages from one rank to another: send, recv, isend, irecv and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .collectives import _group, _tensor, copying
from .groups import ProcessGroup, chosen_rank
from .operators import carried, in_place, start, together
from .work import Work
from .._generated import calls
from ..core import errors
from ..tensor.base import materialised
from ..tensor.tensor import Tensor

# MPI guarantees tags up to this value. Source: MPI 4.1, 9.1.2.
_LARGEST_TAG = 32767


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> Work:  # fmt: skip
    """Start to send a tensor to a rank: `dst` in the world, or `group_dst` in the group. The tensor
    must not change before the Work has finished."""
    x = _tensor("send", "tensor", tensor)
    where = _group("send", group, x)
    to = _other("send", "dst", where, dst, group_dst)
    x = materialised(x.detach())
    via, (array,) = carried("send", x)
    return start("send", where, x, via.send, array, to, _tag("send", tag))


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0,
    group_dst: int | None = None,
) -> None:  # fmt: skip
    """Send a tensor to a rank, as `isend` does. The tensor may be changed after the call
    returns."""
    isend(tensor, dst, group, tag, group_dst).wait()


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> Work:  # fmt: skip
    """Start to receive a tensor from a rank: `src` in the world, or `group_src` in the group. The
    default is any rank."""
    return _receive(tensor, src, group, tag, [], group_src)


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0,
    group_src: int | None = None,
) -> int:  # fmt: skip
    """Receive a tensor from a rank, as `irecv` does. Return the sender's rank.

    Raises: DistributedError if message and tensor differ in size.
    """
    came_from: list[int] = []
    _receive(tensor, src, group, tag, came_from, group_src).wait()
    return _group("recv", group, tensor).ranks[came_from[0]]


class P2POp:
    """One message of a batch, for `batch_isend_irecv`.

    Args:
        op: isend or irecv.
        peer: the other process' rank in the world. group_peer: its rank in the group instead.
    Raises: as isend and irecv; ArgumentValueError unless exactly one rank is given.
    """

    __slots__ = ("op", "tensor", "peer", "group", "tag", "group_peer")

    def __init__(
        self, op: Callable[..., Work], tensor: Tensor, peer: int | None = None, group: Any = None,
        tag: int = 0, group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op is not isend and op is not irecv:
            raise errors.wrong_value("P2POp", "op", "be isend or irecv", op)
        self.op: Callable[..., Work] = op
        self.tensor: Tensor = _tensor("P2POp", "tensor", tensor)
        self.group: ProcessGroup = _group("P2POp", group, self.tensor)
        if (peer is None) == (group_peer is None):
            rule = "be given, or 'group_peer' instead, but not both"
            raise errors.wrong_value("P2POp", "peer", rule, peer)
        self.group_peer: int = _other("P2POp", "peer", self.group, peer, group_peer)
        self.peer: int = self.group.ranks[self.group_peer]
        self.tag: int = _tag("P2POp", tag)

    def __repr__(self) -> str:
        to = "to" if self.op is isend else "from"
        return f"P2POp({self.op.__name__} {to} rank {self.peer}, {errors.describe(self.tensor)})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages together, in any order of sends and receives; return their Works.

    Between GPUs they are one launch of NCCL. Messages with one tag from one rank to another arrive
    in the order in which they were sent. Before any message is started, it raises ArgumentTypeError
    if the argument is not a list of P2POp, and ArgumentValueError for an empty list or for several
    groups.
    """
    op = "batch_isend_irecv"
    if not isinstance(p2p_op_list, (list, tuple)):
        raise errors.wrong_type(op, "p2p_op_list", "be a list of P2POp", p2p_op_list)
    for one in p2p_op_list:
        if not isinstance(one, P2POp):
            raise errors.wrong_type(op, "p2p_op_list", "be a list of P2POp", one)
    if not p2p_op_list:
        raise errors.wrong_value(op, "p2p_op_list", "not be empty", p2p_op_list)
    group = p2p_op_list[0].group
    if any([one.group is not group for one in p2p_op_list]):
        raise errors.wrong_value(op, "p2p_op_list", "be of one group", errors.Got("several"))
    with together(op, [one.tensor for one in p2p_op_list], group.name):
        return [one.op(one.tensor, one.peer, group, one.tag) for one in p2p_op_list]


def _receive(
    tensor: Any, src: Any, group: Any, tag: Any, came_from: list[int], group_src: Any
) -> Work:
    x = _tensor("recv", "tensor", tensor)
    where = _group("recv", group, x)
    in_place("recv", x, "tensor")
    is_any = src is None and group_src is None
    source = None if is_any else _other("recv", "src", where, src, group_src)
    made = calls.empty_like(x.detach(), memory_format=None)
    via, (array,) = carried("recv", made)
    given = array, source, _tag("recv", tag), came_from
    return start("recv", where, (x, made), via.receive, *given)._then(copying([x], [made]))


def _other(op: str, arg: str, group: Any, rank: Any, of_group: Any = None) -> int:
    found = chosen_rank(op, arg, group, rank, of_group)
    if found == group.rank():
        raise errors.wrong_value(op, arg, "be another rank than this one", group.ranks[found])
    return found


def _tag(op: str, tag: Any) -> int:
    if type(tag) is not int or not 0 <= tag <= _LARGEST_TAG:
        raise errors.wrong_value(op, "tag", f"be an int in [0, {_LARGEST_TAG}]", tag)
    return tag
