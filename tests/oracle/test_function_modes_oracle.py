"""A TorchFunctionMode sees the calls that PyTorch's modes see, with the same arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.oracle

# Statements between `;;`. The mode sees the same functions, in the same order, with as many
# positional arguments, the same names of keyword arguments and the same types.
STATEMENTS = """
x.shape ;; x.dtype ;; x.device ;; x.grad ;; x.requires_grad ;; x.T ;; x.mT ;; x.H ;; x.is_leaf
x.grad_fn ;; x.data ;; x.ndim ;; x.itemsize ;; x.nbytes ;; x.is_cuda ;; x.layout ;; x.real
x._version ;; x._base ;; x.size() ;; x.size(0) ;; x.stride() ;; x.dim() ;; x.numel()
x.nelement() ;; x.element_size() ;; x.is_contiguous() ;; x.contiguous() ;; x.is_floating_point()
x.storage_offset() ;; x.data_ptr() ;; x.untyped_storage() ;; x.storage() ;; x.get_device()
x.tolist() ;; x[0,0].item() ;; x.numpy() ;; x.cpu() ;; x.to("cpu") ;; x.to(torch.float64)
x.float() ;; x.double() ;; x.type() ;; x.long() ;; x.type(torch.float64) ;; f"{x}"
f"{x.sum():.2f}" ;; len(x) ;; bool(x.sum()) ;; float(x.sum()) ;; int(x.sum()) ;; x[i.sum()]
range(3)[i[1]] ;; hash(x) ;; 1.0 in x ;; x.detach() ;; x.clone() ;; x.requires_grad_()
x.requires_grad_(False) ;; w.register_hook(lambda g: g) ;; x.is_shared() ;; x.is_pinned()
setg() ;; setdata() ;; torch.autograd.backward((w * 2).sum()) ;; torch.tensor([1, 2])
torch.tensor(x) ;; torch.as_tensor(a) ;; torch.asarray(a) ;; torch.from_numpy(a)
torch.Tensor([1.0]) ;; torch.FloatTensor([1.0]) ;; torch.zeros(2)
torch.ones(2, dtype=torch.int32) ;; torch.empty(2) ;; torch.full((2,), 1.0) ;; torch.arange(3)
torch.linspace(0, 1, 3) ;; torch.eye(2) ;; torch.rand(2) ;; torch.randn(2)
torch.randint(0, 3, (2,)) ;; torch.randperm(3) ;; torch.zeros_like(x) ;; torch.rand_like(x)
x.new_zeros(2) ;; x.new_tensor([1]) ;; x.new_ones((2,)) ;; x.new_full((2,), 1) ;; x.new_empty(2)
torch.scalar_tensor(1) ;; torch.complex(x, x) ;; torch.tril_indices(2, 2)
torch.normal(0.0, 1.0, (2,)) ;; torch.normal(x, x + 1) ;; torch.bernoulli(x / 6)
torch.multinomial(torch.ones(3), 2) ;; torch.empty_strided((2,), (1,)) ;; torch.hann_window(4)
torch.is_tensor(x) ;; torch.is_floating_point(x) ;; torch.is_complex(x) ;; torch.numel(x)
torch.is_grad_enabled() ;; torch.result_type(x, 1) ;; torch.can_cast(torch.int32, torch.float32)
torch.promote_types(torch.int32, torch.float32) ;; torch.is_same_size(x, x)
torch.is_nonzero(x[0,0]) ;; torch.broadcast_shapes((2,), (1,)) ;; torch.get_default_dtype()
torch.stack([x, x]) ;; torch.cat([x, x]) ;; torch.einsum("ij->i", x) ;; torch.tensordot(x, x.T, 1)
torch.meshgrid(i, i, indexing="ij") ;; torch.broadcast_tensors(x, x) ;; torch.chunk(x, 2)
torch.unique(x) ;; x.unique() ;; torch.unique_consecutive(x) ;; torch.cdist(x, x)
torch.atleast_2d(x) ;; torch.block_diag(x, x) ;; torch.cartesian_prod(i, i)
torch.allclose(x, x) ;; torch.equal(x, x) ;; torch.max(x) ;; torch.max(x, 1) ;; x.max(1)
torch.where(x > 1) ;; torch.where(x > 1, x, x) ;; torch.nonzero(x) ;; x.nonzero()
torch.softmax(x, 0) ;; x.softmax(0) ;; torch.sigmoid(x) ;; torch.relu(x) ;; torch.matmul(x, w)
x @ w ;; x + 1 ;; 1 + x ;; 2 - x ;; 2 ** x ;; x / 2 ;; x // 2 ;; x % 2 ;; -x ;; x == 1 ;; x > 1
1 < x ;; (x > 1) & (x > 2) ;; abs(x) ;; x += 0 ;; x *= 1 ;; x[0] = 1 ;; x[i] ;; x[x > 1]
x[None, ..., 0] ;; pow(x, 2) ;; x.add(1) ;; x.add_(0) ;; x.copy_(x) ;; x.view(-1) ;; x.view(3, 2)
x.reshape(3, 2) ;; x.permute(1, 0) ;; x.t() ;; x.unsqueeze(0) ;; x.flatten() ;; x.expand(2, 3)
x.repeat(2, 1) ;; x.masked_fill(x > 1, 0) ;; x.sum() ;; x.mean(0) ;; x.std()
x.apply_(lambda v: v) ;; x.is_same_size(x) ;; x.view_as(x) ;; x.type_as(x) ;; F.linear(x, w)
F.softmax(x, 1) ;; F.log_softmax(x, 1) ;; F.relu(x) ;; F.gelu(x) ;; F.silu(x) ;; F.dropout(x, 0.5)
F.dropout(x, 0.5, training=False) ;; F.cross_entropy(x, i) ;; F.mse_loss(x, x) ;; F.nll_loss(x, i)
F.binary_cross_entropy_with_logits(x, x) ;; F.conv1d(x[None], torch.ones(1, 2, 1))
F.conv2d(x[None, None], torch.ones(1, 1, 1, 1)) ;; F.max_pool1d(x, 2) ;; F.max_pool2d(x[None], 2)
F.avg_pool2d(x[None], 2) ;; F.adaptive_avg_pool2d(x[None], 1) ;; F.adaptive_max_pool2d(x[None], 1)
F.interpolate(x[None], scale_factor=2) ;; F.pad(x, (1, 1)) ;; F.layer_norm(x, (3,))
F.batch_norm(x, torch.zeros(3), torch.ones(3)) ;; F.group_norm(x, 1) ;; F.instance_norm(x[None])
F.embedding(i, x) ;; F.embedding_bag(i[None], x) ;; F.one_hot(i) ;; F.normalize(x)
F.cosine_similarity(x, x) ;; F.pairwise_distance(x, x) ;; F.scaled_dot_product_attention(x, x, x)
F.glu(x[:, :2]) ;; F.unfold(x[None, None], 1)
F.grid_sample(x[None, None], torch.zeros(1, 1, 1, 2))
F.affine_grid(torch.ones(1, 2, 3), (1, 1, 2, 2)) ;; F.kl_div(x, x) ;; F.smooth_l1_loss(x, x)
F.huber_loss(x, x) ;; F.triplet_margin_loss(x, x, x) ;; F.pixel_shuffle(torch.ones(1, 4, 1, 1), 2)
F.upsample(x[None], scale_factor=2) ;; F.elu(x) ;; F.leaky_relu(x) ;; F.prelu(x, torch.ones(1))
F.hardtanh(x) ;; F.softplus(x) ;; F.gumbel_softmax(x) ;; lin(x)
emb(i) ;; nn.Parameter(torch.ones(2)) ;; nn.Parameter(x) ;; nn.CrossEntropyLoss()(x, i)
nn.Dropout(0.5)(x) ;; nn.Softmax(1)(x) ;; nn.MaxPool2d(1)(x[None]) ;; lin.state_dict()
nn.init.normal_(w) ;; nn.init.uniform_(w) ;; nn.init.constant_(w, 1)
nn.init.kaiming_uniform_(w) ;; torch.linalg.norm(x) ;; torch.linalg.inv(w.detach() + torch.eye(3))
torch.linalg.svd(x) ;; torch.fft.fft(x) ;; torch.ops.aten.add(x, x)
torch.ops.aten.add.Tensor(x, x) ;; torch.Tensor.add(x, 1) ;; torch.Tensor.tolist(x)
torch.Tensor.size(x) ;; torch.Tensor.shape.__get__(x) ;; x.__len__() ;; x.map_(x, lambda a, b: a)
torch.equal(x, torch.zeros(2, 3))
2 / x ;; 2 // x ;; 2 % x ;; x ** 2 ;; x ** x ;; pow(x, 2) ;; x **= 2 ;; x.pow(2) ;; x /= 2
~i ;; i.bitwise_not() ;; i & 1 ;; 1 & i ;; 1 | i ;; 1 ^ i ;; i << 1 ;; 1 << i ;; i >> 1 ;; 1 >> i
+x ;; x.positive() ;; torch.positive(x) ;; x.true_divide(2) ;; torch.true_divide(x, 2)
x //= 2 ;; reversed(x) ;; x.__div__(2) ;; x.__rdiv__(2) ;; x.__rsub__(2)
x.__radd__(2) ;; x.isreal()
x.neg() ;; x.relu() ;; x.arctan2(x) ;; torch.multiply(x, x) ;; x + w[0] ;; x // w[0] ;; 2 - w
(s + x).shape ;; s.shape ;; len(s) ;; s.T ;; float(s.sum()) ;; s // x ;; 2 ** s
~s.bool() ;; s.dim()
"""
# PyTorch passes its own arguments here: only the functions are compared.
OTHER_ARGUMENTS = """
repr(x) ;; str(x) ;; x.__dlpack__() ;; (w * 2).sum().backward() ;; torch.split(x, 1)
F.tanh(x) ;; F.sigmoid(x) ;; torch.autograd.grad((w * 2).sum(), w)
torch.autograd.backward((w * 2).sum()) ;; x.split(1)
x.norm() ;; torch.norm(x) ;; torch.stft(torch.ones(16), 8, return_complex=True) ;; copy.deepcopy(x)
"""
# PyTorch's modules read attributes of tensors, and set the grad mode, which a mode sees. Ours do
# not; the remaining functions are compared.
MODULES = """
mha(torch.ones(2, 4), torch.ones(2, 4), torch.ones(2, 4))
nn.LayerNorm(3)(x)
nn.Linear(2, 2)
nn.Conv2d(1, 1, 1)
nn.Embedding(2, 2)
nn.LayerNorm(2)
lin.load_state_dict(lin.state_dict())
lin.zero_grad()
nn.init.ones_(w)
nn.init.kaiming_normal_(w)
nn.init.xavier_uniform_(w)
opt.step()
norm1(x)
nn.Sequential(lin, nn.GELU(), nn.Flatten())(x)
nn.Conv1d(2, 4, 1)(x[None])
"""
READ = {
    "shape.__get__", "dtype.__get__", "device.__get__", "grad_fn.__get__", "grad.__get__", "dim",
    "size", "is_nested.__get__", "is_sparse.__get__", "is_meta.__get__", "is_contiguous",
    "_set_grad_enabled", "_record_function_enter_new", "_record_function_exit._RecordFunction",
}  # fmt: skip

PROGRAM = """
import copy, json, sys, warnings
import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

warnings.simplefilter("ignore")
F, calls = nn.functional, []


def name(func):
    if func.__name__ not in ("__get__", "__set__", "__delete__"):
        return func.__name__
    of = func.__self__  # a property has a name from Python 3.13 on
    return f"{getattr(of, '__name__', None) or of.fget.__name__}.{func.__name__}"


class Record(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        shown = [kind.__name__ for kind in types]
        calls.append([name(func), len(args), sorted(kwargs or {}), shown, resolve_name(func)])
        return func(*args, **(kwargs or {}))


class Sub(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append([f"Sub.{name(func)}", len(args), sorted(kwargs or {})])
        return super().__torch_function__(func, types, args, kwargs)


s = torch.ones(2, 3).as_subclass(Sub)
x, i, a = torch.arange(6.0).reshape(2, 3), torch.tensor([0, 1]), np.ones(3, np.float32)
w, lin, emb = nn.Parameter(torch.ones(3, 3)), nn.Linear(3, 2), nn.Embedding(4, 3)
mha, norm1 = nn.MultiheadAttention(4, 2), nn.BatchNorm1d(3)
w.grad = torch.ones(3, 3)
opt = torch.optim.SGD([w], lr=0.1)


def setg():
    y = torch.ones(2)
    y.requires_grad = True
    y.grad = torch.ones(2)
    del y.grad


def setdata():
    y = torch.ones(2)
    y.data = torch.zeros(2)


found = {}
for statement in json.load(sys.stdin):
    calls.clear()
    with Record():
        exec(statement)
    found[statement] = list(calls)
print(json.dumps(found))
"""


def calls(start: str, statements: list[str]) -> dict[str, list[list[Any]]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start + PROGRAM], input=json.dumps(statements),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_mode_sees_what_pytorchs_modes_see() -> None:
    pytest.importorskip("torch")
    exact, others, modules = (
        [s.strip() for line in text.strip().splitlines() for s in line.split(";;")]
        for text in (STATEMENTS, OTHER_ARGUMENTS, MODULES)
    )
    assert len(exact) > 200
    statements = [*exact, *others, *modules]
    expected = calls("", statements)
    found = calls("from gputensor import as_torch\nas_torch.install()\n", statements)
    for statement in exact:
        assert found[statement] == expected[statement], statement
    for statement in others:
        assert names(found, statement) == names(expected, statement), statement
    for statement in modules:
        seen = [n for n in names(expected, statement) if n not in READ]
        assert [n for n in names(found, statement) if n not in READ] == seen, statement


def names(found: dict[str, list[list[Any]]], statement: str) -> list[str]:
    return [name for name, *_ in found[statement]]
