"""The results of a replay as text."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from . import gradients, ratchet, replay
from .cases import Case


def check(case: Case, device: str = "cpu") -> tuple[str, str]:
    """Return (kind, reason) for a call of an overload, or of a public function with its
    gradients."""
    return (replay.leaf if case.gradients is None else gradients.check)(case, device)


def options(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(name)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="overloads or op_db's operators")
    parser.add_argument("--core", action="store_true", help="Core ATen alone")
    parser.add_argument("--device", default="cpu", help="such as cuda, which may be emulated")
    parser.add_argument("--gradients", action="store_true", help="public functions")
    parser.add_argument("--all", action="store_true", help="also those that agree")
    parser.add_argument("--details", action="store_true", help="every case that does not agree")
    parser.add_argument("--raise", dest="rise", action="store_true", help="raise the ratchet")
    return parser


def run(cases: list[Case], arguments: Any, of: str, dtype: str, bar: Callable[..., Any]) -> None:
    """Replay the requested cases, print the outcome, and increase the counts if requested."""
    chosen = [case for case in cases if _is_chosen(case, arguments)]
    found = replay.verdicts(bar(chosen, lambda case: case.op), check, arguments.device)
    print(f"--- {of} {dtype}".rstrip())
    for name in sorted(found):
        verdict = found[name]
        if verdict.kind != replay.AGREES or arguments.all or arguments.only:
            print(verdict.line())
        if arguments.details and verdict.kind != replay.MISSING:
            for _, why, case in verdict.others:
                print(f"    {why}\n        {case.key()[:400]}")
    every = ratchet.counts(found.values()).items()
    print(", ".join(f"{part}: {agreed} of {whole} agree" for part, (agreed, whole) in every))
    if arguments.rise and not (arguments.only or arguments.core or arguments.device != "cpu"):
        ratchet.rise(of, dtype, found.values())


def _is_chosen(case: Case, arguments: Any) -> bool:
    if arguments.core and not case.is_core:
        return False
    names = {case.op, case.op.partition(".")[0], case.of, case.of.rpartition(".")[2]}
    return not arguments.only or bool(names & set(arguments.only))
