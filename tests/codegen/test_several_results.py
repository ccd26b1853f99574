"""Operators with several results: out forms, names of results, derivatives; also functions of
modules other than gt."""

from __future__ import annotations

import ast
import pickle

import pytest

from codegen import load
from codegen.emit import families, functions, nodes, stubs
from gputensor.core import errors, returns
from gputensor.core.arguments import checked_outs

import gputensor as gt

YAML = """
- func: halve(Tensor self, int dim) -> (Tensor left, Tensor right)
  autogen: halve.halves
  variants: function, method
  dispatch: {CPU: halve}
  family: reduce
  derivatives: {self: "halve_backward(grads, right, dim)"}
  doc: Two halves.

- func: halve.other(Tensor self, Tensor other) -> Tensor
  autogen: halve.out
  variants: function, method
  dispatch: {CPU: halve_other}
  family: reduce
  doc: Half of two.

- func: pair(Tensor self) -> (Tensor, Tensor)
  autogen: pair.out
  dispatch: {CPU: pair}
  family: reduce
  derivatives: {self: grad}
  doc: A pair without names.

- func: linalg_trace(Tensor A) -> Tensor
  autogen: linalg_trace.out
  python_module: linalg
  dispatch: {CPU: linalg_trace}
  family: reduce
  doc: A function of a module.
"""


@pytest.fixture(scope="module")
def model():
    return load.loads(YAML)


def function(model, name):
    return "\n".join(functions.functions(model, name)[0])


def test_out_forms_take_a_tensor_for_each_result(model):
    schemas = {op.name: str(op.schema) for op in model.ops if op.kind == "out"}
    assert schemas["halve.halves"] == (
        "halve.halves(Tensor self, int dim, *, Tensor(a!) left, Tensor(b!) right)"
        " -> (Tensor(a!) left, Tensor(b!) right)"
    )
    assert "*, Tensor(a!) out0, Tensor(b!) out1)" in schemas["pair.out"]
    assert 'key_set |= _checked_outs("pair", out, 2) & keep' in function(model, "pair")


def test_each_overload_of_one_name_has_its_own_kind_of_out(model):
    text = function(model, "halve")
    assert '_checked_outs("halve", out, 2)' in text and '_checked_out("halve", out)' in text
    call = "op_halve_halves.table[key_set](key_set,input,dim,out[0],out[1]"
    assert call in "".join(text.split())
    assert "op_halve_out.table[key_set](key_set, input, other, out)" in text


def test_results_have_names_where_the_schema_has(model):
    assert functions.results(model, "halve") == ['Results_halve = _named("halve", "left right")']
    assert functions.results(model, "pair") == []
    assert "return Results_halve(op_halve.table" in function(model, "halve")
    stub = stubs.functions(model)
    ast.parse(stub)
    assert "class _LeftRight(NamedTuple):" in stub and "-> _LeftRight: ..." in stub
    assert "out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]" in stub


def test_overloads_may_not_name_them_differently():
    again = YAML + YAML.split("\n\n")[0].replace("halve(", "halve.more(").replace("left", "first")
    again = again.replace("autogen: halve.halves", "", 2).replace("int dim)", "int dim, int k)", 2)
    with pytest.raises(LookupError, match="results of 'halve' must have the same names"):
        functions.results(load.loads(again), "halve")


def test_a_formula_that_looks_at_grads_gets_a_gradient_of_each_result(model):
    classes = nodes.nodes(model, "reduce").classes
    texts = {lines[0].partition("(")[0]: "\n".join(lines) for lines in classes}
    of_all, of_first = (texts[f"class {name}Backward0"] for name in ("Halve", "Pair"))
    assert "differentiated = (0, 1)" in of_all and "def backward(node, *grads):" in of_all
    assert 'others = (("saved_right", 1),)' in of_all
    assert "differentiated" not in of_first and "def backward(node, grad):" in of_first


def test_results_whose_gradients_no_formula_looks_at_are_not_differentiated():
    text = YAML.replace("halve_backward(grads, right, dim)", "halve_backward(grads[1], dim)")
    lines = nodes.nodes(load.loads(text), "reduce").classes[0]
    assert "    differentiated = (1,)" in lines


def test_what_has_several_results_has_none_called_result():
    text = YAML.replace("halve_backward(grads, right, dim)", "grad * result")
    with pytest.raises(LookupError, match="halve: a derivative names the results"):
        nodes.nodes(load.loads(text), "reduce")


def test_functions_of_modules_are_not_of_gt(model):
    assert "linalg_trace" not in model.bases("function", "")
    assert model.bases("function", "linalg") == ["linalg_trace"]
    index = families._index(model, set())
    assert '"linalg": _read("""\n    reduce: trace' in index
    assert "Matches torch.linalg.trace." in function(model, "linalg_trace")
    assert "def trace(A: Tensor" in stubs.functions(model, "linalg")


# --- calls of generated functions -----------------------------------------------------------------


def test_results_are_a_tuple_with_names():
    made = returns.named("max", "values indices")((1, 2))
    assert made == (1, 2) and made.values == 1 and made.indices == 2
    assert repr(made) == "gputensor.return_types.max(\nvalues=1,\nindices=2)"
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made) and again == made


def test_out_must_be_as_many_tensors():
    a, b = gt.ones(2), gt.ones(3)
    assert checked_outs("max", [a, b], 2) == a._keys | b._keys
    for wrong in (a, (a,), (a, b, a), None):
        with pytest.raises(errors.ArgumentTypeError, match="'out' must be a tuple of 2 Tensors"):
            checked_outs("max", wrong, 2)
    with pytest.raises(errors.ArgumentTypeError, match="'out' must be a Tensor"):
        checked_outs("max", (a, 3), 2)
