"""Derivatives as code: node classes, recording kernels, views."""

from __future__ import annotations

import ast
import textwrap

import pytest

from codegen import emit_autograd, emit_kernels, load

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

- func: grow(Tensor self) -> Tensor
  variants: method
  family: unary
  derivatives: {self: grad * result}
  doc: Something that its result tells the derivative of.

- func: same(Tensor self, Tensor other) -> Tensor
  autogen: same_
  family: comparison
  dtypes: promoted
  doc: A comparison.
"""


@pytest.fixture(scope="module")
def model() -> load.Model:
    return load.loads(YAML.lstrip("\n"))


def test_a_formula_is_a_line_of_code(model: load.Model) -> None:
    assert block(emit_autograd.derivatives(model), "class BlendBackward0") == textwrap.dedent('''\
        class BlendBackward0(_Node):
            """Of blend."""

            __slots__ = ("saved_other", "saved_self", "saved_alpha")
            saved = ("saved_other", "saved_self")

            def backward(node, grad):
                grad_self = grad_other = None
                if node.edges[0] is not None:
                    other = node.saved_other.unpack(node)
                    grad_self = grad * conj(other)
                if node.edges[1] is not None:
                    self = node.saved_self.unpack(node)
                    alpha = node.saved_alpha
                    grad_other = scaled(grad * self, alpha)
                return grad_self, grad_other

            def release(node):
                node.saved_other = _FREED
                node.saved_self = _FREED
        ''')


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
    kernel = emit_autograd.autograd(model)
    assert "node.saved_by = _save(by)" in kernel and "node.saved_total = _save(result[1])" in kernel
    assert "_set_history(result[0], node)\n    return result" in kernel
    node = emit_autograd.derivatives(model)
    assert 'saved = ("saved_by", "saved_total")' in node
    assert not model.find("weigh").is_public


def test_what_is_asked_of_an_operand_is_asked_when_it_is_recorded(model: load.Model) -> None:
    assert block(emit_autograd.derivatives(model), "class TurnBackward0") == textwrap.dedent('''\
        class TurnBackward0(_Node):
            """Of turn."""

            __slots__ = ("saved_self_shape", "saved_dims")

            def backward(node, grad):
                self_shape = node.saved_self_shape
                dims = node.saved_dims
                return (permute_backward(grad.reshape(self_shape), dims),)
        ''')


def test_kernels_record_and_go_on_below(model: load.Model) -> None:
    kernels = emit_autograd.autograd(model)
    assert (
        block(kernels, "def turn(")
        == """\
def turn(key_set, self, dims):
    if self._autograd is None or (node := _record_unary(_nodes.TurnBackward0, self)) is None:
        key_set &= _BELOW
        return _ops.turn.redispatch_table[key_set](key_set, self, dims)
    node.saved_self_shape = self.shape
    node.saved_dims = tuple(dims) if type(dims) is list else dims
    key_set &= _BELOW
    state = _state.get()
    try:
        _state.set(_below_autograd[state])
        result = _ops.turn.redispatch_table[key_set](key_set, self, dims)
    finally:
        _state.set(state)
    return _set_history(result, node)
"""
    )
    grow = block(kernels, "def grow(")
    assert "node.saved_result = _save_result(result)" in grow
    blend_ = block(kernels, "def blend_(")
    assert "node.saved_self = _save(_calls.clone(self))" in blend_
    assert "return _rebase_history(result, node)" in blend_
    assert '_check_out("blend", self, other, out)' in block(kernels, "def blend_out(")
    ast.parse(kernels)


def test_tensors_are_saved_only_where_a_formula_will_run(model: load.Model) -> None:
    blend = block(emit_autograd.autograd(model), "def blend(")
    assert "if node.edges[0] is not None:\n        node.saved_other = _save(other)" in blend
    assert "if node.edges[1] is not None:\n        node.saved_self = _save(self)" in blend


def test_a_comparison_in_place_has_a_gradient_of_zeros(model: load.Model) -> None:
    names = emit_autograd.node_names(model)
    assert names == {
        "blend": "BlendBackward0", "blend_": "BlendBackward0", "turn": "TurnBackward0",
        "grow": "GrowBackward0", "same_": "SameBackward0",
    }  # fmt: skip
    assert "grad_self = zeros_like(grad)" in block(
        emit_autograd.derivatives(model), "class SameBackward0"
    )


def test_views_are_tracked(model: load.Model) -> None:
    assert block(emit_kernels.inplace_or_view(model), "def turn(") == textwrap.dedent("""\
        def turn(key_set, self, dims):
            key_set &= _BELOW
            result = _ops.turn.redispatch_table[key_set](key_set, self, dims)
            if self._autograd is None and not _unrecorded:
                result._autograd = self
                return result
            return _track_view(self, result)
        """)
