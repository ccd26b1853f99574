"""The choice of an operator's batch rule: the field `batch` of the operator's row in
native_functions.yaml, otherwise the rule of its family."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._generated.batching import RULES as OWN_RULES
from ...dispatch import families
from ...dispatch.operator import Operator
from ..operators import Entry, functional_name
from . import batches, composed, convolution, indexing, losses, norms, products, random

Rule = Callable[[Any, Entry, Sequence[Any], str], Any]

_MODULES = (batches, composed, convolution, indexing, losses, norms, products, random)
# Maps the names that rows of native_functions.yaml use to rules.
RULES: dict[str, Rule] = {
    name: found
    for module in _MODULES
    for name, found in vars(module).items()
    if getattr(found, "__module__", None) == module.__name__
}
# Maps each family to the rule of its operators whose rows have no field `batch`.
FAMILIES = {
    **dict.fromkeys(
        "activation binary bits comparison complex_view conversion copy fill masked special "
        "ternary unary where".split(), "pointwise"
    ),
    **dict.fromkeys(
        "argreduce fft gather moments order reduce scan scatter slicing softmax sort".split(),
        "dims",
    ),
    **dict.fromkeys("factor linalg solve spectrum triangle".split(), "leading"),
    **dict.fromkeys("max_pool pad pool upsample unpool".split(), "fold"),
    **dict.fromkeys("counts dropout random random_factory".split(), "random"),
    "criterion": "loss", "view": "sizes", "matmul": "product", "batched": "product",
    "products": "product", "factory": "sizes",
}  # fmt: skip


def is_explicit(operator: Operator) -> bool:
    """True if the operator's row in native_functions.yaml names a rule."""
    return operator.qualified_name in OWN_RULES


@functools.cache
def rule_of(operator: Operator) -> tuple[Callable[..., Any] | None, str]:
    """Return the batch rule of an operator, and the rule's argument.

    In-place forms and copies of views have the rule of the operator from which they are derived.
    """
    base, dot, overload = operator.qualified_name.partition(".")
    of_view = f"{base.removesuffix('_copy')}{dot}{overload}"
    names = [operator.qualified_name, functional_name(operator), of_view]
    text = next((OWN_RULES[name] for name in names if name in OWN_RULES), None)
    if text is None:
        family = families.family_of(operator.qualified_name)
        text = FAMILIES.get(family or "", "")
    name, _, argument = text.partition(" ")
    return RULES.get(name), argument
