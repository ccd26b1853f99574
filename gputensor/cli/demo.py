"""`gputensor demo`: run `examples/photograph` of a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from .output import Refusal

EXAMPLES = Path(__file__).parents[2] / "examples"


def main(argv: list[str]) -> int:
    if not (EXAMPLES / "photograph" / "demo.py").is_file():
        raise Refusal(
            "the demonstration is an example of the repository, which a wheel does not hold; run "
            "`make demo` in a checkout, or here: gputensor explain copy --sizes 1,64,5,4 --to "
            "channels_last"
        )
    sys.path.insert(0, str(EXAMPLES))
    try:
        status: int = import_module("photograph.demo").main(argv)
    finally:
        sys.path.remove(str(EXAMPLES))
    return status
