"""Functions and modules whose forward and backward passes are CUDA graphs.

Each pass is one autograd node, which copies its arguments to the graph's memory, replays the graph,
and returns the graph's results. Source: torch/cuda/graphs.py, make_graphed_callables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import runtime
from .._generated import calls
from ..amp import autocast_mode
from ..autograd import Function, grad, once_differentiable
from ..core import errors
from ..core.arguments import flag
from ..runtime.current import CurrentStream
from ..structured.arguments import integer
from ..tensor.tensor import Tensor
from .graphs import CUDAGraph, check_handle, graph, graph_pool_handle

_OP = "make_graphed_callables"
_MOST_WARMUPS = 10_000
Tensors = tuple[Tensor, ...]


class _Graphed:
    """A callable, and the tensors that its graphs read and write.

    inputs: `count` arguments, followed by the parameters of a module.
    """

    def __init__(self, function: Callable[..., Any], args: Tensors, *, unused: bool) -> None:
        own: Tensors = ()
        if _is_module(function):
            own = tuple(function.parameters())  # type: ignore[attr-defined]
        self.function, self.args, self.unused = function, args, unused
        self.inputs, self.count, self.parameters = (*args, *own), len(args), own
        self.wanted = [x for x in self.inputs if x.requires_grad]
        self.forward, self.backward = CUDAGraph(), CUDAGraph()
        self.outputs: list[Tensor] = []
        self.grad_outputs: list[Tensor | None] = []
        self.grad_inputs: list[Tensor | None] = []
        self.rebuild: Callable[[list[Any]], Any] = list

    def warm_up(self) -> None:
        outputs, _ = self._outputs()
        made = [x for x in outputs if x.requires_grad]
        if made and self.wanted:
            self._derive(made, [calls.empty_like(x) for x in made])

    def _outputs(self) -> tuple[list[Any], Callable[[list[Any]], Any]]:
        found = self.function(*self.args)
        outputs, rebuild = flatten(found)
        if not all(isinstance(x, Tensor) for x in outputs):
            raise errors.wrong_type(_OP, "callables", "return Tensors", found)
        return outputs, rebuild

    def capture_forward(self, pool: Any) -> None:
        with graph(self.forward, pool=pool):
            self.outputs, self.rebuild = self._outputs()

    def capture_backward(self, pool: Any) -> None:
        self.grad_outputs = [calls.empty_like(x) if x.requires_grad else None for x in self.outputs]
        made = [x for x in self.outputs if x.requires_grad]
        found: Sequence[Tensor | None] = ()
        if made and self.wanted:
            with graph(self.backward, pool=pool):
                found = self._derive(made, [g for g in self.grad_outputs if g is not None])
        later = iter(found)
        self.grad_inputs = [next(later, None) if x.requires_grad else None for x in self.inputs]
        self.outputs = [x.detach() for x in self.outputs]

    def _derive(self, made: list[Tensor], grads: list[Tensor]) -> Sequence[Tensor | None]:
        return grad(made, self.wanted, grads, allow_unused=self.unused)

    def __call__(self, *args: Any) -> Any:
        given, _ = flatten(args)
        if [_kind(x) for x in given] != [_kind(x) for x in self.args]:
            rule = f"be as the samples: {', '.join(map(errors.describe, self.args))}"
            raise errors.must(_OP, "args", rule, errors.Got(", ".join(map(errors.describe, given))))
        made = _Replay.apply(self, *given, *self.parameters)
        return self.rebuild([made] if isinstance(made, Tensor) else list(made))


class _Replay(Function):
    @staticmethod
    def forward(ctx: Any, graphed: _Graphed, *inputs: Tensor) -> Any:
        ctx.graphed = graphed
        for own, x in zip(graphed.inputs, inputs[: graphed.count]):
            if own.data_ptr() != x.data_ptr():
                own.detach().copy_(x)
        graphed.forward.replay()
        made = [x.detach() for x in graphed.outputs]
        ctx.mark_non_differentiable(*[x for x, g in zip(made, graphed.grad_outputs) if g is None])
        return tuple(made)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Any) -> Any:
        graphed = ctx.graphed
        for own, g in zip(graphed.grad_outputs, grads):
            if own is not None and own.data_ptr() != g.data_ptr():
                own.copy_(g)
        if any([g is not None for g in graphed.grad_inputs]):
            graphed.backward.replay()
        return (None, *[None if g is None else g.detach() for g in graphed.grad_inputs])


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:  # fmt: skip
    """Return functions or modules that launch their forward and backward passes as one graph each.

    Call the result like the original, with tensors that have the sample arguments' sizes, dtypes
    and devices. For a module, the module itself is returned. It uses its graphs only in the mode of
    the capture (training or evaluation). Second derivatives are not available.

    Args:
        callables: a function or module, or a tuple of them in the order in which they will run.
        sample_args: the tuple of tensors for the callable, or one tuple for each callable.
        num_warmup_iters: the number of runs of each callable before its capture, at most 10000.
        allow_unused_input: allow an input that no output depends on.
        pool: the handle of the memory pool; by default a new one.
    """
    if autocast_mode.is_autocast_enabled("cuda") and autocast_mode.is_autocast_cache_enabled():
        rule = "be off, or have cache_enabled=False"
        raise errors.must(_OP, "autocast", rule, errors.Got("a cache of casts"))
    warmups = integer(_OP, "num_warmup_iters", num_warmup_iters)
    if not 0 <= warmups <= _MOST_WARMUPS:
        rule = f"be in [0, {_MOST_WARMUPS}]"
        raise errors.must(_OP, "num_warmup_iters", rule, num_warmup_iters)
    unused = flag(_OP, "allow_unused_input", allow_unused_input)
    if pool is not None:
        check_handle(_OP, pool)
    is_one = not isinstance(callables, tuple)
    functions = (callables,) if is_one else callables
    samples = (sample_args,) if is_one else sample_args
    if not isinstance(samples, tuple) or len(samples) != len(functions):
        rule = f"be {len(functions)} tuples of Tensors, one for each callable"
        raise errors.wrong_type(_OP, "sample_args", rule, samples)
    made = [
        _Graphed(function, _checked(function, args), unused=unused)
        for function, args in zip(functions, samples)
    ]
    pool = graph_pool_handle() if pool is None else pool
    cuda = runtime.cuda()
    index = cuda.current_device()
    cuda.synchronize(index)
    with CurrentStream(cuda, cuda.Stream(index)):
        for each in made:
            for _ in range(warmups):
                each.warm_up()
    cuda.synchronize(index)
    # Capture in the order in which the graphs will be replayed, because they share memory.
    for each in made:
        each.capture_forward(pool)
    for each in reversed(made):
        each.capture_backward(pool)
    found = [_in_place_of(each) for each in made]
    return found[0] if is_one else tuple(found)


def _in_place_of(made: _Graphed) -> Any:
    module: Any = made.function
    if not _is_module(module):
        return made
    own, mode = module.forward, module.training

    def forward(*args: Any, **kwargs: Any) -> Any:
        return made(*args) if module.training == mode and not kwargs else own(*args, **kwargs)

    made.function = own
    module.forward = forward
    return module


def _checked(function: Any, args: Any) -> Tensors:
    if not callable(function):
        raise errors.wrong_type(_OP, "callables", "be callable, or a tuple of callables", function)
    given, _ = flatten(args)
    if not isinstance(args, tuple) or not all(isinstance(x, Tensor) for x in given):
        raise errors.wrong_type(_OP, "sample_args", "be a tuple of Tensors for each callable", args)
    if _is_module(function):
        if function._forward_pre_hooks or function._forward_hooks:
            rule = "have no hooks; they may be registered afterwards"
            raise errors.must(_OP, "callables", rule, errors.Got(type(function).__name__))
        if any(b.requires_grad for b in function.buffers()):
            rule = "have no buffers that require grad"
            raise errors.must(_OP, "callables", rule, errors.Got(type(function).__name__))
    return args


def _is_module(function: Any) -> bool:
    """Return True for a `gt.nn.Module`, without importing `nn`."""
    return all(hasattr(function, name) for name in ("parameters", "buffers", "training", "forward"))


def _kind(x: Any) -> Any:
    return (x._geometry.sizes, x._geometry.dtype, x._device) if isinstance(x, Tensor) else type(x)


def flatten(value: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Return the leaves of nested tuples, lists and dicts, and a function that rebuilds the nesting
    from other leaves."""
    if isinstance(value, dict):
        leaves, rebuild = flatten(list(value.values()))
        return leaves, lambda new: type(value)(zip(value, rebuild(new)))
    if not isinstance(value, (list, tuple)):
        return [value], lambda new: new[0]
    parts = [flatten(x) for x in value]

    def together(new: list[Any]) -> Any:
        at, made = 0, []
        for leaves, rebuild in parts:
            made.append(rebuild(new[at : at + len(leaves)]))
            at += len(leaves)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)

    return [x for leaves, _ in parts for x in leaves], together
