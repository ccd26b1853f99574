"""Print the Chebyshev series of gputensor/kernels/cuda/include/math/special_series.cuh, fitted to
mpmath's values: `python -m tests.golden.freeze_special`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

_NODES = 64
# A result of f32 needs no coefficients below this.
_F32_LEAST = 1e-11


def series(f: Callable[[Any], Any]) -> list[Any]:
    """Coefficients of f on [-1, 1], as many as a double sees; the first one is halved."""
    angles = [mp.pi * (k + mp.mpf(1) / 2) / _NODES for k in range(_NODES)]
    values = [f(mp.cos(angle)) for angle in angles]
    found = [
        2 * mp.fsum(v * mp.cos(n * angle) for v, angle in zip(values, angles)) / _NODES
        for n in range(40)
    ]
    found[0] /= 2
    largest = max(map(abs, found))
    while abs(found[-1]) < largest * mp.mpf(10) ** -18:
        found.pop()
    return found


def _near(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: f(4 * (t + 1))  # 0 < x < 8


def _far(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: f(16 / (t + 1))  # 8 < x


def _small(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: f(mp.sqrt(2 * (t + 1)))  # 0 < x < 2, of x * x


def _beyond(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: f(4 / (t + 1))  # 2 < x


def _airy_wave(z: Any) -> tuple[Any, Any]:
    """Ai(-x) is (cos(z - pi/4) * f + sin(z - pi/4) * g) / sqrt(pi) / x^(1/4), z = 2/3 x^(3/2)."""
    x = (3 * z / 2) ** (mp.mpf(2) / 3)
    scale, phase = mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4), z - mp.pi / 4
    a, b = mp.airyai(-x) * scale, mp.airybi(-x) * scale
    return a * mp.cos(phase) - b * mp.sin(phase), a * mp.sin(phase) + b * mp.cos(phase)


def _zeta(f: Callable[[Any], Any], least: Any) -> Callable[[Any], Any]:
    return lambda t: f(2 * least / (t + 1))


def _airy_decay(z: Any) -> Any:
    x = (3 * z / 2) ** (mp.mpf(2) / 3)
    return mp.airyai(x) * mp.exp(z) * 2 * mp.sqrt(mp.pi) * x ** (mp.mpf(1) / 4)


SERIES = {
    "i0_near": _near(lambda x: mp.besseli(0, x) * mp.exp(-x)),
    "i0_far": _far(lambda x: mp.besseli(0, x) * mp.exp(-x) * mp.sqrt(x)),
    "i1_near": _near(lambda x: mp.besseli(1, x) * mp.exp(-x) / x),
    "i1_far": _far(lambda x: mp.besseli(1, x) * mp.exp(-x) * mp.sqrt(x)),
    "k0_near": _small(lambda x: mp.besselk(0, x) + mp.log(x / 2) * mp.besseli(0, x)),
    "k0_far": _beyond(lambda x: mp.besselk(0, x) * mp.exp(x) * mp.sqrt(x)),
    "k1_near": _small(lambda x: x * (mp.besselk(1, x) - mp.log(x / 2) * mp.besseli(1, x))),
    "k1_far": _beyond(lambda x: mp.besselk(1, x) * mp.exp(x) * mp.sqrt(x)),
    "airy_decay": _zeta(_airy_decay, mp.mpf(2)),
    "airy_cos": _zeta(lambda z: _airy_wave(z)[0], mp.mpf(4)),
    "airy_sin": _zeta(lambda z: _airy_wave(z)[1], mp.mpf(4)),
}


def text() -> str:
    mp.mp.dps = 40
    lines = []
    for name, f in SERIES.items():
        found = series(f)
        texts = [f"{float(x)!r}" for x in found]
        some = sum(abs(float(x)) >= _F32_LEAST for x in found)
        lines.append(f"template <class T = f64> DEVICE f64 {name}(f64 t) {{")
        lines.append("  const f64 c[] = {")
        for start in range(0, len(texts), 3):
            lines.append("      " + ", ".join(texts[start : start + 3]) + ",")
        lines += ["  };", f"  return series<T, {some}>(c, t);", "}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(text().rstrip())
