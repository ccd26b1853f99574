"""`gt.backend`: registration of a device by another package.

    device = gt.backend.register("openreg", "PrivateUse1", runtime=runtime, cpu_fallback=True)

    @device.stub("unary", "abs")
    def bind(op, plan): ...  # -> callable(device index, pointers and numbers, scalars)

The runtime allocates and copies memory, which is sufficient for the operators in MINIMAL. A stub
implements the operators of a family, `device.impl` implements one operator, and all other operators
can run by the CPU fallback. `remove()` of the handle undoes all registrations. A package can
declare an entry point in the group `gputensor.backends` with the device's name; it is called when
the name is first used. docs/extensions/new_device.md is the guide, and `gputensor backend new
NAME` writes a package that does this.
"""

from __future__ import annotations

import functools
import keyword
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from .. import runtime as runtimes
from ..core import device as devices, errors, lazy
from ..core.dtype import dtype
from ..core.guard import Function
from .device_module import DeviceModule
from ..dispatch import backend_select, dispatcher, keys
from ..dispatch.dispatcher import Handle
from ..dispatch.operator import Operator, caller_site
from ..kernels import stub as stubs
from ..kernels.stub import declare_stub, register_stub
from ..makers import further
from ..native import copy
from ..tensor.storage import Storage, register_allocator
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = [
    "BACKENDS", "GROUP", "MINIMAL", "Backend", "declare_stub", "get", "register", "register_stub",
    "registered",
]  # fmt: skip

# Dispatch key -> the default name of its device type, which `rename` can change.
BACKENDS = {
    "PrivateUse1": "privateuseone",
    "PrivateUse2": "privateusetwo",
    "PrivateUse3": "privateusethree",
}
GROUP = "gputensor.backends"
# Operators that need no kernel on any device, because the runtime's allocation and copies are
# sufficient. Source: PyTorch's openreg, "operator set".
MINIMAL = (
    "aten::empty.memory_format", "aten::empty_strided", "aten::as_strided", "aten::view",
    "aten::_reshape_alias", "aten::resize_", "aten::_copy_from", "aten::_copy_from_and_resize",
    "aten::_local_scalar_dense", "aten::set_.source_Tensor", "aten::set_.source_Storage",
    "aten::set_.source_Storage_storage_offset",
)  # fmt: skip

_backends: dict[str, Backend] = {}
# Names of devices whose entry point must not be called again.
_loaded: set[str] = set()


def register(
    name: str, backend: str = "PrivateUse1", *, runtime: Any, cpu_fallback: bool = False,
    generate_methods: bool = True,
) -> Backend:  # fmt: skip
    """Register a device type. The returned handle registers kernels and undoes registrations.

    name: the type in `gt.device("openreg:1")`, `gt.openreg` and `x.openreg()`. backend: the
    dispatch key of the device's tensors. runtime: a module or object with the functions of
    `gputensor.runtime.REQUIRED` and any of OPTIONAL. cpu_fallback: operators without a kernel run
    on the CPU, with one warning each (the handle's `fall_back_to_cpu` selects operators).
    generate_methods: add `x.<name>()` and `x.is_<name>`.
    Raises: RegistrationError if the key is taken or the runtime lacks a required function.
    """
    site = caller_site()
    check_name(name, generate_methods)
    if backend not in BACKENDS:
        raise errors.must("register", "backend", f"be one of {', '.join(BACKENDS)}", backend)
    with dispatcher.lock:
        for other in _backends.values():
            if other.key == backend:
                raise errors.backend_taken(backend, name, other.name, other.site)
        made = Backend(name, backend, runtime, site)
        try:
            made._bring_up(generate_methods)
            if cpu_fallback:
                made.fall_back_to_cpu()
        except BaseException:
            made.remove()
            raise
        return made


def check_name(name: Any, generate_methods: bool = True) -> None:
    """Raise an ArgumentError for an invalid name or a name in use."""
    is_name = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name)
    if not is_name or name != name.lower():
        raise errors.must("register", "name", "be a lower-case identifier", name)
    is_taken = name in vars(sys.modules["gputensor"])
    is_taken |= name in backend_select.BACKEND_OF_TYPE
    if is_taken or generate_methods and (hasattr(Tensor, name) or hasattr(Tensor, f"is_{name}")):
        rule = "not be an operator, a method, a module or a device of ours"
        raise errors.must("register", "name", rule, name)


class Backend:
    """A registered device type. `remove()`, or the end of a `with` block, undoes all its
    registrations.

    name, key: such as `openreg` and `PrivateUse1`. runtime: the registered object. module:
    `gt.<name>`. site: the place of the registration.
    """

    __slots__ = ("name", "key", "runtime", "module", "site", "_undos", "_stubs", "__weakref__")
    name: str
    key: str
    runtime: Any
    site: str

    def __init__(self, name: str, key: str, runtime: Any, site: str) -> None:
        self.name, self.key, self.runtime, self.site = name, key, runtime, site
        self.module: DeviceModule = DeviceModule(name, runtime)
        self._undos: list[Callable[[], None]] = []
        # (family, ops, undo functions) of each stub. Undo functions are added when further
        # operators of the family are loaded.
        self._stubs: list[tuple[str, tuple[str, ...], list[Callable[[], None]]]] = []

    def __repr__(self) -> str:
        return f"<backend {self.name} at {self.key}>"

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    # --- kernels ----------------------------------------------------------------------------------

    def stub(self, family: str, *ops: str) -> Callable[[stubs.Bind], stubs.Bind]:
        """Return a decorator that registers `bind(op, plan)` as the kernels of a family's
        operators, or of the operators in `ops`.

        bind returns callable(device index, operands, scalars). Operands are addresses in the order
        of `plan.stride_bytes`, outputs first. An operand that is a Python number is None.
        """

        def decorate(bind_op: stubs.Bind) -> stubs.Bind:
            self.register_stub(family, bind_op, *ops)
            return bind_op

        return decorate

    def register_stub(self, family: str, bind_op: stubs.Bind, *ops: str) -> Handle:
        """Register a stub as `stub` does. The returned handle undoes only this registration."""
        self._check_alive()
        with dispatcher.lock:
            undos = [register_stub(self.name, family, bind_op, *ops)]
            brought = (family, ops, undos)
            self._stubs.append(brought)
            undos.append(lambda: self._stubs.remove(brought))
            for entry in further.entries.get(family, ()):
                self._take_over(entry, *brought)
        return self._keep(undos)

    def _take_over(
        self, entry: further.Entry, family: str, ops: tuple[str, ...],
        undos: list[Callable[[], None]],
    ) -> None:  # fmt: skip
        operator, loop, kernel, site = entry
        if _is_named(operator, loop, family, ops):
            undos.append(self._native(operator, kernel, site))

    def _installed(self, family: str, entry: further.Entry) -> None:
        """Register gputensor's kernel of a newly loaded operator at the device's key, if the
        operator needs no kernel from the device or if a stub implements the operator."""
        # operators of these families need only sizes, and the runtime's allocations and copies
        if family == "copy" or family not in stubs.families():
            self._take_over(entry, family, (), self._undos)
        for brought in self._stubs:
            if brought[0] == family:
                self._take_over(entry, *brought)

    @overload
    def impl(
        self, op_name: str, fn: Callable[..., Any], *, with_keyset: bool = False,
        boxed: bool = False,
    ) -> Handle: ...  # fmt: skip
    @overload
    def impl(
        self, op_name: str, fn: None = None, *, with_keyset: bool = False, boxed: bool = False
    ) -> Callable[[Function], Function]: ...
    def impl(
        self, op_name: str, fn: Any = None, *, with_keyset: bool = False, boxed: bool = False
    ) -> Any:
        """Register a kernel for one operator at the device's key, in place of gputensor's kernel.
        Without `fn`, return a decorator.

        op_name: `abs`, `add.Tensor` or `mylib::scale`. The options are as for `Library.impl`, but
        replacing a kernel does not warn. Returns a handle.
        """
        self._check_alive()
        site = caller_site()
        name = dispatcher.qualified(op_name)
        convention = "boxed" if boxed else "keyset" if with_keyset else "user"

        def bind_one(function: Callable[..., Any]) -> Handle:
            key = keys.key(self.key)
            made = dispatcher.register_kernel(name, key, function, convention, site)
            return self._keep([made.remove])

        if fn is not None:
            return bind_one(fn)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            bind_one(function)
            return function

        return decorate

    def fall_back_to_cpu(
        self, ops: Iterable[str] | None = None, deny: Iterable[str] = ()
    ) -> Handle:
        """Run operators on the CPU if the device has no kernel for them. ops: the operators that
        may run on the CPU; None means all. deny: operators that may not. Each operator warns
        once."""
        from .fallback import enable_cpu_fallback

        self._check_alive()
        return self._keep([enable_cpu_fallback(self.key, ops, deny).remove])

    def register_autocast(
        self, dtypes: Sequence[dtype], policies: Mapping[str, Any] | None = None
    ) -> Handle:
        """Enable `gt.autocast` on the device. The device's key must be PrivateUse1, because other
        PrivateUse keys have no Autocast key.

        dtypes: the dtypes that the device can cast to, the default first. policies: operator ->
        cast policy (docs/usage/autocast.md), also for custom operators; by default the policies of
        CUDA.
        """
        from ..amp.cast_policies import register_device

        self._check_alive()
        if self.key != "PrivateUse1":
            rule = "be at the key PrivateUse1"
            raise errors.must("register_autocast", "self", rule, errors.Got(repr(self)))
        with dispatcher.lock:
            return self._keep([register_device(self.name, dtypes, policies, caller_site()).remove])

    def has_native(self, op_name: str) -> bool:
        """Return True if an operator has its own kernel at the device's key. Names are as for
        `impl`."""
        operator = dispatcher.find(dispatcher.qualified(op_name))
        return operator.table.slot(keys.runtime_key(self.key))[1] == "kernel"

    # --- removal ----------------------------------------------------------------------------------

    @property
    def is_registered(self) -> bool:
        return _backends.get(self.name) is self

    def remove(self) -> None:
        """Undo all registrations. Afterwards existing tensors of the device can only be deleted. A
        second call has no effect.

        The device's entry point is not called again, so only `register` can bring the device back.
        """
        with dispatcher.lock:
            while self._undos:
                self._undos.pop()()

    def _check_alive(self) -> None:
        if not self.is_registered:
            rule = "be registered, but was removed"
            raise errors.wrong_registration(f"{self!r}", rule, caller_site(3))

    def _keep(self, undos: list[Callable[[], None]]) -> Handle:
        def undo() -> None:
            for take_back in reversed(undos):
                take_back()

        handle = Handle(undo)
        self._undos.append(handle.remove)
        return handle

    def _native(
        self, operator: Operator, kernel: Callable[..., Any], site: str
    ) -> Callable[[], None]:
        key = keys.key(self.key)
        return dispatcher.register_kernel(operator, key, kernel, "native", site).remove

    def _bring_up(self, generate_methods: bool) -> None:
        undo = self._undos.append
        undo(devices.rename_privateuse(BACKENDS[self.key], self.name))
        undo(runtimes.register(self.name, self.runtime))
        undo(backend_select.register_device_type(self.name, self.key))
        undo(backend_select.register_current_index(self.name, self.runtime.current_device))
        undo(backend_select.remedies.register(self.key, self._remedy))
        undo(register_allocator(self.name, self._allocate))
        for family, entries in further.entries.items():
            for entry in entries:
                self._installed(family, entry)
        further.listeners.append(self._installed)
        undo(lambda: further.listeners.remove(self._installed))
        for name in ("_copy_from", "_copy_from_and_resize"):
            undo(self._native(dispatcher.find(f"aten::{name}"), getattr(copy, name), self.site))
        undo(_set_attribute(sys.modules["gputensor"], self.name, self.module))
        if generate_methods:
            undo(_set_attribute(Tensor, self.name, _to_device(self.name)))
            undo(_set_attribute(Tensor, f"is_{self.name}", _is_on(self.name, "_device")))
            undo(_set_attribute(Storage, f"is_{self.name}", _is_on(self.name, "device")))
        _backends[self.name] = self
        _loaded.add(self.name)  # `load` must not call the entry point again
        undo(lambda: _backends.pop(self.name, None))  # type: ignore[arg-type]

    def _allocate(self, nbytes: int, place: devices.device) -> Any:
        count = self.runtime.device_count()
        index: Any = place.index  # a storage's device always has an index
        if not 0 <= index < count:
            raise errors.device_index_out_of_range(self.name, index, count)
        return self.runtime.allocate(nbytes, index)

    def _remedy(self, operator: Operator) -> str:
        """Return the remedy that an error suggests for an operator without a kernel on the
        device."""
        if operator.short_name in ("copy_", "flip"):
            return "bring a stub of family 'copy' for 'copy', or cpu_fallback=True"
        others = "a kernel through impl, or cpu_fallback=True"
        for family, entries in further.entries.items():
            for found, loop, _, _ in entries:
                if found is operator and family in stubs.families():
                    op = loop or operator.short_name.rstrip("_")
                    return f"bring a stub of family '{family}' for '{op}', {others}"
        return f"bring {others}"


def _is_named(operator: Operator, loop: str, family: str, ops: tuple[str, ...]) -> bool:
    """Return True if a stub for `ops` implements this operator."""
    if not ops or family in ("fill", "random", "matmul", "where"):
        return True
    return (loop or operator.short_name.rstrip("_")) in ops


def _set_attribute(owner: Any, name: str, value: Any) -> Callable[[], None]:
    setattr(owner, name, value)
    return lambda: delattr(owner, name)


def _to_device(name: str) -> Callable[..., Tensor]:
    def to_device(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
        if device is None or isinstance(device, int):
            place = devices.device(name, device)
        else:
            place = devices.device(device)
        return self.to(place, non_blocking=non_blocking)

    to_device.__name__ = to_device.__qualname__ = name
    told = "the current one by default; the tensor itself if it is there"
    to_device.__doc__ = f"A copy on device {name}, {told}."
    return to_device


def _is_on(name: str, slot: str) -> property:
    told = f"True on a device of type {name}."
    return property(lambda self: getattr(self, slot).type == name, doc=told)


# --- look-up --------------------------------------------------------------------------------------


def registered() -> list[Backend]:
    """Return the devices that are registered."""
    return list(_backends.values())


def get(name: str) -> Backend:
    """Return the device with this name. If an entry point has the name, load its package first.

    Raises: DeviceError if no device has the name.
    """
    if not isinstance(name, str):
        raise errors.wrong_type("backend", "name", "be a device type", name)
    if name not in _backends and not load(name):
        why = f"nothing registered it, and no package has an entry point of group {GROUP} for it"
        raise errors.no_device(name, why)
    return _backends[name]


def load(name: str) -> bool:
    """Call the entry point with this name, if an installed package has one. Return True if the name
    is known afterwards.

    Raises: RegistrationError, with the entry point's name, if the package fails to load.
    """
    if name in _loaded or os.environ.get("GPUTENSOR_BACKEND_AUTOLOAD") == "0":
        return name in _backends
    for found in _entry_points(tuple(sys.path)):
        if found.name != name:
            continue
        _loaded.add(name)
        try:
            found.load()()
        except Exception as error:
            raise errors.backend_not_loaded(name, found, error) from error
    return name in _backends


@functools.lru_cache(1)
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points found on this path. The result is cached, because a search takes
    milliseconds."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=GROUP))


devices.unknown_type_hooks.append(load)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.attributes(globals())
