"""Built-in kernels that a device of another package registers at its own key.

A family is installed on first use, perhaps after such a device was registered. So the device's
listener is called for each family that is installed later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import families
from ..dispatch.operator import Operator

# (operator, name of its loop or "", its kernel for all devices except the CPU, file and line of its
# row in `registrations/_generated`).
Entry = tuple[Operator, str, Any, str]

# The entries of each family.
entries: dict[str, list[Entry]] = {}
# Functions that are called with the family and the entry, under the dispatcher's lock.
listeners: list[Callable[[str, Entry], None]] = []


def offer(module: str, entry: Entry) -> None:
    """Add an entry to `entries`, and call the listeners. The last part of the module's name is the
    family."""
    family = module.rpartition(".")[2]
    of_family = entries.setdefault(family, [])
    of_family.append(entry)
    families.note(lambda: of_family.remove(entry))
    for listener in listeners:
        listener(family, entry)
