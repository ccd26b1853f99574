"""Variance, standard deviation, cov, corrcoef and nanmean.

There are two passes; the second one sums the squared differences from the mean. On the CPU a loop
does both, on CUDA a kernel (kernels/cuda/moments.cu). f16 and bf16 are computed in f32. The sum is
divided by the number of elements minus `correction`. If this difference is negative, the sum is
divided by zero. Source: aten/src/ATen/native/ReduceOps.cpp, Correlation.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import BOOL, FLOATING, dtype
from ..core.geometry import Geometry, contiguous_geometry, reduced_sizes
from ..dispatch import shortcuts
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..structured import arguments
from ..structured.shortcuts import computed as short
from ..structured.pointwise import Kernel
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from .reduce import OneKernel, one_kernel, reduced

Pair = tuple[Tensor, Tensor]

# --- variance -------------------------------------------------------------------------------------


def _moments(
    op: str, self: Tensor, dim: Any, correction: Any, keepdim: bool, wants_mean: bool = False
) -> Pair:
    """Return the variance and, if `wants_mean`, the mean. Both are in the dtype of the
    computation."""
    given = self._geometry
    arguments.check_is_floating(op, "self", self, or_complex=True)
    keepdim = arguments.boolean(op, "keepdim", keepdim)
    dims, over = _reduced(given, op, dim, correction)
    if wants_mean and _is_of_the_loop(self):
        return _on_the_cpu(self, dims, over, keepdim)
    x = calls.to_dtype(self, dtypes.float32) if given.dtype.itemsize == 2 else self
    mean = calls.mean_dim(x, dims, True)
    rest = calls.sub_Tensor(x, mean)
    if given.dtype.is_complex:
        parts = calls.view_as_real(rest)
        real, imaginary = calls.select_int(parts, -1, 0), calls.select_int(parts, -1, 1)
        rest = real * real + imaginary * imaginary
    else:
        rest = rest * rest
    total = calls.sum_dim_IntList(rest, dims, keepdim) if given.ndim else rest
    spread = total / over
    if wants_mean and not keepdim and given.ndim:
        mean = calls.mean_dim(x, dims, False)
    return spread, mean


def _reduced(given: Geometry, op: str, dim: Any, correction: Any) -> tuple[tuple[int, ...], float]:
    """Return the reduced dimensions, and the divisor of the sum of squares."""
    dims = () if dim is None else arguments.dims(op, dim, given.ndim)
    dims = (dims or tuple(range(given.ndim))) if given.ndim else ()
    count = 1
    for d in dims:
        count *= given.sizes[d]
    return dims, max(0.0, count - (1 if correction is None else correction))


def _on_the_cpu(self: Tensor, dims: tuple[int, ...], over: float, keepdim: bool) -> Pair:
    given = self._geometry
    compute = dtypes.float32 if given.dtype.itemsize == 2 else given.dtype
    layout = contiguous_geometry(reduced_sizes(given.sizes, dims, keepdim), compute)
    found, mean = allocate(layout, CPU), allocate(layout, CPU)
    run(
        stub.cpu("moments").spread, self._get_array(), dims, over, keepdim, found._get_array(),
        mean._get_array(),
    )  # fmt: skip
    return found, mean


def _as(x: Tensor, of: dtype) -> Tensor:
    return x if x._geometry.dtype is of else calls.to_dtype(x, of)


def var_correction(
    key_set: int, self: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> Tensor:
    if _is_of_the_loop(self):
        return _by_the_loop("var", var_correction, self, dim, correction, keepdim)
    kernel = _on_cuda("var", self, dim, correction, keepdim)
    if kernel is not None:
        kernel.learn(operators.var_correction, var_correction, (self, dim, correction, keepdim))
        return kernel(self)
    spread, _ = _moments("var", self, dim, correction, keepdim)
    return _as(spread, self._geometry.dtype.to_real)


def std_correction(
    key_set: int, self: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> Tensor:
    if _is_of_the_loop(self):
        return _by_the_loop("std", std_correction, self, dim, correction, keepdim)
    kernel = _on_cuda("std", self, dim, correction, keepdim)
    if kernel is not None:
        kernel.learn(operators.std_correction, std_correction, (self, dim, correction, keepdim))
        return kernel(self)
    spread, _ = _moments("std", self, dim, correction, keepdim)
    return _as(calls.sqrt(spread), self._geometry.dtype.to_real)


def _is_of_the_loop(self: Tensor) -> bool:
    """Return True if the CPU has a loop for this operand."""
    given = self._geometry
    is_plain = given.ndim > 0 and given.numel > 0 and given.dtype.category == FLOATING
    return is_plain and self._device is CPU


def _by_the_loop(
    op: str, kernel: Kernel, self: Tensor, dim: Any, correction: Any, keepdim: bool
) -> Tensor:
    given, table = self._geometry, getattr(operators, f"{op}_correction").table
    keepdim = arguments.boolean(op, "keepdim", keepdim)
    dims, over = _reduced(given, op, dim, correction)
    loop = stub.cpu("moments").bind(op, given.dtype, given.dtype, over)
    made = reduced(self, loop, dims, keepdim, given.dtype)
    args = (self, dim, correction, keepdim)
    make = short.reduction(loop, (dims, None, keepdim), made._geometry)
    short.learn_again(table, kernel, args, make)
    return made


def _on_cuda(op: str, self: Tensor, dim: Any, correction: Any, keepdim: bool) -> OneKernel | None:
    """Return the kernel of the operator named `op` for these operands, or None."""
    if self._device.type != "cuda":
        return None
    arguments.check_is_floating(op, "self", self, or_complex=True)
    keepdim = arguments.boolean(op, "keepdim", keepdim)
    dims, over = _reduced(self._geometry, op, dim, correction)
    operator = getattr(operators, f"{op}_correction")
    return one_kernel(operator, op, self, dims, keepdim, over)


def _with_mean(kernel: OneKernel, self: Tensor) -> Pair:
    sizes = kernel.geometry.sizes
    mean = allocate(contiguous_geometry(sizes, self._geometry.dtype), self._device)
    return kernel(self, mean), mean


def var_mean_correction(
    key_set: int, self: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> Pair:
    kernel = _on_cuda("var_mean", self, dim, correction, keepdim)
    if kernel is not None:
        return _with_mean(kernel, self)
    spread, mean = _moments("var_mean", self, dim, correction, keepdim, True)
    return _as(spread, self._geometry.dtype.to_real), _as(mean, self._geometry.dtype)


def std_mean_correction(
    key_set: int, self: Tensor, dim: Any = None, correction: Any = None, keepdim: bool = False
) -> Pair:
    kernel = _on_cuda("std_mean", self, dim, correction, keepdim)
    if kernel is not None:
        return _with_mean(kernel, self)
    spread, mean = _moments("std_mean", self, dim, correction, keepdim, True)
    return _as(calls.sqrt(spread), self._geometry.dtype.to_real), _as(mean, self._geometry.dtype)


def _of_unbiased(name: str) -> Kernel:
    """Make the overload `name` of var or std with the argument `unbiased`. True means correction 1,
    False means correction 0."""
    is_var = name.startswith("var")

    def kernel(key_set: int, self: Tensor, *args: Any) -> Tensor:
        dim, unbiased, keepdim = args if name.endswith("_dim") else (None, *args, False)
        behind = (dim, int(unbiased), keepdim)
        made = (calls.var_correction if is_var else calls.std_correction)(self, *behind)
        table = getattr(operators, name).table
        short.learn_forward(table, kernel, (self, *args), over()[0].table, behind)
        on_cuda = _on_cuda(name.removesuffix("_dim"), self, *behind)
        if on_cuda is not None:
            on_cuda.learn(getattr(operators, name), kernel, (self, *args))
        return made

    def over() -> Any:
        if is_var:
            return operators.var_correction, shortcuts.CPU, var_correction
        return operators.std_correction, shortcuts.CPU, std_correction

    shortcuts.jumps(kernel, lambda: (over(),))
    return kernel


var: Kernel = _of_unbiased("var")
var_dim: Kernel = _of_unbiased("var_dim")
std: Kernel = _of_unbiased("std")
std_dim: Kernel = _of_unbiased("std_dim")


def nanmean(
    key_set: int, self: Tensor, dim: Any = None, keepdim: bool = False, dtype: dtype | None = None
) -> Tensor:
    if self._geometry.dtype.category < FLOATING and dtype is None:
        raise errors.wrong_dtype("nanmean", "self", "be floating", self, remedy="use .float()")
    known = self.detach()
    count = calls.sum_dim_IntList(calls.eq_Tensor(known, known), dim, keepdim)
    return calls.nansum(self, dim, keepdim, dtype) / count


# --- covariance -----------------------------------------------------------------------------------


def cov(
    key_set: int, self: Tensor, correction: int = 1, fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:  # fmt: skip
    given = self._geometry
    if given.ndim > 2:
        raise errors.wrong_shape("cov", "self", "have at most two dimensions", self)
    if given.dtype.category == BOOL:
        raise errors.wrong_dtype("cov", "self", "not be bool", self)
    x = calls.view(self, (1, given.numel)) if given.ndim < 2 else self
    count = x._geometry.sizes[1]
    weights = _weights(fweights, aweights, count)
    weighted = x if weights is None else x * weights
    total: Any = float(count) if weights is None else calls.sum(weights)
    mean = calls.sum_dim_IntList(weighted, (1,), True) / total
    over: Any = total - correction
    if weights is not None and aweights is not None and correction:
        over = total - correction * calls.sum(weights * aweights) / total
    over = max(over, 0.0) if weights is None else calls.where_self(over > 0, over, 0)
    rest = x - mean
    right = rest if weights is None else rest * weights
    if rest._geometry.dtype.is_complex:
        right = calls._conj_physical(right)
    return calls.squeeze(calls.mm(rest, calls.t(right)) / over)


def _weights(fweights: Tensor | None, aweights: Tensor | None, count: int) -> Tensor | None:
    for arg, x, is_whole in (("fweights", fweights, True), ("aweights", aweights, False)):
        if x is None:
            continue
        if x._geometry.sizes != (count,):
            raise errors.wrong_shape("cov", arg, f"have a weight for each of {count} columns", x)
        if (x._geometry.dtype.category < FLOATING) != is_whole:
            rule = "be whole numbers" if is_whole else "be floating"
            raise errors.wrong_dtype("cov", arg, rule, x)
        # As in PyTorch, the call waits for the weights' device.
        if type(x) is Tensor and x._device.type != "meta" and calls.any(x < 0).item():
            raise errors.must("cov", arg, "not hold negative numbers", x)
    if fweights is None or aweights is None:
        return aweights if fweights is None else fweights
    return fweights * aweights


def corrcoef(key_set: int, self: Tensor) -> Tensor:
    if self._geometry.ndim > 2:
        raise errors.wrong_shape("corrcoef", "self", "have at most two dimensions", self)
    found = calls.cov(self, correction=1, fweights=None, aweights=None)
    if found._geometry.ndim == 0:
        return found / found
    spread = calls.diagonal(found)
    is_complex = found._geometry.dtype.is_complex
    spread = calls.sqrt(
        calls.select_int(calls.view_as_real(spread), -1, 0) if is_complex else spread
    )
    found = found / calls.unsqueeze(spread, 1) / spread
    if is_complex:
        return found
    return calls.where_self(found > 1, 1.0, calls.where_self(found < -1, -1.0, found))
