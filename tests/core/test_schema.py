"""The schema parser: parsing, round trip to text, error messages."""

from __future__ import annotations

import pickle

import pytest

from gputensor.core import dtype, memory_format, schema
from gputensor.core.errors import SchemaError

# One schema of each form of the grammar; tests/codegen/test_oracle.py parses all of aten.
TEXTS = [
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "f() -> ()",
    "f(Tensor(a) self) -> Tensor(a)",
    "f(Tensor(a!) self) -> Tensor(a!)",
    "f(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    "f(Tensor(a! -> a|b) self) -> Tensor(a|b)",
    "f(Tensor(a!)[] self, Tensor(b!)? other=None) -> ()",
    "f(Tensor(*) self) -> t[](*)",
    "f(t[](a!) self, t(c -> *) el) -> t[](a!)",
    "f(Tensor?[] xs, Tensor[]? ys, int[1]? dim, str[][] names) -> (Tensor, Tensor[])",
    "f(int[2] stride=1, int[2] padding=[0, 0], SymInt[]? size=None) -> int",
    'f(str a="x", str b=\'y\', str c=" \\n\\t", float d=1e-05, float e=-2., bool g=True) -> bool',
    "f(Scalar s=0.5, complex z=1j, ScalarType t=long, int reduction=Mean) -> Scalar",
    'f(MemoryFormat memory_format=contiguous_format, Device d="cpu") -> Device',
    "f(Dict(str, t) self, Future(t) g, (int, t)[] pairs) -> Dict(str, t)",
    "f(str self, ...) -> ...",
    "f(Tensor x) -> (Tensor values, Tensor indices)",
    "f(Tensor x) -> Tensor y",
    "f(Tensor x) -> (Tensor y)",
    "ns::f.overload(__torch__.torch.classes.c10d.Group g, Generator? generator=None) -> Stream",
    "f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_schema_gives_its_text_back(text: str) -> None:
    assert str(schema.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("f(Itn n) -> Tensor", "column 3 must be a type, such as int .got 'Itn'"),
        ("f(Tensor x) -> Tensr", "column 16 must be a type, such as Tensor .got 'Tensr'"),
        ("f(Foo? x) -> ()", "must be a type, one of Any"), ("f(Dict(str, Tenosr) d) -> ()",
        "such as Tensor"),
        ("f((int, Booll)[] d) -> ()", "such as bool"), ("f(_x y) -> ()", "must be a type"),
    ],
)  # fmt: skip
def test_a_type_that_is_none_is_named(text: str, said: str) -> None:
    """PyTorch's error is "unknown type specifier". A name with a small first letter is a variable
    in both."""
    with pytest.raises(SchemaError, match=said):
        schema.parse(text)
    assert str(schema.parse("f(t x, t2[] y, __torch__.torch.classes.a.B z) -> t"))


def test_parts_of_a_schema() -> None:
    found = schema.parse(
        "ns::f.out(Tensor self, int[2]? dim=None, *, bool b=False, Tensor(a!) out) -> Tensor(a!)"
    )
    assert (found.name.namespace, found.name.base, found.name.overload) == ("ns", "f", "out")
    assert [a.name for a in found.positional] == ["self", "dim"]
    assert [a.name for a in found.keyword_only] == ["b", "out"]
    dim, out = found.arguments[1], found.arguments[3]
    assert dim.type.is_optional and dim.type.required.is_list and dim.type.required.size == 2
    assert dim.type.base == "int" and dim.has_default and dim.default is None
    assert out.is_write and out.type.aliases == (schema.Alias(("a",), True, ()),)
    assert not out.has_default
    assert found.kind == "out" and found.check_kind() is None


KINDS = [
    ("f(Tensor self) -> Tensor", "functional", False),
    ("f(Tensor(a) self) -> Tensor(a)", "functional", True),
    ("f_(Tensor(a!) self) -> Tensor(a!)", "inplace", False),
    ("__iadd__(Tensor(a!) self) -> Tensor(a!)", "inplace", False),
    ("__and__(Tensor self) -> Tensor", "functional", False),
    ("f(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", "out", False),
    ("f(Tensor self, Tensor(a!) other) -> ()", "mutable", False),
    ("f(Tensor(a -> *) self) -> Tensor(a)[]", "functional", True),
]


@pytest.mark.parametrize("text, kind, is_view", KINDS)
def test_kinds(text: str, kind: str, is_view: bool) -> None:
    found = schema.parse(text)
    assert (found.kind, found.is_view, found.check_kind()) == (kind, is_view, None)


WRONG_KINDS = [
    ("f_(Tensor self) -> Tensor", "must be in-place on 'Tensor(a!) self', as its name ends in '_'"),
    ("f_(Tensor(a!) self) -> Tensor", "must return 'self'"),
    ("f(Tensor x, *, Tensor(a!) out) -> Tensor", "must return its out arguments in their order"),
    (
        "f(Tensor(a!) x, Tensor(b!) y) -> (Tensor(a!), Tensor)",
        "must return all of its written arguments or none",
    ),
]


@pytest.mark.parametrize("text, complaint", WRONG_KINDS)
def test_rules_for_our_own_operators(text: str, complaint: str) -> None:
    assert schema.parse(text).check_kind() == complaint


MISTAKES = [
    ("", "column 1 must be an operator's name (got 'the end')"),
    ("f(Tensor x", "column 11 must be ',' (got 'the end')"),
    ("f(Tensor x) Tensor", "column 13 must be '->' (got 'Tensor')"),
    ("f(Tensor x) -> Tensor y z", "column 25 must end here (got 'z')"),
    ("f(Tensor x, int x) -> ()",
    "column 13 must be an argument of a new name, not 'x' (got 'int')"),
    ('f(int x="s") -> ()', "column 9 must be a default of type int for 'x' (got '\"s\"')"),
    ("f(int x=None) -> ()", "column 9 must be a default of type int for 'x' (got 'None')"),
    ("f(int x=1.5) -> ()", "column 9 must be a default of type int for 'x' (got '1.5')"),
    ("f(int x=True) -> ()", "column 9 must be a default of type int for 'x' (got 'True')"),
    ("f(int[] x=1) -> ()", "column 11 must be a default of type int[] for 'x' (got '1')"),
    ("f(Tensor x=None) -> ()", "column 12 must be a default of type Tensor for 'x' (got 'None')"),
    ("f(bool x=true) -> ()", "column 10 must be a default of type bool for 'x' (got 'true')"),
    ("f(float x=inf) -> ()", "column 11 must be a default of type float for 'x' (got 'inf')"),
    ("f(int x=1, int y) -> ()", "column 12 must have a default, as the argument before it has one "
                                "(got 'int')"),
    ("f(*, *, int x) -> ()", "column 6 must be an argument, as there was a '*' before (got '*')"),
    ("f(int x, *) -> ()", "column 11 must be an argument after '*' (got ')')"),
    ("f(..., int x) -> ()", "column 8 must end the arguments after '...' (got 'int')"),
    ("f.default(int x) -> ()", "column 1 must not name an overload 'default', which means none "
                               "(got 'f.default')"),
    ("f.a.b(int x) -> ()", "column 1 must have one overload name at most (got 'f.a.b')"),
    ("f(Tensor(a|b!) x) -> ()", "column 10 must write one alias set (got 'a')"),
    ("f(int[0] x) -> ()", "column 7 must be the size of a list (got '0')"),
    ("f(int $x) -> ()", "column 7 must be a name, number, string or mark (got '$')"),
    (f"f({', '.join(f'int x{i}' for i in range(65))}) -> ()",
    "must be one of at most 64 arguments"),
]  # fmt: skip


@pytest.mark.parametrize("text, message", MISTAKES)
def test_a_mistake_names_column_and_text(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as raised:
        schema.parse(text)
    assert str(raised.value).startswith("schema: column ")
    assert message in str(raised.value)
    assert str(raised.value).endswith(f" in {text!r}")


def test_keyword_only_arguments_may_lack_defaults_behind_ones_that_have_them() -> None:
    found = schema.parse("f(int a=1, *, int b=2, int c) -> ()")
    assert [a.has_default for a in found.arguments] == [True, True, False]


def test_defaults_as_kernels_get_them() -> None:
    found = schema.parse(
        "f(MemoryFormat m=contiguous_format, ScalarType? t=long, ScalarType b=bool, int[2] s=1, "
        "int[2] p=[1, 2], int r=Mean, int[]? n=None, str q='a') -> ()"
    )
    assert [a.default_value for a in found.arguments] == [
        memory_format.contiguous_format, dtype.int64, dtype.bool_, (1, 1), (1, 2), 1, None, "a",
    ]  # fmt: skip


def test_schemas_are_values() -> None:
    one, other = (schema.parse(TEXTS[0]) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one != schema.parse(TEXTS[1])
    assert pickle.loads(pickle.dumps(one)) == one
    assert repr(one) == f"FunctionSchema({TEXTS[0]!r})"
    with pytest.raises(AttributeError, match="read-only"):
        one.arguments = ()


def test_spaces_do_not_matter() -> None:
    assert (
        str(schema.parse("  f( Tensor   x,int y = 1 )->Tensor "))
        == "f(Tensor x, int y=1) -> Tensor"
    )
