"""Write frozen samples of PyTorch: `python -m tests.oracle.freeze_op_db`.

`tests/op_db/*.cases` are a few small cases of each overload and function, which the suite replays
without PyTorch. `gputensor/cli/pytorch.txt` has the names of PyTorch's overloads, for `gputensor
ops`.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import torch

import gputensor
from tests.op_db import frozen
from tests.op_db.cases import Case, Recorded, tensors_of, write

from . import op_db

# dtype -> (number of cases of an overload or function, greatest number of bytes of a case).
_LEAVES = {"float32": (6, 2048), "int64": (2, 512), "bfloat16": (2, 512), "complex64": (2, 512)}
_GRADIENTS = {"float64": (4, 2048), "complex128": (2, 1024)}
NAMES = Path(gputensor.__file__).parent / "cli" / "pytorch.txt"


def size(case: Case) -> int:
    found = [*tensors_of(case.args), *tensors_of(case.kwargs), *tensors_of(case.results)]
    found += [*tensors_of(case.after), *tensors_of(case.gradients), *tensors_of(case.cotangents)]
    return sum(len(x.data) for x in found if isinstance(x, Recorded))


def chosen(kind: str, dtypes: dict[str, tuple[int, int]]) -> list[Case]:
    """Return for each operator and dtype the smallest case, and larger ones within the limit."""
    made: list[Case] = []
    for dtype, (count, most) in dtypes.items():
        by_op: defaultdict[str, list[Case]] = defaultdict(list)
        for case in op_db.recording(kind, dtype):
            by_op[case.op].append(case)
        for cases in by_op.values():
            ordered = sorted(cases, key=size)
            small = [case for case in ordered if size(case) <= most] or ordered[:1]
            step = max(1, (len(small) - 1) / max(1, count - 1))
            picked = {min(round(i * step), len(small) - 1) for i in range(count)}
            made += [small[i] for i in sorted(picked) if size(small[i]) <= 1 << 15]
    return made


def overloads() -> list[str]:
    """Return `name`, or `name core`, for all overloads that the samples call or that are Core
    ATen."""
    core = set()
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::") and not full.startswith("aten::sym_"):
            base, _, rest = full.removeprefix("aten::").partition(".")
            try:
                found = getattr(getattr(torch.ops.aten, base), rest or "default")
            except AttributeError:  # no schema
                continue
            if torch.Tag.core in found.tags:
                core.add(full.removeprefix("aten::"))
    called = {case.op for dtype in _LEAVES for case in op_db.recording("leaves", dtype)}
    return [f"{name} core" if name in core else name for name in sorted(core | called)]


def names() -> str:
    """Return the text of `pytorch.txt`."""
    public = {case.op for case in op_db.recording("gradients", "float64")}
    version = torch.__version__.partition("+")[0]
    header = f"# Frozen from PyTorch {version} by `python -m tests.oracle.freeze_op_db`.\n"
    return header + "\n".join([*overloads(), *sorted(f"{name} public" for name in public)]) + "\n"


if __name__ == "__main__":
    about = {"torch": torch.__version__.partition("+")[0]}
    for kind, dtypes in (("leaves", _LEAVES), ("gradients", _GRADIENTS)):
        write(frozen.file(kind), chosen(kind, dtypes), about, preset=9)
    NAMES.write_text(names(), encoding="utf-8")
