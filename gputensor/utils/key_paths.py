"""Leaves of nested containers with their paths, under the names of `torch.utils._pytree`.

A path is a tuple of keys, one for each container around the leaf.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from . import _pytree

IsLeaf = Callable[[Any], bool] | None


class SequenceKey(namedtuple("SequenceKey", "idx")):
    """The key of an item of a sequence, as part of a path."""

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the item."""
        return sequence[self.idx]


class MappingKey(namedtuple("MappingKey", "key")):
    """The key of an entry of a mapping, as part of a path."""

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the entry."""
        return mapping[self.key]


class GetAttrKey(namedtuple("GetAttrKey", "name")):
    """The name of an attribute, as part of a path."""

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


def _children(tree: Any, is_leaf: IsLeaf) -> list[tuple[Any, Any]] | None:
    """Return the children of a container with their keys, or None for a leaf."""
    kind, node = _pytree._node(tree)
    if node is None or is_leaf is not None and is_leaf(tree):
        return None
    if node.flatten_with_keys_fn is not None:
        found: list[tuple[Any, Any]] = node.flatten_with_keys_fn(tree)[0]
        return found
    children, _ = node.flatten_fn(tree)
    if kind in _pytree.DICTS:
        return list(zip(map(MappingKey, tree), children))
    fields = getattr(kind, "_fields", None)
    keys = map(SequenceKey, range(len(children))) if fields is None else map(GetAttrKey, fields)
    return list(zip(keys, children))


def tree_leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[Any, Any]]:
    """Return pairs of a path and its leaf."""
    children = _children(tree, is_leaf)
    if children is None:
        return [((), tree)]
    return [
        ((key, *path), leaf)
        for key, child in children
        for path, leaf in tree_leaves_with_path(child, is_leaf)
    ]


def tree_flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    """Return pairs of a path and its leaf, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), _pytree.tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any,
                       is_leaf: IsLeaf = None) -> Any:  # fmt: skip
    """Apply `func` to each path, its leaf, and the parts of `rests` at the same place."""
    leaves, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(x) for x in rests]
    return _pytree.tree_unflatten(
        [func(path, leaf, *xs) for (path, leaf), *xs in zip(leaves, *others)], spec
    )


def keystr(kp: tuple[Any, ...]) -> str:
    """Return a path as code, such as "['a'][0].x"."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """Return the part of a container at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


OF_PATHS = {
    made.__name__: made
    for made in (
        SequenceKey, MappingKey, GetAttrKey, tree_leaves_with_path, tree_flatten_with_path,
        tree_map_with_path, keystr, key_get,
    )
}  # fmt: skip
