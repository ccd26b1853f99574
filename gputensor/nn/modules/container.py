"""Containers: Sequential, ModuleList, ModuleDict, ParameterList and ParameterDict."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Self

from ...core import errors
from ...tensor.tensor import Tensor
from ..parameter import Parameter
from .module import Module, indented

# A limit above the number of layers of any network, so that a mistyped number does not fill the
# memory.
_MOST_LAYERS = 1 << 16


def check_layers(op: str, count: int) -> None:
    if count > _MOST_LAYERS:
        raise errors.must(op, "num_layers", f"be at most {_MOST_LAYERS}", count)


class _Numbered(Module):
    """An ordered container, whose parts are named "0", "1", ..."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: Any) -> Any:
        return list(self._modules.values())[_index(self, index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, list(self._modules)[_index(self, index)], module)

    def __delitem__(self, index: int | slice) -> None:
        kept = list(self._modules.values())
        del kept[index]
        self._modules.clear()
        self.extend(kept)

    def append(self, module: Module | None) -> Self:
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module | None]) -> Self:
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        if module is not None and not isinstance(module, Module):
            raise errors.wrong_type("insert", "module", "be a Module", module)
        kept = list(self._modules.values())
        kept.insert(index, module)
        self._modules.clear()
        return self.extend(kept)

    def pop(self, key: int = -1) -> Any:
        """Remove the module at the index `key` and return it."""
        found = self[key]
        del self[key]
        return found

    def __add__(self, other: Iterable[Module | None]) -> Self:
        made = type(self)()
        return made.extend(self).extend(other)

    def __iadd__(self, other: Iterable[Module | None]) -> Self:
        return self.extend(list(other))


class Sequential(_Numbered):
    """Modules called one after the other. Make it by `Sequential(a, b)`, or from a dict of
    modules."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        one = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else None
        for name, module in one.items() if one is not None else enumerate(args):
            if module is None:
                raise errors.wrong_type("Sequential", "args", "be Modules", module)
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        found = input
        for module in self:
            found = module(found)
        return found

    def insert(self, index: int, module: Module) -> Self:
        """Insert a module before the module at `index`. Raises: IndexRangeError for an index that
        is out of range."""
        count = len(self)
        if not -count <= index <= count:
            raise errors.wrong_index("insert", "index", f"be in [{-count}, {count}]", index)
        return super().insert(index, module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)


class ModuleList(_Numbered):
    """A list of modules. It has no `forward`."""

    def __init__(self, modules: Iterable[Module | None] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return super().__getitem__(index)

    def __repr__(self) -> str:
        """Return the same text as PyTorch. Consecutive modules with equal text share one line:
        `(0-5): 6 x Linear(...)`."""
        runs: list[tuple[str, int, int]] = []  # each entry is (text, first index, last index)
        for place, text in enumerate(map(repr, self)):
            if runs and runs[-1][0] == text:
                runs[-1] = (text, runs[-1][1], place)
            else:
                runs.append((text, place, place))
        lines = [
            indented(f"({first}-{last}): {last - first + 1} x {text}" if last > first else
                     f"({first}): {text}")
            for text, first, last in runs
        ]  # fmt: skip
        inner = "".join(f"  {line}\n" for line in lines)
        return f"{self._get_name()}(\n{inner})" if inner else f"{self._get_name()}()"


class _Named(Module):
    """A container whose parts have names. `_held` is the dict of its parts."""

    @property
    def _held(self) -> dict[str, Any]:
        raise NotImplementedError

    def update(self, parts: Any) -> None:
        """Set several parts. parts: an object with `items()`, such as a dict or a ModuleDict, or an
        iterable of (name, part)."""
        try:
            given = [*(parts.items() if hasattr(parts, "items") else parts)]
        except TypeError:
            given = [None]
        if not all([isinstance(x, (tuple, list)) and len(x) == 2 for x in given]):
            raise errors.wrong_type("update", "parts", "be a mapping, or pairs", parts)
        for name, part in given:
            self[name] = part

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a part and return it. If there is no such part, return the default. Raises:
        KeyError if there is no default."""
        if key not in self and default:
            return default[0]
        part = self[key]
        del self[key]
        return part

    def popitem(self) -> tuple[Any, Any]:
        """Remove the last part. Return its name and the part."""
        name = next(reversed([*self]), None)
        if name is None:
            raise KeyError("popitem(): the container is empty")
        return name, self.pop(name)

    def clear(self) -> None:
        for name in [*self]:
            del self[name]

    def __getitem__(self, name: str) -> Any:
        return self._held[name]

    def __setitem__(self, name: str, part: Any) -> None:
        raise NotImplementedError

    def __delitem__(self, name: str) -> None:
        del self._held[name]

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __contains__(self, name: str) -> bool:
        return name in self._held

    def keys(self) -> Any:
        return self._held.keys()

    def values(self) -> Any:
        return self._held.values()

    def items(self) -> Any:
        return self._held.items()


class ModuleDict(_Named):
    """A dict of modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    @property
    def _held(self) -> dict[str, Any]:
        return self._modules

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)


class ParameterList(Module):
    """A list of parameters. Tensors become Parameters. Other values are kept as attributes of the
    list."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        vars(self).setdefault("_size", len(self._parameters))  # older pickles lack the size

    def append(self, value: Any) -> Self:
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise errors.wrong_type("extend", "values", "be an iterable and no Tensor", values)
        for value in [*values]:
            self.append(value)
        return self

    __iadd__ = extend

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[n] for n in range(self._size)])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[n] for n in range(self._size)[index]])
        return getattr(self, str(_index(self, index) % self._size))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_index(self, index) % self._size), _parameter(value))

    def extra_repr(self) -> str:
        return _listed(enumerate(self), lambda p: p.dtype)


class ParameterDict(_Named):
    """A dict of parameters by name. Tensors become Parameters. Other values are kept as attributes
    of the dict."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        self.update(() if parameters is None else parameters)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # older pickles lack the names
        vars(self).setdefault("_keys", dict.fromkeys(self._parameters))

    @property
    def _held(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._keys}

    def __getitem__(self, name: Any) -> Any:
        if str(name) not in self._keys:
            raise KeyError(name)
        return getattr(self, str(name))

    def __setitem__(self, name: Any, value: Any) -> None:
        setattr(self, str(name), _parameter(value))
        self._keys[str(name)] = None

    def __delitem__(self, name: Any) -> None:
        del self._keys[str(name)]
        delattr(self, str(name))

    get: Any = MutableMapping.get

    def update(self, parts: Any) -> None:
        """Set several parts: see `_Named.update`. Source: torch/nn/modules/container.py, which
        sorts the names of a plain mapping."""
        if isinstance(parts, Mapping) and not isinstance(parts, OrderedDict):
            parts = sorted(parts.items())
        super().update(parts)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the part `key`. If there is no such part, first add `default` under this name."""
        if str(key) not in self._keys:
            self[key] = default
        return self[key]

    def copy(self) -> Self:
        return type(self)(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> Self:
        return type(self)([(name, default) for name in keys])

    def __reversed__(self) -> Iterator[str]:
        return reversed([*self._keys])

    def __or__(self, other: Any) -> Self:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Any) -> Self:
        made = type(self)([*other.items()])
        made.update(self)
        return made

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return _listed(self._held.items(), lambda p: p.type())


def _parameter(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value


def _listed(values: Iterable[tuple[Any, Any]], kind: Callable[[Any], Any]) -> str:
    """Return a text with one line for each value, in PyTorch's wording. kind: a function that
    returns the dtype or the type of a tensor as text."""
    lines = []
    for name, p in values:
        shown = f"Object of type: {type(p).__name__}"
        if isinstance(p, Tensor):
            place = f" ({p.device})" if p.device.type == "cuda" else ""
            sizes = "x".join(map(str, p.shape))
            shown = f"Parameter containing: [{kind(p)} of size {sizes}{place}]"
        lines.append(f"  ({name}): {shown}")
    return "\n".join(lines)


def _index(of: Any, index: Any) -> int:
    at = operator.index(index)
    if not -len(of) <= at < len(of):
        raise errors.wrong_index(
            type(of).__name__, "index", f"be in [-{len(of)}, {len(of) - 1}]", at
        )
    return at


__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]
