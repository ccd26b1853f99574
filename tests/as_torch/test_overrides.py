"""`__torch_function__` of classes that are not tensors, and base classes of PyTorch's modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import legacy_types, overrides
from gputensor.dispatch import refusal


class Diagonal:
    """A matrix that stores its diagonal."""

    calls: list[Any] = []

    def __init__(self, values: gt.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.calls.append((func, types, args, kwargs))
        if func is gt.matmul and isinstance(args[0], Diagonal):
            return args[0].values[:, None] * args[1]
        if func is gt.stack:
            return [x.values for x in args[0]]
        return NotImplemented


class Unit(Diagonal):
    pass


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    refusal.overriding.append(overrides.override)
    Diagonal.calls = []
    yield
    refusal.overriding.clear()


def test_a_function_calls_the_handler_of_an_argument() -> None:
    d, x = Diagonal(gt.tensor([2.0, 3.0])), gt.ones(2, 2)
    assert gt.matmul(d, x).tolist() == [[2, 2], [3, 3]]
    assert Diagonal.calls[0][1:] == ((Diagonal,), (d, x), {})
    assert gt.stack([d, d], dim=1)[1].tolist() == [2, 3]
    assert Diagonal.calls[1][3] == {"dim": 1}


def test_a_subclass_is_asked_first_and_nobody_is_an_error() -> None:
    d, unit = Diagonal(gt.ones(2)), Unit(gt.ones(2))
    with pytest.raises(TypeError, match="no implementation found for .*add'"):
        gt.add(d, unit)
    assert Diagonal.calls[0][1] == (Unit, Diagonal) and len(Diagonal.calls) == 2
    with pytest.raises(TypeError, match="no implementation found"):
        gt.nn.functional.normalize(d)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'other' must be a Tensor"):
        gt.matmul(gt.ones(2), object())  # type: ignore[arg-type]


def test_functions_of_overrides() -> None:
    d = Diagonal(gt.ones(2))
    assert overrides.has_torch_function((1, d)) and not overrides.has_torch_function((gt.ones(1),))
    assert overrides.is_tensor_like(d) and overrides.is_tensor_like(gt.ones(1))
    made = overrides.handle_torch_function(gt.matmul, (d,), d, gt.ones(2, 1))
    assert made.tolist() == [[1], [1]]


def names(base: Any) -> set[str]:
    kinds = {name: getattr(gt.nn, name) for name in gt.nn.__all__}
    return {
        name for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, base) and not name.startswith("Lazy")
    }  # fmt: skip


def test_bases_have_the_subclasses_of_pytorch() -> None:
    found = {name: kind for of in legacy_types.BASES.values() for name, kind in of.items()}
    batch = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"}
    assert names(found["_BatchNorm"]) == batch
    assert names(found["_NormBase"]) == batch | {f"InstanceNorm{n}d" for n in (1, 2, 3)}
    assert names(found["_AdaptiveAvgPoolNd"]) == {f"AdaptiveAvgPool{n}d" for n in (1, 2, 3)}
    assert {"CrossEntropyLoss", "CTCLoss", "HuberLoss"} < names(found["_Loss"])
    assert "BCEWithLogitsLoss" not in names(found["_WeightedLoss"])
    assert isinstance(gt.nn.NLLLoss(), found["_WeightedLoss"])

    class Own(found["_Loss"]):  # type: ignore[misc]
        pass

    assert Own(reduction="sum").reduction == "sum" and isinstance(Own(), found["_Loss"])
    assert not isinstance(gt.nn.MSELoss(), Own)
