"""Small functions of PyTorch's utility modules, compared with PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.as_torch import nn_insides, return_types, small, stand_ins


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
            results.append([*state, *state._metadata])
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


def test_versions_compare_by_their_numbers() -> None:
    now = small.TorchVersion("2.13.0+gputensor")
    assert (
        now > "2.2" and now >= (2, 13) and now < "2.14.0a0" and now != "2.13.0" and now > "2.13.0"
    )
    assert small.TorchVersion("1.10.0a") < (1, 10) and small.TorchVersion("2.0") == (2, 0, 0)
    assert not now <= "2.9.1" and now.split(".")[0] == "2" and {now: 1}["2.13.0+gputensor"] == 1
    assert small.TorchVersion("parrot") == "parrot" and small.TorchVersion("parrot") < "zebra"


@pytest.mark.oracle
def test_versions_compare_as_in_pytorch() -> None:
    theirs = pytest.importorskip("torch.torch_version").TorchVersion
    known = "1.2 1.10.0 1.10.0a 1.10.0a0+git1 2.0.0rc1 2.0.0 2.0.1.dev2 2.0.1 2.0.1+cpu 2.0.1.post3"
    versions = [*known.split(), "parrot"]
    for a in versions:
        for b in [*versions, (1, 10), (2,), (2, 0, 1)]:
            for name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
                if "parrot" in (a, b) and not isinstance(b, str):
                    continue
                wanted = getattr(theirs(a), name)(b)
                assert getattr(small.TorchVersion(a), name)(b) == wanted, (a, name, b)


def test_masks_of_causal_attention() -> None:
    assert small.causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    assert small.causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]


@pytest.mark.oracle
@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_derivatives_of_convolutions(ndim: int) -> None:
    torch = pytest.importorskip("torch")
    options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
    x, w = torch.randn(2, 4, *[7] * ndim), torch.randn(6, 2, *[2] * ndim)
    g = torch.randn_like(getattr(torch.nn.functional, f"conv{ndim}d")(x, w, **options))
    mine = [gt.from_numpy(t.numpy()) for t in (x, w, g)]
    for name, given, ours in (
        ("input", (x.shape, w, g), (tuple(x.shape), mine[1], mine[2])),
        ("weight", (x, w.shape, g), (mine[0], tuple(w.shape), mine[2])),
    ):
        wanted = getattr(torch.nn.grad, f"conv{ndim}d_{name}")(*given, **options)
        found = small.OF_GRAD[f"conv{ndim}d_{name}"](*ours, **options)
        assert found.allclose(gt.from_numpy(wanted.numpy()), 1e-4, 1e-4)


def test_futures_that_programs_settle() -> None:
    first, second = small.Future(), small.Future()
    seen: list[Any] = []
    doubled = first.then(lambda before: before.value() * 2)
    every = small.collect_all([first, second])
    first.add_done_callback(lambda of: seen.append(of.value()))
    assert not first.done() and not doubled.done() and not every.done()
    first.set_result(3)
    assert seen == [3] and doubled.done() and doubled.value() == 6 and not every.done()
    second.set_exception(ValueError("said"))
    with pytest.raises(ValueError, match="said"):
        every.wait()
    with pytest.raises(gt.GpuTensorError, match="set_result' must be called once"):
        first.set_result(4)
    with pytest.raises(gt.GpuTensorError, match="value' must be called once the value is there"):
        small.Future().value()
    assert small.wait_all([first, doubled]) == [3, 6]
    both = small.collect_all([first, doubled]).then(lambda of: [x.value() for x in of.value()])
    assert both.wait() == [3, 6]


def test_operators_defined_by_a_library() -> None:
    with gt.library.Library("tests_small_lib", "FRAGMENT") as lib:

        @small.define(lib, "twice(Tensor x) -> Tensor")
        def twice(x: Any) -> Any:
            return x * 2

        lib.define("thrice(Tensor x) -> Tensor", tags=small.Tag.pointwise)

        @small.impl(lib, "thrice", "CPU")
        def thrice(x: Any) -> Any:
            return x * 3

        of = gt.ops.tests_small_lib
        assert of.twice(gt.ones(1)).tolist() == [2] and twice(2) == 4 and thrice(2) == 6
        assert of.thrice(gt.ones(1)).tolist() == [3]
        assert small.Tag.pointwise in of.thrice.default.tags
        lib.define("tagged(Tensor x) -> Tensor", tags=(small.Tag.pt2_compliant_tag,))


def test_the_future_of_conversions_is_that_parameters_stay() -> None:
    future = nn_insides.OF_FUTURE
    assert future["get_swap_module_params_on_conversion"]() is False
    future["set_swap_module_params_on_conversion"](True)
    assert future["get_swap_module_params_on_conversion"]() is True
    future["set_swap_module_params_on_conversion"](False)
    future["set_overwrite_module_params_on_conversion"](False)
    with pytest.raises(RuntimeError, match="modules keep their Parameter objects"):
        future["set_overwrite_module_params_on_conversion"](True)
