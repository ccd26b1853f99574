"""The command `gputensor`, also `python -m gputensor`.

It runs a subcommand, whose module `cli/<name>.py` is imported only then. Exit status:
0 fine, 1 a check failed, 2 bad input, 3 device absent.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

COMMANDS = {
    "demo": "a photograph through a model's input layouts: sizes, strides, trace and GB/s",
    "doctor": "what gputensor finds on this machine, with a reason and a remedy for what it misses",
    "ops": "the operators and the files that implement them",
    "trace": "the dispatcher's hops of a line of Python",
    "explain": "how a copy walks memory, when a view is possible, which kernel a call reaches",
    "cache": "compiled kernels on disk: warm, list, clear",
    "kernel": "check a CUDA C file of your own without a GPU: compile, run, sanitize, compare",
    "run-as-torch": "run a program of PyTorch's, unchanged",
    "backend": "bring up a device of your own: new, check, missing",
}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand. Return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        from . import __version__

        print(f"gputensor {__version__}")
        return 0
    if argv[0] not in COMMANDS:
        print(
            f"gputensor: no command '{argv[0]}'; there are {', '.join(COMMANDS)}", file=sys.stderr
        )
        return 2
    from .cli.output import Refusal

    try:
        status: int = import_module(f"gputensor.cli.{argv[0].replace('-', '_')}").main(argv[1:])
        sys.stdout.flush()
        return status
    except Refusal as refusal:
        print(f"gputensor {argv[0]}: {refusal}", file=sys.stderr)
        return refusal.status
    # the process that reads our output has ended, as in `gputensor ops | head`
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt as stop:
        if str(stop):  # the text names the kernel that ran when the user pressed Ctrl-C
            print(f"gputensor {argv[0]}: {stop}", file=sys.stderr)
        return 130


def _usage() -> str:
    lines = [f"  {name:12} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        ["usage: gputensor COMMAND [--help]", "", *lines, "",
         "Every command takes --json: the result on stdout for programs, prose on stderr.",
         "Exit status: 0 fine, 1 a check failed, 2 bad input, 3 device absent."]
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
