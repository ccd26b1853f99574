"""Write the tables of promotion and iterator from PyTorch: `python -m tests.golden.freeze`.

Tests that read them need no PyTorch. Rows named by a number are worked examples; the others are
random layouts from a fixed seed.
"""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import torch

from gputensor.core import dtype as dt
from tests.golden.notation import HERE, parse, show
from tests.iterator.layouts import extent, random_broadcastable, random_layout, random_strides

ALL = dt.STORED
NUMBERS = ("True", "1", "1.5", "1j")

# (row, operator, operands, out). A tensor without strides is row-major; tensors with an offset, @0
# too, share one storage.
EXAMPLES = """
1 | add | f32(2,3) f32(2,3)s(1,2)
2 | add | f32(2,3)s(1,2) f32(2,3)
3 | add | f32(3) f32(2,3)s(1,2)
3 | add | f32(2,1) f32(2,3)s(1,2)
3 | add | f32(2,3)s(1,2) 1.5
4 | add | f32(2,1) f32(1,3)
5 | neg | f32(4,2,3)s(1,12,4)
6 | neg | f32(3,4)s(2,6)
7 | neg | f32(3,4)s(1,0)
8 | add | f32(2,3,4,5)s(60,1,15,3) f32(2,3,4,5)
8 | add | f32(2,3,4,5) f32(2,3,4,5)s(60,1,15,3)
9 | add | f32(3,1,1) f32(2,3,4,5)s(60,1,15,3)
9 | add | f32(1,3,1,1) f32(2,3,4,5)s(60,1,15,3)
10 | add | f32(2,1,4,5)s(20,1,5,1) f32(2,1,4,5)s(20,1,5,1)
11 | neg | f32(2,3,1,1)s(3,1,3,3)
12 | add | f32(2,3,1,1)s(3,1,3,3) f32(2,3,4,4)
13 | neg | f32(2,1,3)s(1,5,2)
14 | neg | f32(2,3)s(1,1)
14 | neg | f32(3,2)s(1,1)
15 | neg | f32(2,3)s(1,7)
15 | neg | f32(2,3)s(7,1)
16 | neg | f32(3,2,0)s(1,3,3)
17 | add | f32(0,3) f32(3)
17 | add | f32(0) f32(1)
17 | add | f32(3,0)s(1,3) f32(3,1)
18 | where | bool(2,3,4,5) f32(2,3,4,5)s(60,1,15,3) f32(2,3,4,5)s(60,1,15,3)
18 | addcmul | f32(2,3) f32(2,3)s(1,2) f32(2,3)s(1,2)
19 | add | f32(2,3)s(1,2) f64(2,3)
20 | eq | f32(2,3)s(1,2) f32(2,3)s(1,2)
21 | add | f32(2,3) f32(2,3) | f32(2,3)s(1,2)
22 | add | f32(2,3)s(1,2) f32(2,3)s(1,2) | f32(0)
23 | add | f32(2,3) f32(2,3) | f32(5)
24 | add | i32(2) f64()
24 | add | i32(2) f16()
24 | add | u8(2) 300
24 | add | bool(2) 1
24 | add | f16(2) bf16(2)
25 | add | c64(2) f64()
25 | add | c64(2) f64(2)
25 | add | f16(2) 1j
25 | add | u8(2) i8(2)
25 | add | u8(2) i8()
26 | add | i32(1) i64()
26 | add | i32(0) i64(1)
27 | div | i64(2) i64(2)
27 | sin | i64(2)
27 | floor_divide | i64(2) 1
28 | add | f32(2) f32(2) | i64(2)
28 | add | c64(2) c64(2) | f32(2)
28 | add | i64(2) i64(2) | bool(2)
29 | add | f32(2) f32(2) | f16(2)
29 | add | f32(2) f32(2) | f64(2)
29 | add | i64(2) i64(2) | u8(2)
30 | neg | f32(2) | f64(2)
31 | sin | i64(2) | f64(2)
31 | sin | i64(2) | i64(2)
32 | eq | f32(2,3) f32(2,3) | f32(2,3)s(1,2)
32 | eq | f32(2,3) f32(2,3) | u8(2,3)
33 | add_ | i64(3) 1.5
33 | div_ | i64(3) 1
33 | add_ | f32(3) f64(3)
34 | add_ | f32(3) f32(2,3)
35 | add_ | f32(2,3)s(3,0) 1
35 | add_ | f32(2,3)s(0,1) 1
35 | copy_ | f32(2,3)s(0,1) f32(3)
35 | fill_ | f32(2,3)s(0,1)
35 | zero_ | f32(2,3)s(0,1)
35 | add_ | f32(1,3)s(0,1) 1
36 | add | f32(5)@0 1 | f32(5)@1
36 | add | f32(3,3)s(1,3)@0 1 | f32(3,3)@0
37 | add | f32(5)@0 1 | f32(5)@0
37 | add | f32(5)@0 1 | f32(5)@5
37 | add | f32(5)s(2)@0 1 | f32(5)s(2)@1
37 | add | f32(5)s(2)@0 1 | f32(5)@0
37 | add_ | f32(3,3)s(1,1) 1
38 | add | f32(2,3) f32(2,4)
38 | copy_ | f32(3) f32(2,3)
38 | copy_ | f32(2,3) f32(4)
""".strip().splitlines()

REDUCTIONS = """
39 | sum | f32(2,3,4,5)s(60,1,15,3) | 1 | False
39 | sum | f32(2,3,4,5)s(60,1,15,3) | 2,3 | True
39 | sum | f32(2,3)s(1,2) | 0 | True
40 | sum | f32(0,3) | 0 | False
40 | sum | f32() |  | False
""".strip().splitlines()

# Rows 1 to 13 of the table of memory formats.
GEOMETRIES = """
f32(1,3)s(99,1) f32(3,1)s(1,99) f32(1)s(5) f32(0,3)s(7,9) f32(2,0,3)s(0,0,0)
f32(2,1,4,5)s(20,20,5,1) f32(2,1,4,5)s(20,1,5,1) f32(2,3,1,1)s(3,1,1,1) f32(2,3,1,1)s(3,1,3,3)
f32(0,3,4,5)s(60,20,5,1) f32(0,3,4,5)s(60,1,15,3)
f32(2,3)s(1,2) f32(2,3)s(1,4) f32(2,3)s(0,1) f32(1,3)s(0,1)
f32(3,0,2)s(1,3,3) f32(3,4)s(2,6) f32(2,3,2,5)s(60,1,30,3)
f32(2,3,4,5)s(60,1,15,3) f32(2,1,4,5)s(60,1,15,3) f32(2,3,4,5)s(20,0,5,1) f32()s()
f32(2,3,4,5,6)s(360,1,90,18,3) f32(2,1,4,5,6)s(120,1,30,6,1)
""".split()

# What PyTorch's message must hold for each kind of error.
ERRORS = {
    "cast": "can't be cast",
    "shape": "doesn't match the broadcast shape",
    "broadcast": "must match the size of tensor",
    "internal": "more than one element of the written-to tensor",
    "partial": "some elements of the input tensor and the written-to tensor refer",
    "dtype": "Found dtype",
    "promotion": "is not supported, attempted to promote",
}


def of_torch(t: torch.Tensor) -> str:
    element = next(d for d in ALL if getattr(torch, d.name) is t.dtype)
    return show(element, tuple(t.shape), t.stride())


def tensors(texts: list[str]) -> list:
    """The operands; those with an offset in one storage."""
    shared = torch.ones(64)
    made = []
    for text in texts:
        x = parse(text)
        if hasattr(x, "sizes"):
            base = shared
            if x.offset is None:
                base = torch.ones(extent(x.sizes, x.strides), dtype=getattr(torch, x.dtype.name))
            x = base.as_strided(x.sizes, x.strides, x.offset or 0)
        made.append(x)
    return made


def run(op: str, operands: list[str], out: str | None) -> str:
    given = tensors(operands + ([out] if out else []))
    options = {"out": given.pop()} if out else {}
    if op == "fill_":
        given.append(1)
    function = getattr(torch.Tensor if op.endswith("_") else torch, op)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # resizing a non-empty output is deprecated
            return of_torch(function(*given, **options))
    except RuntimeError as error:
        message = str(error)
        kinds = [k for k, m in ERRORS.items() if m in message]
        assert len(kinds) == 1, message
        return f"error {kinds[0]}"


def iterator_rows() -> list[str]:
    lines = []
    for row in EXAMPLES:
        number, op, operands, *out = row.split(" | ")
        out_text = out[0] if out else ""
        lines.append(
            f"{number} | {op} | {operands} | {out_text} | "
            f"{run(op, operands.split(), out_text or None)}"
        )
    rng = random.Random(20)
    for _ in range(150):
        layouts = [random_layout(rng)]
        op = rng.choice(("neg", "add", "add", "where"))
        while len(layouts) < {"neg": 1, "add": 2, "where": 3}[op]:
            shape = layouts[0][0]
            same = (shape, random_strides(rng, shape))
            layouts.append(rng.choice((same, random_broadcastable(rng, shape))))
        texts = [
            show(dt.bool_ if op == "where" and i == 0 else dt.float32, *l)
            for i, l in enumerate(layouts)
        ]
        lines.append(f"random | {op} | {' '.join(texts)} |  | {run(op, texts, None)}")
    return lines


def reduction_rows() -> list[str]:
    lines = []
    for row in REDUCTIONS:
        _number, op, operand, dims, keepdim = row.split(" | ")
        over = tuple(int(d) for d in dims.split(",") if d) or None
        result = getattr(torch, op)(tensors([operand])[0], over, keepdim=keepdim == "True")
        lines.append(f"{row} | {of_torch(result)}")
    return lines


def geometry_rows() -> list[str]:
    rng = random.Random(21)
    texts = GEOMETRIES + [show(dt.float32, *random_layout(rng)) for _ in range(150)]
    lines = []
    for text in texts:
        x = parse(text)
        t = torch.ones(extent(x.sizes, x.strides)).as_strided(x.sizes, x.strides)
        flags = (
            t.is_contiguous(), t.is_contiguous(memory_format=torch.channels_last),
            t.is_contiguous(memory_format=torch.channels_last_3d),
            torch.ops.aten.is_non_overlapping_and_dense(t),
        )  # fmt: skip
        shown = "".join("CLDN"[i] if flag else "-" for i, flag in enumerate(flags))
        lines.append(f"{text} | {shown} | {of_torch(t.clone()).partition('s')[2]}")
    return lines


def result_type(a: str, b: str) -> str:
    x, y = (tensors([t])[0] for t in (a, b))
    try:
        element = torch.result_type(x, y)
    except RuntimeError:
        return "-"
    return next(d.short for d in ALL if getattr(torch, d.name) is element)


def promotion_rows() -> list[str]:
    vectors, scalars = [f"{d.short}(2)" for d in ALL], [f"{d.short}()" for d in ALL]
    lines = []
    for default in (dt.float32, dt.float64, dt.float16, dt.bfloat16):
        torch.set_default_dtype(getattr(torch, default.name))
        # Only numbers ask for the default dtype.
        columns = [*vectors, *scalars, *NUMBERS] if default is dt.float32 else list(NUMBERS)
        lines.append(f"{default.short} | columns | {' '.join(columns)}")
        for row in vectors + scalars:
            lines.append(
                f"{default.short} | {row} | {' '.join(result_type(row, c) for c in columns)}"
            )
    torch.set_default_dtype(torch.float32)
    for a in ALL:
        allowed = [
            b.short for b in ALL if torch.can_cast(getattr(torch, a.name), getattr(torch, b.name))
        ]
        lines.append(f"can_cast | {a.short} | {' '.join(allowed)}")
    return lines


HEADER = """\
# Frozen from PyTorch {version} by `python -m tests.golden.freeze`; do not edit.
# {columns}
"""


def write(name: str, columns: str, lines: list[str]) -> None:
    version = torch.__version__.partition("+")[0]
    text = HEADER.format(version=version, columns=columns) + "\n".join(lines) + "\n"
    Path(HERE / name).write_text(text)


def main() -> None:
    warnings.filterwarnings("ignore", "ComplexHalf support is experimental")
    write(
        "promotion.txt",
        "default dtype | operand | result_type with each column's operand",
        promotion_rows(),
    )
    write("iterator.txt", "example | operator | operands | out | result", iterator_rows())
    write(
        "reductions.txt", "example | operator | operand | dims | keepdim | result", reduction_rows()
    )
    write(
        "geometry.txt",
        "layout | Contiguous, channels Last, 3-D, Non-overlapping and dense | clone's strides",
        geometry_rows(),
    )


if __name__ == "__main__":
    main()
