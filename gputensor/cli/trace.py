"""`gputensor trace CODE`: the dispatcher's hops of a line of Python, as PyTorch prints them."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.dispatch.trace import trace

from .output import FINE, Arguments, Refusal, print_json


def main(argv: list[str]) -> int:
    parser = Arguments(
        "trace", "The dispatcher's hops of a line of Python; `gt` and `np` are imported."
    )
    parser.add_argument("code", help="such as: gt.rand(2, 3).t().contiguous()")
    parser.add_argument(
        "--level",
        choices=("1", "2"),
        default="1",
        help="2 adds each argument's keys and the reasons",
    )
    parser.add_argument(
        "--setup", default="", metavar="CODE", help="Python to run before, untraced"
    )
    arguments = parser.parse_args(argv)
    names = {"gt": gt, "np": np}
    _run(arguments.setup, "--setup", names)
    with trace(level=int(arguments.level)) as lines:
        result = _run(arguments.code, "code", names)
    text = None if result is None else repr(result)
    if arguments.json:
        print_json({"code": arguments.code, "trace": lines, "result": text})
    else:
        print("\n".join(lines) or "no operator was called")
        if text is not None:
            print(f"\n{text}")
    return FINE


def _run(code: str, argument: str, names: dict[str, Any]) -> Any:
    """Execute statements; returns the value of the last one if it is an expression."""
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        raise Refusal(f"'{argument}' must be Python (got {code!r}: {error.msg})") from None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    try:
        exec(compile(tree, f"<{argument}>", "exec"), names)
        if isinstance(last, ast.Expr):
            return eval(compile(ast.Expression(last.value), f"<{argument}>", "eval"), names)
    except Exception as error:  # the user's code: whatever it raises is its answer
        raise Refusal(f"'{argument}' raised {type(error).__name__}: {error}") from None
    return None
