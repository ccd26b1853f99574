"""The C++ of a program: the functors of its steps, and the loops over a tile around them."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ..core.dtype import bool_, dtype
from ..kernels import cpu as cpu_kernels
from ..kernels.cuda import chain_source, module, variants
from .chain import Chain, Instruction
from .cuda_body import Written

# What a step is: of elements, by functors or by NumPy's inner loop; of a row, which has one of it;
# and the sum of a whole run of memory.
LOOP, UFUNC, REDUCE, ONCE, UFUNC_ONCE, SUM = "loop", "ufunc", "reduce", "once", "ufunc once", "sum"
OF_ROWS = (REDUCE, ONCE, UFUNC_ONCE, SUM)
# Elements of a tile.
TILE = 1 << 11


class Unwritten(Exception):
    """An operator has no functor."""


class Writer:
    """Writes the text of a program.

    kinds, stage: of each of its values; inner: the bytes between elements of what it stores and
    reads; kept: values that lie somewhere between two loops. place: of what lies outside, the
    operand's number; scratch, rows: what lies in the scratch, an element or a row has one of it.
    packing: of the numbers; numpy: steps that are NumPy's, in the order of their calls.
    """

    __slots__ = (
        "chain", "kinds", "stores", "inputs", "inner", "stage", "kept", "place", "scratch", "rows",
        "apart", "packing", "numpy", "functors", "lines", "families",
    )  # fmt: skip

    chain: Chain
    kinds: dict[int, str]
    stores: list[int]
    inputs: list[int]
    inner: list[int]
    stage: dict[int, int]
    kept: list[int]
    place: dict[int, int]
    scratch: list[int]
    rows: list[int]
    apart: list[int]

    def __init__(
        self, chain: Chain, kinds: dict[int, str], stores: list[int], inputs: list[int],
        inner: list[int], stage: dict[int, int], kept: list[int],
    ) -> None:  # fmt: skip
        self.chain, self.kinds, self.stores, self.inputs = chain, kinds, stores, inputs
        self.inner, self.stage, self.kept = inner, stage, kept
        self.place = {x: k for k, x in enumerate((*stores, *inputs))}
        # A loop of several steps takes elements that lie apart one by one; alone, in vectors.
        self.apart = [x for x in inputs if self._step(x) not in (0, self._size(x))]
        self.rows = [n for n in kept if kinds[n] in OF_ROWS]
        self.scratch = [n for n in kept if n not in self.rows and n not in stores] + self.apart
        self.packing: list[Any] = []
        self.numpy: list[int] = []
        self.functors: list[str] = []
        self.lines: list[str] = []
        self.families: set[str] = set()

    def text(self) -> str:
        for x in self.apart:
            self._together(x)
        for stage in range(max(self.stage.values()) + 1):
            mine = [n for n, of in self.stage.items() if of == stage]
            together = [n for n in mine if self.kinds[n] == LOOP]
            if together:
                self._loop(together, False)
            for n in mine:
                kind = self.kinds[n]
                if kind == ONCE:
                    self._loop([n], True)
                elif kind in (REDUCE, SUM):
                    self._reduction(n)
                elif kind != LOOP:
                    self._numpy_call(n)
        for n in self.stores:
            if n in self.rows:
                to = f"*({self._kind(n)}_any*)({self._outside(n)})"
                row = f"u{self.rows.index(n)}[r]"
                self.lines.append(f"  for (i64 r = 0; r < rows; ++r) {to} = {row};")
        return self._around()

    def _around(self) -> str:
        """The text of kernels/cpu/chain.cpp around it."""
        first, second, third = _parts()
        composed = module.composed(sorted(self.families), "\n".join(self.functors))
        types = {self._kind(n) for n in (*self.inputs, *self.stage)}
        sums = [n for n in self.stage if self.kinds[n] == SUM]
        macros = {
            "OPERANDS": len(self.place), "INNER": ", ".join(map(str, self.inner)),
            "IN_SCRATCH": len(self.scratch), "OF_ROW": len(self.rows), "HAS_SUMS": int(bool(sums)),
        }  # fmt: skip
        return "\n".join([
            first, composed.partition(module.BODY)[0],
            *[f"#define {name} {of}" for name, of in macros.items()],
            f"static const i64 TILE = {TILE};",
            *[f"typedef {of} {of}_any __attribute__((aligned(1)));" for of in sorted(types)],
            second,
            "static int tile(char* const* p, const value_slot* given, const i64* s, i64 rows,",
            "                i64 cols, i64 most, char* scratch, void* const* numpy) {",
            f"  value_slot n[{max(1, len(self.packing))}];",
            f"  for (int k = 0; k < {len(self.packing)}; ++k) n[k] = given[k];",
            "  int odd = 0;",
            *[f"  {of}* u{k} = ({of}*)(scratch + 8 * (IN_SCRATCH * most + {k} * TILE));"
              for k, of in enumerate(map(self._kind, self.rows))],
            *self.lines, "  return odd;", "}", *(self._sums(sums) if sums else ()), third,
        ])  # fmt: skip

    # --- where values are -------------------------------------------------------------------------

    def _kind(self, n: int) -> str:
        return variants.storage(self.chain.geometry(n).dtype)

    def _size(self, n: int) -> int:
        return self.chain.geometry(n).dtype.itemsize

    def _step(self, x: int) -> int:
        """The bytes from one element to the next of what lies outside."""
        return self.inner[self.place[x]]

    def _instruction(self, n: int) -> Instruction:
        return self.chain.instructions[n - len(self.chain.inputs)]

    def _outside(self, x: int) -> str:
        return f"p[{self.place[x]}] + r * s[{self.place[x]}]"

    def _at(self, x: int) -> str:
        """The address of a value's row r."""
        if x in self.scratch:
            number = self.scratch.index(x)
            return f"scratch + 8 * {number} * most + r * cols * {self._size(x)}"
        return f"(char*)u{self.rows.index(x)}" if x in self.rows else self._outside(x)

    # --- loops ------------------------------------------------------------------------------------

    def _together(self, x: int) -> None:
        """What brings elements together that lie apart."""
        kind = self._kind(x)
        self.lines += [
            "  for (i64 r = 0; r < rows; ++r) {",
            f"    {kind}* to = ({kind}*)({self._at(x)});",
            f"    const char* from = {self._outside(x)};", "#pragma GCC ivdep",
            "    for (i64 i = 0; i < cols; ++i)",
            f"      to[i] = *({kind}_any*)(from + i * {self._step(x)});", "  }",
        ]  # fmt: skip

    def _loop(self, wanted: list[int], is_once: bool) -> None:
        """A loop of these values over a tile's elements, or over its rows."""
        steps = {n: self._instruction(n) for n in wanted}
        reads = list(dict.fromkeys(
            [x for step in steps.values() for x in step.operands if x >= 0 and x not in steps]
        ))  # fmt: skip
        kept = [n for n in wanted if n in self.kept]
        checked = [n for n in wanted if has_bounds(self.chain, n)]
        results = [*kept, *[steps[n].operands[0] for n in checked]]
        name = f"loop{len(self.functors)}"
        self._functor(name, steps, reads, results, checked)
        head, body, given = [], [], []
        for k, x in enumerate(reads):
            kind, at = self._kind(x), self._at(x)
            if x in self.rows:
                given.append(f"u{self.rows.index(x)}[r]")
            elif is_once or x in self.place and self._step(x) == 0:
                head.append(f"const {kind} x{k} = *({kind}_any*)({at});")
                given.append(f"x{k}")
            else:
                head.append(f"const {kind}_any* x{k} = ({kind}_any*)({at});")
                given.append(f"x{k}[i]")
        body.append(f"const auto v = op::{name}::of({', '.join(['n', *given])});")
        values = [f"v.r{j}" if len(results) > 1 else "v" for j in range(len(results))]
        for j, (x, value) in enumerate(zip(kept, values)):
            if x in self.rows:
                body.append(f"u{self.rows.index(x)}[r] = {value};")
            else:
                kind = self._kind(x)
                head.append(f"{kind}_any* y{j} = ({kind}_any*)({self._at(x)});")
                body.append(f"y{j}[i] = {value};")
            if self.chain.geometry(x).dtype.is_floating_point:
                body.append(f"odd |= {value} != {value};")
        for x, value in zip(checked, values[len(kept) :]):
            low, high = _bounds(steps[x].what.result, self._kind(steps[x].operands[0]))
            body.append(f"odd |= !({value} {low}) | !({value} {high});")
        if not is_once:
            body = [
                "#pragma GCC ivdep", "for (i64 i = 0; i < cols; ++i) {",
                *["  " + line for line in body], "}",
            ]  # fmt: skip
        lines = ["    " + line for line in (*head, *body)]
        self.lines += ["  for (i64 r = 0; r < rows; ++r) {", *lines, "  }"]

    def _functor(
        self, name: str, steps: dict[int, Instruction], reads: list[int], results: list[int],
        checked: list[int],
    ) -> None:  # fmt: skip
        number = {x: k for k, x in enumerate((*reads, *steps))}
        part = Chain(
            self.chain.device, tuple([self.chain.geometry(x) for x in reads]), self.chain.scalars,
            tuple([
                Instruction(
                    step.what, tuple([number.get(x, x) for x in step.operands]), step.params
                )
                for step in steps.values()
            ]),
            tuple([number[x] for x in results]), walk=self.chain.walk,
        )  # fmt: skip
        body = Written(part, self.packing).body
        if body is None:
            raise Unwritten
        made = [
            step._replace(op=chain_source.BOUNDED) if n in checked else step
            for n, step in zip(steps, body.steps)
        ]
        self.families.update([step.family for step in made if step.family != "copy"])
        self.functors.append(chain_source.functor(body._replace(steps=tuple(made)), name))

    def _reduction(self, n: int) -> None:
        source, op = self._instruction(n).operands[0], self._instruction(n).what.loop
        kind, of = self._kind(source), f"of_row<{self._kind(source)}>"
        found = f"{of}::sum(x, cols)"
        if op in ("amax", "amin") and self.kinds[n] == REDUCE:
            found = f"{of}::extreme<{'true' if op == 'amin' else 'false'}>(x, cols, &odd)"
        elif op == "mean" and self.kinds[n] == REDUCE:
            found += f" / ({kind})cols"
        self.lines += [
            "  for (i64 r = 0; r < rows; ++r) {",
            f"    {kind}_any* x = ({kind}_any*)({self._at(source)});",
            f"    const {kind} v = {found};", f"    u{self.rows.index(n)}[r] = v;",
            "    odd |= v != v;", "  }",
        ]  # fmt: skip

    def _numpy_call(self, n: int) -> None:
        """A call of a ufunc's own loop: of each row, or of all that lie in the scratch."""
        number, size = 2 * len(self.numpy), self._size(n)
        self.numpy.append(n)
        values = (*self._instruction(n).operands, n)
        is_once = self.kinds[n] == UFUNC_ONCE
        is_apart = not is_once and any([x not in self.scratch for x in values])
        many = "rows" if is_once else "cols" if is_apart else "rows * cols"
        self.lines += [
            f"  for (i64 r = 0; r < {'rows' if is_apart else 1}; ++r) {{",
            f"    char* x[] = {{{', '.join(map(self._at, values))}}};",
            f"    const i64 many = {many}, steps[] = {{{', '.join([str(size)] * len(values))}}};",
            f"    ((void (*)(char**, const i64*, const i64*, void*))numpy[{number}])"
            f"(x, &many, steps, numpy[{number + 1}]);",
            "  }",
        ]

    def _sums(self, sums: list[int]) -> list[str]:
        """What is found of a run."""
        of = [(self._kind(n), self.rows.index(n)) for n in sums]
        members = [f"  {kind} s{k};" for k, (kind, _) in enumerate(of)]
        given = [f"    (({kind}*)to[{k}])[unit] = s{k};" for k, (kind, _) in enumerate(of)]
        return [
            "struct sums_found {", *members, "  void add(const sums_found& other) {",
            *[f"    s{k} += other.s{k};" for k in range(len(of))], "  }",
            "  void take(const char* scratch) {",
            *[f"    s{k} = *({kind}*)(scratch + 8 * TILE * (IN_SCRATCH + {at}));"
              for k, (kind, at) in enumerate(of)], "  }",
            "  void give(const i64* to, i64 unit) const {", *given, "  }", "};",
        ]  # fmt: skip


@cache
def _parts() -> list[str]:
    """kernels/cpu/chain.cpp, cut at its marks."""
    text = resources.files(cpu_kernels).joinpath("chain.cpp").read_text(encoding="utf-8")
    return re.split(r"^// === .*$", text, flags=re.MULTILINE)[1:]


def has_bounds(chain: Chain, n: int) -> bool:
    """Whether a step casts to an integer, whose range has an end."""
    what = chain.instructions[n - len(chain.inputs)].what
    if what.family != "copy" or what.result.is_floating_point or what.result is bool_:
        return False
    return bool(what.kinds[0].is_floating_point)


def _bounds(of: dtype, kind: str) -> tuple[str, str]:
    """What a number, of a type of the text, has to be for C to cast it as NumPy does."""
    limits = np.iinfo(of.np)
    low = f">= ({kind}){float(limits.min)}" if limits.min else f"> ({kind})-1"
    return low, f"< ({kind}){float(limits.max + 1)}"
