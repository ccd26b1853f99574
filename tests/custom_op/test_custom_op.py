"""custom_op: definition, kernels of devices, shapes, memory, and removal."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import Tensor
from gputensor.core import errors
from gputensor.library import CustomOpDef, Library, custom_op, register_fake, register_kernel

from ..backend.devices import Runtime
from .ops import cube, write

HERE = r"test_custom_op\.py:\d+"


def make(body: Any = lambda x: x + x, mutates_args: Any = (), **kwargs: Any) -> CustomOpDef:
    """Define `t::f`, an operator of one tensor."""

    def f(x: Tensor) -> Tensor:
        return body(x)

    return custom_op("t::f", f, mutates_args=mutates_args, **kwargs)


# --- definition -----------------------------------------------------------------------------------


def test_it_is_an_operator_of_every_device(place: str) -> None:
    op = cube()
    x = gt.tensor([1.0, 2.0, 3.0]).to(place)
    for call in (op, gt.ops.t.cube, gt.ops.t.cube.default):
        y = call(x, 3.0)
        assert y.tolist() == [3, 24, 81] and y.device == x.device and not y.requires_grad
    assert op(x).tolist() == [2, 16, 54] and op(by=1.0, x=x).tolist() == [1, 8, 27]
    operator = gt.ops.t.cube.default
    assert str(operator._schema) == "t::cube(Tensor x, float by=2.0) -> Tensor"
    assert operator is op._opoverload and repr(op) == "<CustomOpDef(t::cube)>"
    keys = gt.dispatch.key_set(x)
    assert operator.redispatch(keys & gt.dispatch.full_after("ADInplaceOrView"), x, 1).tolist() == [
        1,
        8,
        27,
    ]


def test_the_function_comes_back_by_none_of_its_names() -> None:
    op = make(tags=("a", "b"))
    assert isinstance(op, CustomOpDef) and op._opoverload.tags == ("a", "b")
    assert (op._qualname, op._namespace, op._name) == ("t::f", "t", "f")
    assert "test_custom_op.py" in gt.dispatch.dump("t::f")


def test_overloads() -> None:
    def one(x: Tensor) -> Tensor:
        return x + 1

    def two(x: Tensor, y: int) -> Tensor:
        return x + y

    custom_op("t::g.one", one, mutates_args=())
    custom_op("t::g.two", two, mutates_args=())
    assert gt.ops.t.g.overloads() == ["one", "two"]
    assert gt.ops.t.g(gt.zeros(1), 5).tolist() == [5] and gt.ops.t.g.one(gt.zeros(1)).tolist() == [
        1
    ]


def test_lists_numbers_and_several_results() -> None:
    def f(
        xs: Sequence[Tensor],
        n: int,
        sizes: list[int],
        *,
        by: float = 2.0,
        of: gt.dtype = gt.float64,
    ) -> tuple[Tensor, list[Tensor], int]:
        assert type(xs) is list and type(sizes) is list
        return (xs[0] * by).to(of), [x + n for x in xs], n + sum(sizes)

    op = custom_op("t::many", f, mutates_args=())
    one, more, number = op([gt.ones(2), gt.zeros(1)], 3, (4, 5))
    assert one.tolist() == [2, 2] and one.dtype is gt.float64 and number == 12
    assert [x.tolist() for x in more] == [[4, 4], [3]]
    assert op([gt.ones(1)], 0, [], by=5.0, of=gt.float32)[0].dtype is gt.float32


def test_a_result_of_another_type_names_the_kernel() -> None:
    for result in (3, None, [gt.ones(1)]):
        with pytest.raises(
            errors.ArgumentTypeError,
            match=rf"t::f: the kernel registered at .*{HERE} must return Tensor",
        ):
            make(lambda x, result=result: result)(gt.ones(1))


def test_arguments_are_checked_against_the_schema() -> None:
    op = cube()
    for args, kwargs in (
        ((), {}),
        (("x",), {}),
        ((gt.ones(1), "x"), {}),
        ((gt.ones(1), 1.0, 2), {}),
        ((gt.ones(1),), {"z": 1}),
    ):
        with pytest.raises(errors.ArgumentTypeError, match="declaration t::cube"):
            op(*args, **kwargs)


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, said",
    [
        (lambda x: x, "'x' itself as result 0"),
        (lambda x: x[:1], "result 0 in the memory of 'x'"),
        (lambda x: x.t(), "result 0 in the memory of 'x'"),
        (lambda x: x.detach(), "result 0 in the memory of 'x'"),
    ],
)
def test_results_are_new_memory(place: str, body: Any, said: str) -> None:
    op, x = make(body), gt.ones(2, 2).to(place)
    with pytest.raises(
        errors.RegistrationError,
        match=rf"t::f: the kernel registered at .*{HERE} must return new memory \(got {said}\); "
        rf"return a clone",
    ):
        op(x)


def test_results_share_nothing_with_each_other() -> None:
    def two(x: Tensor, ys: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        made = x + 1
        return made, [made[:1]] if len(ys) == 1 else [ys[0]]

    op = custom_op("t::two", two, mutates_args=())
    with pytest.raises(errors.RegistrationError, match="got result 1 in the memory of result 0"):
        op(gt.ones(2), [gt.ones(1)])
    with pytest.raises(errors.RegistrationError, match="got 'ys' itself as result 1"):
        op(gt.ones(2), [gt.ones(1), gt.ones(1)])


def test_a_view_of_new_memory_is_fine() -> None:
    assert make(lambda x: (x + 1)[1:])(gt.zeros(3)).tolist() == [1, 1]


def test_what_is_written_counts_versions(place: str) -> None:
    @custom_op("t::fill", mutates_args=("x", "ys"))
    def fill(x: Tensor, ys: Sequence[Tensor], value: float, maybe: Tensor | None = None) -> None:
        for t in (x, *ys):
            write(t, np.full(t.shape, value, np.float32))

    assert str(fill._opoverload._schema) == (
        "t::fill(Tensor(a0!) x, Tensor(a1!)[] ys, float value, Tensor? maybe=None) -> ()"
    )
    x, y, z = (gt.zeros(2).to(place) for _ in range(3))
    view = x[:1]
    assert fill(x, [y], 3) is None and x.tolist() == y.tolist() == [3, 3]
    assert (x._version, view._version, y._version, z._version) == (1, 1, 1, 0)
    fill(view, [], 4.0, maybe=z)
    assert x.tolist() == [4, 3] and x._version == 2 and z._version == 0


def test_unknown_means_every_tensor() -> None:
    op = make(lambda x: x + 1, mutates_args="unknown")
    assert str(op._opoverload._schema) == "t::f(Tensor(a0!) x) -> Tensor"
    x = gt.ones(1)
    op(x)
    assert x._version == 1


def test_inplace_and_out_tags_return_what_they_wrote() -> None:
    @custom_op("t::twice_", mutates_args={"x"}, tags="inplace")
    def twice_(x: Tensor) -> Tensor:
        write(x, x.cpu().numpy() * 2)
        return x

    @custom_op("t::twice_out", mutates_args={"out"}, tags="out")
    def twice_out(x: Tensor, *, out: Tensor) -> Tensor:
        write(out, x.cpu().numpy() * 2)
        return out

    x, out = gt.ones(2), gt.zeros(2)
    assert twice_(x) is x and x.tolist() == [2, 2] and x._version == 1
    assert (
        twice_out(x, out=out) is out
        and out.tolist() == [4, 4]
        and (x._version, out._version) == (1, 1)
    )
    meta = gt.empty(2, device="meta")
    assert twice_(meta) is meta and twice_out(meta, out=meta) is meta
    twice_.register_kernel("cpu", lambda x: x + 1)
    with pytest.raises(errors.RegistrationError, match="must return 'x' itself as result 0"):
        twice_(x)


def test_a_view_by_its_schema() -> None:
    op = make(lambda x: x[1:], schema="(Tensor(a) x) -> Tensor(a)")
    x = gt.arange(3)
    y = op(x)
    assert y.tolist() == [1, 2] and y._base is x and y._version == 0
    y.zero_()
    assert x.tolist() == [0, 0, 0] and x._version == 1


# --- kernels --------------------------------------------------------------------------------------


def test_the_newest_kernel_of_a_device_serves(place: str) -> None:
    op = make(lambda x: gt.zeros(1))
    x = gt.ones(1).to(place)
    assert op(x).tolist() == [0]
    first = op.register_kernel(place, lambda x: gt.tensor([1.0]))

    @op.register_kernel(("cpu", place))
    def second(x: Tensor) -> Tensor:
        return gt.tensor([2.0])

    assert second(x).tolist() == [2] and op(x).tolist() == [2]
    third = register_kernel("t::f", place, lambda x: gt.tensor([3.0]))
    assert op(x).tolist() == [3]
    third.remove()
    first.remove()
    assert op(x).tolist() == [2]


def test_a_missing_kernel_says_which_there_are() -> None:
    op = make(device_types="meta")
    with pytest.raises(
        errors.DispatchError,
        match=r"t::f: no kernel for key CPU \(kernels are registered at: .*Meta",
    ):
        op(gt.ones(1))


@pytest.mark.parametrize("by_name", [False, True])
def test_the_kernel_of_a_device_goes_with_it(by_name: bool) -> None:
    op = make(lambda x: gt.tensor([1.0]))
    with gt.backend.register("acme", "PrivateUse2", runtime=Runtime()):
        if by_name:
            register_kernel("t::f", "acme", lambda x: gt.tensor([2.0]))
        else:
            op.register_kernel(("cpu", "acme"), lambda x: gt.tensor([2.0]))
        assert op(gt.ones(1).to("acme")).tolist() == [2]
    with gt.backend.register("emca", "PrivateUse2", runtime=Runtime()):
        assert op(gt.ones(1).to("emca")).tolist() == [1] and op(gt.ones(1)).tolist() == [
            1 if by_name else 2
        ]
    with pytest.raises(gt.GpuTensorError, match="'type' must be one of"):
        op.register_kernel("acme", lambda x: x)


def test_kernels_can_be_switched_off(place: str) -> None:
    op = make(lambda x: gt.tensor([0.0]))
    op.register_kernel(place, lambda x: gt.tensor([1.0]))
    x = gt.ones(1).to(place)
    with op.set_kernel_enabled(place, False):
        assert op(x).tolist() == [0]
        with op.set_kernel_enabled(place):
            assert op(x).tolist() == [1]
        op.register_kernel(place, lambda x: gt.tensor([2.0]))
        assert op(x).tolist() == [0]
    assert op(x).tolist() == [2]
    with op.set_kernel_enabled("xla", False):
        assert op(x).tolist() == [2]


def test_factories_go_where_their_device_says(place: str) -> None:
    def series(n: int, device: gt.device | None = None) -> Tensor:
        return gt.arange(n, device="cpu").to(device or "cpu")

    op = custom_op("t::series", series, mutates_args=(), device_types=("cpu", place))
    op.register_fake(lambda n, device: gt.empty(n, dtype=gt.int64, device=device))
    assert op(3, place).device.type == place and op(3).tolist() == [0, 1, 2]
    assert op(3, device=gt.device("meta")).shape == (3,)
    with gt.device(place):
        assert op(2, device=None).tolist() == [0, 1]
    with pytest.raises(errors.DispatchError, match="no kernel for key XLA"):
        op(3, "xla")


def test_an_operator_without_tensors_needs_a_device_argument() -> None:
    def count(n: int) -> Tensor:
        return gt.arange(n)

    assert custom_op("t::count", count, mutates_args=())(2).tolist() == [0, 1]
    with pytest.raises(
        errors.ArgumentValueError, match="argument 'device' .*; add device: gt.device"
    ):
        custom_op("t::count", count, mutates_args=(), device_types="cpu")
    assert gt.ops.t.count(2).tolist() == [0, 1]  # the former definition is used again


def test_a_kernel_takes_what_the_schema_gives() -> None:
    op = cube()
    for register in (
        op.register_fake,
        lambda f: op.register_kernel("cpu", f),
        lambda f: register_kernel("t::cube", "cpu", f),
    ):
        with pytest.raises(errors.RegistrationError, match=r"t::cube: the schema .* must agree"):
            register(lambda x: x)
    assert op(gt.ones(1)).tolist() == [2]


# --- shapes ---------------------------------------------------------------------------------------


def test_shapes_without_data() -> None:
    op = make()
    meta = gt.empty(2, 3, device="meta")
    with pytest.raises(
        errors.DispatchError, match="t::f: no kernel for Meta, .*; register one with register_fake"
    ):
        op(meta)

    @op.register_fake
    def fake(x: Tensor) -> Tensor:
        return x.new_empty((7,))

    assert op(meta).shape == (7,) and fake(meta).shape == (7,)
    again = register_fake(op, lambda x: x.new_empty((8,)))
    assert op(meta).shape == (8,)
    again.remove()
    assert op(meta).shape == (7,)


def test_what_only_writes_needs_no_shapes() -> None:
    @custom_op("t::w", mutates_args={"x"})
    def w(x: Tensor) -> None:
        raise AssertionError

    assert w(gt.empty(1, device="meta")) is None


# --- life -----------------------------------------------------------------------------------------


def test_a_second_definition_replaces_the_first() -> None:
    old = make(lambda x: gt.tensor([1.0]))
    old.register_kernel("cpu", lambda x: gt.tensor([2.0]))
    packet = gt.ops.t.f
    new = make(lambda x: gt.tensor([3.0]))
    assert (
        new(gt.ones(1)).tolist() == packet(gt.ones(1)).tolist() == [3]
        and old._opoverload is new._opoverload
    )
    for late in (
        lambda: old.register_kernel("cpu", lambda x: gt.tensor([4.0])),
        lambda: old.register_fake(lambda x: x),
        lambda: old.register_autograd(lambda ctx, g: g),
    ):  # fmt: skip
        with pytest.raises(
            errors.RegistrationError, match="must be defined, but was destroyed or defined again"
        ):
            late()
    old._destroy()  # is already removed
    assert packet(gt.ones(1)).tolist() == [3]


@pytest.mark.parametrize(
    "broken",
    [
        lambda: custom_op("t::f", lambda x: x, mutates_args=()),
        lambda: make(schema="(Tensor x, Tensor y) -> Tensor"),
        lambda: make(device_types="no_such_device"),
        lambda: make(mutates_args={"y"}),
    ],
)
def test_a_definition_that_fails_changes_nothing(broken: Any) -> None:
    make(lambda x: gt.tensor([1.0])).register_kernel("cpu", lambda x: gt.tensor([2.0]))
    before = gt.dispatch.dump("t::f")
    with pytest.raises(gt.GpuTensorError):
        broken()
    assert gt.ops.t.f(gt.ones(1)).tolist() == [2] and gt.dispatch.dump("t::f") == before


def test_it_goes_without_trace() -> None:
    op = cube()
    op._destroy()
    with pytest.raises(AttributeError, match="no operator 'cube'"):
        gt.ops.t.cube  # noqa: B018
    assert gt.dispatch.dump("t::cube") == "" and "t::cube" not in gt.dispatch.dangling_impls()
    with pytest.raises(errors.DispatchError, match="t::cube"):
        op(gt.ones(1))
    with pytest.raises(errors.RegistrationError, match="t::cube.*was destroyed"):
        op.register_kernel("cpu", lambda x, by: x)


def test_a_library_keeps_registrations() -> None:
    op = make(lambda x: gt.tensor([1.0]))
    x, meta = gt.ones(1), gt.empty(1, device="meta")
    with Library("t", "IMPL") as lib:
        register_kernel(op, "cpu", lambda x: gt.tensor([2.0]), lib=lib)
        register_fake("t::f", lambda x: x.new_empty(5), lib=lib)
        assert op(x).tolist() == [2] and op(meta).shape == (5,)
    assert op(x).tolist() == [1]
    with pytest.raises(errors.DispatchError, match="register_fake"):
        op(meta)
    with (
        Library("other", "IMPL") as other,
        pytest.raises(errors.RegistrationError, match="namespace 'other'"),
    ):
        register_kernel(op, "cpu", lambda x: gt.tensor([3.0]), lib=other)
    assert op(x).tolist() == [1]


def test_operators_of_a_library_take_part() -> None:
    with Library("t", "DEF") as lib:
        lib.define("plain(Tensor x) -> Tensor")
        with pytest.raises(errors.RegistrationError, match="t::plain: defined twice"):
            custom_op("t::plain", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
        handles = [
            register_kernel("t::plain", None, lambda x: x + 1),
            register_kernel(gt.ops.t.plain, ("cpu",), lambda x: x + 2),
            register_fake(gt.ops.t.plain.default, lambda x: x.new_empty(9)),
        ]
        assert gt.ops.t.plain(gt.ones(1)).tolist() == [3]
        assert gt.ops.t.plain(gt.ones(1, device="meta")).shape == (9,)
    assert "t::plain" in gt.dispatch.dangling_impls()  # no library kept the kernels
    for handle in handles:
        handle.remove()
    assert gt.dispatch.dump("t::plain") == ""


def test_calls_and_registrations_from_many_threads() -> None:
    op = cube()
    x = gt.ones(2)
    stop, wrong = threading.Event(), []

    def run() -> None:
        while not stop.is_set():
            found = op(x).tolist()
            if found not in ([2, 2], [5, 5]):
                wrong.append(found)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        op.register_kernel("cpu", lambda x, by: gt.full((2,), 5.0)).remove()
        with op.set_kernel_enabled("cpu", False):
            pass
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, kind, said",
    [
        (
            lambda: custom_op("f", mutates_args=()),
            ValueError,
            "'name' must be written namespace::name",
        ),
        (lambda: custom_op("a::b::c", mutates_args=()), ValueError, "'name' must be written"),
        (lambda: custom_op("a::b.c.d", mutates_args=()), ValueError, "'name' must be written"),
        (lambda: custom_op(3, mutates_args=()), ValueError, "'name' must be written"),
        (lambda: custom_op("t::f"), TypeError, "mutates_args"),
        (lambda: custom_op("t::f", 3, mutates_args=()), TypeError, "'fn' must be callable"),
        (
            lambda: make(mutates_args="x"),
            ValueError,
            "'mutates_args' must be names of arguments, or 'unknown'",
        ),
        (
            lambda: make(mutates_args={"y"}),
            ValueError,
            "'mutates_args' must name tensors.*'y', which",
        ),
        (
            lambda: make(schema="f(Tensor x) -> Tensor"),
            ValueError,
            "'schema' must begin with its arguments",
        ),
        (lambda: make(schema="(Tensor x -> Tensor"), ValueError, "column"),
        (
            lambda: make(schema="(Tensor(a!) x) -> Tensor"),
            ValueError,
            "'mutates_args' must be what the schema writes to",
        ),
        (
            lambda: make(schema="(Tensor x) -> Tensor", mutates_args={"x"}),
            ValueError,
            "what the schema writes to",
        ),
        (
            lambda: make(schema="(*, Tensor x) -> Tensor"),
            NotImplementedError,
            "'x' must not be keyword-only",
        ),
        (lambda: make(device_types="zz"), RuntimeError, "'type' must be one of"),
        (
            lambda: make(tags="inplace"),
            ValueError,
            "tagged 'inplace' must write to its first argument",
        ),
        (lambda: make(tags="out"), ValueError, "tagged 'out' must write to keyword-only"),
        (lambda: register_kernel(3, "cpu", len), ValueError, "'op' must be an operator"),
        (lambda: register_fake("nothing", len), ValueError, "'op' must be an operator"),
        (lambda: register_kernel("t::f", "cpu", 3), TypeError, "'fn' must be callable"),
    ],
)
def test_misuse(call: Any, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        call()


# --- together with modes, traces and other features -----------------------------------------------


def test_lazy_operands_come_materialised() -> None:
    op = custom_op("t::c", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_kernel("cpu", lambda x: gt.from_numpy(x.numpy() * 2))
    assert op(gt.tensor([1 + 2j]).conj()).tolist() == [2 - 4j]


def test_modes_see_it() -> None:
    seen = []

    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(op))
            return op(*args, **(kwargs or {}))

    op, x = cube(), gt.ones(1)
    with Mode():
        op(x)
    assert seen[0] == "t.cube.default"


def test_the_cpu_fallback_serves_it() -> None:
    op = cube(device_types="cpu")
    with gt.backend.register("acme", "PrivateUse2", runtime=Runtime(), cpu_fallback=True):
        x = gt.ones(2).to("acme")
        with pytest.warns(errors.FallbackWarning, match="t::cube"):
            y = op(x)
        assert y.tolist() == [2, 2] and y.device.type == "acme"


def test_a_trace_names_its_hops() -> None:
    op = cube()
    with gt.dispatch.trace() as lines:
        op(gt.ones(1))
    text = "\n".join(lines)
    assert (
        "[call] op=[t::cube], key=[AutogradCPU]" in text
        and "[redispatch] op=[t::cube], key=[CPU]" in text
    )
