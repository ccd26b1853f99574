"""Our YAML against PyTorch's own, and the parser against everything PyTorch has registered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from codegen import load, model
from gputensor.core import schema

pytestmark = pytest.mark.oracle
torch = pytest.importorskip("torch")
yaml = pytest.importorskip("yaml")

# Registered by PyTorch and refused here: two arguments of one name; a Python object, once its
# profiler or distributed package is loaded.
REFUSED = {"static_runtime::clamp_nan_to_num", "_dtensor::mesh_get_process_group"}
# Composed of other operators here, with kernels of their own there.
IMPLICIT_HERE = {"mse_loss", "rsub.Tensor"}


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


def test_our_schemas_are_registered_as_they_are() -> None:
    for op in load.load().ops:
        found = str(torch._C._get_schema(f"aten::{op.base}", op.schema.name.overload))
        # The runtime prints defaults its own way; those of the YAML are compared below.
        spellings = (
            ("from=0,", "from=0.,"), ("to=1,", "to=1.,"), ("=contiguous_format", "=0"), ("=Mean",
            "=1"),
            ("label_smoothing=0.0", "label_smoothing=0."), ("p=2,", "p=2.,"), ("p=2)", "p=2.)"),
            ("dx=1,", "dx=1.,"),
        )  # fmt: skip
        for ours, printed in spellings:
            found = found.replace(printed, ours) if ours in op.full_schema else found
        assert found == op.full_schema


# Attributes of torch.Tensor that are not made from its YAML.
BOUND_BY_HAND = ("imag", "real")


def words(value: Any) -> set[str]:
    return set(value) if isinstance(value, list) else set((value or "").split(", ")) - {""}


def test_fields_that_mean_the_same_say_the_same() -> None:
    theirs = entries()
    for op in load.load().ops:
        if op.source is not None:
            continue
        entry = theirs[op.name]
        assert entry["func"] == str(op.schema)
        assert (entry.get("device_check") != "NoCheck") == op.device_check, op.name
        assert entry.get("device_guard", True) == op.device_guard, op.name
        assert words(entry.get("tags")) == set(op.tags) - set(model.OUR_TAGS), op.name
        variants = {"method" if variant == "property" else variant for variant in op.variants}
        if op.base in BOUND_BY_HAND:
            variants.discard("method")
        assert (words(entry.get("variants")) or {"function"}) == variants, op.name


def test_operators_are_implicit_where_pytorch_s_are() -> None:
    theirs = entries()
    for op in load.load().ops:
        if op.source is None:
            entry = theirs[op.name]
            dispatch = entry.get("dispatch")
            is_implicit = dispatch is None and not (
                entry.get("structured") or entry.get("structured_delegate")
            )
            is_implicit = is_implicit or "CompositeImplicitAutograd" in (dispatch or {})
            assert op.is_implicit == (is_implicit or op.name in IMPLICIT_HERE), op.name


def test_kinds_agree_with_torchgen() -> None:
    from torchgen.model import FunctionSchema

    for name, entry in entries().items():
        theirs = FunctionSchema.parse(entry["func"]).kind().name
        ours = schema.parse(entry["func"]).kind
        # torchgen calls an operator that writes and returns nothing functional.
        assert theirs == ours or (theirs, ours) == ("functional", "mutable"), name
