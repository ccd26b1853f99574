"""assert_close against PyTorch's: the same verdict and the same message over random pairs."""

from __future__ import annotations

import random
import re

import pytest

import gputensor as gt
from gputensor.core import dtype as dt

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle

SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0]


def message(check, a, b, options):
    try:
        check(a, b, **options)
    except AssertionError as error:
        return str(error).replace("torch.", "gputensor.")
    return None


def coarse(text):
    return text and re.sub(r"\d+\.\d+(e-\d+)?", lambda m: f"{float(m[0]):.5g}", text)


def random_pair(rng, element):
    sizes = [rng.choice([1, 2, 3]) for _ in range(rng.randrange(0, 4))]
    target = getattr(torch, element.name)
    a = torch.rand(sizes, dtype=torch.float64) * rng.choice([1, 100])
    b = a * (1 + torch.randn(sizes, dtype=torch.float64) * rng.choice([0, 1e-7, 1e-4, 1e-2]))
    if element.is_complex:
        a, b = torch.complex(a, b), torch.complex(b, a)
    a, b = a.to(target), b.to(target)
    if element.category >= dt.FLOATING and a.numel() and rng.random() < 0.3:
        for x in rng.sample([a, b], rng.randrange(1, 3)):
            x.view(-1)[rng.randrange(x.numel())] = rng.choice(SPECIAL)
    return a, b


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_random_pairs(element):
    rng = random.Random(element.code)
    torch.manual_seed(element.code)
    failed = passed = 0
    for _ in range(150):
        a, b = random_pair(rng, element)
        options = rng.choice(
            [{}, {}, {"equal_nan": True}, {"rtol": 0, "atol": 0}, {"rtol": 0.01, "atol": 0.1}]
        )
        if (
            element in (dt.uint16, dt.uint32, dt.uint64, dt.bool_)
            and "rtol" in options
            and options["rtol"]
        ):
            continue  # PyTorch has no isclose for them
        expected = message(torch.testing.assert_close, a, b, options)
        got = message(gt.testing.assert_close, gt.from_dlpack(a), gt.from_dlpack(b), options)
        if element.is_complex:  # hypot's last bit differs between the two libraries
            got, expected = coarse(got), coarse(expected)
        assert got == expected, (a, b, options)
        failed, passed = failed + (got is not None), passed + (got is None)
    assert passed and failed + passed > 50 and (failed or element is dt.bool_)
