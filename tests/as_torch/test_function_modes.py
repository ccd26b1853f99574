"""TorchFunctionMode: which calls a mode sees, and that functions are as before when it ends.

tests/oracle/test_function_modes_oracle.py compares the calls with PyTorch's.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import as_torch
from gputensor.as_torch import overrides
from gputensor.as_torch.overrides import entries, names as function_names
from gputensor.as_torch.overrides.modes import (
    OF_CORE, OF_OVERRIDES, BaseTorchFunctionMode, TorchFunctionMode,
)  # fmt: skip
from gputensor.dispatch import refusal
from gputensor.tensor import base

F = gt.nn.functional


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    refusal.overriding.append(as_torch._override)
    base.overridable.append(as_torch._overridable)
    yield
    refusal.overriding.clear()
    base.overridable.clear()


class Record(TorchFunctionMode):
    """Stores each call and runs it."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def functions(self) -> list[Any]:
        return [func for func, *_ in self.calls]


def test_a_mode_sees_attributes() -> None:
    x = gt.ones(2, 3)
    T: Any = gt.Tensor
    with Record() as seen:
        assert x.shape == (2, 3) and x.dtype is gt.float32 and x.T.shape == (3, 2)
        x.requires_grad = True
        x.grad = gt.zeros(2, 3)
        del x.grad
        assert x.grad is None
    expected: list[Any] = [
        T.shape.__get__, T.dtype.__get__, T.T.__get__, T.shape.__get__, T.requires_grad.__set__,
        gt.zeros, T.grad.__set__, T.grad.__delete__, T.grad.__get__,
    ]  # fmt: skip
    assert seen.functions() == expected
    assert seen.calls[4][1] == (x, True)


def test_a_mode_sees_methods_that_run_no_operator() -> None:
    x, T = gt.arange(3.0), gt.Tensor
    with Record() as seen:
        assert x.dim() == 1 and x.size(0) == 3 and x.tolist() == [0, 1, 2] and len(x) == 3
        assert x.contiguous() is x and x.float() is x and x.cpu() is x and 1 in x
        assert repr(x) == "tensor([0., 1., 2.])" and f"{x[1]:.1f}" == "1.0"
        assert bool(x[1]) and int(x[1]) == 1 and T.numel(x) == 3
    assert seen.functions() == [
        T.dim, T.size, T.tolist, T.__len__, T.contiguous, T.float, T.cpu, T.__contains__,
        T.__repr__, T.__getitem__, T.__format__, T.__getitem__, T.__bool__, T.__getitem__,
        T.__int__, T.numel,
    ]  # fmt: skip


def test_a_mode_sees_functions_that_make_tensors() -> None:
    array = np.ones(2, np.float32)
    with Record() as seen:
        gt.tensor([1, 2], dtype=gt.int8)
        gt.as_tensor(array)
        gt.asarray(array)
        gt.zeros(2, 3)
        gt.ones((2,), dtype=gt.int32)
        gt.arange(3)
        gt.full((1,), 2.0)
        gt.ones(1).new_zeros(2)
    assert [(f, args) for f, args, _ in seen.calls[:-1]] == [
        (gt.tensor, ([1, 2],)), (gt.as_tensor, (array,)), (gt.asarray, (array,)),
        (gt.zeros, (2, 3)), (gt.ones, ((2,),)), (gt.arange, (3,)), (gt.full, ((1,), 2.0)),
        (gt.ones, (1,)),
    ]  # fmt: skip
    assert [kwargs for *_, kwargs in seen.calls[:5]] == [
        {"dtype": gt.int8}, {}, {}, {}, {"dtype": gt.int32}
    ]  # fmt: skip
    assert seen.calls[-1][0] is gt.Tensor.new_zeros and seen.calls[-1][1][1:] == (2,)


def test_arguments_of_views_are_those_of_the_program() -> None:
    x = gt.ones(2, 3)
    with Record() as seen:
        x.view(3, -1)
        x.permute(1, 0)
        x.to(gt.float64)
        x.expand(2, 2, 3)
    assert [args[1:] for _, args, _ in seen.calls] == [(3, -1), (1, 0), (gt.float64,), (2, 2, 3)]
    assert not any(kwargs for *_, kwargs in seen.calls)


def test_a_mode_sees_a_composed_function_as_one_call() -> None:
    x, w = gt.ones(2, 3), gt.ones(3, 3, requires_grad=True)
    with Record() as seen:
        F.dropout(x, 0.5, training=False)
        F.cross_entropy(x, gt.tensor([0, 1]))
        gt.einsum("ij->i", x)
        gt.atleast_2d(x)
        gt.stack([x, x])
        F.linear(x, w).sum().backward()
        gt.autograd.grad(F.softmax(w, 1).sum(), w)
    assert seen.functions() == [
        F.dropout, gt.tensor, F.cross_entropy, gt.einsum, gt.atleast_2d, gt.stack,
        F.linear, gt.Tensor.sum, gt.Tensor.backward, F.softmax, gt.Tensor.sum, gt.autograd.grad,
    ]  # fmt: skip
    assert seen.calls[0][2] == {"p": 0.5, "training": False, "inplace": False}


def test_a_mode_sees_the_operators_of_functions_that_it_cannot_replace() -> None:
    x = gt.ones(2, 2, requires_grad=True)
    x.grad = gt.ones(2, 2)
    with Record() as seen:
        gt.nn.utils.clip_grad_norm_([x], 1.0)
        gt.nn.init.zeros_(x)
        gt.nn.init.normal_(x, std=2.0)
    assert gt.nn.utils.clip_grad_norm_ not in seen.functions()  # type: ignore[comparison-overlap]
    assert seen.functions()[0] is gt.linalg.vector_norm
    assert seen.functions()[-2:] == [gt.Tensor.zero_, gt.nn.init.normal_]
    assert seen.calls[-1][1:] == ((), {"tensor": x, "mean": 0.0, "std": 2.0, "generator": None})
    with Record() as seen:
        gt.nn.Linear(2, 2)
    init = gt.nn.init
    assert seen.functions() == [gt.empty, gt.empty, init.kaiming_uniform_, init.uniform_]


def test_a_mode_sees_an_operator_that_the_program_calls_by_name() -> None:
    x, add = gt.ones(2), gt.ops.aten.add
    with Record() as seen:
        add.Tensor(x, x)
        add(x, x)
    assert seen.functions() == [add.Tensor, add]


def test_an_operator_is_seen_under_pytorchs_name() -> None:
    x, i, T = gt.ones(2), gt.tensor([1, 2]), gt.Tensor
    with Record() as seen:
        _ = 2 / x, x**2, ~i, i.bitwise_not(), 1 & i, i & 1, +x
        _ = x.true_divide(2), gt.true_divide(x, 2), 1 + x, reversed(x)
    expected: list[Any] = [
        T.__rtruediv__, T.__pow__, T.__invert__, T.bitwise_not, T.bitwise_and, T.__and__,
        T.positive, T.true_divide, gt.true_divide, T.add, T.__reversed__,
    ]  # fmt: skip
    assert seen.functions() == expected
    assert [f.__name__ for f in expected[:3]] == ["__rdiv__", "pow", "__invert__"]
    assert T.true_divide is not T.div and T.__invert__ is not T.bitwise_not


def test_the_types_that_a_mode_gets() -> None:
    """Plain tensors are among them where PyTorch's function is written in Python, and in attributes
    and methods without arguments."""

    class Types(Record):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            found.append((func.__name__, types))
            return super().__torch_function__(func, types, args, kwargs)

    found: list[Any] = []
    x, w, T = gt.ones(2, 2), gt.nn.Parameter(gt.ones(2, 2)), gt.Tensor
    with Types():
        _ = x + w, x // 2, w // x, F.softmax(x, 1), x.neg(), w.neg(), x.sum(), x.shape, len(w)
    assert found == [
        ("add", ()), ("__floordiv__", (T,)), ("__floordiv__", (T,)), ("softmax", (T,)),
        ("neg", (T,)), ("neg", (gt.nn.Parameter,)), ("sum", ()), ("__get__", (T,)), ("__len__", ()),
    ]  # fmt: skip


def test_a_class_is_called_after_the_mode() -> None:
    class Sub(gt.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            order.append(func)
            return overrides.default(cls, func, types, args, kwargs)

    order: list[Any] = []
    x: Any = gt.ones(2, 3).as_subclass(Sub)
    with Record() as seen:
        assert len(x) == 2 and x.T.shape == (3, 2)
    assert seen.functions() == order
    assert order == [gt.Tensor.__len__, gt.Tensor.T.__get__, gt.Tensor.shape.__get__]


def test_modes_are_called_innermost_first() -> None:
    order = []

    class Named(Record):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def __torch_function__(self, func: Any, *args: Any) -> Any:
            order.append(self.name)
            y = gt.ones(1)
            assert y.shape == (1,)  # the outer modes see this call, and this mode does not
            return super().__torch_function__(func, *args)

    x = gt.ones(1)
    with Named("outer") as outer, Named("inner") as inner:
        assert x.dim() == 1
    assert order == ["inner", "outer", "outer", "outer"]
    assert len(inner.calls) == 1 and len(outer.calls) == 3


def test_functions_are_as_before_when_the_last_mode_ends() -> None:
    changed = entries._entries()
    before = [entry.function.__code__ for entry in changed]
    signature = inspect.signature(gt.tensor)
    assert len(before) > 100
    with pytest.raises(ZeroDivisionError), BaseTorchFunctionMode():
        with BaseTorchFunctionMode():
            pass
        assert gt.tensor.__code__ is not before[0] and inspect.signature(gt.tensor) == signature
        1 / 0  # noqa: B018
    assert [entry.function.__code__ for entry in changed] == before
    assert not refusal.entering and not hasattr(gt.tensor, "__wrapped__")


def test_a_mode_belongs_to_its_thread() -> None:
    x, seen = gt.ones(2), Record()

    def read() -> None:
        assert x.shape == (2,) and gt.tensor([1]).tolist() == [1] and F.dropout(x, 0.0).dim() == 1

    with seen:
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
    assert not seen.calls


def test_a_mode_may_return_another_result() -> None:
    class Zeros(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            return 0 if func in (gt.tensor, gt.Tensor.dim, F.relu) else func(*args)

    x = gt.ones(2)
    with Zeros():
        assert [gt.tensor(1), x.dim(), F.relu(x)] == [0, 0, 0]
        assert x.ndimension() == 0  # the second name of `dim`
    assert x.dim() == 1


def test_names_of_functions() -> None:
    names: dict[str, Any] = {
        "torch.Tensor.shape.__get__": gt.Tensor.shape.__get__,  # type: ignore[attr-defined]
        "torch.Tensor.grad.__set__": gt.Tensor.grad.__set__,  # type: ignore[attr-defined]
        "torch.Tensor.add_": gt.Tensor.add_, "torch.Tensor.__getitem__": gt.Tensor.__getitem__,
        "torch.add": gt.add, "torch.nn.functional.linear": F.linear, "torch.tensor": gt.tensor,
        "torch.linalg.inv": gt.linalg.inv, "torch.functional.einsum": gt.einsum,
        "torch.nn.init.normal_": gt.nn.init.normal_, "aten.add.Tensor": gt.ops.aten.add.Tensor,
    }  # fmt: skip
    assert {function_names.resolve_name(f) for f in names.values()} == names.keys()
    assert function_names.resolve_name(len) is None
    found = function_names.get_overridable_functions()
    assert gt.Tensor.add in found[gt.Tensor] and F.linear in found[F] and gt.add in found[gt]
    is_member = function_names.is_tensor_method_or_property
    assert is_member(gt.Tensor.add) and not is_member(gt.matmul)


def test_a_wrapped_function_calls_handlers() -> None:
    @function_names.wrap_torch_function(lambda a, b: (a, b))
    def twice(a: Any, b: Any) -> Any:
        """Add twice."""
        return a + 2 * b

    with Record() as seen:
        assert twice(1, 2) == 5
    assert seen.calls == [(twice, (1, 2), {})] and twice.__doc__ == "Add twice."


def test_the_stack_of_modes() -> None:
    current, stack = (OF_OVERRIDES[f"_get_current_function_mode{end}"] for end in ("", "_stack"))
    mode = Record()
    assert current() is None and stack() == []
    OF_OVERRIDES["_push_mode"](mode)
    assert current() is mode and stack() == [mode] and OF_CORE["_is_torch_function_mode_enabled"]()
    assert overrides.has_torch_function(())
    with OF_OVERRIDES["_pop_mode_temporarily"]() as found:
        assert found is mode and not OF_CORE["_len_torch_function_stack"]()
    assert OF_CORE["_get_function_stack_at"](0) is mode
    assert OF_OVERRIDES["_pop_mode"]() is mode and not refusal.entering
    with pytest.raises(gt.GpuTensorError, match="'mode' must be active"):
        OF_OVERRIDES["_pop_mode"]()
