"""gt.nn.utils without other libraries, and bad input."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.kernels.cuda import reduce_lists_launch
from gputensor import nn
from gputensor.nn import utils
from gputensor.nn.utils import gradients, lists

from ..harness.launches import launched_kernels, on_emulator  # noqa: F401

rnn, parametrize = utils.rnn, utils.parametrize


class _Symmetric(gt.nn.Module):
    def forward(self, x: gt.Tensor) -> gt.Tensor:
        return x.triu() + x.triu(1).mT


class _Wider(gt.nn.Module):
    def forward(self, x: gt.Tensor) -> gt.Tensor:
        return gt.cat([x, x])


def test_parametrization_of_several_modules() -> None:
    layer = gt.nn.Linear(3, 3)
    parametrize.register_parametrization(layer, "weight", _Symmetric())
    assert (layer.weight == layer.weight.mT).all() and not layer.weight.is_leaf
    twin = copy.deepcopy(layer)
    twin.parametrizations.weight.original.data.zero_()
    assert layer.weight.any() and not twin.weight.any()
    other = parametrize.transfer_parametrizations_and_params(layer, gt.nn.Linear(3, 3))
    assert (other.weight == layer.weight).all()
    with pytest.raises(NotImplementedError, match="right_inverse"):
        layer.weight = gt.zeros(3, 3)


def test_refused_parametrizations_change_nothing() -> None:
    layer = gt.nn.Linear(3, 3)
    with pytest.raises(ValueError, match="shape"):
        parametrize.register_parametrization(layer, "weight", _Wider())
    with pytest.raises(ValueError, match="tensor_name"):
        parametrize.register_parametrization(layer, "wait", _Symmetric())
    assert type(layer) is gt.nn.Linear and list(layer.state_dict()) == ["weight", "bias"]


def test_setting_an_orthogonal_weight() -> None:
    layer = utils.parametrizations.orthogonal(gt.nn.Linear(4, 3))
    unit: Any = gt.eye(4)[:3]
    layer.weight = unit
    assert (layer.weight - unit).abs().max() < 1e-5


def test_skip_init() -> None:
    made = utils.skip_init(gt.nn.Linear, 3, 2)
    assert made.weight.device.type == "cpu" and made.weight.requires_grad


@pytest.mark.parametrize("call", [
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [1, 2]),
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [2]),
    lambda: rnn.pack_padded_sequence(gt.zeros(3, 2, 1), [4, 2]),
    lambda: rnn.pad_sequence([gt.zeros(2)], padding_side="top"),
    lambda: rnn.pad_packed_sequence(rnn.pack_sequence([gt.zeros(3)]), total_length=1),
    lambda: utils.weight_norm(gt.nn.ReLU()),
    lambda: utils.remove_weight_norm(gt.nn.Linear(1, 1)),
    lambda: utils.parametrizations.orthogonal(gt.nn.Linear(2, 2), orthogonal_map="qr"),
    lambda: utils.stateless.functional_call(gt.nn.Linear(1, 1), {"bias": 1.0}),
    lambda: utils.fuse_conv_bn_eval(gt.nn.Conv1d(1, 1, 1), gt.nn.BatchNorm1d(1)),
    lambda: utils.fuse_conv_bn_weights(gt.ones(()), *[gt.ones(())] * 3, 1e-5, None, None),
    lambda: utils.fuse_conv_bn_weights(gt.ones(1), *[gt.ones(1)] * 3, 1e-5, None, None, True),
    lambda: utils.fuse_linear_bn_weights(gt.ones(()), *[gt.ones(())] * 3, 1e-5, None, None),
])  # fmt: skip
def test_bad_values(call: Any) -> None:
    with pytest.raises(gt.core.errors.GpuTensorError):
        call()


# --- many gradients on CUDA -----------------------------------------------------------------------

SHAPES = [(3, 4), (0, 2), (), (130,), (40_000,), (8, 3, 5, 5), *[(n,) for n in range(1, 9)]]


@pytest.mark.full
@on_emulator
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("copies", [1, 20])
def test_clipping_on_cuda_has_the_bits_of_operators_in_few_launches(
    dtype: str, copies: int, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest gradient is reduced in segments, and one is dense in another order."""
    results, counts = [], []
    for is_on in (True, False):
        gt.manual_seed(0)
        params = []
        for shape in SHAPES * copies:
            params.append(gt.empty(shape, dtype=getattr(gt, dtype), device="cuda"))
            params[-1].requires_grad_().grad = gt.randn(shape).to(params[-1].dtype).to("cuda")
        grad = params[5].grad
        assert grad is not None
        params[5].grad = grad.contiguous(memory_format=gt.channels_last)
        if not is_on:
            monkeypatch.setattr(lists, "are_on", lambda: False)
        versions = [p.grad._version for p in params if p.grad is not None]
        launched.clear()
        total = gt.nn.utils.clip_grad_norm_(params, 1.0)
        counts.append([x for x in launched if "lists" in x])
        found = [p.grad for p in params if p.grad is not None]
        assert [x._version for x in found] == [n + 1 for n in versions]
        results.append(repr([total.tolist(), *[x.tolist() for x in found]]))
    assert results[0] == results[1]
    sums = -(-len(params) // reduce_lists_launch.MOST) + 1  # and one that combines segments
    scaled = -(-(len(params) - copies) // lists._scaled(params[0].dtype).most)
    assert counts == [["reduce_lists"] * sums + ["chain_lists"] * scaled, []]


@pytest.mark.full
@on_emulator
def test_a_gradient_that_is_shared_is_scaled_as_often_as_by_operators() -> None:
    grad = gt.full((4,), 3.0, device="cuda")
    params = [gt.ones(4, device="cuda").requires_grad_() for _ in range(2)]
    for p in params:
        p.grad = grad
    gt.nn.utils.clip_grads_with_norm_(params, 1.0, gt.tensor(2.0, device="cuda"))
    gt.testing.assert_close(grad.cpu(), gt.full((4,), 0.75))


@pytest.mark.full
@on_emulator
def test_the_norm_of_one_large_number_does_not_overflow() -> None:
    grads = [gt.tensor(x, device="cuda") for x in (1e30, -2e30)]
    norms = gradients._norms(grads, 2.0)
    assert norms.tolist() == [x.abs().item() for x in grads]


@pytest.mark.parametrize(
    "lengths", [[3, 2], (3, 2), np.array([3, 2]), [np.int64(3), gt.tensor(2)], gt.tensor([3, 2])]
)
def test_lengths_may_be_any_integers(lengths) -> None:
    packed = rnn.pack_padded_sequence(gt.ones(2, 3), lengths, batch_first=True)
    assert packed.batch_sizes.tolist() == [2, 2, 1]
    with pytest.raises(TypeError, match="'lengths' must hold integers"):
        rnn.pack_padded_sequence(gt.ones(2, 3), [3.0, 2.0], batch_first=True)


def test_packed_sequences_are_cast_and_keep_themselves() -> None:
    packed = rnn.pack_sequence([gt.ones(2), gt.ones(3)], enforce_sorted=False)
    assert packed.to("cpu") is packed and packed.cpu() is packed and packed.float() is packed
    for name in ("double", "half", "long", "int", "short", "char", "byte"):
        made = getattr(packed, name)()
        assert made.data.dtype is getattr(packed.data, name)().dtype
        assert made.batch_sizes.dtype is made.sorted_indices.dtype is gt.int64
    assert not packed.is_pinned()


def test_initialization_of_empty_tensors_warns() -> None:
    for fill in (nn.init.kaiming_uniform_, nn.init.kaiming_normal_):
        empty = gt.empty(0, 3)
        with pytest.warns(UserWarning, match=f"{fill.__name__}: 'tensor' has no elements"):
            assert fill(empty) is empty
    for param in (True, [1]):
        with pytest.raises((ValueError, TypeError), match="'param' must be a number or None"):
            nn.init.calculate_gain("leaky_relu", param)


@pytest.mark.filterwarnings("ignore")
def test_weight_norm_loads_states_of_the_older_function() -> None:
    old = nn.Sequential(utils.weight_norm(nn.Linear(2, 3)))
    new = nn.Sequential(utils.parametrizations.weight_norm(nn.Linear(2, 3)))
    state = old.state_dict()
    assert "0.weight_g" in state
    new.load_state_dict(state)
    x = gt.ones(1, 2)
    assert gt.allclose(new(x), old(x)) and "0.weight_g" in state
    new.load_state_dict(new.state_dict())
