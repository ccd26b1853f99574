"""Support for unchanged PyTorch programs: after `install()`, `import torch` imports gputensor.

`gputensor run-as-torch script.py` calls `install` and then runs the script. places.py maps
PyTorch's modules to ours, stand_ins.py has replacements for names without a meaning in gputensor,
and finder.py is the import hook. docs/usage/programs.md lists what runs.
"""

from __future__ import annotations

import sys
from multiprocessing import spawn
from typing import Any

import numpy as np

from ..core import dtype as dtypes, errors
from ..core.device import device
from ..core.geometry import Size
from ..dispatch import refusal
from ..exchange.numpy.bridge import from_numpy
from ..nn import init
from ..tensor import base
from ..tensor.tensor import Tensor
from .finder import Finder
from .overrides import OF_INIT

__all__ = ["install", "is_installed", "uninstall"]

_finder = Finder()
_get_preparation_data = spawn.get_preparation_data
# The `__module__` of these types must be PyTorch's, because packages read the module of a tensor's
# type.
_TYPES = {kind: kind.__module__ for kind in (Tensor, Size, dtypes.dtype, device)}
# PyTorch's tensors do not have this method, so in its programs NumPy's functions, such as
# np.concatenate, return arrays. Functions that are also methods of arrays, such as np.transpose,
# call `__array_wrap__` and return tensors.
_array_function = vars(Tensor)["__array_function__"]


def _tensor(*args: Any, **kwargs: Any) -> Any:
    from .legacy_types import tensor

    return tensor(*args, **kwargs)


def _override(function: Any, given: Any) -> Any:
    from .overrides import override

    return override(function, given)


def _overridable() -> Any:
    from .overrides.subclasses import Overridable

    return Overridable


def _torch_function(cls: type, *args: Any, **kwargs: Any) -> Any:
    from .overrides import default

    return default(cls, *args, **kwargs)


def _array_wrap(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    return from_numpy(np.asarray(array))


def is_installed() -> bool:
    """Return True between `install` and `uninstall`."""
    return _finder in sys.meta_path


class _Again:
    """Object that calls `install` when it is unpickled. If `multiprocessing` starts a process with
    a new interpreter, the process unpickles this object before it imports the program's module."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return install, ()


def _prepared(name: str) -> dict[str, Any]:
    """Return the data that `multiprocessing` passes to a new process, plus an `_Again`."""
    return {"gputensor": _Again(), **_get_preparation_data(name)}


def install() -> None:
    """Make `import torch` import gputensor in this process, until `uninstall`.

    Raises: DispatchError if PyTorch itself is already imported.
    """
    if is_installed():
        return
    if "torch" in sys.modules:
        rule = "be called before PyTorch is imported"
        raise errors.must(
            "as_torch", "install", rule, errors.Got("'torch' among the loaded modules")
        )
    sys.meta_path.insert(0, _finder)
    base.called.append(_tensor)
    base.overridable.append(_overridable)
    refusal.overriding.append(_override)
    type.__setattr__(Tensor, "__torch_function__", classmethod(_torch_function))
    type.__delattr__(Tensor, "__array_function__")
    type.__setattr__(Tensor, "__array_wrap__", _array_wrap)
    spawn.get_preparation_data = _prepared
    dtypes.package_name = "torch"
    for kind in _TYPES:
        type.__setattr__(kind, "__module__", "torch")
    for function in OF_INIT:
        function.__module__ = "torch.nn.init"  # handlers of modes read `__module__`


def uninstall() -> None:
    """Undo `install` and remove the `torch` modules. Objects that were imported earlier remain
    usable."""
    if not is_installed():
        return
    sys.meta_path.remove(_finder)
    base.called.clear()
    base.overridable.clear()
    refusal.overriding.clear()
    type.__delattr__(Tensor, "__torch_function__")
    type.__setattr__(Tensor, "__array_function__", _array_function)
    type.__delattr__(Tensor, "__array_wrap__")
    spawn.get_preparation_data = _get_preparation_data
    dtypes.package_name = "gputensor"
    for kind, module in _TYPES.items():
        type.__setattr__(kind, "__module__", module)
    for function in OF_INIT:
        function.__module__ = init.__name__
    for name in [n for n in sys.modules if n.partition(".")[0] in ("torch", "functorch")]:
        del sys.modules[name]
