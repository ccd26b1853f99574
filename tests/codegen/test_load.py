"""Errors in the YAML: the message names file, line and operator."""

from __future__ import annotations

import textwrap

import pytest

from codegen import load
from codegen.entry import EntryError

GOOD = """
- func: erf(Tensor self) -> Tensor
  autogen: erf_, erf.out
  variants: function, method
  family: unary
  dtypes: floating
  derivatives: {self: grad * 2}
  doc: Error function of each element.
"""


def read(text: str) -> load.Model:
    return load.loads(textwrap.dedent(text).lstrip("\n"))


def test_an_entry_and_what_its_autogen_names() -> None:
    model = read(GOOD)
    assert [op.name for op in model.ops] == ["erf", "erf_", "erf.out"]
    assert [str(op.schema) for op in model.ops[1:]] == [
        "erf_(Tensor(a!) self) -> Tensor(a!)",
        "erf.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)",
    ]
    erf, in_place, out = model.ops
    assert erf.line == in_place.line == out.line == 1
    assert in_place.source is erf and in_place.variants == ("method",)
    assert [op.loop for op in model.ops] == ["erf"] * 3
    assert model.out_of(erf) is out


def test_forms_that_follow_from_what_another_operator_gives() -> None:
    """These forms need no YAML entry: a view lists its copy, and a composite lists its forms."""
    _, pieces, _, copy, into, roll, in_place, out = read(
        """
        - func: pieces.int(Tensor(a -> *) self, int n) -> Tensor(a)[]
          autogen: pieces_copy.int
          dispatch:
            CPU, CUDA, Meta: pieces
          family: view
          derivatives: {self: cat(grads)}
          doc: Pieces.
        - func: turned(Tensor(a) self) -> Tensor(a)
          autogen: turned_copy, turned_copy.out
          dispatch:
            CPU, CUDA, Meta: turned
          family: view
          doc: Turned.
        - func: roll(Tensor self) -> Tensor
          autogen: roll_, roll.out
          dispatch:
            CompositeImplicitAutograd: roll
          family: view
          doc: Rolled.
        """
    ).ops
    assert str(pieces.schema) == "pieces_copy.int(Tensor self, int n) -> Tensor[]"
    assert pieces.derivatives == {"self": "cat(grads)"} and pieces.follows == "pieces_int"
    assert (str(copy.schema), copy.follows) == ("turned_copy(Tensor self) -> Tensor", "turned")
    assert into.follows == "turned_copy" and into.source is copy
    assert copy.dispatch == {"CompositeExplicitAutograd": "copy"} and not copy.needed_loops
    # an in-place composite is differentiated through the operators that it calls
    assert in_place.dispatch == {"CompositeImplicitAutograd": "inplace"} and roll.dispatch
    assert out.dispatch == {"CompositeExplicitAutograd": "out"}


# (the fault, YAML, message after the file's name)
BROKEN = [
    ("no list", "func: f", "1: yaml: the file must be a list of entries"),
    ("no mapping", "- erf", "1: entry: must be a mapping that begins with 'func'"),
    (
        "syntax",
        "- func: f\n  doc: {",
        "2: yaml: expected the node content, but found '<stream end>'",
    ),
    (
        "unknown key",
        GOOD.replace("dtypes", "dtype"),
        "5: erf: unknown key 'dtype'; did you mean 'dtypes'",
    ),
    ("key twice", GOOD + "  doc: Again.\n", "8: erf: key 'doc' is given twice, first at line 7"),
    ("no family", GOOD.replace("  family: unary\n", ""), "1: erf: 'family' is missing"),
    ("no doc", GOOD.partition("  doc")[0], "1: erf: 'doc' is missing"),
    (
        "empty doc",
        GOOD.replace("Error function of each element.", ""),
        "7: erf: 'doc' must be a text",
    ),
    ("family", GOOD.replace("unary", "un ary"), "4: erf: 'family' must be a name (got 'un ary')"),
    ("defined twice", GOOD + GOOD.lstrip("\n"), "8: erf: is defined already, at line 1"),
    (
        "numbers",
        GOOD + "  numbers: other\n",
        "8: erf: 'numbers' has no 'other'",
    ),
    (
        "python's operator",
        GOOD + "  python: {__erf__: other}\n",
        "8: erf: 'python.__erf__' must begin with self and other (got 'other')",
    ),
    (
        "operand of a node class",
        GOOD + "  number_nodes: {other: ErfBackward1}\n",
        "8: erf: 'number_nodes' has no 'other'",
    ),
    (
        "node classes of numbers",
        GOOD + "  number_nodes: ErfBackward1\n",
        "8: erf: 'number_nodes' must map operands to node classes",
    ),
    (
        "name of python's operator",
        GOOD + "  python: {erf: self}\n",
        "8: erf: 'python' must map names like '__add__' (got 'erf')",
    ),
    (
        "policy",
        GOOD + "  autocast: fp23\n",
        "8: erf: 'autocast' has no policy 'fp23'; did you mean 'fp32'",
    ),
    (
        "policy of a device",
        GOOD + "  autocast: {CPU: fp32, CUDA: promoted}\n",
        "8: erf: 'autocast' has no policy 'promoted'; did you mean 'promote'",
    ),
    (
        "device of a policy",
        GOOD + "  autocast: {CPUs: fp32}\n",
        "8: erf: 'autocast' has no device 'CPUs'; did you mean 'CPU'",
    ),
    (
        "policy of a write",
        GOOD
        + "- func: f_(Tensor(a!) self) -> Tensor(a!)\n  family: unary\n  autocast: fp32\n  doc: "
        "F.\n",
        "10: f_: 'autocast' must stand at a functional operator of tensors",
    ),
    (
        "policy of a factory",
        GOOD + "- func: f(int n) -> Tensor\n  family: unary\n  autocast: fp32\n  doc: F.\n",
        "10: f: 'autocast' must stand at a functional operator of tensors",
    ),
    (
        "policy without a dtype",
        GOOD + "  autocast: fp32_set_opt_dtype\n",
        "8: erf: 'autocast' fp32_set_opt_dtype needs an argument 'ScalarType? dtype'",
    ),
    (
        "policy without an overload",
        GOOD + "  autocast: fp32_append_dtype\n",
        "1: erf: 'autocast' fp32_append_dtype needs an overload that ends in 'ScalarType dtype'",
    ),
    (
        "written and autogen",
        GOOD + "- func: erf_(Tensor(a!) self) -> Tensor(a!)\n  family: unary\n  doc: In place.\n",
        "8: erf_: is defined already, at line 1",
    ),
    (
        "schema",
        GOOD.replace("-> Tensor", "->"),
        "1: erf: schema: column 20 must be a type (got 'the end') in 'erf(Tensor self) ->'",
    ),
    (
        "spelling",
        GOOD.replace("(Tensor self)", "(Tensor  self)"),
        "1: erf: 'func' must be spelled 'erf(Tensor self) -> Tensor'",
    ),
    (
        "namespace",
        GOOD.replace("func: erf", "func: aten::erf").replace("  autogen: erf_, erf.out\n", ""),
        "1: aten::erf: 'func' must not name a namespace other than _c10d_functional",
    ),
    (
        "kind",
        "- func: f_(Tensor self) -> Tensor\n  family: x\n  doc: F.",
        "1: f_: 'func' must be in-place on 'Tensor(a!) self', as its name ends in '_' "
        "(got 'f_(Tensor self) -> Tensor')",
    ),
    (
        "autogen",
        GOOD.replace("erf.out", "erfout"),
        "1: erf: 'autogen' must name its forms like 'erf_' or 'erf.out' (got 'erfout')",
    ),
    (
        "variant",
        GOOD.replace("method", "methods"),
        "3: erf: 'variants' has no 'methods'; did you mean 'method'",
    ),
    (
        "method without self",
        "- func: f(int[] size) -> Tensor\n  variants: method\n  family: x\n  doc: F.",
        "2: f: a method must have an argument 'self'",
    ),
    (
        "dtypes",
        GOOD.replace("floating", "float"),
        "5: erf: 'dtypes' has no 'float'; did you mean 'floating'",
    ),
    (
        "tag",
        GOOD + "  tags: pointwis\n",
        "8: erf: 'tags' has no 'pointwis'; did you mean 'pointwise'",
    ),
    (
        "dispatch key",
        GOOD + "  dispatch: {CUDDA: erf}\n",
        "8: erf: unknown dispatch key 'CUDDA'; did you mean 'CUDA'",
    ),
    (
        "dispatch key twice",
        GOOD + "  dispatch:\n    CPU, CUDA: erf\n    CUDA, Meta: erf2\n",
        "10: erf: dispatch key 'CUDA' is given twice",
    ),
    (
        "two composites",
        GOOD + "  dispatch:\n    CompositeImplicitAutograd: a\n    CompositeExplicitAutograd: b\n",
        "9: erf: 'dispatch' must have at most one composite key",
    ),
    (
        "implicit and backend",
        GOOD + "  dispatch:\n    CompositeImplicitAutograd: a\n    CPU: b\n",
        "9: erf: 'dispatch' must not mix CompositeImplicitAutograd with backends",
    ),
    (
        "composition of a backend",
        GOOD + "  dispatch:\n    CPU: calls.erf(self)\n",
        "9: erf: 'dispatch.CPU' must be a name in native/, or at a composite key a call of an "
        "operator (got 'calls.erf(self)')",
    ),
    (
        "composition without a call",
        GOOD + "  dispatch:\n    CompositeImplicitAutograd: self + 1\n",
        "9: erf: 'dispatch.CompositeImplicitAutograd' must be a name in native/, or at a composite "
        "key a call of an operator (got 'self + 1')",
    ),
    (
        "function of nn with another parameter",
        GOOD + "  nn: erf(alpha=1)\n",
        "8: erf: 'nn' must hold NAME(parameters after input) (got 'erf(alpha=1)')",
    ),
    (
        "no dispatch map",
        GOOD + "  dispatch: erf\n",
        "8: erf: 'dispatch' must map keys to names in native/",
    ),
    (
        "derivative of nothing",
        GOOD.replace("{self:", "{selff:"),
        "6: erf: 'derivatives' has no Tensor argument 'selff'; did you mean 'self'",
    ),
    (
        "derivative that is no Python",
        GOOD.replace("grad * 2", "grad *"),
        "6: erf: derivative of 'self' is not a Python expression: 'grad *'",
    ),
    (
        "joint derivative of one argument",
        GOOD.replace("grad * 2", "grad * grad_input_mask"),
        "6: erf: a key of 'derivatives' must name several arguments where the formula takes "
        "'grad_input_mask', else one (got 'self')",
    ),
    (
        "node without derivative",
        "".join(line for line in GOOD.splitlines(True) if "derivatives" not in line)
        + "  node: ErfBackward\n",
        "7: erf: 'node' is of a derivative",
    ),
    (
        "replay of two arguments",
        GOOD.replace("erf(Tensor self)", "erf(Tensor self, int n)") + "  replay: True\n",
        "8: erf: 'replay' is of a view with one argument",
    ),
    (
        "device_check",
        GOOD + "  device_check: Nocheck\n",
        "8: erf: 'device_check' has no 'Nocheck'; did you mean 'NoCheck'",
    ),
]


@pytest.mark.parametrize(
    "text, message", [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN]
)
def test_a_mistake_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(EntryError) as raised:
        read(text)
    assert str(raised.value) == f"native_functions.yaml:{message}"


def test_every_schema_of_ours_gives_its_text_back() -> None:
    model = load.load()
    assert model.ops
    for op in model.ops:
        assert str(load.model.schema.parse(op.full_schema)) == op.full_schema


def test_operators_of_other_namespaces_stand_apart() -> None:
    text = """
        - func: erf(Tensor self) -> Tensor
          family: unary
          doc: Error function.
        - func: _c10d_functional::erf(Tensor input) -> Tensor
          family: collective
          dispatch: {CPU: erf}
          doc: Another.
        - func: _c10d_functional::erf_(Tensor(a!) input) -> Tensor(a!)
          family: collective
          dispatch: {CPU: erf_}
          doc: In place.
    """
    model = read(text)
    assert [op.name for op in model.ops] == ["erf"]
    assert [op.full_schema for op in model.others] == [
        "_c10d_functional::erf(Tensor input) -> Tensor",
        "_c10d_functional::erf_(Tensor(a!) input) -> Tensor(a!)",
    ]
    assert not any(op.is_public for op in model.others)
    assert model.apart.families() == ["collective"]
