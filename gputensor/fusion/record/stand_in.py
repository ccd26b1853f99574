"""A stand-in for an operator, with which a kernel factory makes a kernel that records."""

from __future__ import annotations

from typing import Any

from ...dispatch.operator import Operator
from ...structured.pointwise.wide import WideEntry

_BOUND = 1 << 11


class StandIn:
    """An operator whose plan entries record calls instead of running them. It is also its table:
    it stores plans, and no short cuts.

    entry: the class of these entries; entry(operator, real) replaces `real`, the plan's own entry.
    """

    learners: dict[str, Any] = {}
    short: dict[Any, Any] = {}

    def __init__(self, operator: Operator, entry: type) -> None:
        self.operator, self.entry = operator, entry
        self.plans: dict[Any, Any] = {}

    @property
    def table(self) -> StandIn:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.operator, name)

    def remember(self, key: Any, real: Any) -> Any:
        if len(self.plans) >= _BOUND:
            self.plans.clear()
        # A WideEntry calls operators, which are recorded.
        is_kept = isinstance(real, (self.entry, WideEntry))
        made = real if is_kept else self.entry(self.operator, real)
        self.plans[key] = made
        return made
