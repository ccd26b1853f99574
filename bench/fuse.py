"""Chains of operators on operands of 16 MiB: `gt.fuse` compared with eager operators, NumPy,
PyTorch, torch.compile and numexpr.

Each function is written once, with names that all libraries have. On the CPU each library uses two
threads. A timed call includes the allocation of its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

import gputensor as gt

from . import fuse_host, layout_sides, peers, timing
from .copies import THREADS
from .places import WrongResult

NAME = "fuse"
ELEMENTS = 4 << 20
# Peer -> lower bound of our speed divided by the peer's speed, as a geometric mean over the chains.
BUDGETS = {"eager": 5.0, "numpy": 5.0, "torch": 5.0, "numexpr": 2.0, "torch.compile": 0.9}

Function = Callable[..., Any]


# --- the chains -----------------------------------------------------------------------------------


def _chain(length: int) -> Function:
    def function(m: Any, x: Any, y: Any) -> Any:
        z = x
        for n in range(length):
            z = z * y if n % 4 == 0 else z + x if n % 4 == 1 else z - y if n % 4 == 2 else z * 0.5
        return z

    return function


def _gelu(m: Any, x: Any, y: Any) -> Any:
    return 0.5 * x * (1 + m.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _black_scholes(m: Any, x: Any, y: Any) -> Any:
    """The price of a call option, with a logistic approximation of the normal distribution."""
    d1 = (m.log(x / y) + 0.065) / 0.3
    d2 = d1 - 0.3
    return x / (1 + m.exp(-1.702 * d1)) - y * 0.98 / (1 + m.exp(-1.702 * d2))


def _leapfrog(m: Any, x: Any, y: Any) -> Any:
    half = y - 0.005 * x
    return half - 0.005 * (x + 0.01 * half)


def _adam(m: Any, x: Any, y: Any) -> Any:
    mean = x * 0.9 + y * 0.1
    square = x * 0.99 + y * y * 0.01
    return x - 0.001 * mean / (m.sqrt(square) + 1e-8)


def _luma(m: Any, x: Any, y: Any) -> Any:
    """The clamped luma of three planes."""
    light = 0.299 * x + 0.587 * y + 0.114 * (x + y) + 0.0625
    return m.where(light > 1.5, 1.5 + 0 * x, light)


def _mandelbrot(m: Any, x: Any, y: Any) -> Any:
    real, imag = x, y
    for _ in range(4):
        real, imag = real * real - imag * imag + x, 2 * real * imag + y
    return real * real + imag * imag


def _along(m: Any, name: str, x: Any) -> Any:
    """Reduce each row with keepdim=True."""
    reduce = getattr(m, name)
    return reduce(x, -1, keepdims=True) if m is np else reduce(x, -1, True)


def _squared_error(m: Any, x: Any, y: Any) -> Any:
    return m.mean((x - y) * (x - y))


def _layer_norm(m: Any, x: Any, y: Any) -> Any:
    centered = x - _along(m, "mean", x)
    variance = _along(m, "mean", centered * centered)
    return centered / m.sqrt(variance + 1e-5) * y + y


def _masked_softmax(m: Any, x: Any, y: Any) -> Any:
    scaled = m.where(y > 0.6, x * 0.125, x * 0 - 1e9)
    powers = m.exp(scaled - _along(m, "amax", scaled))
    return powers / _along(m, "sum", powers)


def _planes(m: Any, x: Any) -> Any:
    """Return pixels (N, H, W, C) as a view (N, C, H, W)."""
    return x.transpose(0, 3, 1, 2) if m is np else x.permute(0, 3, 1, 2)


def _laid_out(m: Any, x: Any, of: Any = None) -> Any:
    """Return contiguous planes, cast to a dtype."""
    if m is np:
        return np.ascontiguousarray(x, of)
    return (x if of is None else x.to(of)).contiguous()


def _packed_image(m: Any, x: Any, y: Any) -> Any:
    """Convert packed pixels to normalized planes of floats."""
    planes = _planes(m, x)
    wide = planes.astype(m.float32) if m is np else planes.to(m.float32)
    return _laid_out(m, wide * y[0] * 0.004 + y[1])


def _yuv(m: Any, x: Any, y: Any) -> Any:
    """Convert packed RGB to planes of Y, U and V, clamped to bytes."""
    planes = _planes(m, x)
    red, green, blue = planes[:, :1], planes[:, 1:2], planes[:, 2:]
    mixed = red * y[0] * 0.299 + green * y[1] * 0.587 + blue * y[2] * 0.114 + y[3]
    clip = m.clip if m is np else m.clamp
    return _laid_out(m, clip(mixed, 0, 255), m.uint8)


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
# The greatest number of elements in a row.
COLUMNS = 2048


# --- the sides ------------------------------------------------------------------------------------


def _sides(function: Function, x: Any, y: Any, device: str) -> dict[str, Callable[[], Any]]:
    """Return each library's call of a function with these ndarrays."""
    a, b = (gt.tensor(v).to(device) for v in (x, y))
    fused = gt.fuse(function)
    found = {"gputensor": lambda: fused(gt, a, b), "eager": lambda: function(gt, a, b)}
    if device == "cpu":
        found["numpy"] = lambda: function(np, x, y)
    torch = peers.torch(device)
    if torch is not None:
        peers.set_threads("torch", THREADS)
        p, q = (torch.tensor(v).to(device) for v in (x, y))  # aligned like gputensor's tensors
        found["torch"] = lambda: function(torch, p, q)
        compiled = layout_sides.compiled_once(torch, lambda p, q: function(torch, p, q))
        found["torch.compile"] = lambda: compiled(p, q)
    has_text = function not in (*REDUCED.values(), *PIXELS.values())
    if device == "cpu" and has_text and find_spec("numexpr") is not None:
        numexpr, text = import_module("numexpr"), _expression(function)
        numexpr.set_num_threads(THREADS)
        evaluate = numexpr.evaluate
        found["numexpr"] = lambda: evaluate(text, {"x": x, "y": y})
    return found


def _expression(function: Function) -> str:
    """Return a function as an expression for numexpr."""

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
    return str(function(SimpleNamespace(**{n: call(n) for n in names}), Text("x"), Text("y")))


def _is_close(made: np.ndarray, wanted: np.ndarray) -> bool:
    """Compare with a tolerance for other orders of summation. Bytes may differ by one."""
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
            [*sides.values()], rounds, round_ms=20.0, finish=peers.synchronizer(device)
        )
        names += [library for library in sides if library not in names]
        cases.append({"name": name, "ns": {lib: s.median_ns for lib, s in zip(sides, samples)},
                      "quartiles_ns": {lib: s.quartiles_ns for lib, s in zip(sides,
                      samples)}})  # fmt: skip
    record: dict[str, Any] = {
        "benchmark": NAME, "device": device, "cases": cases, "peers": names[1:],
        "threads": THREADS if device == "cpu" else None,
    }  # fmt: skip
    if device == "cpu":
        record["host"] = fuse_host.measure()
    for peer in record["peers"]:
        record[f"geomean_vs_{peer}"] = timing.geomean(
            [c["ns"][peer] / c["ns"]["gputensor"] for c in cases if peer in c["ns"]]
        )
    return record


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
            ratio = case["ns"].get(peer, math.inf) / case["ns"]["gputensor"]
            if peer in ("eager", "numexpr") and ratio < 1:
                found.append(f"{case['name']}: {ratio:.2f} times {peer}'s speed is below 1")
    return found
