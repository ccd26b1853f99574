"""Small C libraries that tests build: replacements of system calls, reads of registers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import build_library


def built(text: str, folder: Path) -> Path:
    """Build a shared library from C text and return its path. Skip the test without a compiler, or
    under a sanitizer, which is loaded before the program and has functions of its own."""
    if "LD_PRELOAD" in os.environ:
        pytest.skip("a sanitizer is loaded")
    source, made = folder / "shim.c", folder / "shim.so"
    source.write_text(text)
    command = [build_library.compiler()[0], "-x", "c", "-O2", "-fPIC", "-shared"]
    try:
        subprocess.run([*command, str(source), "-o", str(made)], check=True)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return made
