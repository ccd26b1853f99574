"""Tensor subclasses of users: the hook that is called, its arguments, its results."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import keys


class Wrapper(gt.Tensor):
    """Holds its data in another tensor and records the calls that it receives."""

    log: list[Any] = []

    @staticmethod
    def __new__(cls, data: gt.Tensor) -> Any:
        return gt.Tensor._make_wrapper_subclass(
            cls, data.shape, data.stride(), dtype=data.dtype, device=data.device
        )

    def __init__(self, data: gt.Tensor) -> None:
        self.inner = data

    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.log.append((cls, op.short_name, types))
        result = op(
            *_map(args, _unwrap), **{k: _map(v, _unwrap) for k, v in (kwargs or {}).items()}
        )
        return _map(result, lambda x: Wrapper(x) if isinstance(x, gt.Tensor) else x)


def _unwrap(x: Any) -> Any:
    return x.inner if isinstance(x, Wrapper) else x


def _map(value: Any, change: Any) -> Any:
    return (
        type(value)(_map(x, change) for x in value)
        if isinstance(value, (list, tuple))
        else change(value)
    )


@pytest.fixture(autouse=True)
def _log() -> None:
    Wrapper.log = []


class _Bare(gt.Tensor):
    pass


class _Unmade(gt.Tensor):
    def __new__(cls) -> Any:
        return super().__new__(cls)


class _Other(gt.Tensor):
    def __new__(cls, value: int) -> Any:
        return value


@pytest.mark.parametrize(
    "call",
    [lambda: gt.Tensor(), lambda: gt.Tensor([1.0]), lambda: _Bare(2), lambda: _Bare(), _Unmade],
)
def test_a_call_of_a_class_that_makes_none_is_refused(call: Any) -> None:
    with pytest.raises(TypeError, match=r"^Tensor: 'data' must be given to gputensor.tensor"):
        call()
    assert _Other(3) == 3


def test_a_wrapper_stands_for_its_data() -> None:
    x = Wrapper(gt.ones(2, 3).t())
    assert (x.shape, x.stride(), x.dtype, x.device) == (
        (3, 2),
        (1, 3),
        gt.float32,
        gt.device("cpu"),
    )
    assert "Python" in gt.dispatch.key_set(x)
    y = (1 + x * 2).sum(0)
    assert type(y) is Wrapper and y.inner.tolist() == [9, 9]
    assert [name for _, name, _ in Wrapper.log] == ["mul", "add", "sum"]
    assert Wrapper.log[0][2] == (Wrapper,)


def test_wrappers_in_lists_and_out() -> None:
    x = Wrapper(gt.ones(2))
    assert gt.cat([gt.zeros(1), x]).inner.tolist() == [0, 1, 1]
    assert [piece.inner.tolist() for piece in x.unbind()] == [1, 1]
    assert x.add_(1) is not x  # the result of a hook is not checked
    assert x.inner.tolist() == [2, 2] and x._version == 1


def test_a_wrapper_has_no_memory() -> None:
    x = Wrapper(gt.ones(2))
    assert x.data_ptr() == 0 and repr(x) == "Wrapper(f32[2] cpu)"
    with pytest.raises(errors.GpuTensorError, match="must have data"):
        x.numpy()
    assert x.sum().inner.item() == 2 and Wrapper(gt.ones(1)).item() == 1


def test_sizes_strides_and_device_of_a_wrapper() -> None:
    class Plain(gt.Tensor):
        pass

    made = gt.Tensor._make_wrapper_subclass(Plain, (2, 3), dtype=gt.int64, device="meta")
    assert (made.shape, made.stride(), made.dtype, made.device.type) == (
        (2, 3),
        (3, 1),
        gt.int64,
        "meta",
    )
    assert "Python" not in gt.dispatch.key_set(made)
    with pytest.raises(TypeError, match="'cls' must be a subclass of Tensor"):
        gt.Tensor._make_wrapper_subclass(int, (2,))
    with pytest.raises(TypeError, match="must be a gputensor dtype"):
        gt.Tensor._make_wrapper_subclass(Plain, (2,), dtype="float32")


# --- hooks ----------------------------------------------------------------------------------------


class Base(gt.Tensor):
    log: list[str] = []

    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Base.log.append(cls.__name__)
        return super().__gputensor_dispatch__(op, types, args, kwargs)


class Derived(Base):
    pass


class Refusing(gt.Tensor):
    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def of(kind: Any, *sizes: int) -> Any:
    return gt.Tensor._make_subclass(kind, gt.ones(*sizes))


def hooks(call: Any) -> list[str]:
    Base.log = []
    call()
    return Base.log


def test_50_the_most_derived_class_is_asked_whatever_the_order() -> None:
    a, b = of(Base, 2), of(Derived, 2)
    assert hooks(lambda: a + b) == ["Derived"]
    assert hooks(lambda: b + a) == ["Derived"]
    assert hooks(lambda: gt.cat([a, gt.ones(1), b])) == ["Derived"]
    assert hooks(lambda: a + 1) == ["Base"]
    holds = gt.ones(2) > 0
    assert hooks(lambda: gt.where(holds, a, b)) == ["Derived"]


def test_unrelated_classes_are_asked_from_left_to_right() -> None:
    types: list[Any] = []

    class Left(gt.Tensor):
        @classmethod
        def __gputensor_dispatch__(
            cls, op: Any, given: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            types.append(given)
            return NotImplemented

    class Right(Left):
        pass

    a, b = of(Refusing, 2), of(Left, 2)
    with pytest.raises(TypeError, match="NotImplemented from Refusing, Left"):
        a + b
    with pytest.raises(TypeError, match="NotImplemented from Left, Refusing"):
        b + a
    with pytest.raises(TypeError, match="NotImplemented from Refusing, Right, Left"):
        gt.cat([a, b, of(Right, 1)])
    assert types == [
        (Refusing, Left),
        (Left, Refusing),
        (Refusing, Right, Left),
        (Refusing, Right, Left),
    ]


def test_a_hook_that_declines_leaves_it_to_the_next() -> None:
    a, b = of(Refusing, 2), of(Base, 2)
    assert hooks(lambda: a + b) == ["Base"]


@pytest.mark.parametrize("kind", [list, tuple])
def test_49_a_list_or_tuple_serves_for_tensors(kind: type) -> None:
    class Splitting(gt.Tensor):
        @classmethod
        def __gputensor_dispatch__(
            cls, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return kind([gt.ones(1), gt.ones(2)])

    found = of(Splitting, 4).split(2)
    assert [len(x) for x in found] == [1, 2]
    with pytest.raises(TypeError, match="Splitting.__gputensor_dispatch__ must return Tensor"):
        of(Splitting, 4) + 1


@pytest.mark.parametrize("answer", ["a str", None, 3])
def test_49_anything_else_for_a_tensor_raises(answer: Any) -> None:
    class Wrong(gt.Tensor):
        @classmethod
        def __gputensor_dispatch__(
            cls, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return answer

    with pytest.raises(
        TypeError, match=r"add: the kernel registered at Wrong\.__gputensor_dispatch__ must return"
    ):
        of(Wrong, 2) + 1
    with pytest.raises(TypeError, match="must return"):
        of(Wrong, 2).unbind()


def test_a_mode_is_asked_before_the_operands_types() -> None:
    class Mode(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            Base.log.append(f"mode {[t.__name__ for t in types]}")
            return op(*args, **(kwargs or {}))

    a = of(Base, 2)
    with Mode():
        assert hooks(lambda: a + 1) == ["mode ['Base']", "Base"]
    with Mode(), gt.no_dispatch():
        assert hooks(lambda: a + 1) == []


# --- classes without a hook -----------------------------------------------------------------------


def test_a_class_without_a_hook_behaves_as_a_tensor() -> None:
    class Named(gt.Tensor):
        name = "x"

    x = gt.arange(4).as_subclass(Named)
    assert type(x) is Named and x.name == "x" and "Python" not in gt.dispatch.key_set(x)
    assert type(x + 1) is gt.Tensor and (x + 1).tolist() == [1, 2, 3, 4]
    assert repr(x) == "Named([0, 1, 2, 3])"
    x[0] = 9
    assert x.tolist() == [9, 1, 2, 3]


def test_the_inherited_hook_runs_the_operator_itself() -> None:
    x = of(Base, 2, 2)
    view = x[0]
    assert type(view) is gt.Tensor and view.untyped_storage() is x.untyped_storage()
    assert not view._keys & keys.PYTHON
    assert x.add_(1) is x and x._version == 1
    assert hooks(lambda: view + 1) == []


def test_as_subclass_keeps_the_history() -> None:
    x = gt.ones(2, requires_grad=True)
    made = x.as_subclass(_Bare)
    assert type(made) is _Bare and made.grad_fn.name() == "AliasBackward0"
    (made * 3).sum().backward()
    assert x.grad.tolist() == [3, 3] and not x.detach().as_subclass(_Bare).requires_grad


def test_as_subclass_shares_memory() -> None:
    base = gt.zeros(3)
    x = base[1:].as_subclass(Base)
    x.fill_(2)
    assert base.tolist() == [0, 2, 2] and "Python" in gt.dispatch.key_set(x)
    assert "Python" not in gt.dispatch.key_set(x.as_subclass(gt.Tensor))


def test_gradients_pass_through_wrappers() -> None:
    x = Wrapper(gt.ones(2, 3))
    x.requires_grad_()
    (x * 3).t().sum().backward()
    assert type(x.grad) is Wrapper and x.grad.inner.tolist() == [[3] * 3] * 2


# --- copies ---------------------------------------------------------------------------------------


class Tagged(gt.Tensor):
    """Has memory of its own, attributes, and no handler."""


class Boxed(gt.Tensor):
    """A wrapper with its content in an attribute."""

    @classmethod
    def __gputensor_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inner = [x.inner if isinstance(x, Boxed) else x for x in args]
        return boxed(op(*inner, **(kwargs or {})))


def boxed(inner: Any) -> Any:
    made = gt.Tensor._make_wrapper_subclass(Boxed, inner.size(), dtype=inner.dtype)
    made.inner = inner
    return made


COPIES = {
    "pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy, "copy": copy.copy,
}  # fmt: skip


@pytest.mark.parametrize("way", COPIES)
def test_copies_keep_type_and_attributes(way: str) -> None:
    x = gt.arange(6).float().reshape(2, 3).t().as_subclass(Tagged)
    x.tag = ["a"]
    made = COPIES[way](x)
    assert type(made) is Tagged and made.tag == ["a"] and made.stride() == (1, 3)
    assert made.tolist() == x.tolist() and (made.tag is x.tag) is (way == "copy")
    made.add_(1)
    assert (made.tolist() == x.tolist()) is (way == "copy")  # a shallow copy shares memory


def test_copies_of_leaves_are_leaves() -> None:
    x = gt.ones(2).as_subclass(Tagged).requires_grad_()
    (x * 3).sum().backward()
    for way in ("pickle", "deepcopy"):
        made = COPIES[way](x)
        assert type(made) is Tagged and made.requires_grad and made.is_leaf
    assert copy.deepcopy(x).grad.tolist() == [3, 3]


def test_a_tensor_that_holds_itself_is_copied_once() -> None:
    x = gt.ones(2).as_subclass(Tagged)
    x.me = x
    made = copy.deepcopy(x)
    assert made.me is made and made is not x
    views = copy.deepcopy([x, x[:1].as_subclass(Tagged)])
    views[0].zero_()
    assert views[1].tolist() == [0]  # they still share memory


def test_a_subclass_has_the_signature_of_its_new() -> None:
    assert [*inspect.signature(gt.nn.Parameter).parameters] == ["data", "requires_grad"]
    assert [*inspect.signature(gt.Tensor).parameters] == ["args", "kwargs"]
