"""Valid calls of public functions that are not operators, for tests that replace one argument."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import gputensor as gt

from . import functional_entrances

_KERNEL = """extern "C" __global__ void one(float* x, int n) {
  int i = threadIdx.x;
  if (i < n) x[i] = 1.0f;
}"""


def _x() -> Any:
    return gt.ones(2, 3)


def _leaf() -> Any:
    return gt.ones(2, 3, requires_grad=True)


def _loss() -> tuple[Any, Any]:
    x = _leaf()
    return (x * 2).sum(), x


def _method(name: str, *args: Any, of: Callable[[], Any] = _x, **kwargs: Any) -> Any:
    return lambda: (getattr(of(), name), args, kwargs)


def _grad() -> Any:
    loss, x = _loss()
    return gt.autograd.grad, (loss, x), {"grad_outputs": gt.ones(())}


def _backward() -> Any:
    loss, x = _loss()
    return gt.autograd.backward, (loss,), {"inputs": [x]}


def _of(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call arguments that are lambdas, to make new tensors for each call."""
    return lambda: (
        function,
        tuple(a() if callable(a) and getattr(a, "__name__", "") in _MADE else a for a in args),
        kwargs,
    )


def _captured(cuda_graph: Any, pool: Any, stream: Any, capture_error_mode: Any) -> None:
    with gt.cuda.graph(cuda_graph, pool, stream, capture_error_mode):
        pass


def _begun_and_ended(pool: Any, capture_error_mode: Any) -> None:
    graph = gt.cuda.CUDAGraph()
    with gt.cuda.stream(gt.cuda.Stream(0)):
        graph.capture_begin(pool, capture_error_mode)
        graph.capture_end()


def _doubled(x: Any) -> Any:
    return x * 2


def _nothing_of(*given: Any, **named: Any) -> None:
    """A function that accepts any arguments."""


def _saved() -> io.BytesIO:
    file = io.BytesIO()
    gt.save(gt.ones(2), file)
    file.seek(0)
    return file


_numbers = itertools.count()
_MADE = ("_x", "_leaf", "<lambda>")

# name -> a function that returns (callable, valid positional arguments, valid keyword arguments)
ENTRANCES: dict[str, Callable[[], Any]] = {
    "tensor": _of(gt.tensor, [1, 2]),
    "as_tensor": _of(gt.as_tensor, [1, 2]),
    "asarray": _of(gt.asarray, [1, 2]),
    "from_numpy": _of(gt.from_numpy, lambda: np.ones(2)),
    "from_dlpack": _of(gt.from_dlpack, _x),
    "promote_types": _of(gt.promote_types, gt.float32, gt.int64),
    "can_cast": _of(gt.can_cast, gt.float32, gt.int64),
    "finfo": _of(gt.finfo, gt.float32),
    "iinfo": _of(gt.iinfo, gt.int32),
    "device": _of(gt.device, "cuda", 0),
    "manual_seed": _of(gt.manual_seed, 1),
    "Generator": _of(gt.Generator, 1),
    "Generator.manual_seed": lambda: (gt.Generator().manual_seed, (1,), {}),
    "get_rng_state": _of(gt.get_rng_state),
    "set_rng_state": _of(gt.set_rng_state, lambda: gt.get_rng_state()),
    "frombuffer": _of(gt.frombuffer, b"12345678", dtype=gt.float32, count=1, offset=4),
    "is_tensor": _of(gt.is_tensor, _x),
    "is_nonzero": _of(gt.is_nonzero, lambda: gt.ones(1)),
    "is_same_size": _of(gt.is_same_size, _x, _x),
    "Tensor.is_same_size": _method("is_same_size", _x()),
    "Tensor.new_tensor": _method("new_tensor", [1.0, 2.0]),
    "Tensor.new": _method("new", 2, 3),
    "Tensor.astype": _method("astype", gt.float64, copy=False),
    "Tensor.copy": _method("copy"),
    "result_type": _of(gt.result_type, _x, 1.5),
    "broadcast_shapes": _of(gt.broadcast_shapes, (3, 1), (4,)),
    "einsum": _of(gt.einsum, "ij,kj->ik", _x, _x),
    "einsum of numbers": _of(gt.einsum, _x, [0, 1], _x, [2, 1], [0, 2]),
    "poisson": _of(gt.poisson, _x, gt.Generator()),
    "binomial": _of(gt.binomial, _x, _x, gt.Generator()),
    "cdist": _of(gt.cdist, _x, _x, 2.0, "donot_use_mm_for_euclid_dist"),
    "tensordot": _of(gt.tensordot, _x, _x, ([0, 1], [0, 1])),
    "chain_matmul": _of(gt.chain_matmul, _x, lambda: gt.ones(3, 4), lambda: gt.ones(4, 2)),
    "gradient": _of(gt.gradient, _x, spacing=2.0, dim=1, edge_order=1),
    "gradient of lists": _of(gt.gradient, _x, spacing=[2.0, 1.0], dim=[0, 1]),
    "histogramdd": _of(gt.histogramdd, _x, [2, 2, 2], [0.0, 1.0] * 3, lambda: gt.ones(2), True),
    "stft": _of(gt.stft, lambda: gt.ones(32), 8, 4, 8, lambda: gt.ones(8), return_complex=True),
    "unravel_index": _of(gt.unravel_index, lambda: gt.tensor([5]), (3, 4)),
    "unique": _of(gt.unique, _x, True, True, True, 0),
    "unique_consecutive": _of(gt.unique_consecutive, _x, True, True, 0),
    "norm": _of(gt.norm, _x, 2, 1, True),
    "norm by name": _of(gt.norm, _x, "nuc", (0, 1)),
    "type": _method("type", gt.float64),
    "apply_": _method("apply_", abs),
    "dim_order": _method("dim_order", ambiguity_check=True),
    "to_dense": _method("to_dense", gt.float64),
    "is_pinned": _method("is_pinned", None),
    "pin_memory": _method("pin_memory", None),
    "lu": _method("lu", True, True, of=lambda: gt.eye(2)),
    "Tensor.stft": lambda: (gt.ones(32).stft, (8, 4, 8, gt.ones(8)), {"return_complex": True}),
    "map_": lambda: (_x().map_, (_x(), lambda a, b: a + b), {}),
    "map2_": lambda: (_x().map2_, (_x(), _x(), lambda a, b, c: a + b + c), {}),
    "set_num_threads": _of(gt.set_num_threads, 2),
    "set_default_dtype": _of(gt.set_default_dtype, gt.float32),
    "set_numpy_on_devices": _of(gt.set_numpy_on_devices, False),
    "set_type_promotion": _of(gt.set_type_promotion, "pytorch"),
    "set_default_device": _of(gt.set_default_device, "cpu"),
    "set_printoptions": _of(gt.set_printoptions),
    "set_grad_enabled": _of(gt.set_grad_enabled, True),
    "inference_mode": _of(gt.inference_mode, True),
    "SGD": _of(gt.optim.SGD, lambda: [_leaf()], 0.1, 0.9),
    "Adam": _of(gt.optim.Adam, lambda: [_leaf()], 0.1, (0.9, 0.99)),
    "Optimizer.add_param_group": lambda: (
        gt.optim.SGD([_leaf()], 0.1).add_param_group,
        ({"params": [_leaf()]},),
        {},
    ),
    "Optimizer.load_state_dict": lambda: (
        gt.optim.SGD([_leaf()], 0.1).load_state_dict,
        (gt.optim.SGD([_leaf()], 0.1).state_dict(),),
        {},
    ),
    "Optimizer.step": lambda: (gt.optim.SGD([_leaf()], 0.1).step, (), {}),
    "autograd.grad": _grad,
    "autograd.backward": _backward,
    "backward": lambda: (_loss()[0].backward, (), {}),
    "register_hook": _method("register_hook", len, of=_leaf),
    "register_post_accumulate_grad_hook": _method(
        "register_post_accumulate_grad_hook", len, of=_leaf
    ),
    "requires_grad_": _method("requires_grad_", True),
    "grad = ": lambda: (lambda value: setattr(_leaf(), "grad", value), (gt.ones(2, 3),), {}),
    "requires_grad = ": lambda: (lambda value: setattr(_x(), "requires_grad", value), (True,), {}),
    "size": _method("size", 0),
    "stride": _method("stride", 0),
    "is_contiguous": _method("is_contiguous"),
    "is_set_to": _method("is_set_to", _x()),
    "numpy": _method("numpy"),
    "cuda": _method("cuda", "cuda:0"),
    "to_device": _method("to_device", "cuda:0"),
    "half": _method("half"),
    "__contains__": _method("__contains__", 1),
    "__getitem__": _method("__getitem__", 0),
    "__getitem__ of two": lambda: (lambda i, j: _x()[i, j], (0, 1), {}),
    "__getitem__ of a slice": lambda: (lambda i, j, k: _x()[i:j:k], (0, 2, 1), {}),
    "__setitem__": _method("__setitem__", 0, 1),
    "__dlpack__": _method("__dlpack__"),
    "__array__": _method("__array__"),
    "as_subclass": _method("as_subclass", gt.Tensor),
    "layout.contiguous": _of(gt.layout.contiguous, _x),
    "layout.copy": _of(gt.layout.copy, _x, _x),
    "layout.pack": _of(gt.layout.pack, lambda: gt.ones(2, 3, 4, 5), dtype=gt.float16, scale=2.0),
    "layout.explain": _of(gt.layout.explain, _x, _x),
    "autocast": _of(gt.autocast, "cpu", gt.bfloat16),
    "set_autocast_dtype": _of(gt.set_autocast_dtype, "cpu", gt.bfloat16),
    "set_autocast_enabled": _of(gt.set_autocast_enabled, "cpu", False),
    "is_autocast_enabled": _of(gt.is_autocast_enabled, "cpu"),
    "GradScaler": _of(gt.amp.GradScaler, "cpu", 2.0),
    "testing.make_tensor": _of(gt.testing.make_tensor, 2, 3, dtype=gt.float32, low=-1.0, high=1.0),
    "testing.assert_close": _of(gt.testing.assert_close, _x, _x, rtol=0.1, atol=0.1),
    "gradcheck": _of(
        gt.autograd.gradcheck,
        lambda: gt.exp,
        lambda: gt.ones(2, dtype=gt.float64, requires_grad=True),
    ),
    "cuda.set_device": _of(gt.cuda.set_device, 0),
    "cuda.device": _of(gt.cuda.device, 0),
    "cuda.get_device_name": _of(gt.cuda.get_device_name, 0),
    "cuda.synchronize": _of(gt.cuda.synchronize, 0),
    "cuda.Stream": _of(gt.cuda.Stream, 0),
    "cuda.Event": _of(gt.cuda.Event),
    "cuda.current_stream": _of(gt.cuda.current_stream, 0),
    "cuda.memory_allocated": _of(gt.cuda.memory_allocated, 0),
    "cuda.memory_stats": _of(gt.cuda.memory_stats, 0),
    "cuda.mem_get_info": _of(gt.cuda.mem_get_info, 0),
    "cuda.Kernel": _of(gt.cuda.Kernel, _KERNEL, "one"),
    "cuda.default_stream": _of(gt.cuda.default_stream, 0),
    "cuda.stream": _of(gt.cuda.stream, lambda: gt.cuda.Stream(0)),
    "cuda.get_device_capability": _of(gt.cuda.get_device_capability, 0),
    "cuda.memory_reserved": _of(gt.cuda.memory_reserved, 0),
    "cuda.reset_peak_memory_stats": _of(gt.cuda.reset_peak_memory_stats, 0),
    "cuda.set_memory_limit": _of(gt.cuda.set_memory_limit, None),
    "cuda.get_device_properties": _of(gt.cuda.get_device_properties, 0),
    "cuda.is_bf16_supported": _of(gt.cuda.is_bf16_supported, True),
    "cuda.get_per_process_memory_fraction": _of(gt.cuda.get_per_process_memory_fraction, 0),
    "cuda.get_stream_from_external": _of(
        gt.cuda.get_stream_from_external, lambda: gt.cuda.default_stream(0).ptr, 0
    ),
    "cuda.can_device_access_peer": _of(gt.cuda.can_device_access_peer, 0, 0),
    "cuda.device_of": _of(gt.cuda.device_of, _x),
    "cuda.set_stream": _of(gt.cuda.set_stream, lambda: gt.cuda.Stream(0)),
    "cuda.ExternalStream": _of(gt.cuda.ExternalStream, lambda: gt.cuda.default_stream(0).ptr, 0),
    "cuda.max_memory_allocated": _of(gt.cuda.max_memory_allocated, 0),
    "cuda.max_memory_reserved": _of(gt.cuda.max_memory_reserved, 0),
    "cuda.memory_stats_as_nested_dict": _of(gt.cuda.memory_stats_as_nested_dict, 0),
    "cuda.memory_summary": _of(gt.cuda.memory_summary, 0, True),
    "cuda.set_per_process_memory_fraction": _of(gt.cuda.set_per_process_memory_fraction, 0.5, 0),
    "cuda.set_rng_state_all": lambda: (
        gt.cuda.set_rng_state_all,
        (gt.cuda.get_rng_state_all(),),
        {},
    ),
    "cuda.grid_for": _of(gt.cuda.grid_for, 100),
    "cuda.manual_seed": _of(gt.cuda.manual_seed, 1),
    "cuda.manual_seed_all": _of(gt.cuda.manual_seed_all, 1),
    "cuda.CUDAGraph": _of(gt.cuda.CUDAGraph, False),
    "cuda.CUDAGraph.capture_begin": lambda: (_begun_and_ended, (None, "global"), {}),
    "cuda.graph": lambda: (_captured, (gt.cuda.CUDAGraph(), None, None, "global"), {}),
    "cuda.make_graphed_callables": lambda: (
        gt.cuda.make_graphed_callables,
        (_doubled, (gt.ones(2, device="cuda"),), 2, False, None),
        {},
    ),
    "fuse": _of(gt.fuse, lambda: len),
    "vmap": _of(gt.vmap, lambda: len),
    "fuse.explain": _of(gt.fuse.explain, lambda: _nothing_of, _x),
    "record_stream": lambda: (gt.ones(2, device="cuda").record_stream, (gt.cuda.Stream(),), {}),
    "set_autocast_cache_enabled": _of(gt.set_autocast_cache_enabled, True),
    "get_autocast_dtype": _of(gt.get_autocast_dtype, "cpu"),
    "load": lambda: (gt.load, (_saved(),), {}),
    "save": lambda: (gt.save, (_x(), io.BytesIO()), {}),
    "no_grad": _of(gt.no_grad, lambda: len),
    "enable_grad": _of(gt.enable_grad, lambda: len),
    "autograd.set_detect_anomaly": _of(gt.autograd.set_detect_anomaly, False),
    "autograd.detect_anomaly": _of(gt.autograd.detect_anomaly, True),
    "autograd.gradgradcheck": _of(
        gt.autograd.gradgradcheck,
        lambda: lambda *xs: gt.exp(xs[0] if xs else _x()),
        lambda: gt.ones(2, dtype=gt.float64, requires_grad=True),
    ),
    "amp.is_autocast_available": _of(gt.amp.is_autocast_available, "cpu"),
    "amp.policies": _of(gt.amp.policies, "cpu"),
    "library.Library.define": lambda: (
        gt.library.Library("somebody", "FRAGMENT").define,
        (f"f{next(_numbers)}(Tensor x) -> Tensor",),
        {},
    ),
    "library.Library.impl": lambda: (
        gt.library.Library("somebody", "IMPL").impl,
        (f"f{next(_numbers)}", len, "CPU"),
        {},
    ),
    "dispatch.has_computed_kernel": _of(gt.dispatch.has_computed_kernel, "aten::add.Tensor", "CPU"),
    "dispatch.dump_table": _of(gt.dispatch.dump_table, "aten::add.Tensor"),
    "dispatch.find": _of(gt.dispatch.find, "aten::add.Tensor"),
    "dispatch.is_alias_key": _of(gt.dispatch.is_alias_key, "Autograd"),
    "dispatch.is_included_in_alias": _of(
        gt.dispatch.is_included_in_alias, "AutogradCPU", "Autograd"
    ),
    "dispatch.has_backend_fallback": _of(gt.dispatch.has_backend_fallback, "CPU"),
    "dispatch.registrations_for_key": _of(gt.dispatch.registrations_for_key, "CPU"),
    "dispatch.IncludeDispatchKeys": _of(gt.dispatch.IncludeDispatchKeys, "CPU"),
    "dispatch.ExcludeDispatchKeys": _of(gt.dispatch.ExcludeDispatchKeys, "CPU"),
    "fallback.set_autograd_fallback_mode": _of(gt.fallback.set_autograd_fallback_mode, "warn"),
    "profiler.profile": _of(gt.profiler.profile),
    "float": _method("float"),
    "detach_": _method("detach_"),
    "TensorIteratorConfig": _of(gt.TensorIteratorConfig, "mine"),
    "TensorIteratorConfig.add_input": lambda: (gt.TensorIteratorConfig().add_input, (_x(),), {}),
    "TensorIteratorConfig.add_output": lambda: (gt.TensorIteratorConfig().add_output, (_x(),), {}),
    "library.Library": _of(gt.library.Library, "somebody", "FRAGMENT"),
    "library.custom_op": _of(gt.library.custom_op, "somebody::f", mutates_args=()),
    "dispatch.has_kernel": _of(gt.dispatch.has_kernel, "aten::add.Tensor", "CPU"),
    "dispatch.dump": _of(gt.dispatch.dump, "aten::add.Tensor"),
    "dispatch.key_set": _of(gt.dispatch.key_set, _x),
    **functional_entrances.ENTRANCES,
}
