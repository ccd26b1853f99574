"""Transfers of strided tensors: packed on their device, then copied with one transfer."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt
from gputensor import runtime

SIZES = (2, 3, 8, 10)
VIEWS = {
    "dense": lambda x: x, "permuted": lambda x: x.permute(0, 2, 3, 1), "gaps": lambda x: x[:, ::2],
    "narrow": lambda x: x[:, :, 1:5, 3:], "expanded": lambda x: x[:1].expand(4, 3, 8, 10),
}  # fmt: skip


@pytest.fixture(autouse=True)
def two_devices():
    if gt.cuda.device_count() < 2:
        pytest.skip(f"needs two CUDA devices (there are {gt.cuda.device_count()})")


@pytest.fixture
def crossings(monkeypatch):
    """Record (bytes, from, to) of each copy between host and device, or between devices."""
    cuda, seen = runtime.cuda(), []
    real = cuda.copy_async

    def copy_async(dst_ptr, dst_device, src_ptr, src_device, nbytes, stream):
        if dst_device != src_device:
            seen.append((nbytes, src_device, dst_device))
        real(dst_ptr, dst_device, src_ptr, src_device, nbytes, stream)

    monkeypatch.setattr(cuda, "copy_async", copy_async)
    return seen


def host(dtype=gt.float32):
    return gt.from_numpy(np.arange(480, dtype=np.float32).reshape(SIZES)).to(dtype)


def spaced(*sizes, **kinds):
    """Return a tensor with a gap of one element between neighbours."""
    return gt.zeros(*[2 * n for n in sizes], **kinds)[tuple([slice(None, None, 2)] * len(sizes))]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("target", ["dense", "permuted", "spaced"])
@pytest.mark.parametrize(
    "way", [("cuda:0", "cpu"), ("cpu", "cuda:0"), ("cuda:0", "cuda:1")], ids="→".join
)
def test_one_crossing_of_the_elements_alone(crossings, view, target, way):
    source = VIEWS[view](host().to(way[0]))
    sizes = tuple(source.shape)
    expected = VIEWS[view](host()).numpy()
    if target == "spaced":
        to = spaced(*sizes, device=way[1])
    elif target == "permuted":
        to = gt.zeros(*[sizes[d] for d in (0, 2, 3, 1)], device=way[1]).permute(0, 3, 1, 2)
    else:
        to = gt.zeros(*sizes, device=way[1])
    crossings.clear()
    to.copy_(source)
    numbers = {"cpu": -1, "cuda:0": 0, "cuda:1": 1}
    assert crossings == [(4 * to.numel(), numbers[way[0]], numbers[way[1]])]
    assert (to.cpu().numpy() == expected).all()


@pytest.mark.parametrize("view", VIEWS)
def test_a_cast_crosses_as_the_smaller_type(crossings, view):
    for source, element, nbytes in (
        (host(), gt.float64, 4),
        (host(), gt.int16, 2),
        (host(gt.int16), gt.float32, 2),
    ):
        for start, end in (("cpu", "cuda"), ("cuda", "cpu")):
            given = VIEWS[view](source.to(start))
            crossings.clear()
            made = given.to(end, element)
            assert [n for n, *_ in crossings] == [nbytes * given.numel()]
            assert (made.cpu().numpy() == VIEWS[view](host()).numpy()).all()


def test_the_host_does_not_wait_for_what_it_sends(monkeypatch):
    """A tensor with gaps is read once, into pinned memory. It may be changed as soon as the call
    returns."""
    kind = type(runtime.cuda().current_stream(0))
    source = host()[:, ::2]
    with monkeypatch.context() as patch:
        patch.setattr(kind, "synchronize", lambda self: pytest.fail("the host waited"))
        made = source.to("cuda")
        source.fill_(0)
    assert (made.cpu().numpy() == host()[:, ::2].numpy()).all()


def test_an_empty_tensor_crosses_without_a_copy(crossings):
    assert gt.zeros(0, 3).t().to("cuda").cpu().shape == (3, 0)
    assert not [n for n, *_ in crossings if n]
