"""Dispatch keys and key sets, as in PyTorch.

A key set is one int: low bits for backends and high bits for functionalities. A run-time key such
as AutogradCUDA has no bit of its own; it is the Autograd bit together with the CUDA bit. The
highest functionality bit selects the row of a table. For per-backend functionalities, the highest
backend bit selects the column. Alias keys exist only at registration. Source:
c10/core/DispatchKey.h.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core import errors

BACKENDS = ("CPU", "CUDA", "XLA", "PrivateUse1", "PrivateUse2", "PrivateUse3", "Meta")
# Functionalities of keys, lowest priority first. Fuse is not a key of PyTorch (see fusion/). Some
# keys have no backend here; they are listed so that tables and their tests match PyTorch's.
FUNCTIONALITIES = (
    "Dense", "Quantized", "Sparse", "BackendSelect", "Fuse", "Python", "Functionalize",
    "Conjugate", "Negative", "ZeroTensor", "ADInplaceOrView", "AutogradOther", "Autograd",
    "AutocastCPU", "AutocastCUDA", "AutocastPrivateUse1", "FuncTorchBatched",
    "FuncTorchGradWrapper", "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode",
    "PythonDispatcher",
)  # fmt: skip
PER_BACKEND = ("Dense", "Quantized", "Sparse", "Autograd")

N_BACKENDS = len(BACKENDS)
BACKEND_MASK = (1 << N_BACKENDS) - 1
FUNCTIONALITY_MASK = ((1 << len(FUNCTIONALITIES)) - 1) << N_BACKENDS


class _Named:
    """The base class of keys. A key prints as its name."""

    __slots__ = ("name",)
    name: str

    def __repr__(self) -> str:
        return f"DispatchKey.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (key, (self.name,))


class DispatchKey(_Named):
    """A run-time key. It has a slot in every operator's table. `bits`: the smallest key set that
    contains the key."""

    __slots__ = ("functionality", "backend", "bits", "index")
    functionality: str
    backend: str | None
    bits: int
    index: int
    name: str

    def __init__(
        self, name: str, functionality: str, backend: str | None, bits: int, index: int
    ) -> None:
        self.name, self.functionality, self.backend = name, functionality, backend
        self.bits, self.index = bits, index


class AliasKey(_Named):
    """A name for several run-time keys. Kernels can be registered for it, but no call is dispatched
    to it."""

    __slots__ = ("keys",)
    keys: tuple[DispatchKey, ...]
    name: str

    def __init__(self, name: str, keys: tuple[DispatchKey, ...]) -> None:
        self.name, self.keys = name, keys


def backend_bit(backend: str) -> int:
    return 1 << BACKENDS.index(backend)


def functionality_bit(functionality: str) -> int:
    return 1 << (N_BACKENDS + FUNCTIONALITIES.index(functionality))


UNDEFINED = DispatchKey("Undefined", "Undefined", None, 0, 0)
RUNTIME_KEYS: list[DispatchKey] = [UNDEFINED]
# Row n + 1 has the keys of functionality n: one key, or one key per backend. Row 0 has Undefined.
_rows: list[tuple[DispatchKey, ...]] = [(UNDEFINED,)]
for _f in FUNCTIONALITIES:
    _row = []
    for _b in BACKENDS if _f in PER_BACKEND else (None,):
        _name = _f if _b is None else (_b if _f == "Dense" else _f + _b)
        _bits = functionality_bit(_f) | (backend_bit(_b) if _b else 0)
        _row.append(DispatchKey(_name, _f, _b, _bits, len(RUNTIME_KEYS)))
        RUNTIME_KEYS.append(_row[-1])
    _rows.append(tuple(_row))

_dense, _quantized, _sparse = (
    [k for k in RUNTIME_KEYS if k.functionality == f] for f in ("Dense", "Quantized", "Sparse")
)
_autograd = [k for k in RUNTIME_KEYS if k.functionality in ("AutogradOther", "Autograd")]

Autograd: AliasKey = AliasKey("Autograd", tuple(_autograd))
_explicit = (UNDEFINED, *_dense, *_quantized, *_sparse)
CompositeExplicitAutograd: AliasKey = AliasKey("CompositeExplicitAutograd", _explicit)
CompositeExplicitAutogradNonFunctional: AliasKey = AliasKey(
    "CompositeExplicitAutogradNonFunctional",
    (UNDEFINED, *(k for k in (*_dense, *_quantized) if k.backend != "XLA")),
)
CompositeImplicitAutograd = AliasKey("CompositeImplicitAutograd", (*_explicit, *_autograd))
ALIAS_KEYS: tuple[AliasKey, ...] = (
    Autograd, CompositeExplicitAutograd, CompositeExplicitAutogradNonFunctional,
    CompositeImplicitAutograd,
)  # fmt: skip
# PyTorch's older names of keys, which are still accepted.
_OLDER: dict[str, DispatchKey | AliasKey] = {
    "DefaultBackend": CompositeExplicitAutograd,
    "CatchAll": CompositeImplicitAutograd,
    "Autocast": next(k for k in RUNTIME_KEYS if k.name == "AutocastCUDA"),
}
ALL_KEYS: tuple[DispatchKey | AliasKey, ...] = (*RUNTIME_KEYS, *ALIAS_KEYS)
_by_name: dict[str, DispatchKey | AliasKey] = {k.name: k for k in ALL_KEYS}
_by_name.update(_OLDER)


def key(name: str) -> DispatchKey | AliasKey:
    """Return the key called `name`. Raises: ArgumentError with a similar name if there is none."""
    found = _by_name.get(name) if isinstance(name, str) else None
    if found is None:
        raise errors.unknown_key(name, _by_name)
    return found


def runtime_key(name: str) -> DispatchKey:
    """Return the run-time key called `name`. Raises: ArgumentError for an alias, because an alias
    has no slot."""
    found = key(name)
    if isinstance(found, AliasKey):
        raise errors.alias_key(name)
    return found


def highest(key_set: int) -> DispatchKey:
    """Return the key whose slot is used by a call with this key set. Return UNDEFINED for a set
    without a functionality."""
    row = _rows[(key_set >> N_BACKENDS).bit_length()]
    if len(row) == 1:
        return row[0]
    backend = (key_set & BACKEND_MASK).bit_length()
    # A per-backend functionality without a backend bit selects no slot. PyTorch prints such a set
    # as empty, but calls the CPU's slot. Here the set is treated as empty.
    return row[backend - 1] if backend else UNDEFINED


def without_highest(key_set: int) -> int:
    """Return the set without its highest functionality. The backend bits stay in the set, as in
    PyTorch."""
    functionality = (key_set >> N_BACKENDS).bit_length()
    return key_set & ~(1 << (N_BACKENDS + functionality - 1)) if functionality else key_set


def below(functionality: str) -> int:
    """Return the mask of all keys strictly below `functionality`, with all backends.

    The mask contains PythonDispatcher. Source: c10/core/DispatchKeySet.h, full_after.
    """
    return (functionality_bit(functionality) - 1) | functionality_bit("PythonDispatcher")


def key_set(names: Iterable[str]) -> int:
    """Return the set of these run-time keys."""
    bits = 0
    for name in names:
        bits |= runtime_key(name).bits
    return bits


def full_after(name: str) -> KeySet:
    """Return the mask for redispatching from a kernel at run-time key `name`: `key_set &
    full_after(name)`."""
    return KeySet(below(runtime_key(name).functionality))


def tensor_keys(backend: str, *, inference: bool = False) -> int:
    """Return the key set of a strided tensor of this backend."""
    names = [backend] if inference else [backend, "ADInplaceOrView", "Autograd" + backend]
    if f"Autocast{backend}" in _by_name:
        names.append(f"Autocast{backend}")
    return key_set(names)


def bits_of(names: Keys, expand: bool = True) -> int:
    """Convert a key set, a key, a name, or an iterable of these to a key set.

    expand: if True, an alias stands for all its keys. Otherwise an alias adds no key, because calls
    are never dispatched to it.
    """
    if isinstance(names, int):
        return int(names)
    bits = 0
    try:
        listed = (names,) if isinstance(names, (str, DispatchKey, AliasKey)) else tuple(names)
    except TypeError:
        raise errors.unknown_key(names, _by_name) from None
    for name in listed:
        found = name if isinstance(name, (DispatchKey, AliasKey)) else key(name)
        if not isinstance(found, AliasKey):
            bits |= found.bits
        elif expand:
            for part in found.keys:
                bits |= part.bits
    return bits


# Types accepted for key arguments.
Keys = int | str | DispatchKey | AliasKey | Iterable[str | DispatchKey | AliasKey]


def iterate(bits: int) -> Iterator[DispatchKey]:
    """Return the run-time keys of a set, highest first."""
    rest = bits
    while rest >> N_BACKENDS:
        row = _rows[(rest >> N_BACKENDS).bit_length()]
        if len(row) == 1:
            yield row[0]
        else:
            for number in range(N_BACKENDS - 1, -1, -1):
                if rest >> number & 1:
                    yield row[number]
        rest = without_highest(rest)


def describe(bits: int) -> str:
    """Return a text such as `{AutogradCPU, ADInplaceOrView, CPU}`. `Autograd*` means that the set
    contains all backends, or none."""
    names = []
    rest = bits
    while rest >> N_BACKENDS:
        row = _rows[(rest >> N_BACKENDS).bit_length()]
        backends = rest & BACKEND_MASK
        if len(row) > 1 and backends in (0, BACKEND_MASK):
            names.append(row[0].functionality + "*")
        else:
            numbered, is_one = reversed([*enumerate(row)]), len(row) == 1
            names += [k.name for n, k in numbered if is_one or backends >> n & 1]
        rest = without_highest(rest)
    return "{" + ", ".join(names) + "}"


_and = int.__and__


class KeySet(int):
    """A key set that prints its keys; it compares, pickles and combines as an int.

    `name in key_set`, `|`, `&` and `-` take the arguments of `bits_of`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"KeySet({describe(self)})"

    __str__ = __repr__

    def __contains__(self, name: str | DispatchKey) -> bool:
        bits = bits_of(name)
        return self & bits == bits

    def __iter__(self) -> Iterator[DispatchKey]:
        return iterate(self)

    def __or__(self, other: int | str | DispatchKey) -> KeySet:
        return KeySet(int(self) | bits_of(other))

    def __and__(self, other: int | str | DispatchKey) -> KeySet:
        if not isinstance(other, int):
            other = bits_of(other)
        # This path must be fast, because kernels mask the set before every redispatch
        # (bench/host/dispatch.py).
        return KeySet(_and(self, other))

    def __sub__(self, other: int | str | DispatchKey) -> KeySet:
        """Return the set difference. Subtracting a per-backend key removes its functionality but
        not the backend."""
        return KeySet(int(self) & ~(bits_of(other) & FUNCTIONALITY_MASK))

    def highest(self) -> DispatchKey:
        """Return the key whose slot is used by a call with this key set."""
        return highest(self)

    def after(self, name: str | DispatchKey) -> KeySet:
        """Return the keys of the set that are strictly below `name`. A kernel at `name`
        redispatches with them."""
        found = runtime_key(name) if isinstance(name, str) else name
        return KeySet(int(self) & below(found.functionality))


# Bits of tensors with lazy conjugation or negation, and of efficient zeros. See Note [Lazy views],
# lazy_views.py.
CONJUGATE, NEGATIVE, ZERO = map(functionality_bit, ("Conjugate", "Negative", "ZeroTensor"))
LAZY = CONJUGATE | NEGATIVE | ZERO
# The bit of tensors whose class has a `__torch_dispatch__` handler, and of threads within a
# DispatchMode. See modes.py.
PYTHON = functionality_bit("Python")
# The bit of tensors whose class has `__torch_function__`. See as_torch/overrides/.
OVERRIDES = functionality_bit("PythonDispatcher")

# The bit of calls within a block of gt.fuse.
FUSE = functionality_bit("Fuse")

# The bits of gt.func's tensors: batched tensors, and values with tangents.
BATCHED, DUAL = map(functionality_bit, ("FuncTorchBatched", "FuncTorchGradWrapper"))

# The mask for redispatching below ADInplaceOrView, which counts writes.
BELOW_ADINPLACEORVIEW = below("ADInplaceOrView")
