"""Private functions of PyTorch's `nn` package that programs call."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import gputensor as gt
from gputensor.core import arguments, errors
from gputensor.nn.modules import attention

from .functions import conv_tbc
from .overrides import OF_OVERRIDES


def clones(module: gt.nn.Module, N: int) -> gt.nn.ModuleList:
    return gt.nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def legacy_get_string(size_average: Any, reduce: Any, emit_warning: bool = True) -> str:
    return arguments.old_reduction("legacy_get_string", size_average, reduce)


def legacy_get_enum(size_average: Any, reduce: Any, emit_warning: bool = True) -> int:
    return arguments.reduction("legacy_get_enum", "mean", size_average, reduce)


def in_projection(
    q: gt.Tensor, k: gt.Tensor, v: gt.Tensor, w_q: gt.Tensor, w_k: gt.Tensor, w_v: gt.Tensor,
    b_q: Any = None, b_k: Any = None, b_v: Any = None,
) -> tuple[gt.Tensor, ...]:  # fmt: skip
    """Project queries, keys and values by one matrix each."""
    parts = zip((q, k, v), (w_q, w_k, w_v), (b_q, b_k, b_v))
    return tuple([gt.nn.functional.linear(x, w, b) for x, w, b in parts])


def in_projection_packed(
    q: gt.Tensor, k: gt.Tensor, v: gt.Tensor, w: gt.Tensor, b: gt.Tensor | None = None
) -> tuple[gt.Tensor, ...]:
    """Project queries, keys and values by the thirds of one matrix."""
    biases = (None, None, None) if b is None else b.chunk(3)
    return in_projection(q, k, v, *w.chunk(3), *biases)


def addindent(s_: str, numSpaces: int) -> str:
    """Indent all lines but the first."""
    return s_.replace("\n", "\n" + numSpaces * " ")


class _Conversion:
    """Whether `Module.to` swaps the parameters' contents, as `torch.__future__` says.

    gputensor's modules always keep their Parameter objects, so the answer changes nothing.
    """

    swaps = False

    def set(self, value: bool) -> None:
        self.swaps = value

    def get(self) -> bool:
        return self.swaps


_conversion = _Conversion()


def set_overwrite(value: bool) -> None:
    """Raise an error for True: `Module.to` never replaces Parameter objects."""
    if value:
        rule = "be False, as modules keep their Parameter objects"
        raise errors.must("set_overwrite_module_params_on_conversion", "value", rule, value)


OF_FUTURE: dict[str, Any] = {
    "set_swap_module_params_on_conversion": _conversion.set,
    "get_swap_module_params_on_conversion": _conversion.get,
    "set_overwrite_module_params_on_conversion": set_overwrite,
    "get_overwrite_module_params_on_conversion": lambda: False,
}
_reduction = SimpleNamespace(
    get_enum=lambda reduction: arguments.reduction("get_enum", reduction),
    legacy_get_string=legacy_get_string, legacy_get_enum=legacy_get_enum,
)  # fmt: skip
_overridable = {
    name: of for name, of in OF_OVERRIDES.items() if name.endswith("handle_torch_function")
    or name.startswith("has_torch_function")
}  # fmt: skip
OF_FUNCTIONAL: dict[str, Any] = {
    "_Reduction": _reduction, "_in_projection": in_projection,
    "_in_projection_packed": in_projection_packed,
    "native_channel_shuffle": gt.nn.functional.channel_shuffle, "conv_tbc": conv_tbc,
    **_overridable,
}  # fmt: skip
OF_TRANSFORMER: dict[str, Any] = {
    "_get_clones": clones, "_get_activation_fn": attention._activation,
}  # fmt: skip
OF_REDUCTION: dict[str, Any] = vars(_reduction)
