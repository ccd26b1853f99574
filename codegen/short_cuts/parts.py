"""Parts that the functions of short cuts have in common; see forms.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..text import condition, indent, wrap

OPERANDS = ("self", "other", "third")
ARRAYS = ("x", "y", "z")
PARAMS = ("a", "b", "c")
SIZES = ("i", "j", "k", "l")
LONG_WAY = "    return None"


def form(
    name: str, closed: Sequence[str], doc: str, setup: Iterable[str], given: Sequence[str],
    body: Iterable[str],
) -> list[str]:  # fmt: skip
    """Return the lines of a function that makes the closure `short`. closed: the closure's
    variables."""
    return [
        *wrap(f"def {name}(", each("{}: Any", closed), ") -> ShortCut:"),
        f'    """{doc}"""',
        *indent(setup),
        f"    def short({', '.join(given)}):",
        *indent(body, 8),
        "    return short",
    ]


def unless(*tests: str) -> list[str]:
    """Return lines that leave the short cut if one of the tests is true."""
    return [condition(tests, "or"), LONG_WAY]


def each(pattern: str, names: Iterable[Any]) -> list[str]:
    return [pattern.format(name) for name in names]


def params(n: int) -> list[str]:
    """Return the params after the operands. Each has a default, because calls may omit the last
    ones."""
    return each("{}=None", PARAMS[:n])


def kept(n: int) -> list[str]:
    """Return lines that store a short cut's params in variables of the closure."""
    nones, names = ", ".join(["None"] * n), each("{}0", PARAMS[:n])
    return [f"{', '.join(names)}{',' * (n == 1)} = (*params, {nones})[:{n}]"] if n else []


def ints(n: int | None = None, known: str = "") -> list[str]:
    """Return lines that leave the short cut unless all sizes are ints. This test is needed because
    the key of the lookup does not distinguish 1 from 1.0 and True. A call usually passes the same
    objects as the previous call. So the lines first compare by identity, which is the cheapest
    test. n: the number of sizes, if known. known: the name of the previous tuple of sizes, which is
    not tested again."""
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


def others(n: int, on: str) -> list[str]:
    """Return lines that call the next short cut if the params differ. Params are usually the same
    objects as in the call before, so they are compared by identity first."""
    if not n:
        return []
    given, known = PARAMS[:n], each("{}0", PARAMS[:n])
    comma = "," * (n == 1)
    return [
        f"if {' or '.join(each('{0} is not {0}0', given))}:",
        f"    if not _are_equal(({', '.join(given)}{comma}), ({', '.join(known)}{comma})):",
        f"        return {on}",
    ]


def records(
    operands: Sequence[str], given: Sequence[str], in_chains: bool = False, keys: str = "CPU_KEYS",
    device: str = "",
) -> list[str]:  # fmt: skip
    """Return lines that leave the short cut unless the operands' keys and the thread's state are
    plain. If autograd records the call, the lines make a node. in_chains: True if the lines, within
    `gt.fuse`, call the table's function for chains. This function returns None if the operator must
    run immediately. device: the operands' device, if it must be checked. There are no short cuts
    for other devices than the CPU within `gt.fuse`."""
    begin = f"now is not BELOW and (node := begin({', '.join(given)})) is LONG"
    other_keys = each(f"{{}}._keys is not {keys}", operands)
    is_other = "now is not PLAIN and now is not BELOW"
    lines = ["now, node = _now(), None"]
    if device:
        lines += unless(*other_keys, *each(f"{{}}._device is not {device}", operands), is_other)
    elif in_chains:
        lines += [*unless(*other_keys), f"if {is_other}:", "    if now is not FUSING:"]
        lines += [f"    {LONG_WAY}", f"    made = fused[0]({', '.join(given)})"]
        lines += ["    if made is not None:", "        return made"]
    else:
        at_once = f"now is not FUSING or not _in_block[0]({', '.join(given)})"
        lines += [*unless(*other_keys), f"if {is_other}:", f"    if {at_once}:", f"    {LONG_WAY}"]
    known = each("{}._autograd is not None", operands)
    if len(known) == 1:
        return [*lines, f"if {known[0]} and {begin}:", LONG_WAY]
    return [*lines, f"if {' or '.join(known)}:", f"    if {begin}:", "    " + LONG_WAY]


def is_plain(operands: Sequence[str], keys: str, is_written: bool, device: str = "") -> list[str]:
    """Return lines that leave the short cut if an operand does not have the keys `keys` or the
    device `device`, if autograd must act on an operand, or if the thread's state is not plain.
    is_written: the call writes to the first operand."""
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
    """Return lines that read the storage of the tensor that the call writes to, and check that no
    operand shares its memory. On the CPU, `apart` also finds different storages over the same
    bytes.

    may_lack: CPU tensors may not have a storage yet.
    """
    names = "storage, theirs" if len(operands) == 2 else "storage"
    lines = [f"{names} = {', '.join(each('{}._storage', operands))}"]
    if may_lack:
        lines += ["if storage is None:", "    storage = self._get_storage()"]
    if len(operands) == 2:
        aliases = () if may_lack else ("storage.may_alias", "theirs.may_alias")
        lines += unless("theirs is storage", *aliases)
    return lines


def apart(theirs: str, written: str, read: str) -> list[str]:
    """Return lines that check that two storages of the CPU share no bytes. They come after the
    lines of `storage`."""
    is_asked = f"{theirs} is not None and (storage.may_alias or {theirs}.may_alias)"
    return unless(f"{is_asked} and _may_share({written}, {read})")


# NUMBER: the variable for the array of one element that is made from a number. LAST: the line that
# initialises `last`, the pair of the previous number and its array. One assignment stores the pair,
# so that number and array match even if several threads assign.
NUMBER, LAST = "number", ("last = (None, None)",)


def element_of(name: str) -> list[str]:
    """Return lines that convert a Python number to an array of one element, because a NumPy
    function takes twice as long with a Python number. The array is stored, because programs usually
    pass the same number again."""
    return [
        f"known, {NUMBER} = last",
        f"if {name} is not known:",
        f"    {NUMBER} = enter(_array, {name}, element)",
        f"    last = {name}, {NUMBER}",
    ]


def run(
    given: Sequence[str], result: str = "", overflow: str = "", before: Sequence[str] = ()
) -> list[str]:
    """Return lines that run the loop without NumPy's warnings. overflow: if given, the lines also
    leave the short cut after an OverflowError, and contain this text as a comment. before: lines
    that run before the loop, within the same `try`."""
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
