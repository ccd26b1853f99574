"""The source of a chain: CUDA C++ that calls the functors of the chain's operators one after the
other.

The functors are in the families' `.cu` files; no operator is implemented here. Each value has the
type in which the operator alone would store it, so that f16 is rounded after each operator. Numbers
are kernel parameters, so chains that differ only in numbers have the same source. A number that
several operators use has a slot for each use, because each operator reads it in its own computation
type.
"""

from __future__ import annotations

from typing import NamedTuple

from ...core.dtype import dtype
from . import module, variants

# Families whose functors compute one element. A copy only casts, so it needs no functor.
FAMILIES = frozenset(
    ("unary", "binary", "comparison", "where", "ternary", "activation", "special", "criterion",
     "copy")
)  # fmt: skip
NAME = "chain_functor"
EPILOGUE = "chain_epilogue"
# The op of a copy whose elements are known to be in the result's range.
BOUNDED = "bounded"


class Step(NamedTuple):
    """An operator of a chain.

    common: the dtype of the computation. out: the dtype of the result. inputs: indices of values,
    where the chain's inputs come first, followed by the steps' results; ~slot for a number.
    scalars: parameter slots of the arguments after the inputs. name: a comment in the source.
    """

    family: str
    op: str
    common: dtype
    out: dtype
    inputs: tuple[int, ...]
    scalars: tuple[int, ...]
    name: str


class Drawn(NamedTuple):
    """Random numbers used as an input. op: the functor of random.cu. slot: the slot that holds seed
    and counter. The slots after it hold the distribution's parameters.
    """

    op: str
    of: dtype
    slot: int
    name: str


class Body(NamedTuple):
    """A chain's computation, independent of its layout. inputs: the inputs' dtypes. stores: the
    stored values, in the order of the outputs. drawn: random numbers, which are the last inputs."""

    inputs: tuple[dtype, ...]
    steps: tuple[Step, ...]
    stores: tuple[int, ...]
    drawn: tuple[Drawn, ...] = ()

    @property
    def dtypes(self) -> tuple[dtype, ...]:
        """Return the dtypes of the operands, outputs first."""
        values = (*self.inputs, *[step.out for step in self.steps])
        return (*[values[n] for n in self.stores], *self.inputs)


def text(body: Body, file: str = "chain.cu", families: tuple[str, ...] = ()) -> str:
    """Return the full source of a chain with the kernels of `file`. families: further families; the
    parts of their `.cu` files before the line module.BODY are included too."""
    of = dict.fromkeys(step.family for step in body.steps if step.family != "copy")
    heads = ["random"] if body.drawn else []
    return module.composed([*heads, *sorted(of), *families], functor(body), file)


def functor(body: Body, name: str = NAME) -> str:
    """Return the source of the chain as a struct, which takes the place of an operator's
    functor."""
    types = [variants.storage(d) for d in body.inputs]
    count = len(types)

    def value(n: int) -> str:
        return f"x{n}" if n < count else f"v{n - count}"

    lines = ["namespace op {", ""]
    outputs = [variants.storage(d) for d in body.dtypes[: len(body.stores)]]
    if len(outputs) > 1:
        lines += [f"struct {name}_results {{"]
        lines += [f"  {of} r{j};" for j, of in enumerate(outputs)]
        lines += ["  template <int J> DEVICE auto output() const {"]
        for j in range(len(outputs) - 1):
            lines.append(f"    {'} else ' if j else ''}if constexpr (J == {j}) {{")
            lines.append(f"      return r{j};")
        lines += ["    } else {", f"      return r{len(outputs) - 1};", "    }", "  }", "};", ""]
    parameters = ", ".join(["const V& n", *[f"{of} x{j}" for j, of in enumerate(types)]])
    lines += [f"struct {name} {{", f"  template <class V> static DEVICE auto of({parameters}) {{"]
    before = count - len(body.drawn)
    for j, made in enumerate(body.drawn, before):
        lines[-1:-1] = _drawing(made, j)
    for k, step in enumerate(body.steps):
        out = variants.storage(step.out)
        lines += [f"    // {step.name}", f"    const {out} v{k} = {_call(step, value)};"]
    kept = [value(n) for n in body.stores]
    if len(kept) == 1:
        lines.append(f"    return {kept[0]};")
    else:
        lines.append(f"    return {name}_results{{{', '.join(kept)}}};")
    return "\n".join([*lines, "  }", "};", "", "}  // namespace op", ""])


def epilogue(body: Body) -> str:
    """Return the source of the struct that continues after a reduction. The reduction's result is
    the first input of `body`. The struct loads the other inputs and stores the outputs. It receives
    the addresses of the inputs, followed by the addresses of the outputs."""
    name = f"{EPILOGUE}_functor"
    given, *inputs = [variants.storage(d) for d in body.inputs]
    outputs = [variants.storage(d) for d in body.dtypes[: len(body.stores)]]
    loads = "".join([f", *(const {of}*)at[{j}]" for j, of in enumerate(inputs)])
    lines = [f"    const auto made = {name}::of(n, x{loads});"]
    for k, of in enumerate(outputs):
        value = f"made.template output<{k}>()" if len(outputs) > 1 else "made"
        lines.append(f"    *({of}*)at[{len(inputs) + k}] = {value};")
    return functor(body, name) + "\n".join([
        "namespace op {", "", f"struct {EPILOGUE} {{", f"  typedef {given} given;",
        "  template <class V> static DEVICE void run(const V& n, char* const* at, given x) {",
        *lines, "  }", "};", "", "}  // namespace op", "",
    ])  # fmt: skip


def _drawing(made: Drawn, j: int) -> list[str]:
    """Return the source lines of the function that computes input j, which consists of random
    numbers."""
    of, word, slot = variants.storage(made.of), variants.random_scalar(made.of), made.slot
    bits = f"random_block(n[{slot}].low, n[{slot}].high, block)"
    call = f"{made.op}::of<{word}>({bits}, lane, n[{slot + 1}])"
    return [
        f"  // {made.name}",
        "  template <int J, class V>",
        f"  static DEVICE take_if<J == {j}, {of}> drawn(const V& n, u64 block, int lane) {{",
        f"    return bits_as<{of}>({call});" if of != word else f"    return {call};",
        "  }",
    ]


def _call(step: Step, value: object) -> str:
    common, out = variants.storage(step.common), variants.storage(step.out)
    assert callable(value)
    if step.family == "copy":
        x = value(step.inputs[0])
        return f"({out}){x}" if step.op == BOUNDED else f"cast<{out}>({x})"
    # softmax takes an element, and the maximum and the sum of its row.
    if step.family == "softmax":
        of = ", ".join(map(value, step.inputs))
        return f"softmax_element<{step.op}>({of})"
    given = []
    for place, n in enumerate(step.inputs):
        if step.family == "where":
            of = "b8" if place == 0 else common
            x = f"number<{of}>(n[{~n}])" if n < 0 else value(n)
            given.append(f"is_true({x})" if place == 0 else x if n < 0 else f"cast<{of}>({x})")
        else:
            given.append(f"given<{common}>(n[{~n}])" if n < 0 else f"taken<{common}>({value(n)})")
    if step.family == "where":
        return f"cast<{out}>(where::of({', '.join(given)}))"
    given += [f"given<{common}>(n[{slot}])" for slot in step.scalars]
    if step.family == "binary" and not step.scalars:
        given.append(f"acc_of<{common}>::type()")
    functor = "add_alpha" if step.op == "sub_alpha" else step.op
    return f"made<{functor}, {common}, {out}>({', '.join(given)})"
