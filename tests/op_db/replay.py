"""Repeat recorded calls and compare values, dtypes, sizes and strides with PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core.errors import GpuTensorError

from .cases import NUMPY, Case, Named, Recorded

# dtype of a result -> (relative, absolute) tolerance; integers and bool must be equal.
TOLERANCES = {
    "float16": (4e-3, 1e-3), "bfloat16": (3e-2, 2e-2), "float32": (1e-4, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1e-4, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip

# Columns of these results are determined except for a factor of modulus one.
UP_TO_PHASE = {
    "_linalg_eigh": (1,), "linalg_eig": (1,), "_linalg_svd": (0, 2), "linalg_svd": (0, 2),
}  # fmt: skip

AGREES, REFUSES, DIFFERS, MISSING = "agrees", "refuses", "differs", "missing"


@dataclass
class Verdict:
    """The outcome of the cases of one overload or function."""

    op: str
    is_core: bool
    agreed: int = 0
    others: list[tuple[str, str, Case]] = field(default_factory=list)  # (kind, why, case)

    @property
    def kind(self) -> str:
        kinds = {kind for kind, _, _ in self.others}
        return next((k for k in (MISSING, DIFFERS, REFUSES) if k in kinds), AGREES)

    @property
    def why(self) -> str:
        return next((why for kind, why, _ in self.others if kind == self.kind), "")

    def line(self) -> str:
        total = self.agreed + len(self.others)
        text = f"{self.op:44} {self.kind:8} {self.agreed:3} of {total:3}"
        return f"{text}  {self.why}" if self.why else text


def verdicts(
    cases: Iterable[Case], check: Callable[[Case, str], tuple[str, str]], device: str = "cpu"
) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for case in cases:
        verdict = found.setdefault(case.op, Verdict(case.op, case.is_core))
        kind, why = check(case, device)
        if kind == AGREES:
            verdict.agreed += 1
        else:
            verdict.others.append((kind, why, case))
    return found


# --- one case -------------------------------------------------------------------------------------


def overload(name: str) -> Any:
    """Return the operator `add.Tensor`; None if it does not exist."""
    base, _, rest = name.partition(".")
    packet = getattr(gt.ops.aten, base, None)
    return None if packet is None else getattr(packet, rest or "default", None)


def leaf(case: Case, device: str = "cpu") -> tuple[str, str]:
    """Return the outcome of an overload's call, and the reason if it does not agree."""
    operator = overload(case.op)
    if operator is None:
        return MISSING, ""
    enter = Entered(device)
    args = [enter(x) for x in case.args]
    kwargs = {name: enter(x) for name, x in case.kwargs.items()}
    kind, found = attempt(operator, args, kwargs)
    if kind != AGREES:
        return kind, found
    difference = compare(case.results, found, case)
    for name, expected in case.after.items():
        if difference is None:
            written = kwargs[name] if name in kwargs else args[int(name)]
            difference = compare(expected, written, case)
            difference = difference and f"argument {name}: {difference}"
    return (DIFFERS, difference) if difference else (AGREES, "")


def attempt(function: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[str, Any]:
    try:
        with np.errstate(all="ignore"):
            return AGREES, function(*args, **kwargs)
    except GpuTensorError as error:
        return REFUSES, _sentence(error)
    except NotImplementedError as error:
        return REFUSES, _sentence(error)
    except Exception as error:  # any other exception is a bug of gputensor
        return DIFFERS, f"raises {type(error).__name__}: {_sentence(error)}"


def _sentence(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return lines[0][:160]


class Entered:
    """Converts recorded values to our tensors on a device; `leaves` are the tensors with
    `requires_grad`."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.leaves: list[Any] = []

    def __call__(self, value: Any) -> Any:
        if isinstance(value, Recorded):
            return self._tensor(value)
        if isinstance(value, Named):
            return self._named(value)
        if isinstance(value, (list, tuple)):
            return type(value)([self(x) for x in value])
        if isinstance(value, dict):
            return {name: self(x) for name, x in value.items()}
        return value

    def _tensor(self, x: Recorded) -> Any:
        flat = np.frombuffer(bytearray(x.data), NUMPY[x.dtype])
        if flat.size or 0 in x.sizes:
            made = gt.from_numpy(flat).to(self.device).as_strided(x.sizes, x.strides)
        else:
            made = gt.empty_strided(x.sizes, x.strides, dtype=getattr(gt, x.dtype))
        if x.is_conj:
            made = made.conj()
        return made

    def _named(self, value: Named) -> Any:
        if value.kind == "device":
            return gt.device(self.device)
        if value.kind == "layout":
            return getattr(gt, value.name, None)
        return getattr(gt, value.name)


# --- comparison -----------------------------------------------------------------------------------


def compare(expected: Any, found: Any, case: Case) -> str | None:
    """Return None if they agree, otherwise the difference."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"gives {_kind(found)}, not {len(expected)} results"
        for number, (a, b) in enumerate(zip(expected, found)):
            difference = _compare_one(a, b, case, number)
            if difference:
                return f"result {number}: {difference}" if len(expected) > 1 else difference
        return None
    return _compare_one(expected, found, case, 0)


def _kind(found: Any) -> str:
    return f"{len(found)} results" if isinstance(found, (list, tuple)) else type(found).__name__


def _compare_one(expected: Any, found: Any, case: Case, number: int) -> str | None:
    if isinstance(expected, (list, tuple)):
        return compare(expected, found, case)
    if not isinstance(expected, Recorded):
        return _compare_plain(expected, found, case)
    if not isinstance(found, gt.Tensor):
        return f"gives {type(found).__name__}, not a tensor"
    dtype = str(found.dtype).rpartition(".")[2]
    if dtype != expected.dtype:
        return f"dtype {dtype}, not {expected.dtype}"
    if tuple(found.shape) != expected.sizes:
        return f"sizes {list(found.shape)}, not {list(expected.sizes)}"
    if tuple(found.stride()) != expected.strides:
        sizes = list(expected.sizes)
        return f"strides {list(found.stride())}, not {list(expected.strides)} of sizes {sizes}"
    if case.is_random or found.device.type == "meta":
        return None
    phase = number in UP_TO_PHASE.get(case.op, ())
    return compare_values(expected, found, phase)


def compare_values(expected: Recorded, found: Any, phase: bool = False) -> str | None:
    a, b = expected.elements(), to_numpy(found)
    if phase:
        a, b = np.abs(a), np.abs(b)
    if expected.dtype not in TOLERANCES:
        wrong = a != b
    else:
        rtol, atol = TOLERANCES[expected.dtype]
        if expected.dtype in ("float16", "bfloat16"):  # sums that cancel, of rounded terms
            atol *= max(1.0, float(np.abs(a[np.isfinite(a)]).astype(np.float64).max(initial=0)))
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            a, b = a.astype(wide), b.astype(wide)
            wrong = ~np.isclose(b, a, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong.any():
        return None
    at = tuple([int(i) for i in np.argwhere(wrong)[0]])
    return f"{int(wrong.sum())} of {a.size} elements, at {list(at)} {b[at]}, not {a[at]}"


def to_numpy(found: Any) -> np.ndarray:
    return np.asarray(found.detach().cpu().resolve_conj().numpy())


def _compare_plain(expected: Any, found: Any, case: Case) -> str | None:
    if type(found) is not type(expected):
        return f"gives {type(found).__name__}, not {type(expected).__name__}"
    if case.is_random or found == expected or (found != found and expected != expected):
        return None
    if isinstance(expected, (float, complex)) and np.isclose(found, expected, rtol=1e-5):
        return None
    return f"gives {found}, not {expected}"
