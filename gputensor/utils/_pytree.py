"""`torch.utils._pytree`: conversion of nested containers to leaves and a structure, and back.

A container is a dict, list, tuple, named tuple, OrderedDict, defaultdict, deque, the tuple that an
operator with several results returns, or an object of a class given to `register_pytree_node`. All
other objects, including None, are leaves.
Source: torch/utils/_pytree.py.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from types import UnionType
from typing import Any, NamedTuple

from ..core import errors
from ..core.returns import Results

# Flatten: container -> (children, context). Unflatten: (children, context) -> container.
Flatten = Callable[[Any], tuple[list[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]


class NodeDef(NamedTuple):
    """Functions that split and join the containers of a class. flatten_with_keys_fn: returns pairs
    of a key and a child, and the context."""

    flatten_fn: Flatten
    unflatten_fn: Unflatten
    flatten_with_keys_fn: Callable[[Any], tuple[list[Any], Any]] | None = None


def _by_key(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


_NAMED_TUPLE = NodeDef(lambda value: (list(value), type(value)), lambda parts, kind: kind(*parts))
SUPPORTED_NODES: dict[Any, NodeDef] = {
    dict: NodeDef(_by_key, lambda parts, names: dict(zip(names, parts))),
    list: NodeDef(lambda value: (value, None), lambda parts, _: list(parts)),
    tuple: NodeDef(lambda value: (list(value), None), lambda parts, _: tuple(parts)),
    OrderedDict: NodeDef(_by_key, lambda parts, names: OrderedDict(zip(names, parts))),
    defaultdict: NodeDef(
        lambda value: (list(value.values()), (value.default_factory, list(value))),
        lambda parts, note: defaultdict(note[0], zip(note[1], parts)),
    ),
    deque: NodeDef(
        lambda value: (list(value), value.maxlen), lambda parts, length: deque(parts, length)
    ),
    namedtuple: _NAMED_TUPLE,
}
DICTS = (dict, OrderedDict, defaultdict)
_RESULTS = NodeDef(lambda value: (list(value), type(value)), lambda parts, kind: kind(parts))


class TreeSpec:
    """The structure of a nested container. type: the container's class, or None for a leaf.

    context: data of the container apart from its children. children_specs: the children's
    structures.
    """

    __slots__ = ("type", "context", "children_specs", "num_leaves")
    type: Any
    context: Any
    children_specs: list[TreeSpec]

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.num_leaves: int = sum([x.num_leaves for x in children_specs]) if type else 1

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        return 1 + sum([x.num_nodes for x in self.children_specs])

    def children(self) -> list[TreeSpec]:
        """Return the structures of the direct children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one direct child."""
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        """Return True if this is the structure of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return `tree_unflatten(leaves, self)`."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the parts of `tree` at the positions of this structure's leaves.

        The keys of dicts may have any order, and dict, OrderedDict and defaultdict match each
        other.
        Raises: ArgumentValueError if the structures differ.
        """
        if self.type is None:
            return [tree]
        kind, node = _node(tree)
        children, context = ([], None) if node is None else node.flatten_fn(tree)
        if kind in DICTS and self.type in DICTS:
            names = self.context[1] if self.type is defaultdict else self.context
            same = tree.keys() == set(names)
            children = [tree[name] for name in names] if same else []
        else:
            same = kind is self.type and (kind is deque or context == self.context)
        if not same or len(children) != self.num_children:
            raise errors.wrong_value("tree_map", "rests", f"be nested as {self!r}", tree)
        return [y for x, part in zip(children, self.children_specs) for y in part.flatten_up_to(x)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (
            (self.type, self.context, self.children_specs)
            == (other.type, other.context, other.children_specs)
        )

    def __hash__(self) -> int:
        # The context may be unhashable, so it is omitted. Equal specs still have equal hashes.
        return hash((self.type, *self.children_specs))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The structure of one leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def register_pytree_node(
    cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, *, flatten_with_keys_fn: Any = None,
    **names: Any,
) -> None:  # fmt: skip
    """Register a class of containers.

    flatten_fn: returns a list of children and a context. unflatten_fn: takes both.
    flatten_with_keys_fn: returns pairs of a key and a child, and the context. names: accepted
    without effect; PyTorch uses them for serialisation.
    """
    if not isinstance(cls, type):
        raise errors.wrong_type("register_pytree_node", "cls", "be a class", cls)
    if cls in SUPPORTED_NODES:
        rule = "not be registered already"
        raise errors.wrong_value("register_pytree_node", "cls", rule, errors.Got(cls.__name__))
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _node(value: Any) -> tuple[Any, NodeDef | None]:
    """Return the class of a value and its NodeDef, which is None for a leaf."""
    kind = type(value)
    return kind, SUPPORTED_NODES.get(kind) or _node_of_tuples(kind)


def _get_node_type(tree: Any) -> Any:
    """Return a value's key in SUPPORTED_NODES: `namedtuple` for a named tuple, otherwise the class
    of the value."""
    kind = type(tree)
    return namedtuple if issubclass(kind, tuple) and hasattr(kind, "_fields") else kind


def _node_of_tuples(kind: type) -> NodeDef | None:
    """Return the NodeDef of a class of named tuples or operator results; None for other classes."""
    if not issubclass(kind, tuple):
        return None
    if issubclass(kind, Results):
        return _RESULTS
    return _NAMED_TUPLE if hasattr(kind, "_fields") else None


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a nested container in order, and its structure.

    is_leaf: a function that returns True for values to keep as leaves.
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, is_leaf, leaves)


def _flatten(tree: Any, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> TreeSpec:
    kind, node = _node(tree)
    if node is None or is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(x, is_leaf, leaves) for x in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the nested container of this structure with these leaves.

    Raises: ArgumentValueError for a wrong number of leaves.
    """
    listed = list(leaves)
    if len(listed) != treespec.num_leaves:
        rule = f"be {treespec.num_leaves}, as the container has"
        raise errors.wrong_value("tree_unflatten", "leaves", rule, errors.Got(str(len(listed))))
    return _unflatten(iter(listed), treespec)


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    node = SUPPORTED_NODES.get(spec.type) or _node_of_tuples(spec.type)
    assert node is not None, "a TreeSpec is made of containers alone"
    return node.unflatten_fn([_unflatten(leaves, x) for x in spec.children_specs], spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a nested container in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure of a nested container."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply `func` to each leaf, together with the parts of `rests` at the same place. Return the
    results in a container of the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(x) for x in rests]
    return tree_unflatten([func(*xs) for xs in zip(leaves, *others)], spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, **options: Any) -> Any:
    """Call `func` for each leaf. Return the original container."""
    tree_map(func, tree, *rests, **options)
    return tree


def tree_map_only(kind: Any, func: Callable[[Any], Any], tree: Any, **options: Any) -> Any:
    """Apply `func` to the leaves of a kind and keep all others. Return the new container.

    kind: a class, several classes, or a function that returns True for leaves of the kind.
    """
    if isinstance(kind, (type, tuple, UnionType)):
        return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, **options)
    return tree_map(lambda x: func(x) if kind(x) else x, tree, **options)


def tree_all(holds: Callable[[Any], bool], tree: Any) -> bool:
    """Return True if `holds` is true for every leaf."""
    return all(holds(x) for x in tree_leaves(tree))


def tree_any(holds: Callable[[Any], bool], tree: Any) -> bool:
    """Return True if `holds` is true for any leaf."""
    return any(holds(x) for x in tree_leaves(tree))
