"""Messages from one rank to another: send, recv, and the same without waiting."""

from __future__ import annotations

from typing import Any

from .collectives import _group, _tensor
from .groups import rank_in
from .operators import carried, start
from .work import Work
from .._generated import calls
from ..autograd.modes import no_grad
from ..core import errors
from ..tensor.base import materialised
from ..tensor.tensor import Tensor

# MPI promises tags up to here. Source: MPI 4.1, 9.1.2.
_LARGEST_TAG = 32767


def isend(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> Work:
    """Start to send a tensor to a rank of the world; it must stay as it is until that has ended."""
    x = _tensor("send", "tensor", tensor)
    where = _group("send", group, x)
    to = _other("send", "dst", where, dst)
    x = materialised(x.detach())
    via, (array,) = carried("send", x)
    return start("send", where, x, via.send, array, to, _tag("send", tag))


def send(tensor: Tensor, dst: int, group: Any = None, tag: int = 0) -> None:
    """Send a tensor to a rank of the world, and wait until its memory may be used again."""
    isend(tensor, dst, group, tag).wait()


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0) -> Work:
    """Start to receive into a tensor from a rank, any by default."""
    return _receive(tensor, src, group, tag, [])


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0) -> int:
    """Receive into a tensor from a rank of the world, any by default; returns who it came from.

    Raises: DistributedError where the message has another size than the tensor.
    """
    came_from: list[int] = []
    _receive(tensor, src, group, tag, came_from).wait()
    where = _group("recv", group, tensor)
    return where.ranks[came_from[0]]


def _receive(tensor: Any, src: Any, group: Any, tag: Any, came_from: list[int]) -> Work:
    x = _tensor("recv", "tensor", tensor)
    where = _group("recv", group, x)
    source = None if src is None else _other("recv", "src", where, src)
    made = calls.empty_like(x.detach(), memory_format=None)
    via, (array,) = carried("recv", made)
    given = array, source, _tag("recv", tag), came_from
    work = start("recv", where, (x, made), via.receive, *given)

    def copy() -> None:
        with no_grad():
            x.copy_(made)

    return work._then(copy)


def _other(op: str, arg: str, group: Any, rank: Any) -> int:
    found = rank_in(op, arg, group, rank)
    if found == group.rank():
        raise errors.wrong_value(op, arg, "be another rank than this one", rank)
    return found


def _tag(op: str, tag: Any) -> int:
    if type(tag) is not int or not 0 <= tag <= _LARGEST_TAG:
        raise errors.wrong_value(op, "tag", f"be an int in [0, {_LARGEST_TAG}]", tag)
    return tag
