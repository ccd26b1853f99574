"""`gt.fuse` on registered devices: operators with a stub are recorded; a stub may run the chain."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import tls
from gputensor.fusion import running
from gputensor.fusion.record.pending import Pending
from gputensor.fusion.record.recorder import current

from .devices import Runtime, runs

_LOOPS = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "neg": np.negative}


def _elementwise(op: str, out: Any, *given: Any) -> None:
    operands = given[:2] if op != "neg" else given[:1]
    _LOOPS[op](*operands, out=out)


@pytest.fixture
def acme() -> Iterator[Any]:
    with gt.backend.register("acme", runtime=Runtime()) as device:
        device.register_stub("binary", runs(_elementwise, []), *("add", "mul", "sub"))
        device.register_stub("unary", runs(_elementwise, []), "neg")
        yield device


@pytest.fixture
def ran() -> Iterator[list[Any]]:
    chains: list[Any] = []

    def told(chain: Any, reason: str) -> None:
        chains.append(chain)

    running.watchers.append(told)
    yield chains
    running.watchers.remove(told)


def _function(x: Any, y: Any) -> Any:
    return -(x * y + x), (x - y).t() * 2


def _operands() -> tuple[Any, Any]:
    gt.manual_seed(0)
    return gt.rand(3, 4).to("acme"), gt.rand(4).to("acme")


def _walk(shape: Any, walk: Any, address: int) -> Any:
    strides = [s * shape.dtype.itemsize for s in shape.strides]
    memory = (ctypes.c_uint8 * max(shape.extent * shape.dtype.itemsize, 1)).from_address(address)
    made = np.ndarray(shape.sizes, shape.dtype.np, memory, 0, strides)
    return made if made.shape == walk.sizes else np.broadcast_to(made, walk.sizes)


def test_without_a_stub_operators_run_one_by_one(acme: Any, ran: list[Any]) -> None:
    x, y = _operands()
    with gt.fuse():
        found = _function(x, y)
        assert not ran
    assert [len(chain.instructions) for chain in ran] == [4, 1]
    for one, expected in zip(found, _function(x, y)):
        assert one.is_acme and one.tolist() == expected.tolist()
        assert one.stride() == expected.stride()


def test_a_stub_runs_chains(acme: Any, ran: list[Any]) -> None:
    launched: list[Any] = []

    def bind(op: str, chain: Any) -> Any:
        assert op == "chain" and chain.device.type == "acme"

        def launch(index: int, operands: Any, scalars: Any) -> None:
            launched.append((index, scalars))
            count = len(chain.stores)
            values = [
                _walk(x, chain.walk, address) for x, address in zip(chain.inputs, operands[count:])
            ]
            for step in chain.instructions:
                given = [values[n] if n >= 0 else scalars[~n] for n in step.operands]
                made = np.empty(chain.walk.sizes, step.what.result.np)
                _elementwise(step.what.loop, made, *given)
                values.append(made)
            for value, address in zip(chain.stores, operands):
                _walk(chain.geometry(value), chain.walk, address)[...] = values[value]

        return launch

    x, y = _operands()
    handle = acme.register_stub("chain", bind)
    with gt.fuse():
        found = _function(x, y)
    assert launched == [(0, ())]  # for chains of two or more operators
    with gt.fuse():
        z = (x * 3 + y).neg()
    assert launched[1] == (0, (3,))
    for one, expected in zip((*found, z), (*_function(x, y), -(x * 3 + y))):
        assert one.is_acme and one.tolist() == expected.tolist()
    assert gt.fuse.explain(_function, x, y).chains
    handle.remove()
    launched.clear()
    with gt.fuse():
        (x * 3 + y).neg()
    assert not launched


def test_what_a_stub_leaves_and_what_it_must_not_return(acme: Any) -> None:
    x, y = _operands()
    handle = acme.register_stub("chain", lambda op, chain: None)
    with gt.fuse():
        z = x * y + x
    assert z.tolist() == (x * y + x).tolist()
    handle.remove()
    handle = acme.register_stub("chain", lambda op, chain: 3)
    other = gt.ones(3)
    with pytest.raises(errors.DispatchError, match="family 'chain' for device type 'acme'"):
        with gt.fuse():
            z, there = x * y + x, other * 2 + 1
    # The block is still left, and its other chains have run.
    assert tls.state.get() is tls.PLAIN and current.get() is None
    assert type(there._storage) is not Pending and there.tolist() == [3, 3, 3]
    handle.remove()
    with pytest.raises(errors.DispatchError, match="family 'chain' for device type 'acme'"):
        z.tolist()
    with gt.fuse():
        z = x * y + x
    assert z.tolist() == (x * y + x).tolist()
    with pytest.raises(errors.GpuTensorError, match="'ops' must be of family 'chain'"):
        acme.register_stub("chain", lambda op, chain: None, "nosuch")
