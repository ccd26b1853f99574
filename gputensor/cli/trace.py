"""`gputensor trace CODE`: run a line of Python, and print the dispatcher's hops in PyTorch's
format or draw them."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.dispatch.tracing import Hop, trace

from .output import FINE, Arguments, Refusal, here, print_json, write_pictures

# A picture with more hops would not be readable.
_MOST_HOPS = 100


def main(argv: list[str]) -> int:
    what = "The dispatcher's hops of a line of Python; `gt` and `np` are imported."
    parser = Arguments("trace", what)
    parser.add_argument("code", help="such as: gt.rand(2, 3).t().contiguous()")
    parser.add_argument(
        "--level", choices=("1", "2"), default="1",
        help="2 adds each argument's keys and the reasons",
    )  # fmt: skip
    parser.add_argument(
        "--setup", default="", metavar="CODE", help="Python to run before, untraced"
    )
    parser.add_pictures()
    arguments = parser.parse_args(argv)
    names = {"gt": gt, "np": np}
    run(arguments.setup, "--setup", names)
    with (tracing := trace(level=2)):
        result = run(arguments.code, "code", names)
    lines = [line for hop in tracing.hops for line in hop.lines(int(arguments.level))]
    text = None if result is None else repr(result)
    hops = described(tracing.hops)
    drawn(arguments, arguments.code, [], hops)
    if arguments.json:
        print_json({"code": arguments.code, "trace": lines, "hops": hops, "result": text})
    else:
        print("\n".join(lines) or "no operator was called")
        if text is not None:
            print(f"\n{text}")
    return FINE


def described(hops: list[Hop]) -> list[dict[str, Any]]:
    """Return the hops as dicts."""
    found = [hop.to_dict() for hop in hops]
    for slot in (slot for hop in found for slot in hop["slots"]):
        slot["site"] = here(slot["site"])
    return found


def drawn(arguments: Any, title: str, lines: list[str], hops: list[dict[str, Any]]) -> None:
    """Draw the requested pictures of a call's path."""
    if arguments.svg is None and arguments.html is None:
        return
    if len(hops) > _MOST_HOPS:
        raise Refusal(
            f"'--svg' and '--html' must be of at most {_MOST_HOPS} hops (got {len(hops)}); "
            "trace less of it"
        )
    from .pictures import call

    write_pictures(arguments, "The way of a call", call.draw(title, lines, hops), call.steps(hops))


def run(code: str, argument: str, names: dict[str, Any]) -> Any:
    """Execute statements. Return the value of the last one if it is an expression."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError) as error:  # ValueError: characters that cannot be encoded
        why = getattr(error, "msg", error)
        raise Refusal(f"'{argument}' must be Python (got {code!r}: {why})") from None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    try:
        exec(compile(tree, f"<{argument}>", "exec"), names)
        if isinstance(last, ast.Expr):
            return eval(compile(ast.Expression(last.value), f"<{argument}>", "eval"), names)
    except Exception as error:  # the user's code may raise anything
        raise Refusal(f"'{argument}' raised {type(error).__name__}: {error}") from None
    return None
