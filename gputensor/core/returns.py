"""Tuples of named results, such as `gt.max(x, 0).values`, as in torch.return_types."""

from __future__ import annotations

import functools
from operator import itemgetter
from typing import Any

from . import dtype as dtypes


class Results(tuple[Any, ...]):
    """A tuple with named fields, made from an iterable that yields all results."""

    __slots__ = ()
    fields: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = ",\n".join(f"{name}={value!r}" for name, value in zip(self.fields, self))
        return f"{dtypes.package_name}.return_types.{type(self).__name__}(\n{shown})"

    def __reduce__(self) -> Any:
        return _remade, (type(self).__name__, " ".join(self.fields), tuple(self))


@functools.cache
def named(op: str, fields: str) -> type[Results]:
    """Make the result type of an operator. fields: the names of its results, in order."""
    names = tuple(fields.split())
    places: dict[str, Any] = {name: property(itemgetter(n)) for n, name in enumerate(names)}
    return type(op, (Results,), {"__slots__": (), "fields": names, **places})


def _remade(op: str, fields: str, results: tuple[Any, ...]) -> Results:
    return named(op, fields)(results)
