"""PyTorch's modules: which of ours have their names, and what stands in for the rest.

A module that is not here is found where ours has the same place: `torch.nn.functional` is
gputensor.nn.functional.
"""

from __future__ import annotations

import typing
from typing import Any

import gputensor as gt
from gputensor.autograd import function
from gputensor.dispatch import keys, tls
from gputensor.nn.modules import conv, functional, loss, norm, pooling

from . import legacy_types, stand_ins
from .stand_ins import as_it_is, never, nothing, refuse

# What programs compare with: names and behaviour are this PyTorch's.
VERSION = "2.13.0"


def compiled(model: Any = None, **options: Any) -> Any:
    """`gt.fuse` of a function; a module as it is, whose operators are not taken together."""
    if model is None:
        return lambda given: compiled(given, **options)
    return model if isinstance(model, gt.nn.Module) else gt.fuse(model)


class SyncBatchNorm(norm._BatchNorm):
    """Batch norm of one process; within a group of several it refuses to run."""

    ndims: typing.ClassVar[tuple[int, ...]] = (2, 3, 4, 5)

    def forward(self, input: Any) -> Any:
        if gt.distributed.is_initialized() and gt.distributed.get_world_size() > 1:
            refuse("nn.SyncBatchNorm", "statistics are not shared between processes")()
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module itself."""
        return module


def _has_levels() -> bool:
    """Whether a function runs within `vmap` or a derivative of gt.func."""
    from gputensor.func import levels

    return bool(levels.levels())


class _Keys:
    """Dispatch keys by their names; Undefined for devices that are not here."""

    def __getattr__(self, name: str) -> Any:
        return {key.name: key for key in keys.ALL_KEYS}.get(name, keys.UNDEFINED)


_MODULES = (
    "batchnorm instancenorm conv activation loss normalization pooling rnn dropout padding sparse "
    "upsampling transformer linear container flatten fold distance pixelshuffle adaptive "
    "channelshuffle module lazy utils"
)
_OPTIMIZERS = (
    "adam adamw sgd rmsprop adagrad adadelta adamax nadam radam lbfgs rprop asgd sparse_adam "
    "_adafactor _muon"
)
_OF_DATA = "torch.utils.data.dataset torch.utils.data.dataloader torch.utils.data.sampler"
# Name of PyTorch's module -> ours, asked one after the other.
SOURCES: dict[str, tuple[str, ...]] = {
    "torch": ("gputensor",),
    "torch.functional": ("gputensor.functional", "gputensor"),
    "torch._tensor": ("gputensor",),
    "torch.nn.modules": ("gputensor.nn",),
    **{
        f"torch.nn.modules.{name}": (
            "gputensor.nn",
            "gputensor.nn.modules.norm",
            "gputensor.nn.modules.loss",
            "gputensor.nn.modules.conv",
            "gputensor.nn.modules.recurrent",
        )
        for name in _MODULES.split()
    },
    "torch.nn.utils.weight_norm": ("gputensor.nn.utils",),
    "torch.nn.utils.spectral_norm": ("gputensor.nn.utils",),
    "torch.nn.utils.clip_grad": ("gputensor.nn.utils",),
    "torch.nn.utils.convert_parameters": ("gputensor.nn.utils",),
    "torch.nn.parameter": ("gputensor.nn",),
    "torch.nn.attention": ("gputensor.nn",),
    "torch.nn.parallel": ("gputensor.nn",),
    "torch.autograd.variable": ("gputensor.autograd",),
    "torch.distributions.transforms": (
        "gputensor.distributions.transforms",
        "gputensor.distributions.transform",
    ),
    "torch.autograd.functional": ("gputensor.func.functional",),
    "torch.autograd.forward_ad": ("gputensor.func.forward_ad",),
    "torch.autograd.profiler": ("gputensor.watch.profiler",),
    "torch.profiler": ("gputensor.watch.profiler",),
    "torch.autograd.function": ("gputensor.autograd",),
    "torch.autograd.grad_mode": ("gputensor.autograd",),
    "torch.cuda.amp": ("gputensor.amp",),
    "torch.cuda.memory": ("gputensor.cuda",),
    "torch.accelerator": ("gputensor.cuda",),
    "torch.cuda.random": ("gputensor.cuda",),
    "torch.cpu.amp": ("gputensor.amp",),
    "torch.cuda.amp.autocast_mode": ("gputensor.amp",),
    "torch.cuda.amp.grad_scaler": ("gputensor.amp",),
    "torch.amp.autocast_mode": ("gputensor.amp",),
    "torch._functorch": ("gputensor.func",),
    "torch.serialization": ("gputensor",),
    "torch.storage": ("gputensor",),
    "torch.utils.dlpack": ("gputensor.exchange.dlpack", "gputensor"),
    "torch.utils.hooks": ("gputensor.autograd.node",),
    **dict.fromkeys(_OF_DATA.split(), ("gputensor.utils.data",)),
    "torch.multiprocessing": ("multiprocessing",),
    "torch.optim.optimizer": ("gputensor.optim", "gputensor.optim.optimizer"),
    **{f"torch.optim.{name}": ("gputensor.optim",) for name in _OPTIMIZERS.split()},
    "torch._C": ("gputensor",),
    "torch._C._nn": ("gputensor.nn.functional",),
    "torch.jit.annotations": ("typing",),
}
# Parts of PyTorch that are not here: their names can be imported, and refuse to be called.
_QUANTISED = "torch.ao torch.quantization torch.nn.quantized torch.nn.qat"
_TRACED = (
    "torch._dynamo torch._inductor torch.fx torch.export torch._export torch._higher_order_ops "
    "torch._prims_common torch._functorch"
)
_SPREAD = (
    "torch.distributed.tensor torch.distributed.fsdp torch.distributed._composable "
    "torch.distributed.algorithms torch.distributed._functional_collectives "
    "torch.distributed.device_mesh torch.distributed.checkpoint torch.distributed.pipelining "
    "torch.distributed.elastic torch.distributed._tensor torch.distributed.nn"
)
ABSENT = {
    **dict.fromkeys(_QUANTISED.split(), "there are no quantised tensors"),
    **dict.fromkeys(_TRACED.split(), "programs are not traced into graphs"),
    **dict.fromkeys(_SPREAD.split(), "parameters are not spread over devices"),
    "torch.sparse": "there are no sparse tensors",
    "torch.nested": "there are no nested tensors",
    "torch._subclasses": "tensors without elements are on the device meta",
    "torch.masked": "there are no masked tensors",
    "torch.onnx": "models are not written as ONNX",
    "torch.nn.attention.flex_attention": "attention has no scores of a program's own",
    "torch.package": "there are no packages of code",
    "torch.utils.tensorboard": "curves are not written for TensorBoard",
}
_sizes = {f"_size_{n}_t": typing.Any for n in range(1, 7)}
_ratios = {f"_ratio_{n}_t": typing.Any for n in (2, 3, "any")}
# Names that stand in for what ours lack, or mean something else there.
EXTRAS: dict[str, dict[str, Any]] = {
    "torch": {
        "__version__": f"{VERSION}+gputensor", "compile": compiled, "_assert": stand_ins._assert,
        "_assert_async": stand_ins._assert,
        "_check": stand_ins.check, "_check_value": stand_ins.check,
        "is_storage": lambda x: isinstance(x, gt.Storage), "set_warn_always": nothing,
        "typename": lambda x: f"torch.{type(x).__name__}",
        "set_float32_matmul_precision": nothing, "get_float32_matmul_precision": lambda: "highest",
        "are_deterministic_algorithms_enabled": never, "use_deterministic_algorithms": nothing,
        "set_num_interop_threads": nothing, "set_flush_denormal": never,
        "is_deterministic_algorithms_warn_only_enabled": never, "_is_all_true": lambda x: x.all(),
        "set_default_tensor_type": legacy_types.set_default_tensor_type,
        "quantize_per_tensor": refuse("quantize_per_tensor", "there are no quantised tensors"),
        "sparse_coo_tensor": refuse("sparse_coo_tensor", "there are no sparse tensors"),
        "SymInt": int, "SymFloat": float, "SymBool": bool, "sparse_coo": "sparse_coo",
        "jagged": "jagged", "sparse_csr": "sparse_csr", "qint8": "qint8", "quint8": "quint8",
        "GradScaler": gt.amp.GradScaler, "Stream": legacy_types.Stream, "Event": legacy_types.Event,
        "UntypedStorage": legacy_types.UntypedStorage, "TypedStorage": gt.Storage,
        "finfo": legacy_types.finfo, **legacy_types.FLOAT8, **legacy_types.TYPES,
    },
    "torch.jit": stand_ins.jit, "torch.jit._script": stand_ins.jit,
    "torch.jit.annotations": {f"BroadcastingList{n}": list for n in range(1, 7)},
    "torch.compiler": stand_ins.compiler, "torch._dynamo": stand_ins.dynamo,
    "torch._dynamo.config": {}, "torch._dynamo.utils": {"is_compile_supported": never},
    "torch._inductor": {"config": stand_ins.Flags()},
    "torch.fx": stand_ins.fx,
    "torch.fx._compatibility": {"compatibility": as_it_is},
    "torch.hub": stand_ins.hub, "torch.onnx": stand_ins.onnx,
    "torch.onnx.symbolic_helper": {"parse_args": as_it_is},
    "torch.backends.cudnn": stand_ins.cudnn, "torch.backends.cuda": stand_ins.cuda_backend,
    "torch.backends.mps": stand_ins.absent, "torch.backends.mkldnn": stand_ins.absent,
    "torch.backends.mkl": stand_ins.absent, "torch.backends.openmp": stand_ins.absent,
    "torch.backends.opt_einsum": stand_ins.absent, "torch.backends.xnnpack": stand_ins.absent,
    "torch.mps": stand_ins.absent, "torch.xpu": stand_ins.absent, "torch.mtia": stand_ins.absent,
    "torch.overrides": stand_ins.overrides, "torch._C": stand_ins.core | {
        "DispatchKey": _Keys(), "_are_functorch_transforms_active": _has_levels,
        "DispatchKeySet": lambda key: keys.KeySet(keys.bits_of(key)),
        "_ExcludeDispatchKeyGuard": tls.ExcludeDispatchKeys,
        "_AutoDispatchBelowAutograd": tls.AutoDispatchBelowAutograd,
    },
    "torch.utils.checkpoint": {
        "get_device_states": legacy_types.get_device_states,
        "set_device_states": legacy_types.set_device_states,
    },
    "torch.utils.dlpack": {"to_dlpack": lambda tensor: tensor.__dlpack__()},
    "torch.profiler": {"ProfilerActivity": legacy_types.ProfilerActivity},
    "torch.autograd.function": {"FunctionCtx": function.Context},
    "torch.optim.optimizer": {"required": stand_ins.required},
    "torch._C._nn": {}, "torch.nn.modules.utils": stand_ins.nn_utils_of_modules,
    "torch.nn.common_types": _sizes | _ratios,
    "torch.nn.attention": {"SDPBackend": stand_ins.Flags(
        MATH=0, FLASH_ATTENTION=1, EFFICIENT_ATTENTION=2, CUDNN_ATTENTION=3, ERROR=-1
    ), "sdpa_kernel": stand_ins.block},
    "torch.nn.modules.module": {
        "_IncompatibleKeys": tuple, "_EXTRA_STATE_KEY_SUFFIX": "_extra_state",
    },
    "torch.utils": {"set_module": nothing},
    "torch.utils.model_zoo": {
        "load_url": stand_ins.hub["load_state_dict_from_url"], "tqdm": as_it_is,
    },
    "torch.utils.cpp_extension": {
        "load": refuse("utils.cpp_extension.load", "C++ extensions are compiled against PyTorch"),
        "CUDA_HOME": None,
    },
    "torch.storage": {"UntypedStorage": legacy_types.UntypedStorage, "TypedStorage": gt.Storage},
    "torch.types": {"Number": int | float | bool, "Device": Any, "_dtype": Any, "_size": Any,
                    "_device": Any, "_int": int, "_float": float, "_bool": bool},
    "torch.version": {"__version__": VERSION, "cuda": None, "hip": None, "git_version": "unknown",
                      "debug": False, "xpu": None},
    "torch.nn": {"SyncBatchNorm": SyncBatchNorm},
    "torch.nn.modules.loss": {"_WeightedLoss": loss._Loss},
    "torch.nn.modules.linear": {"NonDynamicallyQuantizableLinear": gt.nn.Linear},
    "torch.optim.lr_scheduler": {"_LRScheduler": gt.optim.lr_scheduler.LRScheduler},
    "torch.autograd": {"Variable": legacy_types.Variable},
    "torch.autograd.variable": {"Variable": legacy_types.Variable},
    "torch.cuda": {
        "Stream": legacy_types.Stream, "Event": legacy_types.Event,
        "StreamContext": legacy_types.made_by("StreamContext", gt.cuda.stream),
    },
    "torch.accelerator": {"current_accelerator": legacy_types.current_accelerator},
    "torch.cuda.nvtx": {"range_push": nothing, "range_pop": nothing, "mark": nothing,
                        "range": stand_ins.block},
    "torch.cpu": {"is_available": lambda: True, "device_count": lambda: 1, "synchronize": nothing,
                  "current_device": lambda: "cpu"},
    "torch.distributed.tensor": {
        "Replicate": stand_ins.Placement, "Shard": stand_ins.Placement,
        "Partial": stand_ins.Placement,
    },
    "torch.utils._pytree": {"_dict_flatten_with_keys": nothing},
    "torch._utils": {}, "torch._jit_internal": stand_ins.jit,
    "torch.futures": {}, "torch.return_types": {},
    "torch.nn.modules.conv": {"_ConvNd": conv._Conv, "_ConvTransposeNd": conv._ConvTranspose},
    "torch.nn.modules.batchnorm": {"_NormBase": norm._Affine},
    "torch.nn.modules.dropout": {"_DropoutNd": functional._Dropout},
    "torch.nn.modules.pooling": {
        "_MaxPoolNd": pooling._MaxPool, "_AvgPoolNd": pooling._AvgPool,
        "_AdaptiveAvgPoolNd": pooling._Adaptive, "_AdaptiveMaxPoolNd": pooling._Adaptive,
    },
    "torch.ops": {"load_library": stand_ins.load_library}, "torch._custom_ops": {},
}  # fmt: skip
