"""`gt.library.custom_op` defines an operator by Python functions for kernels, shapes and gradients.

    @gt.library.custom_op("mylib::scale", mutates_args=())
    def scale(x: Tensor, by: float = 2.0) -> Tensor:
        return gt.from_numpy(x.numpy() * by)

    scale.register_kernel("cuda", launch_scale)
    scale.register_fake(lambda x, by: gt.empty_like(x))
    scale.register_autograd(lambda ctx, grad: (grad * ctx.by, None), setup_context=...)

operator_kernels.py and custom/autograd.py make kernels from the functions. Registrations can be
undone. The rules are PyTorch's, with one exception: a kernel that does not accept the schema's
arguments is rejected at registration. Source: torch/_library/custom_ops.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from . import autograd as registered, operator_kernels as kernels
from ..core import errors, schema as schemas
from ..core.device import device
from ..core.schema import FunctionSchema
from ..dispatch import dispatcher, keys
from ..dispatch.boxing import kernel_signature
from ..dispatch.backend_select import BACKEND_OF_TYPE, ends_with
from ..dispatch.dispatcher import Handle
from ..dispatch.refusal import is_iterable
from ..dispatch.operator import Operator, caller_site
from ..dispatch.registered import Kernel, Key
from ..makers import backend_select, inplace_or_view
from .infer_schema import OUT, infer_schema
from .library import Library, _check_callable

Function = Callable[..., Any]
F = TypeVar("F", bound=Function)
DeviceTypes = str | Sequence[str] | None
_Registration = tuple[Key, Function, str, str]  # (key, function, convention, site)

# Qualified name -> definition. The dict keeps operators alive for `gt.ops`.
_definitions: dict[str, CustomOpDef] = {}


@overload
def custom_op(
    name: str, fn: None = None, /, *, mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None, schema: str | None = None, tags: str | Sequence[str] = (),
) -> Callable[[Function], CustomOpDef]: ...  # fmt: skip


@overload
def custom_op(
    name: str, fn: Function, /, *, mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None, schema: str | None = None, tags: str | Sequence[str] = (),
) -> CustomOpDef: ...  # fmt: skip


def custom_op(
    name: str, fn: Function | None = None, /, *, mutates_args: str | Iterable[str],
    device_types: DeviceTypes = None, schema: str | None = None, tags: str | Sequence[str] = (),
) -> Any:  # fmt: skip
    """Define an operator by a function and return a CustomOpDef. Without fn, return a decorator.

    A definition under an existing name replaces the operator and all its registrations.

    Args:
        name: "namespace::operator", with ".overload" if it is one of several.
        fn: the kernel; its annotations are the schema.
        mutates_args: the arguments that fn writes to, or "unknown" for all tensors.
        device_types: the devices of fn, "cpu" or ("cpu", "cuda"); None means every device.
        schema: `(Tensor x, float by) -> Tensor`, if annotations cannot express it.
        tags: "inplace" if fn writes to its first argument and returns it; "out" if it returns the
            keyword-only tensors that it writes to. Without these tags, results must be new memory.
    Raises: ArgumentValueError for an invalid name or schema; RegistrationError if a Library has
    defined the name.
    """
    site = caller_site()
    namespace, colons, rest = name.partition("::") if isinstance(name, str) else ("", "", "")
    parts = (namespace, *rest.split("."))
    if not colons or len(parts) > 3 or not all(part.isidentifier() for part in parts):
        raise errors.wrong_value("custom_op", "name", "be written namespace::name", name)
    if not isinstance(tags, str) and not (
        is_iterable(tags) and all(hasattr(t, "encode") or hasattr(t, "name") for t in tags)
    ):
        raise errors.wrong_type("custom_op", "tags", "be tags, or one", tags)
    tags = (tags,) if isinstance(tags, str) else tuple(map(str, tags))
    if schema is not None and not isinstance(schema, str):
        raise errors.wrong_type("custom_op", "schema", "be a string", schema)
    if schema is not None and not schema.lstrip().startswith("("):
        rule = "begin with its arguments, '('"
        raise errors.wrong_value("custom_op", "schema", rule, schema)
    written = mutates_args if isinstance(mutates_args, str) else frozenset(mutates_args)

    def define(function: Function) -> CustomOpDef:
        if not callable(function):
            raise errors.wrong_type("custom_op", "fn", "be callable", function)
        if schema is None:
            text = infer_schema(function, mutates_args=written, op_name=name, tags=tags)
        else:
            text = f"{name}{schema.strip()}"
        parsed = schemas.parse(text)
        _check_schema(name, parsed, written if schema is not None else None, tags)
        with dispatcher.lock:
            before, made = _definitions.get(name), None
            if before is not None:
                before._destroy()
            try:
                made = CustomOpDef(name, text, parsed, function, tags, site)
                made._register_kernel(device_types, function, site)
            except BaseException:
                if made is not None:
                    made._destroy()
                if before is not None:
                    before._again()
                raise
            _definitions[name] = made
        return made

    return define if fn is None else define(fn)


def _check_schema(
    name: str, schema: FunctionSchema, mutates_args: Any, tags: Sequence[str]
) -> None:
    written = {a.name for a in schema.arguments if a.is_write}
    if mutates_args is not None and written != mutates_args:
        raise errors.mutates_other_than_schema(name, mutates_args, schema, written)
    for argument in schema.keyword_only:
        if argument.type.has_tensor and not (OUT in tags and argument.is_write):
            raise errors.keyword_only_tensor(name, argument.name, schema)


class CustomOpDef:
    """An operator that `custom_op` made from functions. It is called like the function.

    `_opoverload` is the operator, the same object as `gt.ops.<namespace>.<name>.default`.
    """

    def __init__(
        self, name: str, text: str, parsed: FunctionSchema, fn: Function, tags: tuple[str, ...],
        site: str,
    ) -> None:  # fmt: skip
        self._qualname, self._text, self._tags, self._site = name, text, tags, site
        self._parsed = parsed
        self._namespace, _, self._name = name.partition("::")
        self._init_fn = fn
        self._disabled: set[str | None] = set()
        # The registrations and their handles, in order.
        self._registered: list[tuple[_Registration, Handle]] = []
        self._define()

    def _define(self) -> None:
        operator = dispatcher.define(self._text, self._tags, self._site, parsed=self._parsed)
        self._opoverload = operator
        self._definition = dispatcher.undefining(operator)
        schema = operator.schema
        self._impl(kernels.META, kernels.without_fake, self._site)
        self._impl(kernels.AUTOGRAD, registered.maker(None), self._site)
        if any(a.type.aliases for a in schema.arguments):
            self._impl(kernels.AD_INPLACE_OR_VIEW, inplace_or_view.of_custom, self._site)

    def _check_defined(self, site: str) -> None:
        if not self._definition.is_active:
            rule = "be defined, but was destroyed or defined again"
            raise errors.wrong_registration(f"{self!r}", rule, site)

    def _impl(self, key: Key, make: Function, site: str) -> Handle:
        return self._register((key, make, "maker", site))

    def _register(self, what: _Registration) -> Handle:
        handle = dispatcher.register_kernel(self._opoverload, *what)
        self._registered.append((what, handle))
        return handle

    def _destroy(self) -> None:
        """Remove the operator and all registrations made through this object."""
        with dispatcher.lock:
            self._registered = [both for both in self._registered if both[1].is_active]
            for _, handle in reversed(self._registered):
                handle.remove()
            self._definition.remove()
            if _definitions.get(self._qualname) is self:
                del _definitions[self._qualname]

    def _again(self) -> None:
        """Restore the registrations that `_destroy` removed, after a new definition has failed."""
        former, self._registered = self._registered, []
        self._define()
        for what, _ in former[len(self._registered) :]:
            self._register(what)
        _definitions[self._qualname] = self

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator through the dispatcher."""
        return self._opoverload(*args, **kwargs)

    # --- kernels ----------------------------------------------------------------------------------

    @overload
    def register_kernel(self, device_types: DeviceTypes, fn: Function, /) -> Handle: ...

    @overload
    def register_kernel(
        self, device_types: DeviceTypes, fn: None = None, /
    ) -> Callable[[F], F]: ...

    def register_kernel(self, device_types: DeviceTypes, fn: Function | None = None, /) -> Any:
        """Register a kernel for device types ("cpu", "cuda", a registered device); None means all.
        Return a handle that undoes the registration. Without fn, return a decorator.

        The newest kernel of a type is used. Removing a registered device removes its kernels. The
        kernel runs below autograd, and its results must be new memory. Raises: RegistrationError if
        fn does not accept the schema's arguments; ArgumentValueError if no argument determines the
        device.
        """
        site = caller_site()
        if fn is not None:
            return self._register_kernel(device_types, fn, site)

        def decorate(function: Function) -> Function:
            self._register_kernel(device_types, function, site)
            return function

        return decorate

    def _register_kernel(self, device_types: DeviceTypes, fn: Function, site: str) -> Handle:
        self._check_defined(site)
        operator = self._opoverload
        _check_function(operator, fn, site)
        found = _keys_of(device_types)
        takes_tensors = any(a.type.has_tensor for a in operator.schema.arguments)
        if device_types is not None and not takes_tensors:
            if backend_select.device_argument(operator) is None:
                raise errors.no_device_argument(self._qualname, operator.schema)
            if kernels.BACKEND_SELECT not in operator.kernels:
                self._impl(kernels.BACKEND_SELECT, backend_select.selects, site)
        handles = []
        for kind, key in found:
            handles.append(self._impl(key, kernels.backend(self._chooser(kind, fn), site), site))
            _end_with_device(kind, handles[-1])
        return _together(handles)

    def _chooser(self, kind: str | None, fn: Function) -> Callable[[], Function]:
        return lambda: self._init_fn if kind in self._disabled else fn

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Enable or disable a device type's registered kernel in a `with` block. Calls use the
        function passed to `custom_op` while the kernel is disabled."""
        before = device_type in self._disabled
        self._switch(device_type, not enabled)
        try:
            yield
        finally:
            self._switch(device_type, before)

    def _switch(self, device_type: str, disabled: bool) -> None:
        with dispatcher.lock:
            (self._disabled.add if disabled else self._disabled.discard)(device_type)
            dispatcher.refresh(self._opoverload)

    # --- shapes and derivative --------------------------------------------------------------------

    def register_fake(self, fn: F, /) -> F:
        """Register the Meta kernel, which returns meta tensors: sizes, strides and dtypes without
        data.

        fn takes the operator's arguments. The method is also a decorator.
        """
        self._register_fake(fn, caller_site())
        return fn

    def _register_fake(self, fn: Function, site: str) -> Handle:
        self._check_defined(site)
        _check_function(self._opoverload, fn, site)
        return self._register((kernels.META, fn, "user", site))

    def register_autograd(
        self, backward: Function, /, *, setup_context: Function | None = None
    ) -> Handle:
        """Register the derivative. Return a handle that undoes the registration.

        backward(ctx, *grads) takes one gradient for each result. It returns a gradient or None for
        each positional argument, and a list for a list of tensors. setup_context(ctx, inputs,
        output) saves data for backward, with `ctx.save_for_backward` or as attributes of ctx.
        Keyword-only arguments are passed as `keyword_only_inputs`, before output. Raises:
        RegistrationError for an operator that writes to an argument or returns nothing, and for
        functions that do not accept these arguments.
        """
        return self._register_autograd(backward, setup_context, caller_site())

    def register_vmap(self, func: Function | None = None, /) -> Any:
        """Register the batch rule of the operator. Without func, return a decorator.

        func(info, in_dims, *args) takes the batch dimension of each argument, or None, and the
        arguments. It returns (results, batch dimensions of the results). info has batch_size and
        randomness.
        """
        return register_vmap(self, func)

    def _register_autograd(
        self, backward: Function, setup_context: Function | None, site: str
    ) -> Handle:
        self._check_defined(site)
        formula = _formula(self._opoverload, backward, setup_context)
        return self._impl(kernels.AUTOGRAD, registered.maker(formula), site)


# --- for any operator -----------------------------------------------------------------------------


def register_kernel(
    op: Any, device_types: DeviceTypes, func: Function | None = None, /, *,
    lib: Library | None = None,
) -> Any:  # fmt: skip
    """Register a kernel for device types, for an operator or its name. Without func, return a
    decorator.

    For an operator that `custom_op` made, this calls its method. For other operators it calls
    `Library.impl` with the keys of the devices, or with CompositeExplicitAutograd for None. The
    handle or `lib` undoes the registration.
    """
    site = caller_site()

    def register(function: Function) -> Handle:
        made = _definition_of("register_kernel", op)
        if made is not None:
            handle = made._register_kernel(device_types, function, site)
        else:
            _check_callable("register_kernel", function)
            found, handles = _keys_of(device_types), []
            name = _name_of("register_kernel", op)
            for kind, key in found:
                handles.append(dispatcher.register_kernel(name, key, function, "user", site))
                _end_with_device(kind, handles[-1])
            handle = _together(handles)
        return _owned(handle, lib, op, site)

    return register(func) if func is not None else _decorator(register)


def register_fake(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register the Meta kernel of an operator. Without func, return a decorator."""
    site = caller_site()

    def register(function: Function) -> Handle:
        made = _definition_of("register_fake", op)
        if made is not None:
            handle = made._register_fake(function, site)
        else:
            _check_callable("register_fake", function)
            name = _name_of("register_fake", op)
            handle = dispatcher.register_kernel(name, kernels.META, function, "user", site)
        return _owned(handle, lib, op, site)

    return register(func) if func is not None else _decorator(register)


def register_autograd(
    op: Any, backward: Function, /, *, setup_context: Function | None = None,
    lib: Library | None = None,
) -> Handle:  # fmt: skip
    """Register the derivative of an operator, given as an object or a name.

    See `CustomOpDef.register_autograd`. Raises: DispatchError if the operator is not defined.
    """
    site = caller_site()
    made = _definition_of("register_autograd", op)
    if made is not None:
        return _owned(made._register_autograd(backward, setup_context, site), lib, op, site)
    operator = dispatcher.find(_name_of("register_autograd", op))
    for argument in operator.schema.keyword_only:
        if argument.type.has_tensor:
            raise errors.keyword_only_tensor(
                operator.qualified_name, argument.name, operator.schema
            )
    make = registered.maker(_formula(operator, backward, setup_context))
    handle = dispatcher.register_kernel(operator, kernels.AUTOGRAD, make, "maker", site)
    return _owned(handle, lib, op, site)


def _decorator(register: Callable[[Function], Handle]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        register(function)
        return function

    return decorate


def register_vmap(op: Any, func: Function | None = None, /, *, lib: Library | None = None) -> Any:
    """Register the batch rule of an operator, given as an object or a name. See
    `CustomOpDef.register_vmap`."""
    site = caller_site()

    def register(function: Function) -> Handle:
        _check_callable("register_vmap", function)
        made = _definition_of("register_vmap", op)
        name = _name_of("register_vmap", op)
        operator = dispatcher.find(name) if made is None else made._opoverload
        return _owned(kernels.register_vmap(operator, function), lib, op, site)

    return register(func) if func is not None else _decorator(register)


def _owned(handle: Handle, lib: Library | None, op: Any, site: str) -> Handle:
    """Add the handle to `lib`, so that destroying `lib` undoes the registration. Return the
    handle."""
    if lib is not None:
        try:
            lib._check_open(site)
            lib._qualified(_name_of("lib", op), site)
        except BaseException:
            handle.remove()
            raise
        lib._keep(handle)
    return handle


def _name_of(what: str, op: Any) -> str:
    """Return the name `ns::op.overload` of an operator, a packet, a CustomOpDef or a name."""
    name = op if isinstance(op, str) else getattr(op, "qualified_name", None)
    if isinstance(op, CustomOpDef):
        name = op._qualname
    if not isinstance(name, str) or "::" not in name:
        raise errors.not_an_operator(what, op)
    return name.removesuffix(".default")


def _definition_of(what: str, op: Any) -> CustomOpDef | None:
    return op if isinstance(op, CustomOpDef) else _definitions.get(_name_of(what, op))


def _together(handles: list[Handle]) -> Handle:
    def undo() -> None:
        for handle in reversed(handles):
            handle.remove()

    return Handle(undo)


def _end_with_device(device_type: str | None, handle: Handle) -> None:
    """Remove the handle's kernel when the device is removed. The device's key may later belong to
    another device, which must not use this kernel."""
    kind = None if device_type is None else device(device_type).type
    if kind is not None and BACKEND_OF_TYPE[kind].startswith("PrivateUse"):
        ends_with.setdefault(kind, []).append(handle.remove)


def _keys_of(types: DeviceTypes) -> list[tuple[str | None, Key]]:
    """Return (device type, dispatch key) for each type. Raises: ArgumentError for an unregistered
    device."""
    if types is None:
        return [(None, keys.CompositeExplicitAutograd)]
    listed = [types] if isinstance(types, str) else types
    return [(t, keys.key(BACKEND_OF_TYPE[device(t).type])) for t in listed]


def _check_function(operator: Operator, fn: Any, site: str) -> None:
    _check_callable(operator.qualified_name, fn)
    assert operator.definition is not None
    kernel_signature.check(operator, operator.definition, Kernel(fn, "user", site))


def _formula(
    operator: Operator, backward: Function, setup_context: Function | None
) -> registered.Formula:
    schema = operator.schema
    views = [r for r in schema.returns if r.type.aliases]
    counts = [sum(v.type.has_tensor for v in vs) for vs in (schema.arguments, schema.returns)]
    is_functional = not any(a.is_write for a in schema.arguments) and bool(schema.returns)
    if not is_functional or views and counts != [1, 1]:
        raise errors.not_functional(operator)
    return registered.Formula(operator, backward, setup_context)
