"""What stands under a name of PyTorch's that is left out."""

from __future__ import annotations

from typing import Any

PAGE = "docs/programs.md"


class _AbsentType(type):
    """The type of what is not here: a class to derive from and to ask isinstance of."""

    why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{cls.__qualname__}: {cls.why} (see {PAGE})")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__qualname__}.{name}", cls.why)


def Absent(name: str, why: str) -> Any:
    """What can be imported, derived from and asked isinstance of, and refuses to be called."""
    short = name.rpartition(".")[2]
    return _AbsentType(short, (), {"why": why, "__qualname__": name, "__module__": "torch"})
