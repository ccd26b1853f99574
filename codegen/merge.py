"""How the overloads of one public name become one function: its parameters and the choice.

Presence decides first, type second. A name with one overload needs no entry here; `load` of a new
overload without one is an error that names this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IS_SEQUENCE = "isinstance({}, (tuple, list))"


@dataclass(frozen=True)
class Case:
    """Call `overload` when `condition` holds ("" for the last case, which always does).

    arguments: schema name -> expression, where it is not the parameter of that name.
    """

    condition: str
    overload: str
    arguments: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Merge:
    """parameters: behind self, before `out` and options. preamble: lines ahead of the cases.

    out: overload and arguments of the one out form, where the cases have none of their own.
    stub: the typed signatures, where those of the schemas do not say what is accepted.
    """

    parameters: tuple[str, ...]
    cases: tuple[Case, ...]
    preamble: tuple[str, ...] = ()
    out: Case | None = None
    stub: tuple[tuple[str, ...], ...] = ()


def _reduction(base: str) -> Merge:
    cases = (
        Case("dim is None and not keepdim", base),
        Case("", f"{base}.dim_IntList" if base == "sum" else f"{base}.dim"),
    )
    return Merge(("dim=None", "keepdim=False", "*", "dtype=None"), cases)


def _logical(base: str) -> Merge:
    cases = (
        Case("dim is None and not keepdim", base),
        Case(f"dim is None or {IS_SEQUENCE.format('dim')}", f"{base}.dims"),
        Case("", f"{base}.dim"),
    )
    return Merge(("dim=None", "keepdim=False"), cases)


def _squeeze(base: str) -> Merge:
    cases = (
        Case("dim is None", base),
        Case(IS_SEQUENCE.format("dim"), f"{base}.dims"),
        Case("", f"{base}.dim"),
    )
    return Merge(("dim=None",), cases)


def _division(base: str) -> Merge:
    cases = (Case("rounding_mode is None", f"{base}.Tensor"), Case("", f"{base}.Tensor_mode"))
    return Merge(("other", "*", "rounding_mode=None"), cases)


# The second argument of `to` is a dtype behind a device and non_blocking behind anything else.
# Source: torch/csrc/autograd/python_variable_methods.cpp, parse_to_conversion.
_TO_PREAMBLE = (
    "if target:",
    "    first, *rest = target",
    "    if type(first) is _dtype:",
    "        dtype = first",
    '    elif hasattr(first, "_keys"):',
    "        other = first",
    "    else:",
    "        device = first",
    "        if rest:",
    "            dtype, *rest = rest",
    "    if rest:",
    "        non_blocking, *rest = rest",
    "    if rest:",
    "        copy, *rest = rest",
    "    if rest:",
    '        raise _too_many("to", 4)',
)

_TO_OPTIONS = (
    "non_blocking: bool = False", "copy: bool = False", "*",
    "memory_format: memory_format | None = None",
)  # fmt: skip
_TO_STUB = (
    ("self", "dtype: dtype", *_TO_OPTIONS),
    (
        "self",
        "device: device | str | int | None = None",
        "dtype: dtype | None = None",
        *_TO_OPTIONS,
    ),
    ("self", "other: Tensor", *_TO_OPTIONS),
)

# As `emit_functions.varargs`, with a dtype as a third thing that the one argument may be.
_VIEW_PREAMBLE = (
    "if len(args) == 1:",
    "    (size,) = args",
    "    if type(size) is int:",
    "        size = args",
    "    elif type(size) is _dtype:",
    "        dtype = size",
    "    elif type(size) is not tuple:",
    "        size = _sequence(size)",
    "elif args:",
    "    size = args",
    "elif size is None and dtype is None:",
    '    raise _not_given("view", "size")',
)

MERGES: dict[str, Merge] = {
    "all": _logical("all"),
    "any": _logical("any"),
    "arange": Merge(
        ("start=None", "end=None", "step=None"),
        (
            Case("end is None", "arange", {"end": "start"}),
            Case("step is None", "arange.start"),
            Case("", "arange.start_step"),
        ),
        preamble=(
            "if start is None or end is None:",
            "    start, end = (end, None) if start is None else (start, None)",
            "    if start is None or step is not None:",
            '        raise _not_given("arange", "end")',
        ),
        out=Case(
            "",
            "arange.start_out",
            {
                "start": "0 if end is None else start",
                "end": "start if end is None else end",
                "step": "1 if step is None else step",
            },
        ),
    ),
    "div": _division("div"),
    "div_": _division("div_"),
    "eye": Merge(
        ("n", "m=None"),
        (Case("m is None", "eye"), Case("", "eye.m")),
        out=Case("", "eye.m_out", {"m": "n if m is None else m"}),
    ),
    "fill_": Merge(
        ("value",),
        (Case('hasattr(value, "_keys")', "fill_.Tensor"), Case("", "fill_.Scalar")),
    ),
    "mean": _reduction("mean"),
    "movedim": Merge(
        ("source", "destination"),
        (Case(IS_SEQUENCE.format("source"), "movedim.intlist"), Case("", "movedim.int")),
    ),
    "set_": Merge(
        ("source=None", "storage_offset=None", "size=None", "stride=()"),
        (
            Case("source is None", "set_"),
            Case("storage_offset is not None", "set_.source_Storage_storage_offset"),
            Case('hasattr(source, "_keys")', "set_.source_Tensor"),
            Case("", "set_.source_Storage"),
        ),
    ),
    "split": Merge(
        ("split_size", "dim=0"),
        (Case(IS_SEQUENCE.format("split_size"), "split.sizes"), Case("", "split.Tensor")),
    ),
    "squeeze": _squeeze("squeeze"),
    "squeeze_": _squeeze("squeeze_"),
    "sum": _reduction("sum"),
    "to": Merge(
        (
            "*target", "dtype=None", "device=None", "other=None", "non_blocking=False",
            "copy=False", "memory_format=None",
        ),  # fmt: skip
        (
            Case("other is not None", "to.other"),
            Case("device is None and dtype is not None", "to.dtype"),
            Case("dtype is not None", "to.device"),
            Case("", "to.dtype_layout", {"layout": "None", "pin_memory": "None"}),
        ),
        preamble=_TO_PREAMBLE,
        stub=_TO_STUB,
    ),
    "view": Merge(
        ("*args", "size=None", "dtype=None"),
        (Case("dtype is not None", "view.dtype"), Case("", "view")),
        preamble=_VIEW_PREAMBLE,
        stub=(
            ("self", "size: Sequence[int]"),
            ("self", "*size: int"),
            ("self", "dtype: dtype"),
        ),
    ),
}  # fmt: skip
