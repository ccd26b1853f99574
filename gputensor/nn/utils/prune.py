"""Pruning: a mask sets elements or channels of a module's parameter to zero.

The original of a pruned parameter `weight` is kept as `weight_orig`, and its mask as the buffer
`weight_mask`. A hook before `forward` multiplies them. Source: torch/nn/utils/prune.py.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..._generated.functions import kthvalue, ones_like, rand, rand_like, topk, zeros_like
from ...core import errors, lazy
from ...dispatch.refusal import declares
from ...tensor.tensor import Tensor
from .gradients import parameters_to_vector
from .making import check_module

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A hook that multiplies a parameter by a mask before each forward. Base class of the pruning
    methods.

    A subclass defines `compute_mask` and `PRUNING_TYPE`. The type determines what a later pruning
    of the same parameter may choose: "unstructured": the remaining elements. "structured": the
    remaining channels of `dim`. "global": all elements.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for a tensor.

        Args:
            t: (*), importance of each element.
            default_mask: (*), the mask of earlier prunings.
        Returns: (*), ones and zeros.
        """

    def apply_mask(self, module: Any) -> Tensor:
        """Return the module's original parameter multiplied by its mask."""
        mask, orig = (getattr(module, f"{self._tensor_name}_{part}") for part in ("mask", "orig"))
        pruned: Tensor = mask.to(dtype=orig.dtype) * orig
        return pruned

    @classmethod
    def apply(
        cls, module: Any, name: str, *args: Any, importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Prune the parameter `name` of a module. The parameter may already be pruned.

        Args:
            args, kwargs: arguments of this class's constructor.
            importance_scores: a tensor of the parameter's sizes; None means the parameter itself.
        Returns: the hook; a PruningContainer if the parameter was pruned before.
        Raises: ArgumentValueError if there is no parameter `name`; nothing is changed then.
        """
        check_module(cls.__name__, "module", module)
        pruned = _hook(module, name)
        if pruned is None and module._parameters.get(name) is None:
            rule = f"be a parameter of {type(module).__name__}"
            raise errors.wrong_value(cls.__name__, "name", rule, name)
        t = getattr(module, name)
        scores = _scores(cls.__name__, importance_scores, t)
        make: Any = cls
        method = make(*args, **kwargs)
        method._tensor_name = name
        if pruned is None:
            mask = method.compute_mask(scores, default_mask=ones_like(t))
            orig = module._parameters[name]
            delattr(module, name)
            module.register_parameter(f"{name}_orig", orig)
        else:
            key, before = pruned
            mask = _combined(method, scores, getattr(module, f"{name}_mask").detach().clone())
            if not isinstance(before, PruningContainer):
                before = PruningContainer(before)
            before.add_pruning_method(method)
            method = before
            del module._forward_pre_hooks[key]
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a pruned copy of a tensor.

        Args:
            default_mask: the mask of earlier prunings, of the tensor's sizes; None means ones.
            importance_scores: of the tensor's sizes; None means the tensor itself.
        """
        scores = _scores(type(self).__name__, importance_scores, t)
        mask = ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Any) -> None:
        """Make the pruned parameter an ordinary parameter, which keeps its zeros. The hook is not
        removed."""
        name, pruned = self._tensor_name, self.apply_mask(module)
        orig = module._parameters[f"{name}_orig"]
        orig.data = pruned.detach()
        for part in (name, f"{name}_orig", f"{name}_mask"):
            delattr(module, part)
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """The prunings of one parameter, in the order of their application."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1 and hasattr(args[0], "_tensor_name"):
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Add another pruning to the container's parameter."""
        if not isinstance(method, BasePruningMethod):
            raise errors.wrong_type("PruningContainer", "method", "be a BasePruningMethod", method)
        ours, theirs = (getattr(of, "_tensor_name", None) for of in (self, method))
        if ours != theirs:
            raise errors.wrong_value("PruningContainer", "method", f"prune {ours!r}", theirs)
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Apply the last pruning to the elements that `default_mask` keeps. Return the combined
        mask."""
        return _combined(self._pruning_methods[-1], t, default_mask)


class Identity(BasePruningMethod):
    """A pruning that removes nothing: it returns the given mask."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Amount(BasePruningMethod):
    """Base class of prunings with an `amount`, which is a count or a fraction in [0, 1]."""

    amount: Any

    def __init__(self, amount: Any) -> None:
        op = type(self).__name__
        if not isinstance(amount, numbers.Real):
            raise errors.wrong_type(op, "amount", "be an int or a float", amount)
        self.amount = amount
        if self._counts():
            if amount < 0:
                raise errors.wrong_value(op, "amount", "not be negative", amount)
        elif not 0 <= float(amount) <= 1:
            raise errors.wrong_value(op, "amount", "be in [0, 1], or a count", amount)

    def _counts(self) -> bool:
        """Return True if the amount is a count, and False if it is a fraction."""
        return isinstance(self.amount, numbers.Integral)

    def _count(self, size: int) -> int:
        if not self._counts():
            return int(round(self.amount * size))
        if self.amount > size:
            rule = f"be at most {size}, of which it is pruned"
            raise errors.wrong_value(type(self).__name__, "amount", rule, self.amount)
        return int(self.amount)


class _Unstructured(_Amount):
    """Base class of prunings of single elements."""

    PRUNING_TYPE: str = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = self._count(t.numel())
        mask = default_mask.contiguous().clone()
        if count:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        """Return the flat indices of the elements to prune."""
        raise NotImplementedError


class RandomUnstructured(_Unstructured):
    """Prune elements at random. amount: a count, or a fraction in [0, 1]."""

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        return topk(rand_like(t).reshape(-1), count)[1]


class L1Unstructured(_Unstructured):
    """Prune the elements of the smallest magnitude. amount: a count, or a fraction in [0, 1]."""

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        return topk(t.detach().abs().reshape(-1), count, largest=False)[1]


class _Structured(_Amount):
    """Base class of prunings of whole channels, which are indices of the dimension `dim`."""

    PRUNING_TYPE: str = "structured"
    dim: int

    def __init__(self, amount: Any, dim: int = -1) -> None:
        super().__init__(amount)
        if type(dim) is not int:
            raise errors.wrong_type(type(self).__name__, "dim", "be an int", dim)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        op = type(self).__name__
        if t.ndim < 2:
            raise errors.must(op, "t", "have two dimensions or more", t,
                              kind=errors.ArgumentValueError)  # fmt: skip
        if not -t.ndim <= self.dim < t.ndim:
            raise errors.dim_out_of_range(op, self.dim, t.ndim)
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        mask = zeros_like(t)
        mask[(slice(None),) * (self.dim % t.ndim) + (self._kept(t, size, count),)] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))

    def _kept(self, t: Tensor, size: int, count: int) -> Tensor:
        """Return the indices of the channels that are kept."""
        raise NotImplementedError


class RandomStructured(_Structured):
    """Prune channels at random. amount: a count, or a fraction in [0, 1]."""

    def _kept(self, t: Tensor, size: int, count: int) -> Tensor:
        drawn = rand(size, device=t.device)
        return drawn > kthvalue(drawn, count)[0]


class LnStructured(_Structured):
    """Prune the channels of the smallest norm.

    Args:
        amount: a count, or a fraction in [0, 1].
        n: the order of the norm, as of `gt.norm`.
    """

    n: Any

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _kept(self, t: Tensor, size: int, count: int) -> Tensor:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return topk(t.detach().norm(self.n, others), size - count)[1]


class CustomFromMask(BasePruningMethod):
    """Prune the elements for which `mask` is 0."""

    PRUNING_TYPE: str = "global"
    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        if not isinstance(mask, Tensor):
            raise errors.not_a_tensor("CustomFromMask", "mask", "a Tensor", mask)
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            rule = f"have the sizes {tuple(default_mask.shape)}"
            raise errors.wrong_shape("CustomFromMask", "mask", rule, self.mask)
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def _scores(op: str, given: Tensor | None, t: Tensor) -> Tensor:
    """Return the importance scores of the elements of t: the given scores, or t itself."""
    if given is None:
        return t
    if not isinstance(given, Tensor):
        raise errors.not_a_tensor(op, "importance_scores", "a Tensor", given)
    if given.shape != t.shape:
        raise errors.wrong_shape(op, "importance_scores", f"have the sizes {tuple(t.shape)}", given)
    return given


def _hook(module: Any, name: str) -> tuple[int, Any] | None:
    """Return the key of the hook that prunes a parameter, and the hook. Return None if there is no
    hook."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key, hook
    return None


def _combined(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Tensor:
    """Apply `method` to the elements that `mask` keeps. Return the mask of both prunings
    together."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        place: Any = mask == 1
    elif kind == "structured":
        dim = getattr(method, "dim", None)
        if type(dim) is not int or not -t.ndim <= dim < t.ndim:
            rule = f"be in [{-t.ndim}, {t.ndim - 1}]"
            raise errors.wrong_value(type(method).__name__, "dim", rule, dim)
        others = [d for d in range(t.ndim) if d != dim % t.ndim]
        place = (slice(None),) * (dim % t.ndim) + (mask.sum(others) != 0,)
    elif kind == "global":
        place = ...
    else:
        rule = "be 'unstructured', 'structured' or 'global'"
        raise errors.wrong_value(type(method).__name__, "PRUNING_TYPE", rule, kind)
    part = method.compute_mask(t[place], default_mask=mask[place])
    made: Tensor = mask.to(dtype=t.dtype, copy=True)
    made[place] = part.to(dtype=made.dtype)
    return made


@declares(module="Callable", name="str")
def identity(module: Any, name: str) -> Any:
    """Add a mask of ones for the parameter `name`. Returns: the module."""
    Identity.apply(module, name)
    return module


@declares(module="Callable", name="str", amount="Scalar")
def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune elements at random. amount: a count or a fraction. Returns: the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


@declares(module="Callable", name="str", amount="Scalar", importance_scores="Tensor?")
def l1_unstructured(
    module: Any, name: str, amount: Any, importance_scores: Tensor | None = None
) -> Any:
    """Prune the elements of the smallest magnitude.

    Args:
        amount: a count or a fraction.
        importance_scores: of the parameter's sizes, instead of its values.
    Returns: the module.
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


@declares(module="Callable", name="str", amount="Scalar", dim="int")
def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune channels of `dim` at random. amount: a count or a fraction. Returns: the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


@declares(module="Callable", name="str", amount="Scalar", dim="int", importance_scores="Tensor?")
def ln_structured(
    module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Any:
    """Prune the channels of `dim` with the smallest norm of order n.

    Args:
        amount: a count or a fraction.
        importance_scores: of the parameter's sizes, instead of its values.
    Returns: the module.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


@declares(module="Callable", name="str", mask="Tensor")
def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune the elements for which `mask` is 0. The mask has the parameter's sizes. Returns: the
    module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]], pruning_method: Any,
    importance_scores: dict[tuple[Any, str], Tensor] | None = None, **kwargs: Any,
) -> None:  # fmt: skip
    """Prune elements of several parameters. The elements are chosen from all these parameters
    together.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class with PRUNING_TYPE "unstructured". kwargs: for its constructor.
        importance_scores: pair -> a tensor of the parameter's sizes, used instead of its values.
    """
    op = "global_unstructured"
    pairs = _pairs(op, parameters)
    given: Any = {} if importance_scores is None else importance_scores
    if not isinstance(given, dict):
        raise errors.wrong_type(op, "importance_scores", "be a dict", given)
    if not isinstance(pruning_method, type) or not issubclass(pruning_method, BasePruningMethod):
        rule = "be a class of BasePruningMethod"
        raise errors.wrong_type(op, "pruning_method", rule, pruning_method)
    make: Any = pruning_method
    method = make(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        rule = "have the PRUNING_TYPE 'unstructured'"
        raise errors.wrong_type(op, "pruning_method", rule, pruning_method)
    pruned = [getattr(module, name) for module, name in pairs]
    scores = [_scores(op, given.get(pair), t).contiguous() for pair, t in zip(pairs, pruned)]
    masks = [
        getattr(module, f"{name}_mask", ones_like(t)).contiguous()
        for (module, name), t in zip(pairs, pruned)
    ]
    mask = _combined(method, parameters_to_vector(scores), parameters_to_vector(masks))
    parts = mask.split([t.numel() for t in pruned])
    for (module, name), part, t in zip(pairs, parts, pruned):
        custom_from_mask(module, name, part.view(t.shape))


def _pairs(op: str, parameters: Any) -> list[tuple[Any, str]]:
    try:
        pairs = [(module, name) for module, name in parameters]
    except (TypeError, ValueError):
        rule = "be pairs of a module and a name"
        raise errors.wrong_type(op, "parameters", rule, parameters) from None
    if not pairs:
        raise errors.wrong_value(op, "parameters", "not be empty", parameters)
    for module, name in pairs:
        check_module(op, "parameters", module)
        if not isinstance(name, str) or not isinstance(getattr(module, name, None), Tensor):
            rule = f"name parameters of {type(module).__name__}"
            raise errors.wrong_value(op, "parameters", rule, name)
    return pairs


@declares(module="Callable", name="str")
def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter an ordinary parameter, which keeps its zeros. Returns: the module."""
    check_module("remove", "module", module)
    found = _hook(module, name)
    if found is None:
        rule = f"be a pruned parameter of {type(module).__name__}"
        raise errors.wrong_value("remove", "name", rule, name)
    key, hook = found
    hook.remove(module)
    del module._forward_pre_hooks[key]
    return module


@declares(module="Callable")
def is_pruned(module: Any) -> bool:
    """True if a parameter of the module, or of a submodule, is pruned."""
    check_module("is_pruned", "module", module)
    return any(
        isinstance(hook, BasePruningMethod)
        for within in module.modules()
        for hook in within._forward_pre_hooks.values()
    )


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
