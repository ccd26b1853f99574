"""Modules without parameters, each a function of gt.nn.functional with its options fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, Signature
from typing import Any, ClassVar, dataclass_transform

from ...core import errors
from ...tensor.tensor import Tensor
from .. import functional as F
from .module import Module

_REQUIRED: Any = object()


class _Signature:
    """The signature that `inspect.signature` and `help` show for a class with fixed options."""

    def __get__(self, instance: object, kind: type[Fixed]) -> Signature:

        if kind.__init__ is not Fixed.__init__:
            raise AttributeError("__signature__")
        where, needed = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        found = [
            Parameter(name, where, default=needed if default is _REQUIRED else default)
            for name, default in kind.options.items()
        ]
        return Signature(found)


@dataclass_transform()
class Fixed(Module):
    """A module that calls a function. Its attributes are the function's options, which are given by
    position or by name.

    function: its name in gt.nn.functional. shown: the options in `repr`; by default all.

    Our classes annotate their options, like dataclasses; `options` maps names to defaults.
    Annotations of users' subclasses are ignored.
    """

    function: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    shown: ClassVar[tuple[str, ...] | None] = None
    __signature__: _Signature = _Signature()

    def __init_subclass__(
        cls, function: str | None = None, shown: tuple[str, ...] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        if function is not None:
            cls.function = function
        if shown is not None:
            cls.shown = shown
        own = cls.__annotations__ if cls.__module__.startswith(__package__) else {}
        cls.options = dict(cls.options)
        for name in [name for name, kind in own.items() if not kind.startswith("ClassVar")]:
            cls.options[name] = vars(cls).get(name, _REQUIRED)
            # a class attribute of this name would hide a buffer
            if name in vars(cls):
                delattr(cls, name)

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
            if value is _REQUIRED:
                raise errors.wrong_type(name, word, "be given", None)
            setattr(self, word, value)
        self._complete()

    def _complete(self) -> None:
        """Called after the options are set as attributes."""

    def forward(self, *inputs: Any) -> Any:
        function: Callable[..., Any] = getattr(F, self.function)
        return function(*inputs, **self._options())

    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.options}

    def _valued(self, names: Iterable[str]) -> str:
        return ", ".join([f"{name}={getattr(self, name)!r}" for name in names])

    def extra_repr(self) -> str:
        if self.shown is not None:
            return self._valued(self.shown)
        shown = []
        for name, default in self.options.items():
            value = getattr(self, name)
            if name == "inplace" and not value or default is None and value is None:
                continue
            if not isinstance(value, Tensor):
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


# --- activations ----------------------------------------------------------------------------------


class ReLU(Fixed, function="relu"):
    """max(x, 0)."""

    inplace: bool = False


class ReLU6(Fixed, function="relu6"):
    """min(max(x, 0), 6)."""

    inplace: bool = False


class LeakyReLU(Fixed, function="leaky_relu"):
    """x, multiplied by negative_slope where it is negative."""

    negative_slope: float = 0.01
    inplace: bool = False


class ELU(Fixed, function="elu"):
    """x where it is not negative, alpha * (exp(x) - 1) where it is."""

    alpha: float = 1.0
    inplace: bool = False


class SELU(Fixed, function="selu"):
    """A scaled ELU that keeps mean and variance."""

    inplace: bool = False


class CELU(Fixed, function="celu"):
    """A continuously differentiable ELU."""

    alpha: float = 1.0
    inplace: bool = False


class GELU(Fixed, function="gelu"):
    """x times the normal distribution function of x."""

    approximate: str = "none"


class SiLU(Fixed, function="silu"):
    """x * sigmoid(x)."""

    inplace: bool = False


class Mish(Fixed, function="mish"):
    """x * tanh(softplus(x))."""

    inplace: bool = False


class Sigmoid(Fixed, function="sigmoid"):
    """1 / (1 + exp(-x))."""


class Tanh(Fixed, function="tanh"):
    """Hyperbolic tangent."""


class Hardtanh(Fixed, function="hardtanh"):
    """x clamped to [min_val, max_val]."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


class Hardsigmoid(Fixed, function="hardsigmoid"):
    """A piecewise linear sigmoid."""

    inplace: bool = False


class Hardswish(Fixed, function="hardswish"):
    """x * hardsigmoid(x)."""

    inplace: bool = False


class Hardshrink(Fixed, function="hardshrink"):
    """0 where x is in [-lambd, lambd], x elsewhere."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Fixed, function="softshrink"):
    """x moved towards 0 by lambd; 0 where x is in [-lambd, lambd]."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Tanhshrink(Fixed, function="tanhshrink"):
    """x - tanh(x)."""


class Softplus(Fixed, function="softplus"):
    """log(1 + exp(beta x)) / beta."""

    beta: float = 1.0
    threshold: float = 20.0


class Softsign(Fixed, function="softsign"):
    """x / (1 + |x|)."""


class LogSigmoid(Fixed, function="logsigmoid"):
    """log(sigmoid(x))."""


class Threshold(Fixed, function="threshold"):
    """x where it is above the threshold, `value` elsewhere."""

    threshold: float
    value: float
    inplace: bool = False


class GLU(Fixed, function="glu"):
    """The first half along dim times the sigmoid of the second."""

    dim: int = -1


class Softmax(Fixed, function="softmax"):
    """exp(x) divided by its sum along dim."""

    dim: int | None = None


class Softmin(Fixed, function="softmin"):
    """Softmax of -x."""

    dim: int | None = None


class LogSoftmax(Fixed, function="log_softmax"):
    """log of softmax along dim."""

    dim: int | None = None


class RReLU(Fixed, function="rrelu"):
    """x, multiplied by a slope where it is negative. In training the slope is drawn between lower
    and upper."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "training": self.training}


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise errors.wrong_shape("Softmax2d", "input", "have three or four dimensions", input)
        return F.softmax(input, -3)


# --- shape ----------------------------------------------------------------------------------------


class CosineSimilarity(Fixed, function="cosine_similarity", shown=()):
    """Cosine of the angle between two inputs along dim."""

    dim: int = 1
    eps: float = 1e-8


class PairwiseDistance(Fixed, function="pairwise_distance", shown=()):
    """p-norm of the difference along the last dimension."""

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False


class LocalResponseNorm(Fixed, function="local_response_norm"):
    """Each element divided by a norm over neighbouring channels."""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, {self._valued(('alpha', 'beta', 'k'))}"


class Flatten(Fixed):
    """Merge the dimensions from start_dim to end_dim."""

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Fixed):
    """Split one dimension into several."""

    dim: int
    unflattened_size: Sequence[int]

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)


# --- dropout --------------------------------------------------------------------------------------


class _Dropout(Fixed):
    """Drops elements in training; returns its input in evaluation."""

    p: float = 0.5
    inplace: bool = False

    def forward(self, *inputs: Any) -> Any:
        function: Callable[..., Any] = getattr(F, self.function)
        return function(*inputs, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout, function="dropout"):
    """Zero each element with probability p and divide the others by 1 - p."""


class Dropout1d(_Dropout, function="dropout1d"):
    """Dropout of whole channels of (N, C, L)."""


class Dropout2d(_Dropout, function="dropout2d"):
    """Dropout of whole channels of (N, C, H, W)."""


class Dropout3d(_Dropout, function="dropout3d"):
    """Dropout of whole channels of (N, C, D, H, W)."""


class AlphaDropout(_Dropout, function="alpha_dropout"):
    """Dropout that keeps the mean and variance of SELU activations."""


class FeatureAlphaDropout(_Dropout, function="feature_alpha_dropout"):
    """AlphaDropout of whole channels."""


__all__ = [
    "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid",
    "Tanh", "Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink", "Tanhshrink",
    "Softplus", "Softsign", "LogSigmoid", "Threshold", "GLU", "Softmax", "Softmin",
    "LogSoftmax", "RReLU", "Softmax2d", "CosineSimilarity", "PairwiseDistance",
    "LocalResponseNorm", "Flatten", "Unflatten", "Dropout", "Dropout1d", "Dropout2d",
    "Dropout3d", "AlphaDropout", "FeatureAlphaDropout",
]  # fmt: skip
