"""Elementwise special functions; mvlgamma is composed of lgamma."""

from __future__ import annotations

import math
from typing import Any

from .._generated import calls
from ..core import errors
from ..core.arguments import real
from ..core.dtype import FLOATING, dtype
from ..dispatch.operator import Operator
from ..structured import arguments
from ..structured.pointwise import elementwise
from ..tensor.tensor import Tensor


def _prepare(operator: Operator, common: dtype, params: dict[str, Any]) -> tuple[Any, ...]:
    """Return the checked numbers: the order of polygamma, or eps of logit.

    A negative eps stands for an absent eps.
    """
    if "eps" in params:
        return (-1.0 if params["eps"] is None else real("logit", "eps", params["eps"]),)
    n = arguments.integer(operator.short_name, "n", params["n"])
    if n < 0:
        raise errors.must(operator.short_name, "n", "not be negative", n)
    return (n,)


functional, inplace, out = elementwise.forms(
    lambda operator, loop: elementwise.rule(operator, "special", loop), _prepare
)


def mvlgamma(key_set: int, self: Tensor, p: int) -> Tensor:
    """Return the multivariate log-gamma function. Source: mvlgamma of ATen/native/UnaryOps.cpp."""
    if (p := arguments.integer("mvlgamma", "p", p)) < 1:
        raise errors.must("mvlgamma", "p", "be at least 1", p)
    of = self.dtype if self.dtype.category >= FLOATING else None
    halves = calls.div_Tensor(calls.arange(float(p), of, None, self.device, None), 2)
    shifted = calls.sub_Tensor(calls.unsqueeze(self, -1), halves, 1)
    total = calls.sum_dim_IntList(calls.lgamma(shifted), (-1,), False, None)
    return calls.add_Tensor(total, p * (p - 1) / 4 * math.log(math.pi), 1)


def mvlgamma_(key_set: int, self: Tensor, p: int) -> Tensor:
    return calls.copy_(self, mvlgamma(key_set, self, p), False)
