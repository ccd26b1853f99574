"""Write the public names of PyTorch and NumPy: `python -m tests.oracle.freeze_names`.

Errors about names that gputensor lacks read `gputensor/core/errors/names.txt`: a line for each of
their modules with a counterpart here, and for their tensor classes.
`tests/as_torch/names.txt` has PyTorch's further modules that programs may import.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy
import torch

import gputensor

PROGRAMS = Path(__file__).parents[1] / "as_torch" / "names.txt"
NAMES = Path(gputensor.__file__).parent / "core" / "errors" / "names.txt"
MODULES = {
    "torch": [
        "", ".Tensor", ".amp", ".autograd", ".autograd.graph", ".backends", ".cuda",
        ".distributions", ".fft", ".library", ".linalg", ".nn", ".nn.functional", ".nn.init",
        ".nn.utils", ".optim", ".optim.lr_scheduler", ".optim.swa_utils", ".profiler", ".random",
        ".special", ".testing", ".utils.data",
    ],
    "numpy": ["", ".ndarray", ".fft", ".linalg", ".random", ".testing"],
}  # fmt: skip

OF_PROGRAMS = """
    accelerator accelerator.graphs accelerator.memory amp.autocast_mode amp.grad_scaler
    autograd.anomaly_mode autograd.forward_ad autograd.function autograd.functional
    autograd.grad_mode autograd.gradcheck autograd.profiler autograd.variable backends.cpu
    backends.cuda backends.mha backends.mkl backends.mps backends.openmp compiler cpu cpu.amp
    cpu.amp.autocast_mode cpu.amp.grad_scaler cuda.amp cuda.amp.autocast_mode cuda.amp.common
    cuda.amp.grad_scaler cuda.graphs cuda.memory cuda.nvtx cuda.random cuda.streams distributed
    distributed.constants distributed.distributed_c10d distributions.bernoulli
    distributions.beta distributions.binomial distributions.categorical distributions.cauchy
    distributions.chi2 distributions.constraint_registry distributions.constraints
    distributions.continuous_bernoulli distributions.dirichlet distributions.distribution
    distributions.exp_family distributions.exponential distributions.fishersnedecor
    distributions.gamma distributions.generalized_pareto distributions.geometric
    distributions.gumbel distributions.half_cauchy distributions.half_normal
    distributions.independent distributions.inverse_gamma distributions.kl
    distributions.kumaraswamy distributions.laplace distributions.lkj_cholesky
    distributions.log_normal distributions.logistic_normal
    distributions.lowrank_multivariate_normal distributions.mixture_same_family
    distributions.multinomial distributions.multivariate_normal distributions.negative_binomial
    distributions.normal distributions.one_hot_categorical distributions.pareto
    distributions.poisson distributions.relaxed_bernoulli distributions.relaxed_categorical
    distributions.studentT distributions.transformed_distribution distributions.transforms
    distributions.uniform distributions.utils distributions.von_mises distributions.weibull
    distributions.wishart func functional futures hub jit jit.annotations mps mtia
    multiprocessing multiprocessing.pool multiprocessing.queue multiprocessing.spawn
    nn.attention nn.attention.bias nn.common_types nn.grad nn.modules nn.modules.activation
    nn.modules.adaptive nn.modules.batchnorm nn.modules.channelshuffle nn.modules.container
    nn.modules.conv nn.modules.distance nn.modules.dropout nn.modules.flatten nn.modules.fold
    nn.modules.instancenorm nn.modules.lazy nn.modules.linear
    nn.modules.linear_cross_entropy_options nn.modules.loss nn.modules.module
    nn.modules.normalization nn.modules.padding nn.modules.pixelshuffle nn.modules.pooling
    nn.modules.rnn nn.modules.sparse nn.modules.transformer nn.modules.upsampling
    nn.modules.utils nn.parallel nn.parallel.data_parallel nn.parallel.distributed nn.parameter
    nn.utils.clip_grad nn.utils.convert_parameters nn.utils.fusion nn.utils.init
    nn.utils.memory_format nn.utils.parametrizations nn.utils.parametrize nn.utils.prune
    nn.utils.rnn nn.utils.spectral_norm nn.utils.stateless nn.utils.weight_norm optim.adadelta
    optim.adagrad optim.adam optim.adamax optim.adamw optim.asgd optim.lbfgs optim.nadam
    optim.optimizer optim.radam optim.rmsprop optim.rprop optim.sgd optim.sparse_adam overrides
    profiler.itt profiler.profiler quasirandom return_types serialization signal signal.windows
    signal.windows.windows storage torch_version types utils utils.benchmark
    utils.benchmark.utils.common utils.benchmark.utils.compare utils.benchmark.utils.timer
    utils.checkpoint utils.data.backward_compatibility utils.data.dataloader utils.data.dataset
    utils.data.distributed utils.data.sampler utils.dlpack utils.flop_counter utils.hooks
    version xpu
""".split()


def public(module: str) -> list[str]:
    """Return the names that users may read: listed names, and all other names that belong to the
    library.

    PyTorch leaves many of its names out of `__all__`: functions made of C, and values such as its
    dtypes. Names that a module imports from another library do not belong to it, and submodules are
    left out.
    """
    of, _, last = module.rpartition(".")
    if last in ("Tensor", "ndarray"):
        return [name for name in dir(getattr(import_module(of), last)) if not name.startswith("_")]
    found = import_module(module)
    listed = {name for name in dir(found) if _is_own(module, vars(found).get(name))}
    listed |= set(getattr(found, "__all__", ()))
    return sorted(name for name in listed if not name.startswith("_"))


def _is_own(module: str, value: object) -> bool:
    if isinstance(value, ModuleType):
        return False
    if callable(value):
        home = str(getattr(value, "__module__", "") or module)
        return home.startswith((module, "torch._C"))
    return type(value).__module__.startswith(module.partition(".")[0])


def text() -> str:
    version = torch.__version__.partition("+")[0]
    lines = [
        f"# Frozen from PyTorch {version} and NumPy {numpy.__version__} "
        "by `python -m tests.oracle.freeze_names`."
    ]
    for library, places in MODULES.items():
        lines += [f"{library}{place}: {' '.join(public(library + place))}" for place in places]
    return "\n".join(lines) + "\n"


def of_programs() -> str:
    """Return the text of `tests/as_torch/names.txt`."""
    names = [f"torch.{place}" for place in OF_PROGRAMS]
    return "".join([f"{name}: {' '.join(public(name))}\n" for name in names])


if __name__ == "__main__":
    NAMES.write_text(text(), encoding="utf-8")
    PROGRAMS.write_text(of_programs(), encoding="utf-8")
