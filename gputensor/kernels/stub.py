"""Lookup of kernels by (family, op, device): a NumPy loop, a CUDA launch, or a kernel of a device
from another package.

Kernels are not listed anywhere: `kernels/cpu/<family>.py` and `kernels/cuda/<family>.cu` are found
by their paths, and a device from another package registers its own `bind`. Native code binds once
per plan and calls the result. On the CPU the result takes arrays. On other devices it takes (device
index, operands, scalars), where an operand is a pointer or a Python number.

A user declares a new family first, so that a misspelled name raises:
    gelu = declare_stub("gelu")
    gelu.register("cuda", bind_gelu)              # bind_gelu(op, plan) -> callable, as above
    gelu.bind("gelu", "cuda", plan)(0, (out, x), ())
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from types import BuiltinFunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ..core import errors
from ..core.dtype import dtype
from ..core.registry import Registry
from ..dispatch import backend_select, dispatcher
from .compiled import library

Bind = Callable[[str, Any], Callable[..., None]]

# Maps (device type, family, op) to the function bind(op, plan). The op "" stands for all ops of the
# family that have no separate entry.
_registered: Registry[tuple[str, str, str], Bind] = Registry()
_declared: dict[str, Stub] = {}
_cpu_loops: dict[str, Any] = {}


def cpu(family: str) -> Any:
    """Return an object whose attributes are the CPU loops of a family. A loop is a function of
    `kernels/compiled/<family>.py` or of the library if there is one, otherwise the NumPy function
    in `kernels/cpu/<family>.py`."""
    found = _cpu_loops.get(family)
    if found is None:
        plain = importlib.import_module(f"{__package__}.cpu.{family}")
        found = plain
        if library.choice().library is not None:
            found = SimpleNamespace(
                **{name: library.served(family, name, of) for name, of in _public(plain).items()}
            )
            if family in library.faces():
                face = importlib.import_module(f"{__package__}.compiled.{family}")
                vars(found).update(_public(face))
        _cpu_loops[family] = found
    return found


def compiled(family: str, name: str) -> Callable[..., bool]:
    """Return a function of the library that has no NumPy counterpart. The function returns True if
    it has done the work, and False if it declines the call or there is no library."""
    if library.choice().library is None:
        return _never
    if family in library.faces():
        face = importlib.import_module(f"{__package__}.compiled.{family}")
        found: Callable[..., bool] = getattr(face, name)
        return found
    return library.served(family, name, _never)


def _never(*args: Any) -> bool:
    return False


def _public(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


@functools.lru_cache(1 << 11)
def cpu_loop(
    family: str, op: str, inputs: tuple[Any, ...], common: dtype, out: dtype
) -> Callable[..., Any]:
    """Return the loop `(*inputs, *scalars, out=None)` of a pointwise operator on the CPU: the
    compiled loop if it exists, otherwise NumPy's."""
    found = library.bind(family, op, inputs, common, out, _Numpys(family, op, inputs, common, out))
    if found is not None:
        return found
    loop: Callable[..., Any] = cpu(family).bind(op, inputs, common, out)
    return loop


def is_compiled(loop: object) -> bool:
    """Return True if `cpu_loop` returned a compiled loop, which divides its work among threads
    itself."""
    # NumPy's reductions, such as np.add.reduce, have the same type, but are methods of ufuncs.
    return type(loop) is BuiltinFunctionType and type(loop.__self__) is not np.ufunc


def looks_at_values(loop: object) -> bool:
    """Return True if the loop raises an error for some values. Chains must not delay such a
    loop."""
    if is_compiled(loop):
        return getattr(loop, "__name__", "") == "looking_loop"
    return getattr(loop, "looks_at_values", False)


class _Numpys:
    """NumPy's loop of an operator, which is bound at the first call."""

    __slots__ = ("bound", "loop")

    def __init__(self, family: str, *bound: Any) -> None:
        self.bound: tuple[Any, ...] = (family, *bound)
        self.loop: Callable[..., Any] | None = None

    def __call__(self, *operands: Any) -> Any:
        if self.loop is None:
            family, *rest = self.bound
            self.loop = cpu(family).bind(*rest)
        return self.loop(*operands)


def cuda(family: str) -> ModuleType:
    """Return the module that launches a family's CUDA kernels."""
    launches: ModuleType = _cuda_binding().launches(family)
    return launches


@functools.cache
def _cuda_binding() -> Any:
    return importlib.import_module(f"{__package__}.cuda.binding")


# The family of fused chains, and the name of its only op. For this family, `plan` is the chain
# (fusion/running.py).
CHAIN = "chain"
# Ops whose operands differ from the operands of their family. A kernel that is registered for the
# whole family does not cover these ops; they must be registered by name.
_APART = {("copy", "pack")}


def registered(family: str, op: str, device_type: str) -> Bind | None:
    """Return the registered `bind_op` for an op of a family on a device type, or None."""
    whole = "" if (family, op) not in _APART else op
    return _registered.get((device_type, family, op)) or _registered.get(
        (device_type, family, whole)
    )


def serves(family: str, op: str, device_type: str) -> bool:
    """Return True if `bind` finds a kernel for this op on the device. For built-in devices, the
    result is always True."""
    return device_type in ("cpu", "cuda", "meta") or registered(family, op, device_type) is not None


def bind(family: str, op: str, device_type: str, plan: Any) -> Callable[..., None]:
    """Bind `op` to a plan's layout on a device other than the CPU. Return callable(device index,
    operands, scalars). operands: a pointer or number for each operand, outputs first. On meta the
    callable does nothing."""
    if device_type == "meta":
        return nothing
    found = registered(family, op, device_type)
    if found is not None:
        made = found(op, plan)
        if not callable(made):
            raise errors.bound_nothing(family, op, device_type, found, made)
        return made
    if device_type == "cuda":
        bound: Callable[..., Any] = _cuda_binding().bind(family, op, plan)
        return bound
    raise errors.no_stub(family, op, device_type)


def nothing(device_index: int, operands: tuple[Any, ...], scalars: tuple[Any, ...] = ()) -> None:
    """Do nothing: the kernel for meta tensors, which have no data."""


# --- registration -------------------------------------------------------------------------------


class Stub:
    """A family of kernels that a user declared. See the docstring of this module."""

    __slots__ = ("family",)

    def __init__(self, family: str) -> None:
        self.family: str = family

    def register(self, device_type: str, bind_op: Bind, *ops: str) -> Callable[[], None]:
        """Call `register_stub` for this family."""
        return register_stub(device_type, self.family, bind_op, *ops)

    def bind(self, op: str, device_type: str, plan: Any) -> Callable[..., None]:
        """Bind `op` to the plan on the device. Raises: DispatchError if there is no kernel."""
        return bind(self.family, op, device_type, plan)

    def remove(self) -> None:
        """Remove the family. Its registrations are not undone."""
        if _declared.get(self.family) is self:
            del _declared[self.family]


def declare_stub(family: str) -> Stub:
    """Make a new family. Raises: RegistrationError if a family of this name exists."""
    if family in families():
        raise errors.stub_taken(family)
    return _declared.setdefault(family, Stub(family))


def families() -> list[str]:
    """Return the families with loops for CPU and CUDA, the family of chains, and declared
    families."""
    from ._generated.loops import LOOPS

    return sorted({*LOOPS, CHAIN, *_declared})


def ops_of(family: str) -> frozenset[str]:
    """Return the ops of a built-in family: those with a loop in its CPU file."""
    if family == CHAIN:
        return frozenset((CHAIN,))
    module = importlib.import_module(f"{__package__}.cpu.{family}")
    ops = getattr(module, "OPS", None) or getattr(module, "LOOPS", None)
    # A file without `OPS` or `LOOPS` has a function for each op.
    if ops is None:
        # A partial has no `__module__` of its own, so the function inside it is tested.
        functions = {n: getattr(f, "func", f) for n, f in vars(module).items()}
        own = [n for n, f in functions.items() if getattr(f, "__module__", "") == module.__name__]
        ops = [name for name in own if not name.startswith("_")]
    return frozenset(ops)


def register_stub(device_type: str, family: str, bind_op: Bind, *ops: str) -> Callable[[], None]:
    """Register `bind_op(op, plan)` for a family, or only for the given ops. Return a function that
    undoes the registration.

    The plan contains the coalesced shape and stride bytes, and dtypes. Of several registrations,
    the newest that was not undone is used. Registrations may be undone in any order.
    Raises: ArgumentError for an unknown family, op or device type.
    """
    if family not in families():
        raise errors.no_family(family, families())
    with_stubs = sorted(backend_select.BACKEND_OF_TYPE.keys() - {"cpu", "meta"})
    if device_type not in with_stubs:
        rule = f"be one of {', '.join(with_stubs)}"
        raise errors.must("register_stub", "device_type", rule, device_type)
    if not callable(bind_op):
        raise errors.wrong_type("register_stub", "bind_op", "be a function", bind_op)
    known = ops if family in _declared else ops_of(family)
    for op in ops:
        if op not in known:
            raise errors.no_op_of_family(family, op, known)
    with dispatcher.lock:
        undos = [_registered.register((device_type, family, op), bind_op) for op in ops or ("",)]
        dispatcher.forget_plans()

    def undo() -> None:
        with dispatcher.lock:
            for take_back in undos:
                take_back()
            dispatcher.forget_plans()

    return undo
