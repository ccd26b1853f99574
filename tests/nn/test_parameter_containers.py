"""ParameterList and ParameterDict, which hold any values, and names of submodules."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors


def test_a_list_holds_any_values() -> None:
    kept = nn.ParameterList([gt.ones(2), "text", None, nn.Parameter(gt.ones(1))])
    assert len(kept) == 4 and kept[1] == "text" and kept[-2] is None
    assert list(kept.state_dict()) == ["0", "3"]
    kept += [gt.zeros(2)]
    kept[0] = gt.zeros(3)
    assert len(kept) == 5 and kept[0].shape == (3,) and type(kept[4]) is nn.Parameter
    assert type(kept[1:3]) is nn.ParameterList and [*kept[1:3]] == ["text", None]
    assert repr(kept.append(2)).splitlines()[1:3] == [
        "    (0): Parameter containing: [gputensor.float32 of size 3]",
        "    (1): Object of type: str",
    ]
    assert len(copy.deepcopy(kept)) == 6
    with pytest.raises(errors.ArgumentTypeError, match="'values' must be an iterable"):
        kept.extend(gt.ones(2))


def test_a_dict_holds_any_values() -> None:
    kept = nn.ParameterDict({"a": gt.ones(2), "b": None, "c": nn.Parameter(gt.zeros(1)), "d": 3})
    assert list(kept) == ["a", "b", "c", "d"] and kept["b"] is None and kept.get("x") is None
    assert list(kept.state_dict()) == ["a", "c"] and [*reversed(kept)] == ["d", "c", "b", "a"]
    assert list((kept | {"e": 1}).keys()) == [*"abcde"] and list({"e": 1} | kept)[0] == "e"
    assert kept.pop("d") == 3 and kept.setdefault("f") is None and "f" in kept
    assert list(kept.copy().items())[1] == ("b", None) and kept.popitem()[0] == "f"
    kept |= {"g": gt.ones(1)}
    kept.update([("h", 2)])
    assert [*kept.fromkeys("xy", 1.0).values()] == [1.0, 1.0] and kept["h"] == 2
    assert list(nn.ParameterDict(kept)) == list(kept)
    kept.clear()
    assert not kept and not list(kept.parameters())
    with pytest.raises(KeyError, match="zz"):
        kept["zz"]


def test_modules_by_name_can_be_removed() -> None:
    kept = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert isinstance(kept.pop("a"), nn.ReLU) and list(kept) == ["b"]
    kept.update([("c", nn.ReLU())])
    kept.clear()
    assert len(kept) == 0


def test_an_assigned_module_needs_no_attribute() -> None:
    """`__getattr__` of a user's class may read a module that is not assigned yet."""

    class Wrapper(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

    assert Wrapper(nn.Linear(2, 3)).out_features == 3


def test_parts_are_removed_and_set_as_in_pytorch() -> None:
    kept = nn.ParameterDict({"b": gt.ones(1), "a": gt.ones(1)})
    assert list(kept) == ["a", "b"]  # the names of a plain mapping are sorted
    assert type(kept.setdefault("x", gt.ones(2))) is nn.Parameter
    assert kept.popitem()[0] == "x"
    kept.update([("z", gt.ones(1)), ("c", gt.ones(1))])
    assert list(kept) == ["a", "b", "z", "c"]
    assert kept.pop("z").shape == (1,) and kept.pop("z", None) is None
    for one in (kept, nn.ModuleDict({"a": nn.ReLU()})):
        with pytest.raises(KeyError, match="zz"):
            one.pop("zz")
    with pytest.raises(errors.ArgumentError, match="have a dot"):
        kept["a.b"] = gt.ones(2)
    assert list(kept) == ["a", "b", "c"]
    kept.clear()
    assert not len(kept)
    with pytest.raises(errors.ArgumentTypeError, match="be a mapping, or pairs"):
        kept.update(gt.ones(()).numpy())


def test_states_of_older_pickles_are_read() -> None:
    values = nn.ParameterList([gt.ones(2), gt.zeros(1)])
    named = nn.ParameterDict({"a": gt.ones(2), "b": gt.zeros(1)})
    for kept, own in ((values, "_size"), (named, "_keys")):
        state = {name: value for name, value in vars(kept).items() if name != own}
        read = object.__new__(type(kept))
        read.__setstate__(state)
        assert len(read) == 2 and repr(read) == repr(kept)
