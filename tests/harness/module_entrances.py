"""Valid uses of gt.nn and gt.optim: modules made and called, optimisers and schedulers stepped."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gputensor as gt

from .functional_entrances import _HALF, _LINE, _PLANE, _VOLUME, _X, _drawn, _indices, _ones

_INPUTS = (_LINE, _PLANE, _VOLUME)
_TARGET = _indices(0, 2)

# name -> (arguments, inputs of forward)
_MODULES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "Identity": ((), (_X,)),
    "Linear": ((3, 2), (_X,)),
    "Bilinear": ((3, 3, 2), (_X, _X)),
    "Embedding": ((4, 3, 1, 2.0), (_TARGET,)),
    "EmbeddingBag": ((4, 3), (_TARGET, _indices(0, 1))),
    "PReLU": ((1, 0.25), (_X,)),
    "Flatten": ((1, -1), (_PLANE,)),
    "Unflatten": ((1, (1, 3)), (_X,)),
    "Softmax2d": ((), (_PLANE,)),
    "LayerNorm": ((3, 1e-5), (_X,)),
    "RMSNorm": ((3, 1e-5), (_X,)),
    "GroupNorm": ((1, 2), (_PLANE,)),
    "RNN": ((3, 2, 1, "tanh"), (_ones(2, 1, 3),)),
    "LSTM": ((3, 2), (_ones(2, 1, 3),)),
    "GRU": ((3, 2), (_ones(2, 1, 3),)),
    "RNNCell": ((3, 2), (_X,)),
    "LSTMCell": ((3, 2), (_X,)),
    "GRUCell": ((3, 2), (_X,)),
    "MultiheadAttention": ((4, 2), (_ones(2, 1, 4),) * 3),
    "TransformerEncoderLayer": ((4, 2, 4, 0.0), (_ones(2, 1, 4),)),
    "TransformerDecoderLayer": ((4, 2, 4, 0.0), (_ones(2, 1, 4), _ones(2, 1, 4))),
    "TransformerEncoder": (
        (lambda: gt.nn.TransformerEncoderLayer(4, 2, 4), 2), (_ones(2, 1, 4),),
    ),
    "TransformerDecoder": (
        (lambda: gt.nn.TransformerDecoderLayer(4, 2, 4), 2), (_ones(2, 1, 4),) * 2,
    ),
    "Transformer": ((4, 2, 1, 1, 4), (_ones(2, 1, 4), _ones(2, 1, 4))),
    "Sequential": ((gt.nn.ReLU, gt.nn.Tanh), (_X,)),
    "ModuleList": ((lambda: [gt.nn.ReLU()],), ()),
    "ModuleDict": ((lambda: {"a": gt.nn.ReLU()},), ()),
    "ParameterList": ((lambda: [gt.nn.Parameter(gt.ones(2))],), ()),
    "ParameterDict": ((lambda: {"a": gt.nn.Parameter(gt.ones(2))},), ()),
    # pooling
    **{
        f"{kind}Pool{n}d": ((2, 2, 0), (_INPUTS[n - 1],))
        for kind in ("Max", "Avg") for n in (1, 2, 3)
    },
    **{f"LPPool{n}d": ((2.0, 2, 2), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    **{
        f"Adaptive{kind}Pool{n}d": ((2,), (_INPUTS[n - 1],))
        for kind in ("Avg", "Max") for n in (1, 2, 3)
    },
    **{f"FractionalMaxPool{n}d": ((2, 2), (_INPUTS[n - 1],)) for n in (2, 3)},
    **{
        f"MaxUnpool{n}d": ((2, 2, 0), (_ones(1, 1, *(1,) * n), _zeros))
        for n in (1, 2, 3) for _zeros in (lambda n=n: gt.zeros(1, 1, *(1,) * n, dtype=gt.int64),)
    },
    # convolutions
    **{f"Conv{n}d": ((2, 4, 2, 1, 1, 1, 2), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": ((2, 4, 2, 2, 1, 1, 2), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    # lazy: sizes come from the first input
    "LazyLinear": ((2,), (_X,)),
    **{f"LazyConv{n}d": ((4, 2), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    **{f"LazyConvTranspose{n}d": ((4, 2), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    **{
        f"Lazy{kind}Norm{n}d": ((1e-5, 0.1), (_INPUTS[n - 1],))
        for kind in ("Batch", "Instance") for n in (1, 2, 3)
    },
    "SyncBatchNorm": ((2, 1e-5, 0.1), (_PLANE,)),
    "DataParallel": ((gt.nn.ReLU, None), (_X,)),
    # norms
    **{
        f"{kind}Norm{n}d": ((2, 1e-5, 0.1), (_INPUTS[n - 1],))
        for kind in ("Batch", "Instance") for n in (1, 2, 3)
    },
    # resampling
    **{
        f"{kind}Pad{n}d": (((1,) * (2 * n),), (_INPUTS[n - 1],))
        for kind in ("Zero", "Reflection", "Replication", "Circular") for n in (1, 2, 3)
    },
    **{f"ConstantPad{n}d": (((1,) * (2 * n), 2.5), (_INPUTS[n - 1],)) for n in (1, 2, 3)},
    "Upsample": ((3,), (_PLANE,)),
    "UpsamplingNearest2d": ((3,), (_PLANE,)),
    "UpsamplingBilinear2d": ((3,), (_PLANE,)),
    "PixelShuffle": ((2,), (_drawn(1, 4, 2, 2),)),
    "PixelUnshuffle": ((2,), (_PLANE,)),
    "ChannelShuffle": ((2,), (_PLANE,)),
    "Unfold": ((2,), (_PLANE,)),
    "Fold": ((4, 2), (_ones(1, 8, 9),)),
    # functions of one tensor
    **dict.fromkeys(
        """ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Hardtanh
        Hardsigmoid Hardswish Hardshrink Softshrink Tanhshrink Softplus Softsign LogSigmoid GLU
        RReLU Dropout Dropout2d AlphaDropout FeatureAlphaDropout""".split(), ((), (_PLANE,)),
    ),
    **dict.fromkeys(("Softmax", "Softmin", "LogSoftmax"), ((1,), (_PLANE,))),
    "Dropout1d": ((), (_LINE,)),
    "Dropout3d": ((), (_VOLUME,)),
    "Threshold": ((0.5, 2.0), (_X,)),
    "LocalResponseNorm": ((2,), (_LINE,)),
    "CosineSimilarity": ((), (_X, _X)),
    "PairwiseDistance": ((), (_X, _X)),
    # losses
    **dict.fromkeys(
        """L1Loss MSELoss HuberLoss SmoothL1Loss SoftMarginLoss KLDivLoss
        PoissonNLLLoss BCEWithLogitsLoss MultiLabelSoftMarginLoss HingeEmbeddingLoss""".split(),
        ((), (_X, _X)),
    ),
    **dict.fromkeys(("NLLLoss", "CrossEntropyLoss", "MultiMarginLoss"), ((), (_X, _TARGET))),
    "NLLLoss2d": ((), (_PLANE, lambda: gt.zeros(1, 4, 4, dtype=gt.int64))),
    "BCELoss": ((), (_HALF, _HALF)),
    "MultiLabelMarginLoss": ((), (_X, _indices((0, -1, 1), (2, 1, -1)))),
    "GaussianNLLLoss": ((), (_X, _X, _X)),
    "MarginRankingLoss": ((), (_X, _X, _X)),
    "TripletMarginLoss": ((), (_X, _X, _X)),
    "TripletMarginWithDistanceLoss": ((), (_X, _X, _X)),
    "CosineEmbeddingLoss": ((), (_X, _X, _indices(1, -1))),
    "CTCLoss": ((), (_ones(3, 1, 4), _indices((1, 2)), _indices(3), _indices(2))),
    "LinearCrossEntropyLoss": ((3, 4), (_X, _TARGET)),
    "AdaptiveLogSoftmaxWithLoss": ((3, 4, (2,)), (_X, _TARGET)),
}  # fmt: skip


def _made(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a() if callable(a) else a for a in args)


def _constructed(name: str) -> Callable[[], Any]:
    """Make a module with the arguments and call it with the inputs."""
    kind, (args, inputs) = getattr(gt.nn, name), _MODULES[name]
    signature = inspect.signature(kind)
    defaults = []
    if "args" in signature.parameters:  # options that are positional
        defaults = list(getattr(kind, "options", {}).values())[len(args) :]

    def make_and_call(*given: Any, **kwargs: Any) -> Any:
        module = kind(*given, **kwargs)
        return module(*_made(inputs)) if inputs else module

    make_and_call.__signature__ = signature  # type: ignore[attr-defined]
    return lambda: (make_and_call, (*_made(args), *defaults), {})


def _called(name: str) -> Callable[[], Any]:
    args, inputs = _MODULES[name]

    def make() -> Any:
        module = getattr(gt.nn, name)(*_made(args))

        def forward(*given: Any, **kwargs: Any) -> Any:
            return module(*given, **kwargs)

        forward.__signature__ = inspect.signature(module.forward)  # type: ignore[attr-defined]
        return forward, _made(inputs), {}

    return make


# --- optimisers -----------------------------------------------------------------------------------


def _leaf() -> Any:
    x = gt.ones(2, 3, requires_grad=True)
    x.grad = gt.ones(2, 3)
    return x


def _stepped(kind: Any, *args: Any, of: Callable[[], Any]) -> Callable[[], Any]:
    """Make and step an optimiser or a scheduler."""

    def make_and_step(*given: Any, **kwargs: Any) -> None:
        made = kind(*given, **kwargs)
        made.step(*_STEPPED_WITH.get(kind, ()))

    make_and_step.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    return lambda: (make_and_step, (of(), *_made(args)), {})


_STEPPED_WITH: dict[Any, tuple[Any, ...]] = {
    gt.optim.lr_scheduler.ReduceLROnPlateau: (1.0,), gt.optim.LBFGS: (lambda: 1.0,),
}  # fmt: skip


def _optimizer() -> Any:
    made = gt.optim.SGD([_leaf()], 0.1, 0.9)
    made.step()
    return made


_OPTIMIZERS = {"SGD": (0.1, 0.9), "Adam": (0.1, (0.9, 0.99)), "AdamW": (0.1, (0.9, 0.99)),
               "RMSprop": (0.1,), "Adagrad": (0.1,), "Adadelta": (0.1, 0.9),
               "Adamax": (0.1, (0.9, 0.99)), "ASGD": (0.1, 1e-4, 0.75, 1e6, 0.1),
               "NAdam": (0.1, (0.9, 0.99), 1e-8, 0.1, 4e-3),
               "RAdam": (0.1, (0.9, 0.99), 1e-8, 0.1), "Rprop": (0.1, (0.5, 1.2), (1e-6, 50)),
               "Adafactor": (0.1, -0.8, (None, 1e-3), 1.0, 0.1),
               "Muon": (0.1, 0.1, 0.95, True, (3.0, -4.0, 2.0), 1e-7, 3, "original"),
               "LBFGS": (0.1, 2, 3, 1e-7, 1e-9, 3, "strong_wolfe")}  # fmt: skip
_SCHEDULES: dict[str, tuple[Any, ...]] = {
    "LambdaLR": (lambda: abs,), "MultiplicativeLR": (lambda: abs,), "StepLR": (2, 0.5),
    "MultiStepLR": ((1, 3), 0.5), "ConstantLR": (0.5, 3), "LinearLR": (0.5, 1.0, 3),
    "ExponentialLR": (0.5,), "PolynomialLR": (3, 2.0), "CosineAnnealingLR": (3, 0.01),
    "CosineAnnealingWarmRestarts": (3, 2, 0.01), "OneCycleLR": (1.0, 10),
    "ReduceLROnPlateau": ("min", 0.5, 1), "CyclicLR": (0.1, 1.0, 3, 4, "triangular", 1.0),
}  # fmt: skip


def _sequential() -> Any:
    of, schedules = _optimizer(), gt.optim.lr_scheduler

    def make_and_step(schedulers: Any, milestones: Any) -> None:
        schedules.SequentialLR(of, schedulers, milestones).step()

    return make_and_step, ([schedules.ExponentialLR(of, g) for g in (0.5, 0.9)], [2]), {}


def _chained() -> Any:
    of, schedules = _optimizer(), gt.optim.lr_scheduler

    def make_and_step(schedulers: Any, optimizer: Any) -> None:
        schedules.ChainedScheduler(schedulers, optimizer).step()

    return make_and_step, ([schedules.ExponentialLR(of, g) for g in (0.5, 0.9)], of), {}


def _averaged_model() -> Any:
    model = gt.nn.Linear(2, 3)

    def make_and_update(averaged: Any, device: Any, avg_fn: Any, use_buffers: Any) -> None:
        made = gt.optim.swa_utils.AveragedModel(averaged, device, avg_fn, use_buffers=use_buffers)
        made.update_parameters(model)
        made.update_parameters(model)

    return make_and_update, (model, "cpu", gt.optim.swa_utils.get_swa_avg_fn(), False), {}


def _swapped() -> Any:
    optimizer = gt.optim.SGD([_leaf()], momentum=0.9)
    optimizer.param_groups[0]["params"][0].grad = gt.ones(2, 3)
    optimizer.step()

    def swapped(*args: Any) -> None:
        with gt.optim.swap_in_optimizer_params_and_state(*args):
            optimizer.step()

    return swapped, (optimizer, {"p": gt.ones(2, 3)}, optimizer.state_dict()), {}


_AVERAGES: dict[str, tuple[Any, ...]] = {
    "get_ema_avg_fn": (0.9,),
    "get_ema_multi_avg_fn": (0.9,),
    "get_swa_avg_fn": (),
    "get_swa_multi_avg_fn": (),
    "update_bn": (lambda: [gt.ones(2, 3)], lambda: gt.nn.BatchNorm1d(3), "cpu"),
}


_INITS: dict[str, tuple[Any, ...]] = {
    "uniform_": (_X, 0.0, 1.0), "normal_": (_X, 0.0, 1.0),
    "trunc_normal_": (_X, 0.0, 1.0, -2.0, 2.0),
    "constant_": (_X, 2.0), "ones_": (_X,), "zeros_": (_X,), "eye_": (_X,),
    "dirac_": (_LINE, 1), "sparse_": (_X, 0.5),
    "xavier_uniform_": (_X, 1.0), "xavier_normal_": (_X, 1.0), "kaiming_uniform_": (_X, 0.1),
    "kaiming_normal_": (_X, 0.1), "orthogonal_": (_X, 1.0), "calculate_gain": ("leaky_relu", 0.1),
}  # fmt: skip
_PARAMETERS: dict[str, tuple[Any, ...]] = {
    "clip_grads_with_norm_": (lambda: [_leaf()], 1.0, lambda: gt.ones(())),
    "fuse_conv_bn_weights": (
        lambda: gt.ones(2, 1, 1, 1), None, lambda: gt.zeros(2), lambda: gt.ones(2), 1e-5, None, None
    ),
    "fuse_linear_bn_weights": (
        lambda: gt.ones(2, 3), None, lambda: gt.zeros(2), lambda: gt.ones(2), 1e-5, None, None
    ),
    "fuse_conv_bn_eval": (
        lambda: gt.nn.Conv2d(1, 2, 1).eval(), lambda: gt.nn.BatchNorm2d(2).eval()
    ),
    "fuse_linear_bn_eval": (
        lambda: gt.nn.Linear(3, 2).eval(), lambda: gt.nn.BatchNorm1d(2).eval()
    ),
    "weight_norm": (lambda: gt.nn.Linear(3, 2),), "spectral_norm": (lambda: gt.nn.Linear(3, 2),),
    "remove_weight_norm": (lambda: gt.nn.utils.weight_norm(gt.nn.Linear(3, 2)),),
    "remove_spectral_norm": (lambda: gt.nn.utils.spectral_norm(gt.nn.Linear(3, 2)),),
    "convert_conv2d_weight_memory_format": (lambda: gt.nn.Conv2d(1, 2, 1), gt.channels_last),
    "convert_conv3d_weight_memory_format": (lambda: gt.nn.Conv3d(1, 2, 1), gt.channels_last_3d),
    "clip_grad_norm_": (lambda: [_leaf()], 1.0), "clip_grad_value_": (lambda: [_leaf()], 1.0),
    "get_total_norm": (lambda: [gt.ones(2)], 2.0), "parameters_to_vector": (lambda: [_leaf()],),
    "vector_to_parameters": (lambda: gt.ones(6), lambda: [_leaf()]),
}  # fmt: skip


def _linear() -> Any:
    return gt.nn.Linear(3, 2)


_PRUNINGS: dict[str, tuple[Any, ...]] = {
    "identity": (_linear, "weight"), "random_unstructured": (_linear, "weight", 0.5),
    "l1_unstructured": (_linear, "weight", 2, lambda: gt.ones(2, 3)),
    "random_structured": (_linear, "weight", 1, 0),
    "ln_structured": (_linear, "weight", 1, 2, 0, lambda: gt.ones(2, 3)),
    "custom_from_mask": (_linear, "weight", lambda: gt.ones(2, 3)),
    "global_unstructured": (
        lambda: [(_linear(), "weight")], lambda: gt.nn.utils.prune.Identity,
    ),
    "remove": (lambda: gt.nn.utils.prune.identity(_linear(), "weight"), "weight"),
    "is_pruned": (_linear,), "Identity": (), "RandomUnstructured": (0.5,),
    "L1Unstructured": (1,), "RandomStructured": (1, 0), "LnStructured": (1, 2, 0),
    "CustomFromMask": (lambda: gt.ones(2),),
    "PruningContainer": (gt.nn.utils.prune.Identity,),
}  # fmt: skip


def _of(place: Any, name: str, args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: (getattr(place, name), _made(args), {})


ENTRANCES: dict[str, Callable[[], Any]] = {
    **{f"nn.{name}": _constructed(name) for name in _MODULES},
    **{f"forward of nn.{name}": _called(name) for name in _MODULES if _MODULES[name][1]},
    **{
        f"optim.{name}": _stepped(getattr(gt.optim, name), *args, of=lambda: [_leaf()])
        for name, args in _OPTIMIZERS.items()
    },
    **{
        f"lr_scheduler.{name}": _stepped(getattr(gt.optim.lr_scheduler, name), *args, of=_optimizer)
        for name, args in _SCHEDULES.items()
    },
    "lr_scheduler.SequentialLR": _sequential,
    "lr_scheduler.ChainedScheduler": _chained,
    "swa_utils.SWALR": _stepped(gt.optim.swa_utils.SWALR, 0.1, 3, "linear", of=_optimizer),
    "swa_utils.AveragedModel": _averaged_model,
    **{
        f"swa_utils.{name}": _of(gt.optim.swa_utils, name, args) for name, args in _AVERAGES.items()
    },
    "optim.swap_in_optimizer_params_and_state": _swapped,
    "nn.LinearCrossEntropyOptions": _of(gt.nn, "LinearCrossEntropyOptions", (False, 2)),
    "nn.Parameter": _of(gt.nn, "Parameter", (_X, True)),
    "nn.Buffer": _of(gt.nn, "Buffer", (_X,)),
    **{f"nn.init.{name}": _of(gt.nn.init, name, args) for name, args in _INITS.items()},
    **{f"nn.utils.{name}": _of(gt.nn.utils, name, args) for name, args in _PARAMETERS.items()},
    **{f"prune.{name}": _of(gt.nn.utils.prune, name, args) for name, args in _PRUNINGS.items()},
}
