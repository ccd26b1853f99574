"""Random programs on several streams, ordered only by events, against the same program in NumPy.

A model keeps the last writer and readers of each array and makes a stream wait for exactly these.
If the runtime omits a wait, a number is wrong: on the emulator because of its random order of
streams, on a GPU because streams run in parallel.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

import gputensor as gt

PROGRAMS = int(os.environ.get("GPUTENSOR_STREAM_PROGRAMS", "0")) or (
    6 if gt.cuda.is_emulated() else 8
)


class Array:
    """A tensor and its expected values; `written` and `read` are events of its last uses."""

    def __init__(self, values: np.ndarray, device: str) -> None:
        self.values = values
        self.tensor = gt.from_numpy(values.copy()).to(device)
        self.written: list[object] = []
        self.read: list[object] = []


def after(stream: object, events: list[object]) -> None:
    for event in events:
        stream.wait_event(event)


def step(rng: random.Random, arrays: list[Array], stream: object) -> None:
    """Run one operator on a stream, after the last writes to its operands and after all uses of its
    output."""
    to, of = rng.sample(arrays, 2)
    after(stream, [*to.written, *to.read, *of.written])
    with gt.cuda.stream(stream):
        kind = rng.randrange(5)
        if kind == 0:
            to.tensor.add_(of.tensor)
            to.values = to.values + of.values
        elif kind == 1:
            to.tensor.copy_(of.tensor)
            to.values = of.values.copy()
        elif kind == 2:
            to.tensor.mul_(3)
            to.values = to.values * 3
        elif kind == 3:  # uses memory that is freed while the stream still works on it
            to.tensor.add_(of.tensor * 5 - of.tensor)
            to.values = to.values + of.values * 4
        else:
            to.tensor.sub_(of.tensor.flip(0))
            to.values = to.values - of.values[::-1]
        done = stream.record_event()
    to.written, to.read = [done], []
    of.read.append(done)


pytestmark = pytest.mark.usefixtures("order")


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program_ordered_by_events_is_numpys(seed: int, elements: int) -> None:
    size = 200 if gt.cuda.is_emulated() else elements
    assert program(seed, size) == []


def test_a_wait_that_is_missing_shows(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This shows, where streams run in a free order, that the programs above detect errors."""
    if order not in ("lazy", "random"):
        pytest.skip(f"streams run in {order} order")
    monkeypatch.setitem(globals(), "after", lambda stream, events: None)
    assert any(program(seed, 200) for seed in range(10))


def program(seed: int, size: int) -> list[int]:
    """Return the arrays that differ from NumPy's results."""
    rng = random.Random(seed)
    streams = [gt.cuda.Stream("cuda:0") for _ in range(3)] + [gt.cuda.default_stream("cuda:0")]
    with np.errstate(all="ignore"):
        arrays = [Array(np.arange(size, dtype=np.int32) * k + k, "cuda:0") for k in range(1, 6)]
        ready = gt.cuda.default_stream("cuda:0").record_event()
        for array in arrays:
            array.written.append(ready)
        for _ in range(40 if gt.cuda.is_emulated() else 100):
            step(rng, arrays, rng.choice(streams))
        found = []
        for array in arrays:
            after(gt.cuda.current_stream("cuda:0"), array.written)
            found.append(array.tensor.cpu().numpy())
        gt.cuda.synchronize("cuda:0")
    return [k for k, array in enumerate(arrays) if not np.array_equal(found[k], array.values)]


def test_the_host_waits_for_an_event_and_sees_what_came_before(elements: int) -> None:
    side, x = gt.cuda.Stream("cuda:0"), gt.zeros(elements, device="cuda:0")
    side.wait_stream(gt.cuda.current_stream("cuda:0"))
    for count in range(1, 20):
        with gt.cuda.stream(side):
            x.add_(1)
            event = side.record_event()
        event.synchronize()
        assert event.query()
        side.synchronize()
        assert side.query() and float(x[elements // 2].item()) == count


def test_time_between_two_events_is_that_of_the_work(elements: int) -> None:
    begin, end = (gt.cuda.Event(enable_timing=True) for _ in range(2))
    x = gt.ones(elements, device="cuda:0")
    gt.cuda.synchronize()
    begin.record()
    for _ in range(20):
        x.mul_(1)
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) > 0


def test_what_is_copied_between_devices_is_ordered_on_both(elements: int) -> None:
    if gt.cuda.device_count() < 2:
        pytest.skip("this machine has one CUDA device")
    values = np.arange(elements, dtype=np.float32)
    for _ in range(5):
        x = gt.from_numpy(values).to("cuda:0") * 2
        y = x.to("cuda:1") + 1
        del x
        trash = gt.zeros(elements, device="cuda:0")  # in the memory that is still being read
        np.testing.assert_array_equal(y.to("cuda:0").cpu().numpy(), 2 * values + 1)
        del trash
