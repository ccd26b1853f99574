"""Programs' subclasses of Tensor and Function, with gputensor as `torch`."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

CONSTRUCTED = """
class Bare(torch.Tensor):
    pass

class Named(torch.Tensor):
    @staticmethod
    def __new__(cls, data, name="x"):
        return super().__new__(cls, data)

    def __init__(self, data, name="x"):
        self.called = name

class Weight(torch.nn.Parameter):
    def __new__(cls, data):
        return super().__new__(cls, data, requires_grad=False)

made = Named([1, 2], name="y")
assert type(made) is Named and made.called == "y" and made.tolist() == [1.0, 2.0]
assert repr(made) == "Named([1., 2.])" and type(made.as_subclass(Bare)) is Bare
source = torch.tensor([1, 2])
made = Named(source)
made[0] = 5
assert source.tolist() == [5, 2] and made.dtype is torch.int64
assert Named(3).shape == (3,) and Bare(2, 3).shape == (2, 3) and Bare().shape == (0,)
assert repr(Bare([1.0])) == "Bare([1.])" and Bare(torch.Size([4])).shape == (4,)

source = torch.ones(2, requires_grad=True)
for kind in (torch.Tensor, Bare, Named):
    made = kind(source)
    assert type(made) is kind and made.grad_fn.name() == "AliasBackward0"
    made.sum().backward()
assert source.grad.tolist() == [3, 3]

made = Weight(torch.ones(2))
assert repr(made) == "Parameter containing:\\nParameter(Weight([1., 1.]))"
assert Bare.__base__ is torch.Tensor and isinstance(Bare([1]), torch.Tensor)
"""

NODES = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

class Again(Double):
    pass

x = torch.ones(2, requires_grad=True)
for kind in (Double, Again):
    name = f"{kind.__name__}Backward"
    node = kind.apply(x).grad_fn
    assert repr(node).startswith(f"<torch.autograd.function.{name} object at 0x"), node
    assert node.name() == type(node).__name__ == name
    assert type(node) is type(kind.apply(x).grad_fn)
    assert repr(kind.apply(x)) == f"tensor([2., 2.], grad_fn=<{name}>)"
assert repr(x.exp().grad_fn).startswith("<ExpBackward0 object at 0x")
"""


def run(program: str) -> None:
    code = f"from gputensor import as_torch\nas_torch.install()\nimport torch\n{program}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_subclass_calls_the_constructor_of_tensor() -> None:
    run(CONSTRUCTED)


DISPATCHED = """
called = []

class Logging(torch.Tensor):
    @staticmethod
    def __new__(cls, elem, *, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), storage_offset=elem.storage_offset(),
            dtype=elem.dtype, layout=elem.layout, device=elem.device, requires_grad=requires_grad)
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        called.append(str(func))
        plain = [x.elem if isinstance(x, Logging) else x for x in args]
        made = func(*plain, **(kwargs or {}))
        return Logging(made) if isinstance(made, torch.Tensor) else made

x = Logging(torch.ones(2, 2), requires_grad=True)
(x * 2).sum().backward()
assert type(x.grad) is Logging and x.grad.elem.tolist() == [[2, 2], [2, 2]]
assert called[:2] == ["aten.mul.Tensor", "aten.sum.default"], called

class Passing(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return super().__torch_dispatch__(func, types, args, kwargs)

class Guarded(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {}))

for kind in (Passing, Guarded):
    made = torch.Tensor._make_subclass(kind, torch.ones(2)) + 1
    assert type(made) is torch.Tensor and made.tolist() == [2, 2]
"""


def test_handlers_of_operators_have_the_name_of_pytorch() -> None:
    run(DISPATCHED)


@pytest.mark.full
def test_a_node_of_a_function_has_a_class_of_its_name() -> None:
    run(NODES)


INTERNALS = """
import io, pickle
from functorch import make_functional_with_buffers, combine_state_for_ensemble, vmap
from torch.autograd.functional import _construct_standard_basis_for
from torch.cuda.amp import autocast, custom_fwd
from torch.fx import GraphModule
from torch.utils._contextlib import _DecoratorContextManager
from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype
from torch.utils.data._utils.worker import _generate_state
from torch.utils.weak import WeakIdKeyDictionary
from torch.nn.utils._named_member_accessor import swap_tensor

with autocast(enabled=False), torch.cpu.amp.autocast():
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16
assert issubclass(autocast, torch.autocast) and custom_fwd(len).__name__ == "len"
assert issubclass(GraphModule, torch.nn.Module)

model = torch.nn.BatchNorm1d(3).eval()
call, params, buffers = make_functional_with_buffers(model)
x = torch.rand(4, 3)
assert torch.equal(call(params, buffers, x), model(x)) and params[0].is_leaf
call, params, buffers = combine_state_for_ensemble([model, model])
assert vmap(call, in_dims=(0, 0, None))(params, buffers, x).shape == (2, 4, 3)

lists = [[torch.ones(1), torch.ones(1, dtype=torch.int64), torch.zeros(2)], [1, 2, 3]]
groups = _group_tensors_by_device_and_dtype(lists, with_indices=True)
assert [(places, rows[1]) for rows, places in groups.values()] == [([0, 2], [1, 3]), ([1], [2])]
basis = _construct_standard_basis_for((torch.ones(2), torch.ones(1)), (2, 1))
assert [b.tolist() for b in basis] == [[[1, 0], [0, 1], [0, 0]], [[0], [0], [1]]]
assert _generate_state(12345678901234, 3) == [2677634501, 810098766, 226270600, 4115140591]

weak = WeakIdKeyDictionary()
weak[x] = 1
assert x in weak and [*weak.values()] == [1]
del x
assert len(weak) == 0

class Counted(_DecoratorContextManager):
    entered = 0
    def __enter__(self): Counted.entered += 1
    def __exit__(self, *error): pass

assert [Counted()(abs)(-n) for n in (1, 2)] == [1, 2] and Counted.entered == 2
former = model.weight
assert swap_tensor(model, "weight", torch.zeros(3)) is former and not model.weight.any()

lists = [torch.tensor([1.0, 5.0]), torch.tensor([3.0])]
torch._foreach_maximum_(lists, 2.0)
assert [x.tolist() for x in lists] == [[2, 5], [3]]

from torch.optim.lbfgs import _cubic_interpolate, _strong_wolfe
def square(x, t, d):
    return float(((x + t * d) ** 2).sum()), 2 * (x + t * d)

x, d = torch.tensor([3.0, -4.0]), torch.tensor([-3.0, 4.0])
loss, grad = square(x, 0, d)
found = _strong_wolfe(square, x, 7.0, d, loss, grad, grad.dot(d))
assert (found[0], found[1].tolist(), float(found[2]), found[3]) == (0, [0, 0], 1, 2)
assert _cubic_interpolate(0.0, 1.0, -2.0, 2.0, 1.0, 2.0, (0, 2)) == 1
assert torch.jit.wait(torch.jit.fork(divmod, 7, 2)) == (3, 1) and not torch._C._is_tracing()
parts = torch.split(torch.arange(5), split_size_or_sections=[2, 3], dim=0)
assert [part.tolist() for part in parts] == [[0, 1], [2, 3, 4]]
made = torch.Tensor._make_subclass(torch.nn.Parameter, torch.ones(2), True)
assert made.requires_grad and type(made) is torch.nn.Parameter and made.is_leaf

for kind, name in ((torch.Tensor, "Tensor"), (torch.Size, "Size"), (torch.dtype, "dtype")):
    assert repr(kind) == f"<class 'torch.{name}'>"
    assert pickle.loads(pickle.dumps(kind)) is kind
assert pickle.loads(pickle.dumps(torch.ones(2).shape)) == (2,)
"""

PICKLE = """
import pickle
made = pickle.loads(bytes.fromhex({text!r}))
assert made[0].tolist() == [[0, 1], [2, 3]] and made[1].tolist() == [1, 1]
assert type(made[1]) is torch.nn.Parameter and made[1].requires_grad
"""


@pytest.mark.full
def test_names_that_packages_use_from_the_inside() -> None:
    run(INTERNALS)


@pytest.mark.oracle
def test_a_pickle_of_pytorch_is_read() -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(2))
    text = pickle.dumps([torch.arange(4.0).view(2, 2), parameter]).hex()
    run(PICKLE.format(text=text))
