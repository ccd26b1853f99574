"""`gputensor kernel check FILE.cu`: check a user's CUDA C file."""

from __future__ import annotations

from .output import Refusal


def main(argv: list[str]) -> int:
    if not argv or argv[0] not in ("check", "-h", "--help"):
        see = "(see gputensor kernel check --help)"
        raise Refusal(f"there is only check, such as: gputensor kernel check blur.cu {see}")
    from . import kernel_check

    return kernel_check.main(argv[1:] if argv[0] == "check" else ["--help"])
