"""Programs that random ones do not cover: shared memory, lazy views, users' kernels."""

from __future__ import annotations

import copy
import ctypes
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.fusion.record.recorder import current
from gputensor.library import Library

from ..cuda.support import requires_emulator
from ..harness import tier
from .same import state_of

PLACES = ["cpu", pytest.param("cuda", marks=[requires_emulator, pytest.mark.emulator])]
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    PROGRAMS[function.__name__] = function
    return function


def caught(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except Exception as error:
        return type(error).__name__, str(error)


@program
def handed_to_numpy(x: Any) -> Any:
    y = x.cpu() + 1
    n = y.numpy()
    y.mul_(2)
    z = y + 1
    n[0] = 100
    return z, y, n.tolist()


@program
def packed_between(x: Any) -> Any:
    y = x.expand(2, 3, 5, 4) * 3
    before = y + 1  # has to read y before it is written to
    gt.layout.pack(y + 2, scale=0.5, out=y)
    z = y * 2
    return before, y, z, gt.layout.contiguous(z.permute(0, 2, 3, 1)), gt.layout.copy(y, z), y + z


@program
def handed_to_others(x: Any) -> Any:
    y = x.cpu() * 3
    n = np.from_dlpack(y)
    z = y + 1
    y.add_(1)
    return y, z, n.tolist()


@program
def an_address(x: Any) -> Any:
    y = x.cpu() + 1
    here = (ctypes.c_float * 4).from_address(y.data_ptr())
    y.add_(1)
    before = list(here)
    z = y * 2
    y.add_(1)
    return before, list(here), z


@program
def over_an_array(x: Any) -> Any:
    n = np.ones(4, np.float32)
    y = gt.from_numpy(n) + 1
    n[:] = 5
    return y, y * 2


@program
def conjugates(x: Any) -> Any:
    z = x * (1 + 2j)
    y = z.conj()
    return y * 2, y + z, (y * z).imag, y.resolve_conj(), y.is_conj(), z.conj().imag.neg()


@program
def overlapping(x: Any) -> Any:
    y = x * 1
    return caught(lambda: y[:3].add_(y[1:])), y, caught(lambda: x.expand(2, 4).add_(1))


@program
def over_itself_turned(x: Any) -> Any:
    y, z = x.view(2, 2) * 1, x.view(2, 2) * 1
    return caught(lambda: y.add_(y.t())), y, caught(lambda: z.t().mul_(z)), z


@program
def numbers(x: Any) -> Any:
    i, small = x.to(gt.int64), x.to(gt.uint8)
    large = [caught(lambda v=v: i + v) for v in (2**31, 2**62, -(2**63), 2**63)]
    wrapped = [caught(lambda v=v: small + v) for v in (300, -1, 1 << 20)]
    odd = [x * -0.0, x + 0.0, x * float("nan"), x / -0.0, x * np.float64(2), x + np.int64(3)]
    return large, wrapped, odd, x * 1j + x


@program
def zero_divisors(x: Any) -> Any:
    i = x.to(gt.int64)
    return i // 3, (i - 5) // 2, i % 3, i << 2, caught(lambda: i // 0), caught(lambda: i % 0)


@program
def rules_that_change(x: Any) -> Any:
    i, wide = x.to(gt.int64), gt.tensor(2.0, dtype=gt.float64).to(x.device)
    first = i / 2, x * wide
    gt.set_default_dtype(gt.float64)
    gt.set_type_promotion("array_api")
    try:
        second = i / 2, x * wide
    finally:
        gt.set_default_dtype(gt.float32)
        gt.set_type_promotion("pytorch")
    return first, second, i / 2, x * wide


@program
def autocast(x: Any) -> Any:
    m = x.view(2, 2)
    with gt.autocast(x.device.type, gt.bfloat16):
        y = (m + 1) @ (m * 2)
        return y, y + 1


@program
def saved_and_written(x: Any) -> Any:
    w = x.clone().requires_grad_()
    y = w * 2
    z = y * y
    y.add_(1)
    return caught(lambda: z.sum().backward()), caught(lambda: w.add_(1))


@program
def views_with_a_history(x: Any) -> Any:
    w = x.view(2, 2).clone().requires_grad_()
    y = w * 2
    v = y[0]
    v.mul_(3)
    (y * y).sum().backward()
    return y.detach(), v.detach(), w.grad, y._version, v._version


@program
def hooks(x: Any) -> Any:
    seen: list[Any] = []
    w = x.clone().requires_grad_()

    def pack(t: Any) -> Any:
        seen.append(t.tolist())
        return t

    with gt.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = (w * w).exp()
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    return w.grad, seen


@program
def outs(x: Any) -> Any:
    into, other = gt.empty(0).to(x.device), x * 9
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        gt.add(x, x, out=into)
    y = other + 1
    gt.mul(x, 3, out=other)
    return into, y, other, [str(w.message) for w in told]


@program
def other_memory(x: Any) -> Any:
    y, a, b = x + 1, x * 5, gt.empty(0).to(x.device)
    y.resize_(2)
    b.set_(a)
    b.add_(1)
    c = x + 7
    c.data = x * 3
    c.add_(1)
    return y, y * 2, a, b, c, x


@program
def copies(x: Any) -> Any:
    y = x + 1
    made = pickle.loads(pickle.dumps(y)), copy.deepcopy(y), copy.copy(y)
    y.mul_(2)
    return made, y


@program
def written_by_index(x: Any) -> Any:
    y = x * 2
    y[y > 4] = -1
    z = y + 1
    y[2] = 50
    return y, z, y[gt.tensor([0, 2]).to(x.device)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", [*PROGRAMS][:: tier.pick(4, 1)])
def test_a_program_gives_what_it_gives_without(name: str, place: str) -> None:
    x = gt.tensor([1.0, -2.0, 0.0, 3.0]).to(place)
    run = PROGRAMS[name]
    expected = state_of(run(x.clone()))
    assert state_of(gt.fuse(run)(x.clone())) == expected
    with gt.fuse():
        assert state_of(run(x.clone())) == expected
    assert current.get() is None


def test_what_layout_has_read_is_recorded_again() -> None:
    x = gt.rand(2, 3, 4, 5)
    packed = gt.layout.pack(x, gt.float64, scale=2)
    turned = gt.layout.contiguous(x.permute(0, 2, 3, 1))
    for y in (x, packed, turned):
        found = gt.fuse.explain(lambda y=y: (y * 2 + 1).exp())
        assert [len(chain.instructions) for chain, _ in found.chains] == [3]


@pytest.mark.parametrize("place", PLACES)
def test_a_kernel_of_a_user_is_called(place: str) -> None:
    x = gt.ones(2).to(place)
    calls: list[Any] = []

    def mine(a: Any, b: Any) -> Any:
        calls.append(b)
        return a.clone()

    with gt.fuse():
        y = x + 1
        library = Library("aten", "IMPL")
        with library, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.impl("mul.Tensor", mine, place.upper())
            z = y * 2
        w = y * 2
    assert (z.tolist(), w.tolist(), len(calls)) == ([2.0, 2.0], [4.0, 4.0], 1)


@pytest.mark.full
def test_chains_that_read_each_other_may_be_many() -> None:
    def turns(x: Any) -> Any:
        for _ in range(2_000):
            x = (x + 1).t() * 0.5
        return x

    x = gt.rand(2, 3)
    with gt.fuse():
        y = turns(x)
    assert gt.equal(y, turns(x))


def test_explain_names_the_operand_that_other_code_may_write_to() -> None:
    taken, own = gt.from_numpy(np.ones((300, 400), np.float32)), gt.ones(300, 400)

    def f(x: Any, y: Any) -> Any:
        made = (x * 2 + y).exp()
        print(end="")
        return made * taken

    assert gt.fuse.explain(f, taken, own).unrecorded == ("x",)
    found = gt.fuse.explain(gt.fuse(f), own, own)
    assert found.unrecorded == ("taken",) and "its memory: taken" in str(found)
    assert found.to_dict()["unrecorded"] == ["taken"]

    def several(*of: Any) -> Any:
        print(end="")
        return of[0] + of[1] + of[2][0]

    assert gt.fuse.explain(several, own, taken, [own]).unrecorded == ("argument 1",)
    assert gt.fuse.explain(several, own, own, [taken]).unrecorded == ("a tensor f32[300,400] cpu",)
    assert not gt.fuse.explain(lambda x: x + 1, taken).unrecorded
