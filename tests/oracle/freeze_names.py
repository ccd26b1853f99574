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
    accelerator autograd.anomaly_mode autograd.forward_ad autograd.function autograd.functional
    autograd.grad_mode autograd.profiler compiler cpu cuda.amp cuda.graphs cuda.nvtx cuda.random
    cuda.streams distributed distributions.constraints distributions.kl distributions.utils func
    functional futures jit multiprocessing nn.attention nn.common_types nn.modules.module
    nn.modules.utils nn.parallel nn.parameter nn.utils.parametrizations nn.utils.parametrize
    nn.utils.prune nn.utils.rnn nn.utils.stateless optim.optimizer overrides return_types
    serialization storage types utils utils.checkpoint utils.dlpack utils.hooks version
""".split()


def public(module: str) -> list[str]:
    """Names that users may ask for: those listed, and whatever else is the library's own.

    PyTorch leaves many of its names out of `__all__`: functions made of C, and values such as its
    dtypes. What a module imports from another library is not its own, and modules are files.
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
    """The second file."""
    names = [f"torch.{place}" for place in OF_PROGRAMS]
    return "".join([f"{name}: {' '.join(public(name))}\n" for name in names])


if __name__ == "__main__":
    NAMES.write_text(text(), encoding="utf-8")
    PROGRAMS.write_text(of_programs(), encoding="utf-8")
