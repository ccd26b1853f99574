"""PyTorch's modules, and the modules of gputensor that replace them.

A module that is not listed is found by its path: `torch.nn.functional` is
gputensor.nn.functional. core/errors/absent.py lists what is left out, and why.
"""

from __future__ import annotations

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
# Name of PyTorch's module -> our modules, searched in this order.
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
            "gputensor.nn.modules.hooks",
        )
        for name in _MODULES.split()
    },
    "torch.nn.utils.weight_norm": ("gputensor.nn.utils",),
    "torch.nn.utils.spectral_norm": ("gputensor.nn.utils",),
    "torch.nn.utils.clip_grad": ("gputensor.nn.utils",),
    "torch.nn.utils.convert_parameters": ("gputensor.nn.utils",),
    "torch.nn.parameter": ("gputensor.nn", "gputensor.nn.parameter"),
    "torch.autograd.anomaly_mode": ("gputensor.autograd",),
    "torch.return_types": ("gputensor.as_torch.return_types",),
    "torch.nn.attention": ("gputensor.nn",),
    "torch.nn.parallel.distributed": ("gputensor.nn.parallel",),
    "torch.nn.parallel.data_parallel": ("gputensor.nn.parallel",),
    "torch.autograd.variable": ("gputensor.autograd",),
    "torch.distributions.transforms": (
        "gputensor.distributions.transforms",
        "gputensor.distributions.transform",
    ),
    "torch.autograd.functional": ("gputensor.func.functional",),
    "torch.autograd.forward_ad": ("gputensor.func.forward_ad",),
    "torch.distributed.distributed_c10d": ("gputensor.distributed",),
    "torch.autograd.function": ("gputensor.autograd",),
    "torch.autograd.grad_mode": ("gputensor.autograd",),
    "torch.cuda.amp": ("gputensor.amp",),
    "torch.cuda.memory": ("gputensor.cuda",),
    "torch.accelerator": ("gputensor.cuda",),
    "torch.cuda.random": ("gputensor.cuda",),
    "torch.cuda.streams": ("gputensor.cuda",),
    "torch.cpu.amp": ("gputensor.amp",),
    "torch.cuda.amp.autocast_mode": ("gputensor.amp",),
    "torch.cuda.amp.grad_scaler": ("gputensor.amp",),
    "torch.amp.autocast_mode": ("gputensor.amp",),
    "torch._functorch": ("gputensor.func",),
    "torch.serialization": ("gputensor.serialization", "gputensor"),
    "torch.storage": ("gputensor",),
    "torch.utils.dlpack": ("gputensor.exchange.dlpack", "gputensor"),
    "torch.utils.hooks": ("gputensor.autograd.node",),
    **dict.fromkeys(_OF_DATA.split(), ("gputensor.utils.data",)),
    "torch.utils.data._utils": ("gputensor.utils.data",),
    "torch.utils.data._utils.collate": ("gputensor.utils.data.collate",),
    "torch.utils.data._utils.pin_memory": ("gputensor.utils.data.loader",),
    "torch.utils.data._utils.worker": ("gputensor.utils.data.workers",),
    "torch.multiprocessing": ("multiprocessing",),
    "torch.optim.optimizer": ("gputensor.optim", "gputensor.optim.optimizer"),
    **{f"torch.optim.{name}": ("gputensor.optim",) for name in _OPTIMIZERS.split()},
    "torch._C": ("gputensor",),
    "torch._C._nn": ("gputensor.nn.functional",),
    "torch.jit.annotations": ("typing",),
}
