"""The kernel that a call finds, and its arguments: section 3, behaviours 23 to 27 and 38 to 49."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import gputensor as gt
from gputensor import dispatch, ops
from gputensor.core import errors
from gputensor.core.device import device
from gputensor.core.dtype import int64
from gputensor.core.memory_format import contiguous_format
from gputensor.dispatch import keys
from gputensor.dispatch.keys import KeySet
from gputensor.dispatch.operator import Operator
from gputensor.library import Library, fallthrough_kernel

from .operands import CPU, CUDA, META, Operand, kernel, library

GENERIC = "TESTING_ONLY_GenericMode"


def define(lib: Library, schema: str, **kernels: Any) -> Operator:
    """The operator of a schema in `lib`, with kernels by key."""
    lib.define(schema)
    name = schema.partition("(")[0]
    for key, function in kernels.items():
        lib.impl(name, function, key)
    return dispatch.find(f"{lib.ns}::{name}")


class Recorder:
    """A kernel that stores its arguments."""

    def __init__(self) -> None:
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.args, self.kwargs = args, kwargs
        return CPU


# --- boxed --------------------------------------------------------------------------------------


def test_23_boxed_and_unboxed_calls_are_equal(lib: Library) -> None:
    operator = define(
        lib,
        "f(Tensor x, int n, *, float by=1.0) -> (Tensor, float)",
        CPU=lambda x, n, *, by: (x, n * by),
    )
    stack = ["below", CPU, 3, 2.0]
    operator.call_boxed(stack)
    assert stack == ["below", *operator(CPU, 3, by=2.0)] == ["below", CPU, 6.0]
    with pytest.raises(errors.DispatchError, match="find 3 values"):
        operator.call_boxed([CPU])


def test_a_boxed_kernel_takes_operator_keys_and_stack(lib: Library) -> None:
    seen: list[Any] = []

    def boxed(operator: Operator, key_set: KeySet, stack: list[Any]) -> None:
        seen.append((operator, key_set))
        stack[:] = [stack[0], len(stack)]

    operator = define(lib, "f(Tensor x, int n=2) -> (Tensor, int)")
    lib.impl("f", boxed, "CPU", boxed=True)
    assert operator(CPU) == (CPU, 2)
    assert seen == [(operator, keys.key_set(("CPU",)))]


def test_a_boxed_kernel_must_leave_its_results(lib: Library) -> None:
    operator = define(lib, "f(Tensor x, int n=2) -> Tensor")
    lib.impl("f", lambda operator, key_set, stack: None, "CPU", boxed=True)
    with pytest.raises(errors.DispatchError, match="leave 1 values on the stack .got 2"):
        operator(CPU)


# --- fallbacks ----------------------------------------------------------------------------------


def test_24_a_fallback_sees_operator_and_arguments(lib: Library) -> None:
    operator = define(lib, "f(Tensor x, int n=1, *, int m=2) -> Tensor", CPU=lambda x, n, *, m: x)
    factory = define(lib, "make(int n) -> Tensor", CPU=lambda n: CPU)
    seen: list[Any] = []

    def fallback(op: Operator, *args: Any, **kwargs: Any) -> Any:
        seen.append((op, args, kwargs))
        return META

    with library("IMPL", "_") as wide:
        wide.fallback(fallback, GENERIC)
        with dispatch.IncludeDispatchKeys(GENERIC):
            assert operator(CPU, 5, m=3) is META
            assert factory(4) is META
        assert operator(CPU, 5) is CPU
    assert seen == [(operator, (CPU, 5), {"m": 3}), (factory, (4,), {})]


def test_25_fallbacks_in_turn_and_calls_from_the_first(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"))
    log: list[str] = []

    def higher(key_set: KeySet, op: Operator, *args: Any) -> Any:
        log.append("mode")
        return op.redispatch(key_set - GENERIC, *args)

    def lower(key_set: KeySet, op: Operator, *args: Any) -> Any:
        log.append("wrapper")
        if len(log) < 3:
            return op(*args)
        return op.redispatch(key_set - "TESTING_ONLY_GenericWrapper", *args)

    with library("IMPL", "_") as wide:
        wide.fallback(higher, GENERIC, with_keyset=True)
        wide.fallback(lower, "TESTING_ONLY_GenericWrapper", with_keyset=True)
        with dispatch.IncludeDispatchKeys((GENERIC, "TESTING_ONLY_GenericWrapper")):
            operator(CPU)
    assert log == ["mode", "wrapper", "mode", "wrapper"]


def test_26_a_fallthrough_above_a_fallback(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"))
    with library("IMPL", "_") as wide:
        wide.fallback(fallthrough_kernel, GENERIC)
        wide.fallback(lambda op, *args: META, "TESTING_ONLY_GenericWrapper")
        with dispatch.IncludeDispatchKeys((GENERIC, "TESTING_ONLY_GenericWrapper")):
            assert operator(CPU) is META


def test_fallbacks_reach_operators_defined_later(lib: Library) -> None:
    with library("IMPL", "_") as wide:
        wide.fallback(lambda op, *args: META, "Functionalize")
        operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"))
        assert operator(Operand("CPU", "Functionalize")) is META
    with pytest.raises(errors.DispatchError, match="no kernel for key Functionalize"):
        operator(Operand("CPU", "Functionalize"))


# --- fallthroughs -------------------------------------------------------------------------------


def test_27_a_fallthrough_kernel_and_an_included_backend(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=fallthrough_kernel, Meta=lambda x: META)
    with dispatch.IncludeDispatchKeys("Meta"):
        assert operator(CPU) is META


def test_38_a_fallthrough_for_one_operator(lib: Library) -> None:
    log: list[str] = []
    f = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu", log))
    g = define(lib, "g(Tensor x) -> Tensor", CPU=kernel("cpu", log))

    def cast(key_set: KeySet, x: Any) -> Any:
        log.append("cast")
        return x

    for name in "fg":
        lib.impl(name, cast, "AutocastCPU", with_keyset=True)
    with dispatch.AllowDispatchKeys("AutocastCPU"):
        with library("IMPL", lib.ns) as other, pytest.warns(errors.OverrideWarning):
            other.impl("f", fallthrough_kernel, "AutocastCPU")
            f(CPU), g(CPU)
        f(CPU)
    f(CPU)
    assert log == ["cpu", "cast", "cast", "cpu"]


def test_45_the_undefined_slot_serves_what_falls_through(lib: Library) -> None:
    operator = define(
        lib,
        "f(Tensor x) -> Tensor",
        CPU=fallthrough_kernel,
        CompositeExplicitAutograd=lambda x: META,
    )
    assert operator(CPU) is META


def test_45_d_a_fallthrough_that_masks_the_last_key_is_named(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=fallthrough_kernel)
    with pytest.raises(
        errors.DispatchError, match=r"fallthrough masks the key CPU \(registered at .*:\d+\)"
    ):
        operator(CPU)


def test_46_a_fallthrough_counts_for_its_backend_alone(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=lambda x: "no", Meta=lambda x: META)
    lib.impl("f", fallthrough_kernel, "AutogradCPU")
    log: list[str] = []
    lib.impl("f", kernel("AutogradMeta", log), "AutogradMeta")
    with pytest.raises(errors.ArgumentTypeError, match="must return Tensor"):
        operator(CPU)
    assert operator(META) is META and log == ["AutogradMeta"]


def test_h_redispatch_onto_a_fallthrough_goes_on(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"), Conjugate=fallthrough_kernel)
    assert operator.redispatch(keys.key_set(("CPU", "Conjugate")), CPU) is CPU


def test_kernels_see_the_set_without_what_falls_through(lib: Library) -> None:
    seen: list[KeySet] = []
    define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"), Conjugate=fallthrough_kernel)
    lib.impl("f", lambda key_set, x: seen.append(key_set) or x, "Negative", with_keyset=True)
    dispatch.find(f"{lib.ns}::f")(Operand("CPU", "Negative", "Conjugate"))
    assert seen == [keys.key_set(("Negative", "CPU"))]


# --- which key ----------------------------------------------------------------------------------


def test_40_lists_of_optional_tensors_bring_keys(lib: Library) -> None:
    seen = Recorder()
    operator = define(lib, "f(Tensor?[] xs) -> Tensor", CPU=seen)
    operator([None, CPU])
    assert seen.args == ([None, CPU],)


@pytest.mark.parametrize(
    ("schema", "args", "kwargs"),
    [
        ("f(Tensor x) -> Tensor", (CUDA,), {}),
        ("f(Tensor? x=None) -> Tensor", (CUDA,), {}),
        ("f(Tensor[] x) -> Tensor", ([CPU, CUDA],), {}),
        ("f(Tensor[]? x) -> Tensor", ([CUDA],), {}),  # not in PyTorch: section 0g
        ("f(int n, *, Tensor? out=None) -> Tensor", (1,), {"out": CUDA}),
        ("f(Tensor x, *, Tensor[] out) -> Tensor", (CPU,), {"out": (CUDA,)}),
    ],
)
def test_every_form_of_tensor_argument_brings_keys(
    lib: Library, schema: str, args: Any, kwargs: Any
) -> None:
    operator = define(lib, schema, CPU=lambda *a, **k: None, CUDA=lambda *a, **k: CUDA)
    assert operator(*args, **kwargs) is CUDA


def test_42_operators_without_tensors(lib: Library) -> None:
    operator = define(
        lib, "f(SymInt a, SymInt b) -> SymInt", CompositeExplicitAutograd=lambda a, b: a * b
    )
    assert operator(3, 4) == 12


def test_43_the_higher_backend_wins_in_both_orders(lib: Library) -> None:
    operator = define(
        lib, "f(Tensor x, Tensor y) -> Tensor", CPU=lambda x, y: CPU, Meta=lambda x, y: META
    )
    assert operator(CPU, META) is META and operator(META, CPU) is META


def test_44_an_empty_list_brings_no_keys(lib: Library) -> None:
    operator = define(lib, "f(Tensor[] xs, Tensor? y=None) -> Tensor", CPU=lambda xs, y: CPU)
    assert operator([], CPU) is CPU
    with pytest.raises(
        NotImplementedError, match=r"no tensor arguments, or an empty list.*registered at: CPU"
    ):
        operator([])


def test_an_included_backend_serves_a_call_without_tensors(lib: Library) -> None:
    operator = define(lib, "f(int n) -> Tensor", CPU=lambda n: CPU)
    with dispatch.IncludeDispatchKeys("CPU"):
        assert operator(1) is CPU


def test_47_exclusion_wins(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"), Conjugate=lambda x: META)
    with dispatch.IncludeDispatchKeys("Conjugate"):
        assert operator(CPU) is META
        with dispatch.ExcludeDispatchKeys("Conjugate"), dispatch.IncludeDispatchKeys("Conjugate"):
            assert operator(CPU) is CPU


def test_48_redispatch_takes_the_set_as_it_is(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"), Meta=lambda x: META)
    with dispatch.ExcludeDispatchKeys("CPU"):
        assert operator.redispatch(keys.key_set(("Meta",)), CPU) is META
        assert operator.redispatch(KeySet(keys.key_set(("CPU",))), META) is META


def test_the_observed_order_of_keys(lib: Library) -> None:
    log: list[str] = []
    operator = define(
        lib, "f(Tensor x) -> Tensor", CPU=kernel("CPU", log), Meta=kernel("Meta", log)
    )

    def passing(name: str) -> Any:
        def run(key_set: KeySet, x: Any) -> Any:
            log.append(name)
            return operator.redispatch(key_set.after(name), x)

        return run

    for name in (
        "BackendSelect",
        "Conjugate",
        "ADInplaceOrView",
        "AutogradCPU",
        "AutogradMeta",
        "AutocastCPU",
    ):
        lib.impl("f", passing(name), name, with_keyset=True)
    conjugated = Operand("CPU", "Conjugate")
    below = ["ADInplaceOrView", "BackendSelect"]
    for guard, x, expected in [
        (
            dispatch.AllowDispatchKeys("AutocastCPU"),
            CPU,
            ["AutocastCPU", "AutogradCPU", *below, "CPU"],
        ),
        (
            dispatch.AllowDispatchKeys(0),
            conjugated,
            ["AutogradCPU", "ADInplaceOrView", "Conjugate", "BackendSelect", "CPU"],
        ),
        (
            dispatch.InferenceMode(),
            Operand(bits=keys.tensor_keys("CPU", inference=True)),
            ["BackendSelect", "CPU"],
        ),
        (dispatch.IncludeDispatchKeys("Meta"), CPU, ["AutogradMeta", *below, "Meta"]),
        (dispatch.AutoDispatchBelowAutograd(), CPU, [*below, "CPU"]),
        (dispatch.AutoDispatchBelowADInplaceOrView(), CPU, ["BackendSelect", "CPU"]),
    ]:
        log.clear()
        with guard:
            operator(x)
        assert log == expected


# --- errors -------------------------------------------------------------------------------------


def test_a_missing_kernel_names_what_there_is(lib: Library) -> None:
    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"), AutogradXLA=kernel("xla"))
    with pytest.raises(NotImplementedError) as caught:
        operator(CUDA)
    first, schema, *table = str(caught.value).splitlines()
    assert (
        first
        == f"{lib.ns}::f: no kernel for key CUDA (kernels are registered at: CPU, AutogradXLA)"
    )
    assert schema.startswith(f"schema: {lib.ns}::f(Tensor x) -> Tensor, registered at ")
    assert [line.partition(":")[0] for line in table] == ["CPU", "AutogradXLA"]
    assert all(line.endswith("[kernel]") and "test_calling.py" in line for line in table)


def test_a_missing_kernel_names_a_third_device_as_its_users_do(lib: Library) -> None:
    from gputensor.dispatch import backend_select

    operator = define(lib, "f(Tensor x) -> Tensor", CPU=kernel("cpu"))
    undo = backend_select.register_device_type("toy", "PrivateUse2")
    with pytest.raises(errors.DispatchError, match=r"no kernel for key PrivateUse2 \(toy\)"):
        operator(Operand("PrivateUse2"))
    undo()
    with pytest.raises(errors.DispatchError, match=r"no kernel for key PrivateUse2 \(kernels"):
        operator(Operand("PrivateUse2"))


SCHEMA = "f(Tensor x, int a, float b=1.0, int[2] c=1, *, Device? d=None, str s='a') -> Tensor"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((CPU, 1, 2.0, [1, 2], None), {}, r"takes 4 positional arguments \(got 5\)"),
        ((CPU,), {}, "'a' must be given"),
        ((CPU, 1), {"zz": 1}, "no argument 'zz'"),
        ((CPU, 1), {"a": 1}, "'a' given by position and by name"),
        ((CPU, 1.5), {}, r"'a' must be int \(got float 1.5 at position 1\)"),
        ((CPU, 1, "s"), {}, r"'b' must be float \(got str 's' at position 2\)"),
        ((CPU, 1, 1j), {}, "'b' must be float"),
        ((3, 1), {}, r"'x' must be Tensor \(got int 3 at position 0\)"),
        ((None, 1), {}, "'x' must be Tensor"),
        ((CPU, 1), {"s": 3}, r"'s' must be str \(got int 3 at position 5\)"),
        ((CPU, 1), {"d": 3}, r"'d' must be Device\?"),
        ((CPU, 1), {"c": [1.5]}, r"'c' must be int\[2\]"),
    ],
)
def test_arguments_that_do_not_fit(lib: Library, args: Any, kwargs: Any, message: str) -> None:
    operator = define(lib, SCHEMA, CPU=lambda *a, **k: CPU)
    with pytest.raises(
        TypeError, match=rf"{lib.ns}::f: {message}.*declaration {lib.ns}::f\(Tensor x"
    ):
        operator(*args, **kwargs)


# --- conversions --------------------------------------------------------------------------------


class Number:
    """A stand-in for a tensor of one element, with the attributes that conversions read."""

    ndim = 0
    _keys = CPU._keys

    def __init__(self, value: Any) -> None:
        self.value = value

    def item(self) -> Any:
        return self.value

    def __index__(self) -> int:
        if not isinstance(self.value, int):
            raise TypeError
        return self.value

    def __float__(self) -> float:
        return float(self.value)


@pytest.mark.parametrize(
    ("type", "given", "received"),
    [
        ("float", 2, 2.0), ("float", True, 1.0), ("float", Number(3), 3.0), ("int", True, 1),
        ("int", Number(3), 3),
        ("int[2]", 3, [3, 3]), ("int[2]", (3, 4), [3, 4]), ("int[]", (), []), ("float[]", (1, 2),
        [1.0, 2.0]),
        ("int[]?", None, None), ("Device", "cpu", device("cpu")), ("Scalar", Number(2.5), 2.5),
        ("Scalar", True, True),
        ("bool", Number(True), True), ("complex", 2, 2 + 0j), ("ScalarType", int64, int64),
        ("Tensor[]", (CPU,), [CPU]),
    ],
)  # fmt: skip
def test_conversions_at_the_boxed_boundary(
    lib: Library, type: str, given: Any, received: Any
) -> None:
    seen = Recorder()
    operator = define(lib, f"f(Tensor x, {type} v) -> Tensor", CPU=seen)
    operator(CPU, given)
    assert seen.args[1] == received and seen.args[1].__class__ is received.__class__


def test_native_kernels_are_given_tuples(lib: Library) -> None:
    """Lists of numbers become tuples, because they are parts of plan keys."""
    from gputensor.dispatch import dispatcher

    seen: list[Any] = []
    operator = define(lib, "f(Tensor x, int[] dims) -> Tensor")
    handle = dispatcher.register_kernel(
        operator, keys.key("CPU"), lambda key_set, x, dims: seen.append(dims)
    )
    operator(CPU, [1, 2])
    handle.remove()
    assert seen == [(1, 2)]


def test_defaults_are_objects_of_ours(lib: Library) -> None:
    seen = Recorder()
    operator = define(
        lib,
        "f(Tensor x, MemoryFormat m=contiguous_format, ScalarType t=long, int[2] c=1, int r=Mean, "
        "float y=1) -> Tensor",
        CPU=seen,
    )
    operator(CPU)
    assert seen.args == (CPU, contiguous_format, int64, [1, 1], 1, 1.0)


def test_41_handlers_are_not_given_defaults(lib: Library) -> None:
    operator = define(
        lib, "f(Tensor x, int a=1, int b=2, *, int c=3, int d=4) -> Tensor", CPU=Recorder()
    )
    seen: list[Any] = []
    with library("IMPL", "_") as wide:
        wide.fallback(lambda op, *args, **kwargs: seen.append((args, kwargs)) or CPU, GENERIC)
        with dispatch.IncludeDispatchKeys(GENERIC):
            operator(CPU, 1, 2, c=3, d=5)
            operator(CPU, 1, 5)
            operator(CPU, 7)
    assert seen == [((CPU,), {"d": 5}), ((CPU, 1, 5), {}), ((CPU, 7), {})]


def test_kernels_of_operators_are_given_everything(lib: Library) -> None:
    seen = Recorder()
    define(lib, "f(Tensor x, int a=1, *, int c=3) -> Tensor", CPU=seen)(CPU)
    assert (seen.args, seen.kwargs) == ((CPU, 1), {"c": 3})


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        ("Dict(str, int)", {"a": 1}, [3, [1], {"a": "x"}, {1: 1}, None]),
        ("(int, Tensor)", (1, CPU), [(1,), (CPU, 1), (CPU, CPU), 1, "ab"]),
        ("Dict(str, Tensor)", {"a": CPU}, [{"a": 1}, {CPU: CPU}, CPU]),
        ("Generator?", gt.Generator(), [3, "cpu", CPU]),
        ("(int, int)[]", [(1, 2), (3, 4)], [[1, 2], (1, 2), [(1, 2, 3)]]),
    ],
)  # fmt: skip
def test_every_type_of_the_grammar_is_checked(
    lib: Library, declared: str, good: Any, bad: list[Any]
) -> None:
    operator = define(lib, f"f(Tensor x, {declared} y) -> Tensor", CPU=lambda x, y: x)
    operator(CPU, good)
    for value in bad:
        with pytest.raises(errors.ArgumentTypeError, match="'y' must be"):
            operator(CPU, value)
            pytest.fail(f"{declared} took {value!r}")


@pytest.mark.parametrize(
    ("name", "call", "place", "shown"),
    [
        ("sum.dim_IntList", lambda x: x.sum(0), 1, [0]), ("mean.dim", lambda x: x.mean(-1), 1,
        [-1]),
        ("amax", lambda x: x.amax(1), 1, [1]), ("flip", lambda x: x.flip(0), 1, [0]),
        ("permute", lambda x: x.permute(1, 0), 1, [1, 0]), ("new_zeros", lambda x: x.new_zeros(3),
        1, [3]),
        ("mul.Tensor", lambda x: x * 2.5, 1, 2.5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("convention", ["user", "keyset", "boxed"])
def test_kernels_of_users_get_what_pytorch_hands_them(
    name: str, call: Any, place: int, shown: Any, convention: str
) -> None:
    seen: list[Any] = []

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given = args[2] if convention == "boxed" else args[1:] if convention == "keyset" else args
        seen.append(list(given))
        raise errors.ArgumentError("seen")

    with Library("aten", "IMPL") as lib, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        lib.impl(
            name, kernel, "CPU", with_keyset=convention == "keyset", boxed=convention == "boxed"
        )
        with pytest.raises(errors.ArgumentError, match="seen"):
            call(gt.ones(2, 3))
    assert type(seen[0][place]) is type(shown) and seen[0][place] == shown


@pytest.mark.parametrize(
    ("of", "a", "b", "dtype"),
    [
        (gt.float32, None, 0.5, "float32"), (gt.int32, 1.5, None, "float32"), (gt.float64, None,
        0.1, "float64"),
        (gt.uint8, 3, None, "uint8"), (gt.float16, True, None, "float16"), (gt.bool, 1, 2.5,
        "float32"),
    ],
)  # fmt: skip
def test_numbers_of_where_are_tensors_for_kernels_of_users(
    of: Any, a: Any, b: Any, dtype: str
) -> None:
    """The dtype of these tensors is the result's. Source: ATen/native/TensorCompare.cpp; observed
    in PyTorch 2.13."""
    x, seen = gt.ones(2, 3).to(of), []
    a, b = x if a is None else a, x if b is None else b
    with Library("aten", "IMPL") as lib, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.OverrideWarning)
        lib.impl("where.self", lambda *given: (seen.extend(given), given[0].clone())[1], "CPU")
        gt.where(x > 0, a, b)
    for value, given in zip(seen[1:], (a, b)):
        assert isinstance(value, gt.Tensor)
        if given is not x:
            assert (
                value.shape == ()
                and value.dtype is getattr(gt, dtype)
                and value.item() == gt.tensor(given, dtype=value.dtype).item()
            )


# --- results ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returns", "good", "bad"),
    [
        ("Tensor", CPU, "a string"), ("Tensor", CPU, None), ("()", None, 3), ("Tensor?", None, 3),
        ("int", 3, 3.5),
        ("Tensor[]", [CPU], "string"), ("Tensor[]", (CPU, CPU), [3]), ("(Tensor, int)", (CPU, 1),
        (CPU,)),
        ("(Tensor, int)", [CPU, 1], CPU), ("float", 2.5, "2.5"), ("str", "a", 1), ("bool", True,
        CPU),
    ],
)  # fmt: skip
def test_49_results_are_checked(lib: Library, returns: str, good: Any, bad: Any) -> None:
    result = [good]
    operator = define(lib, f"f(Tensor x, int n=1) -> {returns}", CPU=lambda x, n: result[0])
    found = operator(CPU)
    if isinstance(good, (list, tuple)):  # the schema determines the type
        assert type(found) is (tuple if returns.startswith("(") else list) and list(found) == list(
            good
        )
    else:
        assert found is good
    result[0] = bad
    with pytest.raises(
        TypeError, match=r"the kernel registered at .*test_calling.py:\d+ must return"
    ):
        operator(CPU)


# --- overloads ----------------------------------------------------------------------------------


def test_packets_take_the_first_overload_that_fits(lib: Library) -> None:
    for name, type in (("a", "int"), ("b", "float"), ("c", "Tensor")):
        define(lib, f"f.{name}(Tensor x, {type} y) -> str", CPU=lambda x, y, name=name: name)
    packet = ops.__getattr__(lib.ns).f
    assert [packet(CPU, y) for y in (1, 2.5, CPU)] == ["a", "b", "c"]
    with pytest.raises(TypeError, match="no overload takes these arguments") as caught:
        packet(CPU, "s")
    offered = [line[: len(lib.ns) + 5] for line in str(caught.value).splitlines()[1:]]
    assert offered == [f"{lib.ns}::f.{overload}" for overload in "abc"]
