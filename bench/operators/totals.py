"""Summary of the benchmark `operators`: totals by family, budgets, tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..measurement import timing
from ..records import tables

# PyTorch's time / ours, as a geometric mean: the budget and the goal.
GEOMEAN, STRETCH = 1.0, 1.3
# At most the fraction SLOW_SHARE of the calls may have a ratio below SLOW.
SLOW, SLOW_SHARE = 0.7, 0.10
# No call may have a ratio below LEAST; for LAPACK and Fourier transforms the bound is lower.
LEAST, LEAST_LENIENT, LENIENT = 0.5, 0.3, ("linalg", "fft")
_WORST = 12  # number of calls that the brief report lists

Cases = list[dict[str, Any]]


# --- totals ---------------------------------------------------------------------------------------


def summary(data: dict[str, Any]) -> dict[str, Any]:
    """Return the totals of all calls, and the totals by family and by capability."""
    found = _totals(data["cases"], data["peers"])
    found["by_family"] = {
        family: _totals(of, data["peers"]) for family, of in families(data).items()
    }
    if "capabilities" in data:
        found["by_capability"] = {
            name: _totals(_at(data["cases"], name), data["peers"]) for name in data["capabilities"]
        }
    return found


def families(data: dict[str, Any]) -> dict[str, Cases]:
    found: dict[str, Cases] = {}
    for case in data["cases"]:
        found.setdefault(case["kind"], []).append(case)
    return found


def _at(cases: Cases, capability: str) -> Cases:
    """Return the cases with their ratios at one capability."""
    return [
        case | {"ratio": case["by_capability"][capability]["ratio"]}
        for case in cases if capability in case["by_capability"]
    ]  # fmt: skip


def _totals(cases: Cases, peers: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"cases": len(cases)}
    for peer in peers:
        ratios = [case["ratio"][peer] for case in cases if peer in case["ratio"]]
        if ratios:
            found[f"geomean_vs_{peer}"] = timing.geomean(ratios)
            found[f"worst_vs_{peer}"] = min(ratios)
    ratios = [case["ratio"]["torch"] for case in cases if "torch" in case["ratio"]]
    found["below_slow"] = sum(ratio < SLOW for ratio in ratios)
    found["below_least"] = sum(ratio < LEAST for ratio in ratios)
    return found


# --- budgets --------------------------------------------------------------------------------------


def budgets(data: dict[str, Any]) -> list[tuple[bool, str]]:
    """Return (True if the budget is met, a sentence) for each budget."""
    cases = [case for case in data["cases"] if "torch" in case["ratio"]]
    if not cases:
        return []
    total = data["summary"]
    mean, slow = total["geomean_vs_torch"], total["below_slow"]
    beneath = [case for case in cases if case["ratio"]["torch"] < least(case)]
    worst = min(cases, key=lambda case: float(case["ratio"]["torch"]) / least(case))
    return [
        (
            mean >= GEOMEAN,
            f"the geometric mean is {mean:.2f} times PyTorch's speed (budget: at least {GEOMEAN})",
        ),
        (
            slow <= SLOW_SHARE * len(cases),
            f"{slow} of {len(cases)} calls are below {SLOW} (budget: at most {SLOW_SHARE:.0%})",
        ),
        (
            not beneath,
            f"{len(beneath)} of {len(cases)} calls are below {LEAST}, or {LEAST_LENIENT} of "
            f"{' and '.join(LENIENT)} (budget: none); the lowest is {worst['name']} with "
            f"{worst['ratio']['torch']:.2f}",
        ),
    ]


def least(case: dict[str, Any]) -> float:
    """Return the lowest ratio that is allowed for a call."""
    return LEAST_LENIENT if case["kind"] in LENIENT else LEAST


def failures(data: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the data misses."""
    return [sentence for is_met, sentence in budgets(data) if not is_met]


# --- tables ---------------------------------------------------------------------------------------


def report(data: dict[str, Any]) -> str:
    """Return the brief report, a table of every call, and notes."""
    parts = [brief(data), _every_call(data), _notes(data)]
    return "\n\n".join(part for part in parts if part)


def brief(data: dict[str, Any]) -> str:
    """Return a table with a line for each family, the budgets, and the worst calls."""
    others = [name for name in data.get("capabilities", {}) if name != _main(data)]
    columns = _columns(data, others)
    head = ["calls", "cases", *(title for title, _ in columns)]
    rows = [
        [family, str(len(of)), *(cell(of) for _, cell in columns)]
        for family, of in families(data).items()
    ]
    if data["cases"]:
        cells = [str(len(data["cases"])), *(cell(data["cases"]) for _, cell in columns)]
        rows.append([f"**{cell}**" for cell in ("all", *cells)])
    found = [tables.table(head, rows, left=1)]
    lines = [f"{'met' if is_met else 'missed'}: {text}" for is_met, text in budgets(data)]
    if lines:
        mean = data["summary"]["geomean_vs_torch"]
        reached = "reached" if mean >= STRETCH else "not reached"
        lines.append(f"{reached}: {STRETCH} times PyTorch's speed, the aim beyond the budgets")
        found.append("Budgets:\n\n" + "\n".join(f"- {line}" for line in lines))
    worst = sorted(
        (case for case in data["cases"] if "torch" in case["ratio"]),
        key=lambda case: float(case["ratio"]["torch"]),
    )[:_WORST]
    if worst:
        named = "; ".join(
            f"{case['kind']}: {case['name']} {case['ratio']['torch']:.2f}" for case in worst
        )
        found.append(f"The worst, beside PyTorch: {named}.")
    return "\n\n".join(found)


def _main(data: dict[str, Any]) -> str:
    """Return the highest CPU capability that was measured. The record's main figures were measured
    at this capability."""
    return str([*data.get("capabilities", [data["capability"]])][-1])


Column = tuple[str, Callable[[Cases], str]]


def _columns(data: dict[str, Any], others: list[str]) -> list[Column]:
    def geomean(peer: str) -> Callable[[Cases], str]:
        return lambda of: _cell(of, peer, timing.geomean)

    def at(name: str) -> Callable[[Cases], str]:
        return lambda of: _cell(_at(of, name), "torch", timing.geomean)

    def below(limit: float) -> Callable[[Cases], str]:
        return lambda of: str(sum(case["ratio"].get("torch", 1.0) < limit for case in of))

    found: list[Column] = []
    if "torch" in data["peers"]:
        title = f"{_main(data)}: × PyTorch" if others else "× PyTorch"
        found += [
            (title, geomean("torch")),
            ("worst", lambda of: _cell(of, "torch", min)),
            (f"below {SLOW}", below(SLOW)),
            (f"below {LEAST}", below(LEAST)),
        ]
        found += [(f"{name}: × PyTorch", at(name)) for name in reversed(others)]
    found += [
        (f"× {tables.NAMES[peer]}", geomean(peer)) for peer in data["peers"] if peer != "torch"
    ]
    return found


def _cell(of: Cases, peer: str, total: Callable[[list[float]], float]) -> str:
    ratios = [case["ratio"][peer] for case in of if peer in case["ratio"]]
    return f"{total(ratios):.2f}" if ratios else tables.NO_FIGURE


def _every_call(data: dict[str, Any]) -> str:
    shown = data["peers"]
    head = [
        "case", "call", "µs", *(f"{tables.NAMES[peer]} µs" for peer in shown),
        *(f"× {tables.NAMES[peer]}" for peer in shown),
    ]  # fmt: skip
    parts = []
    for family, of in families(data).items():
        rows = [
            [
                case["name"], f"`{case['call'].replace('|', chr(92) + '|')}`",
                *(_us(case, name) for name in ("gputensor", *shown)),
                *(_cell([case], peer, min) for peer in shown),
            ]
            for case in of
        ]  # fmt: skip
        parts.append(f"**{family}**\n\n{tables.table(head, rows, left=2)}")
    return "\n\n".join(parts)


def _us(case: dict[str, Any], library: str) -> str:
    ns = case["ns"].get(library)
    if ns is None:
        return tables.NO_FIGURE
    return f"{ns / 1000:.1f}" if ns < 1e5 else f"{ns / 1000:,.0f}"


def _notes(data: dict[str, Any]) -> str:
    lines = [
        f"{data['threads']} threads for each library; × is how many times as long the peer takes. "
        "Every result was compared with PyTorch's before it was timed."
    ]
    single = sum(case["torch_threads"] == 1 for case in data["cases"])
    if single:
        lines.append(f"PyTorch had one thread in {single} short calls, where it is faster so.")
    at = data.get("capabilities", {data["capability"]: data["capability"]})
    for name, got in at.items():
        if name == got:
            lines.append(f"CPU capability {name}; PyTorch keeps its own.")
        else:
            lines.append(f"CPU capability {name} was asked for, gputensor took {got}.")
    lines += [f"No figures: {name} ({why})." for name, why in data["failed"].items()]
    lines += [f"Skipped: {tables.NAMES[p]} ({why})." for p, why in data["skipped"].items()]
    return "\n".join(f"- {line}" for line in lines)
