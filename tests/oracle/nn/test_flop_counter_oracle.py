"""FlopCounterMode counts what PyTorch's counts, for the block and for each module."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.utils.flop_counter import FlopCounterMode

torch = pytest.importorskip("torch")
counters = pytest.importorskip("torch.utils.flop_counter")
pytestmark = pytest.mark.oracle


def network(lib: Any) -> Any:
    nn = lib.nn
    convolutions = nn.Sequential(
        nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 4, 2, 2)
    )
    return nn.Sequential(convolutions, nn.Flatten(), nn.Linear(256, 10))


def counted(lib: Any, counter: Any, trains: bool) -> Any:
    model, x = network(lib), lib.randn(3, 4, 8, 8)
    with counter:
        result = model(x)
        if trains:
            result.sum().backward()
    return counter


@pytest.mark.parametrize("trains", [False, True])
def test_a_network(trains: bool) -> None:
    found = counted(gt, FlopCounterMode(display=False), trains)
    expected = counted(torch, counters.FlopCounterMode(display=False), trains)
    assert found.get_total_flops() == expected.get_total_flops() > 0
    sums = {name: sum(of.values()) for name, of in found.get_flop_counts().items()}
    assert sums == {n: sum(of.values()) for n, of in expected.get_flop_counts().items() if of}


def test_matrix_products() -> None:
    totals = []
    for lib, kind in ((gt, FlopCounterMode), (torch, counters.FlopCounterMode)):
        with kind(display=False) as counter:
            lib.baddbmm(lib.zeros(2, 3, 5), lib.ones(2, 3, 4), lib.ones(2, 4, 5))
            lib.ones(3, 4).mm(lib.ones(4, 2))
        totals.append(counter.get_total_flops())
    assert totals[0] == totals[1] == 288


def test_attention_takes_two_products_forward_and_five_backward() -> None:
    q = gt.randn(2, 4, 6, 8, requires_grad=True)
    with FlopCounterMode(display=False) as counter:
        made = gt.nn.functional.scaled_dot_product_attention(q, q, q)
        product = 2 * q.numel() * 6
        assert counter.get_total_flops() == 2 * product
        made.sum().backward()
    assert counter.get_total_flops() == 7 * product


def test_recurrent_layers_count_the_products_of_their_steps() -> None:
    lstm = gt.nn.LSTM(3, 5, bias=False)
    with FlopCounterMode(display=False) as counter:
        output, _ = lstm(gt.randn(7, 2, 3, requires_grad=True))
        forward = 2 * 14 * (4 * 5 * 3 + 4 * 5 * 5)
        assert counter.get_total_flops() == forward
        output.sum().backward()
    assert counter.get_total_flops() == 3 * forward


def test_groups_are_counted_once(capsys: pytest.CaptureFixture[str]) -> None:
    conv = gt.nn.Conv2d(4, 8, 3, groups=2, bias=False)
    with FlopCounterMode() as counter:
        conv(gt.randn(1, 4, 5, 5, requires_grad=True)).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * (8 * 2 * 9) * 9
    assert "aten::convolution_backward" in capsys.readouterr().out
