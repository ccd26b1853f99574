"""One call of an operator, which can be repeated with copied or changed arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from ...autograd.modes import no_grad
from ...core import errors
from ...core.schema import Argument
from ...dispatch.operator import Operator
from ...tensor.base import tensors_of
from ...tensor.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of an operator. values: all arguments, with defaults filled in."""

    operator: Operator
    values: list[Any]

    @staticmethod
    def of(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Make a Call from arguments. Raises: ArgumentTypeError if they do not fit the schema."""
        return Call(operator, operator.table.signature.arrange(operator, args, kwargs)[0])

    def run(self) -> Any:
        signature = self.operator.table.signature
        values = self.values
        return self.operator(*values[: signature.n_positional], **signature.keywords_of(values))

    def wrong(self, what: str, remedy: str) -> errors.OpCheckError:
        """Return the error for a wrong registration, with its remedy."""
        return errors.opcheck_found(self.operator, what, remedy)

    def results(self, result: Any) -> tuple[Any, ...]:
        """Return the result as a tuple with one value for each return of the schema."""
        count = len(self.operator.schema.returns)
        return () if count == 0 else (result,) if count == 1 else tuple(result)

    def named(self) -> Iterator[tuple[Argument, str, Tensor]]:
        """Return (argument, its name in messages, tensor) for each tensor. The name is `'x'`, or
        `'xs'[1]` for a tensor in a list."""
        for argument, value in zip(self.operator.schema.arguments, self.values):
            if isinstance(value, (list, tuple)):
                for number, item in enumerate(value):
                    if isinstance(item, Tensor):
                        yield argument, f"'{argument.name}'[{number}]", item
            elif isinstance(value, Tensor):
                yield argument, f"'{argument.name}'", value

    def tensors(self) -> list[Tensor]:
        return tensors_of(self.values)

    def requires_grad(self) -> bool:
        return any(x.requires_grad for x in self.tensors())

    def mapped(self, change: Callable[[Any], Any]) -> Call:
        """Return the call with `change` applied to each value.

        `change` is called once for a tensor that occurs several times.
        """
        known: dict[int, Any] = {}

        def once(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                return type(value)([once(item) for item in value])
            if id(value) not in known:
                known[id(value)] = change(value)
            return known[id(value)]

        return Call(self.operator, [once(value) for value in self.values])

    def copied(self, with_grad: bool = False) -> Call:
        """Return the call with copies of its tensors. The copies have the same layouts, and share
        memory where the tensors share it.

        with_grad: copies of tensors that require grad are leaves that require grad.
        """
        memo: dict[int, Any] = {}

        def twin(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            with no_grad():
                made = deepcopy(value.detach(), memo)
            return made.requires_grad_() if with_grad and value.requires_grad else made

        return self.mapped(twin)
