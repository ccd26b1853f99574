"""Chains on several streams: each runs on the stream of its recording, in the order of events."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.fusion.record import recording

from ...cuda.support import fresh_emulator, requires_emulator

pytestmark = [requires_emulator, pytest.mark.emulator]
SIZE = 1000


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, str]]]:
    """Return for each chain the current stream when it runs, and why it runs. Nothing may run
    before it is waited for."""
    emulator = fresh_emulator(monkeypatch, order="lazy", devices=2)
    monkeypatch.setattr(runtime, "_chosen", emulator)
    found: list[tuple[int, str]] = []
    run_chain = recording.run_chain

    def noted(chain, inputs, outputs, scalars, reason):
        found.append((emulator.current_stream(0).ptr, reason))
        return run_chain(chain, inputs, outputs, scalars, reason)

    monkeypatch.setattr(recording, "run_chain", noted)
    yield found


def ones() -> gt.Tensor:
    return gt.ones(SIZE, device="cuda")


def test_a_chain_is_queued_on_its_stream(chains: list[tuple[int, str]]) -> None:
    x, side = ones(), gt.cuda.Stream()
    side.wait_stream(gt.cuda.current_stream())
    with gt.fuse():
        y = x * 2 + 1
        with gt.cuda.stream(side):
            z = x * 3 + 1
        w = x * 4 + 1
    streams = [stream for stream, _ in chains]
    assert streams == [0, side.ptr, 0]
    assert [reason for _, reason in chains][:2] == ["another stream becomes current"] * 2
    gt.cuda.current_stream().wait_stream(side)
    assert [t.cpu()[0].item() for t in (y, z, w)] == [3, 4, 5]


def test_streams_that_wait_for_each_other_within_a_block(chains: list[tuple[int, str]]) -> None:
    x, side, own = ones(), gt.cuda.Stream(), gt.cuda.current_stream()
    with gt.fuse():
        y = x * 2 + 1
        side.wait_stream(own)
        assert chains == [(0, "an event is recorded")]
        with gt.cuda.stream(side):
            z = y * 3 + 1
        own.wait_stream(side)
        w = z + y
    assert [stream for stream, _ in chains] == [0, side.ptr, 0]
    assert w.cpu()[0].item() == 13


def test_an_event_covers_what_was_recorded_before(chains: list[tuple[int, str]]) -> None:
    x, event = ones(), gt.cuda.Event()
    with gt.fuse():
        y = x * 2 + 1
        event.record()
        assert len(chains) == 1
        z = y * 2 + 1
        event.wait()
        assert [reason for _, reason in chains][1:] == ["a stream waits for an event"]
    assert z.cpu()[0].item() == 7


def test_a_chain_that_fails_leaves_the_streams_as_they_were(
    chains: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, side = ones(), gt.cuda.Stream("cuda:1")

    def fails(*args: object) -> None:
        raise RuntimeError("no way")

    monkeypatch.setattr(recording, "run_chain", fails)
    with pytest.raises(RuntimeError, match="no way"), gt.fuse():
        with gt.cuda.stream(side):
            y = x * 2 + 1
    assert gt.cuda.current_device() == 0
    assert gt.cuda.current_stream("cuda:1").ptr == gt.cuda.default_stream("cuda:1").ptr
    with pytest.raises(RuntimeError, match="no way"):
        y.cpu()
