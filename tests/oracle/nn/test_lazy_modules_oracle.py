"""Lazy modules against torch.nn's: keys, sizes after the first input, and states loaded before the
first input."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
SIZES = {1: (2, 4, 7), 2: (2, 4, 6, 5), 3: (2, 4, 5, 4, 3)}
ROWS: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Linear", (3,), {}, (2, 5)),
    ("Linear", (3,), {"bias": False}, (2, 5)),
    *((f"Conv{n}d", (6, 2), {"groups": 2}, SIZES[n]) for n in SIZES),
    *((f"ConvTranspose{n}d", (3, 2), {"stride": 2}, SIZES[n]) for n in SIZES),
    *((f"BatchNorm{n}d", (), {}, SIZES[n]) for n in SIZES),
    ("BatchNorm1d", (), {"affine": False}, (3, 4)),
    *((f"InstanceNorm{n}d", (), {}, SIZES[n]) for n in SIZES),
    ("InstanceNorm1d", (), {"track_running_stats": False}, (3, 4, 7)),
]


@pytest.mark.parametrize("name, args, kwargs, sizes", ROWS)
def test_lazy(name: str, args: Any, kwargs: Any, sizes: Any) -> None:
    ours, theirs = (getattr(m.nn, f"Lazy{name}")(*args, **kwargs) for m in (gt, torch))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    twin = getattr(gt.nn, f"Lazy{name}")(*args, **kwargs)
    made = [ours(gt.ones(sizes)), theirs(torch.ones(sizes))]
    assert made[0].shape == made[1].shape and type(ours) is getattr(gt.nn, name)
    assert repr(ours).partition(", bias=")[0] == repr(theirs).partition(", bias=")[0]
    state = theirs.state_dict()
    assert [(k, tuple(x.shape)) for k, x in ours.state_dict().items()] == [
        (k, tuple(x.shape)) for k, x in state.items()
    ]
    twin.load_state_dict(ours.state_dict())
    assert gt.allclose(twin.eval()(gt.ones(sizes)), ours.eval()(gt.ones(sizes)))
