"""`python -m codegen --stats`: how many lines are generated for an overload, and of which kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from . import paths
from .model import Model

# Lines of generated text for an overload, stubs and all.
BUDGET = 36


def counted(texts: dict[Path, str]) -> dict[tuple[str, str], int]:
    """(kind, family or "") -> lines of what is generated within the package."""
    found: Counter[tuple[str, str]] = Counter()
    for path, text in texts.items():
        if paths.GENERATED in path.parents:
            kind = path.parent.name if path.parent != paths.GENERATED else path.name
            family = path.stem if path.parent != paths.GENERATED and path.stem[0] != "_" else ""
            found[kind, family] += text.count("\n")
    return dict(found)


def print_lines(model: Model, texts: dict[Path, str]) -> int:
    """Print a table of kinds and one of families. Exit code 1 where the budget is exceeded."""
    lines, overloads = counted(texts), len(model.ops)
    for title, keys in (("kind", [k for k, _ in lines]), ("family", model.families())):
        print(f"{title:<16}{'lines':>7}{'overloads':>11}{'each':>7}")
        for name in dict.fromkeys(keys):
            n = sum(count for key, count in lines.items() if name == key[title == "family"])
            ops = overloads
            if title == "family":
                ops = sum(op.family == name for op in model.ops)
            print(f"{name:<16}{n:>7}{ops:>11}{n / ops:>7.1f}")
        print()
    total = sum(lines.values())
    print(f"{'all':<16}{total:>7}{overloads:>11}{total / overloads:>7.1f}, budget {BUDGET}")
    return 1 if total > BUDGET * overloads else 0
