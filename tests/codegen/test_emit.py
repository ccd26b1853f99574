"""The complete generated code of a few operators, so that reviews show changes."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path
from typing import Any

import pytest

from codegen import generate, load, paths, stats, text
from codegen.emit import families, functions, kernels, operators, shapes, stubs
from codegen.short_cuts.forms import short_forms

YAML = """
- func: blend(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  autogen: blend_, blend.out
  variants: function, method
  tags: [core, pointwise]
  family: binary
  dtypes: promoted
  numbers: other
  python:
    __add__: self, other, alpha=2
    __radd__: other, self
    __iadd__: self, other
  derivatives: {self: grad, other: grad * alpha}
  doc: self blended with other.

- func: halves(Tensor(a -> *) self, int[] dims, int dim=0) -> Tensor(a)[]
  variants: function, method
  dispatch:
    CompositeImplicitAutograd: halves
  family: view
  doc: Two views.

- func: turn(Tensor(a) self, int[] dims) -> Tensor(a)
  variants: method
  dispatch:
    CPU, Meta: turn
    CUDA: turn_cuda
  family: view
  doc: A view that is turned.

- func: fresh(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None,
    bool? pin_memory=None) -> Tensor
  dispatch:
    CompositeExplicitAutograd: fresh
  family: factory
  doc: Something fresh.

- func: lent(Tensor self) -> Tensor
  dispatch: {}
  family: copy
  doc: A backend's.
"""


@pytest.fixture(scope="module")
def model() -> load.Model:
    return load.loads(YAML.lstrip("\n"))


def block(generated: str, start: str) -> str:
    """Return the lines of one definition, dedented."""
    lines = generated.split("\n")
    first = next(i for i, line in enumerate(lines) if line.strip().startswith(start))
    margin = len(lines[first]) - len(lines[first].lstrip())
    rest = [lines[first]]
    for line in lines[first + 1 :]:
        if (
            line.strip()
            and len(line) - len(line.lstrip()) <= margin
            and not line.strip().startswith(")")
        ):
            break
        rest.append(line)
    return textwrap.dedent("\n".join(rest)).strip() + "\n"


def text_of(lines: list[str]) -> str:
    return text.joined(lines) + "\n"


def function(model: load.Model, base: str) -> str:
    (lines,) = functions.functions(model, base)
    return text_of(lines)


def method(model: load.Model, base: str) -> str:
    (lines,) = functions.methods(model, base)
    return text_of(lines)


def test_a_function_with_numbers_and_out(model: load.Model) -> None:
    assert function(model, "blend") == textwrap.dedent('''\
        def blend(input, other, *old, alpha=1, out=None):
            """input blended with other.

            Args:
                input: (*), promoted to a common dtype.
                other: (*) or number, broadcast with the others.
                alpha: number, default 1.
            Gradient: input: grad; other: grad * alpha
            Kernels: kernels/cpu/binary.py, kernels/cuda/binary.cu. Matches torch.blend."""
            if old: return _in_old_order("blend", blend, locals())
            try:
                try:
                    if alpha is _ONE and out is None:
                        short = op_blend.table.short.get((
                            input._geometry, type(other) if type(other) in NUMBERS else other._geometry))
                        if short is not None and (made := short(input, other)) is not None:
                            return made
                    elif type(alpha) is float and type(other) not in NUMBERS and out is None:
                        short = op_blend.table.short.get((input._geometry, other._geometry, float))
                        if short is not None and (made := short(input, other, alpha)) is not None:
                            return made
                    key_set = input._keys if type(other) in NUMBERS else input._keys | other._keys
                except AttributeError:
                    key_set, input, other = _coerced_either(input, other)
                include, keep = _state.get()
                key_set = (key_set | include) & keep
                if out is not None:
                    key_set |= _checked_out("blend", out)._keys & keep
                    if alpha is _ONE:
                        short = op_blend_out.table.short.get((
                            type(input) if type(input) in NUMBERS else input._geometry,
                            type(other) if type(other) in NUMBERS else other._geometry, out._geometry))
                        if short is not None and (made := short(input, other, out)) is not None:
                            return made
                    return op_blend_out.table[key_set](key_set, input, other, alpha, out)
                return op_blend.table[key_set](key_set, input, other, alpha)
            except Exception as error: return _refuse(error, "blend", blend, locals())
        ''')  # noqa: E501


def test_pythons_operators_give_what_the_entry_says(model: load.Model) -> None:
    blocks = functions.methods(model, "blend") + functions.methods(model, "blend_")
    calls = {
        lines[0].removeprefix("def Tensor_").partition("(")[0]: "\n".join(lines) for lines in blocks
    }
    calls = {n: calls[n] for n in ("__add__", "__radd__", "__iadd__")}
    assert "op_blend.table[key_set](key_set, self, other, 2)" in calls["__add__"]
    assert "op_blend.table[key_set](key_set, other, self, 1)" in calls["__radd__"]
    assert "op_blend_.table[key_set](key_set, self, other, 1)" in calls["__iadd__"]
    assert all("return NotImplemented" in text for text in calls.values())
    assert model.find("blend").kernel_numbers == ["self", "other"]  # `3 + x` puts it first
    assert model.find("blend_").kernel_numbers == ["other"]


def test_a_function_whose_list_is_not_alone_takes_no_varargs(model: load.Model) -> None:
    assert function(model, "halves") == textwrap.dedent('''\
        def halves(input, dims, dim=0, *, axis=None):
            """Two views.

            Args:
                input: (*).
                dims: ints.
                dim: int, default 0.
            Returns: a list of views.
            Native: native/view.py. Matches torch.halves."""
            try:
                dim = dim if axis is None else axis
                dims = tuple(dims) if type(dims) is list else dims
                include, keep = _state.get()
                key_set = (input._keys | include) & keep
                return op_halves.table[key_set](key_set, input, dims, dim)
            except Exception as error: return _refuse(error, "halves", halves, locals())
        ''')


def test_a_method_takes_its_ints_one_by_one(model: load.Model) -> None:
    assert method(model, "turn") == textwrap.dedent('''\
        def Tensor_turn(self, *args, dims=None):
            """A view that is turned.

            Args:
                self: (*).
                dims: ints, or one sequence of them.
            Returns: a view of self.
            Native: native/view.py. Matches torch.Tensor.turn."""
            try:
                if len(args) == 1:
                    (dims,) = args
                    if type(dims) is int:
                        dims = args
                    elif type(dims) is not tuple:
                        dims = _sequence(dims)
                elif args:
                    dims = args
                elif dims is None:
                    raise _errors.not_given("turn", "dims")
                include, keep = _state.get()
                key_set = (self._keys | include) & keep
                return op_turn.table[key_set](key_set, self, dims)
            except Exception as error: return _refuse(error, "turn", Tensor_turn, locals())
        ''')


def test_a_factory(model: load.Model) -> None:
    body = function(model, "fresh").rpartition('"""\n')[2]
    assert textwrap.dedent(body) == textwrap.dedent("""\
        try:
            if len(args) == 1:
                (size,) = args
                if type(size) is int:
                    size = args
                elif type(size) is not tuple:
                    size = _sequence(size)
            elif args:
                size = args
            elif size is None:
                raise _errors.not_given("fresh", "size")
            if dtype is not None and type(dtype) is not _dtype:
                dtype = _element_type("fresh", dtype)
            if device is not None and type(device) is not _device:
                device = _device(device)
            include, keep = _state.get()
            key_set = include & keep
            result = op_fresh.table[key_set](key_set, size, dtype, layout, device, pin_memory)
            return result.requires_grad_() if requires_grad else result
        except Exception as error: return _refuse(error, "fresh", fresh, locals())
        """)


def test_calls_parse_nothing(model: load.Model) -> None:
    assert text_of(operators.call(model.find("blend.out"))) == textwrap.dedent("""\
        def call_blend_out(self, other, alpha, out):
            if alpha is _ONE:
                short = op_blend_out.table.short.get((
                    self._geometry, type(other) if type(other) in NUMBERS else other._geometry,
                    out._geometry))
                if short is not None and (made := short(self, other, out)) is not None:
                    return made
            include, keep = _state.get()
            key_set = (self._keys | (0 if type(other) in NUMBERS else other._keys) | out._keys
                | include) & keep
            return op_blend_out.table[key_set](key_set, self, other, alpha, out)
        """)


def test_a_method_that_does_what_the_function_does_is_the_function(model: load.Model) -> None:
    assert functions.methods(model, "halves") == [["Tensor_halves = halves"]]


def test_calls_are_made_of_what_is_called(model: load.Model) -> None:
    texts = {path.name: text for path, text in families.families(model, {"lent"}).items()}
    assert "def call_lent(" in texts["copy.py"]
    assert not any("def call_" in texts[name] for name in texts if name != "copy.py")
    with pytest.raises(LookupError, match="no operator .* has the call .*lend,.* turned"):
        families.used_calls(model, ["_calls.turned(x)\ncalls.turn(x) + calls.lend(x)"])


def test_the_index_knows_the_family_of_every_name(model: load.Model) -> None:
    texts = {path.name: text for path, text in families.families(model, set()).items()}
    found: dict[str, Any] = {}
    exec(texts["index.py"], found)
    expected = {"blend": "binary", "halves": "view", "fresh": "factory", "lent": "copy"}
    assert found["FUNCTIONS"] == expected
    of_binary = ("blend", "blend_", "__add__", "__radd__", "__iadd__")
    wanted = {**dict.fromkeys(of_binary, "binary"), "halves": "view", "turn": "view"}
    assert found["METHODS"] == wanted
    assert found["OPERATORS"]["blend.out"] == "binary" and len(found["OPERATORS"]) == 7


def test_kernels_of_functionality_keys_are_of_a_shape(model: load.Model) -> None:
    made = shapes.shapes(model)
    assert block(made, "def selects_3_of_5(") == textwrap.dedent("""\
        def selects_3_of_5(operator):
            def kernel(key_set, a, b, c, d, e):
                if d is None:
                    d = default_device()
                key_set = DENSE_KEYS[d.type]
                return operator.redispatch_table[key_set](key_set, a, b, c, d, e)
            return kernel
        """)
    assert block(made, "def counts_0_of_3(") == textwrap.dedent("""\
        def counts_0_of_3(operator):
            def kernel(key_set, a, b, c):
                key_set &= BELOW_ADINPLACEORVIEW
                result = operator.redispatch_table[key_set](key_set, a, b, c)
                storage = a._storage
                if storage is not None and a._keys & TRACKED:
                    storage.version += 1
                else:
                    bump_version(a)
                return result
            return kernel
        """)
    assert "def refuses_NNVT(operator, check):" in made


def test_an_operator_is_registered_by_one_literal_row(model: load.Model) -> None:
    rows = [
        line.strip()
        for family in model.families()
        for line in block(kernels.kernels(model, family), "def install(").splitlines()[1:]
        if line.strip()
    ]
    assert rows == [
        'bind(_ops.blend, native.functional, "blend", BlendBackward0)',
        'bind(_ops.blend_, native.inplace, "blend", counts, BlendBackward0)',
        'bind(_ops.blend_out, native.out, "blend", counts, refuses_out)',
        'impl(_ops.halves, "CompositeImplicitAutograd", native.halves)',
        'impl(_ops.turn, "CPU, Meta", native.turn)',
        'impl(_ops.turn, "CUDA", native.turn_cuda, passes)',
        'impl(_ops.fresh, "CompositeExplicitAutograd", native.fresh, selects, passes)',
        'impl(_ops.lent, "", None, passes)',
    ]


def test_a_composite_of_one_call_is_written_in_its_row() -> None:
    row = """
    - func: turned(Tensor(a) self, int dim=0) -> Tensor(a)
      dispatch:
        CompositeImplicitAutograd: calls.transpose_int(self, dim, -1)
      family: view
      doc: Turned.
    """
    made = kernels.kernels(load.loads(textwrap.dedent(row)), "view")
    assert "from ..._generated import calls\n" in made
    assert (
        "def _turned(key_set, self, dim):\n    return calls.transpose_int(self, dim, -1)\n" in made
    )
    assert 'impl(_ops.turned, "CompositeImplicitAutograd", _turned)' in made


def test_a_row_lists_functions_of_nn_functional() -> None:
    row = """
    - func: bend(Tensor self, Scalar alpha=1, Scalar scale=1) -> Tensor
      autogen: bend_
      python_module: nn
      family: activation
      nn:
      - bend(alpha=1.0, inplace=False)
      - bend_(alpha=1.0)
      doc: Bent.
    """
    model = load.loads(textwrap.dedent(row))
    bend = model.ops[0]
    assert bend.called_by_nn == {"bend", "bend_"}
    both, in_place = ["\n".join(map(str, lines)) for lines in functions.faces(bend)]
    assert both.startswith("def nn_bend(input, alpha=1.0, inplace=False):\n")
    assert (
        'if inplace is not False and _flag("bend", "inplace", inplace):\n'
        "            return call_bend_(input, alpha)\n"
        "        return call_bend(input, alpha)\n" in both
    )
    assert "return call_bend_(input, alpha)" in in_place and "inplace" not in in_place
    stub = stubs.nn(model)
    assert "def bend(input: Tensor, alpha: _Number = 1.0, inplace: bool = False) -> Tensor:" in stub


def test_functions_of_nn_functional_name_their_reduction_and_declare_lists() -> None:
    row = """
    - func: loss_nd(Tensor self, Tensor target, int reduction=Mean, int[2] stride=[]) -> Tensor
      python_module: nn
      family: loss
      nn: loss(target, stride=None, size_average=None, reduction='mean')
      doc: Lost.
    """
    model = load.loads(textwrap.dedent(row))
    (lines,) = functions.faces(model.ops[0])
    made = "\n".join(map(str, lines))
    assert made.startswith(
        '@_declares("loss", input="Tensor", target="Tensor", stride="int?|int[]?", '
        'size_average="bool?", reduction="str")\ndef nn_loss('
    )
    assert 'reduction: "none", "mean" or "sum"' in made and "_refuse" not in made
    number = '_reduction("loss", reduction, size_average)'
    stride = "() if stride is None else stride"
    assert f"    return call_loss_nd(input, target, {number}, {stride})" in made
    stub = " ".join(stubs.nn(model).split())
    assert "stride: int | Sequence[int] | None = None, size_average: bool | None = None" in stub
    assert "reduction: str = 'mean') -> Tensor: ..." in stub


def test_a_function_of_nn_functional_reads_whether_it_trains() -> None:
    row = """
    - func: drop(Tensor input, float p, bool train) -> Tensor
      family: dropout
      nn: drop(p=0.5, training=True)
      doc: Dropped.
    """
    model = load.loads(textwrap.dedent(row))
    (lines,) = functions.faces(model.ops[0])
    made = "\n".join(map(str, lines))
    assert 'return call_drop(input, p, _flag("drop", "training", training))' in made
    assert "training: bool = True) -> Tensor: ..." in stubs.nn(model)


def test_stubs_have_a_signature_per_form(model: load.Model) -> None:
    stub = stubs.methods(model)
    assert "    def turn(self, dims: Sequence[int]) -> Tensor: ...\n" in stub
    assert "    def turn(self, *dims: int) -> Tensor: ...\n" in stub
    assert "self, dims: Sequence[int], dim: int = 0, *," in stub
    assert "axis: int = ...) -> tuple[Tensor, ...]: ...\n" in stub


def test_stubs_of_calls_and_operators_say_what_comes_back(model: load.Model) -> None:
    used = {op.identifier for op in model.ops}
    calls, listed = stubs.calls(model, used), stubs.operators(model, {"blend"})
    assert "def turn(self: Tensor, dims: Sequence[int]) -> Tensor: ...\n" in calls
    assert "halves(self: Tensor, dims: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]" in calls
    assert "halves: _Of[tuple[Tensor, ...]]\n" in listed and "turn" not in listed
    assert "blend: _Of[Tensor]\n" in listed


def test_overloads_that_nothing_tells_apart_are_refused() -> None:
    twice = YAML + YAML.partition("\n\n")[0].replace("blend(", "blend.other(").replace(
        "blend_, blend.out", "blend.other_out"
    )
    with pytest.raises(LookupError, match="'blend': nothing tells blend and blend.other apart"):
        functions.functions(load.loads(twice.lstrip("\n")), "blend")


@pytest.fixture(scope="module")
def whole() -> tuple[load.Model, dict[Path, str]]:
    """The project's operators and their generated files."""
    model = load.load()
    return model, generate.files(model)


@pytest.mark.full
def test_every_file_has_the_header_and_is_python(whole: tuple[load.Model, dict[Path, str]]) -> None:
    _, texts = whole
    for path, generated in texts.items():
        assert text.HEADER.strip("# \n") in generated.partition("\n")[0], path
        if path.suffix in (".py", ".pyi"):
            ast.parse(generated, str(path))
    assert {path.suffix for path in texts} == {".py", ".pyi", ".md", ".h"}


@pytest.mark.parametrize("length", [1, 5, 30])
def test_wrap_keeps_every_item(length: int) -> None:
    items = [f"argument_{i}" for i in range(length)]
    lines = text.joined(text.indent(text.wrap("def f(", items, "):"))).split("\n")
    assert all(len(line) <= text.WIDTH for line in lines)
    wrapped = textwrap.dedent("\n".join([*lines, "        pass"]))
    assert ast.unparse(ast.parse(wrapped)).count("argument_") == length


@pytest.mark.parametrize("count", [1, 2, 20])
def test_long_conditions_and_imports_are_in_parentheses(count: int) -> None:
    tests = [f"argument_{i} is None" for i in range(count)]
    lines = text.joined([text.condition(tests), "    pass"]).split("\n")
    assert all(len(line) <= text.WIDTH for line in lines) and ("(" in lines[0]) == (count == 20)
    assert ast.unparse(ast.parse("\n".join(lines))).count(" and ") == count - 1
    names = [f"name_{i} as _{i}" for i in range(count)]
    imported = text.joined([text.imported("..home", names)])
    assert ast.unparse(ast.parse(imported)).count(" as ") == count


@pytest.mark.full
def test_generated_lines_are_counted(
    whole: tuple[load.Model, dict[Path, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, texts = whole
    monkeypatch.setattr(generate, "files", lambda of: texts if of is model else {})
    assert stats.print_lines(model) == 0
    printed = capsys.readouterr().out
    assert (
        f"{sum(stats.lines(model).values())} lines, {stats.overloads_of(model)} overloads"
        in printed
    )
    assert "families" in printed and "functions.pyi" in printed and "binary" in printed
    monkeypatch.setattr(stats, "BUDGET", 1)
    assert stats.print_lines(model) == 1


def test_a_form_of_short_cuts() -> None:
    forms = short_forms()
    assert block(forms, "def inplace_number(") == textwrap.dedent('''\
        def inplace_number(loop: Any) -> ShortCut:
            """(self, other) -> self."""
            def short(self, other):
                if (self._keys is not CPU_KEYS or self._autograd is not None and not may_write(self)
                        or _now() is not PLAIN):
                    return None
                storage = self._storage
                if storage is None:
                    storage = self._get_storage()
                x = self._array
                if x is None:
                    x = self._get_array()
                try:
                    enter(loop, x, other, x)
                except RuntimeError as error:
                    again(error, loop, x, other, x)
                except OverflowError:
                    return None  # nothing was written: NumPy converts the number first
                storage.version += 1
                return self
            return short
        ''')


FORMS = [
    node.name for node in ast.parse(short_forms()).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]  # fmt: skip


def chosen(sources: list[str]) -> set[str]:
    """Return the forms to which code refers, directly or in a tuple; names in strings do not
    count."""
    trees = [ast.parse(source) for source in sources]
    own = {
        alias.asname or alias.name: alias.name
        for tree in trees for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).endswith("_generated.short_forms")
        for alias in node.names
    }  # fmt: skip
    found = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {node.attr} if node.value.id in ("forms", "short_view") else set()
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found |= {own[node.id]} if node.id in own else set()
    for node in ast.parse(short_forms()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            (target,) = node.targets
            if isinstance(target, ast.Name) and target.id in found:
                found |= {x.id for x in node.value.elts if isinstance(x, ast.Name)}
    return found


def test_every_form_of_short_cuts_is_used() -> None:
    users = [*paths.PACKAGE.glob("structured/shortcuts/*.py")]
    users += [paths.PACKAGE / "native" / name for name in ("factory.py", "slicing.py")]
    sources = [path.read_text() for path in users]
    assert len(FORMS) > 20 and not {*FORMS} - chosen(sources)


def test_what_a_text_says_uses_no_form() -> None:
    said = 'from .._generated.short_forms import view as _view\n"""one"""\nlike = 1  # forms.two\n'
    assert chosen([said]) == set()
    assert chosen([said + "_view(like)\nforms.one"]) == {"view", "one"}
