"""Classes that override the methods that save and load their state; and the state's metadata."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors


class Renamed(nn.Linear):
    """Version 2 names the bias `bias`; version 1 named it `offset`."""

    _version = 2
    versions: list[int | None]

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        self.versions = [local_metadata.get("version")]
        if prefix + "offset" in state_dict:
            state_dict[prefix + "bias"] = state_dict.pop(prefix + "offset")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)
        self.seen = self.bias.tolist()


class Scaled(nn.Linear):
    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = gt.tensor(3.0)


def network() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(Renamed(2, 2)))


def test_a_state_has_the_version_of_each_module() -> None:
    state = network().state_dict()
    assert isinstance(state, OrderedDict)
    versions = {name: of["version"] for name, of in state._metadata.items()}
    assert versions == {"": 1, "0": 2, "1": 1, "1.0": 2}
    prefixed: Any = network().state_dict(prefix="net.")
    assert [*prefixed._metadata] == ["net", "net.0", "net.1", "net.1.0"]


def test_a_class_reads_entries_of_a_former_version() -> None:
    model = network()
    state: Any = model.state_dict()
    state["1.0.offset"] = gt.tensor([5.0, 6.0])
    del state["1.0.bias"]
    state._metadata["1.0"]["version"] = 1
    before = [*state]
    model.load_state_dict(state)
    assert model[1][0].versions == [1]
    assert model[1][0].seen == [5.0, 6.0]  # the values are there after super()
    assert [*state] == before
    model.load_state_dict(dict(state))  # without metadata
    assert model[1][0].versions == [None]


def test_batch_norm_takes_files_without_a_count_of_batches() -> None:
    norm = nn.BatchNorm1d(2)
    norm.num_batches_tracked.fill_(7)
    state = norm.state_dict()
    old = {name: x for name, x in state.items() if name != "num_batches_tracked"}
    norm.load_state_dict(old)
    assert int(norm.num_batches_tracked) == 7
    del state["num_batches_tracked"]  # its metadata says version 2
    with pytest.raises(errors.ArgumentError, match="missing num_batches_tracked"):
        norm.load_state_dict(state)


def test_a_class_writes_entries_of_its_own() -> None:
    model = nn.Sequential(Scaled(1, 1))
    assert [*model.state_dict()] == ["0.weight", "0.bias", "0.scale"]
    result = nn.Sequential(nn.Linear(1, 1)).load_state_dict(model.state_dict(), strict=False)
    assert result.unexpected_keys == ["0.scale"]


def test_a_private_hook_may_replace_the_state() -> None:
    model = nn.Linear(1, 1)
    model._register_state_dict_hook(lambda module, state, prefix, meta: {"all": dict(state)})
    assert [*model.state_dict()] == ["all"]


def test_nothing_is_copied_before_all_names_and_shapes_are_checked() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
    state = {name: gt.ones_like(x) for name, x in model.state_dict().items()}
    state["1.weight"] = gt.ones(3, 3)
    before = model[0].running_mean.clone()
    with pytest.raises(errors.ArgumentError, match="1.weight"):
        model.load_state_dict(state)
    assert model[0].running_mean.equal(before)


class Old(nn.Linear):
    """Gives a module of an earlier version an attribute that it lacks."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__({"scale": 1.0, **state})


def test_a_class_restores_a_pickle_of_an_earlier_version() -> None:
    module = Old(2, 2)
    for made in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert made.scale == 1.0 and gt.equal(made.weight, module.weight)


def test_a_method_without_persistent_registers_a_buffer() -> None:
    class Logged(nn.Module):
        def register_buffer(self, name: str, tensor: Any) -> None:  # type: ignore[override]
            super().register_buffer(name + "_", tensor)

    module = Logged()
    module.seen = nn.Buffer(gt.ones(1))
    assert [*module._buffers] == ["seen_"]


def test_a_class_that_only_sets_extra_state_misses_it() -> None:
    class Reads(nn.Module):
        def set_extra_state(self, state: Any) -> None:
            self.seen = state

    module = Reads()
    with pytest.raises(RuntimeError, match="missing _extra_state"):
        module.load_state_dict(module.state_dict())
    module.load_state_dict({"_extra_state": 3})
    assert module.seen == 3


def test_values_are_not_copied_to_the_meta_device() -> None:
    module, state = nn.Linear(1, 1, bias=False, device="meta"), {"weight": gt.ones(1, 1)}
    with pytest.warns(UserWarning, match="'weight' is on the meta device, so its values are not"):
        module.load_state_dict(state)
    module.load_state_dict(state, assign=True)
    assert module.weight.tolist() == [[1.0]]


def test_a_norm_on_the_meta_device_counts_from_zero() -> None:
    norm = nn.BatchNorm1d(2, device="meta")
    state = {name: gt.ones(2) for name in ("weight", "bias", "running_mean", "running_var")}
    norm.load_state_dict(state, assign=True)
    assert norm.num_batches_tracked.item() == 0


def test_loading_leaves_no_reference_cycles() -> None:
    net, state = network(), network().state_dict()
    gc.collect()
    net.load_state_dict(state)
    assert gc.collect() == 0
