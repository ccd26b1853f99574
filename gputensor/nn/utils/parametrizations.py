"""weight_norm, spectral_norm and orthogonal as parametrizations of a module's tensor.

Source: torch/nn/utils/parametrizations.py.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ... import linalg
from ..._generated.functions import cat, eye, geqrf, mv, randn, vdot, zeros_like
from ...autograd import no_grad
from ...core import errors, lazy
from ...tensor.tensor import Tensor
from .. import functional as F
from ..modules.conv import _ConvTranspose
from ..modules.module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
_MAPS = ("matrix_exp", "cayley", "householder")


def norm_except(v: Tensor, dim: int) -> Tensor:
    """Return the 2-norm over all dimensions except `dim`, with the number of dimensions unchanged.
    For dim=-1, return the norm of all elements as a 0-d tensor."""
    if dim == -1:
        return v.norm()
    sizes = [1] * v.ndim
    sizes[dim] = -1
    made: Tensor = v.transpose(0, dim).flatten(1).norm(dim=1) if v.ndim > 1 else v.abs()
    return made.reshape(sizes)


class _WeightNorm(Module):
    """The parametrization of weight_norm, g * v / |v|, for a magnitude g and a direction v."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim: int = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a tensor by a direction and by magnitudes, one for each index of `dim`. With
    dim=None there is one magnitude."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(partial(_rename_old, name))
    return module


def _rename_old(name: str, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
    """Rename the entries of the older function `nn.utils.weight_norm` in a state dict."""
    old = [f"{prefix}{name}_{part}" for part in "gv"]
    if all(key in state_dict for key in old):
        for n, key in enumerate(old):
            state_dict[f"{prefix}parametrizations.{name}.original{n}"] = state_dict.pop(key)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """View the weight as a matrix. Its rows are the indices of `dim`; all other dimensions form its
    columns."""
    moved = weight if dim == 0 else weight.movedim(dim, 0)
    return moved.flatten(1)


def iterate_power(matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float) -> None:
    """Do `count` steps of power iteration, which update u and v in place."""
    with no_grad():
        for _ in range(count):
            u.copy_(F.normalize(mv(matrix, v), dim=0, eps=eps))
            v.copy_(F.normalize(mv(matrix.mH, u), dim=0, eps=eps))


def output_dim(module: Module, dim: int | None) -> int:
    """Return `dim`, or, if it is None, the dimension of the outputs in the module's weight."""
    return dim if dim is not None else int(isinstance(module, _ConvTranspose))


class _SpectralNorm(Module):
    """The weight divided by an estimate of its largest singular value. In training, power
    iterations improve the estimate."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            rule = f"be in [{-weight.ndim}, {weight.ndim - 1}]"
            raise errors.wrong_index("spectral_norm", "dim", rule, dim)
        if n_power_iterations < 1:
            raise errors.wrong_value("spectral_norm", "n_power_iterations", "be positive",
                              n_power_iterations)  # fmt: skip
        self.dim, self.eps = dim % weight.ndim, eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape):
                begun = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(begun, dim=0, eps=eps))
            iterate_power(matrix, self._u, self._v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            iterate_power(matrix.detach(), self._u, self._v, self.n_power_iterations, self.eps)
        # Copy u and v, because the next forward changes the buffers, and the gradient of this
        # forward needs them.
        u, v = self._u.clone(), self._v.clone()
        return weight / vdot(u, mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
    dim: int | None = None,
) -> Module:  # fmt: skip
    """Divide a tensor by its largest singular value, by a parametrization.

    The tensor is viewed as a matrix with the indices of `dim` as rows.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        rule = f"be a tensor of {type(module).__name__}"
        raise errors.wrong_value("spectral_norm", "name", rule, name)
    made = _SpectralNorm(weight, n_power_iterations, output_dim(module, dim), eps)
    return register_parametrization(module, name, made)


def _is_orthogonal(q: Tensor) -> bool:
    columns = q.shape[-1]
    unit = eye(columns, dtype=q.dtype, device=q.device)
    eps = 10 * columns * {"float32": 2**-23}.get(str(q.dtype).rpartition(".")[2], 2**-52)
    return bool(((q.mH @ q - unit).abs() <= eps).all())


def _made_orthogonal(a: Tensor) -> Tensor:
    x, tau = geqrf(a)
    q = linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A parametrization that maps any matrix to an orthogonal (unitary) matrix. If `base` is not
    None, the result is `base` times this matrix."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            rule = "not be 'householder' of complex tensors"
            raise errors.wrong_value("orthogonal", "orthogonal_map", rule, orthogonal_map)
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        self.register_buffer("base", None)
        self._starts = use_trivialization

    def forward(self, X: Tensor) -> Tensor:
        is_wide = X.shape[-2] < X.shape[-1]
        x = X.mT if is_wide else X
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._rotated(x)
        if self.base is not None:
            q = self.base @ q
        return q.mT if is_wide else q

    def _rotated(self, x: Tensor) -> Tensor:
        n, k = x.shape[-2:]
        low = x.tril()
        if n != k:
            low = cat([low, low.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)], -1)
        skew = low - low.mH
        if self.orthogonal_map == "matrix_exp":
            q = linalg.matrix_exp(skew)
        else:
            unit = eye(n, dtype=skew.dtype, device=skew.device)
            q = linalg.solve(unit + skew * -0.5, unit + skew * 0.5)
        return q[..., :k]

    def _reflected(self, x: Tensor) -> Tensor:
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        q = linalg.householder_product(a, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise errors.wrong_shape("orthogonal", "value", f"be {tuple(self.shape)}", Q)
        is_wide = Q.shape[-2] < Q.shape[-1]
        q = Q.mT if is_wide else Q
        if self._starts:
            return self._rebased(q, Q)
        if self.orthogonal_map != "householder":
            raise NotImplementedError("without a base, only 'householder' has a right inverse")
        a, tau = geqrf(q)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal.sign_()
        diagonal.copy_(diagonal.where(tau != 0, -diagonal))
        return a.mT if is_wide else a

    def _rebased(self, q: Tensor, like: Tensor) -> Tensor:
        """Store q, orthogonalised if necessary, as the base. Return the negative identity matrix,
        which the parametrization then maps to the orthogonal q."""
        n, k = q.shape[-2:]
        if n != k:
            more = randn(*q.shape[:-2], n, n - k, dtype=q.dtype, device=q.device)
            base = _made_orthogonal(cat([q, more], -1))
        else:
            base = q.clone() if _is_orthogonal(q) else _made_orthogonal(q)
        self.base = base
        made: Any = zeros_like(like)
        made.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        found: Tensor = made
        return found


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
    use_trivialization: bool = True,
) -> Module:  # fmt: skip
    """Keep a matrix, or a batch of matrices, orthogonal.

    Args: orthogonal_map: 'matrix_exp', 'cayley' or 'householder'. use_trivialization: keep the
    present matrix as a base, which needs memory.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        rule = f"be a tensor of {type(module).__name__} with at least two dimensions"
        raise errors.wrong_value("orthogonal", "name", rule, name)
    is_square = weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if is_square or weight.is_complex() else "householder")
    if chosen not in _MAPS:
        raise errors.wrong_value(
            "orthogonal", "orthogonal_map", f"be one of {', '.join(_MAPS)}", chosen
        )
    made = _Orthogonal(weight, chosen, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
