"""`gputensor backend new|check|missing`: write the package of a new device, and test it."""

from __future__ import annotations

from importlib import import_module

from ..output import Arguments

COMMANDS = {
    "new": "write a package for a device: simulated hardware that works; replace it piece by piece",
    "check": "run the op tests on a device: native, fallback, missing or failed, operator by "
    "operator",
    "missing": "run a script on the CPU and rank the operators that a device lacks for it",
}


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        _parser().parse_args(argv)
    status: int = import_module(f"{__name__}.{argv[0]}").main(argv[1:])
    return status


def _parser() -> Arguments:
    """Return the parser for calls without a valid command. It prints help or an error."""
    lines = "; ".join(f"{name}: {text}" for name, text in COMMANDS.items())
    parser = Arguments("backend", f"A device of your own. {lines}.")
    parser.add_argument(
        "command", choices=tuple(COMMANDS), help="see gputensor backend COMMAND --help"
    )
    return parser
