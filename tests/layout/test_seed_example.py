"""The project's first example: (1, 64, 5, 4) to channels_last, from strides to the kernel."""

from __future__ import annotations

import pytest

import gputensor as gt

SIZES = (1, 64, 5, 4)


def _devices():
    found = ["cpu"]
    if gt.cuda.is_available():
        found += [f"cuda:{i}" for i in range(gt.cuda.device_count())]
    return found


@pytest.mark.parametrize("device", _devices())
def test_strides_flags_and_elements(device):
    x = gt.rand(SIZES, device=device)
    y = x.contiguous(memory_format=gt.channels_last)
    assert tuple(y.shape) == SIZES
    assert y.stride() == (1280, 1, 256, 64)
    assert not y.is_contiguous()
    assert y.is_contiguous(memory_format=gt.channels_last)
    assert (x == y).all()
    assert y.contiguous(memory_format=gt.channels_last) is y


def test_the_copy_walks_two_dimensions():
    x = gt.rand(SIZES)
    y = gt.empty(SIZES, memory_format=gt.channels_last)
    it = gt.TensorIteratorConfig().add_output(y).add_input(x).build()
    assert it.shape == (64, 20)
    assert it.strides(0) == (4, 256)
    assert it.strides(1) == (80, 4)


@pytest.mark.parametrize("device", _devices())
def test_the_trace_names_every_hop(device):
    x = gt.rand(SIZES, device=device)
    key = "CPU" if device == "cpu" else "CUDA"
    with gt.dispatch.trace() as lines:
        x.contiguous(memory_format=gt.channels_last)
    hops = [
        line.strip().split("op=[aten::")[1].replace("], key=[", " ").rstrip("]") for line in lines
    ]
    operators = list(dict.fromkeys(hop.split()[0] for hop in hops))
    assert operators == ["contiguous", "clone", "empty_like", "empty.memory_format", "copy_"]
    selected = [hop for hop in hops if hop.startswith("empty.memory_format")]
    assert selected == ["empty.memory_format BackendSelect", f"empty.memory_format {key}"]
    assert hops[0] == f"contiguous Autograd{key}"
    assert hops[-1] == f"copy_ {key}"
