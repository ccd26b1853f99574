"""MkDocs hook (see mkdocs.yml) for `make docs`. It adds pages, such as the reference, to the pages
of this folder.

The reference describes the package as it is imported, because families of operators load on first
use and their functions are in no module's text. For every public name a stub with its signature and
docstring goes into `build/reference/gt`, which mkdocstrings reads. The pages at the root of the
repository join the site, and links to files that are not in the site become plain text.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import sys
import textwrap
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import gputensor as gt  # noqa: E402 - the checkout's
from gputensor.core._generated import index  # noqa: E402

STUBS = ROOT / "build" / "reference"
STUBS.mkdir(parents=True, exist_ok=True)  # mkdocstrings ignores a path that does not exist yet.

# Maps a page of the repository to a page of the site.
PAGES = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
    "docker/README.md": "images.md",
}  # fmt: skip
GUIDES = ["usage", "extensions", "internals"]  # folders, each a section of the navigation
# Pages that come first in their section, in this order. All other pages follow in the order of
# their names.
FIRST = [
    "where_to_start.md", "programs.md", "checkpoints.md", "autocast.md", "fusion.md",
    "kernels_without_a_gpu.md", "custom_operators.md", "new_device.md", "architecture.md",
    "figures.md", "benchmarks.md",
]  # fmt: skip
# Maps a page to (title, names of the modules whose public names are on the page).
MODULES = {
    "library": ("gt.library: operators of your own", ["library"]),
    "dispatch": ("gt.dispatch: the dispatcher", ["dispatch", "fallback"]),
    "backend": ("gt.backend: devices of your own", ["backend"]),
    "cuda": ("gt.cuda: devices, streams, kernels", ["cuda"]),
    "layout": ("gt.layout: copies of any library's arrays", ["layout"]),
    "autograd": ("gt.autograd: gradients", ["autograd"]),
    "amp": ("gt.amp: mixed precision", ["amp"]),
    "nn": (
        "gt.nn and gt.optim: training",
        [
            "nn.functional",
            "nn.parallel",
            "nn.utils.prune",
            "optim",
            "optim.lr_scheduler",
            "optim.swa_utils",
        ],
    ),
    "distributions": (
        "gt.distributions: probability distributions",
        ["distributions", "distributions.constraints", "distributions.utils"],
    ),
    "func": ("gt.func: functions that transform functions", ["func"]),
    "data": (
        "gt.utils.data: datasets and loaders",
        ["utils.data", "utils.checkpoint", "serialization", "quasirandom"],
    ),
    "testing": ("gt.testing and gt.profiler", ["testing", "profiler", "utils.flop_counter"]),
}
_ENTRY = "::: {name}\n    options:\n      heading_level: 3\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    docs = Path(config.docs_dir)
    start = [page for page in _pages(docs, ".") if page != "operators.md"]
    measured = [*_pages(docs, "measurements"), *_results().values(), "images.md"]
    config.nav = [
        {"Start": ["index.md", *start]},
        *({folder.capitalize(): _pages(docs, folder)} for folder in GUIDES),
        {"Reference": ["operators.md", *_reference()]},
        {"Measurements": measured},
        {"Project": ["contributing.md", "changelog.md", *_pages(docs, "adr")]},
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add to the site the pages and pictures that are not in this folder, and return `files`."""
    for source, uri in (PAGES | _results()).items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=_links(text, source, uri)))
    for picture in (ROOT / "bench" / "results").glob("*.png"):
        uri = f"bench/results/{picture.name}"
        files.append(File.generated(config, uri, abs_src_path=str(picture)))
    for uri, text in _reference().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    is_ours = page.file.generated_by is None
    return _links(markdown, f"docs/{uri}", uri) if is_ours else markdown


def _results() -> dict[str, str]:
    found = sorted((ROOT / "bench" / "results").glob("*.md"))
    return {f"bench/results/{page.name}": f"bench/results/{page.name}" for page in found}


def _pages(docs: Path, folder: str) -> list[str]:
    """Return the pages of a folder of `docs` in the order of the navigation."""
    place = {name: n for n, name in enumerate(FIRST)}
    found = sorted((docs / folder).glob("*.md"), key=lambda p: (place.get(p.name, len(place)), p))
    return [page.relative_to(docs).as_posix() for page in found]


def _links(text: str, source: str, uri: str) -> str:
    """Return the text of the page `source` with links that are valid at the address `uri` of the
    site."""

    def relink(match: re.Match[str]) -> str:
        mark, label, target = match.groups()
        path, sharp, anchor = target.partition("#")
        if re.match("[a-z]+:", target) or not path:
            return match[0]
        place = os.path.normpath(os.path.join(os.path.dirname(source), path))
        there = (PAGES | _results()).get(place, place.removeprefix("docs/"))
        is_shown = place.startswith(("docs/", "bench/results/")) and not place.endswith(".json")
        if place not in PAGES and not is_shown:
            return str(label)  # the file is not in the site
        near = os.path.relpath(there, os.path.dirname(uri) or ".")
        return f"{mark}[{label}]({near}{sharp}{anchor})"

    text = re.sub(r"<!-- (?:not run|/?bench:).*? -->\n", "", text)
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    link = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
    return "".join(p if p.startswith("```") else link.sub(relink, p) for p in parts)


# --- the reference --------------------------------------------------------------------------------


def _reference() -> dict[str, str]:
    """Return a dict from each page of the reference to its text. Write the stubs that mkdocstrings
    reads for these pages."""
    pages = {"reference/functions.md": _functions(), "reference/tensor.md": _tensor()}
    others = [n for n in _names(gt) if n not in index.FUNCTIONS and n != "Tensor"]
    _write("gt", gt, [*index.FUNCTIONS, "Tensor", *others])
    text = "# gt: dtypes, devices, settings\n\n" + _entries("gt", gt, others)
    pages["reference/gt.md"] = text
    for page, (title, modules) in MODULES.items():
        text = f"# {title}\n\n"
        for name in modules:
            module = _module(name)
            names = _names(module)
            _write(f"gt.{name}", module, names)
            about = inspect.getdoc(module)
            text += f"## gt.{name}\n\n```text\n{about}\n```\n\n" if about else ""
            text += _entries(f"gt.{name}", module, names)
        pages[f"reference/{page}.md"] = text
    return pages


def _functions() -> str:
    text = "# Functions\n\nOperators as functions, by family; `gt.ops` has every overload.\n\n"
    for family in dict.fromkeys(index.FUNCTIONS.values()):
        names = sorted(n for n, of in index.FUNCTIONS.items() if of == family)
        text += f"## {family}\n\n{_entries('gt', gt, names)}"
    return text


def _tensor() -> str:
    text = "# Tensor\n\n" + "::: gt.Tensor\n    options:\n      heading_level: 2\n"
    return text + "      members: false\n\n" + _entries("gt.Tensor", gt.Tensor, _names(gt.Tensor))


def _entries(prefix: str, of: Any, names: list[str]) -> str:
    return "\n".join(_ENTRY.format(name=f"{prefix}.{name}") for name in names) + "\n"


def _module(name: str) -> Any:
    found: Any = gt
    for part in name.split("."):
        found = getattr(found, part, None) or import_module(f"{found.__name__}.{part}")
    return found


def _names(of: Any) -> list[str]:
    """Return the public functions and classes of a module, or the public attributes of a class."""
    if inspect.isclass(of):
        return [n for n in dir(of) if not n.startswith("_") and hasattr(of, n)]
    given = getattr(of, "__all__", None) or [n for n in dir(of) if not n.startswith("_")]
    return [
        n
        for n in dict.fromkeys(given)
        if callable(made := getattr(of, n))
        and getattr(made, "__module__", "").startswith("gputensor")
        and (hasattr(of, "__all__") or of is gt or made.__module__.startswith(of.__name__))
    ]


def _write(name: str, of: Any, names: list[str]) -> None:
    """Write the stub of a module: signatures and docstrings, as Python code that is parsed and
    never run."""
    path = STUBS.joinpath(*name.split("."))
    path.mkdir(parents=True, exist_ok=True)
    (path.parent / "__init__.py").touch()
    parts = ["import typing", *[_stub(n, getattr(of, n), of) for n in names]]
    (path / "__init__.py").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _stub(name: str, made: Any, of: Any) -> str:
    if isinstance(made, property | staticmethod | classmethod):
        inner = made.fget if isinstance(made, property) else made.__func__
        return f"@{type(made).__name__}\n{_stub(name, inner, of)}"
    if inspect.isclass(made):
        doc = _docstring(inspect.getdoc(made))
        own = [n for n in _names(made) if made is gt.Tensor or n in vars(made)]
        own = [*own, "__init__"] if "__init__" in vars(made) else own
        body = [_stub(n, _member(made, n), made) for n in own]
        return f"class {name}:\n{textwrap.indent(chr(10).join([doc, *body]), '    ')}"
    if not callable(made):
        doc = _docstring(inspect.getdoc(made) if inspect.isdatadescriptor(made) else None)
        return f"@property\ndef {name}(self):\n{textwrap.indent(doc, '    ')}"
    doc = _docstring(inspect.getdoc(made) if name != "__init__" else None)
    typed = _TYPED.get((of is gt.Tensor, name), [])
    heads = [f"def {name}({ast.unparse(t.args)}) -> {ast.unparse(t.returns)}:" for t in typed]
    overloads = [f"@typing.overload\n{head} ..." for head in heads[: len(heads) > 1 and None]]
    head = heads[0] if len(heads) == 1 else f"def {name}{_signature(made)}:"
    return "\n".join([*overloads, head, textwrap.indent(doc, "    ")])


def _member(cls: Any, name: str) -> Any:
    """Return the attribute of a class without binding it. getattr is called first, so that the
    placeholder of a lazily loaded attribute is replaced."""
    getattr(cls, name)
    return inspect.getattr_static(cls, name)


def _typed() -> dict[tuple[bool, str], list[ast.FunctionDef]]:
    """Return a dict from (is_method, name) to a list of functions in the committed stubs: one
    function for each overload."""
    found: dict[tuple[bool, str], list[ast.FunctionDef]] = {}
    for name in ("functions", "methods"):
        path = Path(gt.__file__).parent / "_generated" / f"{name}.pyi"
        for node in ast.walk(
            ast.parse(path.read_text(encoding="utf-8").replace("_Number", "Number"))
        ):
            if isinstance(node, ast.FunctionDef):
                found.setdefault((name == "methods", node.name), []).append(node)
    return found


_TYPED = _typed()


def _docstring(text: str | None) -> str:
    """Return a docstring as Markdown, with examples and the formulas of a gradient as code."""
    if not text:
        return "..."
    text = re.sub(r"^(Gradient): (.+)", r"\n**\1:** `\2`\n", text, flags=re.MULTILINE)
    text = re.sub(r"^([A-Z]\w+): (.+)", r"\n**\1:** \2", text, flags=re.MULTILINE)
    text = re.sub(r"^Gradient:\n((?: +.+\n?)+)", _formulas, text, flags=re.MULTILINE)
    text = re.sub(r"(?:^>>> .*(?:\n(?! *$).*)*)", r"```pycon\n\g<0>\n```", text, flags=re.MULTILINE)
    return repr(text)


def _formulas(match: re.Match[str]) -> str:
    lines = [f"- `{line.strip()}`" for line in match[1].splitlines()]
    return "\n**Gradient:**\n\n" + "\n".join(lines) + "\n\n"


class _Bare(str):
    """A string whose repr is the string itself, so that a signature shows it without quotes."""

    __repr__ = str.__str__


def _signature(function: Any) -> str:
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(*args, **kwargs)"

    def bare(value: Any) -> Any:
        text = value if isinstance(value, str) else inspect.formatannotation(value)
        return _Bare(text) if value is not inspect.Parameter.empty else value

    def default(value: Any) -> Any:
        if value is inspect.Parameter.empty:
            return value
        try:
            ast.parse(repr(value), mode="eval")
            return value
        except SyntaxError:
            return _Bare("...")

    parameters = [
        p.replace(annotation=bare(p.annotation), default=default(p.default))
        for p in found.parameters.values()
    ]
    made = found.replace(parameters=parameters, return_annotation=bare(found.return_annotation))
    return str(made)
