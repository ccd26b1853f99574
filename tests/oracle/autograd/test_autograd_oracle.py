"""Gradients in random programs equal PyTorch's; test_op_db_oracle.py has PyTorch's samples."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from codegen import load
from codegen.emit import nodes

from .autograd_programs import Run, step

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.usefixtures("one_thread")]

PROGRAMS = 5000
PER_TEST = 250


# --- random programs ------------------------------------------------------------------------------


def run_program(seed: int) -> str | None:
    """Run a program with both libraries. Return None if they agree, otherwise the difference."""
    r, numbers = random.Random(seed), np.random.default_rng(seed)
    shapes = [(2, 3), (3,), (2, 3), ()]
    values = [
        np.asarray(numbers.uniform(0.5, 1.5, s) * np.where(numbers.random(s) < 0.3, -1, 1))
        for s in shapes
    ]
    wants = [True, r.random() < 0.5, False, r.random() < 0.3]
    theirs, ours = Run(torch, values, wants), Run(gt, values, wants)
    for number in range(r.randint(1, 20)):
        made = step(r, [tuple(x.shape) for x in theirs.pool])
        if theirs.is_ambiguous(made):
            continue
        a, b = theirs.do(made), ours.do(made)
        if a is not b:
            return f"step {number} {made}: {a} against {b}"
        if theirs.facts() != ours.facts():
            return f"step {number} {made}: {theirs.facts()} against {ours.facts()}"
    for number, (x, y) in enumerate(zip(theirs.values(), ours.values())):
        if not np.allclose(x, y, rtol=1e-9, equal_nan=True):
            return f"value {number}: {x} against {y}"
    a, b = theirs.backward(), ours.backward()
    if a is not b:
        return f"backward: {a} against {b}"
    for number, (g, h) in enumerate(zip(theirs.grads(), ours.grads())):
        if a is None and not _is_close(g, h):
            return f"gradient {number}: {g} against {h}"
    return None


def _is_close(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs(first: int) -> None:
    wrong = {seed: found for seed in range(first, first + PER_TEST) if (found := run_program(seed))}
    assert not wrong


# --- names ----------------------------------------------------------------------------------------


def test_node_classes_are_named_as_pytorchs() -> None:
    theirs = set(dir(torch._C._functions)) | {"CopyBackwards"}
    model = load.load()
    ours = set(nodes.node_names(model).values())
    ours |= {name for op in model.ops for name in op.number_nodes.values()}
    assert len(ours) > 50 and ours - theirs <= {
        # operators with another name in PyTorch, or without a Python class there
        "AttentionWithDropoutBackward0", "BinaryCrossEntropyWithLogitsBackwardBackward0",
        "BinomialBackward0", "ReshapeAliasBackward0",
        "BitwiseAndBackward0", "BitwiseLeftShiftBackward0",
        "BitwiseNotBackward0", "BitwiseOrBackward0", "BitwiseRightShiftBackward0",
        "BitwiseXorBackward0", "ConvolutionWeightGradientBackward0", "CopyBackward0",
        "CrossEntropyBackward0",
        "CtcLossBackwardBackward0", "FusedRmsNormBackwardBackward0", "GcdBackward0",
        "HardsigmoidBackwardBackward0", "HeavisideBackward0", "LargerBackwardBackward0",
        "LcmBackward0", "LogicalAndBackward0", "LogicalNotBackward0", "LogicalOrBackward0",
        "LogicalXorBackward0", "MishBackwardBackward0", "NativeGroupNormBackwardBackward0",
        "RnnLayerBackward0", "ScatterBackward2", "ScatterBackward3", "SiluBackwardBackward0",
        "SpecialNdtrBackward0",
    }  # fmt: skip


# Calls whose result's node has PyTorch's name.
CALLS = """
x.reshape(6) ;; x.flatten() ;; x.t().reshape(6) ;; x.t().flatten() ;; x.ravel() ;; x.view(6)
y[:, :, :2].reshape(6, 2) ;; y.transpose(0, 1).reshape(3, 2, 2, 2) ;; x.unflatten(1, (3, 1))
x @ w ;; y @ v ;; y @ y.mT ;; v @ y.mT ;; F.linear(x, w.t()) ;; F.linear(y, u) ;; F.linear(y, u, v)
x.norm() ;; x.norm(1) ;; x.norm(2, 1) ;; t.norm(x, 3, 0, True) ;; t.linalg.norm(x)
t.linalg.matrix_norm(x) ;; t.linalg.matrix_norm(w, 'nuc') ;; t.fft.fftshift(x)
t.fft.ifftshift(x) ;; t.fft.rfft(x) ;; t.stack([x, x]) ;; t.cat([x, x]) ;; x.chunk(2)[0] ;; x.T
x[0] ;; x[:, 0] ;; x[None] ;; x[:, ::2] ;; x[i] ;; x[x > 1] ;; x.mean() ;; x.std(1) ;; x.var()
x.max(1)[0] ;; x.max() ;; x.sum(1) ;; x.prod() ;; x.cumsum(1) ;; x.sort()[0] ;; x.median()
x + 1 ;; x * 2 ;; x / 2 ;; x ** 2 ;; -x ;; abs(x) ;; x.clamp(0, 1) ;; x.masked_fill(x > 1, 0)
x.to(t.float64) ;; x.double() ;; x.clone() ;; x.expand(2, 2, 3) ;; x.repeat(2, 1)
F.relu(x) ;; F.gelu(x) ;; F.silu(x) ;; F.mish(x) ;; F.elu(x) ;; F.leaky_relu(x) ;; F.relu6(x)
F.hardswish(x) ;; F.softplus(x) ;; F.logsigmoid(x) ;; F.glu(y) ;; F.tanhshrink(x) ;; F.softsign(x)
F.softmax(x, 1) ;; F.log_softmax(x, 1) ;; F.softmin(x, 1) ;; F.normalize(x) ;; F.dropout(x, 0.5)
F.layer_norm(x, (3,)) ;; F.group_norm(y, 1) ;; F.instance_norm(y)
F.batch_norm(x, None, None, training=True) ;; F.local_response_norm(y, 2) ;; F.mse_loss(x, x + 1)
F.l1_loss(x, x + 1) ;; F.smooth_l1_loss(x, x + 1) ;; F.huber_loss(x, x + 1) ;; F.kl_div(x, x + 1)
F.nll_loss(x, i) ;; F.binary_cross_entropy(x / 9, x / 9)
F.binary_cross_entropy_with_logits(x, x) ;; F.poisson_nll_loss(x, x) ;; F.gaussian_nll_loss(x, x, x)
F.triplet_margin_loss(x, x + 1, x) ;; F.multi_margin_loss(x, i) ;; F.cosine_similarity(x, x + 1)
F.pairwise_distance(x, x + 1) ;; F.pad(x, (1, 1)) ;; F.pad(y, (1, 1), mode='reflect')
F.interpolate(y, scale_factor=2) ;; F.interpolate(y, scale_factor=2, mode='linear')
F.conv1d(y, t.ones(1, 3, 1)) ;; F.max_pool1d(y, 2) ;; F.avg_pool1d(y, 2) ;; F.embedding(i, x)
F.adaptive_avg_pool1d(y, 1) ;; F.adaptive_avg_pool2d(y, 1) ;; F.adaptive_max_pool1d(y, 1)
F.scaled_dot_product_attention(y, y, y) ;; F.bilinear(x, x, t.ones(2, 3, 3)) ;; F.unfold(y, 1)
x.logsumexp(1) ;; t.where(x > 1, x, x + 1) ;; t.addmm(w, w, w) ;; t.bmm(y, y.mT) ;; t.outer(v, v)
t.tensordot(w, w, 1) ;; t.einsum('i,i->', v, v) ;; t.einsum('ij,jk->ik', x, w)
t.cdist(x, x + 1) ;; t.roll(x, 1) ;; t.diff(x)
1 - x ;; x - 1 ;; 2 ** x ;; x ** x ;; x.pow(2) ;; x % 2 ;; x % x ;; t.fmod(x, 2) ;; t.fmod(x, x)
x.clamp_min(1) ;; x.clamp_min(x) ;; x.clamp_max(1) ;; x.clamp_max(x) ;; t.copysign(x, 1.0)
t.copysign(x, x) ;; t.lerp(x, x, 0.5) ;; t.lerp(x, x, x) ;; (x * 1).pow_(2) ;; (x * 1).remainder_(x)
t.diag(w) ;; t.t_copy(x) ;; t.unbind_copy(x)[0] ;; t.view_copy(x, (6,)) ;; (x * 1).transpose_(0, 1)
"""
# Functions that are composed of other operators here or there.
OTHER = {
    "2 / x": ("MulBackward0", "DivBackward0"),
    "x.square()": ("PowBackward0", "MulBackward0"),
    "F.cross_entropy(x, i)": ("NllLossBackward0", "CrossEntropyBackward0"),
    "F.rms_norm(x, (3,))": ("MulBackward0", "FusedRmsNormBackward0"),  # PyTorch's name on CUDA
    "F.rrelu(x)": ("RreluWithNoiseBackward0", "LeakyReluBackward0"),
    "x.quantile(0.5)": ("SqueezeBackward4", "ViewBackward0"),
    "t.kron(x, x)": ("UnsafeViewBackward0", "ViewBackward0"),
    "t.linalg.cross(w, w)": ("LinalgCrossBackward0", "StackBackward0"),
}


def test_nodes_of_composed_functions_are_named_as_pytorchs() -> None:
    def names(lib: Any) -> dict[str, str]:
        def some(*sizes: int) -> Any:
            values = np.linspace(0.5, 1.5, int(np.prod(sizes)), dtype=np.float32)
            return lib.tensor(values.reshape(sizes).tolist(), requires_grad=True)

        given = {
            "t": lib, "F": lib.nn.functional, "i": lib.tensor([0, 1]), "x": some(2, 3),
            "w": some(3, 3), "y": some(2, 3, 4), "v": some(4), "u": some(4, 4),
        }  # fmt: skip
        return {call: eval(call, given).grad_fn.name() for call in [*calls, *OTHER]}

    calls = [call.strip() for line in CALLS.strip().splitlines() for call in line.split(";;")]
    theirs, ours = names(torch), names(gt)
    assert {call: ours[call] for call in calls} == {call: theirs[call] for call in calls}
    assert {call: (theirs[call], ours[call]) for call in OTHER} == OTHER
