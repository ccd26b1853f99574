"""Key sets: bits, priorities, difference. Section 1 of the fact sheet."""

from __future__ import annotations

import copy
import pickle

import pytest

from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import keys
from gputensor.dispatch.keys import KeySet, key_set
from gputensor.library import Library, fallthrough_kernel


def test_functionalities_are_in_pytorchs_order() -> None:
    order = list(keys.FUNCTIONALITIES)
    for low, high in [
        ("Dense", "Quantized"), ("Quantized", "Sparse"), ("Sparse", "BackendSelect"),
        ("BackendSelect", "Python"),
        ("Python", "Functionalize"), ("Functionalize", "Conjugate"), ("Conjugate", "Negative"),
        ("Negative", "ZeroTensor"), ("ZeroTensor", "ADInplaceOrView"), ("ADInplaceOrView",
        "AutogradOther"),
        ("AutogradOther", "Autograd"), ("Autograd", "AutocastCPU"), ("AutocastPrivateUse1",
        "PythonDispatcher"),
    ]:  # fmt: skip
        assert order.index(low) < order.index(high)


def test_every_key_is_the_highest_of_its_own_bits() -> None:
    for key in keys.RUNTIME_KEYS:
        assert keys.highest(key.bits) is key
        assert keys.RUNTIME_KEYS[key.index] is key


def test_the_highest_backend_of_the_whole_set_picks_the_column() -> None:
    both = key_set(("CPU", "AutogradCPU", "Meta", "AutogradMeta"))
    assert keys.highest(both).name == "AutogradMeta"
    assert keys.highest(keys.without_highest(both)).name == "Meta"
    assert "AutogradCUDA" in KeySet(key_set(("CPU", "CUDA", "AutogradCPU")))


def test_removing_a_per_backend_key_leaves_the_backend() -> None:
    rest = KeySet(key_set(("CPU", "AutogradCPU"))) - "AutogradCPU"
    assert rest == key_set(("CPU",))
    assert KeySet(key_set(("CPU",))) - "CPU" == keys.backend_bit("CPU")


def test_a_set_without_functionality_is_undefined() -> None:
    assert keys.highest(0) is keys.UNDEFINED
    assert keys.highest(keys.backend_bit("CUDA")) is keys.UNDEFINED
    # A functionality without a backend has no slot either.
    assert keys.highest(keys.functionality_bit("Autograd")) is keys.UNDEFINED


def test_full_after_holds_what_is_strictly_below_and_all_backends() -> None:
    mask = dispatch.full_after("AutogradCPU")
    assert "ADInplaceOrView" in mask and "AutogradOther" in mask and "PythonDispatcher" in mask
    assert "AutogradCPU" not in mask and "AutocastCPU" not in mask
    assert mask & keys.BACKEND_MASK == keys.BACKEND_MASK
    assert KeySet(keys.tensor_keys("CPU")).after("AutogradCPU") == key_set(
        ("ADInplaceOrView", "CPU")
    )


def test_39_key_sets_pickle_and_compare_by_content() -> None:
    one = KeySet(key_set(("CPU", "AutogradCPU")))
    for other in (
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
        KeySet(key_set(("AutogradCPU", "CPU"))),
    ):
        assert other == one and hash(other) == hash(one)
    assert one != KeySet(key_set(("CPU",)))
    assert pickle.loads(pickle.dumps(keys.UNDEFINED)) is keys.UNDEFINED
    assert pickle.loads(pickle.dumps(keys.Autograd)) is keys.Autograd


def test_tensors_carry_pytorchs_keys() -> None:
    assert KeySet(keys.tensor_keys("CPU")) == key_set(
        ("CPU", "ADInplaceOrView", "AutogradCPU", "AutocastCPU")
    )
    assert KeySet(keys.tensor_keys("Meta")) == key_set(("Meta", "ADInplaceOrView", "AutogradMeta"))
    assert KeySet(keys.tensor_keys("CPU", inference=True)) == key_set(("CPU", "AutocastCPU"))


def test_sets_print_their_keys_highest_first() -> None:
    assert (
        repr(KeySet(key_set(("CPU", "AutogradCPU", "Conjugate"))))
        == "KeySet({AutogradCPU, Conjugate, CPU})"
    )
    assert keys.describe(0) == "{}"
    assert keys.describe(keys.functionality_bit("Autograd")) == "{Autograd*}"
    assert [k.name for k in KeySet(key_set(("CPU", "CUDA")))] == ["CUDA", "CPU"]


def test_aliases_expand_as_in_pytorch() -> None:
    explicit = {k.name for k in keys.CompositeExplicitAutograd.keys}
    functional = {k.name for k in keys.CompositeExplicitAutogradNonFunctional.keys}
    implicit = {k.name for k in keys.CompositeImplicitAutograd.keys}
    autograd = {k.name for k in keys.Autograd.keys}
    assert {"Undefined", "CPU", "QuantizedCPU", "SparseXLA"} <= explicit and not explicit & autograd
    assert {n for n in explicit if "XLA" in n or "Sparse" in n} == explicit - functional
    assert implicit == explicit | autograd
    assert all(n.startswith("Autograd") for n in autograd) and "AutogradOther" in autograd


def test_is_alias_key() -> None:
    assert dispatch.is_alias_key("Autograd") and dispatch.is_alias_key("CompositeImplicitAutograd")
    assert not dispatch.is_alias_key("AutogradCPU")


def test_is_included_in_alias() -> None:
    """Source: torch._C._dispatch_is_included_in_alias, called for the run-time keys of both."""
    included = dispatch.is_included_in_alias
    assert included("AutogradCPU", "Autograd") and included(
        "AutogradOther", "CompositeImplicitAutograd"
    )
    assert included("QuantizedCPU", "CompositeExplicitAutograd") and included("CPU", "CPU")
    assert not included("CPU", "Autograd") and not included("CUDA", "CPU")
    assert not included("SparseCPU", "CompositeExplicitAutogradNonFunctional")
    assert not included("ADInplaceOrView", "CompositeImplicitAutograd")


def test_has_backend_fallback() -> None:
    has = dispatch.has_backend_fallback
    assert has("ADInplaceOrView") and has("AutogradCPU") and has("Conjugate") and not has("CPU")
    with Library("_", "IMPL") as wide:
        wide.fallback(fallthrough_kernel, "XLA")
        assert has("XLA")
    assert not has("XLA")
    with pytest.raises(errors.ArgumentError, match="Autograd"):
        has("Autograd")


def test_an_unknown_key_is_named_with_its_neighbour() -> None:
    with pytest.raises(errors.ArgumentError, match="'CPPU'.*did you mean CPU"):
        dispatch.is_alias_key("CPPU")
