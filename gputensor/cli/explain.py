"""`gputensor explain copy|view|dispatch|fuse`: how one call is handled, with reasons.

gputensor explain copy --sizes 1,64,5,4 --to channels_last
gputensor explain view --sizes 2,3,4 --strides 12,1,3 --as 6,4
gputensor explain dispatch add.Tensor --device cuda
gputensor explain dispatch 'add(x, y)' --device cuda --svg call.svg --html call.html
gputensor explain fuse --setup 'x = gt.rand(1000)' '(x * 2 + 1).exp().sum()' --svg chain.svg
"""

from __future__ import annotations

import argparse
import ast
import html
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import dtype
from gputensor.dispatch import dispatcher, keys, tls
from gputensor.dispatch.backend_select import TENSOR_KEYS
from gputensor.dispatch.table_text import way
from gputensor.dispatch import trace

from . import layouts, ops
from .output import (
    BAD_INPUT, CHECK_FAILED, DEVICE_ABSENT, FINE, Arguments, Refusal, brackets, heading,
    here, print_json, table, write_pictures,
)  # fmt: skip
from .trace import described, drawn, run

# Layouts with at most this number of elements are drawn.
_DRAWN_NUMEL = 96


def main(argv: list[str]) -> int:
    parser = Arguments("explain", "The rules behind a call, applied to one case.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (__doc__ or "").split("\n\n", 1)[1]
    parser.add_argument("what", choices=("copy", "view", "dispatch", "fuse"))
    parser.add_argument(
        "operator", nargs="?",
        help="dispatch: an operator such as add.Tensor, or a call such as 'add(x, 1)', whose names "
             "are tensors; fuse: Python, where `gt` and `np` are imported",
    )  # fmt: skip
    parser.add_argument("--sizes", type=_ints, help="comma-separated sizes")
    parser.add_argument("--strides", type=_ints, help="strides in elements (default: contiguous)")
    parser.add_argument("--dtype", default="float32", help="element type (default: %(default)s)")
    parser.add_argument(
        "--to", default="contiguous", choices=tuple(layouts.FORMATS),
        help="copy: the result's memory format",
    )  # fmt: skip
    parser.add_argument(
        "--as", dest="target", type=_ints, help="view: the sizes to view as; one may be -1"
    )
    parser.add_argument(
        "--device", default="cpu", help="dispatch: the tensors' device (default: %(default)s)"
    )
    parser.add_argument(
        "--setup", default="", metavar="CODE", help="fuse: Python to run before, not fused"
    )
    parser.add_pictures()
    arguments = parser.parse_intermixed_args(argv)
    parts = {"copy": _copy, "view": _view, "dispatch": _dispatch, "fuse": _fuse}
    return parts[arguments.what](arguments)


def _ints(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"must be comma-separated integers (got {text!r})"
        ) from None


def _tensor(arguments: Any) -> Any:
    """Return a meta tensor with the layout given by the arguments."""
    if arguments.sizes is None:
        raise Refusal("'--sizes' must be given, such as --sizes 1,64,5,4")
    element = getattr(gt, arguments.dtype, None)
    if not isinstance(element, dtype):
        raise Refusal(f"'--dtype' must be a dtype such as float32 (got {arguments.dtype!r})")
    try:
        if arguments.strides is None:
            return gt.empty(arguments.sizes, dtype=element, device="meta")
        return gt.empty_strided(arguments.sizes, arguments.strides, dtype=element, device="meta")
    except errors.GpuTensorError as error:
        raise Refusal(str(error)) from None


# --- copy ----------------------------------------------------------------------------------------


def _copy(arguments: Any) -> int:
    source = _tensor(arguments)
    try:
        out = gt.empty_like(source, memory_format=getattr(gt, layouts.FORMATS[arguments.to]))
    except errors.GpuTensorError as error:
        raise Refusal(str(error)) from None
    walk = layouts.walk(out, source)
    choice = gt.layout.explain(out, source)
    result = {
        "in": layouts.describe(source), "out": layouts.describe(out), "iterator": walk,
        "gpu": choice.to_dict(),
    }  # fmt: skip
    _drawn(arguments, f"copy {errors.describe(source).split()[0]} to {arguments.to}", result)
    if arguments.json:
        print_json(result)
        return FINE
    print(table(("", "sizes", "strides", "flags"), layouts.sides(result)))
    print(heading(f"The walk: from {out.ndim} dimensions to {len(walk['shape'])}, fastest first"))
    steps = zip(walk["shape"], walk["out_stride_bytes"], walk["in_stride_bytes"])
    print(table(("size", "out stride bytes", "in stride bytes"), list(steps), right=(0, 1, 2)))
    if 0 < source.numel() <= _DRAWN_NUMEL:
        what = "the number of the element (row-major) that lies there"
        print(heading(f"Memory, address by address: {what}"))
        print("in   " + _in_memory(source))
        print("out  " + _in_memory(out))
    print(heading("On a GPU: the walk in dst's order, and what copies it"))
    print(choice)
    return FINE


def _drawn(arguments: Any, title: str, found: dict[str, Any]) -> None:
    """Draw the requested pictures of a copy or of a view. If a view is impossible, also draw the
    copy that replaces it."""
    if arguments.svg is None and arguments.html is None:
        return
    from .pictures import copy, svg, view

    choice = found["gpu"] if "gpu" in found else found["copy"]
    reason = found.get("reason")
    picture = svg.Picture(title, reason or (choice["why"] if choice else "a view: nothing moves"))
    sides = layouts.sides(found)
    lines = [f"{name} {sizes}, strides {strides}, {flags}" for name, sizes, strides, flags in sides]
    before, left = (len(sizes) for sizes in (found["in"]["sizes"], (choice or {}).get("marks", ())))
    if 0 < left < before:
        lines.append(f"{left} of {before} dimensions are left: what lies as one is walked as one")
    lines += reason.split("; ") if reason else []
    y = picture.head(lines) + 8
    steps: list[str] = []
    if "runs" in found:
        y = view.draw(picture, y, found) + 16
    if choice:
        y, steps = copy.draw(picture, y, choice)
    what = "The cut of a view" if "runs" in found else "The walk of a copy"
    write_pictures(arguments, what, picture.svg(y + 8), [html.escape(step) for step in steps])


def _in_memory(tensor: Any) -> str:
    """Return the element numbers in order of address, with `.` for addresses without an element."""
    cells: dict[int, str] = {}
    for number in range(tensor.numel()):
        rest, address = number, 0
        for size, stride in zip(reversed(tensor.size()), reversed(tensor.stride())):
            rest, index = divmod(rest, size)
            address += index * stride
        cells[address] = f"{cells[address]}={number}" if address in cells else str(number)
    addresses = range(min(max(cells) + 1, 4 * _DRAWN_NUMEL))
    return " ".join(cells.get(address, ".") for address in addresses)


# --- view ----------------------------------------------------------------------------------------


def _view(arguments: Any) -> int:
    source = _tensor(arguments)
    if arguments.target is None:
        raise Refusal("'--as' must be given, such as --as 6,4")
    runs = _runs(source)
    try:  # the requested layout may be impossible
        gt.empty(arguments.sizes, device="meta").view(arguments.target)
    except errors.GpuTensorError as error:
        raise Refusal(str(error)) from None
    try:
        view, reason = source.view(arguments.target), None
    except errors.ShapeError as error:
        view, reason = None, str(error)
    result = {
        "in": layouts.describe(source), "runs": runs, "possible": view is not None,
        "out": None if view is None else layouts.describe(view), "reason": reason,
        "copy": None if view is not None else _copied(source).to_dict(),
    }  # fmt: skip
    target = brackets(arguments.target)
    _drawn(arguments, f"view {errors.describe(source).split()[0]} as {target}", result)
    if arguments.json:
        print_json(result)
        return FINE if view is not None else CHECK_FAILED
    print(
        f"sizes {brackets(source.size())}, strides {brackets(source.stride())}: "
        "dimensions that are contiguous together, stride[d] == size[d+1] * stride[d+1], can be "
        "split in other places"
    )
    rows = [(brackets(r["dims"]), r["numel"], r["stride"]) for r in runs]
    print(table(("dims", "elements", "stride"), rows))
    if view is None:
        print(f"\nno {reason}")
        print(heading("The copy that `reshape` makes of it, on a GPU"))
        print(_copied(source))
        return CHECK_FAILED
    print(f"\nview: sizes {brackets(view.size())}, strides {brackets(view.stride())}")
    return FINE


def _copied(source: Any) -> Any:
    """Explain the copy to contiguous memory that is needed if a view is impossible."""
    return gt.layout.explain(gt.empty(source.size(), dtype=source.dtype, device="meta"), source)


def _runs(tensor: Any) -> list[dict[str, Any]]:
    """Group adjacent dimensions whose elements have one common stride. The groups are as large as
    possible."""
    runs: list[dict[str, Any]] = []
    for dim, (size, stride) in enumerate(zip(tensor.size(), tensor.stride())):
        last = runs[-1] if runs else None
        if last and (size == 1 or last["numel"] == 1 or last["stride"] == size * stride):
            last["dims"].append(dim)
            last["stride"] = last["stride"] if size == 1 else stride
            last["numel"] *= size
        else:
            runs.append({"dims": [dim], "numel": size, "stride": stride})
    return runs


# --- fuse ----------------------------------------------------------------------------------------


def _fuse(arguments: Any) -> int:
    code = arguments.operator
    if code is None:
        raise Refusal("'operator' must be given: Python, such as '(gt.rand(9) + 1).exp()'")
    names = {"gt": gt, "np": np}
    run(arguments.setup, "--setup", names)
    found = gt.fuse.explain(lambda: run(code, "operator", names))
    data = found.to_dict()
    if arguments.svg is not None or arguments.html is not None:
        from .pictures import chain

        write_pictures(
            arguments, "Chains of gt.fuse", chain.draw(code, data), chain.steps(data)
        )  # fmt: skip
    if arguments.json:
        # These keys describe repeated calls of a function, but `code` is a line of code.
        del data["replays"], data["why_not"]
        print_json({"code": code} | data)
        return FINE
    print("\n".join(found.lines()))
    return FINE


# --- dispatch ------------------------------------------------------------------------------------


def _dispatch(arguments: Any) -> int:
    if arguments.operator is None:
        raise Refusal("'operator' must be given, such as: gputensor explain dispatch add.Tensor")
    if "(" in arguments.operator:
        return _call(arguments)
    name = dispatcher.qualified(arguments.operator)
    try:
        try:
            operator = dispatcher.find(name)
        except errors.DispatchError:
            raise Refusal(ops.unknown(arguments.operator)) from None
        kind = gt.device(arguments.device).type
    except errors.GpuTensorError as error:
        raise Refusal(str(error)) from None
    include, keep = tls.state.get()
    takes_tensors = any("Tensor" in str(a.type) for a in operator.schema.arguments)
    key_set = ((TENSOR_KEYS[kind] if takes_tensors else 0) | include) & keep
    slots = [slot | {"site": here(slot["site"])} for slot in way(operator.table, key_set)]
    lines = [str(operator.schema), f"on {kind}, where each kernel redispatches below itself"]
    drawn(arguments, name, lines, _ladder(name, slots, keys.describe(key_set)))
    if arguments.json:
        found = {"operator": name, "schema": str(operator.schema), "hops": slots}
        print_json(found | {"key_set": keys.describe(key_set)})
        return FINE
    print(f"{operator.schema}\n\nkey set of a call on {kind}: {keys.describe(key_set)}\n")
    rows = [(h["key"], h["does"], h["label"], h["site"]) for h in slots]
    print(table(("key, highest first", "does", "why", "registered at"), rows))
    return FINE


def _call(arguments: Any) -> int:
    """Trace the call on small tensors. Print the kernels that it reaches, with reasons."""
    code = arguments.operator
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError as error:
        raise Refusal(f"'operator' must be a call (got {code!r}: {error.msg})") from None
    if not isinstance(tree.body, ast.Call):
        raise Refusal(f"'operator' must be a call (got {code!r})")
    names: dict[str, Any] = {"gt": gt}
    for name in _called(tree):
        found = getattr(gt, name, None)
        if not callable(found):
            raise Refusal(f"'operator' must call functions of gputensor (got {name})")
        names[name] = found
    operands: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in names:
            operands[node.id] = _operand(arguments)
    try:
        with (tracing := trace(level=2)) as lines:
            made = eval(compile(tree, "<operator>", "eval"), {**names, **operands})
    except Exception as error:  # the call itself may raise anything
        said = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise Refusal(f"{code} raised {said}") from None
    given = {name: f"{errors.describe(x)} {keys.describe(x._keys)}" for name, x in operands.items()}
    hops = described(tracing.hops)
    drawn(arguments, code, [f"{name}: {text}" for name, text in given.items()], hops)
    if arguments.json:
        found = {"call": code, "operands": given, "trace": lines, "hops": hops}
        print_json(found | {"result": errors.describe(made)})
        return FINE
    if given:
        print("".join(f"{name}: {text}\n" for name, text in given.items()))
    print(here("\n".join(lines)))
    print(f"\nresult: {errors.describe(made)}")
    return FINE


def _called(tree: ast.AST) -> set[str]:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def _operand(arguments: Any) -> Any:
    sizes = (2, 3) if arguments.sizes is None else arguments.sizes
    try:
        return gt.zeros(sizes, dtype=getattr(gt, arguments.dtype), device=arguments.device)
    except errors.GpuTensorError as error:
        status = DEVICE_ABSENT if isinstance(error, errors.DeviceError) else BAD_INPUT
        raise Refusal(str(error), status) from None


def _ladder(name: str, slots: list[dict[str, str]], key_set: str) -> list[dict[str, Any]]:
    """Return the hops of a call under the assumption that every kernel redispatches to the next
    one."""
    hops: list[dict[str, Any]] = []
    begin = 0
    for number, slot in enumerate(slots):
        if slot["does"] == "nothing is there":  # no kernel at this key: the call ends here
            break
        if slot["does"] == "kernel":
            hops.append(
                {
                    "depth": len(hops), "kind": "redispatch" if hops else "call", "op": name,
                    "key": slot["key"], "slots": slots[begin:], "arguments": {},
                    "set": key_set if not hops else "", "include": "", "exclude": "",
                }
            )  # fmt: skip
            begin = number + 1
    return hops
