"""opt_einsum: contractions of tensors in its order, by our tensordot and einsum."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import close, values

oe = pytest.importorskip("opt_einsum", reason="opt_einsum is not installed")

A, B, C = values(3, 4, 5), values(5, 4, 2), values(2, 3, 6)


@pytest.mark.parametrize(
    "equation, operands",
    [
        ("abc,cbd,dae->e", (A, B, C)),  # tensordot throughout
        ("abc,cbd->dab", (A, B)),  # with a transpose of the result
        ("abc,abc->ab", (A, A)),  # einsum
        ("aab->b", (values(3, 3, 2),)),
        ("...b,...c->...bc", (A[0], A[0])),
        ("αβγ,γβδ->αδ", (A, B)),
    ],
)
def test_contract(place, equation, operands):
    given = [gt.tensor(x, device=place) for x in operands]
    close(oe.contract(equation, *given), oe.contract(equation, *operands), place)


def test_contract_of_interleaved_operands_and_out(place):
    a, b = (gt.tensor(x, device=place) for x in (A, B))
    expected = np.einsum("abc,cbd->ad", A, B)
    close(oe.contract(a, [0, 1, 2], b, [2, 1, 3], [0, 3]), expected, place)
    out = gt.zeros(3, 2, device=place)
    assert oe.contract("abc,cbd->ad", a, b, out=out) is out
    close(out, expected, place)


def test_expressions_and_shared_intermediates(place):
    a, b, c = (gt.tensor(x, device=place) for x in (A, B, C))
    expression = oe.contract_expression("abc,cbd,dae->e", A.shape, B.shape, C.shape)
    expected = expression(A, B, C)
    close(expression(a, b, c), expected, place)
    with oe.shared_intermediates():
        close(expression(a, b, c), expected, place)
        close(expression(a, b, c), expected, place)


def test_gradients_flow():
    a = gt.tensor(A).requires_grad_()
    oe.contract("abc,cbd->", a, gt.tensor(B)).backward()
    np.testing.assert_allclose(a.grad.numpy(), np.broadcast_to(B.sum(2).T, A.shape), rtol=1e-5)
