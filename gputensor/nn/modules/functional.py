"""Modules without parameters, each a function of gt.nn.functional with its options fixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F
from .module import Module

REQUIRED: Any = object()


class Fixed(Module):
    """A function whose options are attributes, given by place or by name.

    function: its name in gt.nn.functional. options: name -> default, in the order of the module's
    arguments. shown: those that `repr` has, where that is not all of them.
    """

    function: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    shown: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        name = type(self).__name__
        if len(args) > len(self.options):
            rule = f"be at most {len(self.options)} arguments"
            raise errors.wrong_type(name, "args", rule, errors.Got(str(len(args))))
        given = dict(zip(self.options, args))
        for word, value in kwargs.items():
            if word not in self.options or word in given:
                rule = (
                    f"be among {', '.join(self.options)}, each once" if self.options else "be none"
                )
                raise errors.wrong_type(name, "arguments", rule, word)
            given[word] = value
        for word, default in self.options.items():
            value = given.get(word, default)
            if value is REQUIRED:
                raise errors.wrong_type(name, word, "be given", None)
            setattr(self, word, value)

    def forward(self, *inputs: Any) -> Any:
        function: Callable[..., Any] = getattr(F, self.function)
        return function(*inputs, **self._options())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.options}

    def extra_repr(self) -> str:
        if self.shown is not None:
            return ", ".join([f"{name}={getattr(self, name)!r}" for name in self.shown])
        shown = []
        for name, default in self.options.items():
            value = getattr(self, name)
            if name == "inplace" and not value or default is None and value is None:
                continue
            if not isinstance(value, Tensor):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def kind_of(base: type[Fixed], name: str, function: str, doc: str, **options: Any) -> Any:
    """A class of base's module, which pickles and reads as if it were written out."""
    made = {"__doc__": doc, "__module__": base.__module__, "function": function, "options": options}
    return type(name, (base,), made)


_kind = partial(kind_of, Fixed)


# --- activations ----------------------------------------------------------------------------------

_IN_PLACE = {"inplace": False}
ReLU = _kind("ReLU", "relu", "max(x, 0).", **_IN_PLACE)
ReLU6 = _kind("ReLU6", "relu6", "min(max(x, 0), 6).", **_IN_PLACE)
LeakyReLU = _kind(
    "LeakyReLU",
    "leaky_relu",
    "x, and a part of it where it is negative.",
    negative_slope=0.01,
    **_IN_PLACE,
)
ELU = _kind(
    "ELU", "elu", "x, and alpha * (exp(x) - 1) where it is negative.", alpha=1.0, **_IN_PLACE
)
SELU = _kind("SELU", "selu", "A scaled ELU that keeps mean and variance.", **_IN_PLACE)
CELU = _kind("CELU", "celu", "A continuously differentiable ELU.", alpha=1.0, **_IN_PLACE)
GELU = _kind("GELU", "gelu", "x times the normal distribution's function of x.", approximate="none")
SiLU = _kind("SiLU", "silu", "x * sigmoid(x).", **_IN_PLACE)
Mish = _kind("Mish", "mish", "x * tanh(softplus(x)).", **_IN_PLACE)
Sigmoid = _kind("Sigmoid", "sigmoid", "1 / (1 + exp(-x)).")
Tanh = _kind("Tanh", "tanh", "Hyperbolic tangent.")
Hardtanh = _kind("Hardtanh", "hardtanh", "x within bounds.", min_val=-1.0, max_val=1.0, **_IN_PLACE)
Hardsigmoid = _kind("Hardsigmoid", "hardsigmoid", "A piecewise linear sigmoid.", **_IN_PLACE)
Hardswish = _kind("Hardswish", "hardswish", "x * hardsigmoid(x).", **_IN_PLACE)
Hardshrink = _kind("Hardshrink", "hardshrink", "x, and 0 within -lambd and lambd.", lambd=0.5)
Softshrink = _kind("Softshrink", "softshrink", "x nearer to 0 by lambd.", lambd=0.5)
Tanhshrink = _kind("Tanhshrink", "tanhshrink", "x - tanh(x).")
Softplus = _kind("Softplus", "softplus", "log(1 + exp(beta x)) / beta.", beta=1.0, threshold=20.0)
Softsign = _kind("Softsign", "softsign", "x / (1 + |x|).")
LogSigmoid = _kind("LogSigmoid", "logsigmoid", "log(sigmoid(x)).")
Threshold = _kind(
    "Threshold",
    "threshold",
    "x, and `value` up to a threshold.",
    threshold=REQUIRED,
    value=REQUIRED,
    **_IN_PLACE,
)
GLU = _kind("GLU", "glu", "One half times the sigmoid of the other.", dim=-1)
Softmax = _kind("Softmax", "softmax", "exp over its sum along dim.", dim=None)
Softmin = _kind("Softmin", "softmin", "Softmax of -x.", dim=None)
LogSoftmax = _kind("LogSoftmax", "log_softmax", "log of softmax along dim.", dim=None)


class RReLU(Fixed):
    """x, and a part of it where it is negative: in training one drawn between lower and upper."""

    function = "rrelu"
    options: ClassVar[dict[str, Any]] = {"lower": 1 / 8, "upper": 1 / 3, **_IN_PLACE}

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "training": self.training}


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise errors.wrong_shape("Softmax2d", "input", "have three or four dimensions", input)
        return F.softmax(input, -3)


# --- shape ----------------------------------------------------------------------------------------

CosineSimilarity = _kind(
    "CosineSimilarity", "cosine_similarity", "Cosine of the angle along dim.", dim=1, eps=1e-8
)

PairwiseDistance = _kind(
    "PairwiseDistance",
    "pairwise_distance",
    "Norm of the difference along the last dimension.",
    p=2.0,
    eps=1e-6,
    keepdim=False,
)
LocalResponseNorm = _kind(
    "LocalResponseNorm",
    "local_response_norm",
    "Each element by those of the channels around it.",
    size=REQUIRED,
    alpha=1e-4,
    beta=0.75,
    k=1.0,
)


class Flatten(Module):
    """Dimensions from start_dim to end_dim as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = input.flatten(self.start_dim, self.end_dim)
        return made

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several."""

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = input.unflatten(self.dim, self.unflattened_size)
        return made

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


# --- dropout --------------------------------------------------------------------------------------


class _Dropout(Fixed):
    """What drops in training, and hands on in evaluation."""

    options: ClassVar[dict[str, Any]] = {"p": 0.5, "inplace": False}

    def forward(self, *inputs: Any) -> Any:
        function: Callable[..., Any] = getattr(F, self.function)
        return function(*inputs, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


Dropout, Dropout1d, Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout = (
    type(name, (_Dropout,), {"__doc__": doc, "__module__": __name__, "function": function})
    for name, function, doc in (
        ("Dropout", "dropout", "Each element is zeroed with probability p, the others grow."),
        ("Dropout1d", "dropout1d", "Whole channels of (N, C, L) are zeroed."),
        ("Dropout2d", "dropout2d", "Whole channels of (N, C, H, W) are zeroed."),
        ("Dropout3d", "dropout3d", "Whole channels of (N, C, D, H, W) are zeroed."),
        ("AlphaDropout", "alpha_dropout", "Dropout that keeps mean and variance of SELU."),
        ("FeatureAlphaDropout", "feature_alpha_dropout", "AlphaDropout of whole channels."),
    )
)


__all__ = [
    name
    for name, value in list(vars().items())
    if isinstance(value, type)
    and issubclass(value, Module)
    and name not in ("Module", "Fixed")
    and name[0] != "_"
]
