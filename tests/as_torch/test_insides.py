"""Private names of PyTorch that packages use."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.as_torch import insides, nn_insides, stand_ins
from gputensor.core import errors
from gputensor.utils import _pytree, key_paths


def test_operators_of_lists() -> None:
    xs = [gt.arange(3.0), gt.ones(2)]
    of = insides.OF_TORCH
    added = of["_foreach_add"](xs, [gt.ones(3), gt.ones(2)], alpha=2)
    assert [x.tolist() for x in added] == [[2, 3, 4], [3, 3]]
    assert of["_foreach_mul_"](xs, [2.0, 3.0]) is None
    assert [x.tolist() for x in xs] == [[0, 2, 4], [3, 3]]
    of["_foreach_addcdiv_"](xs, xs, [gt.ones(3), gt.ones(2)], -1)
    assert [x.tolist() for x in xs] == [[0, 0, 0], [0, 0]]
    of["_foreach_copy_"](xs, [gt.ones(3), gt.ones(2)])
    assert [float(x) for x in of["_foreach_norm"](xs)] == pytest.approx([3**0.5, 2**0.5])
    assert [x.tolist() for x in of["_foreach_clamp_max"](xs, 0.5)] == [[0.5] * 3, [0.5] * 2]


@pytest.mark.parametrize("args, kwargs, expected", [
    ((gt.float64,), {}, (None, gt.float64, False, None)),
    (("cpu", gt.float16, True), {}, (gt.device("cpu"), gt.float16, True, None)),
    ((gt.ones(1, dtype=gt.int8),), {}, (gt.device("cpu"), gt.int8, False, None)),
    ((), {"device": "meta", "non_blocking": True}, (gt.device("meta"), None, True, None)),
])  # fmt: skip
def test_arguments_of_to(args, kwargs, expected) -> None:  # type: ignore[no-untyped-def]
    assert insides.parse_to(*args, **kwargs) == expected


def test_texts_of_tensors() -> None:
    options = insides.OF_TENSOR_STR["PRINT_OPTS"]
    before = options.precision
    try:
        options.precision = 2
        assert insides.tensor_str(gt.tensor([1.234, 2.0]), 0) == "[1.23, 2.00]"
    finally:
        options.precision = before
    assert insides.tensor_str(gt.empty(0), 0) == "[]"
    assert insides.add_suffixes("x([1]", ["a=1", "b=2"], 2, False) == "x([1], a=1, b=2)"
    assert insides.str_intern(gt.ones(1), tensor_contents="9") == "Tensor(9)"


def test_index_of_a_device() -> None:
    assert insides.get_device_index(3) == 3
    assert insides.get_device_index("cpu", allow_cpu=True) == -1
    assert insides.get_device_index(gt.device("cuda", 1)) == 1
    with pytest.raises(errors.ArgumentError, match="must have an index"):
        insides.get_device_index("cuda")


def test_flat_tensors_are_taken_apart() -> None:
    xs = [gt.arange(4.0).reshape(2, 2), gt.ones(3)]
    flat = insides.flatten_dense_tensors(xs)
    parts = insides.unflatten_dense_tensors(flat, xs)
    assert flat.shape == (7,) and [p.tolist() for p in parts] == [x.tolist() for x in xs]


def test_gradient_of_softmax() -> None:
    x = gt.randn(3, 4, dtype=gt.float64, requires_grad=True)
    y, grad = x.softmax(1), gt.randn(3, 4, dtype=gt.float64)
    y.backward(grad)
    found = insides.OF_TORCH["_softmax_backward_data"](grad, y.detach(), 1, gt.float64)
    np.testing.assert_allclose(found.numpy(), x.grad.numpy(), rtol=1e-12)


def test_a_mode_by_pytorchs_name() -> None:
    seen = []

    class Noting(insides.TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func.name)
            return func(*args, **(kwargs or {}))

    with Noting():
        gt.ones(2) + 1
    assert seen == ["aten::ones", "aten::add"]


def test_containers() -> None:
    pair = collections.namedtuple("pair", "a b")(1, [2])
    assert _pytree._get_node_type(pair) is collections.namedtuple
    node = _pytree.SUPPORTED_NODES[collections.namedtuple]
    children, kind = node.flatten_fn(pair)
    assert node.unflatten_fn(children, kind) == pair
    assert str(key_paths.SequenceKey(1)) + str(key_paths.MappingKey("k")) == "[1]['k']"
    assert key_paths.SequenceKey(0).get([5]) == 5
    assert insides.OF_PYTREE["tree_is_leaf"](3) and not insides.OF_PYTREE["tree_is_leaf"]([3])


@pytest.mark.oracle
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("to", ["bfloat16", "float32", None])
def test_scaled_products_of_float8(rows: bool, to: str | None) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib, product in ((torch, torch._scaled_mm), (gt, insides.scaled_mm)):
        a = lib.linspace(-3, 3, 16 * 32).reshape(16, 32).to(lib.float8_e4m3fn)
        b = lib.linspace(-2, 2, 16 * 32).reshape(16, 32).to(lib.float8_e4m3fn).t()
        scales = [lib.tensor(0.5), lib.tensor(0.25)]
        if rows:
            scales = [lib.linspace(0.1, 1, 16)[:, None], lib.linspace(0.1, 1, 16)[None]]
        dtype = None if to is None else getattr(lib, to)
        if to is None and rows:
            return  # PyTorch's has no such kernel
        bias = None if to is None else lib.ones(16, dtype=dtype)
        y = product(a, b, *scales, bias, out_dtype=dtype)
        assert str(y.dtype).endswith(to or "float8_e4m3fn")
        found.append(y.to(lib.float32).numpy())
    # A sum between two numbers of e4m3 is rounded to either of them: their step is 1/8.
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2, None: 0.125}[to]
    np.testing.assert_allclose(found[1], found[0], tolerance, tolerance)


def test_refused_products_of_float8() -> None:
    a, one = gt.ones(2, 2).to(gt.float8_e5m2), gt.tensor(1.0)
    assert insides.scaled_mm(a, a, one, one, out_dtype=gt.float32).tolist() == [[2, 2], [2, 2]]
    for given, said in (
        ((gt.ones(2, 2), a, one, one), "'self' must be float8"),
        ((a, a, one.double(), one), "'scale of self' must be a float32 tensor of one element, or"),
        ((a, a, one, gt.ones(2)), "'scale of mat2' must be a float32 tensor"),
        ((a, a, one, one, None, one), "'scale_result' must be None"),
    ):
        with pytest.raises(gt.GpuTensorError, match=said):
            insides.scaled_mm(*given)


# --- torch.nn -------------------------------------------------------------------------------------


def test_clones_share_nothing() -> None:
    made = nn_insides.clones(gt.nn.Linear(2, 2), 3)
    assert len(made) == 3 and made[0].weight is not made[1].weight
    assert made[0].weight.tolist() == made[2].weight.tolist()


@pytest.mark.parametrize("bias", [True, False])
def test_projections_by_thirds_of_a_matrix(bias: bool) -> None:
    q, k, v, w = gt.rand(2, 4), gt.rand(3, 4), gt.rand(3, 4), gt.rand(12, 4)
    b = gt.rand(12) if bias else None
    for n, (x, found) in enumerate(zip((q, k, v), nn_insides.in_projection_packed(q, k, v, w, b))):
        rows = slice(4 * n, 4 * n + 4)
        wanted = gt.nn.functional.linear(x, w[rows], None if b is None else b[rows])
        assert found.tolist() == wanted.tolist()


def test_numbers_and_names_of_reductions() -> None:
    of = stand_ins.STAND_INS["torch.nn.functional"]["_Reduction"]
    assert [of.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.warns(UserWarning, match="use reduction='sum'"):
        assert of.legacy_get_string(False, None) == "sum"
    with pytest.warns(UserWarning, match="use reduction='none'"):
        assert of.legacy_get_enum(None, False) == 0


def test_lines_are_indented_but_the_first() -> None:
    assert nn_insides.addindent("a\nb", 2) == "a\n  b"


@pytest.mark.oracle
def test_private_names_are_pytorchs() -> None:
    pytest.importorskip("torch")
    from torch.nn import functional
    from torch.nn.modules import transformer

    assert [n for n in nn_insides.OF_FUNCTIONAL if not hasattr(functional, n)] == []
    assert [n for n in nn_insides.OF_TRANSFORMER if not hasattr(transformer, n)] == []


def test_products_of_int8_are_int32() -> None:
    a, b = gt.full((3, 4), 100, dtype=gt.int8), gt.full((4, 2), -100, dtype=gt.int8)
    made = insides.int_mm(a, b)
    assert made.dtype is gt.int32 and made.tolist() == [[-40000, -40000]] * 3
    with pytest.raises(errors.ArgumentError, match="_int_mm: 'mat2' must be int8"):
        insides.int_mm(a, b.int())


def test_flags_of_deterministic_algorithms_are_stored() -> None:
    of = stand_ins.STAND_INS["torch"]
    seen = []
    for mode in ("default", "warn", 2, 0):
        of["set_deterministic_debug_mode"](mode)
        flags = of["are_deterministic_algorithms_enabled"], of["get_deterministic_debug_mode"]
        seen.append([flag() for flag in flags])
    assert seen == [[False, 0], [True, 1], [True, 2], [False, 0]]


def test_leaves_have_paths() -> None:
    point = collections.namedtuple("point", "x y")
    tree = {"a": [1, point(2, [3])], "b": collections.deque([4])}
    of = insides.OF_PYTREE
    pairs, spec = of["tree_flatten_with_path"](tree)
    assert [of["keystr"](path) for path, _ in pairs] == [
        "['a'][0]", "['a'][1].x", "['a'][1].y[0]", "['b'][0]"
    ]  # fmt: skip
    assert all(of["key_get"](tree, path) == leaf for path, leaf in pairs) and spec.num_leaves == 4
    added = of["tree_map_with_path"](lambda path, a, b: (len(path), a + b), [1, [2]], [3, [4]])
    assert added == [(1, 4), [(2, 6)]]


def test_registered_containers_name_their_keys() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    of = insides.OF_PYTREE

    def with_keys(x: Any) -> Any:
        return [(of["GetAttrKey"]("a"), x.a), (of["GetAttrKey"]("b"), x.b)], None

    _pytree.register_pytree_node(
        Pair, lambda x: ([x.a, x.b], None), lambda xs, _: Pair(*xs), flatten_with_keys_fn=with_keys
    )
    try:
        pairs = of["tree_leaves_with_path"]([Pair(1, [2])])
    finally:
        del _pytree.SUPPORTED_NODES[Pair]
    assert [(of["keystr"](path), leaf) for path, leaf in pairs] == [("[0].a", 1), ("[0].b[0]", 2)]
