"""Replacements for PyTorch's names that have no meaning, or another meaning, in gputensor.

For example, `jit.script` returns its function, `compiler.is_compiling` returns False, and flags of
backends have no effect. core/errors/absent.py lists the names that are left out, with reasons.
"""

from __future__ import annotations

import contextlib
import re
import sys
import typing
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import gputensor as gt
from gputensor.autograd import function
from gputensor.core import errors
from gputensor.core.errors import absent as left_out
from gputensor.dispatch import keys, tls
from gputensor.distributions import multivariate
from gputensor.kernels import cublas
from gputensor.nn.modules import conv, hooks, state
from gputensor.structured.generator import default_generator
from gputensor.tensor.typed_storage import TypedStorage

from .places import Absent
from .overrides import OF_OVERRIDES, disabled, has_torch_function, modes, names
from . import (
    benchmark, functions, groups, insides, legacy_types, nn_insides,
    processes, profiles, small, windows,
)  # fmt: skip

# The version of PyTorch whose names and behaviour gputensor has. Programs compare versions with it.
VERSION = "2.13.0"


class Placement:
    """The placement of a distributed tensor. Packages make placements when they are imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: Any = args


class ScriptModule(gt.nn.Module):
    """Base class of modules that are written for compilation. They run uncompiled."""


class _Required:
    """The default of an optimizer's option that a program must pass."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the function unchanged. It can also be used as a decorator with arguments."""
    return function if callable(function) else (lambda given: given)


def never(*args: Any, **kwargs: Any) -> bool:
    """Return False for any arguments."""
    return False


def nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""


@contextlib.contextmanager
def block(*args: Any, **kwargs: Any) -> Iterator[None]:
    """Return a context manager that changes nothing."""
    yield


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value unchanged."""
    return the_value


class _Operators:
    """`torch.ops.aten`. Operators that gputensor leaves out are placeholders."""

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(gt.ops.aten, name)
        except AttributeError:
            if why := left_out.why("torch.ops.aten", name):
                return Absent(f"ops.aten.{name}", why)
            raise


class Flags(SimpleNamespace):
    """Flags that programs set and read. They have no effect."""


class MatmulFlags(Flags):
    """Flags of matrix products on CUDA. Only allow_tf32 has an effect."""

    @property
    def allow_tf32(self) -> bool:
        """True if cuBLAS may round operands of float32 products to TF32."""
        return cublas.get_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        cublas.set_precision("high" if allowed else "highest")


def _pair_of(count: int) -> Callable[[Any], Any]:
    def parse(x: Any) -> Any:
        return tuple(x) if isinstance(x, (list, tuple)) else (x,) * count

    parse.__name__ = f"_{count}_of"
    return parse


def load_library(path: Any) -> None:
    """Raise OSError, after which packages continue without their compiled operators."""
    raise OSError(f"{path} is compiled against PyTorch")


def check(condition: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError with the message unless the condition holds."""
    if not condition:
        raise RuntimeError("a check failed" if message is None else message())


def _assert(condition: Any, message: str = "") -> None:
    assert condition, message


def compiled(model: Any = None, **options: Any) -> Any:
    """Return `gt.fuse` of a function. Return a module unchanged, without fusion."""
    if model is None:
        return lambda given: compiled(given, **options)
    return model if isinstance(model, gt.nn.Module) else gt.fuse(model)


def _has_levels() -> bool:
    """Return True inside `vmap` or a derivative of gt.func."""
    # if the module is not loaded, no transform is running
    func = sys.modules.get("gputensor.func.levels")
    return func is not None and bool(func.levels())


class _Keys:
    """The dispatch keys as attributes. The keys of devices that gputensor lacks are Undefined."""

    def __getattr__(self, name: str) -> Any:
        return {key.name: key for key in keys.ALL_KEYS}.get(name, keys.UNDEFINED)


jit: dict[str, Any] = {
    "script": as_it_is, "script_if_tracing": as_it_is, "ignore": as_it_is, "unused": as_it_is,
    "export": as_it_is, "interface": as_it_is, "_script_if_tracing": as_it_is,
    "_overload_method": as_it_is, "_overload": as_it_is,
    "is_scripting": never, "is_tracing": never, "annotate": annotate, "Final": typing.Final,
    "ScriptFunction": type("ScriptFunction", (), {}),
    "ScriptModule": ScriptModule, "RecursiveScriptModule": type("_R", (ScriptModule,), {}),
    "TracerWarning": type("TracerWarning", (Warning,), {}),
    "freeze": as_it_is, "optimize_for_inference": as_it_is, "fork": small.fork,
    "wait": lambda future: future.wait(),
    "_get_trace_graph": Absent("jit._get_trace_graph", left_out.why("torch.jit", "trace")),
}  # fmt: skip
compiler: dict[str, Any] = {
    "is_compiling": never, "is_dynamo_compiling": never, "is_exporting": never,
    "compile": compiled, "list_backends": lambda *args: [], "wrap_numpy": as_it_is,
    "nested_compile_region": as_it_is, "substitute_in_graph": lambda *args, **kwargs: as_it_is,
    "disable": as_it_is, "allow_in_graph": as_it_is, "assume_constant_result": as_it_is,
    "reset": nothing, "cudagraph_mark_step_begin": nothing, "set_stance": block,
}  # fmt: skip
dynamo: dict[str, Any] = compiler | {
    "config": Flags(), "mark_dynamic": nothing, "mark_static_address": nothing,
    "is_dynamo_supported": never, "graph_break": nothing,
}  # fmt: skip
fx: dict[str, Any] = {"wrap": as_it_is, "GraphModule": legacy_types.GraphModule}
hub: dict[str, Any] = {
    "get_dir": lambda: "", "set_dir": nothing, "_get_torch_home": lambda: "",
    "HASH_REGEX": None, "urlparse": None, "tqdm": as_it_is,
}  # fmt: skip
onnx: dict[str, Any] = {
    "is_in_onnx_export": never, "is_onnxrt_backend_supported": never,
    "symbolic_opset11": Flags(),
    "register_custom_op_symbolic": nothing, "symbolic_helper": Flags(parse_args=as_it_is),
}  # fmt: skip
cudnn: dict[str, Any] = {
    "enabled": False, "benchmark": False, "deterministic": True, "allow_tf32": False,
    "is_available": never, "version": nothing, "flags": block, "is_acceptable": never,
}  # fmt: skip
cuda_backend: dict[str, Any] = {
    "matmul": MatmulFlags(
        allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
    ),
    "is_built": lambda: True, "flash_sdp_enabled": never, "math_sdp_enabled": lambda: True,
    "mem_efficient_sdp_enabled": never, "cudnn_sdp_enabled": never, "enable_flash_sdp": nothing,
    "enable_math_sdp": nothing, "enable_mem_efficient_sdp": nothing, "sdp_kernel": block,
    "can_use_flash_attention": never, "can_use_efficient_attention": never,
    "SDPAParams": type("SDPAParams", (), {}), "can_use_cudnn_attention": never,
    "is_flash_attention_available": never, "is_ck_sdpa_available": never,
    "preferred_linalg_library": lambda backend=None: "default",
    "preferred_blas_library": lambda backend=None: "default",
    "allow_fp16_bf16_reduction_math_sdp": nothing,
    "fp16_bf16_reduction_math_sdp_allowed": never,
    "enable_cudnn_sdp": nothing, "cufft_plan_cache": Flags(),
}  # fmt: skip
absent: dict[str, Any] = {
    "is_available": never, "is_built": never, "enabled": False, "flags": block,
    "device_count": lambda: 0,
}  # fmt: skip
overrides: dict[str, Any] = {
    "get_ignored_functions": set, "get_testing_overrides": dict,
    **OF_OVERRIDES, **names.OF_OVERRIDES,
}  # fmt: skip
core: dict[str, Any] = {
    "DisableTorchFunctionSubclass": modes.DisableTorchFunctionSubclass,
    "DisableTorchFunction": modes.DisableTorchFunctionSubclass,
    "_log_api_usage_once": nothing, "_get_tracing_state": nothing, "_jit_set_profiling_mode": never,
    "_jit_set_profiling_executor": never, "_has_torch_function": has_torch_function,
    "_cuda_isCurrentStreamCapturing": never, "_disabled_torch_function_impl": disabled,
    "_is_tracing": never, **modes.OF_CORE,
    "_TensorMeta": type(gt.Tensor), "_get_accelerator": insides.get_accelerator,
    "_get_default_device": lambda: str(gt.get_default_device()),
    "ScriptModule": ScriptModule, "Graph": type("Graph", (), {}),
    "Value": type("Value", (), {}), "Node": type("Node", (), {}),
}  # fmt: skip
nn_utils_of_modules: dict[str, Any] = {
    "_single": _pair_of(1), "_pair": _pair_of(2), "_triple": _pair_of(3), "_quadruple": _pair_of(4),
    "_ntuple": lambda n, name="parse": _pair_of(n),
    "consume_prefix_in_state_dict_if_present": small.consume_prefix,
    "_reverse_repeat_tuple": lambda t, n: tuple(x for x in reversed(t) for _ in range(n)),
}  # fmt: skip
cuda: dict[str, Any] = {
    "memory_cached": gt.cuda.memory_reserved, "max_memory_cached": gt.cuda.max_memory_reserved,
    "reset_max_memory_allocated": gt.cuda.reset_peak_memory_stats,
    "reset_max_memory_cached": gt.cuda.reset_peak_memory_stats,
    "reset_accumulated_memory_stats": gt.cuda.reset_peak_memory_stats,
    "get_allocator_backend": lambda: "native", "has_half": True, "has_magma": False,
    "default_generators": legacy_types.DefaultGenerators(), **legacy_types.CUDA_TYPES,
    "Stream": legacy_types.Stream, "Event": legacy_types.Event,
    "StreamContext": legacy_types.made_by("StreamContext", gt.cuda.stream),
}  # fmt: skip


def _by_index(name: str) -> Any:
    """Return a function of `gt.cuda` with the name that torch.accelerator gives its parameter."""
    function = getattr(gt.cuda, name)

    def of_device(device_index: Any = None) -> Any:
        return function(device_index)

    of_device.__name__ = name
    return of_device


accelerator: dict[str, Any] = {
    "current_accelerator": legacy_types.current_accelerator, "Graph": gt.cuda.CUDAGraph,
    "current_device_index": gt.cuda.current_device, "set_device_index": gt.cuda.set_device,
    "current_device_idx": gt.cuda.current_device, "set_device_idx": gt.cuda.set_device,
    "device_index": gt.cuda.device, "empty_host_cache": nothing,
    "get_memory_info": _by_index("mem_get_info"),
    "reset_accumulated_memory_stats": _by_index("reset_peak_memory_stats"),
    **{name: _by_index(name) for name in (
        "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
        "memory_stats", "reset_peak_memory_stats",
    )},
}  # fmt: skip


def _is_storage(obj: Any) -> bool:
    return isinstance(obj, gt.Storage)


def _typename(obj: Any) -> str:
    if isinstance(obj, gt.Tensor):
        return str(obj.type())
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"


_libraries = {"has_lapack": True, "has_mkl": False, "has_openmp": False, "has_spectral": True}
_sizes = {f"_size_{n}_t": typing.Any for n in (*range(1, 7), "any")}
_ratios = {f"_ratio_{n}_t": typing.Any for n in (2, 3, "any")}
# Maps a module of PyTorch to its names and their replacements.
STAND_INS: dict[str, dict[str, Any]] = {
    "torch": {
        "__version__": small.TorchVersion(f"{VERSION}+gputensor"), "layout": type(gt.strided),
        "compile": compiled, "_assert": _assert,
        "_assert_async": _assert,
        "_check": check, "_check_value": check, "_check_tensor_all": check,
        "is_storage": _is_storage, "set_warn_always": nothing,
        "typename": _typename,
        "set_float32_matmul_precision": cublas.set_precision,
        "get_float32_matmul_precision": cublas.get_precision,
        "are_deterministic_algorithms_enabled": lambda: insides.deterministic[0],
        "use_deterministic_algorithms": insides.use_deterministic_algorithms,
        "set_num_interop_threads": nothing, "set_flush_denormal": never,
        "is_deterministic_algorithms_warn_only_enabled": lambda: insides.deterministic[1],
        "_is_all_true": lambda x: x.all(),
        "set_default_tensor_type": legacy_types.set_default_tensor_type,
        "Tag": small.Tag, "SymInt": int, "SymFloat": float, "SymBool": bool,
        "GradScaler": gt.amp.GradScaler, "Stream": legacy_types.Stream, "Event": legacy_types.Event,
        "UntypedStorage": legacy_types.UntypedStorage, **legacy_types.STORAGES,
        "TypedStorage": TypedStorage,
        "legacy_contiguous_format": gt.contiguous_format,
        "AcceleratorError": errors.DeviceError, "OutOfMemoryError": errors.OutOfMemoryError,
        "default_generator": default_generator(gt.device("cpu")),
        "get_deterministic_debug_mode": insides.get_deterministic_debug_mode,
        "set_deterministic_debug_mode": insides.set_deterministic_debug_mode,
        "get_num_interop_threads": lambda: 1, "is_warn_always_enabled": never,
        **_libraries,
        **functions.OF_TORCH, **insides.OF_TORCH,
        **legacy_types.TYPES,
    },
    "torch.testing": {"assert_allclose": functions.assert_allclose},
    "torch.jit": jit, "torch.jit._script": jit,
    "torch.jit.annotations": {f"BroadcastingList{n}": list for n in range(1, 7)},
    "torch.compiler": compiler, "torch._dynamo": dynamo,
    "torch._dynamo.config": {}, "torch._dynamo.utils": {"is_compile_supported": never},
    "torch._inductor": {"config": Flags()},
    "torch.fx": fx, "torch.fx.graph_module": fx, **legacy_types.BASES,
    "torch.cuda.amp": legacy_types.AMP["cuda"], "torch.cpu.amp": legacy_types.AMP["cpu"],
    "torch.cuda.amp.autocast_mode": legacy_types.AMP["cuda"],
    "torch.cpu.amp.autocast_mode": legacy_types.AMP["cpu"],
    "torch._C._functorch": {"is_batchedtensor": insides.is_batched},
    "torch._vmap_internals": {"_vmap": insides.vmap_},
    "torch.fx._compatibility": {"compatibility": as_it_is},
    "torch.hub": hub, "torch.onnx": onnx,
    "torch.onnx.symbolic_helper": {"parse_args": as_it_is},
    "torch.backends.cudnn": cudnn, "torch.backends.cuda": cuda_backend,
    "torch.backends.mps": absent, "torch.backends.mkldnn": absent,
    "torch.backends.mkl": absent, "torch.backends.openmp": absent,
    "torch.backends.opt_einsum": absent, "torch.backends.xnnpack": absent,
    "torch.mps": absent, "torch.xpu": absent, "torch.mtia": absent,
    "torch.overrides": overrides, "torch._C": core | {
        "DispatchKey": _Keys(), "_are_functorch_transforms_active": _has_levels,
        "DispatchKeySet": lambda key: keys.KeySet(keys.bits_of(key)),
        "_ExcludeDispatchKeyGuard": tls.ExcludeDispatchKeys,
        "_DisableTorchDispatch": lambda: tls.ExcludeDispatchKeys(keys.PYTHON),
        "_AutoDispatchBelowAutograd": tls.AutoDispatchBelowAutograd,
        **_libraries,
        "_is_alias_of": lambda x, y: x.untyped_storage() is y.untyped_storage(),
    },
    "torch.utils.checkpoint": {
        "get_device_states": legacy_types.get_device_states,
        "set_device_states": legacy_types.set_device_states, **small.OF_CHECKPOINT,
        "set_checkpoint_early_stop": block, "set_checkpoint_debug_enabled": block,
    },
    "torch.library": small.OF_LIBRARY, "torch.utils.hooks": small.OF_HOOKS,
    # Transforms of gt.func accept functions that write in place, so `functionalize` changes
    # nothing.
    "functorch": insides.OF_FUNCTORCH, "torch.func": {**small.OF_FUNC, "functionalize": as_it_is},
    "torch.utils.dlpack": {"to_dlpack": lambda tensor: tensor.__dlpack__()},
    "torch.profiler.profiler": profiles.OF_PROFILER,
    "torch.profiler": profiles.OF_PROFILER, "torch.autograd.profiler": profiles.OF_AUTOGRAD,
    "torch.autograd.grad_mode": {"set_multithreading_enabled": block},
    "torch.autograd.function": {
        "FunctionCtx": function.Context, "InplaceFunction": insides.InplaceFunction,
    },
    "torch.optim.optimizer": {"required": required}, "torch.optim.lbfgs": small.OF_LBFGS,
    "torch._C._nn": {"_parse_to": insides.parse_to}, "torch.nn.modules.utils": nn_utils_of_modules,
    "torch.nn.common_types": _sizes | _ratios,
    "torch.nn.attention": {"SDPBackend": Flags(
        MATH=0, FLASH_ATTENTION=1, EFFICIENT_ATTENTION=2, CUDNN_ATTENTION=3, ERROR=-1
    ), "sdpa_kernel": block},
    "torch.nn.modules.module": {
        "_global_parameter_registration_hooks": hooks.REGISTERED["_parameters"],
        "_global_buffer_registration_hooks": hooks.REGISTERED["_buffers"],
        "_global_module_registration_hooks": hooks.REGISTERED["_modules"],
        "_IncompatibleKeys": tuple, "_EXTRA_STATE_KEY_SUFFIX": state.EXTRA,
        "_addindent": nn_insides.addindent,
    },
    "torch.__future__": nn_insides.OF_FUTURE,
    "torch.nn.functional": nn_insides.OF_FUNCTIONAL, "torch.nn._reduction": nn_insides.OF_REDUCTION,
    "torch.nn.modules.transformer": nn_insides.OF_TRANSFORMER,
    "torch.nn.modules.activation": {"NonDynamicallyQuantizableLinear": gt.nn.Linear},
    "torch.utils.data": {"functional_datapipe": lambda name, **options: as_it_is},
    "torch.utils": {"set_module": nothing},
    "torch.utils.model_zoo": {"tqdm": as_it_is},
    "torch.utils.cpp_extension": {"CUDA_HOME": None},
    "torch.storage": {"UntypedStorage": legacy_types.UntypedStorage,
                      "TypedStorage": TypedStorage,
                      "_load_from_bytes": small.load_from_bytes},
    "torch.types": {**small.OF_TYPES, "Number": int | float | bool, "Device": Any, "_dtype": Any,
                    "_size": Any, "_device": Any, "_int": int, "_float": float, "_bool": bool},
    "torch.version": {"__version__": VERSION, "cuda": None, "hip": None, "rocm": None, "xpu": None,
                      "git_version": "unknown", "debug": False},
    "torch.__config__": {"show": lambda: f"gputensor, as PyTorch {VERSION}",
                         "parallel_info": lambda: f"threads: {gt.get_num_threads()}"},
    "torch.serialization": {"MAP_LOCATION": Any, "save": functions.save, "DEFAULT_PROTOCOL": 2,
                            "FILE_LIKE": small.OF_TYPES["FileLike"]},
    "torch.nn.modules": {"CrossMapLRN2d": gt.nn.LocalResponseNorm},
    "torch.nn.modules.normalization": {"CrossMapLRN2d": gt.nn.LocalResponseNorm},
    "torch.nn.modules.linear": {"NonDynamicallyQuantizableLinear": gt.nn.Linear},
    "torch.optim.lr_scheduler": {"_LRScheduler": gt.optim.lr_scheduler.LRScheduler},
    "torch.autograd": {"Variable": legacy_types.Variable},
    "torch.autograd.variable": {"Variable": legacy_types.Variable},
    "torch.random": {"default_generator": default_generator(gt.device("cpu"))},
    "torch.utils.data.dataset": {"default_generator": default_generator(gt.device("cpu"))},
    "torch.autograd.gradcheck": {"GradcheckError": RuntimeError},
    "torch.distributions.transforms": {"softplus": gt.nn.functional.softplus},
    "torch.nn.modules.rnn": {
        "apply_permutation": lambda tensor, permutation, dim=1: tensor.index_select(
            dim, permutation
        ),
    },
    "torch.special": functions.OF_SPECIAL,
    "torch.cuda": cuda, "torch.cuda.memory": cuda,
    "torch.accelerator": accelerator, "torch.accelerator.memory": accelerator,
    "torch.accelerator.graphs": accelerator,
    "torch.functional": {
        "lu": functions.OF_TORCH["lu"], "svd_lowrank": functions.svd_lowrank,
        "pca_lowrank": functions.pca_lowrank,
    },
    "torch.cuda.graphs": {"make_graphed_callables": gt.cuda.make_graphed_callables},
    "torch.cuda.nvtx": {"range_start": lambda msg: 0, "range_end": nothing, "range_push": nothing,
                        "range_pop": nothing, "mark": nothing, "range": block},
    "torch.cpu": {"is_initialized": lambda: True, "get_capabilities": dict, "set_device": nothing,
                  "Stream": legacy_types.Stream, "Event": legacy_types.Event, "stream": block,
                  "current_stream": nothing, "StreamContext": block,
                  "is_available": lambda: True, "device_count": lambda: 1, "synchronize": nothing,
                  "current_device": lambda: "cpu"},
    "torch.distributed": groups.OF_DISTRIBUTED,
    "torch.distributed.distributed_c10d": groups.OF_DISTRIBUTED | groups.OF_CONSTANTS,
    "torch.distributed.constants": groups.OF_CONSTANTS,
    "torch.distributed.rpc": {"is_available": never},
    "torch.distributed.rpc.api": {"_require_initialized": as_it_is},
    "torch.distributed.tensor": dict.fromkeys(("Replicate", "Shard", "Partial"), Placement),
    "torch.utils._python_dispatch": insides.OF_DISPATCH,
    "torch.utils.data._utils.collate": {"np_str_obj_array_pattern": re.compile(r"[SaUO]")},
    "torch.utils._device": {}, "torch.utils._triton": {"has_triton": never},
    "torch.utils.deterministic": {"fill_uninitialized_memory": False},
    "torch.utils._pytree": insides.OF_PYTREE, "torch._tensor_str": insides.OF_TENSOR_STR,
    "torch._utils": insides.OF_UTILS | small.OF_PICKLES["torch._utils"],
    "torch._tensor": small.OF_PICKLES["torch._tensor"],
    "torch.utils._foreach_utils": small.OF_FOREACH, "torch.utils.weak": small.OF_WEAK,
    "torch.nn.utils._named_member_accessor": {"swap_tensor": small.swap_tensor},
    "torch.utils._contextlib": small.OF_CONTEXTLIB,
    "torch.autograd.functional": small.OF_FUNCTIONAL,
    "torch.utils.data._utils.worker": {"_generate_state": small.generate_state},
    "torch.distributions.multivariate_normal": {
        "_precision_to_scale_tril": multivariate._factor_of_inverse,
        "_batch_mahalanobis": multivariate.mahalanobis, "_batch_mv": multivariate.times_vector,
    }, "torch._jit_internal": jit,
    "torch.futures": small.OF_FUTURES,
    "torch.signal": {}, "torch.signal.windows": windows.OF_WINDOWS,
    "torch.signal.windows.windows": windows.OF_WINDOWS,
    "torch.torch_version": {"TorchVersion": small.TorchVersion},
    "torch.nn.attention.bias": small.OF_BIAS, "torch.nn.grad": small.OF_GRAD,
    "torch.utils.benchmark": benchmark.OF_BENCHMARK, "torch.utils.benchmark.utils": {},
    **{f"torch.utils.benchmark.utils.{name}": benchmark.OF_BENCHMARK
       for name in ("common", "compare", "timer")},
    "torch.backends.mha": {"get_fastpath_enabled": never, "set_fastpath_enabled": nothing},
    "torch.profiler.itt": {"is_available": never},
    "torch.utils.data.backward_compatibility": {"worker_init_fn": nothing},
    "torch.multiprocessing": processes.OF_MULTIPROCESSING,
    "torch.multiprocessing.spawn": processes.OF_PROCESSES,
    "torch.nn.modules.conv": {"_ConvNd": conv._Conv, "_ConvTransposeNd": conv._ConvTranspose},
    "torch.utils.data.dataloader": {
        "_BaseDataLoaderIter": type("_BaseDataLoaderIter", (), {}),
        "_MultiProcessingDataLoaderIter": type("_MultiProcessingDataLoaderIter", (), {}),
        "_SingleProcessDataLoaderIter": type("_SingleProcessDataLoaderIter", (), {}),
        "_DatasetKind": Flags(Map=0, Iterable=1),
        "_collate_fn_t": Callable[[list[Any]], Any], "_worker_init_fn_t": Callable[[int], None],
    },
    "torch.ops": {"aten": _Operators(), "load_library": load_library}, "torch._custom_ops": {},
}  # fmt: skip
