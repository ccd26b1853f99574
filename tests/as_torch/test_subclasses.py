"""Programs' subclasses of Tensor and Function, with gputensor as `torch`."""

from __future__ import annotations

import subprocess
import sys

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


def test_a_node_of_a_function_has_a_class_of_its_name() -> None:
    run(NODES)
