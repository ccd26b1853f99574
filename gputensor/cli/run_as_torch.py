"""`gputensor run-as-torch script.py ...`: run a PyTorch program with gputensor in place of
torch."""

from __future__ import annotations

import os
import runpy
import sys
from importlib import import_module

from .output import Refusal

USAGE = """usage: gputensor run-as-torch SCRIPT [ARGUMENT ...]
       gputensor run-as-torch -m MODULE [ARGUMENT ...]

Runs a program as Python does, with gputensor in the place of PyTorch. See docs/usage/programs.md.
Unlike other commands it has no option --json: all output is the program's."""


def main(argv: list[str]) -> int:
    """Run the script as `__main__`, then exit with its status."""
    if not argv or argv[0] in ("-h", "--help"):
        print(USAGE)
        raise SystemExit(0 if argv else 2)
    import_module("gputensor.as_torch").install()
    if argv[0] == "-m":
        if len(argv) < 2:
            raise Refusal("a module must follow -m")
        sys.argv = argv[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return 0
    if not os.path.isfile(argv[0]):
        raise Refusal(f"there is no file {argv[0]!r}")
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    runpy.run_path(argv[0], run_name="__main__")
    return 0
