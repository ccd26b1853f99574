"""The data model: one `Op` for each overload, with properties derived from its schema.

This module has no I/O. `load.py` makes Ops from the YAML, and the modules of emit/ read them.
"""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .paths import load_module

if TYPE_CHECKING:
    from gputensor.core.schema import Argument, FunctionSchema

schema: Any = load_module("core.schema")
# Maps a word in the field `dtypes` to its DtypeRule.
DTYPES: dict[str, Any] = load_module("core.dtype_rules").RULES

NAMESPACE = "aten"
OPTIONS = ("dtype", "layout", "device", "pin_memory")
# Names of alias sets, such as `a` in `Tensor(a!)`. The first argument that an operator writes to
# has the first name.
NAMES_OF_SETS = "abcdefgh"
# Namespaces other than `aten` that have rows. All kernels of such a namespace are in one family.
OTHERS = ("_c10d_functional",)
# Modules besides gt whose functions are operators: gt.linalg.inv is `linalg_inv`.
MODULES = ("linalg", "fft", "special")
# Values of `python_module` for functions that are written by hand, because their arguments differ.
BY_HAND = ("nn", "functional")
COMPOSITE = (
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
DEVICES = ("CPU", "CUDA", "Meta")
IMPLICIT = COMPOSITE[0]
# Name of a tuple of bools in a formula for several operands: True for each operand whose gradient
# is needed.
MASK = "grad_input_mask"
# Word in place of a kernel's name in `Op.dispatch`: the operator only calls the operator in
# `Op.follows`.
FORWARD = "forward"

# Autocast policies, and the dispatch keys of device types that a row may name.
# Source: aten/src/ATen/autocast_mode.h, CastPolicy.
AUTOCAST_POLICIES = {
    "lower_precision_fp": "cast to the block's dtype",
    "fp32": "cast to float32",
    "fp32_set_opt_dtype": "computed with dtype=float32, unless a dtype is given",
    "fp32_append_dtype": "computed by the overload with a dtype, in float32",
    "promote": "cast to the widest among them",
    "banned": "refused: it would lose too many digits",
}
AUTOCAST_DEVICES: tuple[str, ...] = load_module("core.device").AUTOCAST_DEVICES
# Properties of an operand that an operator may read without reading its elements.
READS = ("geometry", "conjugates", "storage")
# Tags that PyTorch does not have. dispatch/boxing/calling.py uses the first tag.
# fallbacks/lazy_views.py uses the others, which are made from the field `reads` of an entry.
OUR_TAGS = ("numbers_as_tensors", *(f"reads_{what}" for what in READS))
TAGS = (
    "core", "data_dependent_output", "dynamic_output_shape", "inplace_view",
    "maybe_aliasing_or_mutating",
    "nondeterministic_bitwise", "nondeterministic_seeded", "numbers_as_tensors", "pointwise",
    "reduction", "view_copy",
)  # fmt: skip
# Tags that operators named in `autogen` do not inherit from their entry.
OF_THE_ENTRY = ("core", "maybe_aliasing_or_mutating", *(f"reads_{what}" for what in READS))


# (kernel factory, family) of the only out forms that store short cuts.
_SHORT_OUT = (("out", "unary"), ("out", "binary"), ("out", "comparison"))


@dataclass(frozen=True)
class Op:
    """One overload of an operator.

    line: the line of its entry in the YAML. dispatch: key -> name in native/<family>.py, or None if
    the family's kernel factory makes the kernel. factory: the prefix of that factory's name.
    autocast: device type -> policy. signature: the parameters in Python, if they differ from the
    schema's arguments. numbers: Tensor arguments that may be Python numbers, which native code
    receives unchanged. python: special method -> the arguments that it passes, such as {"__rsub__":
    "other, self"}.
    short: the key of its short cuts and, after a semicolon, the arguments that they take besides
    the tensors. shortcut: a condition under which the method returns self without a dispatch.
    node: the name of its node class, if PyTorch's name does not follow from the numbering rule.
    number_nodes: operand -> the name of the node class if this operand is a number, such as
    {"exponent": "PowBackward0"}.
    replay: for a view that interprets its elements in another way, so that as_strided cannot make
    it again. activation: an operand that is often the result of an activation function; if it is
    large, it is recomputed. batch: its batch rule in func/rules/, if it is not its family's rule.
    source: the entry whose `autogen` names this overload. follows: the identifier of the operator
    whose results this overload copies or returns, by structured/forms.py. scalars: schemas of
    overloads that take numbers in place of `numbers`; each calls the form of its kind. aliases:
    further names of all forms. alias_of: the name of which this overload's name is an alias. nn:
    the functions of gt.nn.functional that call the operator, as (name, parameters after input).
    """

    schema: FunctionSchema
    line: int
    family: str
    doc: str
    variants: tuple[str, ...] = ("function",)
    dispatch: dict[str, str] | None = None
    autogen: tuple[str, ...] = ()
    factory: str = ""
    loops: tuple[str, ...] = ()
    dtypes: str = ""
    derivatives: dict[str, str] = field(default_factory=dict)
    autocast: dict[str, str] = field(default_factory=dict)
    signature: FunctionSchema | None = None
    numbers: tuple[str, ...] = ()
    python: dict[str, str] = field(default_factory=dict)
    short: str = ""
    shortcut: str = ""
    tags: tuple[str, ...] = ()
    device_check: bool = True
    device_guard: bool = True
    python_module: str = ""
    node: str = ""
    number_nodes: dict[str, str] = field(default_factory=dict)
    replay: bool = False
    activation: str = ""
    batch: str = ""
    source: Op | None = None
    follows: str = ""
    scalars: tuple[FunctionSchema, ...] = ()
    aliases: tuple[str, ...] = ()
    alias_of: str = ""
    nn: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def name(self) -> str:
        """Name with overload, such as `add.Tensor`."""
        overload = self.schema.name.overload
        return f"{self.base}.{overload}" if overload else self.base

    @property
    def base(self) -> str:
        return self.schema.name.base

    @property
    def identifier(self) -> str:
        """Name as a Python identifier: `add_Tensor`, or `add__Tensor` for `add_.Tensor`."""
        return self.name.replace(".", "_")

    @property
    def full_schema(self) -> str:
        return str(self.schema) if self.schema.name.namespace else f"{NAMESPACE}::{self.schema}"

    @property
    def namespace(self) -> str:
        return self.schema.name.namespace or NAMESPACE

    @property
    def kind(self) -> str:
        return self.schema.kind

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.schema.arguments

    @property
    def parameters(self) -> list[str]:
        return [parameter(argument.name) for argument in self.arguments]

    @property
    def taken(self) -> FunctionSchema:
        """The parameters of the Python function: the `signature` of the row or, without one, the
        schema's arguments with a keyword-only memory format."""
        if self.signature is not None:
            return self.signature
        arguments = tuple(
            schema.Argument(a.type, a.name, a.default_text, a.default, True)
            if a.name == "memory_format"
            else a
            for a in self.arguments
        )
        found: FunctionSchema = schema.FunctionSchema(
            self.schema.name, arguments, self.schema.returns
        )
        return found

    @property
    def has_joint_formula(self) -> bool:
        """True if one formula returns the gradients of all differentiable operands."""
        return any(MASK in formula for formula in self.derivatives.values())

    @property
    def tensors(self) -> list[Argument]:
        """The arguments from which dispatch keys are collected."""
        return [argument for argument in self.arguments if argument.type.has_tensor]

    @property
    def operators(self) -> dict[str, str]:
        """Dict from special methods of this form to their arguments. `__isub__` belongs to the
        in-place form."""
        writes = {n for n in self.python if n[2] == "i" and f"__{n[3:]}" in self.python}
        is_form = self.kind == "inplace" and self.source is not None
        return {n: given for n, given in self.python.items() if (n in writes) == is_form}

    @property
    def kernel_numbers(self) -> list[str]:
        """Tensor arguments that kernels may receive as numbers. The first operand may be a number
        in special methods such as `__rsub__`, and in out forms."""
        first = self.tensors[0].name if self.tensors else ""
        swaps = any(given.startswith("other") for given in self.operators.values())
        takes_first = self.numbers and first == "self" and (swaps or self.kind == "out")
        return [*([first] if takes_first and first not in self.numbers else []), *self.numbers]

    @property
    def public_name(self) -> str:
        """The name after `gt.`, such as `linalg.inv` for linalg_inv."""
        if self.python_module not in MODULES:
            return self.base
        return f"{self.python_module}.{self.base.removeprefix(f'{self.python_module}_')}"

    @property
    def named_results(self) -> str:
        """The names of several results as one string, or "" if they have no names."""
        names = [value.name for value in self.schema.returns]
        return " ".join(names) if len(names) > 1 and all(names) else ""

    @property
    def has_options(self) -> bool:
        names = [argument.name for argument in self.schema.keyword_only]
        return all(option in names for option in OPTIONS)

    @property
    def is_factory(self) -> bool:
        """True for a factory: no operand determines the backend, so BackendSelect chooses it."""
        return self.has_options and not self.tensors

    @property
    def takes_requires_grad(self) -> bool:
        """True if the public function takes `requires_grad=`.

        Source: torchgen/api/python.py, is_factory_function and is_like_or_new_function.
        """
        is_like = self.base.startswith("new_") or self.base.endswith("_like")
        return self.has_options and (not self.tensors or is_like)

    @property
    def is_public(self) -> bool:
        """True for a public operator, False for private names and for operators of derivatives.

        Source: tools/autograd/gen_python_functions.py, SKIP_PYTHON_BINDINGS.
        """
        if (
            self.namespace != NAMESPACE
            or self.python_module in BY_HAND
            or self.base.endswith("_backward")
        ):
            return False
        return not self.base.startswith("_") or self.base.startswith("__")

    @property
    def is_implicit(self) -> bool:
        return self.dispatch is not None and IMPLICIT in self.dispatch

    @property
    def loop(self) -> str:
        """The name of the loop that the family's kernel factory binds."""
        return self.loops[0] if self.loops else self.base.rstrip("_")

    @property
    def kernel_factory(self) -> str:
        """The function of native/<family>.py that makes the kernel, such as `functional` or
        `mode_out`."""
        return f"{self.factory}_{self.kind}" if self.factory else self.kind

    @property
    def leaves_short_cuts(self) -> bool:
        """True if the operator's CPU kernel may store short cuts. See Note [Short cuts] in
        gputensor/dispatch.

        Kernels made by a family's factory may store them if all operands are plain tensors. Of the
        out forms, only those of pointwise operators store them.
        """
        if self.dispatch is not None or self.follows:
            return False
        if self.kind == "out" and (self.kernel_factory, self.family) not in _SHORT_OUT:
            return False
        plain = all(str(a.type) in ("Tensor", "Tensor(a!)") for a in self.tensors)
        return plain and bool(self.tensors) and len(self.schema.returns) == 1

    @property
    def is_scaled(self) -> bool:
        """True if `alpha` is the only argument besides two operands and `out`. Short cuts of such
        an operator serve calls with `alpha` 1."""
        return [a.name for a in self.arguments[2:] if a.name != "out"] == ["alpha"]

    @property
    def needed_loops(self) -> tuple[str, ...]:
        """The loops that every device must have for this operator."""
        return self.loops or ((self.loop,) if self.dispatch is None else ())

    @property
    def is_composite(self) -> bool:
        return self.dispatch is not None and any(key in self.dispatch for key in COMPOSITE)

    @property
    def gives_view(self) -> bool:
        return self.kind == "functional" and any(r.type.aliases for r in self.schema.returns)

    @property
    def is_forward(self) -> bool:
        """True if the operator only calls another overload, as an alias does."""
        return (self.dispatch or {}).get(IMPLICIT) == FORWARD

    @property
    def natives(self) -> list[str]:
        """The names that native/<family>.py must define, because `dispatch` refers to them."""
        if self.follows:
            return []
        names = dict.fromkeys((self.dispatch or {}).values())
        return [name for name in names if name != self.composition]

    @property
    def nn_types(self) -> dict[str, Any]:
        """Dict from the names that gt.nn.functional gives to the arguments to the arguments'
        types."""
        names = [parameter(a.name) for a in self.arguments]
        names = ["training" if name == "train" else name for name in names]
        return dict(zip(names, [a.type for a in self.arguments]))

    @property
    def called_by_nn(self) -> set[str]:
        """The overloads that the functions in `nn` call."""
        found = {self.identifier} if any(name[-1] != "_" for name, _ in self.nn) else set[str]()
        writes = [name for name, taken in self.nn if name[-1] == "_" or "inplace=False" in taken]
        return found | ({f"{self.base}_"} if writes else set())

    @property
    def composition(self) -> str:
        """The expression in `dispatch` that a composite kernel returns; "" if native/ has the
        kernel."""
        found = [text for text in (self.dispatch or {}).values() if "(" in text]
        return found[0] if found else ""


@dataclass(frozen=True)
class Model:
    """All operators, in the order of the YAML: its entries, and the operators named in `autogen`.

    ops: operators of `aten`. others: operators of other namespaces, which are found only in
    `gt.ops`. Each of these namespaces has one family.
    """

    ops: tuple[Op, ...]
    others: tuple[Op, ...] = ()

    @property
    def all(self) -> Model:
        return Model(self.ops + self.others)

    @property
    def apart(self) -> Model:
        return Model(self.others)

    def find(self, name: str) -> Op:
        return next(op for op in self.ops if op.name == name)

    def overloads(self, base: str, variant: str) -> list[Op]:
        """Return the overloads that a public function or method merges, without out forms."""
        return [op for op in self.named(base) if variant in op.variants and op.kind != "out"]

    def named(self, base: str) -> Sequence[Op]:
        """Return all overloads of a name, including out forms."""
        return self._by_base.get(base, ())

    @cached_property
    def _by_base(self) -> dict[str, list[Op]]:
        """Dict from base name to overloads. It is cached, because it is read many times for each
        name."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            found.setdefault(op.base, []).append(op)
        return found

    @cached_property
    def _second_names(self) -> list[Op]:
        return [op for op in self.ops if op.alias_of and op.is_public]

    @cached_property
    def _bases(self) -> dict[tuple[str, str | None], list[str]]:
        return {}

    def bases(self, variant: str, module: str | None = None) -> list[str]:
        """Return the public names in alphabetical order. module: return only the names of this
        python_module; "" stands for gt."""
        if (variant, module) not in self._bases:
            self._bases[variant, module] = self._public(variant, module)
        return self._bases[variant, module]

    def _public(self, variant: str, module: str | None) -> list[str]:
        ops = [op for op in self.ops if op.is_public and module in (None, op.python_module)]
        return sorted({op.base for op in ops if self.overloads(op.base, variant)})

    def aliases(self, variant: str, module: str | None = None) -> dict[str, str]:
        """Return a dict from each alias to the public name for which it stands."""
        is_method = variant != "function"
        ops = [op for op in self._second_names if not (is_method and op.python_module)]
        found = {op.base: op for op in ops}
        return {
            name: op.alias_of for name, op in sorted(found.items())
            if module in (None, op.python_module) and self.overloads(op.alias_of, variant)
        }  # fmt: skip

    def out_of(self, op: Op) -> Op | None:
        """Return the out form of a functional operator: the form in its `autogen`, or an entry with
        the same arguments."""
        if op.kind != "functional":
            return None
        wanted = [str(argument.type) + argument.name for argument in op.schema.positional]
        named = {a.name for a in op.schema.keyword_only if a.name not in OPTIONS}
        for other in self.named(op.base):
            if other.kind == "out":
                positional = other.schema.positional
                given = [str(argument.type) + argument.name for argument in positional]
                rest = positional[len(wanted) :]
                fits = given[: len(wanted)] == wanted and all(a.has_default for a in rest)
                fits &= named == {a.name for a in other.schema.keyword_only if not a.is_write}
                if (other.source is op) if other.source else fits:
                    return other
        return None

    def with_dtype(self, op: Op) -> Op | None:
        """Return the overload with the arguments of `op` followed by a dtype, or None."""
        wanted = [*(argument.name for argument in op.arguments), "dtype"]
        for other in self.named(op.base):
            names = [argument.name for argument in other.arguments]
            if names == wanted and str(other.arguments[-1].type) == "ScalarType":
                return other
        return None

    def families(self) -> list[str]:
        return list(dict.fromkeys(op.family for op in self.ops))


def parameter(name: str) -> str:
    """Return an argument's name in Python, such as `from_` for `from`."""
    return f"{name}_" if keyword.iskeyword(name) else name


# Maps names that are defaults in schemas to Python text. The names are members of at::Reduction,
# and `long`, in place of which native code chooses the dtype.
_ENUMS = {"Mean": "1", "Sum": "2", "long": "None"}


def default(argument: Any) -> str:
    """Return an argument's default as Python text."""
    value = argument.default
    if isinstance(value, schema.Name):
        return _ENUMS.get(value) or f"_{value}"
    if argument.type.base == "float" and type(value) is int:
        value = float(value)
    return repr(value)
