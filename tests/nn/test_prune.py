"""gt.nn.utils.prune: random masks, users' classes, errors. Other masks:
tests/oracle/nn/test_nn_utils_oracle.py."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.nn.utils import prune


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("amount", [0, 3, 0.5, 1.0])
def test_elements_at_random(amount: Any, device: str) -> None:
    if device != "cpu" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    module = prune.random_unstructured(gt.nn.Linear(4, 3, device=device), "weight", amount)
    count = amount if isinstance(amount, int) else round(amount * 12)
    assert (module.weight_mask == 0).sum().item() == count
    prune.random_unstructured(module, "weight", 0.5)
    assert (module.weight_mask == 0).sum().item() == count + round((12 - count) / 2)
    assert (module.weight == module.weight_orig * module.weight_mask).all().item()


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_channels_at_random(device: str) -> None:
    if device != "cpu" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    module = prune.random_structured(gt.nn.Conv1d(4, 3, 2, device=device), "weight", 2, 1)
    channels = module.weight_mask.sum((0, 2)).tolist()
    assert sorted(channels) == [0, 0, 6, 6]
    prune.random_structured(module, "weight", 1, 1)
    assert sorted(module.weight_mask.sum((0, 2)).tolist()) == [0, 0, 0, 6]


def test_a_pruning_of_ones_own_and_its_container() -> None:
    class EveryOther(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: gt.Tensor, default_mask: gt.Tensor) -> gt.Tensor:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = gt.nn.Linear(4, 1, bias=False)
    first = EveryOther.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0, 1, 0, 1]]
    both = EveryOther.apply(module, "weight")
    assert module.weight_mask.tolist() == [[0, 0, 0, 1]]
    assert isinstance(both, prune.PruningContainer) and both[0] is first and len([*both]) == 2
    assert first.prune(gt.ones(4)).tolist() == [0, 1, 0, 1]
    module.weight_orig.detach().fill_(2.0)
    assert module(gt.ones(1, 4)).tolist() == [[2.0]]  # the hook multiplies again
    prune.remove(module, "weight")
    assert module.weight.tolist() == [[0, 0, 0, 2.0]] and [*module.state_dict()] == ["weight"]
    assert module.weight.is_leaf and module.weight.requires_grad


class Failing(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: gt.Tensor, default_mask: gt.Tensor) -> gt.Tensor:
        raise KeyError("a mask")


class Unknown(prune.Identity):
    PRUNING_TYPE = "by moonlight"


def linear() -> Any:
    return gt.nn.Linear(4, 3)


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda m: prune.l1_unstructured(m, "wait", 1), ValueError, "'name' must be a parameter of"),
    (lambda m: prune.l1_unstructured(m, "weight", 13), ValueError, "'amount' must be at most 12"),
    (lambda m: prune.l1_unstructured(m, "weight", -1), ValueError, "'amount' must not be negative"),
    (lambda m: prune.l1_unstructured(m, "weight", float("nan")), ValueError, r"be in \[0, 1\], or"),
    (lambda m: prune.L1Unstructured.apply(m, "weight", "a"), TypeError, "be an int or a float"),
    (lambda m: prune.l1_unstructured(m, "weight", 1, gt.ones(2)), RuntimeError, "have the sizes"),
    (lambda m: prune.random_structured(m, "bias", 1, 0), ValueError, "have two dimensions or more"),
    (lambda m: prune.ln_structured(m, "weight", 1, 2, 2), IndexError, "'dim' must be in"),
    (lambda m: prune.custom_from_mask(m, "weight", gt.ones(3)), RuntimeError, "have the sizes"),
    (lambda m: prune.remove(m, "weight"), ValueError, "'name' must be a pruned parameter of"),
    (lambda m: prune.global_unstructured([], prune.Identity), ValueError, "not be empty"),
    (lambda m: prune.global_unstructured([m], prune.Identity), TypeError, "be pairs of a module"),
    (lambda m: prune.global_unstructured([(m, "x")], prune.Identity), ValueError, "name param"),
    (lambda m: prune.global_unstructured([(m, "weight")], prune.RandomStructured, amount=1),
     TypeError, "have the PRUNING_TYPE 'unstructured'"),
    (lambda m: prune.PruningContainer(3), TypeError, "'method' must be a BasePruningMethod"),
    (lambda m: Failing.apply(m, "weight"), KeyError, "a mask"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "said"), REFUSED)
def test_what_is_refused_changes_nothing(call: Any, kind: Any, said: str) -> None:
    module = linear()
    with pytest.raises(kind, match=said) as caught:
        call(module)
    assert isinstance(caught.value, (errors.GpuTensorError, KeyError))
    assert [*module.state_dict()] == ["weight", "bias"] and not prune.is_pruned(module)


@pytest.mark.parametrize(("kind", "error"), [(Failing, KeyError), (Unknown, ValueError)])
def test_a_second_pruning_that_fails_changes_nothing(kind: Any, error: Any) -> None:
    module = prune.l1_unstructured(linear(), "weight", 5)
    hook, = module._forward_pre_hooks.values()  # fmt: skip
    mask = module.weight_mask.clone()
    with pytest.raises(error):
        kind.apply(module, "weight")
    assert [*module._forward_pre_hooks.values()] == [hook] and module.weight_mask.equal(mask)
