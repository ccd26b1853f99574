"""Parts that the forms of short cuts share. See emit_short.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .text import WIDTH, indent, wrap

OPERANDS = ("self", "other", "third")
ARRAYS = ("x", "y", "z")
PARAMS = ("a", "b", "c")
SIZES = ("i", "j", "k", "l")
LONG_WAY = "    return None"


def form(
    name: str, closed: Sequence[str], doc: str, setup: Iterable[str], given: Sequence[str],
    body: Iterable[str],
) -> list[str]:  # fmt: skip
    """Return a function of the closure's variables that makes `short`."""
    return [
        *wrap(f"def {name}(", each("{}: Any", closed), ") -> ShortCut:", WIDTH),
        f'    """{doc}"""',
        *indent(setup),
        "",
        f"    def short({', '.join(given)}):",
        *indent(body, 8),
        "",
        "    return short",
    ]


def unless(*tests: str) -> list[str]:
    """Return lines that leave the short cut if one of the tests is true."""
    line = f"if {' or '.join(tests)}:"
    if len(line) <= WIDTH - 8:
        return [line, LONG_WAY]
    first, *others = tests
    return ["if (", *indent([first, *(f"or {test}" for test in others)]), "):", LONG_WAY]


def each(pattern: str, names: Iterable[Any]) -> list[str]:
    return [pattern.format(name) for name in names]


def params(n: int) -> list[str]:
    """Parameters after the operands, each with a default, because calls omit the last ones."""
    return each("{}=None", PARAMS[:n])


def kept(n: int) -> list[str]:
    """The params of a short cut, in its cells."""
    nones, names = ", ".join(["None"] * n), each("{}0", PARAMS[:n])
    return [f"{', '.join(names)}{',' * (n == 1)} = (*params, {nones})[:{n}]"] if n else []


def ints(n: int | None = None, known: str = "") -> list[str]:
    """The long way unless sizes are ints: the keys that they are found by do not tell 1 from 1.0
    and True. n: how many there are, where that is known; mostly they are the very ones of before,
    which is the cheapest to ask. known: the tuple of before, which may come again as it is."""
    if known:
        return [f"if size is not {known}:", *indent(ints(n))]
    if n is None:
        return ["for n in size:", *indent(unless("type(n) is not int"))]
    names = SIZES[:n]
    return [
        f"({names[0]},) = size" if n == 1 else f"{', '.join(names)} = size",
        f"if {' or '.join(each('{0} is not {0}0', names))}:",
        *indent(unless(*each("type({}) is not int", names))),
    ]


def others(n: int, on: str, is_dims: bool = False) -> list[str]:
    """Call the next short cut for other params. is_dims: the first may be a tuple."""
    tests = each("{0} is not {0}0", PARAMS[:n])
    if n and is_dims:
        tests[0] += " and (type(a) is not tuple or not _is_same(a, a0))"
    return [f"if {' or '.join(tests)}:", f"    return {on}"] if n else []


def records(operands: Sequence[str], given: Sequence[str], in_chains: bool = False) -> list[str]:
    """Plain operands in a plain thread; a node, where autograd knows one. in_chains: a block of
    `gt.fuse` goes on from here to what the table has for it."""
    begin = f"now is PLAIN and (node := begin({', '.join(given)})) is LONG"
    other_keys = each("{}._keys is not CPU_KEYS", operands)
    is_other = "now is not PLAIN and now is not BELOW"
    lines = ["now, node = _now(), None"]
    if in_chains:
        lines += [*unless(*other_keys), f"if {is_other}:", "    if now is not FUSING:"]
        lines += [f"    {LONG_WAY}", f"    return fused[0]({', '.join(given)})"]
    else:
        lines += unless(*other_keys, is_other)
    known = each("{}._autograd is not None", operands)
    if len(known) == 1:
        return [*lines, f"if {known[0]} and {begin}:", LONG_WAY]
    return [*lines, f"if {' or '.join(known)}:", f"    if {begin}:", "    " + LONG_WAY]


def is_plain(operands: Sequence[str], keys: str, is_written: bool, device: str = "") -> list[str]:
    """Operands that autograd has nothing to do for. is_written: the first one; a view that is
    written to may be one of a tensor that has a history tomorrow."""
    reads = each("{0}._autograd is not None and not is_plain({0})", operands)
    if is_written:
        reads[0] = "{0}._autograd is not None and not may_write({0})".format(operands[0])
    return unless(
        *each(f"{{}}._keys is not {keys}", operands),
        *(each(f"{{}}._device is not {device}", operands) if device else ()),
        *reads,
        "_now() is not PLAIN",
    )


def arrays(operands: Iterable[str]) -> list[str]:
    lines = []
    for x, operand in zip(ARRAYS, operands):
        lines += [
            f"{x} = {operand}._array",
            f"if {x} is None:",
            f"    {x} = {operand}._get_array()",
        ]
    return lines


def storage(operands: Sequence[str], may_lack: bool = True) -> list[str]:
    """Get the storage of the tensor that is written to, and check that operands share no memory.

    may_lack: CPU tensors may have no storage yet.
    """
    names = "storage, theirs" if len(operands) == 2 else "storage"
    lines = [f"{names} = {', '.join(each('{}._storage', operands))}"]
    if may_lack:
        lines += ["if storage is None:", "    storage = self._get_storage()"]
    if len(operands) == 2:
        shared = "theirs is not None and theirs.may_alias" if may_lack else "theirs.may_alias"
        lines += unless("theirs is storage", "storage.may_alias", shared)
    return lines


# A number as an element, and the number before with what it was as one: one assignment, so that
# threads which share a short cut do not take one for the other.
NUMBER, LAST = "number", ("last = (None, None)",)


def element_of(name: str) -> list[str]:
    """NumPy takes twice as long for a Python number as for an array of one element. Programs mostly
    come with the very number of before."""
    return [
        f"known, {NUMBER} = last",
        f"if {name} is not known:",
        f"    {NUMBER} = enter(_array, {name}, element)",
        f"    last = {name}, {NUMBER}",
    ]


def run(
    given: Sequence[str], result: str = "", overflow: str = "", before: Sequence[str] = ()
) -> list[str]:
    """The loop, without NumPy's warnings. overflow: why the long way is free to refuse a number.
    before: lines that come first, and fail as the loop does."""
    args, to = ", ".join(["loop", *given]), f"{result} = " if result else ""
    later = ", ".join(["loop", *("other" if x is NUMBER else x for x in given)])
    return [
        "try:",
        *indent(before),
        f"    {to}enter({args})",
        "except RuntimeError as error:",
        f"    {to}again(error, {later})",
        *(["except OverflowError:", f"{LONG_WAY}  # {overflow}"] if overflow else ()),
    ]


def tensor(
    array: str, keys: str = "CPU_KEYS", device: str = "CPU", storage: str = "None",
    geometry: str = "geometry",
) -> list[str]:  # fmt: skip
    return [
        "tensor = blank()",
        f"tensor._geometry = {geometry}",
        f"tensor._keys = {keys}",
        f"tensor._device = {device}",
        f"tensor._storage = {storage}",
        "tensor._offset = 0",
        f"tensor._array = {array}",
        "tensor._autograd = None",
    ]


RECORDED = "return tensor if node is None else finish(tensor, node)"
WRITTEN = ["storage.version += 1", "return self"]
ELEMENT = "sizes, element = geometry.sizes, geometry.dtype.np"
