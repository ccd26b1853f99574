"""Check the test times of each folder against budgets: `python -m tests.budgets TIMES [--write]`.

`pytest --times=TIMES` writes TIMES. The budgets in tests/budgets.toml are multiples of a loop in
harness/times.py, so that they hold on any machine. Times are divided by the median over all folders
of time / budget, in case the machine was slower during the run than during the loop. A folder that
takes more than twice its budget, by a noticeable time, fails this check. No test depends on a
clock. --write makes the measured times the new budgets of the tier. Write them from a run without
cached kernels: the emulator then compiles each kernel once.
"""

from __future__ import annotations

import json
import statistics
import sys
import tomllib
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".toml")
# A folder may take twice its budget, because on a busy machine compilers and threads slow down more
# than Python. Folders that take fewer seconds than the second number are not used to estimate the
# machine's speed.
SLACK, NOISE_S = 2.0, 2.0
# The share of the tier's budget by which a folder may exceed its own. If several processes run the
# tests, the folder that first needs a kernel compiles it. This share is more than the kernels of
# one folder cost.
CHANCE = 0.03


def judge(times: dict[str, Any], budgets: dict[str, float]) -> tuple[list[str], list[str]]:
    """Return the lines of the table, and sentences about exceeded budgets."""
    used = [
        seconds / budgets[name]
        for name, (seconds, _) in times["folders"].items()
        if budgets.get(name) and seconds > NOISE_S
    ]
    loop_s = max(times["reference_s"], statistics.median(used or [0.0]))
    whole = sum(seconds for seconds, _ in times["folders"].values())
    allowed_s = sum(budgets.get(name, 0.0) for name in times["folders"]) * loop_s
    lines = [f"{'folder':40} {'tests':>6} {'CPU s':>7} {'share':>6} {'budget':>7}  used"]
    wrong = []
    for name, (seconds, tests) in sorted(times["folders"].items(), key=lambda f: -f[1][0]):
        budget_s = budgets.get(name, 0.0) * loop_s
        exceeds = seconds > SLACK * budget_s and seconds - budget_s > max(
            NOISE_S, CHANCE * allowed_s
        )
        lines.append(
            f"{name:40} {tests:6} {seconds:7.1f} {seconds / whole:6.1%} {budget_s:7.1f}  "
            f"{f'{seconds / budget_s:.0%}' if budget_s else '-'}{' EXCEEDED' if exceeds else ''}"
        )
        if exceeds:
            wrong.append(f"{name} took {seconds:.1f} s, and its budget here is {budget_s:.1f} s")
    lines.append(
        f"{'all':40} {sum(n for _, n in times['folders'].values()):6} {whole:7.1f} {1:6.0%} "
        f"{allowed_s:7.1f}  (the loop took {loop_s * 1e3:.0f} ms)"
    )
    return lines, wrong


def written(tier: str, times: dict[str, Any], others: dict[str, Any]) -> str:
    """Return the text of budgets.toml, with the budgets of one tier replaced by the measured
    times."""
    found = {name: s / times["reference_s"] for name, (s, _) in times["folders"].items()}
    text = [f"# In loops of tests/harness/times.py. Written by {FILE.stem}.py; see there.\n"]
    for name, folders in sorted({**others, tier: found}.items()):
        text.append(f"\n[{name}]\n")
        text += [f'"{folder}" = {max(1, round(n))}\n' for folder, n in sorted(folders.items())]
    return "".join(text)


def main(arguments: list[str]) -> int:
    times = json.loads(Path(arguments[0]).read_text())
    budgets = tomllib.loads(FILE.read_text()) if FILE.exists() else {}
    tier = times["tier"]
    if "--write" in arguments:
        FILE.write_text(written(tier, times, budgets))
        return 0
    lines, wrong = judge(times, budgets.get(tier, {}))
    print(f"budgets of the {tier} tier, by folder", *lines, sep="\n")
    for sentence in wrong:
        print(f"budgets: {sentence}; make it faster, or say why in a commit of new budgets")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
