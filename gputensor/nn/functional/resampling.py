"""The functions of gt.nn.functional that resample images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._generated import calls
from ...core import errors
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from ._types import Reals, Sizes
from .pooling import per_dimension

__all__ = [
    "affine_grid", "grid_sample", "interpolate", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip

# mode -> {number of dimensions: operator}.
_BY_NEIGHBOURS: dict[str, dict[int, Any]] = {
    "nearest": {
        1: lambda *a: calls.upsample_nearest1d_vec(*a),
        2: lambda *a: calls.upsample_nearest2d_vec(*a),
        3: lambda *a: calls.upsample_nearest3d_vec(*a),
    },
    "nearest-exact": {
        1: lambda *a: calls._upsample_nearest_exact1d_vec(*a),
        2: lambda *a: calls._upsample_nearest_exact2d_vec(*a),
        3: lambda *a: calls._upsample_nearest_exact3d_vec(*a),
    },
    "area": {
        1: lambda *a: calls.adaptive_avg_pool1d(*a),
        2: lambda *a: calls.adaptive_avg_pool2d(*a),
        3: lambda *a: calls.adaptive_avg_pool3d(*a),
    },
}
_BY_WEIGHTS: dict[str, tuple[int, Any]] = {
    "linear": (1, lambda *a: calls.upsample_linear1d_vec(*a)),
    "bilinear": (2, lambda *a: calls.upsample_bilinear2d_vec(*a)),
    "bicubic": (2, lambda *a: calls.upsample_bicubic2d_vec(*a)),
    "trilinear": (3, lambda *a: calls.upsample_trilinear3d_vec(*a)),
}
_SMOOTH: dict[str, Any] = {
    "bilinear": lambda *a: calls._upsample_bilinear2d_aa_vec(*a),
    "bicubic": lambda *a: calls._upsample_bicubic2d_aa_vec(*a),
    "lanczos": lambda *a: calls._upsample_lanczos2d_aa_vec(*a),
}
_OP = "interpolate"


@declares()
def interpolate(
    input: Tensor, size: Sizes | None = None, scale_factor: Reals | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resample images to another size.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W), floating; uint8 in two dimensions.
        size, scale_factor: one of them, a number or one for each dimension.
        mode: "nearest", "nearest-exact", "area", "linear" (3 dimensions of the input), "bilinear",
            "bicubic", "lanczos" (4), "trilinear" (5).
        align_corners: align the centers of the outermost elements, otherwise their outer edges.
        recompute_scale_factor: use the ratio of the sizes instead of the given factor.
        antialias: average over all input elements covered by an output element when shrinking.

    >>> gt.nn.functional.interpolate(gt.arange(4.0).view(1, 1, 2, 2), scale_factor=2)
    tensor([[[[0., 0., 1., 1.],
              [0., 0., 1., 1.],
              [2., 2., 3., 3.],
              [2., 2., 3., 3.]]]])
    """
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(_OP, "input", "a Tensor", input)
    count = input.ndim - 2
    function = _function(mode, count, antialias, input)
    is_weighted = mode in _BY_WEIGHTS or mode == "lanczos"
    if align_corners is not None and not is_weighted:
        rule = f"be left out with mode {mode!r}"
        raise errors.wrong_value(_OP, "align_corners", rule, align_corners)
    if align_corners and mode == "lanczos":
        raise errors.wrong_value(_OP, "align_corners", "be False with mode 'lanczos'", True)
    sizes, factors = _sizes(input, count, size, scale_factor)
    if recompute_scale_factor and factors is None:
        raise errors.wrong_value(
            _OP, "recompute_scale_factor", "be left out with a size", recompute_scale_factor
        )
    if factors is not None and (recompute_scale_factor or mode == "area"):
        sizes, factors = [int(n * s) for n, s in zip(input.shape[2:], factors)], None
    if mode == "area":
        made: Tensor = function(input, sizes)
        return made
    options = (bool(align_corners),) if is_weighted else ()
    found: Tensor = function(input, sizes, *options, factors)
    return found


def _function(mode: str, count: int, antialias: bool, input: Tensor) -> Any:
    if antialias or mode == "lanczos":
        if mode not in _SMOOTH or count != 2 or not antialias:
            rule = "go with mode 'bilinear', 'bicubic' or 'lanczos', and an input of 4 dimensions"
            raise errors.wrong_value(_OP, "antialias", rule, antialias)
        return _SMOOTH[mode]
    if mode in _BY_WEIGHTS:
        wanted, function = _BY_WEIGHTS[mode]
        if count != wanted:
            rule = f"have {wanted + 2} dimensions for mode {mode!r}"
            raise errors.wrong_shape(_OP, "input", rule, input)
        return function
    if mode not in _BY_NEIGHBOURS:
        modes = ", ".join([*_BY_NEIGHBOURS, *_BY_WEIGHTS, "lanczos"])
        raise errors.wrong_value(_OP, "mode", f"be one of {modes}", mode)
    if count not in (1, 2, 3):
        raise errors.wrong_shape(_OP, "input", "have 3, 4 or 5 dimensions", input)
    return _BY_NEIGHBOURS[mode][count]


def _sizes(input: Tensor, count: int, size: Any, scale_factor: Any) -> tuple[Any, Any]:
    """Return (sizes, None) or (None, factors), with one number for each dimension."""
    if (size is None) is (scale_factor is None):
        rule = "be given, or scale_factor instead, and not both"
        raise errors.wrong_value(_OP, "size", rule, size)
    arg, given = ("size", size) if scale_factor is None else ("scale_factor", scale_factor)
    found = per_dimension(_OP, arg, given, count)
    return (found, None) if scale_factor is None else (None, found)


@declares()
def upsample(
    input: Tensor, size: Sizes | None = None, scale_factor: Reals | None = None,
    mode: str = "nearest", align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Call `interpolate`. The function `upsample` is PyTorch's older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@declares()
def upsample_nearest(
    input: Tensor, size: Sizes | None = None, scale_factor: Reals | None = None
) -> Tensor:
    """Call `interpolate` in mode "nearest"."""
    return interpolate(input, size, scale_factor)


@declares()
def upsample_bilinear(
    input: Tensor, size: Sizes | None = None, scale_factor: Reals | None = None
) -> Tensor:
    """Call `interpolate` in mode "bilinear" with aligned corners."""
    return interpolate(input, size, scale_factor, "bilinear", True)


_SAMPLING = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}


@declares()
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return the values of images at the points of a grid.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W), floating.
        grid: (N, H', W', 2) or (N, D', H', W', 3), of input's dtype: points (x, y) or (x, y, z),
            with -1 and 1 at the image's ends.
        mode: "bilinear", "nearest" or, of 4 dimensions, "bicubic".
        padding_mode: values outside of the image: "zeros", "border" or "reflection".
        align_corners: True if -1 and 1 are the centers of the outermost elements, False if they
            are the outer edges of these elements.
    Returns: (N, C, H', W') or (N, C, D', H', W').
    """
    numbers = []
    for arg, table, word in (("mode", _SAMPLING, mode), ("padding_mode", _PADDING, padding_mode)):
        if word not in table:
            raise errors.wrong_value("grid_sample", arg, f"be one of {', '.join(table)}", word)
        numbers.append(table[word])
    return calls.grid_sampler(input, grid, numbers[0], numbers[1], bool(align_corners))


@declares()
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Return the grid of affine transforms that `grid_sample` takes.

    Args:
        theta: (N, 2, 3) or (N, 3, 4), floating. size: (N, C, H, W) or (N, C, D, H, W) wanted.
    Returns: (N, H, W, 2) or (N, D, H, W, 3).
    """
    return calls.affine_grid_generator(theta, tuple(size), bool(align_corners))
