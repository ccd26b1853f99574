"""NVRTC's options in the emulator. Each option is supported, ignored or rejected.

`-I`, `-D`, `-U` and `-std` work as in NVRTC. Options that affect only the generated GPU code are
ignored. All other options are rejected, because ignoring them could change a kernel's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gputensor.core import errors

_SPELT = {
    "-I": "I", "--include-path": "I", "-include-path": "I", "-D": "D", "--define-macro": "D",
    "-define-macro": "D", "-U": "U", "--undefine-macro": "U", "-undefine-macro": "U", "-std": "std",
    "--std": "std",
}  # fmt: skip
# The emulator's headers need at least C++17.
STANDARDS = ("c++17", "c++20")
# Options that the emulator ignores: they affect only the generated GPU code, or request the
# emulator's normal behaviour.
_WITHOUT_EFFECT = (
    "-lineinfo --generate-line-info -G --device-debug -w --disable-warnings --restrict -restrict "
    "-fmad=false --fmad=false -ftz=false --ftz=false -prec-div=true --prec-div=true "
    "-prec-sqrt=true --prec-sqrt=true"
).split()
_WITH_A_NUMBER = ("-maxrregcount=", "--maxrregcount=", "--maxrregcount ", "-maxrregcount ")


class Options(NamedTuple):
    """Parsed options: folders of headers, macros (None if undefined), the language standard, and
    all other options.
    """

    folders: tuple[str, ...]
    macros: dict[str, str | None]
    standard: str | None
    others: tuple[str, ...]


def parse(given: Sequence[str]) -> Options:
    """Parse options, including options of two words such as `-I inc`."""
    folders: list[str] = []
    macros: dict[str, str | None] = {}
    others: list[str] = []
    standard = None
    items = iter(given)
    for item in items:
        kind, value = _split(item, items)
        if kind == "I":
            folders.append(value)
        elif kind == "D":
            name, _, definition = value.partition("=")
            macros[name] = definition if "=" in value else "1"
        elif kind == "U":
            macros[value] = None
        elif kind == "std":
            standard = value
        else:
            others.append(item)
    return Options(tuple(folders), macros, standard, tuple(others))


def _split(item: str, following: Iterator[str]) -> tuple[str | None, str]:
    text = item.strip()
    for spelt, kind in _SPELT.items():
        if text == spelt:
            return kind, str(next(following, "")).strip()
        if text.startswith((f"{spelt}=", f"{spelt} ")):
            return kind, text[len(spelt) + 1 :].strip()
        if len(spelt) == 2 and text.startswith(spelt):
            return kind, text[2:].strip()
    return None, text


def check(options: Options, title: str) -> None:
    """Check the options. Raises: KernelError for the first option that the emulator does not
    support."""
    for other in options.others:
        if other.strip() not in _WITHOUT_EFFECT and not other.strip().startswith(_WITH_A_NUMBER):
            rule = "be among -I, -D, -U and -std where CUDA is emulated"
            raise errors.cannot_launch(title, "options", rule, other)
    if options.standard not in (None, *STANDARDS):
        rule = f"ask for {' or '.join(STANDARDS)} where CUDA is emulated"
        raise errors.cannot_launch(title, "options", rule, f"-std={options.standard}")


def with_macros(defines: dict[str, object], options: Options) -> dict[str, object]:
    """Return the macros of the options and of `defines=`. If both define a macro, `defines=` takes
    precedence."""
    own = {name: value for name, value in options.macros.items() if value is not None}
    return {**own, **defines}
