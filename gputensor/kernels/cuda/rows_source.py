"""The source of a chain over rows: a functor for each pass, and the code that calls the functors in
order.

A pass reads the chain's inputs and the results of earlier passes, which have one value for each
row. See rows_chain.cu.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.dtype import dtype
from . import chain_source, module, variants
from .chain_source import Body


class Reduction(NamedTuple):
    """A pass that reduces. body: the chain that computes the operand of the reduction from the
    inputs and earlier results. op: a functor of reduce.cu. scalar: the operand's type. name: a
    comment in the source. is_softmax: op is a functor of softmax.cu, with two results of dtype
    `out`: the largest element and the sum.
    """

    body: Body
    op: str
    scalar: str
    out: dtype
    name: str
    is_softmax: bool = False


class Program(NamedTuple):
    """The passes of a kernel over rows. reductions: the passes that reduce, in order. stored: the
    pass that stores values for all elements of the rows, or None. once: the stored results with one
    element per row."""

    reductions: tuple[Reduction, ...]
    stored: Body | None
    once: tuple[Body, ...]

    @property
    def bodies(self) -> tuple[Body, ...]:
        last = () if self.stored is None else (self.stored,)
        return (*[x.body for x in self.reductions], *last, *self.once)


def text(program: Program) -> str:
    """Return the full source of a program's kernel."""
    steps = [step for body in program.bodies for step in body.steps]
    of = {step.family for step in steps if step.family != "copy"}
    of |= {"softmax" if x.is_softmax else "reduce" for x in program.reductions} | {"reduce"}
    return module.composed(sorted(of), functors(program), "rows_chain.cu")


def functors(program: Program) -> str:
    """Return the source of the passes' functors, and of the struct that calls them."""
    parts: list[str] = []
    lines: list[str] = []

    def called(body: Body, found: list[str]) -> str:
        """Add the functor of a pass to `parts`. Return the source of an object that calls this
        functor with the numbers and the earlier results."""
        number = len(parts)
        name = f"chain_pass{number}"
        results = "".join([f", r{n}" for n in range(len(found))])
        members = "".join([f" {of} r{n};" for n, of in enumerate(found)])
        parts.append("\n".join([
            chain_source.functor(body, name), "namespace op {", "",
            f"struct chain_call{number} : pass_of_chain {{", f"  const value_slot* n;{members}",
            "  template <class... X> DEVICE auto of(X... x) const {",
            f"    return {name}::of(n, x...{results});", "  }", "};", "", "}  // namespace op", "",
        ]))  # fmt: skip
        return f"chain_call{number}{{{{}}, w.p.value{results}}}"

    found: list[str] = []
    for n, one in enumerate(program.reductions):
        out = variants.storage(one.out)
        if one.is_softmax:
            at = len(found)
            lines += [
                f"    // {one.name}",
                f"    const softmax_found<{out}> s{n} = w.template softmax_of<{one.op}, {out}>(",
                f"        {called(one.body, found)});",
                f"    const {out} r{at} = s{n}.top, r{at + 1} = s{n}.total;",
            ]
            found += [out, out]
            continue
        lines += [
            f"    // {one.name}",
            f"    const {out} r{len(found)} = w.template reduced<{one.op}, {one.scalar}, {out}>(",
            f"        {called(one.body, found)});",
        ]
        found.append(out)
    if program.stored is not None:
        lines.append(f"    w.store({called(program.stored, found)});")
    for j, body in enumerate(program.once):
        lines.append(f"    w.template store_one<{j}>({called(body, found)});")
    return "\n".join([
        *parts, "namespace op {", "", f"struct {chain_source.NAME} {{",
        "  template <class W> static DEVICE void run(const W& w) {", *lines, "  }", "};", "",
        "}  // namespace op", "",
    ])  # fmt: skip
