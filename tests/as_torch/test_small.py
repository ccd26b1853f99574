"""Small functions of PyTorch's utility modules, compared with PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import return_types, small, stand_ins


def test_operators_defined_by_name() -> None:
    small.define("tests_small::twice", "(Tensor x) -> Tensor")
    small.impl("tests_small::twice", "default", lambda x: x * 2, lib=small._kept[-1])
    assert gt.ops.tests_small.twice(gt.ones(2)).tolist() == [2, 2]
    with gt.library.Library("tests_small", "FRAGMENT") as lib:
        small.define("tests_small::thrice", "(Tensor x) -> Tensor", lib=lib)

        @small.impl("tests_small::thrice", ["cpu"], lib=lib)
        def thrice(x: Any) -> Any:
            return x * 3

        assert gt.ops.tests_small.thrice(gt.ones(2)).tolist() == [3, 3] and thrice(1) == 3
    assert "thrice" not in dir(gt.ops.tests_small)
    with pytest.raises(gt.GpuTensorError, match="'qualname' must be 'namespace::name'"):
        small.define("twice", "(Tensor x) -> Tensor")
    small._kept.pop()._destroy()


@pytest.mark.parametrize("name", ["max", "topk", "linalg_eigh", "cummax_out", "frexp"])
def test_types_of_several_results(name: str) -> None:
    x = gt.eye(2)
    made = {
        "max": lambda: x.max(0), "topk": lambda: x.topk(1), "frexp": lambda: gt.frexp(x),
        "linalg_eigh": lambda: gt.linalg.eigh(x), "cummax_out": lambda: x.cummax(0),
    }[name]()  # fmt: skip
    assert isinstance(made, getattr(return_types, name))
    with pytest.raises(AttributeError, match="return_types"):
        return_types.no_operator  # noqa: B018


def test_batch_norms_without_statistics() -> None:
    net = gt.nn.Sequential(gt.nn.BatchNorm1d(2), gt.nn.Sequential(gt.nn.BatchNorm1d(2)))
    assert small.replace_all_batch_norm_modules_(net) is net
    x = gt.arange(6.0).reshape(3, 2)

    def batch(a: Any) -> Any:
        return net(a)

    assert net.eval()(x).allclose(net.train()(x)) and gt.vmap(batch)(x[None]).shape == (1, 3, 2)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_a_prefix_goes_as_in_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present as theirs

    for prefix in ("module.", "0.", "none."):
        results = []
        for t, consume in ((gt, small.consume_prefix), (torch, theirs)):
            inner = t.nn.Sequential(t.nn.Linear(1, 1), t.nn.BatchNorm1d(1))
            state = t.nn.DataParallel(inner).state_dict()
            consume(state, prefix)
            results.append(list(state))
        assert results[0] == results[1]


def test_detached_inputs_and_warnings() -> None:
    x = gt.ones(2, requires_grad=True)
    y, n = small.detach_variable((x * 2, 3))
    assert y.is_leaf and y.requires_grad and n == 3
    with pytest.warns(UserWarning, match="none of the inputs requires grad"):
        small.check_backward_validity((gt.ones(2), 3))
    small.check_backward_validity((x,))
    assert stand_ins.STAND_INS["torch.func"]["functionalize"](abs, remove="mutations") is abs
    hook = small.unserializable_hook(lambda grad: grad)
    assert hook.__torch_unserializable__ and len(small.noop_context_fn()) == 2
