"""Computed tables: the precedence of section 1 and behaviours 1 to 21 of section 4."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys
from gputensor.library import Library, fallthrough_kernel

from ..operands import CPU, Operand, fresh_namespace, kernel, library

# "-" means a registration without a key.
ALIASES = {"CIA": "CompositeImplicitAutograd", "CEA": "CompositeExplicitAutograd", "-": ""}
GOLDEN = Path(__file__).parents[2] / "golden" / "dispatch.txt"


def register(lib: Library, at: str, name: str = "f(Tensor x) -> Tensor") -> None:
    """Define `name` and register a kernel at each key of `at`; the key is the kernel's name."""
    lib.define(name)
    for key in at.split():
        lib.impl("f", kernel(key), ALIASES.get(key, key))


def owner(lib: Library, key: str) -> str:
    """Return the registered key whose kernel is in the slot, or the label of the rule."""
    found, why = dispatch.find(f"{lib.ns}::f").table.slot(keys.runtime_key(key))
    if found is None or found.function is None or why == "backend fallback":
        return why
    return found.function.__name__


def owners(lib: Library, at: str) -> list[str]:
    return [owner(lib, key) for key in at.split()]


def test_1_every_registration_is_listed(lib: Library) -> None:
    register(lib, "- CPU Autograd AutogradCPU")
    lines = dispatch.dump(f"{lib.ns}::f").splitlines()
    heads = [line.split(":")[0] for line in lines]
    assert heads == [
        "name", "schema", "debug", "alias analysis kind", "CPU", "AutogradCPU", "Autograd[alias]",
        "CompositeImplicitAutograd[alias]",
    ]  # fmt: skip
    assert all("test_tables.py" in line for line in lines[4:])


def test_4_a_definition_alone_has_no_kernels(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    assert "schema: " + f"{lib.ns}::f(Tensor x) -> Tensor" in dispatch.dump(f"{lib.ns}::f")
    assert not dispatch.find(f"{lib.ns}::f").kernels
    assert not dispatch.has_computed_kernel(f"{lib.ns}::f", "CPU")


def test_5_kernels_alone_are_dangling(lib: Library) -> None:
    with library("IMPL", lib.ns) as other:
        other.impl("f", kernel("CPU"), "CPU")
        text = dispatch.dump(f"{lib.ns}::f")
        assert (
            "schema: (none)" in text and "CPU: registered at" in text and "test_tables.py" in text
        )
        assert f"{lib.ns}::f" in dispatch.dangling_impls()
        with pytest.raises(
            errors.DispatchError, match=r"no schema \(CPU at .*test_tables.py:\d+\); define it"
        ):
            dispatch.find(f"{lib.ns}::f")
    assert dispatch.dangling_impls() == []


def test_6_a_kernel_for_everything_gives_way(lib: Library) -> None:
    register(lib, "CIA CPU XLA Autograd AutogradCPU")
    assert set(owners(lib, "Undefined CUDA AutogradOther AutogradCUDA")) == {"CIA"}
    assert owners(lib, "CPU XLA AutogradCPU AutogradXLA") == [
        "CPU",
        "XLA",
        "AutogradCPU",
        "Autograd",
    ]


def test_7_a_backend_kernel_hides_the_composite_from_its_autograd_key(lib: Library) -> None:
    register(lib, "CIA CPU")
    assert owners(lib, "AutogradCPU AutogradCUDA") == ["backend fallback", "CIA"]


def test_8_a_composite_alone_serves_everything(lib: Library) -> None:
    register(lib, "CIA")
    served = keys.CompositeImplicitAutograd.keys
    assert {owner(lib, key.name) for key in served} == {"CIA"} and len(served) > 25


def test_9_autograd_alone_serves_no_backend(lib: Library) -> None:
    register(lib, "Autograd")
    assert {owner(lib, key.name) for key in keys.Autograd.keys} == {"Autograd"}
    assert {owner(lib, b) for b in keys.BACKENDS} == {"missing"} == {owner(lib, "Undefined")}


def test_10_autograd_is_used_where_a_backend_kernel_is(lib: Library) -> None:
    register(lib, "CPU Autograd CIA")
    assert owners(lib, "AutogradCPU AutogradOther AutogradCUDA CUDA Undefined") == [
        "Autograd",
        *["CIA"] * 4,
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(("CIA", "QuantizedCPU"))))
def test_11_b_autograd_other_is_ambiguous_in_either_order(
    lib: Library, order: tuple[str, ...]
) -> None:
    """PyTorch leaves the slot stale when the backend kernel comes last (section 0b)."""
    register(lib, " ".join(order))
    assert owners(lib, "AutogradOther AutogradCPU QuantizedCPU") == [
        "ambiguous autogradother", "CIA", "QuantizedCPU",
    ]  # fmt: skip
    other = Operand(bits=keys.key_set(("AutogradOther", "CPU")))
    with pytest.raises(errors.DispatchError, match="AutogradOther is ambiguous") as caught:
        dispatch.find(f"{lib.ns}::f")(other)
    message = str(caught.value)
    assert "CompositeImplicitAutograd at " in message and "QuantizedCPU at " in message
    assert (
        message.count("test_tables.py:") == 2
        and f"schema {lib.ns}::f(Tensor x) -> Tensor" in message
    )


def test_11_aliases_do_not_cure_the_ambiguity_and_a_direct_kernel_does(lib: Library) -> None:
    register(lib, "CIA SparseCPU Autograd")
    assert owner(lib, "AutogradOther") == "ambiguous autogradother"
    lib.impl("f", kernel("own"), "AutogradOther")
    assert owner(lib, "AutogradOther") == "own"


def test_12_an_explicit_composite_leaves_autograd_alone(lib: Library) -> None:
    register(lib, "CPU CEA")
    assert owners(lib, "CPU CUDA XLA Undefined") == ["CPU", "CEA", "CEA", "CEA"]
    assert {owner(lib, key.name) for key in keys.Autograd.keys} == {"backend fallback"}


@pytest.mark.parametrize("at", ["CPU Autograd CEA", "CPU Autograd CIA CEA"])
def test_13_14_autograd_beats_the_implicit_composite_where_there_is_an_explicit_one(
    lib: Library, at: str
) -> None:
    register(lib, at)
    assert {owner(lib, key.name) for key in keys.Autograd.keys} == {"Autograd"}
    assert owner(lib, "QuantizedCPU") == "CEA"


def test_the_non_functional_composite_comes_first(lib: Library) -> None:
    register(lib, "CIA CEA CompositeExplicitAutogradNonFunctional")
    assert owners(lib, "CPU Undefined XLA SparseCPU") == [
        *["CompositeExplicitAutogradNonFunctional"] * 2, "CEA", "CEA",
    ]  # fmt: skip


def test_a_direct_fallthrough_hides_what_comes_later(lib: Library) -> None:
    register(lib, "CIA")
    lib.impl("f", fallthrough_kernel, "CPU")
    assert owner(lib, "CPU") == "kernel"
    assert "CPU: fallthrough registered at" in dispatch.dump_table(f"{lib.ns}::f")


def test_18_kernels_of_one_key_are_a_stack() -> None:
    first, second = library(), None
    with first:
        first.define("f(Tensor x) -> Tensor")
        first.impl("f", kernel("first"))
        second = Library(first.ns, "IMPL")
        with pytest.warns(errors.OverrideWarning):
            second.impl("f", kernel("second"))
        assert owner(first, "CPU") == "second"
        text = dispatch.dump(f"{first.ns}::f")
        assert "CompositeImplicitAutograd[alias] (inactive)" in text and text.count("[ user ]") == 2
        second._destroy()
        assert owner(first, "CPU") == "first"
        assert "(inactive)" not in dispatch.dump(f"{first.ns}::f")


def test_20_registrations_of_a_key(lib: Library) -> None:
    register(lib, "CPU")
    lib.define("g(Tensor x) -> Tensor")
    found = dispatch.registrations_for_key("CPU")
    assert f"{lib.ns}::f" in found and f"{lib.ns}::g" not in found
    with pytest.raises(errors.ArgumentError, match="CPUU"):
        dispatch.registrations_for_key("CPUU")


def test_has_kernel_asks_for_registrations_and_has_computed_kernel_for_slots(lib: Library) -> None:
    register(lib, "CIA")
    name = f"{lib.ns}::f"
    assert dispatch.has_kernel(name, "CompositeImplicitAutograd") and not dispatch.has_kernel(
        name, "CPU"
    )
    assert dispatch.has_computed_kernel(name, "CPU")
    with pytest.raises(errors.ArgumentError, match="run-time key"):
        dispatch.has_computed_kernel(name, "CompositeImplicitAutograd")
    with pytest.raises(errors.DispatchError, match="no such operator"):
        dispatch.has_kernel("nothing::at_all", "CPU")


def test_names_without_registrations_print_nothing() -> None:
    assert dispatch.dump("nothing::at_all") == "" == dispatch.dump_table("nothing::at_all")


def test_21_invariants_hold_and_are_able_to_fail(lib: Library) -> None:
    register(lib, "CPU")
    operator = dispatch.find(f"{lib.ns}::f")
    operator(CPU)
    dispatch.check_invariants()
    kept, operator.table = operator.table, type(operator.table)(operator, {})
    with pytest.raises(AssertionError):
        dispatch.check_invariants()
    operator.table = kept


SITES = (
    "CPU",
    "QuantizedCPU",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "Autograd",
    "AutogradOther",
)


@pytest.mark.parametrize("chosen", list(itertools.combinations(SITES, 3)))
def test_every_order_of_registering_and_undoing_gives_one_table(chosen: tuple[str, ...]) -> None:
    """Each subset of live registrations has one table, whatever the path to it."""
    seen: dict[frozenset[str], str] = {}
    with library() as lib:
        lib.define("f(Tensor x) -> Tensor")
        name, other = f"{lib.ns}::f", library("IMPL", lib.ns)

        def look(live: set[str]) -> None:
            table = "".join(f"{k.name} {owner(lib, k.name)}\n" for k in keys.RUNTIME_KEYS)
            assert seen.setdefault(frozenset(live), table) == table, (live, name)

        for order in itertools.permutations(chosen):
            for undo in itertools.permutations(chosen):
                handles, live = {}, set()
                for key in order:
                    handles[key] = other.impl("f", kernel(key), key)
                    live.add(key)
                    look(live)
                for key in undo:
                    handles[key].remove()
                    live.discard(key)
                    look(live)
    assert len(seen) == 8


def test_tables_agree_with_pytorchs() -> None:
    """Frozen from PyTorch by `python -m tests.golden.freeze_dispatch`."""
    cases = [block.split("\n") for block in GOLDEN.read_text().strip().split("\n\n")]
    assert len(cases) >= 100
    for registered, *slots in cases:
        with library() as lib:
            lib.define("f(Tensor x) -> Tensor")
            for word in registered.split()[1:]:
                key, _, fallthrough = word.partition("=")
                lib.impl("f", fallthrough_kernel if fallthrough else kernel(key), key)
            assert golden_lines(f"{lib.ns}::f") == slots, registered


def golden_lines(name: str) -> list[str]:
    """The slots of an operator as the golden file writes them: `label: keys`, fallbacks left
    out."""
    table = dispatch.find(name).table
    labels: dict[str, list[str]] = {}
    for key in keys.RUNTIME_KEYS:
        found, why = table.slot(key)
        if why not in ("missing", "backend fallback"):
            label = why + (" fallthrough" if found is not None and found.is_fallthrough else "")
            labels.setdefault(label, []).append(key.name)
    return [f"{label}: {' '.join(labels[label])}" for label in sorted(labels)]


def test_an_operator_object_outlives_its_registrations() -> None:
    ns = fresh_namespace()
    with Library(ns, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        held = dispatch.find(f"{ns}::f")
    assert dispatcher.get(f"{ns}::f") is None
    with pytest.raises(errors.DispatchError):
        held(CPU)
    with Library(ns, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", kernel("again"), "CPU")
        assert dispatch.find(f"{ns}::f") is held
        assert held(CPU) is CPU
