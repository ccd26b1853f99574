"""Three ways to define an operator: silu(x) = x / (1 + exp(-x)), in NumPy for the CPU and in CUDA C
for a GPU.

   python examples/custom_op.py                               # with a GPU, or on the CPU alone
   GPUTENSOR_CUDA=emulator python examples/custom_op.py       # the same CUDA C without a GPU

1. only forward: `example::silu` has kernels, and no derivative;
2. forward and backward registered separately: the backward of `example::silu_with_grad` is also an
operator;
3. an autograd.Function that calls the operators of 1.
"""

from __future__ import annotations

import functools

import numpy as np

import gputensor as gt
from gputensor import Tensor
from gputensor.library import custom_op, opcheck

TEXT = r"""
template <typename T> __global__ void silu(const T* x, T* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (T(1) + exp(-x[i]));
}
template <typename T> __global__ void silu_backward(const T* g, const T* x, T* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T s = T(1) / (T(1) + exp(-x[i]));
  y[i] = g[i] * s * (T(1) + x[i] * (T(1) - s));
}
"""
SPELLING = {gt.float32: "float", gt.float64: "double"}


@functools.cache
def kernel(entry: str, of: gt.dtype) -> gt.cuda.Kernel:
    return gt.cuda.Kernel(TEXT, f"{entry}<{SPELLING[of]}>")


def launch(entry: str, *inputs: Tensor) -> Tensor:
    """Run one of the kernels above on tensors of equal shapes, and return its result."""
    inputs = tuple(x.contiguous() for x in inputs)
    made = gt.empty_like(inputs[0])
    if made.numel():
        grid = gt.cuda.grid_for(made.numel(), 256)
        kernel(entry, made.dtype)[grid, 256](*inputs, made, made.numel())
    return made


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# --- 1. forward only ------------------------------------------------------------------------------


@custom_op("example::silu", mutates_args=(), device_types="cpu")
def silu(x: Tensor) -> Tensor:
    array = np.ascontiguousarray(x.numpy())
    return gt.from_numpy(array * sigmoid(array)).reshape(x.shape)


@silu.register_kernel("cuda")
def _(x: Tensor) -> Tensor:
    return launch("silu", x)


@silu.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


# --- 2. forward and backward, registered apart ----------------------------------------------------


@custom_op("example::silu_backward", mutates_args=(), device_types="cpu")
def silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    g, a = np.ascontiguousarray(grad.numpy()), np.ascontiguousarray(x.numpy())
    s = sigmoid(a)
    return gt.from_numpy(g * s * (1 + a * (1 - s))).reshape(x.shape)


silu_backward.register_kernel("cuda", lambda grad, x: launch("silu_backward", grad, x))
silu_backward.register_fake(lambda grad, x: x.new_empty(x.shape))


@custom_op("example::silu_with_grad", mutates_args=())
def silu_with_grad(x: Tensor) -> Tensor:
    return silu(x)


silu_with_grad.register_fake(lambda x: x.new_empty(x.shape))


def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def backward(ctx, grad):
    (x,) = ctx.saved_tensors
    return silu_backward(grad, x)


silu_with_grad.register_autograd(backward, setup_context=setup_context)


# --- 3. an autograd.Function ----------------------------------------------------------------------


class Silu(gt.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return silu(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return silu_backward(grad, x)


def main() -> None:
    devices = ["cpu", *(["cuda"] if gt.cuda.is_available() else [])]
    values = np.linspace(-4, 4, 12, dtype=np.float32).reshape(3, 4)
    expected = values * sigmoid(values)
    for device in devices:
        x = gt.from_numpy(values).to(device)
        assert np.allclose(silu(x).cpu().numpy(), expected, atol=1e-6)
        assert np.allclose(silu(x.t()).cpu().numpy(), expected.T, atol=1e-6)

        leaf = x.clone().requires_grad_()
        silu_with_grad(leaf).sum().backward()
        other = x.clone().requires_grad_()
        Silu.apply(other).sum().backward()
        gt.testing.assert_close(leaf.grad, other.grad)
        assert gt.autograd.gradcheck(Silu.apply, x.double().requires_grad_())

        print(
            f"{device}: silu({x[0, 1].item():.3f}) = {silu(x)[0, 1].item():.4f}, slope "
            f"{leaf.grad[0, 1].item():.4f}"
        )
        for op, args in (
            (silu, (x,)),
            (silu_backward, (x, x.t().contiguous().t())),
            (silu_with_grad, (leaf,)),
        ):
            found = opcheck(op, args)
            print(f"  opcheck {op._qualname}: {', '.join(found)}: {set(found.values()).pop()}")
    meta = silu(gt.empty(1 << 20, 1 << 20, device="meta"))
    print(f"meta: {tuple(meta.shape)} without a byte of memory")


if __name__ == "__main__":
    main()
