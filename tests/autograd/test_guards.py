"""All guards: as blocks, as decorators of all kinds, left out of order, interrupted."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.fallbacks import modes as dispatch_modes
from gputensor.amp import casting
from gputensor.autograd import anomaly, graph, modes, saved
from gputensor.dispatch import backend_select, tls
from gputensor.fusion.record import recorder

from ..backend.devices import Runtime


class Stream:
    def __init__(self, device_index: int) -> None:
        self.device_index = device_index

    def record_event(self) -> object:
        return object()

    def wait_event(self, event: object) -> None: ...

    def synchronize(self) -> None: ...


class Streams(Runtime):
    """A device with several streams."""

    def __init__(self) -> None:
        super().__init__()
        self.now = {0: Stream(0), 1: Stream(1)}

    def current_stream(self, index: int) -> Any:
        return self.now[index]

    def set_stream(self, stream: Any) -> Any:
        before, self.now[stream.device_index] = self.now[stream.device_index], stream
        return before


@pytest.fixture(scope="module", autouse=True)
def further() -> Iterator[Any]:
    with gt.backend.register("guarded", "PrivateUse3", runtime=Streams()) as device:
        yield device


class Mode(gt.DispatchMode):
    def __gputensor_dispatch__(
        self, op: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return op(*args, **(kwargs or {}))


def _ours() -> dict[str, Callable[[], Any]]:
    return {
        "no_grad": gt.no_grad,
        "enable_grad": gt.enable_grad,
        "set_grad_enabled": lambda: gt.set_grad_enabled(False),
        "inference_mode": gt.inference_mode,
        "inference_mode(False)": lambda: gt.inference_mode(False),
        "autocast": lambda: gt.autocast("cpu"),
        "autocast(False)": lambda: gt.autocast("cpu", gt.float16, enabled=False),
        "device": lambda: gt.device("meta"),
        "device(guarded)": lambda: gt.guarded.device(1),
        "stream(guarded)": lambda: gt.guarded.stream(Stream(1)),
        "stream(None)": lambda: gt.guarded.stream(None),
        "IncludeDispatchKeys": lambda: tls.IncludeDispatchKeys("XLA"),
        "ExcludeDispatchKeys": lambda: tls.ExcludeDispatchKeys("Conjugate"),
        "AllowDispatchKeys": lambda: tls.AllowDispatchKeys("AutocastCPU"),
        "AutoDispatchBelowAutograd": tls.AutoDispatchBelowAutograd,
        "AutoDispatchBelowADInplaceOrView": tls.AutoDispatchBelowADInplaceOrView,
        "InferenceMode": tls.InferenceMode,
        "no_dispatch": gt.no_dispatch,
        "detect_anomaly": gt.autograd.detect_anomaly,
        "saved_tensors_hooks": gt.autograd.graph.save_on_cpu,
        "disable_saved_tensors_hooks": lambda: gt.autograd.graph.disable_saved_tensors_hooks("no"),
        "DispatchMode": Mode,
        "fuse": gt.fuse,
    }


GUARDS = _ours()
# These restore the mode from their beginning, in whatever order they are left; so do PyTorch's.
BRING_BACK = {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode",
"inference_mode(False)", "InferenceMode",
              "device(guarded)", "stream(guarded)", "autocast", "autocast(False)", "detect_anomaly",
              "disable_saved_tensors_hooks", "fuse"}  # fmt: skip


def state() -> tuple[Any, ...]:
    """Return all state of a thread that a guard may change."""
    return (
        tls.state.get(), modes.grad_mode.get(), dispatch_modes.current_modes(),
        backend_select.default_device(),
        gt.get_autocast_dtype("cpu"), gt.is_autocast_cache_enabled(),
        (casting.current_block.get() is None, recorder.current.get() is None),
        (anomaly.is_on, len(saved.saved_hooks.get()), graph._forbidden.get()),
        gt.guarded.current_device(), gt.guarded.current_stream(0), gt.guarded.current_stream(1),
    )  # fmt: skip


def kinds(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the state with modes and streams replaced by their kinds."""
    return (*found[:2], len(found[2]), *found[3:9], *[id(s) in _defaults for s in found[9:]])


_defaults: set[int] = set()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before, watching = state(), saved._watching
    _defaults.update(id(s) for s in before[9:])
    yield
    # After an interrupt, the check for hooks may stay active. That costs time and changes no
    # result.
    saved.watch_saved(watching - saved._watching)
    assert state() == before
    assert not modes.unrecorded and not tls.inference_blocks


@pytest.fixture(params=list(GUARDS))
def guard(request: pytest.FixtureRequest) -> Callable[[], Any]:
    return GUARDS[request.param]


def within(guard: Callable[[], Any]) -> tuple[Any, ...]:
    with guard():
        return kinds(state())


def test_every_kind_of_function(guard: Callable[[], Any]) -> None:
    outside, inside = kinds(state()), within(guard)
    log: list[tuple[Any, ...]] = []

    @guard()
    def plain(x: int) -> int:
        """Told."""
        log.append(kinds(state()))
        return x + 1

    @guard()
    async def coroutine() -> int:
        await asyncio.sleep(0)
        log.append(kinds(state()))
        return 3

    assert plain(1) == 2 and plain.__doc__ == "Told."
    assert asyncio.run(coroutine()) == 3  # type: ignore[arg-type]
    assert log == [inside, inside] and kinds(state()) == outside


def test_each_step_of_a_generator(guard: Callable[[], Any]) -> None:
    outside, inside = kinds(state()), within(guard)
    log: list[Any] = []

    @guard()
    def steps(first: Any) -> Iterator[Any]:
        sent = first
        try:
            while True:
                log.append((sent, kinds(state()) == inside))
                try:
                    sent = yield sent
                except KeyError:
                    sent = "thrown"
                if sent == "stop":
                    return "returned"
        finally:
            log.append(("closed", kinds(state()) == inside))

    running: Any = steps(1)
    assert not log  # nothing runs before the first step
    assert next(running) == 1 and kinds(state()) == outside
    assert running.send(2) == 2 and kinds(state()) == outside
    assert running.throw(KeyError()) == "thrown" and kinds(state()) == outside
    with pytest.raises(StopIteration) as end:
        running.send("stop")
    assert end.value.value == "returned" and kinds(state()) == outside
    running = steps(3)
    next(running)
    running.close()
    failing: Any = steps(4)
    next(failing)
    with pytest.raises(ZeroDivisionError):
        failing.throw(ZeroDivisionError())
    assert [name for name, _ in log] == [1, 2, "thrown", "closed", 3, "closed", 4, "closed"]
    assert all(was_inside for _, was_inside in log) and kinds(state()) == outside


def test_each_step_of_an_asynchronous_generator(guard: Callable[[], Any]) -> None:
    inside = within(guard)
    log: list[bool] = []

    @guard()
    async def steps() -> AsyncIterator[int]:
        for n in range(2):
            await asyncio.sleep(0)
            log.append(kinds(state()) == inside)
            yield n

    async def main() -> list[int]:
        outside, found = kinds(state()), []
        async for n in steps():  # type: ignore[attr-defined]
            found.append(n)
            assert kinds(state()) == outside
        return found

    assert asyncio.run(main()) == [0, 1] and log == [True, True]


def test_what_cannot_be_decorated() -> None:
    with pytest.raises(TypeError, match="no_grad: 'func' must be callable"):
        gt.no_grad()(3)  # type: ignore[arg-type]


def test_one_object_may_be_entered_again(guard: Callable[[], Any]) -> None:
    outside, made = kinds(state()), guard()
    with made:
        once = kinds(state())
        with made:
            pass
        assert kinds(state()) == once
    assert kinds(state()) == outside


@pytest.mark.parametrize("first", GUARDS)
def test_left_out_of_order(first: str) -> None:
    """Guards of two kinds do not affect each other, and operators still work."""
    for second in GUARDS:
        # except the two guards that exclude each other
        if first == second or not ("saved_" in first and "saved_" in second):
            check_left_out_of_order(first, second)


def check_left_out_of_order(first: str, second: str) -> None:
    before, x = state(), gt.ones(2)
    a, b = GUARDS[first](), GUARDS[second]()
    a.__enter__()
    b.__enter__()
    a.__exit__(None, None, None)
    b.__exit__(None, None, None)
    if state() != before:
        assert second in BRING_BACK, (first, second)
    with contextlib.ExitStack() as clean:  # the guards that remain active
        clean.callback(lambda: _restore(before))
    assert (x + 1).tolist() == [2, 2], (first, second)


def _restore(before: tuple[Any, ...]) -> None:
    tls.state.set(before[0])
    modes.grad_mode.set(before[1])
    gt.set_autocast_dtype("cpu", before[4])
    casting.current_block.set(None)
    recorder.current.set(None)
    backend_select.default_devices.set((gt.device("cpu"),))
    dispatch_modes._modes.set(())
    anomaly.is_on = before[7][0]
    saved.saved_hooks.set(())
    graph._forbidden.set(None)
    gt.guarded.set_device(before[8])
    for stream in before[9:]:
        gt.guarded.set_stream(stream)
    modes.unrecorded.clear()
    tls.inference_blocks.clear()


# --- interrupts -----------------------------------------------------------------------------------


class Interrupt(BaseException):
    """The exception that the signal raises."""


def interrupted(work: Callable[[], Any], number: int) -> bool:
    """Run `work` with an interrupt at its `number`-th entry of a Python function or return of a C
    function.

    Python checks for signals at these points. Return False if there are fewer.
    """
    left = [number]

    def look(frame: Any, event: str, argument: Any) -> None:
        # If `__exit__` was never entered, only Python itself could restore the guard's state.
        if event == "c_return" or event == "call" and frame.f_code.co_name != "__exit__":
            left[0] -= 1
            if left[0] < 0:
                sys.setprofile(None)
                raise Interrupt

    sys.setprofile(look)
    try:
        work()
    except Interrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def _nothing() -> None: ...


def _programs() -> dict[str, Callable[[], Any]]:
    def guarded(make: Callable[[], Any]) -> Callable[[], Any]:
        def work() -> None:
            with make():
                _nothing()

        return work

    class Twice(gt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    w = gt.ones(3, requires_grad=True)
    base = gt.ones(3)
    view = base.view(3)
    base.mul_(w)

    def modal() -> None:
        mode = Mode()
        with mode:
            w + 1

    def cast() -> None:
        with gt.autocast("cpu"):
            gt.ones(2, 2).mm(gt.ones(2, 2))

    def backward() -> None:
        gt.autograd.grad((w.exp() * w).sum(), w, create_graph=True)

    def hooked() -> None:
        y = w * 2
        y.register_hook(lambda g: g * 2)
        gt.autograd.grad(y.sum(), w)

    def generator() -> None:
        @gt.no_grad()
        def steps() -> Iterator[Any]:
            yield w * 2

        list(steps())

    return {
        **{name: guarded(make) for name, make in GUARDS.items()},
        "operator": lambda: w * w, "in place": lambda: (w * 1).mul_(w), "view": lambda: w.view(3,
        1).t(),
        "regenerated": lambda: view.is_leaf, "Function": lambda: Twice.apply(w).sum(),
        "mode": modal,
        "cast": cast, "backward": backward, "hooks": hooked, "generator": generator,
    }  # fmt: skip


# a generator that is dropped cannot raise the interrupt to its caller
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", list(GUARDS) + [
    "operator", "in place", "view", "regenerated", "Function", "mode", "cast", "backward", "hooks",
    "generator",
])  # fmt: skip
def test_an_interrupt_leaves_nothing_behind(name: str) -> None:
    work = _programs()[name]
    work()  # plans and caches are made
    before, number, left = state(), 0, []
    # as in PyTorch, `set_grad_enabled` sets the mode before `with` enters it
    is_set_by_hand = name == "set_grad_enabled"
    while interrupted(work, number):
        if state() != before and not is_set_by_hand:
            left.append(number)
            _restore(before)
        elif is_set_by_hand:
            _restore(before)
        number += 1
        modes.unrecorded.clear()  # may remain too long, which only costs time
        tls.inference_blocks.clear()
    assert number and not left


@pytest.mark.parametrize("name", sorted(set(GUARDS) - {"set_grad_enabled"}))  # set where it is made
def test_a_stack_that_ran_out_leaves_nothing_behind(name: str) -> None:
    # Leaving must not need a deeper stack than entering; otherwise the innermost block remains
    # active.
    def deeper() -> None:
        with GUARDS[name]():
            deeper()

    before = kinds(state())
    with pytest.raises(RecursionError):
        deeper()
    # Counts that only make calls check for modes may remain too high.
    modes.unrecorded.clear()
    tls.inference_blocks.clear()
    assert kinds(state()) == before


def test_setting_a_mode_again_and_again_leaves_nothing_behind() -> None:
    for _ in range(3):
        gt.set_grad_enabled(False)
        gt.set_grad_enabled(False)
        assert len(modes.unrecorded) == 1
        with gt.set_grad_enabled(True):
            assert gt.is_grad_enabled() and modes.unrecorded
        assert not gt.is_grad_enabled() and len(modes.unrecorded) == 1
        with gt.set_grad_enabled(False):
            pass

        @gt.set_grad_enabled(True)
        def inner() -> bool:
            return gt.is_grad_enabled()

        assert inner() and not gt.is_grad_enabled() and len(modes.unrecorded) == 1
        gt.set_grad_enabled(True)
        assert not modes.unrecorded
