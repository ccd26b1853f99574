"""Containers: Sequential, lists and dicts of modules and of parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from ...core import errors
from ..parameter import Parameter
from .module import Module, indented

# More layers than any network has: a typing mistake must not fill the memory.
_MOST_LAYERS = 1 << 16


def check_layers(op: str, count: int) -> None:
    if count > _MOST_LAYERS:
        raise errors.must(op, "num_layers", f"be at most {_MOST_LAYERS}", count)


class _Numbered(Module):
    """An ordered container; its parts are named "0", "1", ..."""

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
        kept = list(self._modules.values())
        kept.insert(index, module)
        self._modules.clear()
        return self.extend(kept)

    def pop(self, index: int = -1) -> Any:
        """Remove the module at `key` and return it."""
        found = self[index]
        del self[index]
        return found

    def __add__(self, other: Iterable[Module | None]) -> Self:
        made = type(self)()
        return made.extend(self).extend(other)

    def __iadd__(self, other: Iterable[Module | None]) -> Self:
        return self.extend(list(other))


class Sequential(_Numbered):
    """Modules called one after the other: `Sequential(a, b)`, or a dict by name."""

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

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)


class ModuleList(_Numbered):
    """A list of modules, without a forward of its own."""

    def __init__(self, modules: Iterable[Module | None] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return super().__getitem__(index)

    def __repr__(self) -> str:
        """Write one line for equal neighbours: `(0-5): 6 x Linear(...)`."""
        runs: list[tuple[str, int, int]] = []  # (text, first index, last index)
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
    """A container whose parts have names; `_held` are the parts."""

    @property
    def _held(self) -> dict[str, Any]:
        raise NotImplementedError

    def update(self, parts: Mapping[str, Any]) -> None:
        for name, part in parts.items():
            self[name] = part

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
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    @property
    def _held(self) -> dict[str, Any]:
        return self._modules

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)


class ParameterList(Module):
    """A list of parameters; tensors become Parameters."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        for value in () if values is None else values:
            self.append(value)

    def append(self, value: Any) -> Self:
        kept = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), kept)
        return self

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[_index(self, index)]

    def extra_repr(self) -> str:
        return _listed(self._parameters, lambda p: p.dtype)


class ParameterDict(_Named):
    """Parameters by name; tensors become Parameters."""

    def __init__(self, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.update(parameters or {})

    @property
    def _held(self) -> dict[str, Any]:
        return self._parameters

    def __setitem__(self, name: str, value: Any) -> None:
        self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))

    def extra_repr(self) -> str:
        return _listed(self._parameters, lambda p: p.type())


def _listed(parameters: Mapping[str, Any], kind: Callable[[Any], Any]) -> str:
    """Return a line for each parameter, in PyTorch's words. kind: its dtype or its type."""
    return "\n".join(
        f"  ({name}): Parameter containing: [{kind(p)} of size {'x'.join(map(str, p.shape))}"
        + (f" ({p.device})]" if p.device.type == "cuda" else "]")
        for name, p in parameters.items()
        if p is not None
    )


def _index(of: Any, index: Any) -> int:
    at = operator.index(index)
    if not -len(of) <= at < len(of):
        raise errors.wrong_index(
            type(of).__name__, "index", f"be in [-{len(of)}, {len(of) - 1}]", at
        )
    return at


__all__ = ["Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]
