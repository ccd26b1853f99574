"""Text of the modules _generated/families/<family>.py and core/_generated/index.py.

A family's module has the functions of its operators. The index maps each name to its family, so
that a family is loaded on first use.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import paths
from ..model import MODULES, Model, Op
from ..text import indent, joined, module, pruned, WIDTH, wrap
from . import functions, operators
from .nodes import names_of_formulas

FAMILY_DOC = """Functions and methods of the operator family {family}. See dispatch/families.py."""

FAMILY_IMPORTS = """from ...core import errors as _errors
from ...core.arguments import DTYPES as _DTYPES
from ...core.arguments import NUMBERS
from ...core.arguments import ONE as _ONE
from ...core.arguments import axis as _axis
from ...core.arguments import checked_out as _checked_out
from ...core.arguments import checked_outs as _checked_outs
from ...core.arguments import element_type as _element_type
from ...core.arguments import flag as _flag
from ...core.arguments import coerced as _coerced
from ...core.arguments import coerced_either as _coerced_either
from ...core.arguments import coerced_swapped as _coerced_swapped
from ...core.arguments import keys_of_list as _keys_of_list
from ...core.arguments import number as _number
from ...core.arguments import reduction as _reduction
from ...core.arguments import sequence as _sequence
from ...core.device import device as _device
from ...core.dtype import dtype as _dtype
from ...core.dtype import int64 as _long
from ...core.memory_format import contiguous_format as _contiguous_format
from ...core.returns import named as _named
from ...dispatch.dispatcher import define as _define
from ...dispatch.refusal import declares as _declares
from ...dispatch.refusal import in_old_order as _in_old_order
from ...dispatch.refusal import refuse as _refuse
from ...dispatch.tls import state as _state"""

INDEX_DOC = (
    """The family of every name. `import gputensor` reads only this index of the operators."""
)

LOOPS_DOC = """The loops of every family, with the `dtypes` of their rows (core/dtype_rules.py).

They determine the operands that native code accepts, and the compiled variants of a kernel."""

BATCHING_DOC = """Batch rules of rows whose rule is not the rule of their family (func/rules/)."""

INDEX_HEAD = '''def _read(text: str) -> dict[str, str]:
    """Parse text in which each family, with a colon, precedes its names: name -> family."""
    found: dict[str, str] = {}
    family = ""
    for part in f"{text} -".split(":"):
        *names, following = part.split()
        found |= dict.fromkeys(names, family)
        family = following
    return found'''

# matches uses of the module `calls` in code, such as `calls.view` and `_calls.view`
_USE = re.compile(r"\b_?calls\.(\w+)")
_NAMED = re.compile(r"\b(?:_?operators|_ops)\.(\w+)")


def families(model: Model, used: set[str]) -> dict[Path, str]:
    """Return the files of all families, and the files for the index, loops and batch rules. used:
    identifiers of the overloads that are called through the module `calls`."""
    folder = paths.GENERATED / "families"
    found = {folder / "__init__.py": module("Functions and methods, one file for each family.")}
    for family in model.families():
        ops = [op for op in model.ops if op.family == family]
        found[folder / f"{family}.py"] = _family(model, family, ops, used)
    for family in model.apart.families():
        ops = [op for op in model.others if op.family == family]
        found[folder / f"{family}.py"] = _family(model.apart, family, ops, set())
    return found | {
        paths.generated("core") / "index.py": _index(model, used),
        paths.generated("kernels") / "loops.py": _loops(model),
        paths.generated("func") / "batching.py": batching(model),
    }


def used_calls(model: Model, generated: Iterable[str]) -> set[str]:
    """Return identifiers of the overloads that are called through the module `calls`. Callers are
    hand-written modules, formulas, and the texts in `generated`.

    Raises: LookupError for a call of an unknown operator.
    """
    used = {name for text in [*generated, *_texts()] for name in _USE.findall(text)}
    in_formulas = set().union(*map(names_of_formulas, model.ops))
    used |= {op.identifier for op in model.ops if not op.is_public} & in_formulas
    used |= set().union(*[op.called_by_nn for op in model.ops])
    unknown = sorted(used - {op.identifier for op in model.ops})
    if unknown:
        raise LookupError(f"no operator of {paths.YAML.name} has the call {', '.join(unknown)}")
    return used


def named_operators() -> set[str]:
    """Return the names that hand-written modules read from the module `operators`."""
    return {name for text in _texts() for name in _NAMED.findall(text)}


def _texts() -> list[str]:
    """Return the texts of those hand-written modules of the package that import generated code."""
    found = [path for path in paths.PACKAGE.rglob("*.py") if not paths.is_generated(path)]
    texts = [path.read_text(encoding="utf-8") for path in found]
    return [text for text in texts if "_generated import" in text]


def _family(model: Model, family: str, ops: list[Op], used: set[str]) -> str:
    parts = [FAMILY_IMPORTS]
    for base in dict.fromkeys(op.base for op in ops):
        blocks = [[line for op in ops if op.base == base for line in operators.operator(op)]]
        blocks[0] += functions.results(model, base)
        blocks += functions.functions(model, base) + functions.methods(model, base)
        blocks += [operators.call(op) for op in ops if op.base == base and op.identifier in used]
        blocks += [face for op in ops if op.base == base for face in functions.faces(op)]
        parts.append(joined(_spaced(blocks)))
    return module(FAMILY_DOC.format(family=family), *pruned(parts))


def _spaced(blocks: list[list[str]]) -> list[str]:
    """Return the lines of all blocks, with an empty line between definitions."""
    lines: list[str] = []
    for number, block in enumerate(blocks):
        lines += ["", *block] if number > 1 and len(block) > 1 else block
    return lines


def _index(model: Model, used: set[str]) -> str:
    properties = model.bases("property")
    dunders = [(op.family, name) for op in model.ops for name in op.operators]
    names = [*model.bases("method"), *properties, *model.aliases("method")]
    methods = [(_family_of(model, name), name) for name in names]
    names = [*model.bases("function", ""), *model.aliases("function", "")]
    public = [(_family_of(model, name), name) for name in names]
    named = {
        "FUNCTIONS": public,
        "METHODS": methods + dunders,
        "CALLS": [(op.family, op.identifier) for op in model.ops if op.identifier in used],
        "OPERATORS": [(op.family, op.name) for op in model.ops],
    }
    named["NN"] = [(op.family, name) for op in model.ops for name, _ in op.nn]
    named["EXPORTS"] = exports()
    parts = [f'{name} = _read("""\n{_listed(found)}\n""")' for name, found in named.items()]
    parts += ["MODULES: dict[str, dict[str, str]] = {", *indent(_modules(model)), "}"]
    parts += ["LATER: dict[str, dict[str, str]] = {", *indent(_later()), "}"]
    lacks = textwrap.fill(" ".join(_lacked({name for _, name in methods})), WIDTH)
    parts.append(f'LACKS = """\n{lacks}\n"""')
    parts.append(f"NAMESPACES = {_namespaces(model)}")
    parts.append(f'PROPERTIES = frozenset("{" ".join(properties)}".split())')
    return module(INDEX_DOC, INDEX_HEAD, "\n".join(parts))


def _namespaces(model: Model) -> str:
    """Return the source text of a dict from namespace to family, for all namespaces except `aten`.
    Raises: LookupError if a namespace has two families."""
    found: dict[str, str] = {}
    for op in model.others:
        if found.setdefault(op.namespace, op.family) != op.family:
            raise LookupError(f"'{op.namespace}' must have one family (got {op.family})")
    listed = ", ".join(f'"{name}": "{family}"' for name, family in found.items())
    return f"{{{listed}}}"


def _lacked(methods: set[str]) -> list[str]:
    """Return attributes of PyTorch's tensors or NumPy's arrays (names.txt) that gputensor's tensors
    lack."""
    lines = paths.NAMES.read_text(encoding="utf-8").splitlines()
    theirs = [line.partition(": ") for line in lines]
    of_tensors = [names for kind, _, names in theirs if kind in ("torch.Tensor", "numpy.ndarray")]
    ours = set(methods)
    for source in ("base", "differentiable", "tensor", "torch_names"):
        text = (paths.PACKAGE / "tensor" / f"{source}.py").read_text(encoding="utf-8")
        for kind in ast.parse(text).body:
            ours |= {*_defined(kind.body)} if isinstance(kind, ast.ClassDef) else set()
    return sorted({*" ".join(of_tensors).split()} - ours)


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Return the names that a class's statements define."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.If):
            yield from _defined([*node.body, *node.orelse])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            yield from [name.id for name in names if isinstance(name, ast.Name)]


def _modules(model: Model) -> list[str]:
    """Return the source lines of a dict from each module, such as linalg, to its functions, grouped
    by family. A function is listed under its name in the module, such as `inv` for linalg_inv."""
    lines = []
    for name in MODULES:
        bases = [*model.bases("function", name), *model.aliases("function", name)]
        listed = [(_family_of(model, base), base.removeprefix(f"{name}_")) for base in bases]
        lines += [f'"{name}": _read("""', *_listed(listed).split("\n"), '"""),']
    return lines


def _loops(model: Model) -> str:
    """Return the text of a module with the dict LOOPS[family][loop] -> dtypes. A loop's dtypes are
    those of the row that needs only this loop: the row `clamp_min` accepts bool, the row `clamp`,
    which needs several loops, does not. If there is no such row, a row with several loops is used.

    Raises: LookupError if two rows give a loop different dtypes.
    """
    found: dict[str, dict[str, str]] = {}
    own = {
        (op.family, *op.needed_loops): op.dtypes for op in model.ops if len(op.needed_loops) == 1
    }
    for op in model.ops:
        for loop in op.needed_loops:
            of_loop = op.dtypes if len(op.needed_loops) == 1 else own.get((op.family, loop))
            of_loop = op.dtypes if of_loop is None else of_loop
            said = found.setdefault(op.family, {}).setdefault(loop, of_loop)
            if said != of_loop:
                raise LookupError(f"loop '{loop}' must have one 'dtypes' (got {said}, {of_loop})")
    lines = ["LOOPS = {"]
    for family, loops in found.items():
        listed = [f'"{loop}": "{said}"' for loop, said in loops.items()]
        lines += indent(wrap(f'"{family}": {{', listed, "},"))
    return module(LOOPS_DOC, joined([*lines, "}"]))


def batching(model: Model) -> str:
    """Return the module with the batch rules of rows that do not use their family's rule."""
    rows = [f'"aten::{op.name}": "{op.batch}",' for op in model.ops if op.batch]
    return module(BATCHING_DOC, "\n".join(["RULES = {", *indent(rows), "}"]))


def exports(source: Path = paths.PACKAGE / "__init__.py") -> list[tuple[str, str]]:
    """Return (module, name) for the lazy names of a source file: the names that the file imports as
    `name as name` under `TYPE_CHECKING`.

    The entry for a lazy name that is itself a module ends with a dot.
    """
    tree = ast.parse(source.read_text(encoding="utf-8"))
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and "CHECKING" in ast.unparse(node)
    ]
    found = []
    for node in [node for block in blocks for node in block.body]:
        if not isinstance(node, ast.ImportFrom) or node.level == 0:
            continue
        room = source.parents[node.level - 1].relative_to(paths.PACKAGE).parts
        home = ".".join([*room, *([node.module] if node.module else [])])
        for name in [alias.name for alias in node.names if alias.asname]:
            of = f"{home}.{name}" if home else name
            place = paths.PACKAGE.joinpath(*of.split("."))
            is_module = place.is_dir() or place.with_suffix(".py").exists()
            found.append((f"{of}." if is_module else home, name))
    return found


def _later() -> list[str]:
    """Return the source lines of the dict LATER: one entry for each module that has lazy names,
    except gt itself."""
    lines = []
    for source in sorted(paths.PACKAGE.rglob("*.py")):
        if "lazy.attributes(globals())" in source.read_text(encoding="utf-8"):
            place = source.parent if source.name == "__init__.py" else source.with_suffix("")
            listed = exports(source)
            if listed:
                module = ".".join(place.relative_to(paths.PACKAGE).parts)
                lines += [f'"{module}": _read("""', *_listed(listed).split("\n"), '"""),']
    return lines


def _family_of(model: Model, base: str) -> str:
    """Return the family of a name. Raises: LookupError if its overloads are in two families."""
    found = {op.family for op in model.named(base)}
    if len(found) > 1:
        raise LookupError(f"'{base}' must have one family (got {', '.join(sorted(found))})")
    return found.pop()


def _listed(names: list[tuple[str, str]]) -> str:
    """Return the names grouped as `family: name name`, in lines wrapped to the maximum length."""
    groups: dict[str, list[str]] = {}
    for family, name in names:
        groups.setdefault(family, []).append(name)
    words = [" ".join([f"{family}:", *sorted(listed)]) for family, listed in groups.items()]
    return textwrap.fill(" ".join(words), WIDTH, break_on_hyphens=False)
