"""The text of one operator's table, for dumps and for error messages."""

from __future__ import annotations

from collections.abc import Iterator

from . import keys
from .keys import DispatchKey
from .precedence import Slots
from .registered import Kernel


def lines_of(table: Slots, with_fallthroughs: bool = True) -> str:
    """Return the lines of one table, without slots that have no kernel.

    with_fallthroughs: if False, fallthroughs and backend fallbacks are left out, for error
    messages.
    """
    return "".join(
        f"{key.name}: {_where(kernel)} [{why}]\n"
        for key, kernel, why in slots(table)
        if with_fallthroughs or not (kernel.is_fallthrough or why == "backend fallback")
    )  # fmt: skip


def _where(kernel: Kernel) -> str:
    if kernel.convention == "ambiguous":
        return "ambiguous_autogradother"
    return f"{'fallthrough ' if kernel.is_fallthrough else ''}registered at {kernel.site}"


def slots(table: Slots) -> Iterator[tuple[DispatchKey, Kernel, str]]:
    """Return (key, kernel, why) of every slot that has a kernel, lowest key first."""
    for key in keys.RUNTIME_KEYS:
        kernel, why = table.slot(key)
        if kernel is not None:
            yield key, kernel, why


def way(table: Slots, key_set: int) -> list[dict[str, str]]:
    """Return the slots that a call with this key set visits, from the highest key down to the slot
    of the kernel that runs.

    "does" in each item is "kernel", "falls through" or "nothing is there".
    """
    found = []
    while (key := keys.highest(key_set)) is not keys.UNDEFINED:
        kernel, why = table.slot(key)
        does = "nothing is there" if kernel is None else "falls through"
        if kernel is not None and not kernel.is_fallthrough:
            does = "kernel"
        site, source = ("", "") if kernel is None else (kernel.site, kernel.source)
        found.append({"key": key.name, "does": does, "label": why, "site": site, "kernel": source})
        key_set = keys.without_highest(key_set)
    return found
