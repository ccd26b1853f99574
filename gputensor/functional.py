"""Functions of `gt` whose arguments differ from their operator's, as in torch.functional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._generated import calls
from .core import errors
from .core.dtype import INTEGER, int64
from .core.returns import named
from .dispatch.refusal import declares, refuse as _refuse
from .structured import arguments
from .tensor.tensor import Tensor


def einsum(equation: str, /, *operands: Any) -> Tensor:
    """Return sums of products as the subscripts in the equation describe. The operands are combined
    in pairs, from the left.

    The operands may be given as one list. Subscripts may also be numbers:
    `einsum(a, [0, 1], b, [1, 2], [0, 2])`.

        >>> gt.einsum("ij,kj->ik", gt.ones(2, 3), gt.ones(4, 3)).shape
        gputensor.Size([2, 4])
    """
    try:
        if not operands:
            raise errors.must("einsum", "operands", "hold a tensor at least", 0)
        if isinstance(equation, Tensor):
            equation, operands = _spelled((equation, *operands))
        given = (
            operands[0] if len(operands) == 1 and not isinstance(operands[0], Tensor) else operands
        )
        if not isinstance(equation, str):
            raise errors.wrong_type("einsum", "equation", "be a text", equation)
        return calls.einsum(equation, _all_tensors("einsum", "operands", given), None)
    except Exception as error:
        made: Tensor = _refuse(error, "einsum", einsum, locals())
        return made


def _spelled(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return the equation, and the operands, for a call with lists of numbers as subscripts."""
    operands, lists = given[0 : len(given) - len(given) % 2 : 2], given[1::2]
    terms = [_letters(numbers) for numbers in lists]
    result = "->" + _letters(given[-1]) if len(given) % 2 else ""
    return ",".join(terms) + result, operands


def _letters(numbers: Any) -> str:
    if not isinstance(numbers, (list, tuple)):
        raise errors.wrong_type("einsum", "operands", "have a list of subscripts each", numbers)
    found = []
    for number in numbers:
        if number is not ... and not 0 <= arguments.integer("einsum", "subscript", number) < 52:
            raise errors.must("einsum", "subscript", "be in [0, 51]", number)
        letter = number if number is ... else chr(ord("A" if number < 26 else "a") + number % 26)
        found.append("..." if letter is ... else letter)
    return "".join(found)


@declares()
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Return the sums of products of a and b over the last `dims` dimensions of a and the first
    `dims` dimensions of b, or over the dimensions in two lists.

    >>> gt.tensordot(gt.ones(2, 3, 4), gt.ones(3, 4, 5)).shape
    gputensor.Size([2, 5])
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            rule = f"be in [0, {min(a.ndim, b.ndim)}]"
            raise errors.must("tensordot", "dims", rule, dims)
        first, second = tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims))
    else:
        try:
            one, other = dims
        except (TypeError, ValueError):
            rule = "be an int or two lists of dimensions"
            raise errors.must("tensordot", "dims", rule, dims) from None
        first = arguments.ints("tensordot", "dims", one)
        second = arguments.ints("tensordot", "dims", other)
    if out is None:
        return calls.tensordot(a, b, first, second)
    return calls.tensordot_out(a, b, first, second, out)


@declares()
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """Return the product of several matrices, in the order that takes the fewest
    multiplications."""
    given = matrices[0] if len(matrices) == 1 and not isinstance(matrices[0], Tensor) else matrices
    found = _all_tensors("chain_matmul", "matrices", given)
    return calls.chain_matmul(found) if out is None else calls.chain_matmul_out(found, out)


def _all_tensors(op: str, arg: str, given: Sequence[Any]) -> tuple[Tensor, ...]:
    for x in given:
        if not isinstance(x, Tensor):
            raise errors.wrong_type(op, arg, "be tensors", x)
    return tuple(given)


# --- any number of tensors, or a list of them -----------------------------------------------------


def _listed(op: str, tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    return _all_tensors(op, "tensors", given)


@declares()
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return the coordinates of a grid: each 1-d tensor varies along its own dimension and is
    expanded along the others. With indexing "xy" the first two dimensions are swapped.

    >>> x, y = gt.meshgrid(gt.arange(2), gt.arange(3))
    >>> y.tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    return calls.meshgrid_indexing(_listed("meshgrid", tensors), indexing)


@declares()
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Return views of the tensors, expanded to their broadcast sizes."""
    return calls.broadcast_tensors(_listed("broadcast_tensors", tensors))


@declares()
def block_diag(*tensors: Any) -> Tensor:
    """Return a block-diagonal matrix whose blocks are the given matrices."""
    return calls.block_diag(_listed("block_diag", tensors))


@declares()
def cartesian_prod(*tensors: Any) -> Tensor:
    """Return all combinations of the elements of 1-d tensors, as rows (the Cartesian product)."""
    return calls.cartesian_prod(_listed("cartesian_prod", tensors))


@declares()
def atleast_1d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least 1 dimension: a tensor for one argument, otherwise a
    tuple."""
    found = _listed("atleast_1d", tensors)
    return calls.atleast_1d(found[0]) if _is_one(tensors) else calls.atleast_1d_Sequence(found)


@declares()
def atleast_2d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least 2 dimensions; new dimensions come first."""
    found = _listed("atleast_2d", tensors)
    return calls.atleast_2d(found[0]) if _is_one(tensors) else calls.atleast_2d_Sequence(found)


@declares()
def atleast_3d(*tensors: Any) -> Tensor | tuple[Tensor, ...]:
    """Return each tensor with at least 3 dimensions. A 1-d tensor gets one dimension before and one
    after its own."""
    found = _listed("atleast_3d", tensors)
    return calls.atleast_3d(found[0]) if _is_one(tensors) else calls.atleast_3d_Sequence(found)


def _is_one(tensors: tuple[Any, ...]) -> bool:
    return len(tensors) == 1 and isinstance(tensors[0], Tensor)


_Histogramdd = named("histogramdd", "hist bin_edges")


# --- lists of numbers or of tensors ---------------------------------------------------------------


@declares(input="Tensor", spacing="float?|float[]|Tensor[]", dim="int?|int[]", edge_order="int")
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Return the gradient by finite differences, along each dimension or along `dim`.

    Args:
        spacing: the distance of adjacent points: a number, one number for each dimension, or
        tensors
            of coordinates.
        edge_order: 1, or 2 for second-order differences at the borders.

    >>> gt.gradient(gt.tensor([1.0, 4.0, 9.0, 16.0]))
    (tensor([3., 4., 6., 7.]),)
    """
    dims = tuple(dim) if isinstance(dim, (list, tuple)) else None
    if not isinstance(spacing, (list, tuple)):
        if dims is None:
            return tuple(calls.gradient_scalarint(input, spacing, dim, edge_order))
        return tuple(
            calls.gradient_scalararray(input, 1 if spacing is None else spacing, dims, edge_order)
        )
    if any(isinstance(part, Tensor) for part in spacing):
        given = _all_tensors("gradient", "spacing", spacing)
        if dims is None:
            return tuple(calls.gradient_tensorarrayint(input, given, dim, edge_order))
        return tuple(calls.gradient_tensorarray(input, given, dims, edge_order))
    if dims is None:
        return tuple(calls.gradient_scalarrayint(input, tuple(spacing), dim, edge_order))
    return tuple(calls.gradient_scalarrayarray(input, tuple(spacing), dims, edge_order))


@declares()
def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """Count points, or sum their weights, in bins of several dimensions. Return the counts or sums,
    and the edges of the bins.

    Args:
        bins: the number of bins, for all dimensions or for each, or tensors of bin edges.

    >>> gt.histogramdd(gt.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), 2).hist
    tensor([[0., 1.],
            [1., 1.]])
    """
    if not isinstance(bins, (list, tuple)):
        found = calls.histogramdd_int_bins(input, bins, range, weight, density)
    elif any(isinstance(part, Tensor) for part in bins):
        edges = _all_tensors("histogramdd", "bins", bins)
        found = calls.histogramdd_TensorList_bins(input, edges, range, weight, density)
    else:
        found = calls.histogramdd(input, tuple(bins), range, weight, density)
    hist, edges = found
    return _Histogramdd((hist, tuple(edges)))


@declares()
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
) -> Tensor:  # fmt: skip
    """Return Fourier transforms of overlapping frames of a signal, each multiplied by a window. The
    last two dimensions are frequencies and frames.

    Args:
        center: frames are centred on elements, and pad_mode extends the signal at both ends.

    >>> gt.stft(gt.ones(32), 8, return_complex=True).shape
    gputensor.Size([5, 17])
    """
    x = input
    if center:
        if not 1 <= x.ndim <= 2:
            raise errors.wrong_shape("stft", "input", "have one or two dimensions", x)
        half = arguments.integer("stft", "n_fft", n_fft) // 2
        wide = calls.pad(x.reshape((1, -1, x.shape[-1])), (half, half), pad_mode, None)
        x = wide.reshape((*x.shape[:-1], wide.shape[-1]))
    return calls.stft(
        x, n_fft, hop_length, win_length, window, normalized, onesided, return_complex
    )


# PyTorch's mode names -> the operator's compute_mode. Source: torch/functional.py, cdist.
_MODES = {
    "use_mm_for_euclid_dist_if_necessary": None, "use_mm_for_euclid_dist": 1,
    "donot_use_mm_for_euclid_dist": 2,
}  # fmt: skip


@declares(x1="Tensor", x2="Tensor", compute_mode="str|int?")
def cdist(
    x1: Tensor, x2: Tensor, p: float = 2.0,
    compute_mode: str | int | None = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:  # fmt: skip
    """Return the p-norm distances between each row of x1 and each row of x2.

    Args:
        compute_mode: when to compute Euclidean distances by a matrix product, which is faster and
            less exact: from 26 rows on (the default), always ("use_mm_for_euclid_dist"), or never
            ("donot_use_mm_for_euclid_dist"). The operator's numbers 0, 1 and 2 are accepted, too.

    >>> gt.cdist(gt.zeros(1, 2), gt.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if isinstance(compute_mode, str):
        if compute_mode not in _MODES:
            rule = f"be one of {', '.join(_MODES)}"
            raise errors.wrong_value("cdist", "compute_mode", rule, compute_mode)
        compute_mode = _MODES[compute_mode]
    return calls.cdist(x1, x2, p, compute_mode)


@declares()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Convert indices into the flattened elements of a tensor with these sizes to coordinates.

    >>> gt.unravel_index(gt.tensor([5]), (3, 4))
    (tensor([1]), tensor([1]))
    """
    rest = indices
    if rest._geometry.dtype.category != INTEGER:
        raise errors.wrong_dtype("unravel_index", "indices", "be whole numbers", rest)
    rest = calls.to_dtype(rest, int64, False, False, None)
    found = []
    for n in reversed(arguments.sizes("unravel_index", shape)):
        found.append(calls.remainder_Tensor(rest, n))
        rest = calls.floor_divide(rest, n)
    return tuple(reversed(found))


# --- results that depend on options ---------------------------------------------------------------


@declares()
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Return the sorted unique elements, or the unique slices along dim. return_inverse adds the
    index of each input element in the result, return_counts adds the number of occurrences.

    >>> gt.unique(gt.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    return input.unique(sorted, return_inverse, return_counts, dim)


@declares()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """Return the elements, or the slices along dim, that differ from their predecessor.

    >>> gt.unique_consecutive(gt.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    return input.unique_consecutive(return_inverse, return_counts, dim)
