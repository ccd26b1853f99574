"""The demonstration's result as text for a terminal."""

from __future__ import annotations

from typing import Any

from gputensor.cli.layouts import flag_words, walk_cells
from gputensor.cli.output import brackets, heading, table


def text(report: dict[str, Any]) -> str:
    parts = [
        _title(report),
        heading("What each step makes: same numbers, another layout"),
        _layouts(report["steps"]),
        heading(
            "How fast: GB/s, (bytes read + bytes written) / median time, in alternating rounds"
        ),
        _speeds(report),
        heading("What the dispatcher did for as_nchw.contiguous()"),
        "\n".join(report["trace"]),
        heading(
            "How the TensorIterator walks the copies: fastest dimension first, strides in bytes"
        ),
        _walks(report["iterator"]),
        "",
        _verdict(report),
    ]
    return "\n".join(parts)


def _title(report: dict[str, Any]) -> str:
    libraries = ", ".join(f"{x['name']} on {x['device']}" for x in report["libraries"])
    return (
        f"gputensor {report['gputensor']}: {report['image']}\n"
        f"batch {brackets(report['batch'])} uint8; {libraries}; {report['threads']} CPU threads"
    )


def _layouts(steps: list[dict[str, Any]]) -> str:
    rows: list[tuple[str, ...]] = []
    for row in steps:
        code, rest = _two_lines(row["code"])
        sizes, strides = brackets(row["sizes"]), brackets(row["strides"])
        flags = flag_words(row["flags"], row["is_view"])
        rows.append((row["name"], code, row["dtype"], sizes, strides, flags))
        if rest:
            rows.append(("", f"  {rest}", "", "", "", ""))
    return table(("result", "made by", "dtype", "sizes", "strides", "flags"), rows)


def _two_lines(code: str) -> tuple[str, str]:
    """Return code as two lines. Code that is too long for a table is split before the last dot or
    after a bracket. Otherwise the second line is empty."""
    if len(code) <= 34:
        return code, ""
    cut = code.rfind(".", 1) if code.rfind(".", 1) > 0 else code.find("(") + 1
    return code[:cut], code[cut:]


def _speeds(report: dict[str, Any]) -> str:
    names = [x["name"] for x in report["libraries"]]
    if report["is_emulated"]:
        names = []
    rows = []
    for row in report["steps"]:
        if "bytes" not in row:
            continue
        speeds = row["gb_per_s"]
        cells = [row["name"], f"{row['bytes'] / 1e6:.1f}", *(f"{speeds[n]:.2f}" for n in names)]
        if names:
            cells.append(f"{speeds['gputensor'] / speeds['NumPy']:.2f}x")
        differing = [n for n, equal in row["equal"].items() if not equal]
        rows.append([*cells, f"no: {', '.join(differing)}" if differing else "yes"])
    header = ["step", "MB moved", *names, *(["against NumPy"] if names else []), "all equal NumPy"]
    found = table(header, rows, right=range(1, len(header) - 1))
    if report["is_emulated"]:
        found += "\nThe device is emulated: it checks results; its timing means nothing."
    return found


def _walks(walks: list[dict[str, Any]]) -> str:
    rows = [
        (w["copy"], f"{w['dimensions_before']} to {len(w['shape'])}", *walk_cells(w)) for w in walks
    ]
    return table(("copy", "dims", "shape", "out strides", "in strides"), rows)


def _verdict(report: dict[str, Any]) -> str:
    if not report["all_equal"]:
        return "FAILED: results differ, see the column 'all equal NumPy'."
    return (
        f"Every result equals NumPy's bit by bit, and what came back equals the photograph's crop "
        f"pixel by pixel. Before, after and the times: {report['written']}"
    )
