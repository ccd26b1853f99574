"""Derivatives as code: node classes, recording kernels, views; policies of autocast."""

from __future__ import annotations

import ast
import textwrap

import pytest

from codegen import load
from codegen.emit import kernels, nodes, page, shapes

from .test_emit import block

YAML = """
- func: blend(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
  autogen: blend_, blend.out
  variants: function, method
  family: binary
  dtypes: promoted
  derivatives: {self: grad * conj(other), other: "scaled(grad * self, alpha)"}
  doc: self blended with other.

- func: turn(Tensor(a) self, int[] dims) -> Tensor(a)
  variants: method
  dispatch:
    CompositeExplicitAutograd: turn
  family: view
  derivatives: {self: "permute_backward(grad.reshape(self.shape), dims)"}
  doc: A view that is turned.

- func: turn_again(Tensor(a) self, int[] dims) -> Tensor(a)
  dispatch:
    CompositeExplicitAutograd: turn_again
  family: view
  derivatives: {self: "permute_backward(grad.reshape(self.shape), dims)"}
  doc: The same view.

- func: turned(Tensor(a) self) -> Tensor(a)
  dispatch:
    CompositeExplicitAutograd: turned
  family: view
  replay: True
  derivatives: {self: grad.turned()}
  doc: A view that is replayed.

- func: turn_by(Tensor(a) self, int by, int[] dims) -> Tensor(a)
  dispatch:
    CompositeExplicitAutograd: turn_by
  family: view
  derivatives: {self: "permute_backward(grad.reshape(self.shape), dims)"}
  doc: The same view of other arguments.

- func: grow(Tensor self) -> Tensor
  variants: method
  family: unary
  node: GrownBackward
  derivatives: {self: grad * result}
  doc: Something that its result tells the derivative of.

- func: joined(Tensor self, Tensor? other, int by) -> Tensor
  dispatch:
    CompositeExplicitAutograd: joined
  family: join
  derivatives:
    self, other: joined_backward(grad, self, other, by, grad_input_mask)
  doc: Something whose gradients are made together.

- func: same(Tensor self, Tensor other) -> Tensor
  autogen: same_
  family: comparison
  dtypes: promoted
  doc: A comparison.
"""


@pytest.fixture(scope="module")
def model() -> load.Model:
    return load.loads(YAML.lstrip("\n"))


def module(model: load.Model, family: str) -> str:
    text = kernels.kernels(model, family)
    ast.parse(text)
    return text


def test_a_formula_is_a_line_of_code(model: load.Model) -> None:
    """A value that is used once is inlined; a value that is overwritten is saved as a copy."""
    text = module(model, "binary")
    assert block(text, "class BlendBackward0") == textwrap.dedent("""\
        class BlendBackward0(_Node):  # blend
            __slots__ = ("saved_other", "saved_self", "saved_alpha")
            saved = ("saved_other", "saved_self")
            def keep(node, self, other, alpha):
                if node.edges[0] is not None:
                    node.saved_other = _save(other)
                if node.edges[1] is not None:
                    node.saved_self = _save(self)
                node.saved_alpha = alpha if type(alpha) in _PLAIN else _kept(alpha)
            def keep_inplace(node, self, other, alpha):
                if node.edges[0] is not None:
                    node.saved_other = _save(other)
                if node.edges[1] is not None:
                    node.saved_self = _save_copy(self)
                node.saved_alpha = alpha if type(alpha) in _PLAIN else _kept(alpha)
            def backward(node, grad):
                to_self, to_other = node.edges
                grad_self = grad_other = None
                if to_self is not None:
                    grad_self = grad * conj(node.saved_other.unpack(node))
                if to_other is not None:
                    grad_other = scaled(grad * node.saved_self.unpack(node), node.saved_alpha)
                return grad_self, grad_other
            def release(node):
                node.saved_other = node.saved_self = _FREED
        """)
    assert "from ...autograd.formulas.numbers import conj, scaled\n" in text


def test_a_node_is_renamed_for_a_number_and_for_the_copy_of_a_view() -> None:
    """PyTorch numbers the overload that takes a number; a view's copy has the view's formula."""
    model = load.loads(
        """
- func: lift.Tensor(Tensor self, Tensor other) -> Tensor
  family: binary
  dtypes: promoted
  numbers: other
  node: LiftBackward1
  number_nodes: {other: LiftBackward0}
  derivatives: {self: grad * other}
  doc: self lifted by other.

- func: turned(Tensor(a) self) -> Tensor(a)
  autogen: turned_copy, turned_copy.out
  dispatch:
    CompositeExplicitAutograd: turned
  family: view
  derivatives: {self: grad.turned()}
  doc: A view.
""".lstrip("\n")
    )
    text = module(model, "binary")
    keep = """\
    def keep(node, self, other):
        if type(other) in _PLAIN: node.__class__ = LiftBackward0
        node.saved_other = _save(other)
"""
    assert keep in block(text, "class LiftBackward1")
    assert "class LiftBackward0(LiftBackward1): pass\n" in text
    assert "_forms.copy(_ops.turned), copied(TurnedBackward0))" in " ".join(
        module(model, "view").split()
    )


def test_several_results_are_differentiated_by_the_first() -> None:
    """The others are saved under their names, and get no history."""
    model = load.loads(
        """
- func: weigh(Tensor self, Tensor? by) -> (Tensor output, Tensor total)
  python_module: nn
  dispatch:
    CPU: weigh
  family: loss
  derivatives: {self: "weigh_backward(grad, by, total)"}
  doc: A loss and a sum.
""".lstrip("\n")
    )
    node = block(module(model, "loss"), "class WeighBackward0")
    assert "node.saved_by = _save(by)" in node and 'others = (("saved_total", 1),)' in node
    assert 'saved = ("saved_by", "saved_total")' in node and 'inputs = ("self",)' in node
    assert "def records_TO(" in shapes.shapes(model)
    assert not model.find("weigh").is_public


def test_what_is_asked_of_an_operand_is_asked_when_it_is_recorded(model: load.Model) -> None:
    assert block(module(model, "view"), "class TurnBackward0") == textwrap.dedent("""\
        class TurnBackward0(_Node):  # turn
            __slots__ = ("saved_self_shape", "saved_dims")
            def keep(node, self, dims):
                node.saved_self_shape = self.shape
                node.saved_dims = tuple(dims) if type(dims) is list else dims
            def backward(node, grad):
                return (permute_backward(grad.reshape(node.saved_self_shape), node.saved_dims),)
        """)


def test_a_class_that_differs_in_its_name_extends_the_other(model: load.Model) -> None:
    assert block(module(model, "view"), "class TurnAgainBackward0") == textwrap.dedent("""\
        class TurnAgainBackward0(TurnBackward0):  # turn_again
            __slots__ = ()
        """)
    assert block(module(model, "view"), "class TurnByBackward0") == textwrap.dedent("""\
        class TurnByBackward0(TurnBackward0):  # turn_by
            __slots__ = ()
            def keep(node, self, by, dims):
                node.saved_self_shape = self.shape
                node.saved_dims = tuple(dims) if type(dims) is list else dims
        """)


def test_kernels_record_and_go_on_below(model: load.Model) -> None:
    assert block(shapes.shapes(model), "def records_TV(") == textwrap.dedent("""\
        def records_TV(operator, kind, record, keep, finish):
            def kernel(key_set, a, b):
                key_set &= BELOW_AUTOGRAD
                if a._autograd is None or (node := record(kind, a)) is None:
                    return operator.redispatch_table[key_set](key_set, a, b)
                keep(node, a, b)
                before = get()
                try:
                    put(below_autograd[before])
                    result = operator.redispatch_table[key_set](key_set, a, b)
                finally:
                    put(before)
                return finish(result, node)
            return kernel
        """)
    ast.parse(shapes.shapes(model))


def test_a_comparison_in_place_has_a_gradient_of_zeros(model: load.Model) -> None:
    names = nodes.node_names(model)
    assert names == {
        "blend": "BlendBackward0", "blend_": "BlendBackward0", "turn": "TurnBackward0",
        "turn_again": "TurnAgainBackward0", "turn_by": "TurnByBackward0",
        "turned": "TurnedBackward0",
        "grow": "GrownBackward", "joined": "JoinedBackward0", "same_": "SameBackward0",
    }  # fmt: skip
    assert "to_self is None else zeros_like(grad)" in block(
        module(model, "comparison"), "class SameBackward0"
    )


def test_views_are_tracked(model: load.Model) -> None:
    row = block(module(model, "view"), "def install(")
    assert "native.turn, tracks, TurnBackward0)" in row
    assert "native.turned, replays, TurnedBackward0)" in row
    assert block(shapes.shapes(model), "def tracks_view_2(") == textwrap.dedent("""\
        def tracks_view_2(operator):
            def kernel(key_set, a, b):
                key_set &= BELOW_ADINPLACEORVIEW
                result = operator.redispatch_table[key_set](key_set, a, b)
                if a._autograd is None and not unrecorded:
                    result._autograd = a
                    return result
                return track_view(a, result)
            return kernel
        """)


def test_every_policy_of_autocast_is_in_the_row() -> None:
    text = """
- func: prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
  autogen: prod.out
  family: reduce
  autocast: {CPU: fp32, CUDA: fp32_set_opt_dtype}
  doc: Product of all.
"""
    model = load.loads(text.lstrip("\n"))
    assert 'casts(CPU="fp32", CUDA="fp32_set_opt_dtype")' in module(model, "reduce")
    tables = page.page(model)
    assert "| CPU: `fp32`, CUDA: `fp32_set_opt_dtype` |" in tables


def test_operands_of_one_formula_have_their_gradients_from_one_call(model: load.Model) -> None:
    text = module(model, "join")
    assert block(text, "def backward") == textwrap.dedent("""\
        def backward(node, grad):
            grad_input_mask = tuple([edge is not None for edge in node.edges])
            self = node.saved_self.unpack(node)
            other = node.saved_other.unpack(node)
            return joined_backward(grad, self, other, node.saved_by, grad_input_mask)
        """)
