"""The part of the build that pyproject.toml cannot say: the compiled loops of the CPU.

build_library.py compiles them. Where it cannot, the package installs all the same, without them,
and NumPy's loops run; GPUTENSOR_REQUIRE_LIBRARY=1 makes that a failure.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from packaging.tags import platform_tags  # setuptools brings it along
from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import build_library

NAME = "gputensor.kernels.compiled._library"


def without(reason: str) -> None:
    """Say that the loops are not built, or end the build where they are required."""
    first, _, rest = reason.partition("\n")
    line = f"gputensor: the CPU's loops are not compiled, NumPy's run: {first}"
    if os.environ.get("GPUTENSOR_REQUIRE_LIBRARY") == "1":
        raise SystemExit(f"{line}\n{rest}")
    print(f"{line}\n{rest}".rstrip(), file=sys.stderr)


class BuildLibrary(build_ext):  # type: ignore[misc]  # setuptools has no types
    """Compiles the one extension by build_library.py, which keeps its objects for the next time."""

    def build_extension(self, ext: Any) -> None:
        try:
            build_library.build(Path(self.get_ext_fullpath(ext.name)), print)
        except build_library.BuildError as error:
            without(str(error))
            self.extensions.remove(ext)

    def run(self) -> None:
        for ext in list(self.extensions):
            self.build_extension(ext)


class Wheel(bdist_wheel):  # type: ignore[misc]
    """One wheel for every Python from 3.11 on; a pure one where nothing was compiled."""

    def get_tag(self) -> tuple[str, str, str]:
        if not self.get_finalized_command("build_ext").extensions:
            self.root_is_pure = True
            return "py3", "none", "any"
        python, abi, plain = super().get_tag()
        library = Path(self.get_finalized_command("build_ext").get_ext_fullpath(NAME))
        return python, abi, (library.exists() and manylinux(library)) or plain


def manylinux(library: Path) -> str | None:
    """The wheel's platform by PEP 600: any Linux with a glibc as new as the functions that the
    library names; it needs no other library. None where this Python takes no such wheel."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", library.read_bytes())
    if not versions:
        return None
    major, minor = max((int(a), int(b)) for a, b in versions)
    tag = f"manylinux_{major}_{minor}_{platform.machine()}"
    return tag if tag in platform_tags() else None


def extensions() -> list[Extension]:
    reason = build_library.unavailable_reason()
    if reason:
        without(reason)
        return []
    return [Extension(NAME, sources=[], py_limited_api=True, optional=True)]


if __name__ == "__main__":
    setup(
        ext_modules=extensions(),
        cmdclass={"build_ext": BuildLibrary, "bdist_wheel": Wheel},
        options={
            "bdist_wheel": {"py_limited_api": "cp311"},
            # A .pth file names the checkout: mypy and pyright see nothing behind an import hook.
            "editable_wheel": {"mode": "compat"},
        },
    )
