"""Rules of elementwise operators, which families define: the loop, the dtypes and the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...kernels._generated.loops import LOOPS
from ...core.arguments import NUMBERS
from ...core.dtype import bool_, dtype
from ...core.dtype_rules import RULES, DtypeRule
from ...iterator.plan import Plan


class Rule:
    """The description of one operator, which a family provides.

    loop: the loop's name in kernels/. config: the iterator's flags. check(op, plan, inputs): raises
    for dtypes that the operator does not accept. out_dtype(common): the result's dtype, if it
    differs from the common dtype. param: the name in messages of an additional number that some
    loops take. like_input: if True, a result of another dtype has the layout of `empty_like` of the
    input, as in PyTorch.
    """

    __slots__ = (
        "family", "loop", "config", "check", "out_dtype", "param", "like_input", "takes_scalars",
        "takes_float8",
    )  # fmt: skip
    family: str
    loop: str
    config: Any
    check: Callable[[str, Plan, tuple[Any, ...]], None] | None
    out_dtype: Callable[[dtype], dtype] | None
    param: str
    like_input: bool

    def __init__(
        self, family: str, loop: str, config: Any,
        check: Callable[[str, Plan, tuple[Any, ...]], None] | None = None,
        out_dtype: Callable[[dtype], dtype] | None = None, param: str = "alpha",
        like_input: bool = False,
    ) -> None:  # fmt: skip
        self.family, self.loop, self.config, self.param = family, loop, config, param
        self.takes_scalars: bool = False
        self.takes_float8: bool = False
        self.check, self.out_dtype, self.like_input = check, out_dtype, like_input


def rule(family: str, loop: str, config: Any, to_float: Any) -> Rule:
    """Return the Rule of a loop, according to `dtypes:` of its YAML row. to_float: the config for
    operators that compute integers in floating point."""
    said = RULES[LOOPS[family][loop]]
    out_dtype = _real if said.gives_real else None
    if said.gives_bool:
        config = config.replace(check_all_same_dtype=False, static_dtype=bool_)
    made = Rule(
        family, loop, to_float if said.to_float else config, _check(said), out_dtype,
        like_input=said.gives_real,
    )  # fmt: skip
    made.takes_float8 = said.takes_float8
    return made


def _real(common: dtype) -> dtype:
    return common.to_real


def _check(said: DtypeRule) -> Callable[[str, Plan, tuple[Any, ...]], None] | None:
    if not said.refuses:
        return None

    def check(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        said.check(op, "self", plan.common_dtype)

    def check_each(op: str, plan: Plan, inputs: tuple[Any, ...]) -> None:
        for name, x in zip(plan.config.arg_names, inputs):
            if type(x) is bool or type(x) not in NUMBERS:
                said.check(op, name, bool_ if type(x) is bool else x._geometry.dtype, x)

    return check_each if said.each else check
