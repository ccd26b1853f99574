"""`__torch_function__` of classes and modes, and bases of PyTorch's modules."""

from __future__ import annotations

import operator
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor import as_torch
from gputensor.as_torch import legacy_types, overrides
from gputensor.as_torch.overrides.subclasses import Overridable
from gputensor.dispatch import refusal
from gputensor.tensor import base


class Diagonal:
    """A matrix that stores its diagonal."""

    calls: list[Any] = []

    def __init__(self, values: gt.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.calls.append((func, types, args, kwargs))
        if func is gt.matmul and isinstance(args[0], Diagonal):
            return args[0].values[:, None] * args[1]
        if func is gt.stack:
            return [x.values for x in args[0]]
        return NotImplemented


class Unit(Diagonal):
    pass


class Sink:
    """Accepts all functions."""

    calls: list[Any] = []

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        cls.calls.append((func, args, kwargs))
        return 7


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    refusal.overriding.append(as_torch._override)
    Diagonal.calls, Sink.calls = [], []
    base.overridable.append(lambda: Overridable)
    yield
    base.overridable.clear()
    refusal.overriding.clear()


def test_a_function_calls_the_handler_of_an_argument() -> None:
    d, x = Diagonal(gt.tensor([2.0, 3.0])), gt.ones(2, 2)
    assert gt.matmul(d, x).tolist() == [[2, 2], [3, 3]]
    assert Diagonal.calls[0][1:] == ((Diagonal,), (d, x), {})
    assert gt.stack([d, d], dim=1)[1].tolist() == [2, 3]
    assert Diagonal.calls[1][3] == {"dim": 1}


def test_arguments_are_passed_as_they_were_given() -> None:
    d = Sink()
    gt.sum(d, 1)  # type: ignore[call-overload]
    gt.sum(d, dim=1)  # type: ignore[call-overload]
    gt.sum(d, 1, dtype=gt.float64, keepdim=True)  # type: ignore[call-overload]
    gt.add(gt.ones(1), d, alpha=2)  # type: ignore[arg-type]
    gt.nn.functional.dropout(d, 0.3)  # type: ignore[arg-type]
    options = {"dim": 1}
    gt.sum(d, **options)
    assert [(args[1:], kwargs) for _, args, kwargs in Sink.calls] == [
        ((1,), {}), ((), {"dim": 1}), ((1,), {"dtype": gt.float64, "keepdim": True}),
        ((d,), {"alpha": 2}), ((), {"p": 0.3, "training": True, "inplace": False}), ((1,), {}),
    ]  # fmt: skip


def test_functions_of_nn_and_operators_call_the_handler() -> None:
    d, x, F = Sink(), gt.ones(2), gt.nn.functional
    called: list[Any] = [
        (F.relu, F.relu(d)),
        (F.linear, F.linear(x, d)),
        (F.softmax, F.softmax(d, 0)),
        (F.mse_loss, F.mse_loss(x, d)),
        (F.dropout, F.dropout(d)),
        (F.tanh, F.tanh(d)),
        (F.elu, F.elu(d)),
        (F.linear, gt.nn.Linear(2, 2)(d)),
        (gt.einsum, gt.einsum("i->", d)),
        (gt.Tensor.add, x + d),
        (gt.Tensor.matmul, x @ d),
        (gt.Tensor.sub_, operator.isub(x, d)),
        (gt.Tensor.__getitem__, x[d]),
    ]  # type: ignore[arg-type]
    x[0] = d
    called.append((gt.Tensor.__setitem__, 7))
    assert [found for _, found in called] == [7] * len(called)
    assert [func for func, *_ in Sink.calls] == [func for func, _ in called]


def test_a_subclass_is_asked_first_and_nobody_is_an_error() -> None:
    d, unit = Diagonal(gt.ones(2)), Unit(gt.ones(2))
    with pytest.raises(TypeError, match="no implementation found for .*add'"):
        gt.add(d, unit)
    assert Diagonal.calls[0][1] == (Unit, Diagonal) and len(Diagonal.calls) == 2
    with pytest.raises(TypeError, match="no implementation found"):
        gt.nn.functional.normalize(d)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'other' must be a Tensor"):
        gt.matmul(gt.ones(2), object())  # type: ignore[arg-type]


def test_functions_of_overrides() -> None:
    d = Diagonal(gt.ones(2))
    assert overrides.has_torch_function((1, d)) and not overrides.has_torch_function((gt.ones(1),))
    assert overrides.is_tensor_like(d) and overrides.is_tensor_like(gt.ones(1))
    made = overrides.handle_torch_function(gt.matmul, (d,), d, gt.ones(2, 1))
    assert made.tolist() == [[1], [1]]


def names(base: Any) -> set[str]:
    kinds = {name: getattr(gt.nn, name) for name in gt.nn.__all__}
    return {
        name for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, base) and not name.startswith("Lazy")
    }  # fmt: skip


def test_our_own_subclasses_call_no_handler() -> None:
    def made(module: str) -> type:
        return type(gt.Tensor)("Made", (gt.Tensor,), {"__module__": module})

    assert issubclass(made("program"), Overridable)
    assert not issubclass(made("gputensor.func.levels"), Overridable)


def test_bases_have_the_subclasses_of_pytorch() -> None:
    found = {name: kind for of in legacy_types.BASES.values() for name, kind in of.items()}
    batch = {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"}
    assert names(found["_BatchNorm"]) == batch
    assert names(found["_NormBase"]) == batch | {f"InstanceNorm{n}d" for n in (1, 2, 3)}
    assert names(found["_AdaptiveAvgPoolNd"]) == {f"AdaptiveAvgPool{n}d" for n in (1, 2, 3)}
    assert {"CrossEntropyLoss", "CTCLoss", "HuberLoss"} < names(found["_Loss"])
    assert "BCEWithLogitsLoss" not in names(found["_WeightedLoss"])
    assert isinstance(gt.nn.NLLLoss(), found["_WeightedLoss"])

    class Own(found["_Loss"]):  # type: ignore[misc]
        pass

    assert Own(reduction="sum").reduction == "sum" and isinstance(Own(), found["_Loss"])
    assert not isinstance(gt.nn.MSELoss(), Own)


# Prints the function, the classes and the number of arguments of each call of a handler.
PRINTED = """
import operator as o
import torch
from torch.nn import functional as F

class S(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", func)
        print(name, [kind is S for kind in types][:1], len(args), sorted(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

s, p = torch.ones(2, 2).as_subclass(S), torch.ones(2, 2)
for name in "add sub mul mod pow matmul eq ne lt le gt ge".split():
    for a, b in ((s, p), (p, s), (s, 2), (2, s)):
        if name != "matmul" or not isinstance(a, int) and not isinstance(b, int):
            print(name, type(getattr(o, name)(a, b)) is S)
for name in "and_ or_ xor".split():
    for a, b in ((s.bool(), p.bool()), (p.bool(), s.bool()), (s.bool(), True), (True, s.bool())):
        getattr(o, name)(a, b)
for name in "iadd isub imul itruediv ifloordiv ipow imod".split():
    getattr(o, name)(torch.ones(2).as_subclass(S), 2)
s[0], -s, +s, abs(s), s.shape, s.ndim, s.T, s.grad, s.is_leaf, s.requires_grad, len(s), s.tolist()
s[0] = 1
p[0] = s[0]
p[s.long()]
bool(s.sum() > 0), int(s.sum()), hash(s), s.size(0), s.numpy()
F.relu(s), F.linear(s, p), F.dropout(s, 0.5), F.softmax(s, 1), F.conv1d(s[None], p[None])
F.cross_entropy(s, p), torch.nn.Linear(2, 2)(s), torch.nn.Sequential(torch.nn.ReLU())(s)
torch.sum(s, 1), torch.sum(s, dim=1), s.sum(1), torch.stack([s, p]), torch.cat([p, s])
torch.zeros_like(s), s.new_zeros(2), s.to(torch.float64), s.clone(), s.contiguous(), p.add(s)
s.requires_grad_()
print(type(s * 2 + p), type(torch.chunk(s, 2)[0]), type(s.max(0).values), type(p * 2))
(s * 2).sum()
with torch._C.DisableTorchFunctionSubclass():
    print(type(s * 2) is torch.Tensor, (s * 2).tolist())

class Plain(torch.Tensor):
    pass

x = torch.arange(3.0).as_subclass(Plain)
print([type(y).__name__ for y in (x + 1, x[0], x.sum(), torch.stack([x, x]), 1 - x, x.clone())])
print(type(x + torch.ones(3)).__name__, type(torch.ones(3) + x).__name__, type(x.data).__name__)
w = torch.nn.Parameter(torch.ones(3))
print(type(w * x).__name__, type(w * 2).__name__, type(w).__name__)
y = x.clone().requires_grad_()
(y * y).sum().backward()
print(type(y.grad).__name__, y.grad.tolist())

class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl

print(type(torch.ones(1).as_subclass(Quiet) + 1).__name__)

class Names(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print("mode", func.__name__)
        return func(*args, **(kwargs or {}))

with Names():
    (torch.ones(2) + 1).sum()
    F.linear(s, p)
    p[0], p[:2]
    w.detach()[1] = 5.0
print(w.tolist())
print(type(torch.Tensor.__torch_function__(torch.add, (), (p, 1))).__name__)
print(torch.overrides.has_torch_function((s,)), torch.overrides.has_torch_function((p, w, x)))
"""


@pytest.mark.oracle
def test_handlers_are_called_as_in_pytorch() -> None:
    pytest.importorskip("torch")
    install = "from gputensor import as_torch\nas_torch.install()\n"
    expected, found = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", start + PRINTED],
            capture_output=True, text=True, check=False,
        )
        for start in ("", install)
    )  # fmt: skip
    assert expected.returncode == 0, expected.stderr
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == expected.stdout.splitlines()
