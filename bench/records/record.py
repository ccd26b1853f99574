"""The record of a run: JSON in NVBench's format, with our data under the key `gputensor`.

NVBench's tools (nvbench_compare, plotters) read `devices` and `benchmarks[].states[].summaries[]`.
`report` and `compare` read `gputensor`, which `record.schema.json` specifies.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gputensor.runtime import files

SCHEMA_PATH = Path(__file__).with_name("record.schema.json")
JSON_VERSION = {"major": 1, "minor": 0, "patch": 0, "string": "1.0.0"}
OURS = "gputensor"


class NotARecord(ValueError):
    """Exception for a file that is not a valid record. Its text is the reason."""


def build(data: dict[str, Any], environment: dict[str, Any]) -> dict[str, Any]:
    """Return a record: a benchmark's data and environment in NVBench's format."""
    device = None if data["device"] == "cpu" else 0
    timed = [case for case in data["cases"] if "ns" in case]
    libraries = ["gputensor", *data.get("peers", ())]
    states = [_state(case, library, device) for case in timed for library in libraries]
    return {
        "meta": {"argv": environment["argv"], "version": {"json": JSON_VERSION}},
        "devices": [] if device is None else [_device(environment)],
        "benchmarks": [
            {
                "name": data["benchmark"], "index": 0, "devices": [] if device is None else [0],
                "axes": [
                    _axis("Case", [case["name"] for case in timed]),
                    _axis("Library", libraries),
                ],
                "states": states,
            }
        ],
        OURS: data | {"environment": environment, "schema": SCHEMA_PATH.name},
    }  # fmt: skip


def _device(environment: dict[str, Any]) -> dict[str, Any]:
    gpu = environment["gpu"]
    major, minor = gpu["capability"]
    return {"id": 0, "name": gpu["name"], "sm_version": 100 * major + 10 * minor}


def _axis(name: str, values: list[str]) -> dict[str, Any]:
    return {
        "name": name, "type": "string", "flags": "",
        "values": [{"input_string": v, "description": "", "value": v} for v in values],
    }  # fmt: skip


def _state(case: dict[str, Any], library: str, device: int | None) -> dict[str, Any]:
    axes = [("Case", case["name"]), ("Library", library)]
    state: dict[str, Any] = {
        "name": " ".join(f"{name}={value}" for name, value in axes), "device": device,
        "axis_values": [{"name": n, "type": "string", "value": v} for n, v in axes],
        "is_skipped": library not in case["ns"], "summaries": [],
    }  # fmt: skip
    if state["is_skipped"]:
        state["skip_reason"] = case.get("skipped", {}).get(library, "not measured")
        return state
    where = "gpu" if device is not None else "cpu"
    seconds = case["ns"][library] / 1e9
    figures = [(f"nv/cold/time/{where}/median", "Median Time", "duration", seconds)]
    if "quartiles_ns" in case:
        low, high = case["quartiles_ns"][library]
        spread = (high - low) / case["ns"][library]
        figures.append((f"nv/cold/time/{where}/ir/relative", "Noise", "percentage", spread))
    if "bytes" in case:
        rate = case["bytes"] / seconds
        figures.append(("nv/cold/bw/global/bytes_per_second", "GlobalMem BW", "byte_rate", rate))
    state["summaries"] = [
        {
            "tag": tag, "name": name, "hint": hint,
            "data": [{"name": "value", "type": "float64", "value": repr(float(value))}],
        }
        for tag, name, hint, value in figures
    ]  # fmt: skip
    return state


def stem(data: dict[str, Any]) -> str:
    """Return the name of a record's files without a file name extension, such as `layout-cpu`."""
    return f"{data['benchmark']}-{data['device'].partition(':')[0]}"


def write(record: dict[str, Any], path: Path) -> None:
    check(record)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(path, json.dumps(record, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """Return the part of a record under the key `gputensor`. Raises: NotARecord if the file is not
    a valid record."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise NotARecord(f"{path}: {error}") from None
    check(record)
    ours: dict[str, Any] = record[OURS]
    return ours


# --- parts ----------------------------------------------------------------------------------------


_PARTIAL = "the whole benchmark"
# Fields of the environment, and of the GPU in it, that must be equal in all parts of a record.
_SAME = (
    "cpu",
    "cpus",
    "system",
    "python",
    "python_build",
    "kernels",
    "commit",
    "versions",
    "image",
    "device",
    "settings",
)
_SAME_GPU = ("name", "emulated", "driver_version", "cuda_runtime", "nvrtc", "power_limit_w", "ecc")


def lacking(data: dict[str, Any], benchmark: Any) -> list[str]:
    """Return the conditions for publication that the data do not meet."""
    found = []
    count = getattr(benchmark, "COUNT", data.get("count", len(data["cases"])))
    count -= len(data.get("refused", ()))
    if len(data["cases"]) < count:
        found.append(f"{_PARTIAL} (it has {len(data['cases'])} of {count} cases)")
    if data.get("failed"):
        found.append(f"right results everywhere ({len(data['failed'])} cases failed)")
    if hasattr(benchmark, "impossible") and benchmark.impossible(data):
        found.append("figures that memory allows")
    return found


def not_mergeable(parts: list[dict[str, Any]]) -> list[str]:
    """Return the reasons why parts must not be merged: their benchmark, machine, versions or commit
    differ."""

    def facts(part: dict[str, Any]) -> dict[str, Any]:
        around = part["environment"]
        gpu = around.get("gpu", {})
        return {
            "benchmark": part["benchmark"], **{n: around.get(n) for n in _SAME},
            **{f"gpu {n}": gpu.get(n) for n in _SAME_GPU},
        }  # fmt: skip

    first, *others = map(facts, parts)
    reasons = [
        f"{name} differs ({first[name]}, {other[name]})"
        for other in others for name in first if first[name] != other[name]
    ]  # fmt: skip
    if len(parts) > 1 and any("number" not in case for part in parts for case in part["cases"]):
        reasons.append(f"{parts[0]['benchmark']} has no numbered cases")
    return reasons


def merged(parts: list[dict[str, Any]], benchmark: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (data, environment) merged from all parts. If several parts contain a case, the latest
    measurement is used."""
    parts = sorted(parts, key=lambda part: part["environment"]["time"])
    first = parts[0]
    data = {n: v for n, v in first.items() if n not in ("environment", "schema")}
    data["peers"] = list(dict.fromkeys(peer for part in parts for peer in part["peers"]))
    cases = {case["number"]: case for part in parts for case in part["cases"]}
    data["cases"] = [cases[number] for number in sorted(cases)]
    done = {case["name"] for case in data["cases"]}
    failed = {name: why for part in parts for name, why in part.get("failed", {}).items()}
    data["failed"] = {name: why for name, why in failed.items() if name not in done}
    if "refused" in first:
        refused = {number for part in parts for number in part["refused"]}
        data["refused"] = sorted(refused - cases.keys())
        for what in ("too_long", "not_here"):
            data[what] = {name: x for part in parts for name, x in part[what].items()}
    data["summary"] = benchmark.summary(data)
    own = [f"{_PARTIAL} (", "right results everywhere (", "figures that memory allows"]
    missing = dict.fromkeys(
        what for part in parts for what in part["environment"]["missing"]
        if not what.startswith(tuple(own))
    )  # fmt: skip
    around = first["environment"] | {
        "missing": [*missing, *lacking(data, benchmark)],
        "parts": [
            {n: part["environment"][n] for n in ("time", "argv", "busy_cpus")} for part in parts
        ],
    }
    return data, around


# --- the schema -----------------------------------------------------------------------------------


def check(record: Any) -> None:
    """Raise NotARecord if the record violates the schema. The error message names the first
    violation."""
    schema = json.loads(SCHEMA_PATH.read_text())
    wrong = _wrong(record, schema, schema, "record")
    if wrong:
        raise NotARecord(wrong)


_TYPES: dict[str, Any] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "null": type(None),
    "integer": int, "number": (int, float),
}  # fmt: skip


def _is_of(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])


def _wrong(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> str | None:
    """Return a description of the first violation of `type`, `enum`, `required`, `properties`,
    `additionalProperties` or `items` of JSON Schema, or None."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(_is_of(value, name) for name in names):
        return f"{at} must be {' or '.join(names)} (got {type(value).__name__})"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} must be one of {schema['enum']} (got {value!r})"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                return f"{at} lacks {name!r}"
        for name, child in value.items():
            of = known.get(name, schema.get("additionalProperties", True))
            if of is False:
                return f"{at} has {name!r}, which no record has"
            if isinstance(of, dict) and (found := _wrong(child, of, root, f"{at}.{name}")):
                return found
    if isinstance(value, list) and "items" in schema:
        for number, child in enumerate(value):
            if found := _wrong(child, schema["items"], root, f"{at}[{number}]"):
                return found
    return None
