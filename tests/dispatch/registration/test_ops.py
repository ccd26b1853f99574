"""`gt.ops`: names exist as long as their definitions."""

from __future__ import annotations

import copy
import pickle

import pytest

from gputensor import dispatch, ops
from gputensor.core import errors
from gputensor.library import Library

from ..operands import CPU, kernel, library


def test_operators_by_name(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor", tags=("pointwise",))
    lib.define("f.other(Tensor x, int n) -> Tensor")
    namespace = ops.__getattr__(lib.ns)
    packet = namespace.f
    assert packet.overloads() == ["default", "other"]
    assert packet.default is dispatch.find(f"{lib.ns}::f") is dispatch.find(f"{lib.ns}::f.default")
    assert str(packet.other._schema) == f"{lib.ns}::f.other(Tensor x, int n) -> Tensor"
    assert packet.default.tags == ("pointwise",)
    assert (repr(packet), str(packet)) == (
        f"<OperatorPacket {lib.ns}::f: default, other>",
        f"{lib.ns}.f",
    )
    assert (repr(packet.other), str(packet.other)) == (
        f"<Operator {lib.ns}::f.other>",
        f"{lib.ns}.f.other",
    )
    assert str(packet.default) == f"{lib.ns}.f.default"


def test_dir_lists_what_there_is(lib: Library) -> None:
    lib.define("f.a(Tensor x) -> Tensor")
    namespace = ops.__getattr__(lib.ns)
    assert lib.ns in dir(ops) and "f" in dir(namespace) and "a" in dir(namespace.f)
    assert repr(namespace) == f"<operators of namespace '{lib.ns}'>"


def test_unknown_names_are_attribute_errors(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    namespace = ops.__getattr__(lib.ns)
    with pytest.raises(AttributeError, match="no operator 'g'"):
        namespace.g  # noqa: B018
    with pytest.raises(AttributeError, match="no overload 'a'"):
        namespace.f.a  # noqa: B018
    with pytest.raises(AttributeError):
        ops.__wrapped__  # noqa: B018


def test_held_packets_follow_definitions(lib: Library) -> None:
    lib.define("f.a(Tensor x) -> Tensor")
    packet = ops.__getattr__(lib.ns).f
    with library("FRAGMENT", lib.ns) as more:
        more.define("f.b(Tensor x, int n) -> Tensor")
        assert packet.overloads() == ["a", "b"] and packet.b.overload == "b"
    assert packet.overloads() == ["a"] and not hasattr(packet, "b")
    lib._destroy()
    assert not hasattr(ops.__getattr__(lib.ns), "f")
    with pytest.raises(errors.DispatchError, match="no such operator"):
        packet(CPU)


def test_redispatch_and_call(lib: Library) -> None:
    lib.define("f(Tensor x, *, int n=1) -> Tensor", kernel("f"))
    operator = ops.__getattr__(lib.ns).f.default
    assert operator(CPU, n=2) is CPU is operator.redispatch(0, CPU, n=2)


def test_operators_copy_and_pickle_as_themselves(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    packet = ops.__getattr__(lib.ns).f
    for held in (packet, packet.default):
        assert copy.deepcopy(held) is held is pickle.loads(pickle.dumps(held))


def test_an_overload_knows_its_packet() -> None:
    """The attribute has PyTorch's name, because programs' modes look up operators in tables of
    packets."""
    add = ops.aten.add
    assert add.Tensor.overloadpacket is add and add.Tensor._overloadpacket is add
    assert (add.Tensor.__name__, add.Tensor._opname, add.Tensor._overloadname) == (
        "add.Tensor", "add", "Tensor",
    )  # fmt: skip
    assert ops.aten.relu.default.__name__ == "relu.default" and add.__name__ == "add"
    assert ops.aten.relu.default._overloadname == "default"
