"""Text of _generated/*.pyi: type stubs of functions, methods, calls and operators.

Each overload has a signature of its own, so that completion shows the valid combinations.
Docstrings are in the .py files.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..merge import vararg
from ..model import Model, Op, default, parameter
from ..text import HEADER, indent, joined, pruned, wrap
from .families import exports
from .functions import Public, gathered, input_for_self, signature

_TYPES = {
    "Tensor": "Tensor", "int": "int", "SymInt": "int", "float": "float", "bool": "bool",
    "str": "str", "Scalar": "_Number", "ScalarType": "dtype", "Layout": "layout",
    "Device": "device | str | int", "MemoryFormat": "memory_format", "Generator": "Generator",
    "Storage": "Storage",
}  # fmt: skip

IMPORTS = """import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, overload

from ..core.device import device
from ..core.dtype import dtype
from ..core.memory_format import layout
from ..core.memory_format import memory_format
from ..structured.generator import Generator
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor

_Number: TypeAlias = int | float | builtins.complex
"""

# Operand types that NumPy's protocol adds to operators such as `+`.
OPERANDS = """\
_Array: TypeAlias = np.ndarray[Any, Any]
_Operand: TypeAlias = Tensor | _Number | _Array | np.number[Any] | np.bool_
"""

_RESULTS = {"Tensor": "Tensor", "bool": "bool"}

# A dispatch table is generic in the type of its kernels' result, which usually is one tensor.
OPERATORS = """from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..dispatch.operator import Operator, Table
from ..tensor.tensor import Tensor

_Result = TypeVar("_Result", covariant=True)

class _Table(Table, Generic[_Result]):
    def __getitem__(self, key_set: int, /) -> Callable[..., _Result]: ...

class _Of(Operator, Generic[_Result]):
    table: _Table[_Result]
    redispatch_table: _Table[_Result]

def __getattr__(name: str) -> _Of[Tensor]: ...
"""


def functions(model: Model, module: str = "") -> str:
    """Return stubs of public functions. module: a module such as "linalg", whose functions are
    listed under their short names, or "" for gt."""
    prefix = f"{module}_" if module else ""
    # names that gputensor/__init__.py imports under `TYPE_CHECKING` have no stub here
    by_hand = set() if module else {name for _, name in exports()}
    lines: list[str] = []
    for name in [name for name in model.bases("function", module) if name not in by_hand]:
        of_name = gathered(model, name, "function")
        lines += _public(replace(of_name, name=name.removeprefix(prefix)))
    aliases = model.aliases("function", module)
    second = {name.removeprefix(prefix): to.removeprefix(prefix) for name, to in aliases.items()}
    lines += [f"{name} = {to}" for name, to in second.items() if name != to]
    # a stub re-exports a name if it is imported as `name as name`
    taken = sorted({to for to in aliases.values() if not to.startswith(prefix)})
    imports = [f"from .functions import {to}{f' as {to}' * (to in second)}" for to in taken]
    return _stub(model, [*imports, *lines], defines_results=not module)


def nn(model: Model) -> str:
    """Return stubs of the functions of gt.nn.functional that the rows list in `nn`."""
    lines: list[str] = []
    for op in model.ops:
        types = op.nn_types
        first, *_ = types
        for name, taken in op.nn:
            items = [f"{'input' if first == 'self' else first}: Tensor"]
            for item in taken:
                own, _, value = item.partition("=")
                kind = _type(types[own]) if own in types and own != "reduction" else "bool"
                kind = "str" if own == "reduction" else kind
                kind += " | None" if value == "None" and "None" not in kind else ""
                items.append(f"{own}: {kind}{f' = {value}' if value else ''}")
            lines += wrap(f"def {name}(", items, f") -> {_result(op)}: ...")
    return _stub(model, lines)


def methods(model: Model) -> str:
    lines = ["class GeneratedMethods:"]
    for name in sorted({*model.bases("method"), *model.bases("property")}):
        variant = "method" if model.overloads(name, "method") else "property"
        lines += indent(_public(gathered(model, name, variant)))
    aliases = model.aliases("method").items()
    lines += indent([f"{name} = {target}" for name, target in aliases])
    for op, dunder, given in ((o, d, g) for o in model.ops for d, g in o.operators.items()):
        other = f", other: {'_Operand' if op.numbers else 'Tensor | _Array'}"
        taken = other if "other" in given else ""
        lines.append(f"    def {dunder}(self{taken}) -> Tensor: ...")
    return _stub(model, lines, with_operands=True)


def _stub(
    model: Model, lines: list[str], *, with_operands: bool = False, defines_results: bool = False
) -> str:  # fmt: skip
    """Return the text of a stub file from the lines of its definitions. Add the types of named
    results that the lines use. functions.pyi defines the result types of its functions, and the
    other stub files import them from it."""
    imports = IMPORTS
    if with_operands:
        imports = imports.replace("from ..", "import numpy as np\n\nfrom ..", 1) + OPERANDS
    text, named = joined(lines), dict.fromkeys(op.named_results for op in model.ops)
    used = [fields for fields in named if fields and f"-> {_named(fields)}:" in text]
    bases = [] if defines_results else model.bases("function", "")
    shared = {op.named_results for name in bases for op in model.overloads(name, "function")}
    last = "from ..tensor.tensor import Tensor\n"
    taken = [f"from .functions import {_named(f)}\n" for f in used if f in shared]
    imports = imports.replace(last, last + "".join(taken))
    own = [fields.split() for fields in used if fields not in shared]
    types = [
        line for fields in own
        for line in (f"class {_named(' '.join(fields))}(NamedTuple):",
                     *(f"    {field}: Tensor" for field in fields))
    ]  # fmt: skip
    imports = imports if own else imports.replace(", NamedTuple", "")
    return HEADER + "\n".join([*pruned([imports, joined([*types, text])]), ""])


def _named(fields: str) -> str:
    return "".join(["_", *(field.capitalize() for field in fields.split())])


def calls(model: Model, used: Collection[str]) -> str:
    """Return the stubs of the module `calls`. used: identifiers of the overloads that have a
    function in this module."""
    lines: list[str] = []
    for op in [op for op in model.ops if op.identifier in used]:
        lines += wrap(f"def {op.identifier}(", _positional(op), f") -> {_result(op)}: ...")
    return _stub(model, lines)


def operators(model: Model, named: set[str]) -> str:
    """Return the stubs of the module `operators`. Operators that return one tensor need no stub,
    because `__getattr__` declares this type for all names without a stub. named: identifiers of the
    operators that get a stub in any case, because code uses them by name."""
    results = {op.identifier: _result(op) for op in model.ops}
    lines = [f"{n}: _Of[{r}]" for n, r in results.items() if n in named or r != "Tensor"]
    return HEADER + OPERATORS + joined([*lines, ""])


def _positional(op: Op) -> list[str]:
    """Return the parameters of a call. Only trailing parameters may have defaults."""
    found: list[str] = []
    may_default = True
    for argument in reversed(op.arguments):
        may_default = may_default and argument.has_default
        typed = _typed(argument, op.kernel_numbers)
        found.append(typed if may_default else typed.partition(" = ")[0])
    return found[::-1]


def _public(it: Public) -> list[str]:
    signatures = [(op, items) for op in _distinct(it.ops) for items in _signatures(it, op)]
    lines = []
    for op, items in signatures:
        result = _named(op.named_results) if op.named_results else _result(op)
        lines += ["@overload"] if len(signatures) > 1 else []
        lines += ["@property"] if it.variant == "property" else []
        lines += wrap(f"def {it.name}(", items, f") -> {result}: ...")
    return lines if it.is_method else input_for_self(lines)


def _signatures(it: Public, op: Op) -> list[list[str]]:
    listed = vararg(op, is_method=it.is_method)
    if listed is None or not any(item.startswith("*args") for item in signature(it)):
        return _by_both_names(it, _signature(it, op, ""))
    return [_signature(it, op, listed.name, spread) for spread in (False, True)]


def _by_both_names(it: Public, items: list[str]) -> list[list[str]]:
    """Return the parameter lists of an overload. If `dim` is required, there are two lists: one
    with `dim` and one with `axis`. If `dim` is optional, one list has both."""
    names = [item.partition(":")[0] for item in items]
    taken = [item.partition("=")[0] for item in signature(it)]
    if "dim" not in names or "axis" not in taken:
        return [items]
    place = names.index("dim")
    typed, _, dim = items[place].removeprefix("dim").partition(" = ")
    more = ["keepdims: bool = ..."] if "keepdim" in names else []
    more = [*more, f"axis{typed} = ..."] if dim else more
    ours = [*items, *(["*"] if more and "*" not in items else []), *more]
    if dim:  # both `dim` and `axis` may be omitted
        return [ours]
    behind = [item for item in items[place + 1 :] if item != "*"]
    star = [] if "*" in items[:place] else ["*"]
    return [ours, [*items[:place], *star, f"axis{typed}", *behind, *more]]


def _distinct(ops: Sequence[Op]) -> list[Op]:
    """Return the overloads to declare. Among overloads with the same parameters, only the first one
    is declared."""
    found = {
        tuple((a.name, str(a.type.required)) for a in op.taken.arguments): op
        for op in reversed(ops)
    }
    return [op for op in ops if op in found.values()]


def _signature(it: Public, op: Op, vararg: str, spread: bool = False) -> list[str]:
    """Return the parameters of one overload. spread: True if the list of ints is written as
    `*size`."""
    found: list[str] = []
    for argument in op.taken.positional:
        if it.is_method and argument.name == "self":
            found.insert(0, "self")
        elif spread and argument.name == vararg:
            found.append(f"*{parameter(vararg)}: int")
        else:
            found.append(_typed(argument, op.numbers))
    named = [_typed(argument, op.numbers) for argument in op.taken.keyword_only]
    named += ["requires_grad: bool = False"] if it.takes_requires_grad else []
    if it.outs:
        is_one = len(op.schema.returns) == 1
        named.append(f"out: {'Tensor' if is_one else 'Sequence[Tensor]'} | None = None")
    if named and not spread:
        found.append("*")
    return found + named


def _typed(argument: Any, numbers: Collection[str]) -> str:
    name, text = parameter(argument.name), _type(argument.type)
    if argument.name in numbers:
        text = "Tensor | _Number"
    if not argument.has_default:
        return f"{name}: {text}"
    value = default(argument)
    return f"{name}: {text} = {'...' if value.startswith('_') else value}"


def _type(form: Any) -> str:
    if form.is_optional:
        return f"{_type(form.parts[0])} | None"
    if form.is_list:
        inner = _type(form.parts[0])
        listed = f"Sequence[{inner}]"
        return f"{inner} | {listed}" if form.size is not None else listed
    return _TYPES[form.base]


def _result(op: Op) -> str:
    """Return an operator's return type. A number has type Any, because its type depends on the
    dtype."""
    forms = [returned.type for returned in op.schema.returns]
    results = ["tuple[Tensor, ...]" if f.is_list else _RESULTS.get(f.base, "Any") for f in forms]
    if len(results) == 1:
        return results[0]
    return f"tuple[{', '.join(results)}]" if results else "None"
