"""The cast policies of operators, and policies that a registered device selects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.__main__ import main
from gputensor.amp import cast_policies
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys
from tests.backend.devices import Runtime

pytestmark = pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")


@pytest.fixture
def device() -> Iterator[Any]:
    with gt.backend.register("pretended", runtime=Runtime(), cpu_fallback=True) as made:
        yield made


@pytest.fixture
def ours() -> Iterator[gt.library.Library]:
    library = gt.library.Library("ours", "DEF")
    library.define(
        "scale(Tensor x, Tensor? bias=None, *, Tensor[] more=[], float factor=2.) -> Tensor"
    )
    library.define("norm(Tensor x, int p=2) -> Tensor")
    library.define("norm.dtype(Tensor x, int p, ScalarType dtype) -> Tensor")
    library.define("total(Tensor x, *, ScalarType? dtype=None) -> Tensor")
    library.define("write_(Tensor(a!) x) -> Tensor(a!)")
    for key in ("CPU", "PrivateUse1"):
        library.impl("scale", scale, key)
        library.impl("norm.dtype", lambda x, p, dtype: x.to(dtype) * p, key)
        library.impl("total", lambda x, dtype=None: x.to(dtype or x.dtype), key)
    yield library
    library._destroy()


def scale(x: gt.Tensor, bias: Any = None, *, more: Any = (), factor: float = 2.0) -> gt.Tensor:
    operands = [y for y in (x, bias, *more) if y is not None]
    assert len({y.dtype for y in operands}) == 1, [y.dtype for y in operands]
    return x * factor


def test_the_table_is_what_is_registered() -> None:
    for name, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
        listed = gt.amp.policies(name)
        assert listed["aten::mm"] == listed["aten::matmul"] == "lower_precision_fp"
        has = {o.qualified_name for o in dispatcher.operators() if keys.key(key) in o.kernels}
        assert has == set(listed)
    assert gt.amp.policies("cuda")["aten::exp"] == "fp32" and "aten::exp" not in gt.amp.policies(
        "cpu"
    )
    with pytest.raises(RuntimeError, match="policies: 'device_type' must be one of"):
        gt.amp.policies("meta")


def test_the_command_shows_the_policy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "mm"]) == 0
    assert (
        "    autocast: lower_precision_fp on cpu, lower_precision_fp on cuda\n"
        in capsys.readouterr().out
    )
    assert main(["ops", "exp", "--json"]) == 0
    row = next(
        r for r in json.loads(capsys.readouterr().out)["operators"] if r["name"] == "aten::exp"
    )
    assert row["autocast"] == {"cuda": "fp32"}
    assert main(["ops", "neg"]) == 0 and "autocast" not in capsys.readouterr().out


# --- a further device -----------------------------------------------------------------------------


def test_a_further_device_has_no_autocast_until_it_says_so(device: Any) -> None:
    assert not gt.amp.is_autocast_available("pretended") and not gt.is_autocast_enabled("pretended")
    with pytest.raises(
        RuntimeError, match="must be one of cpu, cuda .got 'pretended'.; .*`register_autocast`"
    ):
        gt.autocast("pretended")
    handle = device.register_autocast([gt.float16])
    assert gt.get_autocast_dtype("pretended") is gt.float16
    assert gt.amp.policies("pretended") == gt.amp.policies("cuda")
    with pytest.warns(errors.AutocastWarning, match="'pretended' supports float16 .got bfloat16"):
        gt.autocast("pretended", gt.bfloat16)
    with pytest.raises(errors.RegistrationError):
        device.register_autocast([gt.float16])
    handle.remove()
    assert not gt.amp.is_autocast_available("pretended")
    device.register_autocast([gt.bfloat16])
    device.remove()
    key = keys.key("AutocastPrivateUse1")
    assert (
        not [o for o in dispatcher.operators() if key in o.kernels]
        and key not in dispatcher.fallbacks()
    )
    assert gt.amp.is_autocast_available("cpu")


def test_it_chooses_policies_for_its_own_operators_too(device: Any, ours: Any) -> None:
    chosen = {
        **gt.amp.policies("cuda"), "neg": "fp32", "ours::scale": "lower_precision_fp",
        "ours::norm": "fp32_append_dtype", "ours::total": "fp32_set_opt_dtype",
    }  # fmt: skip
    device.register_autocast((gt.bfloat16, gt.float16), chosen)
    assert gt.amp.policies("pretended")["aten::neg"] == "fp32"
    x = gt.ones(2, 2, device="pretended")
    with gt.autocast("pretended"):
        assert x.mm(x).dtype is gt.bfloat16 and (-x.half()).dtype is gt.float32
        y = gt.ops.ours.scale(x, x.half(), more=[x], factor=3.0)
        assert y.dtype is gt.bfloat16 and y.tolist() == [[3.0, 3.0], [3.0, 3.0]]
        assert gt.ops.ours.scale(x).dtype is gt.bfloat16
        assert gt.ops.ours.norm(x.half()).dtype is gt.float32
        assert gt.ops.ours.norm(x.double(), 3).dtype is gt.float64
        assert gt.ops.ours.total(x.half()).dtype is gt.float32
        assert gt.ops.ours.total(x.half(), dtype=gt.float16).dtype is gt.float16
        assert (x.half() + x.half()).dtype is gt.float16


@pytest.mark.parametrize(("policies", "message"), [
    ({"mn": "fp32"}, "aten::mn"),
    ({"mm": "fp23"}, r"'policies\['mm'\]' must be one of .* \(got 'fp23'\); did you mean 'fp32'"),
    ({"ours::write_": "fp32"}, "'policies' must name functional operators of tensors"),
    ({"mm.out": "fp32"}, "'policies' must name functional operators of tensors"),
    ({"ones": "fp32"}, "'policies' must name functional operators of tensors"),
    ({"mm": "fp32_set_opt_dtype"}, "operators with an argument 'ScalarType. dtype'"),
    ({"mm": "fp32_append_dtype"}, "an overload that ends in 'ScalarType dtype'"),
])  # fmt: skip
def test_policies_that_do_not_fit(
    device: Any, ours: Any, policies: dict[str, str], message: str
) -> None:
    with pytest.raises(errors.GpuTensorError, match=message):
        device.register_autocast([gt.float16], policies)
    assert not gt.amp.is_autocast_available("pretended")
    assert keys.key("AutocastPrivateUse1") not in dispatcher.fallbacks()
    with pytest.raises(RuntimeError, match="'dtypes' must be floating dtypes, at least one"):
        device.register_autocast([gt.int8])


def test_other_keys_have_no_autocast() -> None:
    with gt.backend.register("second", "PrivateUse2", runtime=Runtime()) as other:
        with pytest.raises(RuntimeError, match="must be at the key PrivateUse1"):
            other.register_autocast([gt.float16])


# --- users' operators, on any device --------------------------------------------------------------


@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_an_operator_of_ones_own_gets_a_policy(ours: Any, where: str) -> None:
    ours.impl("scale", scale, "CUDA")
    x, before = gt.ones(2, device=where), gt.amp.policies(where)
    handle = gt.amp.register_policy("ours::scale", where, "lower_precision_fp")
    assert gt.amp.policies(where)["ours::scale"] == "lower_precision_fp"
    with gt.autocast(where):
        assert gt.ops.ours.scale(x, x.half()).dtype is gt.get_autocast_dtype(where)
        newest = gt.amp.register_policy("ours::scale", where, gt.float32)
        assert gt.ops.ours.scale(x, x.half()).dtype is gt.float32
        assert cast_policies.policies_of("ours::scale")[where] == "gputensor.float32"
        newest.remove()
        assert gt.ops.ours.scale(x, x.half()).dtype is gt.get_autocast_dtype(where)
    handle.remove()
    assert gt.amp.policies(where) == before
    with gt.autocast(where), pytest.raises(AssertionError):
        gt.ops.ours.scale(x, x.half())


def test_the_policy_that_serves_is_the_one_reported(ours: Any) -> None:
    x = gt.ones(2)
    first, second, third = [
        gt.amp.register_policy("ours::scale", "cpu", policy)
        for policy in ("fp32", "lower_precision_fp", "fp32")
    ]
    third.remove()
    assert gt.amp.policies("cpu")["ours::scale"] == "lower_precision_fp"
    with gt.autocast("cpu"):
        assert gt.ops.ours.scale(x, x).dtype is gt.bfloat16
    first.remove()
    second.remove()


def test_policies_of_ours_can_be_changed() -> None:
    x = gt.ones(2, 2)
    handle = gt.amp.register_policy("mm", "cpu", "fp32")
    with gt.autocast("cpu"):
        assert x.half().mm(x).dtype is gt.float32
        handle.remove()
        assert x.half().mm(x).dtype is gt.bfloat16
    for name, policy, message in (
        ("mm", "f32", "must be one of"),
        ("mm", gt.int8, "or a floating dtype"),
        ("nn", "fp32", "nn"),
    ):
        with pytest.raises(errors.GpuTensorError, match=message):
            gt.amp.register_policy(name, "cpu", policy)
