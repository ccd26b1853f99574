"""Random sequences of definitions, registrations, removals and calls, against a small model.

The model keeps a list of live registrations and decides a call directly by the rules of section 1;
it shares no code with the tables.
"""

from __future__ import annotations

import warnings
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys
from gputensor.library import Library, fallthrough_kernel

from ...harness import tier
from ..operands import Operand, fresh_namespace

KEYS = (
    "CPU", "Meta", "SparseCPU", "Functionalize", "AutogradCPU", "AutogradOther", "Autograd",
    "CompositeExplicitAutograd", "CompositeImplicitAutograd", "TESTING_ONLY_GenericMode",
)  # fmt: skip
FALLBACK_KEYS = ("Functionalize", "TESTING_ONLY_GenericMode")
OPERANDS = {
    "cpu": ("AutogradCPU", "ADInplaceOrView", "BackendSelect", "CPU"),
    "meta": ("AutogradMeta", "ADInplaceOrView", "BackendSelect", "Meta"),
    "sparse": ("AutogradOther", "ADInplaceOrView", "BackendSelect", "SparseCPU"),
    "functionalised": ("AutogradCPU", "ADInplaceOrView", "Functionalize", "BackendSelect", "CPU"),
    "in mode": (
        "TESTING_ONLY_GenericMode",
        "AutogradCPU",
        "ADInplaceOrView",
        "BackendSelect",
        "CPU",
    ),
}
BUILTIN_FALLTHROUGHS = {
    "BackendSelect",
    "ADInplaceOrView",
    "AutogradCPU",
    "AutogradMeta",
    "AutogradOther",
}


class Dispatcher(RuleBasedStateMachine):
    """One operator, its live registrations (the newest is last), and fallbacks."""

    def __init__(self) -> None:
        super().__init__()
        self.ns = fresh_namespace()
        self.definition: Any = None
        self.definer = Library(self.ns, "DEF")
        self.library = Library(self.ns, "IMPL")
        self.wide = Library("_", "IMPL")
        self.live: list[
            tuple[str, Any, Any]
        ] = []  # key, returned value (None: falls through), handle
        self.fallbacks: dict[str, tuple[Any, Any]] = {}
        self.count = 0

    def teardown(self) -> None:
        for lib in (self.library, self.definer, self.wide):
            lib._destroy()
        assert dispatcher.get(f"{self.ns}::f") is None

    # --- the model --------------------------------------------------------------------------------

    def newest(self, key: str) -> tuple[Any] | None:
        """Return (answer,) of the newest live registration at `key`; None if there is none."""
        return next(((answer,) for k, answer, _ in reversed(self.live) if k == key), None)

    def slot(self, key: str) -> tuple[Any] | None:
        """Return (answer,), with answer None for a fallthrough; None if the slot has no kernel."""
        autograd = key.startswith("Autograd")
        explicit = self.newest("CompositeExplicitAutograd")
        implicit = self.newest("CompositeImplicitAutograd")
        composite = autograd or key in ("CPU", "Meta", "SparseCPU", "Undefined")
        if self.newest(key):
            return self.newest(key)
        if explicit and composite and not autograd:
            return explicit
        backend = {"AutogradCPU": "CPU", "AutogradMeta": "Meta", "AutogradOther": "SparseCPU"}.get(
            key, ""
        )
        if implicit and composite:
            if key == "AutogradOther" and self.newest(backend):
                return ("ambiguous",)
            if not (autograd and (explicit or self.newest(backend))):
                return implicit
        if autograd and self.newest("Autograd"):
            return self.newest("Autograd")
        if key in self.fallbacks:
            return (self.fallbacks[key][0],)
        return (None,) if key in BUILTIN_FALLTHROUGHS else None

    def expected(self, on_the_way: tuple[str, ...]) -> Any:
        for key in (*on_the_way, "Undefined"):
            found = self.slot(key)
            if found is None:
                return "missing"
            if found[0] is not None:
                return found[0]
        return "missing"

    # --- rules ------------------------------------------------------------------------------------

    @precondition(lambda self: self.definition is None)
    @rule()
    def define(self) -> None:
        self.definition = self.definer.define("f(Tensor x) -> str")

    @precondition(lambda self: self.definition is not None)
    @rule()
    def define_twice(self) -> None:
        before = dispatch.dump(f"{self.ns}::f")
        try:
            self.definer.define("f(Tensor x) -> str")
        except errors.RegistrationError:
            pass
        else:
            raise AssertionError("a second definition went through")
        assert dispatch.dump(f"{self.ns}::f") == before

    @precondition(lambda self: self.definition is not None)
    @rule()
    def undefine(self) -> None:
        self.definition.remove()
        self.definition = None

    @rule(key=st.sampled_from(KEYS), falls=st.booleans(), boxed=st.booleans())
    def register(self, key: str, falls: bool, boxed: bool) -> None:
        if key == "Meta" and self.newest("CompositeImplicitAutograd"):
            return  # refused: test_registration.py
        self.count += 1
        answer = None if falls else f"{key} {self.count}"

        def plain(x: Any) -> Any:
            return answer

        def on_stack(operator: Any, key_set: Any, stack: list[Any]) -> None:
            stack[:] = [answer]

        function = fallthrough_kernel if falls else on_stack if boxed else plain
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.OverrideWarning)
            self.live.append((key, answer, self.library.impl("f", function, key, boxed=boxed)))

    @precondition(lambda self: self.live)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        _, _, handle = self.live.pop(data.draw(st.integers(0, len(self.live) - 1)))
        handle.remove()

    @rule(key=st.sampled_from(FALLBACK_KEYS), falls=st.booleans())
    def toggle_fallback(self, key: str, falls: bool) -> None:
        if key in self.fallbacks:
            self.fallbacks.pop(key)[1].remove()
        else:
            answer = None if falls else f"fallback {key}"
            function = fallthrough_kernel if falls else lambda op, x: answer
            self.fallbacks[key] = (answer, self.wide.fallback(function, key))

    @precondition(lambda self: self.definition is not None)
    @rule(form=st.sampled_from(sorted(OPERANDS)))
    def call(self, form: str) -> None:
        operand = Operand(bits=keys.key_set(OPERANDS[form]))
        try:
            got = dispatch.find(f"{self.ns}::f")(operand)
        except errors.DispatchError as error:
            got = "ambiguous" if "is ambiguous" in str(error) else "missing"
        assert got == self.expected(OPERANDS[form])

    @invariant()
    def tables_follow_from_registrations(self) -> None:
        operator = dispatcher.get(f"{self.ns}::f")
        assert (operator is not None) == bool(self.live or self.definition)
        if operator is not None:
            assert operator.table.kernels is operator.kernels
            assert {k.name for k in operator.kernels} == {key for key, _, _ in self.live}
            dangling = self.definition is None
            assert (f"{self.ns}::f" in dispatch.dangling_impls()) == dangling


TestDispatcher = Dispatcher.TestCase
TestDispatcher.settings = settings(
    max_examples=tier.pick(10, 60), stateful_step_count=30, deadline=None
)
