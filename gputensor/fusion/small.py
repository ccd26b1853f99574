"""A traced call over few elements on the CPU, as one Python function of arrays.

The loops that the operators run alone, one after the other; NumPy allocates where it would for
them. For results of some microseconds' work: what stands around the loops is all that can be saved.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..core.device import CPU
from ..core.geometry import Geometry
from ..tensor.make import numpy_allocates
from .chain import Chain
from .trace import Trace

Arrays = Callable[..., tuple[Any, ...]]


def compiled(trace: Trace, wanted: list[int]) -> Arrays | None:
    """What takes the arrays of the trace's tensors and gives those with these numbers; None where a
    chain is of another device, or of more elements than NumPy's own memory is used for."""
    names: dict[str, Any] = {"empty": np.empty}
    lines: list[str] = []
    for number, step in enumerate(trace.steps):
        chain = step.chain
        if (
            chain is None
            or chain.device is not CPU
            or not all([numpy_allocates(x.what.geometry) for x in chain.instructions])
        ):
            return None
        scalars = [f"s{number}_{n}" for n in range(len(step.scalars))]
        names.update(zip(scalars, step.scalars))
        lines += _lines(chain, f"{number}_", step.takes, step.makes, scalars, names)
    given = ", ".join([f"v{n}" for n in range(trace.n_given)])
    made = "".join([f"v{n}, " for n in wanted])
    lines = [f"def call({given}):", *lines, f"return ({made})"]
    source = "\n    ".join(lines)
    exec(source, names)  # of names that stand above, and numbers
    found: Arrays = names["call"]
    return found


def _lines(
    chain: Chain, prefix: str, takes: tuple[int, ...], makes: tuple[int, ...], scalars: list[str],
    names: dict[str, Any],
) -> list[str]:  # fmt: skip
    """A chain's statements. prefix: of the names of what is its own."""
    values = [f"v{n}" for n in takes]
    lines = []
    for n, step in enumerate(chain.instructions):
        what, number = step.what, len(values)
        places = [made for made, value in zip(makes, chain.stores) if value == number]
        name = f"v{places[0]}" if places else f"t{prefix}{n}"
        loop = f"{what.operator.short_name.rstrip('_')}{prefix}{n}"
        if what.reduces is not None:
            entry = what.entry
            names[loop] = partial(_reduce, entry.run, entry.axes, entry.keepdim, what.geometry)
            lines.append(f"{name} = {loop}({values[step.operands[0]]})")
            lines += [f"v{other} = {name}.copy()" for other in places[1:]]
            values.append(name)
            continue
        names[loop] = what.entry.loop
        given = [values[x] if x >= 0 else scalars[-1 - x] for x in (*step.operands, *step.params)]
        if _allocates(what):
            if not isinstance(what.entry.loop, np.ufunc):
                given.append("None")
            lines.append(f"{name} = {loop}({', '.join(given)})")
        else:
            shape = f"g{prefix}{n}"
            names[shape], names[f"d{shape}"] = what.geometry.sizes, what.geometry.dtype.np
            lines.append(f"{name} = empty({shape}, d{shape})")
            out = name
            if what.turned is not None:  # in the order of its own dimensions
                out, names[f"o{shape}"] = f"w{prefix}{n}", what.turned
                lines.append(f"{out} = {name}.transpose(o{shape})")
            lines.append(f"{loop}({', '.join([*given, out])})")
            lines += [f"v{other} = {name}.copy()" for other in places[1:]]
            values.append(out)
            continue
        lines += [f"v{other} = {name}.copy()" for other in places[1:]]
        values.append(name)
    return lines


def _reduce(run: Any, axes: Any, keepdim: bool, shape: Geometry, array: Any) -> Any:
    made = np.empty(shape.sizes, shape.dtype.np)
    run(array, axes, None, made, keepdim)
    return made


def _allocates(what: Any) -> bool:
    """Whether the loop makes the result when the operator runs alone."""
    writes = any([x.is_write for x in what.operator.schema.arguments])
    return not writes and getattr(what.entry, "numpy_allocates", False)
