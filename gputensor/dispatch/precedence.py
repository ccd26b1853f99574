"""Choice of the kernel for a table's slot, by PyTorch's rules.

Every slot is computed from the whole set of registrations, so the result does not depend on their
order. In PyTorch, the AutogradOther slot depends on the order. Source:
aten/src/ATen/core/dispatch/OperatorEntry.cpp, computeDispatchTableEntryWithDebug.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import keys
from .keys import DispatchKey
from .registered import Definition, Kernel, Kernels, Registered

_CIA = keys.CompositeImplicitAutograd
_CEA = keys.CompositeExplicitAutograd
_CEANF = keys.CompositeExplicitAutogradNonFunctional
_IN_CIA = frozenset(_CIA.keys)
_IN_CEA = frozenset(_CEA.keys)
_IN_CEANF = frozenset(_CEANF.keys)
_IN_AUTOGRAD = frozenset(keys.Autograd.keys)

_OF_BACKENDS = ("Dense", "Quantized", "Sparse")
_BACKEND_KEYS = tuple(k for k in keys.RUNTIME_KEYS if k.functionality in _OF_BACKENDS)
# The backend keys that belong to each autograd key: X for AutogradX. AutogradOther has the backend
# keys without an autograd key of their own.
_BACKENDS_OF: dict[DispatchKey, tuple[DispatchKey, ...]] = {
    k: (
        tuple(b for b in _BACKEND_KEYS if b.functionality != "Dense")
        if k.functionality == "AutogradOther"
        else tuple(
            b for b in _BACKEND_KEYS if b.functionality == "Dense" and b.backend == k.backend
        )
    )
    for k in _IN_AUTOGRAD
}

# PyTorch's label of a rule -> an explanation of the kernel that the rule chooses.
MEANS = {
    "kernel": "registered at this key",
    "default backend kernel": "of the alias CompositeExplicitAutograd, for every backend",
    "math kernel": "of the alias CompositeImplicitAutograd, made of other operators",
    "autograd kernel": "of the alias Autograd, for every backend",
    "backend fallback": "at this key for every operator",
    "ambiguous autogradother": "a backend's kernel and a composite one claim it",
    "missing": "registered by no rule",
}


def compute_slot(
    key: DispatchKey, kernels: Kernels, fallbacks: Mapping[DispatchKey, Kernel]
) -> tuple[Kernel | None, str]:
    """Return the kernel of slot `key` and PyTorch's label for the reason; (None, "missing") if
    there is none."""
    direct = kernels.get(key)
    if direct:
        return direct[0], "kernel"
    if key in _IN_CEANF and kernels.get(_CEANF):
        return kernels[_CEANF][0], "default backend kernel"
    explicit = kernels.get(_CEA)
    if explicit and key in _IN_CEA:
        return explicit[0], "default backend kernel"
    has_backend_kernel = bool(explicit) or any(kernels.get(b) for b in _BACKENDS_OF.get(key, ()))
    implicit = kernels.get(_CIA)
    if implicit and key in _IN_CIA:
        if key.functionality == "AutogradOther" and any(kernels.get(b) for b in _BACKENDS_OF[key]):
            return _ambiguous(implicit[0]), "ambiguous autogradother"
        if not (key in _IN_AUTOGRAD and has_backend_kernel):
            return implicit[0], "math kernel"
    if key in _IN_AUTOGRAD and kernels.get(keys.Autograd):
        return kernels[keys.Autograd][0], "autograd kernel"
    fallback = fallbacks.get(key)
    if fallback is not None:
        return fallback, "backend fallback"
    return None, "missing"


class Slots:
    """A snapshot of one operator's registrations and of all fallbacks. See Note [Tables are swapped
    whole] in operator.py."""

    __slots__ = ()
    operator: Registered
    definition: Definition | None
    kernels: Kernels
    fallbacks: Mapping[DispatchKey, Kernel]

    def slot(self, key: DispatchKey) -> tuple[Kernel | None, str]:
        """Return the kernel of a key's slot, and the reason why it was chosen."""
        return compute_slot(key, self.kernels, self.fallbacks)

    def masked(self, key_set: int) -> int:
        """Return `key_set` without the keys that fall through, as PyTorch passes it to a kernel."""
        kept = rest = key_set
        while rest >> keys.N_BACKENDS:
            kernel, _ = self.slot(keys.highest(rest))
            lower = keys.without_highest(rest)
            if kernel is not None and kernel.is_fallthrough:
                kept &= ~(rest ^ lower)
            rest = lower
        return kept


def claimants_of_autograd_other(kernels: Kernels) -> list[DispatchKey]:
    """Return the backend keys whose kernels conflict with a composite kernel at AutogradOther."""
    (key,) = (k for k in _BACKENDS_OF if k.functionality == "AutogradOther")
    return [backend for backend in _BACKENDS_OF[key] if kernels.get(backend)]


def _ambiguous(kernel: Kernel) -> Kernel:
    return type(kernel)(None, "ambiguous", kernel.site)
