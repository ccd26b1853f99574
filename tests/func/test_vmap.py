"""gt.vmap: in_dims and out_dims, results, errors."""

from __future__ import annotations

from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor import func
from gputensor.func import vmap_level

x = gt.arange(12, dtype=gt.float32).reshape(4, 3)


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a == b).all())


def test_dimensions_are_named_for_each_argument() -> None:
    assert same(gt.vmap(gt.dot)(x, x), (x * x).sum(1))
    assert same(gt.vmap(gt.dot, in_dims=(1, None))(x, x[:, 0]), x.T @ x[:, 0])
    assert same(gt.vmap(lambda a: a, out_dims=1)(x), x.T)
    assert same(gt.vmap(lambda a: a[0], in_dims=-1)(x), x[0])


def test_arguments_and_results_may_be_nested() -> None:
    mapped = gt.vmap(lambda d: {"y": (d["a"] + d["b"][0], d["a"])}, ({"a": 0, "b": (None,)},))
    found = mapped({"a": x, "b": (x[0],)})
    assert same(found["y"][0], x + x[0]) and same(found["y"][1], x)


def test_maps_nest_and_share_what_is_not_mapped() -> None:
    outer = gt.vmap(gt.vmap(lambda a, b: a * b, (None, 0)), (0, None))
    assert same(outer(x[:, 0], x[:, 1]), gt.outer(x[:, 0], x[:, 1]))


def test_a_result_without_the_batch_is_expanded() -> None:
    found = gt.vmap(lambda a: gt.ones(2))(x)
    assert found.shape == (4, 2)
    with pytest.raises(errors.GpuTensorError, match="out_dims"):
        gt.vmap(lambda a: a, out_dims=None)(x)


@pytest.mark.parametrize("chunk_size", [1, 3, 4, 9])
def test_chunks_give_the_same(chunk_size: int) -> None:
    assert same(gt.vmap(gt.sin, chunk_size=chunk_size)(x), x.sin())


def test_views_are_written_through() -> None:
    def write(a: Any) -> Any:
        a[0].mul_(2)
        a[1:].add_(1)
        return a

    expected = x.clone()
    expected[:, 0] *= 2
    expected[:, 1:] += 1
    given = x.clone()
    assert same(gt.vmap(write)(given), expected) and same(given, expected)


def test_a_batch_is_not_written_into_what_has_none() -> None:
    one = gt.zeros(3)
    with pytest.raises(errors.GpuTensorError, match="must have the batch"):
        gt.vmap(lambda a: one.add_(a))(x)
    assert same(one, gt.zeros(3))


@pytest.mark.parametrize("function", [
    lambda a: a[0].item(), lambda a: a.nonzero(), lambda a: a[a > 3], lambda a: bool(a[0] > 1),
])  # fmt: skip
def test_what_depends_on_elements_is_refused(function: Any) -> None:
    with pytest.raises(errors.DispatchError, match="must not be called within vmap"):
        gt.vmap(function)(x)


def test_an_operator_without_a_rule_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vmap_level, "_warned", set())
    with pytest.warns(UserWarning, match="'histc' has no batch rule") as warned:
        for _ in range(2):
            found = gt.vmap(lambda a: a.histc(2, 0, 12))(x)
    assert same(found[:, 0], (x < 6).sum(1).float()) and len(warned) == 1


def test_rules_serve_what_has_other_sizes_or_indices_in_each_entry() -> None:
    """No operator here runs entry by entry, because that would warn."""
    n = gt.tensor([[0, 2], [1, 1], [2, 0], [0, 1]])
    y = x.reshape(4, 3, 1) + gt.arange(2.0)

    def alone(function: Any, *given: Any) -> Any:
        return gt.stack([function(*[g[k] for g in given]) for k in range(4)])

    for function, given in [
        (lambda a: a.sum(0), (y,)), (lambda a: a.sum(1), (y,)), (lambda a: a.amax(0), (y,)),
        (lambda a: a.logsumexp(0), (y,)), (lambda a: gt.count_nonzero(a, ()), (x[:, 1],)),
        (lambda a: a.unfold(0, 1, 1), (x[:, 1],)), (lambda a: a.roll(4), (y,)),
        (lambda a, i: a.take(i), (x, n)), (lambda a, i: a.index_select(0, i), (y, n)),
        (lambda a, i: gt.put(a, i, gt.ones(2)), (x, n)),
        (lambda a, i: a.index_add(0, i, a[:2], alpha=2), (y, n)),
        (lambda a, i: a.index_fill(0, i, 7.0), (y, n)),
        (lambda a, i: a.index_reduce(0, i, a[:2], "amax"), (y, n)),
        (lambda a: a[gt.tensor([True, False, True])], (y,)),
        (lambda a: a.masked_select(gt.tensor([True, False, True])), (x,)),
        (lambda a, v: a.masked_fill(a > 4, v), (y, x[:, 0])),
        (lambda a, v: gt.searchsorted(a, v), (x, x.flip(1))),
        (lambda a, v: gt.bucketize(v, a), (x, x.flip(1))),
        (lambda a: gt.bucketize(a, x[1]), (y,)), (lambda a, v: gt.isin(a, v[:2]), (x, x.flip(1))),
        (lambda a: gt.renorm(a, 2, 0, 3.0), (y,)), (lambda a: gt.rot90(a), (y,)),
        (lambda a, v: gt.addr(y[0], a, v[:2]), (x, x)), (lambda a: (a @ a.T).trace(), (y,)),
        (lambda a: gt.linalg.solve(a @ a.T + gt.eye(3), a[:, 0]), (y,)),
        (lambda a: gt.linalg.pinv(a), (y,)),
        (lambda a: gt.nn.functional.one_hot(a, 3), (n,)),
        (lambda a: a.quantile(0.5), (y,)),
    ]:  # fmt: skip
        found = gt.vmap(function)(*given)
        wanted = alone(function, *given)
        assert found.shape == wanted.shape and gt.allclose(found.double(), wanted.double())


def test_tensors_that_become_views_in_place() -> None:
    images = gt.rand(4, 1, 2, 3)
    for change in (
        lambda a: a.transpose_(0, 2), lambda a: a.transpose_(-1, 2), lambda a: a.squeeze_(0).t_(),
        lambda a: a.unsqueeze_(1), lambda a: a.squeeze_(), lambda a: a.swapaxes_(0, 1),
    ):  # fmt: skip

        def function(a: Any) -> Any:
            b = a.clone()
            assert change(b) is b
            return b

        assert same(gt.vmap(function)(images), gt.stack([function(a) for a in images]))


def test_entries_that_are_written_by_an_operator_without_a_functional_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vmap_level, "_warned", set())
    table, rows = gt.rand(4, 5, 3) + 1, gt.tensor([[0, 1], [2, 3], [4, 4], [1, 0]])
    found = gt.vmap(lambda w, i: gt.nn.functional.embedding(i, w, max_norm=1.0))
    with pytest.warns(UserWarning, match="embedding_renorm_"):
        norms = found(table, rows).norm(dim=-1)
    assert gt.allclose(norms, gt.ones(4, 2), atol=1e-4)


def test_random_numbers_are_refused_shared_or_each_entrys_own() -> None:
    with pytest.raises(errors.DispatchError, match="randomness='error'"):
        gt.vmap(lambda a: a + gt.rand(3))(x)
    shared = gt.vmap(lambda a: a * 0 + gt.rand(3), randomness="same")(x)
    assert same(shared[0], shared[3])
    own = gt.vmap(lambda a: a * 0 + gt.rand(3), randomness="different")(x)
    assert not same(own[0], own[3])
    like = gt.vmap(gt.rand_like, randomness="different")(x)
    assert like.shape == (4, 3) and not same(like[0], like[1])
    dropped = gt.vmap(lambda a: gt.nn.functional.dropout(a), randomness="different")(gt.ones(9, 64))
    assert not same(dropped[0], dropped[1])


@pytest.mark.parametrize("draw", [
    gt.poisson, lambda rate: gt.binomial(8 * rate, rate / 99), gt.bernoulli,
    lambda rate: gt.binomial(gt.full((64,), 80.0), rate / 99),
])  # fmt: skip
def test_counts_are_drawn_as_other_random_numbers(draw: Any) -> None:
    rates = gt.full((3, 64), 40.0) if draw is not gt.bernoulli else gt.full((3, 64), 0.5)
    for randomness, why in (("error", "randomness='error'"), ("same", "operands that differ")):
        with pytest.raises(errors.GpuTensorError, match=why):
            gt.vmap(draw, randomness=randomness)(rates)
    own = gt.vmap(draw, randomness="different")(rates)
    assert own.shape == (3, 64) and not same(own[0], own[1])
    shared = gt.vmap(lambda a: draw(rates[0]) + 0 * a, randomness="same")(rates)
    assert same(shared[0], shared[2])
    own = gt.vmap(lambda a: draw(rates[0]) + 0 * a, randomness="different")(rates)
    assert not same(own[0], own[2])


def test_a_batch_joins_autograd() -> None:
    leaf = x.clone().requires_grad_()
    gt.vmap(lambda a: (a * a).sum())(leaf).sum().backward()
    assert same(leaf.grad, 2 * x)


def test_wrappers_end_with_their_transform() -> None:
    kept: list[Any] = []
    gt.vmap(lambda a: kept.append(a) or a)(x)
    assert "BatchedTensor" in repr(kept[0]) and kept[0].shape == (3,)
    with pytest.raises(errors.GpuTensorError, match="after the transform"):
        kept[0] + 1


@pytest.mark.parametrize("arguments", [
    {"func": 3}, {"func": gt.sin, "randomness": "none"}, {"func": gt.sin, "chunk_size": 0},
])  # fmt: skip
def test_bad_arguments(arguments: Any) -> None:
    with pytest.raises(errors.GpuTensorError):
        gt.vmap(**arguments)


@pytest.mark.parametrize(("in_dims", "args"), [
    (2, (x,)), (None, (x,)), ((0, 0), (x,)), (0, (x, x[:3])), (0, (x, 3)), ("0", (x,)),
])  # fmt: skip
def test_bad_dimensions(in_dims: Any, args: Any) -> None:
    with pytest.raises(errors.GpuTensorError):
        gt.vmap(lambda *a: a[0], in_dims)(*args)


def test_users_operators_bring_their_rule() -> None:
    @gt.library.custom_op("tests_func::halve", mutates_args=())
    def halve(x: gt.Tensor, places: int) -> gt.Tensor:
        return x * 0.5 + places

    looped = gt.vmap(lambda a: halve(a, 2), in_dims=1)
    with pytest.warns(UserWarning, match="halve"):
        assert same(looped(x), x.T * 0.5 + 2)
    seen = []

    @halve.register_vmap
    def rule(info: Any, in_dims: Any, a: Any, places: int) -> Any:
        seen.append((info.batch_size, in_dims))
        return halve(a, places), in_dims[0]

    assert same(looped(x), x.T * 0.5 + 2) and seen == [(3, (0, None))]
    with pytest.raises(errors.GpuTensorError):
        gt.library.register_vmap("tests_func::halve", 3)


def test_an_interrupted_map_leaves_nothing_behind() -> None:
    def fails(a: Any) -> Any:
        raise KeyboardInterrupt

    from gputensor.dispatch import tls
    from gputensor.func.levels import levels

    with pytest.raises(KeyboardInterrupt):
        gt.vmap(fails)(x)
    assert levels() == () and tls.state.get() is tls.PLAIN


def test_a_tensor_gets_other_sizes() -> None:
    def resized(a: Any, n: int) -> Any:
        return a.clone().resize_(n)

    assert same(gt.vmap(lambda a: resized(a, 2))(x), x[:, :2].clone())
    assert same(gt.vmap(lambda a: resized(a, 6).zero_()[1:])(x), gt.zeros(len(x), 5))
    with pytest.raises(errors.GpuTensorError, match="cannot resize variables that require grad"):
        gt.vmap(gt.func.grad(lambda a: resized(a, 2).sum()))(x.float())


def test_out_is_refused_with_a_batch() -> None:
    out = gt.zeros(x.shape[1])
    with pytest.raises(errors.GpuTensorError, match="mul: 'out' must not be given within vmap"):
        gt.vmap(lambda a: gt.mul(a, a, out=out))(x)
    assert out.shape == (x.shape[1],) and not out.any()


def test_wrapped_tensors_print_in_pytorchs_form() -> None:
    shown = []

    def note(x: gt.Tensor) -> gt.Tensor:
        shown.append(repr(x))
        return x

    gt.func.vmap(gt.func.vmap(note))(gt.ones(1, 2))
    with gt.autograd.forward_ad.dual_level():
        note(gt.autograd.forward_ad.make_dual(gt.ones(1), gt.zeros(1)))
    inner = "    BatchedTensor(lvl=1, bdim=0, value=\n        tensor([[1., 1.]])\n    )"
    assert shown[0] == f"BatchedTensor(lvl=2, bdim=0, value=\n{inner}\n)"
    assert shown[1] == "tensor([1.], tangent=tensor([0.]))"


def test_results_without_a_dimension_may_be_any_object() -> None:
    made, name = func.vmap(lambda x: (x, "name"), out_dims=(0, None))(gt.ones(2))
    assert made.tolist() == [1, 1] and name == "name"
    with pytest.raises(TypeError, match="return Tensors where out_dims is not None"):
        func.vmap(lambda x: "name")(gt.ones(2))


@pytest.mark.parametrize("draw", [
    lambda x: x.bernoulli_(0.5), lambda x: x.uniform_(), gt.nn.functional.dropout,
    lambda x: gt.nn.functional.alpha_dropout(x, training=True),
    lambda x: gt.nn.functional.dropout2d(x.view(1, 8, 1, 1)),
])  # fmt: skip
def test_entries_of_a_batch_draw_the_same_numbers(draw: Any) -> None:
    x = gt.ones(3, 8)
    made = func.vmap(lambda y: draw(y.clone()), randomness="same")(x)
    assert gt.equal(made[0], made[1]) and gt.equal(made[0], made[2])
    assert made[0].unique().numel() > 1


def test_chunks_draw_the_same_numbers_if_all_entries_do() -> None:
    x = gt.zeros(5, 3)
    made = func.vmap(lambda y: y + gt.randn(3), randomness="same", chunk_size=2)(x)
    assert all(gt.equal(made[0], row) for row in made)
    made = func.vmap(lambda y: y + gt.randn(3), randomness="different", chunk_size=2)(x)
    assert made.unique().numel() == 15
