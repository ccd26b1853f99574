"""Chains of operators on NumPy arrays of 16 MiB and 256 KiB: `gt.fuse` compared with eager
operators, NumPy, PyTorch, torch.compile and numexpr.

Each function is written once. On the CPU each library uses two threads. A timed call includes the
allocation of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

import gputensor as gt

from .copies import layout_sides
from .copies.sessions import THREADS
from .host import fuse_host
from .measurement import peers, timing
from .measurement.places import WrongResult

NAME = "fuse"
ELEMENTS = 4 << 20
# Maps a peer to the lower bound of our speed / the peer's speed, as a geometric mean over the
# chains.
BUDGETS = {"eager": 5.0, "numpy": 5.0, "torch": 5.0, "numexpr": 2.0, "torch.compile": 0.9}
# The same bounds for operands with 1/64 of the elements. For these operands, the overhead of a call
# takes as long as the computation.
OF_SMALL = {"eager": 2.5, "torch.compile": 1.0}

Function = Callable[..., Any]


# --- the chains -----------------------------------------------------------------------------------

# The chains below use the module `m` and, for operations that have other names in NumPy, the
# functions defined here. To run a chain with another library, `_written_for` replaces these
# globals.
m: Any = gt


def mean(x: Any) -> Any:
    return x.mean(-1, True)


def amax(x: Any) -> Any:
    return x.amax(-1, True)


def total(x: Any) -> Any:
    return x.sum(-1, True)


def cast(x: Any, of: Any) -> Any:
    return x.to(of)


def planes(x: Any) -> Any:
    """Return pixels (N, H, W, C) as a view (N, C, H, W)."""
    return x.permute(0, 3, 1, 2)


def laid_out(x: Any) -> Any:
    return x.contiguous()


def clip(x: Any, low: Any, high: Any) -> Any:
    return x.clamp(low, high)


TENSORS: dict[str, Function] = {
    "mean": mean, "amax": amax, "total": total, "cast": cast, "planes": planes,
    "laid_out": laid_out, "clip": clip,
}  # fmt: skip
NUMPYS: dict[str, Function] = {
    "mean": lambda x: np.mean(x, -1, keepdims=True),
    "amax": lambda x: np.amax(x, -1, keepdims=True),
    "total": lambda x: np.sum(x, -1, keepdims=True),
    "cast": lambda x, of: x.astype(of), "planes": lambda x: x.transpose(0, 3, 1, 2),
    "laid_out": np.ascontiguousarray, "clip": np.clip,
}  # fmt: skip


def _written_for(library: Any, function: Function) -> Function:
    names = {**globals(), "m": library, **(NUMPYS if library is np else TENSORS)}
    code, outer = function.__code__, function.__closure__
    return FunctionType(code, names, function.__name__, None, outer)


def _chain(length: int) -> Function:
    def function(x: Any, y: Any) -> Any:
        z = x
        for n in range(length):
            z = z * y if n % 4 == 0 else z + x if n % 4 == 1 else z - y if n % 4 == 2 else z * 0.5
        return z

    return function


def _gelu(x: Any, y: Any) -> Any:
    return 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _black_scholes(x: Any, y: Any) -> Any:
    """Return the price of a call option, with a logistic approximation of the normal
    distribution."""
    d1 = (m.log(x / y) + 0.065) / 0.3
    d2 = d1 - 0.3
    return x / (1 + m.exp(-1.702 * d1)) - y * 0.98 / (1 + m.exp(-1.702 * d2))


def _leapfrog(x: Any, y: Any) -> Any:
    half = y - 0.005 * x
    return half - 0.005 * (x + 0.01 * half)


def _adam(x: Any, y: Any) -> Any:
    first = x * 0.9 + y * 0.1
    square = x * 0.99 + y * y * 0.01
    return x - 0.001 * first / (m.sqrt(square) + 1e-8)


def _luma(x: Any, y: Any) -> Any:
    """Return the luma of three planes, clamped from above."""
    light = 0.299 * x + 0.587 * y + 0.114 * (x + y) + 0.0625
    return m.where(light > 1.5, 1.5 + 0 * x, light)


def _mandelbrot(x: Any, y: Any) -> Any:
    real, imag = x, y
    for _ in range(4):
        real, imag = real * real - imag * imag + x, 2 * real * imag + y
    return real * real + imag * imag


def _squared_error(x: Any, y: Any) -> Any:
    return m.mean((x - y) * (x - y))


def _layer_norm(x: Any, y: Any) -> Any:
    centered = x - mean(x)
    variance = mean(centered * centered)
    return centered / m.sqrt(variance + 1e-5) * y + y


def _masked_softmax(x: Any, y: Any) -> Any:
    scaled = m.where(y > 0.6, x * 0.125, x * 0 - 1e9)
    powers = m.exp(scaled - amax(scaled))
    return powers / total(powers)


def _packed_image(x: Any, y: Any) -> Any:
    """Convert packed pixels to normalized planes of floats."""
    return laid_out(cast(planes(x), m.float32) * y[0] * 0.004 + y[1])


def _yuv(x: Any, y: Any) -> Any:
    """Convert packed RGB to planes of Y, U and V, clamped to bytes."""
    rgb = planes(x)
    red, green, blue = rgb[:, :1], rgb[:, 1:2], rgb[:, 2:]
    mixed = red * y[0] * 0.299 + green * y[1] * 0.587 + blue * y[2] * 0.114 + y[3]
    return laid_out(cast(clip(mixed, 0, 255), m.uint8))


# Chains with row reductions, and chains on packed pixels. numexpr cannot run them.
REDUCED: dict[str, Function] = {
    "mean squared error": _squared_error, "layer norm": _layer_norm,
    "softmax with mask": _masked_softmax,
}  # fmt: skip
PIXELS: dict[str, Function] = {
    "RGB to YUV, clamped and cast": _yuv, "packed image to planes of floats": _packed_image,
}  # fmt: skip
CASES: dict[str, Function] = {
    "2 operators": _chain(2), "4 operators": _chain(4), "8 operators": _chain(8),
    "16 operators": _chain(16), "gelu": _gelu, "luma within bounds": _luma,
    "Black-Scholes": _black_scholes, "leapfrog": _leapfrog, "Adam": _adam,
    "Mandelbrot, 4 steps": _mandelbrot, **REDUCED, **PIXELS,
}  # fmt: skip
# The greatest number of elements in a row of an operand.
COLUMNS = 2048


# --- the sides ------------------------------------------------------------------------------------


def _sides(function: Function, x: Any, y: Any, device: str) -> dict[str, Callable[[], Any]]:
    """Return a dict from library to a call of the function on x and y."""
    a, b = (gt.from_numpy(v).to(device) for v in (x, y))
    ours, numpys = _written_for(gt, function), _written_for(np, function)
    fused = gt.fuse(ours)
    found = {"gputensor": lambda: fused(a, b), "eager": lambda: ours(a, b)}
    if device == "cpu":
        found["numpy"] = lambda: numpys(x, y)
    torch = peers.torch(device)
    if torch is not None:
        peers.set_threads("torch", THREADS)
        p, q = (torch.tensor(v).to(device) for v in (x, y))
        theirs = _written_for(torch, function)
        found["torch"] = lambda: theirs(p, q)
        compiled = layout_sides.compiled_once(torch, theirs)
        found["torch.compile"] = lambda: compiled(p, q)
    has_text = function not in (*REDUCED.values(), *PIXELS.values())
    if device == "cpu" and has_text and find_spec("numexpr") is not None:
        numexpr, text = import_module("numexpr"), _expression(function)
        numexpr.set_num_threads(THREADS)
        evaluate = numexpr.evaluate
        found["numexpr"] = lambda: evaluate(text, {"x": x, "y": y})
    return found


def _expression(function: Function) -> str:
    """Return the expression that a function computes, as text for numexpr."""

    class Text(str):
        pass

    def operator(form: str) -> Any:
        return lambda self, other: Text("(" + form.format(self, other) + ")")

    for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("truediv", "/"), ("gt", ">")):
        setattr(Text, f"__{name}__", operator("{0} " + sign + " {1}"))
        setattr(Text, f"__r{name}__", operator("{1} " + sign + " {0}"))

    def call(name: str) -> Function:
        return lambda *args: Text(f"{name}({', '.join(map(str, args))})")

    names = ("tanh", "log", "exp", "sqrt", "where")
    text = _written_for(SimpleNamespace(**{n: call(n) for n in names}), function)
    return str(text(Text("x"), Text("y")))


def _is_close(made: np.ndarray, wanted: np.ndarray) -> bool:
    """Return True if the results are close. The tolerance covers different orders of summation;
    bytes may differ by one."""
    if made.dtype == np.uint8:
        return bool((np.abs(made.astype(np.int16) - wanted) <= 1).all())
    return np.allclose(made, wanted, 1e-3, 1e-4, equal_nan=True)


def run(device: str = "cpu", rounds: int = 9, scale: int = 1) -> dict[str, Any]:
    """Measure all cases and return the record that `bench run` prints and writes.

    scale: divides the number of elements.
    """
    elements = max(1, ELEMENTS // scale)
    if device == "cpu":
        gt.set_num_threads(THREADS)
    cases, names = _measured(elements, device, rounds)
    record: dict[str, Any] = {
        "benchmark": NAME, "device": device, "cases": cases, "peers": names[1:],
        "threads": THREADS if device == "cpu" else None,
    }  # fmt: skip
    if device == "cpu":
        record["small"], _ = _measured(max(1, elements >> 6), device, rounds)
        record["host"] = fuse_host.measure()
    for peer in record["peers"]:
        record[f"geomean_vs_{peer}"] = _geomean(cases, peer)
    return record


def _measured(elements: int, device: str, rounds: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure all cases on operands of this size. Return the cases, and the names of the
    libraries."""
    random = np.random.default_rng(0)
    sizes = (-1, min(COLUMNS, elements & -elements))
    x, y = (
        (random.random(elements, np.float32) + np.float32(0.5)).reshape(sizes) for _ in range(2)
    )
    edge = min(512, math.isqrt(elements // 3) or 1)
    pixels = random.integers(0, 256, (max(1, elements // (3 * edge * edge)), edge, edge, 3))
    of_pixels = pixels.astype(np.uint8), random.random((4, 3, 1, 1), np.float32)
    cases: list[dict[str, Any]] = []
    names: list[str] = []
    for name in timing.progress(list(CASES), str):
        first, second = of_pixels if name in PIXELS else (x, y)
        sides = _sides(CASES[name], first, second, device)
        wanted = None
        for library, side in sides.items():
            result = side()
            made = np.asarray(result.cpu() if hasattr(result, "cpu") else result)
            wanted = made if wanted is None else wanted
            is_same = library != "eager" or made.tobytes() == wanted.tobytes()
            if not is_same or not _is_close(made, wanted):
                raise WrongResult(f"{name}: {library} is wrong")
        samples = timing.alternate(
            [*sides.values()], rounds, round_ms=20.0, finish=peers.synchronizer(device),
            rest_s=timing.REST_S,
        )  # fmt: skip
        names += [library for library in sides if library not in names]
        cases.append({"name": name, "ns": {lib: s.median_ns for lib, s in zip(sides, samples)},
                      "quartiles_ns": {lib: s.quartiles_ns for lib, s in zip(sides,
                      samples)}})  # fmt: skip
    return cases, names


def _geomean(cases: list[dict[str, Any]], peer: str) -> float:
    """Return the geometric mean of our speed divided by a peer's speed."""
    return timing.geomean([_ratio(c, peer) for c in cases if peer in c["ns"]])


def _ratio(case: dict[str, Any], peer: str) -> float:
    ns: dict[str, float] = case["ns"]
    return ns.get(peer, math.inf) / ns["gputensor"]


def report(record: dict[str, Any]) -> str:
    """Return a Markdown table of a record: milliseconds, ratios to gt.fuse, and host costs."""
    libraries = ["gputensor", *record["peers"]]
    head = [f"{lib} ms".replace("gputensor", "gt.fuse") for lib in libraries]
    head += [f"{peer} /" for peer in record["peers"]]
    lines = [f"| {record['device']} | " + " | ".join(head) + " |", "|---|" + "---:|" * len(head)]
    for case in record["cases"]:
        ns = case["ns"]
        cells = [f"{ns[lib] / 1e6:.1f}" if lib in ns else "" for lib in libraries]
        cells += [
            f"{ns[peer] / ns['gputensor']:.2f}" if peer in ns else "" for peer in record["peers"]
        ]
        lines.append(f"| {case['name']} | " + " | ".join(cells) + " |")
    means = [f"**{record[f'geomean_vs_{peer}']:.2f}**" for peer in record["peers"]]
    lines.append("| geometric mean | " + " | ".join([""] * len(libraries) + means) + " |")
    if "small" in record:
        found = [
            f"{_geomean(record['small'], peer):.2f} times the speed of {peer} (at least "
            f"{min([_ratio(case, peer) for case in record['small']]):.2f})"
            for peer in record["peers"]
        ]
        lines += ["", f"The same chains on 1/64 of the elements: {', '.join(found)}."]
    if "host" in record:
        lines += ["", fuse_host.report(record["host"])]
    return "\n".join(lines)


def failures(record: dict[str, Any]) -> list[str]:
    """Return a sentence for each budget that the record misses."""
    found = fuse_host.failures(record["host"]) if "host" in record else []
    for peer in record["peers"]:
        mean = record[f"geomean_vs_{peer}"]
        if record["device"] == "cpu" and mean < BUDGETS.get(peer, 0):
            found.append(f"geomean vs {peer} {mean:.2f} is below {BUDGETS[peer]}")
        for case in record["cases"]:
            ratio = _ratio(case, peer)
            if peer in ("eager", "numexpr") and ratio < 1:
                found.append(f"{case['name']}: {ratio:.2f} times {peer}'s speed is below 1")
        if "small" in record and (mean := _geomean(record["small"], peer)) < OF_SMALL.get(peer, 0):
            found.append(f"1/64: geomean vs {peer} {mean:.2f} is below {OF_SMALL[peer]}")
    return found
