"""`python -m codegen` writes the generated files; `--check` only compares them with the files on
disk; `where OP` prints an operator's source lines."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from . import check_kernels, generate, load, paths, stats
from .entry import EntryError
from .model import Model


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 on any difference"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit 1 if a promised kernel is missing"
    )
    parser.add_argument(
        "--stats", action="store_true", help="print the lines for an overload; exit 1 over budget"
    )
    commands = parser.add_subparsers(dest="command")
    where_parser = commands.add_parser("where", help="list the places of an operator")
    where_parser.add_argument("operator", help="a name, `add` or `add.Tensor`")
    given = parser.parse_args(arguments)
    try:
        model = load.load()
    except EntryError as error:
        print(error, file=sys.stderr)
        return 1
    if given.command == "where":
        from . import where

        return where.print_places(model, given.operator)
    if given.stats:
        return stats.print_lines(model)
    problems = _compare(model) if given.check else _write(model)
    return max(problems, _kernels(model, given.check or given.strict))


def _write(model: Model) -> int:
    texts = generate.files(model)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {paths.shown(path)}")
    for path in _stale(texts):
        path.unlink()
        print(f"removed {paths.shown(path)}")
    return 0


def _compare(model: Model) -> int:
    texts = generate.files(model)
    texts |= dict.fromkeys(_stale(texts), "")
    code = 0
    for path, text in texts.items():
        written = path.read_text(encoding="utf-8") if path.exists() else ""
        if written != text:
            code = 1
            name = paths.shown(path)
            diff = difflib.unified_diff(
                written.splitlines(True), text.splitlines(True), f"a/{name}", f"b/{name}"
            )
            sys.stdout.writelines(diff)
    return code


def _stale(texts: dict[Path, str]) -> list[Path]:
    """Return the files in folders `_generated` that the generator no longer writes."""
    return sorted(
        path
        for path in paths.PACKAGE.rglob(f"{paths.GENERATED.name}/**/*.*")
        if path not in texts and path.suffix in (".py", ".pyi", ".h")
    )


def _kernels(model: Model, is_error: bool) -> int:
    problems = check_kernels.missing(model)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems and is_error else 0


if __name__ == "__main__":
    sys.exit(main())
