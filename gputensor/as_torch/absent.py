"""Placeholders for PyTorch's names that gputensor leaves out."""

from __future__ import annotations

from typing import Any

PAGE = "docs/programs.md"


class _AbsentType(type):
    """Metaclass of placeholders. Programs can derive from such a class and pass it to
    isinstance."""

    why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{cls.__qualname__}: {cls.why} (see {PAGE})")

    def __getitem__(cls, item: Any) -> Any:
        return cls  # for annotations such as `Future[Tensor]`

    def __iter__(cls) -> Any:  # iteration through __getitem__ would not end
        return cls()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__qualname__}.{name}", cls.why)


def Absent(name: str, why: str) -> Any:
    """Make a class for imports, subclasses and isinstance. A call of the class raises `why`."""
    short = name.rpartition(".")[2]
    return _AbsentType(short, (), {"why": why, "__qualname__": name, "__module__": "torch"})
