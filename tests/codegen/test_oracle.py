"""Our YAML against PyTorch's, and the parser on all schemas that PyTorch has registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen import load, model
from gputensor.core import schema

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")

# Schemas that PyTorch registers and our parser rejects: two arguments of one name; a Python object
# (after its profiler or distributed package is loaded).
REFUSED = {"static_runtime::clamp_nan_to_num", "_dtensor::mesh_get_process_group"}
# Operators with their own kernels or derivatives in gputensor, and composite in PyTorch.
EXPLICIT_HERE = {
    "rand.generator_out", "randn.out", "randn.generator_out", "silu_backward", "mish_backward",
    "isfinite", "special_ndtr", "linalg_eigh.eigvals", "_fused_rms_norm",
}  # fmt: skip


# Derivatives that PyTorch composes of several operators.
ONLY_HERE = {
    "_attention_backward",
    "_attention_with_dropout",
    "_binary_cross_entropy_with_logits_backward",
    "_gated",
    "_grid_sampler_backward",
    "_larger_backward",
    "_convolution_weight_gradient",
    "_cross_entropy",
    "_cross_entropy_backward",
    "_rnn_layer",
    "_rnn_layer_backward",
}


def shared() -> list[Any]:
    return [op for op in load.load().ops if op.base not in ONLY_HERE]


def registered() -> list[str]:
    return [str(found) for found in torch._C._jit_get_all_schemas()]


def entries() -> dict[str, dict[str, Any]]:
    import torchgen

    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    return {entry["func"].partition("(")[0]: entry for entry in yaml.safe_load(path.read_text())}


def test_every_registered_schema_gives_its_text_back() -> None:
    texts = [text for text in registered() if text.partition("(")[0] not in REFUSED]
    assert len(texts) > 3000
    assert [text for text in texts if str(schema.parse(text)) != text] == []


# Generated from bernoulli.p here, and from bernoulli_.float in PyTorch: p has a default.
OTHER_DEFAULTS = {"bernoulli.float_out"}


def without_defaults(found: schema.FunctionSchema) -> str:
    """Return the schema's text without defaults, because the runtime prints defaults
    differently."""
    text = str(found)
    for argument in found.arguments:
        text = text.replace(str(argument), f"{argument.type} {argument.name}")
    return text


def default_of(argument: schema.Argument) -> Any:
    """Return the default in the form that a kernel gets, with the runtime's numbers for names."""
    value = argument.default_value
    if isinstance(value, (list, tuple)):
        return list(value)
    return NUMBERS_OF.get(getattr(value, "name", value), value)


# Source: c10/core/ScalarType.h, MemoryFormat.h.
NUMBERS_OF = {"int64": 4, "long": 4, "contiguous_format": 0}


def with_self(base: str, text: str) -> str:
    """In PyTorch the first operand of linalg_matrix_rank is `input` in two of its four
    overloads."""
    return text.replace("(Tensor input", "(Tensor self") if base == "linalg_matrix_rank" else text


def test_our_schemas_are_registered_as_they_are() -> None:
    for op in shared():
        # An alias has the overloads of its operator.
        base = op.alias_of if op.is_forward and op.alias_of else op.base
        found = schema.parse(str(torch._C._get_schema(f"aten::{base}", op.schema.name.overload)))
        theirs, ours = without_defaults(found), without_defaults(op.schema)
        theirs = with_self(op.base, theirs)
        assert theirs.replace(f"aten::{base}", op.base, 1) == ours
        if op.name not in OTHER_DEFAULTS:
            for a, b in zip(found.arguments, op.schema.arguments):
                assert a.has_default == b.has_default, op.name
                assert default_of(a) == default_of(b), (op.name, a, b)


# Attributes of torch.Tensor that are not made from its YAML.
BOUND_BY_HAND = ("imag", "real")
# Functions of gt that are written by hand, or have no public name in PyTorch either, such as index.
FUNCTIONS_BY_HAND = ("index", "nonzero", "nonzero_numpy")


def words(value: Any) -> set[str]:
    return set(value) if isinstance(value, list) else set((value or "").split(", ")) - {""}


def test_fields_that_mean_the_same_say_the_same() -> None:
    theirs = entries()
    for op in shared():
        if op.source is not None:
            continue
        entry = theirs[op.name]
        assert with_self(op.base, entry["func"]) == str(op.schema)
        assert (entry.get("device_check") != "NoCheck") == op.device_check, op.name
        assert entry.get("device_guard", True) == op.device_guard, op.name
        assert words(entry.get("tags")) == set(op.tags) - set(model.OUR_TAGS), op.name
        variants = {"method" if variant == "property" else variant for variant in op.variants}
        if op.base in BOUND_BY_HAND:
            variants.discard("method")
        if op.base in FUNCTIONS_BY_HAND:
            variants.add("function")
        if "inplace" in variants:  # of PyTorch's entry for the in-place form
            forms = [found for name, found in theirs.items() if name.split(".")[0] == f"{op.base}_"]
            assert any("function" in words(f.get("variants", "function")) for f in forms), op.name
            variants.remove("inplace")
        assert (words(entry.get("variants")) or {"function"}) == variants, op.name


def test_operators_are_implicit_where_pytorch_s_are() -> None:
    """More operators may be implicit: composite operators are differentiated through their parts on
    every device."""
    theirs = entries()
    for op in shared():
        if op.source is None:
            entry = theirs[op.name]
            dispatch = entry.get("dispatch")
            is_implicit = dispatch is None and not (
                entry.get("structured") or entry.get("structured_delegate")
            )
            is_implicit = is_implicit or "CompositeImplicitAutograd" in (dispatch or {})
            assert op.is_implicit or not is_implicit or op.name in EXPLICIT_HERE, op.name


def test_kinds_agree_with_torchgen() -> None:
    from torchgen.model import FunctionSchema

    for name, entry in entries().items():
        theirs = FunctionSchema.parse(entry["func"]).kind().name
        ours = schema.parse(entry["func"]).kind
        # torchgen classifies an operator that writes and returns nothing as functional.
        assert theirs == ours or (theirs, ours) == ("functional", "mutable"), name
