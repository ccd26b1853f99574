"""Record and replay PyTorch's samples of its operators: `python -m tests.oracle.op_db`.

    python -m tests.oracle.op_db                      each overload: agrees, refuses or differs
    python -m tests.oracle.op_db --only gather sort   overloads or op_db's operators of these names
    python -m tests.oracle.op_db --core --dtype bfloat16
    python -m tests.oracle.op_db --gradients          public functions and their gradients

A recording is made once per dtype (minutes) and kept in the user's cache.
"""

from __future__ import annotations

import os
import random
import sys
import types
import unittest
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.measurement.timing import progress
from tests.op_db import report
from tests.op_db.cases import NUMPY, Case, Named, Recorded, read, tensors_of, write

DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex64",
    "int64",
    "int32",
    "uint8",
    "bool",
)

# Results of these operators are uninitialised.
_UNSPECIFIED = ("empty", "new_empty")
_MOST_OF_ONE = 24  # the most distinct calls of an overload from one entry of op_db
_MOST = 150  # the most calls of an overload from all entries
_MOST_BYTES = 1 << 18  # the greatest size of a tensor
_WHOLE_STORAGE = 4096  # the most bytes of a storage that are recorded whole


def op_db() -> list[Any]:
    """Return PyTorch's operator database. It is imported late, because that takes seconds."""
    # PyTorch's test tools import it for assertions that are not used here.
    stand_in = types.ModuleType("expecttest")
    stand_in.TestCase = unittest.TestCase  # type: ignore[attr-defined]
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db

    # samples of partial_views read memory next to their input, which a copy does not have
    return [op for op in op_db if op.variant_test_name != "partial_views"]


# --- recording ------------------------------------------------------------------------------------


class NotRecordable(Exception):
    """A call has a value that a file of cases cannot contain."""


def snapshot(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        kind = type(value).__name__
        return Named(kind, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return Named("device", "cpu")
    if isinstance(value, torch.Generator):
        return None
    if isinstance(value, (torch.Size, range)):
        return list(value)
    if type(value) is tuple:
        return tuple([snapshot(x) for x in value])
    if isinstance(value, (list, tuple)):
        return [snapshot(x) for x in value]
    if isinstance(value, dict):
        return {name: snapshot(x) for name, x in value.items()}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or value is Ellipsis:
        return value
    if isinstance(value, (bool, int, float, complex, str, slice)):
        return value
    raise NotRecordable(type(value).__name__)


def _tensor(x: torch.Tensor) -> Recorded:
    if x.layout is not torch.strided or type(x) not in (torch.Tensor, torch.nn.Parameter):
        raise NotRecordable(str(x.layout))
    x, is_conj = x.detach(), x.is_conj()
    name = str(x.dtype).removeprefix("torch.")
    if name not in NUMPY:
        raise NotRecordable(name)
    if x.is_neg():
        x = x.resolve_neg()
    if x._is_zerotensor():
        x = x.clone()
    x = x.conj() if is_conj else x
    extent = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride())) if x.numel() else 0
    if not x.storage_offset() and x.untyped_storage().nbytes() <= _WHOLE_STORAGE:
        extent = x.untyped_storage().nbytes() // x.itemsize  # memory that as_strided may read
    flat = x.as_strided((extent,), (1,), x.storage_offset())
    if flat.nbytes > _MOST_BYTES:
        raise NotRecordable("many elements")
    data = flat.contiguous().view(torch.uint8).numpy().tobytes() if extent else b""
    return Recorded(name, tuple(x.shape), tuple(x.stride()), data, is_conj)


def rebuild(value: Any) -> Any:
    """Convert a snapshot to PyTorch's values."""
    if isinstance(value, Recorded):
        dtype = getattr(torch, value.dtype)
        flat = torch.frombuffer(bytearray(value.data), dtype=dtype) if value.data else None
        if flat is None:
            return torch.empty_strided(value.sizes, value.strides, dtype=dtype)
        made = flat.as_strided(value.sizes, value.strides)
        return made.conj() if value.is_conj else made
    if isinstance(value, Named):
        return torch.device("cpu") if value.kind == "device" else getattr(torch, value.name)
    if isinstance(value, (list, tuple)):
        return type(value)([rebuild(x) for x in value])
    if isinstance(value, dict):
        return {name: rebuild(x) for name, x in value.items()}
    return value


class Recorder(TorchDispatchMode):
    """Records the leaf calls in its block, one of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: list[Case] = []
        self.of = ""
        self._keys: set[str] = set()
        self._counts: Counter[Any] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.name().removeprefix("aten::")
        room = self._counts[name] < _MOST and self._counts[name, self.of] < _MOST_OF_ONE
        case = None
        if room and func.namespace == "aten":
            case = self._before(func, name, args, kwargs)
        result = func(*args, **kwargs)
        if case is not None:
            self._after(case, func, args, kwargs, result)
        return result

    def _before(self, func: Any, name: str, args: Any, kwargs: Any) -> Case | None:
        try:
            case = Case(
                name, [snapshot(x) for x in args], snapshot(kwargs), self.of,
                is_core=torch.Tag.core in func.tags,
            )  # fmt: skip
        except NotRecordable:
            return None
        return None if case.key() in self._keys else case

    def _after(self, case: Case, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        try:
            case.results = snapshot(list(result) if isinstance(result, (tuple, list)) else result)
            for number, argument in enumerate(func._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    by_name = argument.kwarg_only or number >= len(args)
                    name = argument.name if by_name else str(number)
                    case.after[name] = snapshot(kwargs[name] if by_name else args[number])
            case.is_random = (
                torch.Tag.nondeterministic_seeded in func.tags
                or case.op.startswith(_UNSPECIFIED)
                or not _gives_again(func, case)
            )
        except NotRecordable:
            return
        self._keys.add(case.key())
        self._counts[case.op] += 1
        self._counts[case.op, self.of] += 1
        self.cases.append(case)


def _gives_again(func: Any, case: Case) -> bool:
    try:
        again = func(*rebuild(case.args), **rebuild(case.kwargs))
        found = snapshot(list(again) if isinstance(again, (tuple, list)) else again)
    except Exception:
        return False
    pairs = list(zip(tensors_of(case.results), tensors_of(found)))
    return all(
        np.allclose(a.elements(), b.elements(), rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in pairs
        if a.sizes == b.sizes
    )


def samples(op: Any, dtype: torch.dtype, requires_grad: bool = False) -> Iterator[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    yield from op.sample_inputs("cpu", dtype, requires_grad=requires_grad)


def _element(op: Any, dtype: str) -> torch.dtype | None:
    """Return the dtype of an operator's samples. If float32 is requested and not supported, return
    the first supported dtype."""
    wanted = [dtype] if dtype != "float32" else ["float32", "int64", "int32", "bool", "complex64"]
    return next((e for name in wanted if (e := getattr(torch, name)) in op.dtypes), None)


def record_leaves(dtype: str) -> list[Case]:
    recorder = Recorder()
    for op in progress(op_db(), lambda op: op.name):
        element = _element(op, dtype)
        if element is None:
            continue
        recorder.of = op.name
        try:
            for sample in samples(op, element):
                with recorder:
                    _call(op, sample)
        except Exception as error:  # an error of a sample that this build of PyTorch cannot run
            print(f"{op.name}: no more samples: {str(error).splitlines()[:1]}", file=sys.stderr)
    return recorder.cases


def _call(op: Any, sample: Any) -> Any:
    return op(sample.input, *sample.args, **sample.kwargs)


# Functions whose first two arguments have another order in op_db than for users.
_SWAPPED = (
    "einsum", "nn.functional.embedding", "nn.functional.embedding_bag", "polygamma",
    "special.polygamma", "where",
)  # fmt: skip
# A function that op_db defines under the name of an operator.
_NOT_PUBLIC = ("max_pool2d_with_indices_backward",)


def _arguments(op: Any, sample: Any) -> list[Any]:
    """Return the arguments in the order of users."""
    given = [sample.input, *sample.args]
    return [given[1], given[0], *given[2:]] if op.name in _SWAPPED else given


# --- gradients ------------------------------------------------------------------------------------

_PER_NAME = 24


def record_gradients(dtype: str) -> list[Case]:
    found: list[Case] = []
    counts: Counter[str] = Counter()
    element = getattr(torch, dtype)
    for op in progress(op_db(), lambda op: op.name):
        if op.name in _NOT_PUBLIC or not op.supports_autograd:
            continue
        if element not in op.supported_backward_dtypes("cpu"):
            continue
        try:
            for sample in samples(op, element, requires_grad=True):
                if counts[op.name] >= _PER_NAME:
                    break
                case = _differentiated(op, sample)
                if case is not None:
                    counts[op.name] += 1
                    found.append(case)
        except Exception as error:
            print(f"{op.name}: no more samples: {str(error).splitlines()[:1]}", file=sys.stderr)
    return found


def _differentiated(op: Any, sample: Any) -> Case | None:
    """Return the call and its gradients; None if there are none, or if a file cannot contain
    them."""
    leaves: list[torch.Tensor] = []
    try:
        args = _marked(_arguments(op, sample), leaves)
        kwargs = _marked(sample.kwargs, leaves)
    except NotRecordable:
        return None
    torch.manual_seed(0)
    result = _call(op, sample)
    results = [x for x in _flat(result) if isinstance(x, torch.Tensor)]
    case = Case(op.name, args, kwargs, op.name, is_random=_is_random(op))
    differentiable = [x for x in results if x.requires_grad]
    if not leaves or not differentiable:
        return None
    cotangents = _cotangents(op, sample, result, differentiable)
    grads = torch.autograd.grad(differentiable, leaves, cotangents, allow_unused=True)
    try:
        case.results = snapshot([x.detach() for x in results])
        case.cotangents = snapshot(list(cotangents))
        case.gradients = snapshot([None if g is None else g.resolve_conj() for g in grads])
    except NotRecordable:
        return None
    case.after = {"differentiable": [x.requires_grad for x in results]}
    return case


def _is_random(op: Any) -> bool:
    return "dropout" in op.name or op.name in ("bernoulli", "normal", "nn.functional.rrelu")


def _marked(value: Any, leaves: list[torch.Tensor]) -> Any:
    """Return the snapshot with a mark at tensors that require gradients."""
    if isinstance(value, torch.Tensor) and value.requires_grad:
        leaves.append(value)
        return {"leaf": snapshot(value)}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([_marked(x, leaves) for x in value])
    if isinstance(value, dict):
        return {name: _marked(x, leaves) for name, x in value.items()}
    return snapshot(value)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return [x for item in value for x in _flat(item)]
    return [value]


def _cotangents(op: Any, sample: Any, result: Any, outputs: list[torch.Tensor]) -> list[Any]:
    """Return random cotangents. For results that are determined up to a phase, use the cotangents
    of a function that does not depend on the phase."""
    process = sample.output_process_fn_grad
    generator = torch.Generator().manual_seed(0)

    def like(x: torch.Tensor) -> torch.Tensor:
        return torch.randn(x.shape, dtype=x.dtype, generator=generator)

    looked_at = [x for x in _flat(process(result)) if isinstance(x, torch.Tensor)]
    looked_at = [x for x in looked_at if x.requires_grad]
    if len(looked_at) == len(outputs) and all(x is y for x, y in zip(looked_at, outputs)):
        return [like(x) for x in outputs]
    found = torch.autograd.grad(
        looked_at, outputs, [like(x) for x in looked_at], allow_unused=True, retain_graph=True
    )
    return [torch.zeros_like(x) if g is None else g for x, g in zip(outputs, found)]


# --- the cache ------------------------------------------------------------------------------------


def cache_file(kind: str, dtype: str) -> Path:
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    version = torch.__version__.partition("+")[0]
    return home / "gputensor" / "op_db" / f"{kind}-{dtype}-torch{version}.cases"


def recording(kind: str, dtype: str, again: bool = False) -> list[Case]:
    """Return the cases of `leaves` or `gradients`, from the cache or from a new recording."""
    path = cache_file(kind, dtype)
    if again or not path.exists():
        make = {"leaves": record_leaves, "gradients": record_gradients}[kind]
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = make(dtype)
        torch.set_num_threads(threads)
        write(path, made, {"torch": torch.__version__})
    return read(path)[1]


# --- command --------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    parser = report.options("python -m tests.oracle.op_db")
    parser.add_argument("--dtype", nargs="+", choices=(*DTYPES, "complex128"))
    parser.add_argument("--record", action="store_true", help="record again")
    arguments = parser.parse_args(argv)
    kind = "gradients" if arguments.gradients else "leaves"
    for dtype in arguments.dtype or ["float64" if arguments.gradients else "float32"]:
        cases = recording(kind, dtype, arguments.record)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report.run(cases, arguments, f"recorded_{kind}", dtype, progress)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
