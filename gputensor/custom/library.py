"""`gt.library`: definitions of operators, and kernels for one operator or, as fallbacks, for all.

    lib = Library("mylib", "DEF")
    lib.define("scale(Tensor x, float by=2.0) -> Tensor")

    @lib.impl("scale", "CPU")
    def scale(x, by): ...

A Library owns its registrations. `_destroy`, the end of its `with` block, or its deletion removes
all of them; earlier registrations are then used again. The rules are PyTorch's. `dispatch/`
computes the dispatch tables from the registrations. custom_op.py makes operators from annotated
functions, and opcheck/ tests operators.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, overload

from ..core._generated import index
from ..core import errors, schema
from ..core.arguments import flag
from ..core.guard import Function
from ..dispatch import dispatcher, keys
from ..dispatch.dispatcher import Handle
from ..dispatch.refusal import is_iterable
from ..dispatch.operator import Operator, caller_site
from ..dispatch.registered import Key

KINDS = ("DEF", "FRAGMENT", "IMPL")
ALIAS_ANALYSIS = ("", "FROM_SCHEMA", "CONSERVATIVE", "PURE_FUNCTION")
_RESERVED = ("prim",)
# Key names that PyTorch treats as "no key". A kernel registered for them is registered at
# CompositeImplicitAutograd, and so runs on all devices.
_NO_KEY = ("", "Undefined", "CatchAll")

# Maps a namespace to the place where a DEF library defined the namespace. Generated operators
# define `aten` and a few other namespaces.
_defined_namespaces: dict[str, str] = {"aten": "gputensor/_generated/operators.py"} | {
    name: f"gputensor/_generated/families/{family}.py" for name, family in index.NAMESPACES.items()
}


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """A marker to pass to `impl` or `fallback` instead of a kernel: calls then skip the key. This
    function is never called."""
    raise errors.fallthrough_called()


vars(fallthrough_kernel)["kernel_convention"] = "fallthrough"


class Library:
    """Registrations of one namespace that are removed together.

    kind: DEF defines a namespace's operators and may be used once per namespace; FRAGMENT defines
    more operators; IMPL only registers kernels. ns: the namespace; "_" with kind IMPL is for
    fallbacks. dispatch_key: the default key of registrations, CompositeImplicitAutograd if omitted.
    """

    __slots__ = ("ns", "kind", "dispatch_key", "site", "_handles", "_finalizer", "__weakref__")
    ns: str
    dispatch_key: str
    site: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.site = site = caller_site()
        for arg, value in (("ns", ns), ("kind", kind)):
            if not isinstance(value, str):
                raise errors.wrong_type("Library", arg, "be a string", value)
        if kind not in KINDS:
            rule = f"be one of {', '.join(KINDS)}"
            raise errors.wrong_value("Library", "kind", rule, kind)
        if kind != "IMPL" and ns in _RESERVED:
            raise errors.wrong_value("Library", "ns", "not be reserved", ns)
        if ns == "_" and kind != "IMPL":
            rule = "be of kind IMPL: it holds fallbacks"
            raise errors.wrong_registration("Library: the namespace '_'", rule, site)
        if not isinstance(ns, str) or not ns.isidentifier():
            raise errors.wrong_value("Library", "ns", "be an identifier", ns)
        if not isinstance(dispatch_key, str) and not hasattr(dispatch_key, "name"):
            raise errors.wrong_type("Library", "dispatch_key", "name a dispatch key", dispatch_key)
        if kind != "IMPL" and dispatch_key:
            raise errors.wrong_registration(
                f"Library: a {kind} of '{ns}' with dispatch key {dispatch_key}",
                "have no dispatch key", site, "open an IMPL library for the kernels",
            )  # fmt: skip
        if dispatch_key:
            keys.key(dispatch_key)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        if kind == "DEF":
            with dispatcher.lock:
                if ns in _defined_namespaces:
                    raise errors.second_library(ns, _defined_namespaces[ns], site)
                _defined_namespaces[ns] = site
        self._handles: list[Handle] = []
        defined = ns if kind == "DEF" else None
        self._finalizer = weakref.finalize(self, _close, self._handles, defined)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *exc: object) -> None:
        self._destroy()

    def _destroy(self) -> None:
        """Remove all registrations of this library, and close it."""
        self._finalizer()

    # --- define ---------------------------------------------------------------------------------

    def define(
        self, text: str, fn: Callable[..., Any] | None = None, alias_analysis: str = "", *,
        tags: str | Sequence[str] = (),
    ) -> Handle:  # fmt: skip
        """Define an operator by a schema such as `"scale(Tensor x, float by=2.0) -> Tensor"`.

        fn: a kernel for all keys. With fn, `text` may be only a name: the schema is then inferred
        from the annotations (with alias analysis CONSERVATIVE). Returns a handle that undoes the
        definition. Raises: RegistrationError if the operator is already defined, even by the same
        text.
        """
        site = caller_site()
        self._check_open(site)
        if self.kind == "IMPL":
            rule = "be called on a DEF or FRAGMENT library"
            raise errors.wrong_registration(f"define({text!r})", rule, site)
        for arg, value in (("text", text), ("alias_analysis", alias_analysis)):
            if not isinstance(value, str):
                raise errors.wrong_type("define", arg, "be a string", value)
        are_tags = is_iterable(tags) and all(isinstance(t, str) for t in tags)
        if not isinstance(tags, str) and not are_tags:
            raise errors.wrong_type("define", "tags", "be strings, or one", tags)
        if alias_analysis not in ALIAS_ANALYSIS:
            rule = f"be one of {ALIAS_ANALYSIS}"
            raise errors.must("define", "alias_analysis", rule, alias_analysis)
        if fn is not None and "(" not in text:
            from .infer_schema import infer_schema

            _check_callable("define", fn)
            text, alias_analysis = infer_schema(fn, op_name=text), alias_analysis or "CONSERVATIVE"
        parsed = schema.parse(text)
        name = parsed.name
        if name.namespace not in ("", self.ns):
            rule = f"have the namespace '{self.ns}' of its library, or none"
            raise errors.wrong_registration(f"define({text!r})", rule, site)
        full = text.strip() if name.namespace else f"{self.ns}::{text.strip()}"
        parsed = parsed.named(schema.OperatorName(self.ns, name.base, name.overload))
        tags = (tags,) if isinstance(tags, str) else tuple(map(str, tags))
        analysis = alias_analysis or "FROM_SCHEMA"
        operator = dispatcher.define(full, tags, site, analysis, parsed=parsed)
        handle = definition = dispatcher.undefining(operator)
        if fn is not None:
            try:
                kernel = self._register(operator.qualified_name, fn, "", False, False, True, site)
            except BaseException:
                handle.remove()
                raise

            def undo_both() -> None:
                kernel.remove()
                definition.remove()

            handle = Handle(undo_both)
        return self._keep(handle)

    # --- impl -----------------------------------------------------------------------------------

    @overload
    def impl(
        self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = True, boxed: bool = False,
    ) -> Handle: ...  # fmt: skip
    @overload
    def impl(
        self, op_name: Any, fn: str | None = None, dispatch_key: str = "", *,
        with_keyset: bool = False, allow_override: bool = True, boxed: bool = False,
    ) -> Callable[[Function], Function]: ...  # fmt: skip
    def impl(
        self, op_name: Any, fn: Any = None, dispatch_key: str = "", *, with_keyset: bool = False,
        allow_override: bool = True, boxed: bool = False,
    ) -> Any:  # fmt: skip
        """Register `fn` as the operator's kernel at a key. The newest kernel of a key is used.

        op_name: "scale", "scale.overload", "mylib::scale" or an operator; it need not be defined
        yet. with_keyset: fn takes the key set as its first argument. boxed: fn takes (operator,
        key_set, stack) and replaces the arguments on the stack by the results. Returns a handle
        that undoes the registration. Without fn, returns a decorator: `@lib.impl("scale", "CPU")`.
        Raises: RegistrationError if fn does not take the schema's arguments, and for a key or a
        namespace other than the library's.
        """
        site = caller_site()
        if isinstance(fn, str):
            fn, dispatch_key = None, fn
        how = (dispatch_key, with_keyset, boxed, allow_override, site)
        if fn is None:

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                self._keep(self._register(op_name, function, *how))
                return function

            return decorate
        return self._keep(self._register(op_name, fn, *how))

    def _register(
        self, op_name: Any, fn: Any, dispatch_key: str, with_keyset: bool, boxed: bool,
        allow_override: bool, site: str,
    ) -> Handle:  # fmt: skip
        self._check_open(site)
        _check_callable("impl", fn)
        name = self._qualified(op_name, site)
        key = self._key("impl", op_name, dispatch_key, site) or keys.CompositeImplicitAutograd
        with dispatcher.lock:
            operator = dispatcher.get(name)
            stack = () if operator is None else operator.kernels.get(key, ())
            if stack and not allow_override:
                raise errors.may_not_override(operator, key, stack[0].site, site)
            has_composite = operator and keys.CompositeImplicitAutograd in operator.kernels
            if key.name == "Meta" and has_composite:
                rule = "not hide the operator's CompositeImplicitAutograd kernel"
                remedy = "register Meta kernels for the operators that it calls"
                raise errors.wrong_registration(f"{name}: a Meta kernel", rule, site, remedy)
            convention = _convention(fn, with_keyset, boxed, "user", "keyset")
            handle = dispatcher.register_kernel(name, key, _function(fn), convention, site)
        if stack and key.name != "Meta":
            warning = errors.kernel_overridden(operator, key, stack[0].site, site)
            try:
                warnings.warn(warning, stacklevel=3)
            except errors.OverrideWarning:  # a warnings filter made the warning an error
                handle.remove()
                raise
        return handle

    # --- fallback -------------------------------------------------------------------------------

    def fallback(
        self, fn: Any = None, dispatch_key: str = "", *, with_keyset: bool = False,
        boxed: bool = False,
    ) -> Any:  # fmt: skip
        """Register `fn` at a key for all operators that have no kernel there. The namespace must be
        "_".

        fn takes (operator, *args, **kwargs); arguments equal to their defaults are omitted.
        with_keyset: the key set comes first. boxed: fn takes (operator, key_set, stack). Without
        fn, return a decorator. Raises: RegistrationError if the key already has a fallback.
        """
        site = caller_site()
        if isinstance(fn, str):
            fn, dispatch_key = None, fn
        how = (dispatch_key, with_keyset, boxed, site)
        if fn is None:

            def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
                self._keep(self._register_fallback(function, *how))
                return function

            return decorate
        return self._keep(self._register_fallback(fn, *how))

    def _register_fallback(
        self, fn: Any, dispatch_key: str, with_keyset: bool, boxed: bool, site: str
    ) -> Handle:
        self._check_open(site)
        _check_callable("fallback", fn)
        if self.ns != "_":
            rule = f"be called on a library of '_', not '{self.ns}'"
            raise errors.wrong_registration("fallback", rule, site)
        key = self._key("fallback", "", dispatch_key, site)
        if key is None:
            raise errors.wrong_registration("fallback", "be given a dispatch key", site)
        convention = _convention(fn, with_keyset, boxed, "handler", "keyset_handler")
        return dispatcher.register_fallback(key, _function(fn), convention, site)

    # --- rules ----------------------------------------------------------------------------------

    def _keep(self, handle: Handle) -> Handle:
        self._handles.append(handle)
        return handle

    def _check_open(self, site: str) -> None:
        if not self._finalizer.alive:
            raise errors.wrong_registration(f"{self!r}", "be open, but was destroyed", site)

    def _qualified(self, op_name: Any, site: str) -> str:
        if isinstance(op_name, Operator):
            name = op_name.qualified_name
        elif isinstance(op_name, str) or hasattr(op_name, "qualified_name"):
            name = op_name if isinstance(op_name, str) else op_name.qualified_name
        else:
            rule = "be an operator or its name"
            raise errors.wrong_type("impl", "op_name", rule, op_name)
        namespace, colons, rest = name.rpartition("::")
        if colons and namespace != self.ns:
            rule = f"have the namespace '{self.ns}' of its library"
            raise errors.wrong_registration(f"impl({name!r})", rule, site)
        if self.ns == "_":
            rule = "not be in '_', which holds fallbacks"
            raise errors.wrong_registration(f"impl({name!r})", rule, site)
        base, dot, overload = rest.partition(".")
        if not base.isidentifier() or (dot and not overload.isidentifier()):
            raise errors.must("impl", "op_name", "be written [ns::]name[.overload]", name)
        return f"{self.ns}::{rest}"

    def _key(self, what: str, op_name: Any, given: str, site: str) -> Key | None:
        """Return the key `given`. If the call names no key, return the library's key; None if the
        library has no key."""
        if not isinstance(given, (str, keys.DispatchKey, keys.AliasKey)):
            raise errors.wrong_type(what, "dispatch_key", "name a dispatch key", given)
        given = str(given)
        if given in _NO_KEY:
            given = self.dispatch_key
        elif self.dispatch_key and keys.key(given) is not keys.key(self.dispatch_key):
            raise errors.wrong_registration(
                f"{what}({str(op_name)!r}): the dispatch key {given}",
                f"be the library's, {self.dispatch_key}, as both are given", site,
            )  # fmt: skip
        return None if given in _NO_KEY else keys.key(given)


def _check_callable(what: str, fn: Any) -> None:
    if not callable(fn):
        raise errors.wrong_type(what, "fn", "be callable", fn)


def _function(fn: Any) -> Callable[..., Any] | None:
    return None if fn is fallthrough_kernel else fn


def _convention(fn: Any, with_keyset: bool, boxed: bool, plain: str, keyset: str) -> str:
    # Our own kernels declare their calling convention.
    own: str | None = getattr(fn, "kernel_convention", None)
    if own is not None:
        return own
    is_boxed, takes_keys = flag("impl", "boxed", boxed), flag("impl", "with_keyset", with_keyset)
    return "boxed" if is_boxed else keyset if takes_keys else plain


def _close(handles: list[Handle], namespace: str | None) -> None:
    # Remove the newest first, so that no older kernel of this library becomes active in between.
    with dispatcher.lock:
        while handles:
            handles.pop().remove()
        if namespace is not None:
            _defined_namespaces.pop(namespace, None)
