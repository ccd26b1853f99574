"""PyTorch's modules, and the modules or placeholders that replace them.

A module that is not listed is found by its path: `torch.nn.functional` is gputensor.nn.functional.
core/errors/absent.py lists the modules and names that are left out, with reasons.
"""

from __future__ import annotations

from typing import Any

_MODULES = (
    "batchnorm instancenorm conv activation loss normalization pooling rnn dropout padding sparse "
    "upsampling transformer linear container flatten fold distance pixelshuffle adaptive "
    "channelshuffle module lazy utils"
)
_OF_MODULES = (
    "gputensor.nn", "gputensor.nn.modules.norm", "gputensor.nn.modules.loss",
    "gputensor.nn.modules.conv", "gputensor.nn.modules.recurrent", "gputensor.nn.modules.hooks",
    "gputensor.nn.modules.lazy",
)  # fmt: skip
_OPTIMIZERS = (
    "adam adamw sgd rmsprop adagrad adadelta adamax nadam radam lbfgs rprop asgd sparse_adam "
    "_adafactor _muon"
)
# Our module -> PyTorch's modules that it replaces.
_ALONE = {
    "gputensor": "torch torch._tensor torch.storage torch._C",
    "gputensor.amp": "torch.amp.autocast_mode torch.cpu.amp torch.cpu.amp.autocast_mode "
    "torch.cpu.amp.grad_scaler torch.cuda.amp torch.cuda.amp.autocast_mode torch.cuda.amp.common "
    "torch.cuda.amp.grad_scaler",
    "gputensor.as_torch.return_types": "torch.return_types",
    "gputensor.autograd": "torch.autograd.anomaly_mode torch.autograd.function "
    "torch.autograd.grad_mode torch.autograd.variable",
    "gputensor.autograd.node": "torch.utils.hooks",
    "gputensor.cuda": "torch.accelerator torch.accelerator.graphs torch.accelerator.memory "
    "torch.cuda.memory torch.cuda.random torch.cuda.streams",
    "gputensor.distributed": "torch.distributed.distributed_c10d",
    "gputensor.func": "functorch torch._functorch",
    "gputensor.func.forward_ad": "torch.autograd.forward_ad",
    "gputensor.func.functional": "torch.autograd.functional",
    "gputensor.nn": "torch.nn.attention torch.nn.modules "
    "torch.nn.modules.linear_cross_entropy_options",
    "gputensor.nn.functional": "torch._C._nn",
    "gputensor.nn.parallel": "torch.nn.parallel.data_parallel torch.nn.parallel.distributed",
    "gputensor.nn.utils": "torch.nn.utils.clip_grad torch.nn.utils.convert_parameters "
    "torch.nn.utils.init torch.nn.utils.memory_format",
    "gputensor.parallel.hooks": "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "gputensor.parallel.uneven": "torch.distributed.algorithms.join",
    "gputensor.utils.data": "torch.utils.data._utils torch.utils.data.dataloader "
    "torch.utils.data.sampler",
    "gputensor.utils.data.collate": "torch.utils.data._utils.collate",
    "gputensor.utils.data.loader": "torch.utils.data._utils.pin_memory",
    "gputensor.utils.data.workers": "torch.utils.data._utils.worker",
    "multiprocessing": "torch.multiprocessing",
    "multiprocessing.pool": "torch.multiprocessing.pool",
    "multiprocessing.queues": "torch.multiprocessing.queue",
    "typing": "torch.jit.annotations",
}
# Name of PyTorch's module -> our modules, searched in this order.
SOURCES: dict[str, tuple[str, ...]] = {
    **{theirs: (ours,) for ours, named in _ALONE.items() for theirs in named.split()},
    **{f"torch.nn.modules.{name}": _OF_MODULES for name in _MODULES.split()},
    **{f"torch.optim.{name}": ("gputensor.optim",) for name in _OPTIMIZERS.split()},
    "torch.distributions.transforms": (
        "gputensor.distributions.transforms", "gputensor.distributions.transform",
    ),
    "torch.functional": ("gputensor.functional", "gputensor"),
    **{
        f"torch.nn.utils.{name}_norm": ("gputensor.nn.utils", "gputensor.nn.utils.hooked_norms")
        for name in ("spectral", "weight")
    },
    "torch.nn.parameter": ("gputensor.nn", "gputensor.nn.parameter"),
    "torch.optim.optimizer": ("gputensor.optim", "gputensor.optim.optimizer"),
    "torch.serialization": ("gputensor.serialization", "gputensor"),
    "torch.utils.data.dataset": ("gputensor.utils.data", "gputensor"),
    "torch.utils.dlpack": ("gputensor.exchange.dlpack", "gputensor"),
}  # fmt: skip

PAGE = "docs/usage/programs.md"


class _AbsentType(type):
    """Metaclass of placeholders: a class that programs can derive from and pass to isinstance."""

    why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{cls.__qualname__}: {cls.why} (see {PAGE})")

    def __getitem__(cls, item: Any) -> Any:
        return cls  # annotations such as `Future[Tensor]`

    def __iter__(cls) -> Any:  # without this method, iteration calls __getitem__ endlessly
        return cls()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__qualname__}.{name}", cls.why)


def Absent(name: str, why: str) -> Any:
    """Return a placeholder class, which programs can import, derive from and pass to isinstance. A
    call of the class raises NotImplementedError with the reason `why`."""
    short = name.rpartition(".")[2]
    return _AbsentType(short, (), {"why": why, "__qualname__": name, "__module__": "torch"})
