"""Valid registrations: section 2, behaviours 2, 3, 15 to 18, 28 to 37 and bugs c, e, h, i."""

from __future__ import annotations

import gc
import warnings
from typing import Any

import pytest

from gputensor import dispatch, ops
from gputensor.core import errors, schema
from gputensor.dispatch import dispatcher, keys
from gputensor.library import Library, fallthrough_kernel

from ..operands import CPU, CUDA, Operand, fresh_namespace, kernel, library

HERE = r"test_registration\.py:\d+"


class Tensor:
    """Stands for gt.Tensor in annotations: schemas are inferred from the annotations' names."""


def test_2_definition_then_kernel_that_does_not_fit(lib: Library) -> None:
    lib.define("f(Tensor x, Tensor y) -> Tensor")
    before = dispatch.dump(f"{lib.ns}::f")
    with pytest.raises(errors.RegistrationError) as caught:
        lib.impl("f", lambda x: x, "CPU")
    message = str(caught.value)
    assert f"{lib.ns}::f(Tensor x, Tensor y) -> Tensor" in message and "<lambda>(x)" in message
    assert message.count("test_registration.py:") == 2 and "2 positional arguments" in message
    assert "registered for CPU at" in message
    assert dispatch.dump(f"{lib.ns}::f") == before


def test_a_schema_is_parsed_once(lib: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse = schema.parse
    monkeypatch.setattr(schema, "parse", lambda text: (parsed.append(text), parse(text))[1])
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    assert str(ops.__getattr__(lib.ns).f.default._schema) == f"{lib.ns}::f(Tensor x) -> Tensor"
    assert parsed == ["f(Tensor x) -> Tensor"]


def test_2_kernel_then_definition_that_does_not_fit(lib: Library) -> None:
    with library("IMPL", lib.ns) as other:
        other.impl("f", lambda x: x, "CPU")
        before = dispatch.dump(f"{lib.ns}::f")
        with pytest.raises(errors.RegistrationError, match=rf"{HERE}.*{HERE}.*2 positional"):
            lib.define("f(Tensor x, Tensor y) -> Tensor")
        assert dispatch.dump(f"{lib.ns}::f") == before
        lib.define("f(Tensor x) -> Tensor")


def test_2_keyword_only_arguments_are_given_by_name(lib: Library) -> None:
    lib.define("f(Tensor x, *, int n=0) -> Tensor")
    with pytest.raises(errors.RegistrationError, match="n by keyword"):
        lib.impl("f", lambda x: x, "CPU")
    lib.impl("f", lambda x, *, n: x, "CPU")
    lib.impl("f", lambda key_set, x, n: x, "CUDA", with_keyset=True)
    with pytest.raises(errors.RegistrationError, match="3 positional"):
        lib.impl("f", lambda x: x, "Meta", boxed=True)


def test_2_a_failing_kernel_leaves_no_operator_behind(lib: Library) -> None:
    with pytest.raises(errors.ArgumentTypeError):
        lib.impl("f", 3, "CPU")
    assert dispatcher.get(f"{lib.ns}::f") is None


def test_3_a_function_defines_its_operator(lib: Library) -> None:
    def f(
        x: Tensor, by: float = 2.0, sizes: list[int] | None = None, *, flag: bool = False
    ) -> Tensor:
        return x

    lib.define("f", f)
    text = dispatch.dump(f"{lib.ns}::f")
    assert (
        f"{lib.ns}::f(Tensor x, float by=2.0, SymInt[]? sizes=None, *, bool flag=False) -> Tensor"
        in text
    )
    assert "alias analysis kind: CONSERVATIVE" in text
    assert "CompositeImplicitAutograd[alias]: registered at" in text
    assert ops.__getattr__(lib.ns).f(CPU) is CPU


def test_3_what_a_schema_cannot_say_is_named(lib: Library) -> None:
    def f(x: Tensor, y: dict[str, int]) -> Tensor:
        return x

    with pytest.raises(errors.ArgumentValueError, match="'y' must have an annotation"):
        lib.define("f", f)
    assert dispatcher.get(f"{lib.ns}::f") is None


def test_a_definition_with_a_kernel_is_one_step(lib: Library) -> None:
    """As RegisterOperators does in PyTorch. If the kernel does not fit, the definition is
    removed."""
    handle = lib.define("f(Tensor x) -> Tensor", lambda x: x)
    assert ops.__getattr__(lib.ns).f(CPU) is CPU
    handle.remove()
    assert dispatcher.get(f"{lib.ns}::f") is None
    with pytest.raises(errors.RegistrationError, match="must agree"):
        lib.define("f(Tensor x) -> Tensor", lambda: None)
    assert dispatcher.get(f"{lib.ns}::f") is None


@pytest.mark.parametrize("analysis", ["", "PURE_FUNCTION", "CONSERVATIVE"])
def test_15_a_second_definition_is_an_error(lib: Library, analysis: str) -> None:
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(
        errors.RegistrationError, match=rf"f: defined twice, at .*{HERE} and at .*{HERE}; schema"
    ):
        lib.define("f(Tensor x) -> Tensor", alias_analysis=analysis)
    lib.define("f.other(Tensor x) -> Tensor")


def test_16_alias_analysis_is_reported(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor", alias_analysis="PURE_FUNCTION")
    assert "alias analysis kind: PURE_FUNCTION" in dispatch.dump(f"{lib.ns}::f")
    with pytest.raises(errors.ArgumentError, match="alias_analysis"):
        lib.define("g(Tensor x) -> Tensor", alias_analysis="NONE")


def test_17_a_second_fallback_is_an_error() -> None:
    with library("IMPL", "_") as lib:
        lib.fallback(kernel("one"), "TESTING_ONLY_GenericMode")
        with pytest.raises(
            errors.RegistrationError, match=rf"GenericMode: .*{HERE}, and again at .*{HERE}"
        ):
            lib.fallback(kernel("two"), "TESTING_ONLY_GenericMode")
        with pytest.raises(errors.RegistrationError, match="AutogradOther.*fallback.py"):
            lib.fallback(kernel("two"), "Autograd")


def test_fallbacks_need_the_namespace_and_a_key(lib: Library) -> None:
    with pytest.raises(errors.RegistrationError, match="library of '_'"):
        lib.fallback(kernel("f"), "Conjugate")
    with (
        library("IMPL", "_") as wide,
        pytest.raises(errors.RegistrationError, match="dispatch key"),
    ):
        wide.fallback(kernel("f"))


def test_28_libraries_end_apart(lib: Library) -> None:
    for name in "fg":
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, kernel("original"), "CPU")
    one, two = library("IMPL", lib.ns), library("IMPL", lib.ns)
    log: list[str] = []
    with pytest.warns(errors.OverrideWarning):
        one.impl("f", kernel("one", log), "CPU")
        two.impl("g", kernel("two", log), "CPU")
    call = {name: dispatch.find(f"{lib.ns}::{name}") for name in "fg"}
    call["f"](CPU), call["g"](CPU)
    one._destroy()
    call["f"](CPU), call["g"](CPU)
    two._destroy()
    call["f"](CPU), call["g"](CPU)
    assert log == ["one", "two", "two"]


def test_29_an_operator_of_another_namespace(lib: Library) -> None:
    with pytest.raises(errors.RegistrationError, match=f"aten::add.*namespace '{lib.ns}'"):
        lib.impl("aten::add.Tensor", kernel("f"), "CPU")
    with pytest.raises(errors.RegistrationError, match="namespace"):
        lib.define("aten::f(Tensor x) -> Tensor")
    lib.define(f"{lib.ns}::f(Tensor x) -> Tensor")
    lib.impl(f"{lib.ns}::f", kernel("f"), "CPU")


def test_30_the_keys_of_call_and_library(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    with Library(lib.ns, "IMPL", "CPU") as cpu:
        with pytest.raises(errors.RegistrationError, match="Conjugate.*CPU"):
            cpu.impl("f", kernel("f"), "Conjugate")
        cpu.impl("f", kernel("f"))
        assert f"{lib.ns}::f" in dispatch.registrations_for_key("CPU")
    with pytest.raises(errors.ArgumentError, match="did you mean"):
        Library(lib.ns, "IMPL", "CCPU")


@pytest.mark.parametrize("key", ["", "Undefined", "CatchAll"])
def test_no_key_means_the_implicit_composite(lib: Library, key: str) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel("f"), key)
    assert dispatch.has_kernel(f"{lib.ns}::f", "CompositeImplicitAutograd")


def test_31_a_kernel_must_be_callable(lib: Library) -> None:
    with pytest.raises(TypeError, match="'fn' must be callable"):
        lib.impl("f", 3, "CPU")
    with library("IMPL", "_") as wide, pytest.raises(TypeError, match="'fn' must be callable"):
        wide.fallback(3, "Conjugate")


def test_33_kernels_from_another_library(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    log: list[str] = []
    with library("IMPL", lib.ns) as other:
        other.impl("f", kernel("CPU", log), "CPU")
        other.impl("f", kernel("ZeroTensor", log), "ZeroTensor")
        operator = dispatch.find(f"{lib.ns}::f")
        operator(CPU), operator(Operand("CPU", "ZeroTensor"))
    assert log == ["CPU", "ZeroTensor"]


def test_34_fragments_stand_alone_and_beside_a_definition() -> None:
    ns = fresh_namespace()
    with Library(ns, "FRAGMENT") as one, Library(ns, "FRAGMENT") as two:
        one.define("f(Tensor x) -> Tensor")
        with Library(ns, "DEF") as main:
            main.define("g(Tensor x) -> Tensor")
            two.define("h(Tensor x) -> Tensor")
            assert {"f", "g", "h"} <= set(dir(ops.__getattr__(ns)))


def test_35_unknown_kinds_and_reserved_namespaces() -> None:
    with pytest.raises(ValueError, match="DEF, FRAGMENT, IMPL"):
        Library("x", "DEFINE")
    for kind in ("DEF", "FRAGMENT"):
        with pytest.raises(ValueError, match="reserved"):
            Library("prim", kind)
    with pytest.raises(ValueError, match="identifier"):
        Library("a-b", "DEF")


def test_36_a_second_definition_library(lib: Library) -> None:
    with pytest.raises(
        errors.RegistrationError, match=rf"made at .*operands\.py:\d+ .*{HERE}.*FRAGMENT"
    ):
        Library(lib.ns, "DEF")
    with pytest.raises(errors.RegistrationError, match="'aten'"):
        Library("aten", "DEF")
    lib._destroy()
    Library(lib.ns, "DEF")._destroy()


def test_37_a_library_ends_with_its_last_reference() -> None:
    ns = fresh_namespace()
    made = Library(ns, "DEF")
    made.define("f(Tensor x) -> Tensor")
    made.impl("f", kernel("f"), "CPU")
    assert hasattr(ops.__getattr__(ns), "f")
    del made
    gc.collect()
    assert dispatch.dump(f"{ns}::f") == "" and not hasattr(ops.__getattr__(ns), "f")
    Library(ns, "DEF")._destroy()


def test_a_destroyed_library_is_closed(lib: Library) -> None:
    lib._destroy()
    lib._destroy()
    for act in (lambda: lib.define("f() -> ()"), lambda: lib.impl("f", kernel("f"))):
        with pytest.raises(errors.RegistrationError, match="destroyed"):
            act()


def test_removing_a_definition_keeps_the_kernels(lib: Library) -> None:
    handle = lib.define("f(Tensor x) -> Tensor")
    with library("IMPL", lib.ns) as other:
        other.impl("f", kernel("f"), "CPU")
        handle.remove()
        assert dispatch.dangling_impls() == [f"{lib.ns}::f"]
        lib.define("f(Tensor x) -> Tensor")
        assert dispatch.find(f"{lib.ns}::f")(CPU) is CPU
        handle.remove()
        assert dispatch.dangling_impls() == []


def test_a_handle_undoes_in_any_order_and_once(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    log: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        handles = {name: lib.impl("f", kernel(name, log), "CPU") for name in "abc"}
    operator = dispatch.find(f"{lib.ns}::f")
    for remove, left in (("b", "c"), ("b", "c"), ("c", "a")):
        handles[remove].remove()
        operator(CPU)
        assert log.pop() == left


def test_c_the_warning_names_the_kernel_that_is_displaced(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    sites = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lib.impl("f", kernel("f"), "CPU")
        sites += [w for w in caught if w.category is errors.OverrideWarning]
    with pytest.warns(errors.OverrideWarning) as third:
        lib.impl("f", kernel("f"), "CPU")
    second_site = dispatch.find(f"{lib.ns}::f").kernels[keys.key("CPU")][1].site
    assert len(sites) == 1 and second_site in str(third[0].message)
    assert third[0].filename == __file__


def test_an_override_that_is_an_error_changes_nothing(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel("f"), "CPU")
    before = dispatch.dump(f"{lib.ns}::f")
    with pytest.raises(
        errors.RegistrationError,
        match=rf"CPU is registered at .*{HERE}, and allow_override=False at .*{HERE}; schema",
    ):
        lib.impl("f", kernel("g"), "CPU", allow_override=False)
    with warnings.catch_warnings(), pytest.raises(errors.OverrideWarning):
        warnings.simplefilter("error", errors.OverrideWarning)
        lib.impl("f", kernel("g"), "CPU")
    assert dispatch.dump(f"{lib.ns}::f") == before


def test_meta_kernels_are_replaced_in_silence_but_not_beside_a_composite(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel("one"), "Meta")
    lib.impl("f", kernel("two"), "Meta")
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("g", kernel("all"))
    with pytest.raises(errors.RegistrationError, match="CompositeImplicitAutograd"):
        lib.impl("g", kernel("meta"), "Meta")


def test_e_the_namespace_of_fallbacks_defines_nothing() -> None:
    for kind in ("DEF", "FRAGMENT"):
        with pytest.raises(errors.RegistrationError, match="'_' must be of kind IMPL"):
            Library("_", kind)
        with pytest.raises(errors.RegistrationError, match="no dispatch key"):
            Library(fresh_namespace(), kind, "CPU")
    with library("IMPL") as other, pytest.raises(errors.RegistrationError, match="DEF or FRAGMENT"):
        other.define("f(Tensor x) -> Tensor")


def test_i_no_kernels_in_the_namespace_of_fallbacks() -> None:
    with library("IMPL", "_") as wide:
        with pytest.raises(errors.RegistrationError, match="holds fallbacks"):
            wide.impl("f", kernel("f"), "CPU")
        with pytest.raises(errors.RegistrationError, match="namespace"):
            wide.impl("aten::add.Tensor", kernel("f"), "CPU")


def test_64_arguments_and_no_more(lib: Library) -> None:
    arguments = [f"int a{i}=0" for i in range(64)]
    lib.define(f"f({', '.join(arguments)}) -> ()")
    with pytest.raises(errors.SchemaError, match="64"):
        lib.define(f"g({', '.join([*arguments, 'int b=0'])}) -> ()")
    assert dispatcher.get(f"{lib.ns}::g") is None


def test_decorators_return_the_function(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")

    @lib.impl("f", "CPU")
    def on_cpu(x: Any) -> Any:
        return "cpu" and x

    with library("IMPL", "_") as wide:

        @wide.fallback("TESTING_ONLY_GenericMode")
        def wrapper(operator: Any, *args: Any, **kwargs: Any) -> Any:
            return operator(*args, **kwargs)

        assert wrapper.__name__ == "wrapper"
    assert on_cpu(3) == 3 and dispatch.find(f"{lib.ns}::f")(CPU) is CPU


def test_fallthrough_kernel_is_not_for_calling() -> None:
    with pytest.raises(NotImplementedError, match="not called"):
        fallthrough_kernel()


def test_operators_and_packets_name_themselves(lib: Library) -> None:
    lib.define("f.a(Tensor x) -> Tensor")
    packet = ops.__getattr__(lib.ns).f
    lib.impl(packet.a, kernel("f"), "CPU")
    lib.impl("f.a", kernel("f"), "CUDA")
    assert packet(CUDA) is CUDA
    with pytest.raises(errors.ArgumentTypeError, match="op_name"):
        lib.impl(3, kernel("f"), "CPU")
    with pytest.raises(errors.ArgumentError, match="ns::"):
        lib.impl("f.a.b", kernel("f"), "CPU")
