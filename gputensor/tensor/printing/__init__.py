"""The repr of a tensor, in exactly PyTorch's form, and its print options.

Elements are read through NumPy on the host. Of a large tensor, only the elements that are shown at
its ends are read. Source of the rules: torch/_tensor_str.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._generated import calls
from ...core import errors
from ...core.device import META
from ...core.dtype import COMPLEX, FLOATING, bool_, complex64, complex128, float64, int64
from ...dispatch import defaults
from ...dispatch.refusal import declares
from ..base import on_host

if TYPE_CHECKING:
    from ..tensor import Tensor

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": inf, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}


@declares(
    first=True, precision="int?", threshold="float?", edgeitems="int?", linewidth="int?",
    profile="str?",
    sci_mode="bool?",
)  # fmt: skip
def set_printoptions(
    precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
    linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None,
) -> None:  # fmt: skip
    """Change how tensors print, for the whole process. None leaves an option unchanged, except
    sci_mode.

    Args:
        precision: digits after the point of floating numbers (4).
        threshold: a tensor with more elements is summarised (1000).
        edgeitems: how many items a summary shows at each end of a dimension (3).
        linewidth: characters per line (80).
        profile: "default", "short" or "full": sets the four above first.
        sci_mode: scientific notation always (True), never (False), or where it helps (None).
    """
    if profile is not None:
        if profile not in _PROFILES:
            rule = f"be one of {', '.join(_PROFILES)}"
            raise errors.wrong_value("set_printoptions", "profile", rule, profile)
        _options.update(_PROFILES[profile])
    given = {
        "precision": precision, "threshold": threshold, "edgeitems": edgeitems,
        "linewidth": linewidth,
    }  # fmt: skip
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict[str, Any]:
    """Return the current options, in the form that `set_printoptions(**...)` takes."""
    return dict(_options)


@contextmanager
def printoptions(**options: Any) -> Iterator[None]:
    """Context manager `with printoptions(precision=2):`, which changes the print options in the
    block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        _options.update(before)


def tensor_repr(tensor: Tensor) -> str:
    """Return a text such as `tensor([1., 2.])`. Device, dtype and size are shown if they are not
    the default ones."""
    geometry, place = tensor._geometry, tensor._device
    name = type(tensor).__name__
    prefix = "tensor(" if name == "Tensor" else f"{name}("
    suffixes = [] if place.type == "cpu" else [f"device='{place}'"]
    default = defaults.get_default_dtype()
    if place is META or geometry.numel == 0:
        body = "..." if place is META else "[]"
        if place is META or geometry.ndim != 1:
            suffixes.append(f"size={geometry.sizes}")
        if geometry.dtype is not default:
            suffixes.append(f"dtype={geometry.dtype}")
    else:
        if not _options["edgeitems"]:
            suffixes.append(f"size={geometry.sizes}")
        complex_default = complex128 if default is float64 else complex64
        if geometry.dtype not in (default, complex_default, int64, bool_):
            suffixes.append(f"dtype={geometry.dtype}")
        body = _body(tensor, len(prefix))
    grad_fn = getattr(tensor, "grad_fn", None)
    if grad_fn is not None:
        suffixes.append(f"grad_fn=<{grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    return _join(prefix + body, suffixes, len(prefix))


def _join(text: str, suffixes: list[str], indent: int) -> str:
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        # Measure the text with "torch." in place of "gputensor.", so that lines break at the same
        # places as in PyTorch.
        width = len(suffix.replace("gputensor.", "torch."))
        if length + width + 2 > _options["linewidth"]:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + width
        else:
            parts.append(", " + suffix)
            length += width + 2
    return "".join(parts) + ")"


# --- elements -----------------------------------------------------------------------------------

Format = Callable[[Any], str]


def _body(tensor: Tensor, indent: int) -> str:
    geometry = tensor._geometry
    summarize = geometry.numel > _options["threshold"]
    edge = _options["edgeitems"]
    cut = tuple([summarize and size > 2 * edge for size in geometry.sizes])
    if True in cut and not edge:
        return "[...]"
    values = _corners(tensor, cut, edge)
    if geometry.dtype.category == COMPLEX:
        formats = (_Formatter(values.real, False), _Formatter(values.imag, False))
        width = formats[0].width + formats[1].width + 1

        def one(value: Any) -> str:
            imaginary = (formats[1](value.imag) + "j").lstrip()
            return formats[0](value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary

        return _nested(values, indent, cut, one, width)
    formatter = _Formatter(values, geometry.dtype.category != FLOATING)
    return _nested(values, indent, cut, formatter, formatter.width)


def _corners(tensor: Tensor, cut: tuple[bool, ...], edge: int) -> np.ndarray[Any, Any]:
    """Return the elements to show, on the host: `edge` elements from each end of a shortened
    dimension."""
    if True in cut:
        dim = cut.index(True)
        size = tensor._geometry.sizes[dim]
        rest = (*cut[:dim], False, *cut[dim + 1 :])
        head = _corners(calls.slice_Tensor(tensor, dim, 0, edge, 1), rest, edge)
        tail = _corners(calls.slice_Tensor(tensor, dim, size - edge, size, 1), rest, edge)
        return np.concatenate((head, tail), dim)
    array = on_host(tensor)
    # NumPy's float16 and bfloat16 do not support Python's formatting, so they are converted.
    is_short = tensor._geometry.dtype.category == FLOATING and array.dtype.itemsize < 4
    return array.astype(np.float32) if is_short else array


class _Formatter:
    """Formatter of the real numbers of one tensor. All texts have equal width.

    width: the width of the widest number. A floating tensor without fractions prints `1.`; if the
    magnitudes differ widely, it prints in scientific notation.
    """

    __slots__ = ("width", "_write", "_is_scientific")

    def __init__(self, values: np.ndarray[Any, Any], is_exact: bool) -> None:
        self.width, self._is_scientific = 1, False
        flat = values.ravel().tolist()
        self._write: Format = str
        if is_exact:
            self.width = max([1, *[len(str(v)) for v in flat]])
            return
        numbers = [v for v in flat if v != 0 and isfinite(v)]
        self._write = _whole
        if not numbers:
            return
        magnitudes = [abs(v) for v in numbers]
        smallest, largest = min(magnitudes), max(magnitudes)
        precision, sci_mode = _options["precision"], _options["sci_mode"]
        if sci_mode is None:
            sci_mode = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
        self._is_scientific = sci_mode
        extra = 0
        if sci_mode:
            self._write = f"{{:.{precision}e}}".format
        elif any(v != int(v) for v in numbers):
            self._write = f"{{:.{precision}f}}".format
        else:
            # PyTorch adds 1 for a point to the width of every number, even to the width of "inf",
            # which is written without a point.
            self._write, extra = "{:.0f}".format, 1
        self.width = max([1, *[len(self._write(v)) + extra for v in numbers]])
        if extra:
            self._write = _whole

    def __call__(self, value: Any) -> str:
        return self._write(value).rjust(self.width)


def _whole(value: float) -> str:
    return f"{value:.0f}." if isfinite(value) else f"{value:.0f}"


def _nested(
    values: np.ndarray[Any, Any], indent: int, cut: tuple[bool, ...], one: Format, width: int
) -> str:
    """Return the text of nested brackets, with `...` in the middle of each shortened dimension."""
    if values.ndim == 0:
        return one(values.item())
    if values.ndim == 1:
        items = [one(v) for v in values.tolist()]
        if cut[0]:
            items.insert(len(items) // 2, " ...")
        per_line = max(1, (_options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_nested(v, indent + 1, cut[1:], one, width) for v in values]
    if cut[0]:
        parts.insert(len(parts) // 2, "...")
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
