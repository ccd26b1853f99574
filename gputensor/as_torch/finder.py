"""The import hook for `torch`, and for `functorch`, which PyTorch installs too."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..core.dtype import dtype
from ..core.errors import absent
from .places import Absent, SOURCES
from .stand_ins import STAND_INS, VERSION

_NOTHING = object()
# In our modules, a name that refers to an object of these types is never rebound. So a Facade may
# store the object and need not look up the name again.
_FIXED = (FunctionType, type, dtype)
_OURS = __name__.partition(".")[0]
# Programs iterate over the `__dict__` of these modules, so it must contain all names.
_LISTED = ("torch.distributions", "torch.optim", "torch.optim.lr_scheduler")


class Facade(ModuleType):
    """A module under PyTorch's name. A name is looked up in the replacements of stand_ins.py, then
    in our modules.

    Attributes that programs set are stored in this module, not in ours.
    """

    def __init__(self, name: str, sources: Sequence[str], extras: dict[str, Any]) -> None:
        super().__init__(name, f"gputensor, as {name}.")
        self.__dict__["_sources"] = tuple(sources)
        self.__path__: list[str] = []
        self.__file__ = str(Path(__file__).parents[1] / "__init__.py")
        self.__dict__.update(extras)

    def _own(self, name: str) -> Any:
        """Return our object of this name. Return _NOTHING if there is none, or if it is a
        module."""
        for source in self._sources:
            found = getattr(importlib.import_module(source), name, _NOTHING)
            if found is not _NOTHING and not isinstance(found, ModuleType):
                return found
        return _NOTHING

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and isinstance(found := self._own(name), _FIXED):
            # The assignment reduces the time of later look-ups from 12 us to 0.05 us (Python 3.11).
            self.__dict__[name] = found
            return found
        below = f"{self.__name__}.{name}"
        is_module = below in SOURCES or below in STAND_INS
        if name.startswith("__") and name != "__all__" and not is_module:
            raise AttributeError(name)
        found, is_module = self._own(name), is_module or _has_own(below)
        # A function may have the same name as its module, such as nn.utils.weight_norm.
        if callable(found) or (found is not _NOTHING and not is_module):
            return found
        if is_module:  # in PyTorch, submodules are attributes even if they were not imported
            return importlib.import_module(below)
        if why := absent.why(self.__name__, name):
            return Absent(below.removeprefix("torch."), why)
        if _is_known(below):
            return importlib.import_module(below)
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r} in gputensor "
            "(docs/usage/programs.md)"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute.

        The import of a submodule does not replace a function of the same name, such as
        torch.multiprocessing.spawn.
        """
        is_module = isinstance(value, Facade)
        if not (is_module and (callable(self.__dict__.get(name)) or callable(self._own(name)))):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        names = (name for source in self._sources for name in dir(importlib.import_module(source)))
        return sorted({name for name in names if not name.startswith("__")} | {*self.__dict__})


def _own(name: str) -> str:
    """Return our module's name for the name of a PyTorch module."""
    return _OURS + name.removeprefix("torch")


def _is_known(name: str) -> bool:
    return name in SOURCES or name in STAND_INS or bool(absent.why(name)) or _has_own(name)


def _has_own(name: str) -> bool:
    """Return True if gputensor has a module at the path of the PyTorch module."""
    try:
        return importlib.util.find_spec(_own(name)) is not None
    except (ImportError, ValueError):
        return False


class Finder(MetaPathFinder, Loader):
    """The import hook. It finds `torch`, `functorch` and their submodules, and reports `torch` as
    an installed distribution."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in ("torch", "functorch"):
            return None
        if not _is_known(fullname):
            raise ModuleNotFoundError(
                f"No module named {fullname!r} in gputensor, which stands for PyTorch here; "
                "docs/usage/programs.md tells what it has",
                name=fullname,
            )
        if fullname.startswith("torch.utils.tensorboard"):
            # PyTorch without the package tensorboard raises this error too, and programs then log
            # in another way.
            raise ModuleNotFoundError(absent.why(fullname), name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        sources = SOURCES.get(spec.name)
        if sources is None:
            sources = (_own(spec.name),) if _has_own(spec.name) else ()
        made = Facade(spec.name, sources, STAND_INS.get(spec.name, {}))
        if spec.name == "torch":
            # PyTorch imports itself, so `torch.torch` exists; annotations use it.
            made.__dict__["torch"] = made
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module's `__dict__` if programs iterate over it. Otherwise names are looked up
        when they are used."""
        if module.__name__ in _LISTED:
            module.__dict__.update({name: getattr(module, name) for name in module.__all__})

    @staticmethod
    def find_distributions(
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterable[Distribution]:
        """Return the distribution of `torch`, because programs read its version."""
        return [_Distribution()] if context.name in (None, "torch") else []


class _Distribution(Distribution):
    """The metadata of `torch` for importlib.metadata."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\n"

    def locate_file(self, path: Any) -> Any:
        return path
