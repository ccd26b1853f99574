"""Classes that override the methods that save and load their state; and the state's metadata."""

from __future__ import annotations

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
