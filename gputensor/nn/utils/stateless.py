"""Calls of a module with other tensors in place of its parameters and buffers.

Source: torch/nn/utils/stateless.py, torch/nn/utils/_named_member_accessor.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ...core import errors, lazy
from ...tensor.tensor import Tensor
from ..modules.module import Module

__all__ = ["functional_call"]


_ABSENT: Any = object()


def _swap(module: Module, path: str, value: Any) -> Any:
    """Set the parameter, buffer or attribute at a path and return its previous value. _ABSENT
    stands for an attribute that does not exist."""
    parent, _, name = path.rpartition(".")
    below = module.get_submodule(parent)
    kinds: tuple[dict[str, Any], ...] = (below._parameters, below._buffers)
    kind = next((kind for kind in kinds if name in kind), None)
    before = getattr(below, name, _ABSENT) if kind is None else kind[name]
    if before is not None and before is not _ABSENT and not isinstance(before, Tensor):
        raise errors.wrong_type("functional_call", path, "be a tensor of the module", before)
    if value is _ABSENT:
        delattr(below, name)
    elif kind is None:
        setattr(below, name, value)
    else:
        kind[name] = value
    return before


def _named(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield each name of each parameter and buffer."""
    yield from module.named_parameters(remove_duplicate=False)
    yield from module.named_buffers(remove_duplicate=False)


def _tied(given: Mapping[str, Any], module: Module) -> dict[str, Any]:
    """Return `given` with additional entries. If the module has a tensor of `given` under several
    names, each of these names gets an entry.

    Raises: ArgumentValueError if `given` has different values for names of the same tensor.
    """
    names: dict[int, list[str]] = {}
    for path, x in _named(module):
        names.setdefault(id(x), []).append(path)
    found = dict(given)
    for paths in names.values():
        values = {id(given[path]): given[path] for path in paths if path in given}
        if len(values) > 1:
            rule = f"have one value for {', '.join(paths)}, which are tied"
            raise errors.wrong_value("functional_call", "parameters_and_buffers", rule, len(values))
        for value in values.values():
            found.update(dict.fromkeys(paths, value))
    return found


def _check_names(module: Module, given: Mapping[str, Any]) -> None:
    """Raise an error unless `given` has all names of the module and no others."""
    names = {path for path, _ in _named(module)}
    wrong = sorted(names ^ set(given))
    if wrong:
        rule = f"name all parameters and buffers of {type(module).__name__} and no others"
        raise errors.must("functional_call", "parameters_and_buffers", rule, wrong)


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = None,
    kwargs: Mapping[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call `module` with these tensors in place of its parameters and buffers. The module itself
    does not change. If its `forward` assigns a new tensor to one of the names, the dict
    `parameters_and_buffers` gets this tensor.

    Args:
        parameters_and_buffers: tensors by name. Without `strict`, a name that the module does not
            have is an attribute during the call.
        tie_weights: replace a tensor with several names under all of them.
    Raises: ArgumentError with `strict` for unknown and for missing names.
    """
    for path, value in parameters_and_buffers.items():
        if value is not None and not isinstance(value, Tensor):
            raise errors.not_a_tensor("functional_call", path, "a Tensor", value)
    tied = _tied(parameters_and_buffers, module) if tie_weights else parameters_and_buffers
    if strict:
        _check_names(module, tied)
    before: dict[str, Any] = {}
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    try:
        for path, value in tied.items():
            before[path] = _swap(module, path, value)
        return module(*positional, **(kwargs or {}))
    finally:
        for path in reversed(before):
            left = _swap(module, path, before[path])
            if left is not parameters_and_buffers.get(path, left):
                cast("dict[str, Any]", parameters_and_buffers)[path] = left


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
