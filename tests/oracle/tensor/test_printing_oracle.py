"""repr equals PyTorch's, with "gputensor." for "torch."."""

from __future__ import annotations

import random
import warnings

import pytest

import gputensor as gt
from gputensor.tensor import printing
from gputensor.core import dtype as dt

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle

SHAPES = [
    (), (1,), (3,), (0,), (2, 0), (0, 3, 2), (7,), (40,), (3, 4), (2, 3, 4), (2, 1, 2, 2), (1001,),
    (40, 40),
    (7, 200), (200, 7), (6, 13, 20), (3, 3, 120), (1, 1, 1), (2, 1001), (1001, 1), (11, 3, 2, 30),
]  # fmt: skip
SPECIAL = [
    float("nan"),
    float("inf"),
    -float("inf"),
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-5,
    1e9,
    0.5,
    1e-40,
    123456.0,
]


def ours(theirs):
    """Return our tensor with the same elements and layout."""
    return gt.from_dlpack(theirs)


def check(theirs):
    expected = repr(theirs).replace("torch.", "gputensor.")
    assert repr(ours(theirs)) == expected


def floats(rng, count):
    """Return numbers of one of the kinds that print differently: whole, close, far apart, with nan
    and inf."""
    kind = rng.randrange(6)
    if kind == 0:
        values = [float(rng.randrange(-50, 50)) for _ in range(count)]
    elif kind == 1:
        values = [rng.gauss(0, 1) for _ in range(count)]
    elif kind == 2:
        values = [rng.gauss(0, 1) * 10 ** rng.randrange(-8, 9) for _ in range(count)]
    elif kind == 3:
        values = [rng.choice(SPECIAL) for _ in range(count)]
    elif kind == 4:
        values = [float(rng.randrange(10**7, 10**10)) for _ in range(count)]
    else:
        values = [
            rng.choice([0.0, -0.0, float("nan"), float("inf"), -float("inf")]) for _ in range(count)
        ]
    if rng.random() < 0.2 and values:
        values[rng.randrange(count)] = rng.choice(SPECIAL)
    return values


def random_tensor(rng, element):
    shape = rng.choice(SHAPES)
    count = 1
    for n in shape:
        count *= n
    target = getattr(torch, element.name)
    if element is dt.bool_:
        flat = torch.tensor([rng.random() < 0.5 for _ in range(count)], dtype=torch.bool)
    elif element.category == dt.INTEGER:
        top = rng.choice([5, 100, 2 ** (8 * element.itemsize - 1) - 1])
        flat = torch.tensor(
            [rng.randrange(-top if element.is_signed else 0, top) for _ in range(count)],
            dtype=target,
        )
    elif element.category == dt.FLOATING:
        flat = torch.tensor(floats(rng, count), dtype=torch.float64).to(target)
    else:
        flat = torch.complex(
            torch.tensor(floats(rng, count), dtype=torch.float64),
            torch.tensor(floats(rng, count), dtype=torch.float64),
        ).to(target)
    tensor = flat.reshape(shape)
    if tensor.ndim > 1 and rng.random() < 0.3:
        tensor = tensor.transpose(0, -1)
    return tensor


@pytest.mark.parametrize("element", dt.ALL, ids=lambda d: d.name)
def test_random_tensors(element):
    rng = random.Random(element.code)
    for _ in range(60):
        check(random_tensor(rng, element))


@pytest.mark.parametrize("options", [
    {"precision": 2}, {"precision": 8}, {"sci_mode": True}, {"sci_mode": False}, {"edgeitems": 1},
    {"threshold": 5}, {"threshold": 5, "edgeitems": 2}, {"linewidth": 30}, {"linewidth": 120},
    {"profile": "short"}, {"profile": "full", "linewidth": 200}, {"threshold": 3, "edgeitems": 0},
    {"threshold": 0}, {"precision": 0},
], ids=str)  # fmt: skip
def test_options(options):
    rng = random.Random(str(options))
    before = torch._tensor_str.get_printoptions()
    try:
        torch.set_printoptions(**options)
        with printing.printoptions(**options):
            for _ in range(12):
                for element in (dt.float32, dt.int64, dt.complex64, dt.bool_, dt.bfloat16):
                    check(random_tensor(rng, element))
    finally:
        torch.set_printoptions(**before)


def test_default_dtype_decides_what_is_named():
    before = torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for element in (dt.float64, dt.float16, dt.bfloat16, dt.float32):
            try:
                torch.set_default_dtype(getattr(torch, element.name))
                gt.set_default_dtype(element)
                for other in dt.ALL:
                    check(torch.ones(2, dtype=getattr(torch, other.name)))
                    check(torch.ones(0, dtype=getattr(torch, other.name)))
            finally:
                torch.set_default_dtype(before)
                gt.set_default_dtype(dt.float32)


@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
@pytest.mark.parametrize("element", [dt.float32, dt.int64, dt.float16], ids=lambda d: d.name)
def test_meta(shape, element):
    theirs = torch.empty(shape, dtype=getattr(torch, element.name), device="meta")
    assert repr(gt.empty(shape, dtype=element, device="meta")) == repr(theirs).replace(
        "torch.", "gputensor."
    )
