"""Discrete Fourier transforms: three operators that call libraries, and the functions of torch.fft.

SciPy's pocketfft computes on the CPU, in float32 for float32; cuFFT computes on CUDA. The strides
of results follow PyTorch. Source: aten/src/ATen/native/SpectralOps.cpp and mkl/SpectralOps.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._generated import calls, operators
from ..core import errors
from ..core.arguments import real
from ..core.device import CPU
from ..core.dtype import (
    COMPLEX, FLOATING, complex64, complex128, dtype, float32, float64,
)  # fmt: skip
from ..core.geometry import contiguous_geometry, geometry as strided_geometry
from ..dispatch import shortcuts
from ..dispatch.defaults import get_default_dtype
from ..dispatch.operator import Operator, Table
from ..runtime.cpu import get_num_threads
from ..runtime.libraries import HOST
from ..structured import arguments, library
from ..structured.forms import Kernel, given
from ..structured.shortcuts import computed as short, results
from ..tensor.tensor import Tensor

BY_LIBRARY = True

Dims = tuple[int, ...]
_COMPLEX_OF = {float32: complex64, float64: complex128}
_REAL_OF = {complex64: float32, complex128: float64}
# Maps True (forward transforms) and False (inverse transforms) to SciPy's names of the norm. The
# names are indexed by `normalization`: 0 means no division, 1 a division by the root of n, 2 a
# division by n.
_NORMS = {True: ("backward", "ortho", "forward"), False: ("forward", "ortho", "backward")}
_SEVERAL_THREADS = 1 << 15  # From this number of elements on, several threads are faster.


# --- the transforms that the libraries provide --------------------------------------------------


def _check(op: str, self: Tensor, dim: Any, takes: dict[dtype, dtype]) -> Dims:
    of = self._geometry.dtype
    if of not in takes:
        what = " or ".join(x.short for x in takes)
        raise errors.wrong_dtype(op, "self", f"be {what}", self)
    dims = arguments.dims(op, dim, self._geometry.ndim)
    if dims and not self._geometry.ndim:
        raise errors.wrong_shape(op, "self", "have a dimension", self)
    for d in dims:
        if self._geometry.sizes[d] < 1:
            raise errors.wrong_shape(op, "self", f"have elements along dimension {d}", self)
    return dims


def _sorted(self: Tensor, dims: Dims, last: int = 0) -> Dims:
    """Sort dimensions by their strides. The last `last` dimensions keep their positions."""
    strides = self._geometry.strides
    count = len(dims) - last
    return (*sorted(dims[:count], key=lambda d: -strides[d]), *dims[count:])


def _transform(
    op: str, self: Tensor, sizes: Dims, dims: Dims, of: dtype, function: Callable[..., Any],
    table: Table, kernel: Callable[..., Tensor], *params: Any,
) -> Tensor:  # fmt: skip
    """Call function(fft, x, axes, threads) on a view of x in which the transformed axes come last
    and the other axes are sorted by stride.

    table, kernel, params: what a short cut of the call needs.
    """
    strides = self._geometry.strides
    batch = sorted([d for d in range(len(sizes)) if d not in dims], key=lambda d: -strides[d])
    order = (*batch, *dims)
    back = tuple([order.index(d) for d in range(len(order))])
    dense = contiguous_geometry(tuple([sizes[d] for d in order]), of)
    wanted = strided_geometry(sizes, tuple([dense.strides[d] for d in back]), of)
    axes = tuple(range(len(batch), len(order)))

    def compute(namespace: Any, x: Any) -> Any:
        fft = namespace.scipy("fft")
        more = {} if namespace.is_gpu else {"workers": get_num_threads()}
        named = more if x.size >= _SEVERAL_THREADS else {}
        if namespace.is_gpu and x.dtype.kind == "f" and x.data.ptr % (2 * x.dtype.itemsize):
            x = x.copy()  # cuFFT requires addresses that are multiples of a complex element's size.
        return function(fft, x.transpose(order), axes, named).transpose(back)

    made = library.call(op, compute, (wanted,), self)[0]
    if self._geometry.is_contiguous and order == back == tuple(range(len(sizes))):
        args, fft = (self, *params), HOST.scipy("fft")
        make = short.made_of(lambda x: function(fft, x, axes, {}), made._geometry)
        short.learn_again(table, kernel, args, make)
    return made


def _norm(op: str, forward: bool, normalization: int) -> str:
    if (normalization := arguments.integer(op, "normalization", normalization)) not in (0, 1, 2):
        raise errors.must(op, "normalization", "be 0, 1 or 2", normalization)
    return _NORMS[forward][normalization]


def _of_library(name: str, norm: str) -> Callable[..., Any]:
    """Return a function that calls the library's function `name`, or `name` + "n" for several
    axes."""

    def compute(fft: Any, x: Any, axes: Dims, named: Any) -> Any:
        if len(axes) == 1:
            return getattr(fft, name)(x, axis=axes[0], norm=norm, **named)
        return getattr(fft, name + "n")(x, axes=axes, norm=norm, **named)

    return compute


def _fft_c2c(key_set: int, self: Tensor, dim: Any, normalization: int, forward: bool) -> Tensor:
    table = operators._fft_c2c.table
    dims = _check("_fft_c2c", self, dim, {complex64: complex64, complex128: complex128})
    if not dims:
        return calls.clone(self, None)
    norm = _norm("_fft_c2c", bool(forward), normalization)
    compute, shape = _of_library("fft" if forward else "ifft", norm), self._geometry
    return _transform(
        "fft", self, shape.sizes, _sorted(self, dims), shape.dtype, compute,
        table, _fft_c2c, dim, normalization, forward,
    )  # fmt: skip


def _fft_r2c(key_set: int, self: Tensor, dim: Any, normalization: int, onesided: bool) -> Tensor:
    table = operators._fft_r2c.table
    dims = _check("_fft_r2c", self, dim, _COMPLEX_OF)
    if not dims:
        raise errors.must("_fft_r2c", "dim", "name a dimension at least", dims)
    sizes = list(self._geometry.sizes)
    if onesided:
        sizes[dims[-1]] = sizes[dims[-1]] // 2 + 1
    norm = _norm("_fft_r2c", True, normalization)
    compute = _of_library("rfft" if onesided else "fft", norm)
    of = _COMPLEX_OF[self._geometry.dtype]
    return _transform(
        "rfft", self, tuple(sizes), _sorted(self, dims, 1), of, compute,
        table, _fft_r2c, dim, normalization, onesided,
    )  # fmt: skip


def _fft_c2r(
    key_set: int, self: Tensor, dim: Any, normalization: int, last_dim_size: int
) -> Tensor:
    table = operators._fft_c2r.table
    dims = _check("_fft_c2r", self, dim, _REAL_OF)
    if not dims:
        raise errors.must("_fft_c2r", "dim", "name a dimension at least", dims)
    last_dim_size = arguments.integer("_fft_c2r", "last_dim_size", last_dim_size, least=1)
    if len(dims) > 1:
        self = calls._fft_c2c(self, dims[:-1], normalization, False)
        dim = dims[-1:]
    sizes = list(self._geometry.sizes)
    sizes[dims[-1]] = last_dim_size
    norm = _norm("_fft_c2r", False, normalization)

    def compute(fft: Any, x: Any, axes: Dims, named: Any) -> Any:
        return fft.irfft(x, n=last_dim_size, axis=axes[0], norm=norm, **named)

    of = _REAL_OF[self._geometry.dtype]
    return _transform(
        "irfft", self, tuple(sizes), dims[-1:], of, compute,
        table, _fft_c2r, dim, normalization, last_dim_size,
    )  # fmt: skip


# --- public functions -----------------------------------------------------------------------------


def _normalization(op: str, norm: str | None, forward: bool) -> int:
    if norm is None:
        norm = "backward"
    if norm not in _NORMS[True]:
        raise errors.must(op, "norm", f"be one of {', '.join(_NORMS[True])}", norm)
    return _NORMS[forward].index(norm)


def _promoted(op: str, self: Tensor, to_complex: bool = False) -> Tensor:
    of = self._geometry.dtype
    if of.category < FLOATING:
        of = get_default_dtype()
    if to_complex and of.category != COMPLEX:
        of = _COMPLEX_OF.get(of, of)
    if of not in _COMPLEX_OF and of not in _REAL_OF:
        raise errors.wrong_dtype(op, "self", "be f32, f64, c64 or c128, or an integer", self)
    return self if of is self._geometry.dtype else calls.to_dtype(self, of, False, False, None)


def _check_real(op: str, self: Tensor) -> None:
    if self._geometry.dtype.category == COMPLEX:
        raise errors.wrong_dtype(op, "self", "be real", self)


def _resized(self: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Return x, cut or padded with zeros to these sizes."""
    for d, size in zip(dims, sizes):
        have = self._geometry.sizes[d]
        if size < have and size >= 0:
            self = calls.narrow(self, d, 0, size)
        elif size > have:
            rest = list(self._geometry.sizes)
            rest[d] = size - have
            self = calls.cat((self, calls.new_zeros(self, tuple(rest))), d)
    return self


def _check_has_dims(op: str, self: Tensor) -> None:
    if not self._geometry.ndim:
        raise errors.wrong_shape(op, "self", "have a dimension", self)


def _dim_and_size(op: str, self: Tensor, n: int | None, dim: int) -> tuple[int, int]:
    d = arguments.dim(op, dim, self._geometry.ndim)
    _check_has_dims(op, self)
    have = self._geometry.sizes[d] if n is None else n
    return d, arguments.integer(op, "n", have, least=1)


def _real_to_complex(
    op: str, self: Tensor, n: int | None, dim: int, norm: str | None, forward: bool,
    onesided: bool, kernel: Callable[..., Tensor],
) -> Tensor:  # fmt: skip
    _check_real(op, self)
    d, size = _dim_and_size(op, self, n, dim)
    wanted = _resized(_promoted(op, self), (d,), (size,))
    behind = (_ALONE[d], _normalization(op, norm, forward), onesided)
    made = calls._fft_r2c(wanted, *behind)
    if not forward:
        return calls.conj_physical(made)
    if wanted is self:
        _learn(op, kernel, (self, n, dim, norm), operators._fft_r2c, behind)
    return made


def _complex_to_complex(
    op: str, self: Tensor, n: int | None, dim: int, norm: str | None, forward: bool,
    kernel: Callable[..., Tensor],
) -> Tensor:  # fmt: skip
    d, size = _dim_and_size(op, self, n, dim)
    wanted = _resized(self, (d,), (size,))
    behind = (_ALONE[d], _normalization(op, norm, forward), forward)
    made = calls._fft_c2c(wanted, *behind)
    if wanted is self:
        _learn(op, kernel, (self, n, dim, norm), operators._fft_c2c, behind)
    return made


# One tuple (d,) for each dimension d. All calls pass these objects, because short cuts compare
# params by identity.
_ALONE = tuple([(d,) for d in range(64)])


def _learn(
    op: str, kernel: Callable[..., Tensor], args: tuple[Any, ...], to: Operator,
    behind: tuple[Any, ...],
) -> None:  # fmt: skip
    """Store the short cut of a function that passes its operand unchanged to the operator `to`."""
    short.learn_forward(getattr(operators, f"fft_{op}").table, kernel, args, to.table, behind)


def _ahead(op: str, forward: bool, onesided: bool) -> Callable[..., Tensor]:
    """Make the kernel of fft, ifft, rfft or ihfft. onesided: True for rfft and ihfft, which
    transform real signals. ihfft is an inverse transform."""

    def kernel(
        key_set: int, self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        if self._geometry.dtype.category == COMPLEX and not onesided:
            return _complex_to_complex(op, _promoted(op, self), n, dim, norm, forward, kernel)
        return _real_to_complex(op, self, n, dim, norm, forward, onesided, kernel)

    return kernel


def _back(op: str, forward: bool) -> Callable[..., Tensor]:
    """Make the kernel of irfft or hfft. hfft is a forward transform of Hermitian signals."""

    def kernel(
        key_set: int, self: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
    ) -> Tensor:
        self = _promoted(op, self, to_complex=True)
        d = arguments.dim(op, dim, self._geometry.ndim)
        _check_has_dims(op, self)
        size = 2 * (self._geometry.sizes[d] - 1) if n is None else n
        size = arguments.integer(op, "n", size, least=1)
        self = _resized(self, (d,), (size // 2 + 1,))
        self = calls.conj_physical(self) if forward else self
        return calls._fft_c2r(self, (d,), _normalization(op, norm, forward), size)

    return kernel


fft_fft, fft_ifft = _ahead("fft", True, False), _ahead("ifft", False, False)
fft_rfft, fft_ihfft = _ahead("rfft", True, True), _ahead("ihfft", False, True)
fft_irfft, fft_hfft = _back("irfft", False), _back("hfft", True)


def _over() -> tuple[shortcuts.Step, ...]:
    return (
        (operators._fft_c2c, shortcuts.CPU, _fft_c2c),
        (operators._fft_r2c, shortcuts.CPU, _fft_r2c),
    )


for _kernel in (fft_fft, fft_ifft, fft_rfft):
    shortcuts.jumps(_kernel, _over)


# --- several dimensions ---------------------------------------------------------------------------


def _dims_and_sizes(op: str, self: Tensor, s: Any, dim: Any) -> tuple[Dims, list[int]]:
    """Return the dimensions and the signal's sizes along them. A size of -1 in `s` means the
    input's size."""
    ndim = self._geometry.ndim
    sizes = None if s is None else arguments.ints(op, "s", s)
    if dim is not None:
        dims = arguments.dims(op, dim, ndim)
        if sizes is not None and len(sizes) != len(dims):
            raise errors.must(op, "s", f"have {len(dims)} sizes, as dim has dimensions", sizes)
    elif sizes is not None:
        if len(sizes) > ndim:
            raise errors.must(op, "s", f"have at most {ndim} sizes", sizes)
        dims = tuple(range(ndim - len(sizes), ndim))
    else:
        dims = tuple(range(ndim))
    if dims:
        _check_has_dims(op, self)
    have = [self._geometry.sizes[d] for d in dims]
    found = have if sizes is None else [h if n == -1 else n for n, h in zip(sizes, have)]
    return dims, [arguments.integer(op, "s", size, least=1) for size in found]


def _several(op: str, forward: bool) -> Callable[..., Tensor]:
    """Make the kernel of fftn or ifftn."""

    def kernel(
        key_set: int, self: Tensor, s: Any = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:
        dims, sizes = _dims_and_sizes(op, self, s, dim)
        x = _promoted(op, self, to_complex=True)
        wanted, mode = _resized(x, dims, sizes), _normalization(op, norm, forward)
        made = calls._fft_c2c(wanted, dims, mode, forward)
        if wanted is x:
            _learn_several(op, kernel, (self, s, dim, norm), made, dims, forward)
        return made

    return kernel


def _learn_several(
    op: str, kernel: Callable[..., Tensor], args: tuple[Any, ...], made: Tensor, dims: Dims,
    forward: bool,
) -> None:  # fmt: skip
    """Store the short cut of a transform of dense signals over their last dimensions."""
    shape, axes, norm = made._geometry, tuple(sorted(dims)), args[3] or "backward"
    last = tuple(range(shape.ndim - len(dims), shape.ndim))
    given = args[0]
    if given._device is not CPU or not given._geometry.is_contiguous or not shape.numel:
        return
    if not axes or axes != last:
        return
    transform, fft = _of_library("fft" if forward else "ifft", norm), HOST.scipy("fft")

    def compute(x: Any) -> Any:
        named = {"workers": get_num_threads()} if x.size >= _SEVERAL_THREADS else {}
        return transform(fft, x.astype(shape.dtype.np, copy=False), axes, named)

    results.learn(getattr(operators, f"fft_{op}").table, kernel, args, made, compute, is_new=True)


def _several_half(op: str, forward: bool) -> Callable[..., Tensor]:
    """Make the kernel of rfftn or ihfftn."""

    def kernel(
        key_set: int, self: Tensor, s: Any = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:
        _check_real(op, self)
        dims, sizes = _dims_and_sizes(op, self, s, dim)
        if not dims:
            raise errors.must(op, "dim", "name a dimension at least", dims)
        self = _resized(_promoted(op, self), dims, sizes)
        mode = _normalization(op, norm, forward)
        if forward:
            return calls._fft_r2c(self, dims, mode, True)
        made = calls.conj_physical(calls._fft_r2c(self, dims[-1:], mode, True))
        return calls._fft_c2c(made, dims[:-1], mode, False) if len(dims) > 1 else made

    return kernel


def _several_back(op: str, forward: bool) -> Callable[..., Tensor]:
    """Make the kernel of irfftn or hfftn."""

    def kernel(
        key_set: int, self: Tensor, s: Any = None, dim: Any = None, norm: str | None = None
    ) -> Tensor:
        dims, sizes = _dims_and_sizes(op, self, s, dim)
        if not dims:
            raise errors.must(op, "dim", "name a dimension at least", dims)
        is_given = s is not None and arguments.ints(op, "s", s)[-1] != -1
        size = sizes[-1] if is_given else 2 * (sizes[-1] - 1)
        size = arguments.integer(op, "s", size, least=1)
        sizes = [*sizes[:-1], size // 2 + 1]
        self = _resized(_promoted(op, self, to_complex=True), dims, sizes)
        mode = _normalization(op, norm, forward)
        if forward:
            if len(dims) > 1:
                self = calls._fft_c2c(self, dims[:-1], mode, True)
            return calls._fft_c2r(calls.conj_physical(self), dims[-1:], mode, size)
        return calls._fft_c2r(self, dims, mode, size)

    return kernel


fft_fftn, fft_ifftn = _several("fftn", True), _several("ifftn", False)
fft_rfftn, fft_ihfftn = _several_half("rfftn", True), _several_half("ihfftn", False)
fft_irfftn, fft_hfftn = _several_back("irfftn", False), _several_back("hfftn", True)
fft_fft2, fft_ifft2 = _several("fft2", True), _several("ifft2", False)
for _kernel in (fft_fftn, fft_ifftn, fft_fft2, fft_ifft2):
    shortcuts.jumps(_kernel, lambda: (
        (operators._fft_c2c, shortcuts.CPU, _fft_c2c),
        (operators.to_dtype, shortcuts.CPU, "conversion.to_dtype"),
    ))  # fmt: skip
fft_rfft2, fft_ihfft2 = _several_half("rfft2", True), _several_half("ihfft2", False)
fft_irfft2, fft_hfft2 = _several_back("irfft2", False), _several_back("hfft2", True)


# --- frequencies and order ------------------------------------------------------------------------


def _frequencies(op: str, halves: bool) -> Callable[..., Tensor]:
    def kernel(
        key_set: int, n: int, d: float = 1.0, dtype: Any = None, layout: Any = None,
        device: Any = None, pin_memory: Any = None,
    ) -> Tensor:  # fmt: skip
        n = arguments.integer(op, "n", n, least=0)
        of = dtype or get_default_dtype()
        if of.category < FLOATING:
            raise errors.must(op, "dtype", "be floating or complex", errors.Got(of.short))
        d = real(op, "d", d)
        options = (of, layout, device, pin_memory)
        if halves or not n:
            made = calls.arange(n // 2 + 1 if n else 0, *options)
        else:
            first = calls.arange_start(0, (n - 1) // 2 + 1, *options)
            made = calls.cat((first, calls.arange_start(-(n // 2), 0, *options)), 0)
        return calls.mul_Tensor(made, 1.0 / (n * d)) if n else made

    return kernel


fft_fftfreq, fft_rfftfreq = _frequencies("fftfreq", False), _frequencies("rfftfreq", True)


def _shifted(key_set: int, op: str, self: Tensor, dim: Any) -> Tensor:
    ndim = self._geometry.ndim
    dims = tuple(range(ndim)) if dim is None else arguments.dims(op, dim, ndim)
    if dims:
        _check_has_dims(op, self)
    if not dims:
        return calls.clone(self, None)
    sign = -1 if op == "ifftshift" else 1
    return calls.roll(self, tuple([sign * (self._geometry.sizes[d] // 2) for d in dims]), dims)


fft_fftshift: Kernel = given(_shifted, op="fftshift")
fft_ifftshift: Kernel = given(_shifted, op="ifftshift")
