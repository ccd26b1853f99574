"""Layouts of tensors in memory: strided is the only one."""

from __future__ import annotations


class layout:  # noqa: N801 - PyTorch's spelling
    """How a tensor keeps its elements."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"gputensor.{self.name}"

    def __reduce__(self) -> str:
        return self.name


strided = layout("strided")
