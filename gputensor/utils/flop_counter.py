"""Counter of floating-point operations in matrix products and convolutions, forward and backward.

    with FlopCounterMode() as counter:
        model(x).sum().backward()
    counter.get_total_flops()

A multiplication and an addition count as two operations. Other operators are not counted.
Source: torch/utils/flop_counter.py.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core import lazy
from ..dispatch.operator import Operator
from ..fallbacks.modes import DispatchMode
from ..nn import Module
from ..nn.modules import hooks
from ..tensor.tensor import Tensor

__all__ = ["FlopCounterMode"]
Formula = Callable[..., int]


def _product(a: Any, b: Any) -> int:
    """Return the number of operations of a matrix product, or of a batch of them."""
    return int(2 * math.prod(a.shape) * b.shape[-1])


def _convolution(x: Any, weight: Any, is_transposed: bool, result: Any) -> int:
    places = x if is_transposed else result
    return int(2 * math.prod(weight.shape) * x.shape[0] * math.prod(places.shape[2:]))


def _convolution_backward(
    grad: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Any, result: Any,
) -> int:  # fmt: skip
    """Return the number of operations of the requested gradients of input and weight. Each gradient
    takes as many operations as the convolution."""
    return int(sum(output_mask[:2])) * _convolution(x, weight, transposed, grad)


def _recurrent(x: Any, of_input: Any, of_hidden: Any) -> int:
    """Return the number of operations of a recurrent layer. Each row of the input is multiplied by
    the weight `of_input`, and each row of the hidden states by the weight `of_hidden`."""
    return int(2 * math.prod(x.shape[:-1]) * (of_input.numel() + of_hidden.numel()))


def _attention(products: int, q: Any, k: Any, v: Any) -> int:
    """Return the number of operations in `products` matrix products of (L, E) and (E, S). In
    products // 2 of them, E is the width of the values. In the others, E is the width of the
    queries."""
    rows = math.prod(q.shape[:-1]) * k.shape[-2]
    of_values = products // 2
    return int(2 * rows * ((products - of_values) * q.shape[-1] + of_values * v.shape[-1]))


_FORMULAS: dict[str, Formula] = {
    "aten::mm": lambda a, b, result: _product(a, b),
    "aten::bmm": lambda a, b, result: _product(a, b),
    "aten::addmm": lambda x, a, b, *rest, result: _product(a, b),
    "aten::baddbmm": lambda x, a, b, *rest, result: _product(a, b),
    "aten::convolution": lambda x, weight, bias, stride, padding, dilation, transposed, *rest,
    result: _convolution(x, weight, transposed, result),
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu": lambda q, k, v, *rest, result: _attention(
        2, q, k, v
    ),
    # five products, because backward computes the scores again
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": lambda grad, q, k, v, *rest,
    result: _attention(5, q, k, v),
    "aten::_attention_with_dropout": lambda q, k, v, *rest, result: _attention(2, q, k, v),
    "aten::_attention_backward": lambda grad, q, k, v, *rest, result: _attention(5, q, k, v),
    "aten::_rnn_layer": lambda x, a, b, *rest, result: _recurrent(x, a, b),
    "aten::_rnn_layer_backward": lambda out, hy, cy, x, a, b, *rest, result: (
        2 * _recurrent(x, a, b)
    ),
}  # fmt: skip


class FlopCounterMode(DispatchMode):
    """Context manager that counts the operations in a block, by module and operator.

    mods: accepted without effect. depth, display: `display` prints `get_table(depth)` at the end of
    the block. custom_mapping: operator -> function that returns a number of operations; it takes
    the operator's arguments, and the result as `out_val`.
    """

    flop_counts: dict[str, Counter[Any]]
    depth: int
    display: bool

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True,
        custom_mapping: dict[Any, Formula] | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.depth, self.display = depth, display
        self.flop_counts = {"Global": Counter()}
        self._custom = custom_mapping or {}
        self._within: list[str] = []  # names of the modules that are running
        self._names: dict[int, str] = {}
        self._handles: list[Any] = []

    def __gputensor_dispatch__(
        self, op: Operator, types: tuple[type, ...], args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # fmt: skip
        """Count the operations of a call and run it."""
        keywords = kwargs or {}
        result = op(*args, **keywords)
        flops = self._flops(op, args, keywords, result)
        if flops:
            for name in {"Global", *self._within}:
                self.flop_counts.setdefault(name, Counter())[op] += flops
        return result

    def _flops(self, op: Operator, args: Any, keywords: dict[str, Any], result: Any) -> int:
        for named in (op, op.name):
            if named in self._custom:
                return self._custom[named](*args, **keywords, out_val=result)
        formula = _FORMULAS.get(op.name)
        return 0 if formula is None else formula(*args, result=result)

    def _enter(self) -> None:
        self._handles = [
            hooks.register_module_forward_pre_hook(self._before),
            hooks.register_module_forward_hook(self._after, always_call=True),
        ]
        super()._enter()

    def __exit__(self, *error: Any) -> Any:
        for handle in self._handles:
            handle.remove()
        self._handles, self._within = [], []
        left = super().__exit__(*error)
        if self.display and error[0] is None:
            print(self.get_table(self.depth))
        return left

    def _before(self, module: Module, args: Any) -> None:
        if not self._within:
            self._names = {id(m): n for n, m in module.named_modules(prefix=type(module).__name__)}
        self._within.append(self._names.get(id(module), type(module).__name__))

    def _after(self, module: Module, args: Any, result: Any) -> None:
        """Remove the module from the running modules. Hooks add it again during its backward."""
        name = self._within.pop()
        for x in [result] if isinstance(result, Tensor) else ():
            if x.grad_fn is not None:
                x.register_hook(lambda grad: self._within.append(name))
        for x in [a for a in args if isinstance(a, Tensor) and a.grad_fn is not None]:
            x.register_hook(lambda grad: self._leave(name))

    def _leave(self, name: str) -> None:
        if name in self._within:
            self._within.remove(name)

    def get_total_flops(self) -> int:
        """Return the number of operations in the block."""
        return self.flop_counts["Global"].total()

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return a dict from the names of modules to dicts from operators to numbers of operations.
        "Global" stands for the whole block."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return a table of modules, down to `depth` levels, with their operators and shares."""
        levels = self.depth if depth is None else depth
        total = self.get_total_flops() or 1
        lines = [f"{'module':40} {'FLOP':>14} {'share':>8}"]
        for name, counts in self.flop_counts.items():
            if name == "Global" or name.count(".") < levels:
                lines.append(f"{name:40} {counts.total():14,} {counts.total() / total:8.1%}")
                lines += [f"  {op.name:38} {n:14,} {n / total:8.1%}" for op, n in counts.items()]
        return "\n".join(lines)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
