"""`gputensor ops [NAME]`: list the operators by family, or print all facts about one operator.

`--missing` lists operators of PyTorch that gputensor lacks. The list of PyTorch's operators is a
file.
"""

from __future__ import annotations

import difflib
import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import gputensor as gt
from gputensor.core._generated.index import NAMESPACES, OPERATORS
from gputensor.amp.cast_policies import policies_of
from gputensor.dispatch import dispatcher
from gputensor.dispatch.operator import Operator
from gputensor.dispatch.table_text import slots

from . import places
from .output import FINE, Arguments, Refusal, here, print_json

# The keys in the default output; --table shows all keys.
_SHOWN_KEYS = (
    "CPU", "CUDA", "Meta", "BackendSelect", "Conjugate", "ADInplaceOrView", "AutogradCPU",
)  # fmt: skip


def main(argv: list[str]) -> int:
    what = "List the operators, or print the schema, dtype rules and kernels of one."
    parser = Arguments("ops", what)
    parser.add_argument("name", nargs="?", help="such as add, add.Tensor or aten::add.Tensor")
    text = "all slots of the table, as the dispatcher computed them"
    parser.add_argument("--table", action="store_true", help=text)
    text = "operators of PyTorch's operator database and Core ATen that gputensor does not have"
    parser.add_argument("--missing", action="store_true", help=text)
    arguments = parser.parse_args(argv)
    if arguments.name is None or arguments.missing:
        return _overview(arguments)
    found = [_row(o, arguments.table) for o in _matching(arguments.name)]
    if not found:
        raise Refusal(unknown(arguments.name))
    if arguments.json:
        print_json({"operators": found})
    else:
        print("\n\n".join(_text(row) for row in found))
    return FINE


# --- all operators --------------------------------------------------------------------------------


def _overview(arguments: Any) -> int:
    """Print, for each family, gputensor's overloads, and the overloads that only PyTorch has."""
    if arguments.name is not None:
        raise Refusal("'NAME' must be left out with --missing")
    ours, theirs = _by_family(o.qualified_name for o in _matching(None)), pytorch()
    missing = {name: core for name, core in theirs.items() if name not in _ours()}
    absent = _by_family(f"aten::{name}" for name in missing)
    families = sorted({*ours, *absent} - {_NO_FAMILY}) + [_NO_FAMILY]
    found = {
        f: {"operators": ours.get(f, []), "missing": absent.get(f, [])}
        for f in families
        if ours.get(f) or absent.get(f)
    }
    if arguments.json:
        print_json({"families": found, "core": [name for name, core in missing.items() if core]})
        return FINE
    for family, names in found.items():
        shown = [*names["operators"]] if not arguments.missing else []
        lines = textwrap.wrap(" ".join(shown), 96)
        if names["missing"]:
            marked = [f"{n}*" if missing[n] else n for n in names["missing"]]
            lines += textwrap.wrap(f"missing: {' '.join(marked)}", 96, subsequent_indent="  ")
        if lines:
            head = f"{family}  {len(names['operators'])} here, {len(names['missing'])} missing"
            print("\n".join([head, *(f"    {line}" for line in lines), ""]))
    core = [name for name, is_core in theirs.items() if is_core]
    print(
        f"Of {len(theirs)} overloads that PyTorch's operator database calls or that are Core ATen, "
        f"{len(theirs) - len(missing)} are here; of {len(core)} of Core ATen, "
        f"{sum(name not in missing for name in core)} (* is Core ATen)."
    )
    return FINE


# The family printed for operators of PyTorch that gputensor lacks.
_NO_FAMILY = "not here"


def pytorch() -> dict[str, bool]:
    """Return a dict that maps overloads to True for Core ATen, else to False. It contains the
    overloads of Core ATen and those that PyTorch's operator database calls."""
    text = resources.files(__package__).joinpath("pytorch.txt").read_text(encoding="utf-8")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {name: word == ["core"] for name, *word in rows if word != ["public"]}


def _ours() -> set[str]:
    return {o.qualified_name.removeprefix("aten::") for o in _matching(None)}


def _by_family(names: Iterable[str]) -> dict[str, list[str]]:
    """Return names grouped by family, without `aten::`."""
    of_base = {name.partition(".")[0]: family for name, family in OPERATORS.items()}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for full in sorted(names):
        namespace, _, name = full.partition("::")
        family = _NO_FAMILY if namespace == "aten" else namespace
        found[of_base.get(name.partition(".")[0], family)].append(name)
    return dict(found)


def unknown(name: str) -> str:
    """Return the error text for an unknown operator, with similar names."""
    known = {o.name.removeprefix("aten::") for o in dispatcher.operators() if o.is_defined}
    plain = name.removeprefix("aten::").partition(".")[0]
    near = difflib.get_close_matches(plain, known - {plain}, n=3)
    remedy = f"did you mean {', '.join(near)}?" if near else "gputensor ops lists all"
    return f"no operator is called {name!r}; {remedy}"


def _matching(name: str | None) -> list[Operator]:
    """Return all operators if `name` is None. Otherwise return the overloads with this name and
    their in-place and out forms."""
    defined = (o for o in dispatcher.operators() if o.is_defined)
    known = sorted(defined, key=lambda o: o.qualified_name)
    if name is None:
        return known
    full = dispatcher.qualified(name)
    exact = [o for o in known if o.qualified_name == full]
    if exact and "." in full:
        return exact
    found = [o for o in known if o.name in (full, f"{full}_")]
    if found or "::" in name:
        return found
    # the name may be from another namespace: `all_reduce` is in _c10d_functional
    return [o for o in known if o.short_name.partition("::")[2] in (name, f"{name}_")]


def _row(operator: Operator, whole: bool) -> dict[str, Any]:
    found = _places(operator)
    kernels, why = {}, {}
    for key, kernel, label in slots(operator.table):
        if whole or (key.name in _SHOWN_KEYS and not kernel.is_fallthrough):
            kernels[key.name] = here(kernel.site)
            why[key.name] = f"{label}, falls through" if kernel.is_fallthrough else label
    return {
        "name": operator.qualified_name, "schema": str(operator.schema),
        "tags": list(operator.tags), "autocast": policies_of(operator.qualified_name),
        "doc": _doc(operator), "files": _files(found), "places": found, "registered": kernels,
        "why": why,
    }  # fmt: skip


def _places(operator: Operator) -> list[str]:
    """Return one line for each part of the operator, with the part's file and line. Return an empty
    list for a user's operator."""
    namespace, _, name = operator.qualified_name.partition("::")
    family = OPERATORS.get(name) if namespace == "aten" else NAMESPACES.get(namespace)
    if family is None:
        return []
    package = Path(gt.__file__).parent
    found = places.of(package, family, name, (), ())
    return [f"{what:7} {where}" for what, where in found]


def _doc(operator: Operator) -> str:
    """Return the docstring of the public function or method."""
    base = operator.short_name
    for home in (gt, gt.Tensor):
        found = getattr(home, base, None)
        if found is not None and inspect.getdoc(found):
            return str(inspect.getdoc(found))
    return ""


def _files(found: list[str]) -> list[str]:
    """Return the files in the lines of `_places`: native code first, then kernels."""
    files = {
        (what != "native", place.partition(":")[0].removeprefix("gputensor/"))
        for what, place, *_ in map(str.split, found)
        if what in ("native", "cpu", "cuda")
    }
    return [path for _, path in sorted(files)]


def _text(row: dict[str, Any]) -> str:
    lines = [row["schema"], ""]
    lines += [f"    {line}".rstrip() for line in row["doc"].splitlines()]
    lines += ["", f"    tags: {', '.join(row['tags']) or 'none'}"]
    if row["autocast"]:
        casts = (f"{policy} on {device}" for device, policy in row["autocast"].items())
        lines.append(f"    autocast: {', '.join(casts)}")
    lines += [f"    files: {', '.join(row['files'])}"]
    lines += [f"      {place}" for place in row["places"]]
    why, sites = row["why"], row["registered"].items()
    lines += [f"    {key}: registered at {site} [{why[key]}]" for key, site in sites]
    return "\n".join(lines)
