"""Conversion of samples, the test calls of operators, to JSON and back."""

from __future__ import annotations

import json
from importlib.resources import files
from collections.abc import Callable
from typing import Any

from ..core import dtype as dtypes, memory_format as formats
from ..core.dtype import dtype
from ..core.memory_format import memory_format
from .operands import T

FILE = "samples.json"


class Fill:
    """A placeholder for the `dtype` or `device` of the test case."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what: str = what


class Samples:
    """The test calls of one operator, taken from its row in tests/rows.

    samples: (args, kwargs) pairs. dtypes: the supported dtypes. has_values: False if the result's
    elements are unspecified (`empty`). device_ulp: the accepted difference between devices.
    """

    __slots__ = ("name", "samples", "dtypes", "has_values", "device_ulp", "refuses_expanded")
    name: str
    has_values: bool
    device_ulp: float
    refuses_expanded: bool

    def __init__(
        self, name: str, samples: list[tuple[Any, Any]], of: tuple[dtype, ...], has_values: bool,
        device_ulp: float, refuses_expanded: bool,
    ) -> None:  # fmt: skip
        self.name, self.samples, self.dtypes, self.has_values = name, samples, of, has_values
        self.device_ulp, self.refuses_expanded = device_ulp, refuses_expanded


def load() -> list[Samples]:
    """Return the samples in samples.json."""
    text = (files(__package__) / FILE).read_text(encoding="utf-8")
    return [
        Samples(
            row["name"], [(_in(args), _in(kwargs)) for args, kwargs in row["samples"]],
            tuple([getattr(dtypes, _python_name(n)) for n in row["dtypes"]]), row["has_values"],
            row["device_ulp"], row["refuses_expanded"],
        )
        for row in json.loads(text)
    ]  # fmt: skip


def dump(rows: list[Samples]) -> str:
    """Return samples as the text of samples.json, with one line for each sample."""
    parts = []
    for row in rows:
        head = {
            "name": row.name, "dtypes": [d.name for d in row.dtypes], "has_values": row.has_values,
            "device_ulp": row.device_ulp, "refuses_expanded": row.refuses_expanded,
        }  # fmt: skip
        lines = [json.dumps([_out(args), _out(kwargs)]) for args, kwargs in row.samples]
        parts.append(json.dumps(head)[:-1] + ', "samples": [\n  ' + ",\n  ".join(lines) + "]}")
    return "[" + ",\n".join(parts) + "]\n"


def _python_name(name: str) -> str:
    return "bool_" if name == "bool" else name


def _out(x: Any) -> Any:
    if type(x) is T:
        given = {"values": x.values, "dtype": x.dtype and x.dtype.name, "layout": x.layout}
        plain = {"values": "exact", "dtype": None, "layout": None}
        kept = {k: v for k, v in given.items() if v != plain[k]}
        return {"T": list(x.sizes)} | kept | ({"as_storage": True} if x.as_storage else {})
    if isinstance(x, Fill):
        return {"fill": x.what}
    if isinstance(x, complex):
        return {"complex": [x.real, x.imag]}
    if isinstance(x, dtype):
        return {"dtype": x.name}
    if isinstance(x, memory_format):
        return {"memory_format": x.name}
    if isinstance(x, dict):
        return {"kwargs": {name: _out(value) for name, value in x.items()}}
    if isinstance(x, (tuple, list)):
        return [_out(y) for y in x]
    assert x is None or isinstance(x, (bool, int, float, str)), x
    return x


def _in(x: Any) -> Any:
    if isinstance(x, list):
        return tuple([_in(y) for y in x])
    if not isinstance(x, dict):
        return x
    if "T" in x:
        of = x.get("dtype")
        return T(
            *x["T"], values=x.get("values", "exact"), layout=x.get("layout"),
            dtype=None if of is None else getattr(dtypes, _python_name(of)),
            as_storage=x.get("as_storage", False),
        )  # fmt: skip
    ((kind, value),) = x.items()
    return _KINDS[kind](value)


_KINDS: dict[str, Callable[[Any], Any]] = {
    "fill": Fill,
    "complex": lambda parts: complex(*parts),
    "dtype": lambda name: getattr(dtypes, _python_name(name)),
    "memory_format": lambda name: getattr(formats, name),
    "kwargs": lambda given: {name: _in(value) for name, value in given.items()},
}
