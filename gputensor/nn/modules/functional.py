"""Modules without parameters. Each calls a function of gt.nn.functional with fixed options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import Parameter, Signature
from typing import Any, ClassVar, dataclass_transform

from ...core import errors
from ...core.arguments import real
from ...tensor.tensor import Tensor
from .. import functional as F
from .module import Module

_REQUIRED: Any = object()


class _Signature:
    """A descriptor that makes a module class's signature from its options. `inspect.signature` and
    `help` show this signature."""

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
    """A module that calls a function. The function's options are attributes of the module, set by
    the constructor.

    function: the function's name in gt.nn.functional. shown: the options that `repr` shows, by
    default all.

    Classes of this package declare their options by annotations, like dataclasses. `options` maps
    each option's name to its default. Annotations of users' subclasses are ignored.
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
            # A class attribute would hide a buffer of the same name.
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
        """Finish the construction. `__init__` calls this method after it has set the options."""

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Call the function. named: inputs by the names of the function's parameters."""
        function: Callable[..., Any] = getattr(F, self.function)
        options = self._options()
        return function(*inputs, **named, **options) if named else function(*inputs, **options)

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
    """Compute max(x, 0) for each element x."""

    inplace: bool = False


class LeakyReLU(Fixed, function="leaky_relu"):
    """Multiply each element x < 0 by negative_slope. Other elements are unchanged."""

    negative_slope: float = 0.01
    inplace: bool = False


class ELU(Fixed, function="elu"):
    """Replace each element x < 0 by alpha * (exp(x) - 1). Other elements are unchanged."""

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
    """Compute x * Phi(x) for each element x, where Phi is the distribution function of the standard
    normal distribution."""

    approximate: str = "none"


class SiLU(Fixed, function="silu"):
    """Compute x * sigmoid(x) for each element x."""

    inplace: bool = False


class Mish(Fixed, function="mish"):
    """Compute x * tanh(softplus(x)) for each element x."""

    inplace: bool = False


class Sigmoid(Fixed, function="sigmoid"):
    """Compute 1 / (1 + exp(-x)) for each element x."""


class Tanh(Fixed, function="tanh"):
    """Compute the hyperbolic tangent of each element."""


class Hardtanh(Fixed, function="hardtanh"):
    """Clamp each element to [min_val, max_val]."""

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False


class ReLU6(Hardtanh):
    """Compute min(max(x, 0), 6) for each element x."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Hardsigmoid(Fixed, function="hardsigmoid"):
    """A piecewise linear sigmoid."""

    inplace: bool = False


class Hardswish(Fixed, function="hardswish"):
    """Compute x * hardsigmoid(x) for each element x."""

    inplace: bool = False


class Hardshrink(Fixed, function="hardshrink"):
    """Replace elements in [-lambd, lambd] by 0. Other elements are unchanged."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Fixed, function="softshrink"):
    """Move each element towards 0 by lambd. Elements in [-lambd, lambd] become 0."""

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Tanhshrink(Fixed, function="tanhshrink"):
    """Compute x - tanh(x) for each element x."""


class Softplus(Fixed, function="softplus"):
    """Compute log(1 + exp(beta x)) / beta for each element x."""

    beta: float = 1.0
    threshold: float = 20.0


class Softsign(Fixed, function="softsign"):
    """Compute x / (1 + |x|) for each element x."""


class LogSigmoid(Fixed, function="logsigmoid"):
    """Compute log(sigmoid(x)) for each element x."""


class Threshold(Fixed, function="threshold"):
    """Replace each element that is at most the threshold by `value`. Other elements are
    unchanged."""

    threshold: float
    value: float
    inplace: bool = False


class GLU(Fixed, function="glu"):
    """Multiply the first half along dim by the sigmoid of the second half."""

    dim: int = -1


class Softmax(Fixed, function="softmax"):
    """Compute exp(x) divided by its sum along dim."""

    dim: int | None = None


class Softmin(Fixed, function="softmin"):
    """Compute softmax of -x along dim."""

    dim: int | None = None


class LogSoftmax(Fixed, function="log_softmax"):
    """Compute the logarithm of softmax along dim."""

    dim: int | None = None


class RReLU(Fixed, function="rrelu"):
    """Multiply each negative element by a slope. In training, the slope is a random number between
    lower and upper."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "training": self.training}


class Softmax2d(Module):
    """Compute softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise errors.wrong_shape("Softmax2d", "input", "have three or four dimensions", input)
        return F.softmax(input, -3)


# --- shape ----------------------------------------------------------------------------------------


class CosineSimilarity(Fixed, function="cosine_similarity", shown=()):
    """Compute the cosine of the angle between two inputs along dim."""

    dim: int = 1
    eps: float = 1e-8


class PairwiseDistance(Fixed, function="pairwise_distance", shown=()):
    """Compute the p-norm of the difference of two inputs along the last dimension."""

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False


class LocalResponseNorm(Fixed, function="local_response_norm"):
    """Divide each element by a norm over neighbouring channels."""

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
    """Base class of dropouts. In evaluation, the module returns its input."""

    p: float = 0.5
    inplace: bool = False

    def _complete(self) -> None:
        name = type(self).__name__
        if not 0 <= real(name, "p", self.p) <= 1:
            raise errors.wrong_value(name, "p", "be in [0, 1]", self.p)

    def forward(self, input: Tensor) -> Any:
        function: Callable[..., Any] = getattr(F, self.function)
        return function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout, function="dropout"):
    """Zero each element with probability p and divide the other elements by 1 - p."""


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
