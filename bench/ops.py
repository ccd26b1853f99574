"""Every operator that PyTorch has too, by family, size and dtype, against PyTorch and NumPy.

The cases follow from the operators that are there: an overload's schema says what it takes, so that
a new one needs no line here. What a schema does not say, such as the sizes of matrices, stands in
`SHAPED`; what is slower than half of PyTorch, with the reason, in `REASONS`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gputensor as gt
from gputensor._generated.index import OPERATORS
from gputensor.core.schema import Argument
from gputensor.dispatch import dispatcher
from gputensor.dispatch.operator import Operator

from . import peers, tables, timing

NAME = "ops"
THREADS = 2
SIZES = (1 << 10, 1 << 15, 1 << 20, 1 << 24)
# Of further dtypes the third size alone.
DTYPES = ("float32", "float64", "float16", "int64", "complex64")
GOAL = {"numpy": 1.0, "torch": 0.7}
BELOW = 0.5  # of PyTorch's speed: such a case needs a reason
_ROW = 1 << 10  # elements of a row, where there are rows
_MOST_TIMES = 4  # so many times the elements that it reads may a case make (not the outer product)

Shape = tuple[int, ...]


def _square(n: int, times: int = 1) -> Shape:
    side = math.isqrt(min(n, 1 << 20) // times)
    return (side, side)


def _batch(n: int) -> Shape:
    side = 1 << (max(2, n.bit_length() // 4))
    return (max(1, min(n, 1 << 20) // (side * side)), side, side)


def _image(n: int) -> Shape:
    side = max(4, math.isqrt(min(n, 1 << 20) // 16) // 2 * 2)
    return (2, 8, side, side)


# What a schema does not say: operator, or family -> sizes of its tensors by name, from n elements.
SHAPED: dict[str, Callable[[int], dict[str, Shape]]] = {
    "matmul": lambda n: dict.fromkeys(
        ("self", "other", "mat1", "mat2", "input", "weight", "tensor", "vec1", "vec2"), _square(n)
    ),
    "bmm": lambda n: dict.fromkeys(("self", "mat2"), _batch(n)),
    "baddbmm": lambda n: dict.fromkeys(("self", "batch1", "batch2"), _batch(n)),
    "addbmm": lambda n: {"self": _batch(n)[1:], "batch1": _batch(n), "batch2": _batch(n)},
    "mv": lambda n: {"self": _square(n), "vec": _square(n)[:1]},
    "addmv": lambda n: {"self": _square(n)[:1], "mat": _square(n), "vec": _square(n)[:1]},
    "addr": lambda n: {"self": _square(n), "vec1": _square(n)[:1], "vec2": _square(n)[:1]},
    "dot": lambda n: {"self": (n,), "tensor": (n,)},
    "vdot": lambda n: {"self": (n,), "other": (n,)},
    **dict.fromkeys(
        ("linalg", "solve", "spectrum"),
        lambda n: dict.fromkeys(("self", "A", "B", "input", "other"), _square(n, 4)),
    ),
    "conv": lambda n: {"input": _image(n), "self": _image(n), "weight": (8, 8, 3, 3), "bias": (8,)},
    **dict.fromkeys(("pool", "max_pool"), lambda n: {"self": _image(n)}),
    "upsample": lambda n: {"self": _image(n)},
    "grid_sampler_2d": lambda n: {"input": _image(n), "grid": (2, *_image(n)[2:], 2)},
    "pixel_shuffle": lambda n: {"self": _image(n)},
    "pixel_unshuffle": lambda n: {"self": _image(n)},
    "group_norm": lambda n: {"input": _image(n)},
    "tensordot": lambda n: dict.fromkeys(("self", "other"), _square(n)),
    "range": lambda n: {"start": (), "end": ()},
    "nll_loss_forward": lambda n: {"target": (n // _ROW,)},
    **dict.fromkeys(("cov", "corrcoef"), lambda n: {"self": _square(n)}),
    **dict.fromkeys(
        ("index", "index_select", "index_add", "index_copy", "index_fill", "index_reduce"),
        lambda n: {"index": (min(n, _ROW),), "indices": (max(1, n // _ROW),)},
    ),
}
# Arguments that a schema leaves open.
GIVEN: dict[str, Any] = {
    "dim": -1, "k": 1, "n": 2, "p": 2.0, "kernel_size": [2, 2], "stride": [1, 1],
    "padding": [0, 0], "dilation": [1, 1], "output_padding": [0, 0], "transposed": False,
    "groups": 1, "half_to_float": False, "exponent": 2, "min": 0.25, "max": 0.75, "shifts": 3,
    "dims": [0], "normalized_shape": [_ROW], "diagonal": 0, "decimals": 1, "value": 0.5,
    "threshold": 0.5, "lambd": 0.5, "weight": 0.5, "repeats": [1, 1], "correction": 1,
    "output_size": [8], "rounding_mode": "floor", "pad": [1, 1], "num_groups": 4,
    "upscale_factor": 2, "downscale_factor": 2, "high": 8, "low": 1, "chunks": 2,
    "dims_self": [1], "dims_other": [0], "ignore_index": -100, "reduction": 1, "reduce": "sum",
}  # fmt: skip
# And where an operator takes another.
GIVEN_TO: dict[str, dict[str, Any]] = {
    "native_dropout": {"p": 0.5}, "roll": {"shifts": [3], "dims": [0]},
    "scatter.reduce": {"reduce": "add"}, "scatter.value_reduce": {"reduce": "add"},
    "index_reduce": {"reduce": "amax"},
    "grid_sampler_2d": {"interpolation_mode": 0, "padding_mode": 0},
    **dict.fromkeys(("batch_norm", "native_batch_norm"), {"training": True}),
}  # fmt: skip
# Results that PyTorch leaves open: places of equal elements, signs of vectors, who writes last; and
# places of a grid in f16, which it rounds before it reads there.
OPEN = {
    "argsort", "grid_sampler_2d", "kthvalue", "linalg_eig", "linalg_eigh", "linalg_eigvals",
    "linalg_svd", "mode", "put", "sort", "svd",
}  # fmt: skip
_UNKNOWN = object()
# (operator or family, dtype or "") -> why it takes more than twice as long as PyTorch.
REASONS: dict[tuple[str, str], str] = {
    ("", "small"): "a call from Python costs more than PyTorch's from C++",
    ("", "float16"): "NumPy casts f16 one element at a time, 1 ns to f32 and 2 ns back",
    ("activation", ""): "a pass of NumPy's for each operation, where PyTorch has one loop",
    ("batched", ""): "OpenBLAS beside MKL",
    ("binary", ""): "NumPy calls C's function for each element (fmod, hypot, nextafter of f64)",
    ("bits", ""): "passes of NumPy's, and floats are widened to float64 first",
    ("calculus", ""): "several operators, each of which makes a tensor",
    ("comparison", ""): "the comparison and its reduction are two passes",
    ("complex_view", ""): "complex numbers are put together in two passes with strides",
    ("conv", ""): "patches are copied for OpenBLAS, where oneDNN reads them in place",
    ("distance", ""): "differences are made before they are added up",
    ("einsum", ""): "OpenBLAS beside MKL",
    ("embedding", ""): "several operators, each of which makes a tensor",
    ("factor", ""): "SciPy's LAPACK, with OpenBLAS beside MKL",
    ("factory", ""): "one thread writes, and memory is new",
    ("fft", ""): "pocketfft in one thread, beside MKL",
    ("gather", ""): "places are computed in a pass of their own",
    ("histogram", ""): "several passes look for each element's edge, np.bincount counts one by one",
    ("join", ""): "one thread copies",
    ("linalg", ""): "SciPy's LAPACK, with OpenBLAS beside MKL",
    ("loss", ""): "several operators, each of which makes a tensor",
    ("masked", ""): "masks become places, in one thread",
    ("matmul", ""): "OpenBLAS beside MKL",
    ("matmul", "int64"): "NumPy has no BLAS for integers",
    ("max_pool", ""): "a pass for each element of a window, and one more for where it is",
    ("moments", ""): "the mean, differences and squares are a pass each",
    ("nonzero", ""): "np.nonzero takes one thread and makes an array for each dimension",
    ("norm", ""): "a pass of NumPy's for each operation, where PyTorch has one loop",
    ("order", ""): "rows are partitioned, and places looked for in further passes",
    ("pad", ""): "the middle and each edge are written by a call of their own",
    ("pool", ""): "a pass for each element of a window",
    ("products", ""): "OpenBLAS beside MKL",
    ("random", ""): "NumPy draws Philox's 64-bit words one after the other",
    ("range", ""): "several passes of int64",
    ("rearrange", ""): "one thread copies",
    ("reduce", ""): "NumPy reduces without vectors, or an axis at a time",
    ("sampling", ""): "a pass for each neighbour of an element, and many for its weights",
    ("scan", ""): "NumPy accumulates one element after the other through memory, f32 in f64",
    ("scatter", ""): "places are computed in a pass of their own, for NumPy's fancy indexing",
    ("search", ""): "NumPy searches, sorts or compares in passes of their own",
    ("softmax", ""): "a pass of NumPy's for each operation, where PyTorch has one loop",
    ("slicing", ""): "each view is a tensor that is made in Python",
    ("solve", ""): "SciPy's LAPACK, with OpenBLAS beside MKL",
    ("sort", ""): "keys of element and place are sorted in 64 bits; 64-bit elements by merging",
    ("special", ""): "SciPy computes one element at a time, most functions to f64's last bit",
    ("spectrum", ""): "SciPy's LAPACK, with OpenBLAS beside MKL",
    ("ternary", ""): "a pass of NumPy's for each operation, where PyTorch has one loop",
    ("triangle", ""): "a call of NumPy's copies a part of a row, in one thread",
    ("unary", ""): "NumPy or SciPy has no vector instructions for the function",
    ("unique", ""): "np.unique's order is found by a stable sort in one thread",
    ("upsample", ""): "a pass for each neighbour of an element",
    ("where", ""): "the mask is widened to the elements' size in a pass of its own",
}


class Case:
    """A call of an overload at one size and dtype."""

    __slots__ = ("operator", "family", "dtype", "size", "args", "kwargs")

    def __init__(self, operator: Operator, family: str, dtype: str, size: int) -> None:
        self.operator, self.family, self.dtype, self.size = operator, family, dtype, size
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}

    @property
    def op(self) -> str:
        return self.operator.qualified_name.removeprefix("aten::")

    @property
    def name(self) -> str:
        return f"{self.op} {self.dtype} {self.size}"


# --- cases ----------------------------------------------------------------------------------------


def operators(torch: Any) -> list[tuple[Operator, str]]:
    """Overloads that give new tensors of tensors, here and in PyTorch, and their families."""
    found = []
    for operator in sorted(dispatcher.operators(), key=lambda o: o.qualified_name):
        name = operator.qualified_name.removeprefix("aten::")
        family = OPERATORS.get(name)
        if family is None or not operator.is_defined or not _is_measured(operator):
            continue
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None)
        if packet is not None and hasattr(packet, overload or "default"):
            found.append((operator, family))
    return found


def _is_measured(operator: Operator) -> bool:
    """In-place and out forms, views, copies of views and derivatives are measured elsewhere."""
    schema, name = operator.schema, operator.short_name
    arguments = schema.arguments
    if (
        name.startswith(("_", "empty", "new_empty"))
        or "backward" in name
        or "view_copy" in operator.tags
    ):
        return False
    if any(a.type.alias is not None for a in arguments) or not schema.returns:
        return False
    return any(a.type.name == "Tensor" for a in arguments)


def cases(torch: Any, families: Sequence[str] = (), scale: int = 1) -> list[Case]:
    made = []
    for operator, family in operators(torch):
        if families and family not in families and operator.short_name not in families:
            continue
        crossed = [(DTYPES[0], size) for size in SIZES]
        crossed += [(dtype, SIZES[2]) for dtype in DTYPES[1:]]
        made += [Case(operator, family, d, max(16, n // scale)) for d, n in crossed]
    return made


def arguments(case: Case) -> tuple[list[Any], dict[str, Any]] | None:
    """Arrays and numbers for a call; None where the schema asks for what is not known here."""
    shaped = SHAPED.get(case.operator.short_name) or SHAPED.get(case.family)
    shapes = shaped(case.size) if shaped is not None else {}
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for position, argument in enumerate(case.operator.schema.arguments):
        if argument.default_text is not None and argument.name not in shapes:
            continue
        value = _value(argument, case, shapes, position)
        if value is _UNKNOWN:
            return None
        if argument.is_keyword_only or len(args) < position:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _value(argument: Argument, case: Case, shapes: dict[str, Shape], position: int) -> Any:
    kind, name = str(argument.type), argument.name
    if kind == "Tensor?" and name not in shapes:
        return None
    kind = kind.rstrip("?")
    if kind == "Tensor":
        usual = (case.size // _ROW, _ROW) if case.size >= _ROW else (case.size,)
        made = elements(shapes.get(name, usual), _dtype(name, case), position)
        return np.sort(made) if name in ("boundaries", "sorted_sequence") else made
    if kind == "Tensor[]":
        return [elements((case.size,), case.dtype, n) for n in range(2)]
    if kind == "Tensor?[]":
        return [elements(shapes[name], "int64", position)] if name in shapes else _UNKNOWN
    if name == "size" and case.family == "factory":
        return [case.size // _ROW, _ROW] if case.size >= _ROW else [case.size]
    if name == "steps":
        return case.size
    given = GIVEN_TO.get(case.op, {})
    if name in given:
        return given[name]
    if name == "output_size" and kind[-2:-1].isdecimal():
        return GIVEN[name] * int(kind[-2])
    if name in GIVEN and (isinstance(GIVEN[name], list) == kind.endswith("]")):
        return GIVEN[name]
    if kind.endswith("]") and name == "dim":
        return [-1]
    return {"Scalar": 2, "bool": False, "float": 0.5}.get(kind, _UNKNOWN)


def _dtype(name: str, case: Case) -> str:
    if name in ("condition", "mask"):
        return "bool"
    return "int64" if name in ("index", "indices", "target") else case.dtype


def elements(shape: Shape, dtype: str, seed: int) -> np.ndarray:
    """Numbers between 0.1 and 0.9, which every function knows; integers from 1 to 8."""
    random, count = np.random.default_rng(seed), math.prod(shape)
    if dtype == "bool":
        return (random.random(count, np.float32) < 0.5).reshape(shape)
    if dtype.startswith("int"):
        return random.integers(0 if dtype == "int64" else 1, 8, count).astype(dtype).reshape(shape)
    numbers = random.random(count, np.float32) * np.float32(0.8) + np.float32(0.1)
    return numbers.astype(dtype).reshape(shape)


# --- sides ----------------------------------------------------------------------------------------

# NumPy's names, where they are others; the rest is looked up.
_NUMPY = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "eq": "equal",
    "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "mm": "matmul", "bmm": "matmul", "mv": "matmul", "remainder": "mod", "sgn": "sign",
    "special_i0": "i0", "round": "round", "clone": "copy", "cat": "concatenate",
}  # fmt: skip


def _sides(case: Case, torch: Any) -> dict[str, Callable[[], Any]] | None:
    """A call of each library; None where there is none to make."""
    given = arguments(case)
    if given is None:
        return None
    args, kwargs = given
    base, _, overload = case.op.partition(".")
    ours = getattr(getattr(gt.ops.aten, base), overload or "default")
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")
    sides = {
        "gputensor": _bound(ours, gt.from_numpy, args, kwargs),
        "torch": _bound(theirs, torch.from_numpy, args, kwargs),
    }
    function = getattr(np, _NUMPY.get(base, base), None)
    if function is not None and not kwargs and len(args) <= 3:
        axis = [a.name for a in case.operator.schema.arguments][: len(args)]
        if "dim" in axis:
            at = axis.index("dim")
            value = args[at] if not isinstance(args[at], list) else tuple(args[at])
            rest = [x for i, x in enumerate(args) if i != at]
            sides["numpy"] = lambda: function(*rest, axis=value)
        else:
            sides["numpy"] = lambda: function(*args)
    return sides


def _copied(side: Callable[[], Any]) -> Callable[[], Any]:
    """What NumPy gives as a view is copied: the others make an array."""
    with np.errstate(all="ignore"):
        made = side()
    if isinstance(made, np.ndarray) and made.base is not None:
        return lambda: side().copy()
    return side


def _makes_far_more(case: Case, torch: Any) -> bool:
    """Whether the result is far larger than the operands, as PyTorch's meta tensors say."""
    given = arguments(case)
    assert given is not None
    base, _, overload = case.op.partition(".")
    theirs = getattr(getattr(torch.ops.aten, base), overload or "default")
    on_meta = _bound(theirs, lambda x: torch.from_numpy(x).to("meta"), *given)
    try:
        made = on_meta()
    except Exception:  # sizes that values decide are at most the operands'
        return False
    results = made if isinstance(made, (tuple, list)) else [made]
    count = sum(x.numel() for x in results if hasattr(x, "numel"))
    return bool(count > _MOST_TIMES * max(case.size, 1 << 10))


def _bound(function: Any, enter: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    def entered(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return enter(x)
        return [entered(y) for y in x] if isinstance(x, list) else x

    given = [entered(x) for x in args]
    named = {name: entered(x) for name, x in kwargs.items()}
    return lambda: function(*given, **named)


def _agree(ours: Any, theirs: Any, dtype: str) -> bool:
    if isinstance(ours, (tuple, list)):
        return all(_agree(x, y, dtype) for x, y in zip(ours, theirs))
    if not isinstance(ours, gt.Tensor):
        return bool(ours == theirs)
    x, y = ours.numpy(), theirs.resolve_conj().numpy()
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.dtype.kind not in "fc":
        return bool((x == y).all())
    rtol = 2e-2 if dtype == "float16" else 1e-2
    with np.errstate(all="ignore"):
        return bool(np.isclose(x, y, rtol, 1e-3 * max(1.0, float(np.abs(y).max(initial=0.0))),
                               equal_nan=True).all())  # fmt: skip


# --- run ------------------------------------------------------------------------------------------


def run(
    device: str = "cpu", rounds: int = 7, libraries: Sequence[str] = ("torch", "numpy"),
    scale: int = 1, families: Sequence[str] = (),
) -> dict[str, Any]:  # fmt: skip
    """Measure every case; PyTorch is needed, which says what operators there are to compare."""
    torch = peers.torch("cpu")
    data: dict[str, Any] = {
        "benchmark": NAME, "device": "cpu", "cases": [], "peers": [*libraries], "threads": THREADS,
        "failed": {}, "skipped": {},
    }  # fmt: skip
    if torch is None or gt.device(device).type != "cpu":
        why = peers.why_not("torch", "cpu") if torch is None else "this benchmark is the CPU's"
        return data | {"skipped": dict.fromkeys(libraries, why)}
    before = gt.get_num_threads()
    gt.set_num_threads(THREADS)
    peers.set_threads("torch", THREADS)
    try:
        for case in timing.progress(cases(torch, families, scale), lambda case: case.name):
            _measure(case, torch, libraries, rounds, data)
    finally:
        gt.set_num_threads(before)
    return data


def _measure(
    case: Case, torch: Any, libraries: Sequence[str], rounds: int, data: dict[str, Any]
) -> None:
    try:
        sides = _sides(case, torch)
        if sides is None or _makes_far_more(case, torch):
            return
        expected = sides["torch"]()
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return  # not a case: PyTorch refuses this dtype, or these sizes
    try:
        found = sides["gputensor"]()
        is_open = case.operator.short_name in OPEN
        is_open |= "nondeterministic_seeded" in case.operator.tags
        if not is_open and not _agree(found, expected, case.dtype):
            data["failed"][case.name] = "it differs from PyTorch's"
            return
    except Exception as error:
        data["failed"][case.name] = str(error).splitlines()[0]
        return
    if "numpy" in sides:
        try:
            sides["numpy"] = _copied(sides["numpy"])
        except (TypeError, ValueError, AttributeError):
            del sides["numpy"]
    kept = {name: side for name, side in sides.items() if name in ("gputensor", *libraries)}
    samples = dict(zip(kept, timing.alternate(list(kept.values()), rounds, round_ms=0.5)))
    ours = samples["gputensor"]
    data["cases"].append({
        "name": case.name, "kind": case.family, "op": case.op, "dtype": case.dtype,
        "size": case.size, "ns": {name: s.median_ns for name, s in samples.items()},
        "quartiles_ns": {name: s.quartiles_ns for name, s in samples.items()},
        "ratio": {n: timing.ratio(s, ours) for n, s in samples.items() if s is not ours},
        "skipped": {} if "numpy" in kept else {"numpy": "it has no such function"},
    })  # fmt: skip


# --- report ---------------------------------------------------------------------------------------


def report(data: dict[str, Any]) -> str:
    """Geometric means by family, size and dtype, and what is below half of PyTorch's speed."""
    shown = data["peers"]
    head = ["operators", "cases", *(f"× {tables.NAMES[p]}" for p in shown)]
    rows = [_row(f"**{what}**" if what == "all" else what, of, shown) for what, of in _groups(data)]
    parts = [tables.table(head, rows, left=1)]
    slow = sorted(_slow(data), key=lambda c: c["ratio"]["torch"])
    if slow:
        lines = [
            [c["op"], c["dtype"], str(c["size"]), f"{c['ratio']['torch']:.2f}", reason(c)]
            for c in slow
        ]
        title = [f"below {BELOW} × PyTorch", "dtype", "elements", "× PyTorch", "reason"]
        parts.append(tables.table(title, lines, left=2))
    notes = [f"{THREADS} threads each; × is how many times as long the peer takes."]
    notes += [f"No figures: {name} ({why})." for name, why in data.get("failed", {}).items()]
    notes += [f"Skipped: {tables.NAMES[p]} ({why})." for p, why in data["skipped"].items()]
    return "\n\n".join([*parts, "\n".join(f"- {line}" for line in notes)])


def _groups(data: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    for key in ("kind", "size", "dtype"):
        by: defaultdict[Any, list[Any]] = defaultdict(list)
        for case in data["cases"]:
            by[case[key]].append(case)
        for what, of in sorted(by.items()):
            yield f"{what} elements" if key == "size" else str(what), of
    yield "all", data["cases"]


def _row(what: str, of: list[Any], shown: list[str]) -> list[str]:
    means = [_mean(of, peer) for peer in shown]
    return [what, str(len(of)), *(tables.NO_FIGURE if m is None else f"{m:.2f}" for m in means)]


def _mean(of: list[Any], peer: str) -> float | None:
    ratios = [c["ratio"][peer] for c in of if peer in c["ratio"]]
    return timing.geomean(ratios) if ratios else None


def _slow(data: dict[str, Any]) -> list[Any]:
    return [c for c in data["cases"] if c["ratio"].get("torch", 1.0) < BELOW]


def reason(case: dict[str, Any]) -> str:
    """Why a case is slow: of its operator, its family, or its size or dtype; "" if unknown."""
    is_small = "small" if case["size"] <= SIZES[1] else ""
    for of in (case["op"], case["op"].partition(".")[0], case["kind"], ""):
        for what in (case["dtype"], is_small, ""):
            if (of, what) in REASONS and (of or what):
                return REASONS[of, what]
    return ""


def failures(data: dict[str, Any]) -> list[str]:
    """The goals that are missed, and slow cases without a reason."""
    found = []
    for peer, goal in GOAL.items():
        mean = _mean(data["cases"], peer)
        if mean is not None and mean < goal:
            found.append(f"{mean:.2f} times as fast as {tables.NAMES[peer]}, below {goal}")
    unknown = [c["name"] for c in _slow(data) if not reason(c)]
    if unknown:
        found.append(f"{len(unknown)} slow cases have no reason, such as {unknown[0]}")
    return found
