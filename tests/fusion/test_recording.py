"""Repeated recordings are found by one lookup, also by several threads, in a tree of bounded
size."""

from __future__ import annotations

import sys
import threading
from itertools import groupby
from typing import Any

import pytest

import gputensor as gt
from gputensor.dispatch import shortcuts
from gputensor.fusion.record import quick
from gputensor.fusion.record import recording

from . import programs
from .same import state_of


def test_what_was_recorded_before_meets_what_was_made_of_it() -> None:
    x, y = gt.rand(4), gt.rand(4)

    def function() -> Any:
        with gt.fuse():
            z = (x * y + 2.0).exp().clamp(max=3.0) - x
        return z

    function()
    chains = len(recording._chains)
    for _ in range(3):
        function()
    assert len(recording._chains) == chains
    assert any([len(steps) == 5 for steps, *_ in recording._chains])


def test_an_operator_recorded_twice_is_computed_once() -> None:
    x, y = gt.rand(4), gt.rand(4)
    found = gt.fuse.explain(lambda: (x * y, (x * y).exp() + (x * y).exp(), x * y))
    (chain, _), *others = found.chains
    assert not others and len(chain.instructions) == 3
    assert len(chain.stores) == 3 and len({*chain.stores}) == 2
    a, b, c = found.result
    assert state_of((a, b, c)) == state_of((x * y, (x * y).exp() + (x * y).exp(), x * y))
    assert a.data_ptr() != c.data_ptr()


def test_a_warm_operator_is_recorded_in_three_frames() -> None:
    """The frames are the operator's function, its short cut, and the recording function. Short cuts
    of other tests for other operands run first."""
    x, y = gt.rand(40_000), gt.rand(40_000)

    def function(z: Any) -> Any:
        z = z * y
        return (z * y + y) * 0.5 - x.abs()

    called: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_name)

    if not shortcuts.is_on or sys.getprofile() is not None:
        pytest.skip("of short cuts, and a profile of its own")
    for _ in range(4):
        function(x)
        with gt.fuse():
            function(function(x))
    with gt.fuse():
        z = function(x)
        sys.setprofile(note)
        try:
            function(z)
        finally:
            sys.setprofile(None)
    called = [name for name, _ in groupby(called)]
    assert called[0] == "function"
    names = ["mul", "mul", "add", "mul", "abs", "sub"]
    for n, name in enumerate(names):
        frames = called[1 + 3 * n : 4 + 3 * n]
        assert name in frames[0] and frames[1:] == ["short", "record"], called


def test_a_short_cut_learns_again_after_the_functions_that_record_were_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """x of int64: the step depends on the number's value, so its function is for one number."""
    x = gt.arange(4)
    other, bound = gt.arange(6), quick._BOUND

    def record(y: Any, number: int) -> list[str]:
        called: list[str] = []

        def note(frame: Any, event: str, arg: Any) -> None:
            if event == "call":
                called.append(frame.f_code.co_name)

        with gt.fuse():
            sys.setprofile(note)
            try:
                y * number
            finally:
                sys.setprofile(None)
        return called

    if not shortcuts.is_on or sys.getprofile() is not None:
        pytest.skip("of short cuts, and a profile of its own")
    for number in (2**40, 3):
        for _ in range(4):
            x * number
            other * number
            record(x, number)
        monkeypatch.setattr(quick, "_BOUND", 0)
        record(other, number)
        monkeypatch.setattr(quick, "_BOUND", bound)
    record(x, 5)
    assert "told" not in record(x, 5)


def test_numbers_and_offsets_beside_the_operands() -> None:
    x = gt.arange(6.0)
    for alpha in (1, 2, 1, 0.5, -0.0, 0.0):
        for low in (0.0, -0.0, 1, True):
            with gt.fuse():
                made: Any = x.add(x, alpha=alpha).clamp(low), x[1:] + alpha, x[:5] * low, alpha - x
                pending = x + 1
                made = *made, pending[1:] * 2, pending.view(2, 3) + low
            wanted: Any = x.add(x, alpha=alpha).clamp(low), x[1:] + alpha, x[:5] * low, alpha - x
            wanted = *wanted, (x + 1)[1:] * 2, (x + 1).view(2, 3) + low
            assert state_of(made) == state_of(wanted)


def test_numbers_are_refused_each_time() -> None:
    x = gt.ones(3, dtype=gt.uint8)
    for _ in range(3):
        for n in (1, 300, 2, -1, 2**70):
            outcomes = []
            for is_fused in (True, False):
                try:
                    with gt.fuse() if is_fused else gt.enable_grad():
                        made = state_of((x + n, gt.lerp(x * 1.0, x * 2.0, n)))
                except Exception as error:
                    made = type(error), str(error)
                outcomes.append(made)
            assert outcomes[0] == outcomes[1], n


def test_what_a_kernel_of_native_code_asks_of_a_number_is_asked_each_time() -> None:
    x = gt.arange(1, 6)
    for power in (lambda e: x.pow(e), lambda e: x**e):
        with gt.fuse():
            found = [power(e) for e in (2, 2, 3, 2)]
            with pytest.raises(gt.GpuTensorError, match="'exponent' must not be negative"):
                power(-1)
        assert [y[1].item() for y in found] == [4, 4, 8, 4]


def test_other_threads_look_while_this_one_records() -> None:
    x, ended = gt.zeros(3), threading.Event()
    made: list[Any] = []

    def look() -> None:
        while not ended.is_set():
            for y in made[-3:]:
                y.tolist()

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with gt.fuse():
            for _ in range(3000):
                x = x + 1
                made.append(x)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert [y.tolist() for y in made] == [[float(n)] * 3 for n in range(1, 3001)]


def test_what_is_remembered_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_BOUND", 2)
    monkeypatch.setattr(quick, "_BOUND", 1)
    for seed in range(30):
        assert programs.run(seed, True) == programs.run(seed, False), seed


def test_what_follows_is_found_by_all_that_it_depends_on() -> None:
    x, other = gt.arange(4), gt.arange(8)[::2]
    weight = gt.nn.Parameter(gt.rand(4), requires_grad=False)

    def program(y: Any, *numbers: Any) -> list[Any]:
        z = x + y
        found = [z * n for n in numbers]
        found += [gt.pow(z, n) for n in numbers if type(n) is not bool]
        found += [
            gt.add(z, y, alpha=2),
            z + y,
            z * weight,
            weight * z,
            -z,
            -z.view(2, 2),
            z[1:] + 1,
        ]
        return [*found, z.double() * numbers[0], -(z.double() + y)]

    for _ in range(3):
        for numbers in ((2, 3), (2.0, 3), (True, 2), (2, 2.0), (0, 0.0), (-0.0, 0.0), (3, 2)):
            for y in (x, other, x + 1, x.double(), x[:1]):
                with gt.fuse():
                    found = program(y, *numbers)
                assert state_of(found) == state_of(program(y, *numbers))


def test_only_what_somebody_holds_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    stores: list[int] = []
    run = recording.run_chain

    def counted(chain: Any, *args: Any) -> None:
        stores.append(len(chain.stores))
        run(chain, *args)

    monkeypatch.setattr(recording, "run_chain", counted)
    x = gt.rand(4)
    for _ in range(3):
        with gt.fuse():
            held = [x + 1, x + 2]
            view = (x * 2).view(2, 2)
            x + 3, (x * 3).view(2, 2)
            held.pop()
        assert stores == [2]
        assert state_of([*held, view]) == state_of([x + 1, (x * 2).view(2, 2)])
        del stores[:]
        with gt.fuse():
            x + 1, x * 2
        assert not stores


def test_a_write_of_what_was_computed_before_comes_last() -> None:
    """An earlier step computes the value that is written to `x`, and `x` is read after that
    step."""
    for is_fused in (True, False):
        x, y = gt.arange(6.0), gt.ones(6)
        with gt.fuse() if is_fused else gt.enable_grad():
            first, second = x * y, x * y
            dropped = first + 1
            read = x - dropped
            x.copy_(second + 1)
        made = state_of((x, read))
        if is_fused:
            found = made
    assert found == made
