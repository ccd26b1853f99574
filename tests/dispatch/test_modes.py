"""DispatchMode: the calls that a mode receives, their order, and that a mode has no effect after
its end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import gputensor as gt
from gputensor.fallbacks import modes
from gputensor.core import errors
from gputensor.dispatch import keys, tls
from gputensor.dispatch.operator import Operator
from gputensor.library import Library

from .operands import CPU, META, kernel


class Noting(gt.DispatchMode):
    """Records each call and runs it unchanged."""

    def __init__(self, log: list[Any] | None = None, name: str = "") -> None:
        self.log: list[Any] = [] if log is None else log
        self.name = name

    def __gputensor_dispatch__(
        self, op: Operator, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.log.append(f"{self.name}{op.short_name}{'.' if op.overload else ''}{op.overload}")
        return op(*args, **(kwargs or {}))


def seen(call: Any) -> list[str]:
    with Noting() as mode:
        call()
    return mode.log


def test_calls_arrive_with_operator_and_arguments() -> None:
    given: list[Any] = []

    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given.append((op, types, args, kwargs))
            return 5 if op.short_name == "item" else META

    x = gt.ones(2)
    with Mode():
        assert gt.add(x, 2, alpha=3) is META
        gt.zeros(2, device="cpu")
        x.sum(0, keepdim=True)
    find = gt.dispatch.find
    assert given[0] == (find("aten::add.Tensor"), (), (x, 2), {"alpha": 3})
    assert given[1] == (find("aten::zeros"), (), ([2],), {"device": gt.device("cpu")})
    assert given[2] == (find("aten::sum.dim_IntList"), (), (x, [0], True), {})
    assert len(given) == 3


def test_composites_are_seen_by_their_parts() -> None:
    x = gt.ones(2, 3)
    assert seen(lambda: x.t().reshape(6)) == ["t", "clone", "_unsafe_view"]
    assert seen(lambda: x.narrow(0, 0, 1)) == ["slice.Tensor"]
    with gt.dispatch.InferenceMode():  # no autograd key, so no kernel above Python decomposes them
        assert seen(lambda: x.narrow(0, 0, 1)) == ["narrow"]


def test_kernels_calls_are_their_own_business() -> None:
    x = gt.ones(2, 3)
    assert seen(lambda: x.clone()) == ["clone"]
    assert seen(lambda: gt.stack([x, x])) == ["stack"]


def test_factories_and_writes() -> None:
    x = gt.zeros(3)
    assert seen(lambda: (gt.rand(2), x.add_(1), gt.add(x, 1, out=x), x.zero_())) == [
        "rand", "add_.Tensor", "add.out", "zero_",
    ]  # fmt: skip
    assert x._version == 3


def test_user_operators(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel("f"), "CPU")
    assert seen(lambda: getattr(gt.ops, lib.ns).f(CPU)) == [f"{lib.ns}::f"]


def test_modes_nest_innermost_first() -> None:
    log: list[str] = []
    outer, inner = Noting(log, "outer "), Noting(log, "inner ")
    x = gt.ones(2)
    with outer:
        with inner:
            assert modes.current_modes() == (outer, inner)
            x + 1
        x * 2
    x - 1
    assert log == ["inner add.Tensor", "outer add.Tensor", "outer mul.Tensor"]
    assert modes.current_modes() == ()


def test_one_mode_can_be_entered_twice() -> None:
    mode, x = Noting(), gt.ones(2)
    with mode, mode:
        x + 1
    with mode:
        x + 1
    assert mode.log == ["add.Tensor"] * 3


def test_within_a_handler_only_the_modes_outside_are_on() -> None:
    found: list[Any] = []

    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found.append((modes.current_modes(), "Python" in gt.dispatch.included()))
            args[0] * 2  # a separate call
            return op(*args, **(kwargs or {}))

    outer, inner = Mode(), Mode()
    with outer, inner:
        gt.ones(2) + 1
    # ones, add, and the calls of the inner handler within each
    assert found[0] == ((outer,), True) and found[1] == ((), False)
    assert {on for on, _ in found} == {(outer,), ()}


def test_handlers_run_below_autograd() -> None:
    inside: list[Any] = []

    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            inside.append(tls.state.get())
            return op(*args, **(kwargs or {}))

    before = tls.state.get()
    with Mode():
        gt.ones(2)
    ((_, keep),) = inside
    assert not keep & (tls.AUTOGRAD | tls.AD_INPLACE_OR_VIEW | tls.AUTOCAST)
    assert keep & keys.LAZY == keys.LAZY
    assert tls.state.get() == before


def test_conjugates_stay_lazy_in_a_handler() -> None:
    """PyTorch 2.13 excludes the key in a handler, and so reads lazy conjugates without conjugating
    them."""

    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if op.short_name == "mul":
                return gt.conj(args[0]) * 1
            return op(*args, **(kwargs or {}))

    z = gt.tensor([1 + 2j])
    with Mode():
        assert (z * z).tolist() == [1 - 2j]
        assert (z.conj() * 2).tolist() == [1 + 2j]


def test_a_mode_sees_materialised_operands() -> None:
    z = gt.tensor([1 + 2j])
    assert seen(lambda: z.conj() * 2) == ["_conj", "clone", "mul.Tensor"]


def test_not_implemented_is_an_error_in_the_end() -> None:
    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    x = gt.ones(2)
    with (
        Mode(),
        pytest.raises(
            TypeError, match=r"add: no handler took the call \(got NotImplemented from Mode\)"
        ),
    ):
        x + 1


def test_results_are_checked() -> None:
    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return "no tensor"

    x = gt.ones(2)
    with Mode(), pytest.raises(TypeError, match="Mode.__gputensor_dispatch__ must return Tensor"):
        x + 1
    assert (x + 1).tolist() == [2, 2]


def test_a_mode_without_a_handler() -> None:
    with (
        gt.DispatchMode(),
        pytest.raises(errors.ArgumentError, match="'__gputensor_dispatch__' must be defined"),
    ):
        gt.ones(2)


def test_exceptions_restore_the_state() -> None:
    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            raise ValueError(op.short_name)

    state = tls.state.get()
    with pytest.raises(ValueError, match="ones"), Mode():
        gt.ones(2)
    assert tls.state.get() == state and modes.current_modes() == ()


def test_no_dispatch() -> None:
    x = gt.ones(2)
    with Noting() as mode:
        with gt.no_dispatch():
            x + 1
        x * 1
    assert mode.log == ["mul.Tensor"]


def test_a_mode_is_its_threads_own() -> None:
    x = gt.ones(2)
    with Noting() as mode:
        thread = threading.Thread(target=lambda: x + 1)
        thread.start()
        thread.join()
    assert mode.log == []


def test_a_mode_is_its_tasks_own() -> None:
    x = gt.ones(2)

    async def within(mode: Noting, entered: asyncio.Event, done: asyncio.Event) -> None:
        with mode:
            entered.set()
            await done.wait()
            x + 1

    async def both() -> Noting:
        mode, entered, done = Noting(), asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(within(mode, entered, done))
        await entered.wait()
        x * 1
        done.set()
        await task
        return mode

    assert asyncio.run(both()).log == ["add.Tensor"]


def test_only_who_is_in_a_mode_pays(lib: Library) -> None:
    """Table entries of ordinary calls are the kernels themselves, whether or not there are
    modes."""
    add, of_handlers = gt.dispatch.find("aten::add.Tensor"), set()

    class Telling(Noting):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            include, keep = tls.state.get()
            of_handlers.update((x._keys | include) & keep for x in args if isinstance(x, gt.Tensor))
            return super().__gputensor_dispatch__(op, types, args, kwargs)

    with gt.dispatch.AutoDispatchBelowAutograd():
        gt.ones(2) + 1
        plain = dict(add.table)
        with Telling():
            gt.ones(2) + 1
    assert plain.items() <= add.table.items()
    added = set(add.table) - set(plain) - of_handlers
    assert all(key_set & keys.PYTHON for key_set in added)


# --- results that are not views -------------------------------------------------------------------


class Answer(gt.DispatchMode):
    """Returns the result of `make` for one operator."""

    def __init__(self, make: Any, name: str = "aten::t") -> None:
        self.make, self.name = make, name

    def __gputensor_dispatch__(
        self, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return self.make(args[0]) if op.name == self.name else op(*args, **(kwargs or {}))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_view_operator_answered_with_other_memory_is_no_view(requires_grad: bool) -> None:
    leaf = gt.ones(2, 3, requires_grad=requires_grad)
    x = leaf * 1
    with Answer(lambda x: x.detach().t().clone()):
        y = x.t()
    assert not y._is_view() and y._base is None
    y.mul_(5)
    assert x._version == 0 and x.tolist() == [[1] * 3] * 2
    if requires_grad:
        x.sum().backward()
        assert leaf.grad.tolist() == [[1] * 3] * 2  # the write to y did not write to x


def test_data_answered_with_other_memory_is_that() -> None:
    x = gt.ones(3)
    with Answer(lambda x: x + 1, "aten::detach"):
        y = x.data
    y.mul_(5)
    assert x.tolist() == [1] * 3 and y.tolist() == [10] * 3 and (x._version, y._version) == (0, 1)


def test_a_view_operator_answered_with_the_operand_itself() -> None:
    x = gt.ones(2, 2)
    with Answer(lambda x: x):
        assert x.t() is x
    assert not x._is_view()


def test_views_in_a_mode_are_views() -> None:
    x = gt.ones(2, 3)
    with Answer(lambda x: x.t()):
        y = x.t()
    assert y._base is x
    y.add_(1)
    assert x._version == 1 and x.tolist() == [[2] * 3] * 2


def test_modes_and_grad_modes_end_in_any_order() -> None:
    from gputensor.autograd.modes import unrecorded

    before = list(unrecorded)
    mode, nothing = Answer(lambda x: x), gt.no_grad()
    with mode, nothing, mode:
        pass
    with nothing:
        with mode:
            assert len(unrecorded) == len(before) + 2
    assert unrecorded == before


def test_gradients_that_output_mask_leaves_out_pass_through_a_mode() -> None:
    x, weight = gt.randn(1, 2, 4, 4, requires_grad=True), gt.randn(2, 2, 3, 3)
    with Noting():
        gt.nn.functional.conv2d(x, weight).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
