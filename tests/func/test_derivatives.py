"""gt.func's derivatives, nested in each other and in vmap; also the functions of gt.autograd."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import gputensor as gt
from gputensor import func
from gputensor.autograd import forward_ad, functional
from gputensor.core import errors

v = gt.tensor([1.0, 2.0, 3.0], dtype=gt.float64)


def cube(x: Any) -> Any:
    return (x**3).sum()


def close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool(gt.allclose(a, b.to(a.dtype)))


def test_gradients_are_of_the_chosen_arguments() -> None:
    def function(a: Any, b: Any) -> Any:
        return (a * a * b).sum()

    assert close(func.grad(function)(v, v), 2 * v * v)
    first, second = func.grad(function, (0, 1))(v, v)
    assert close(first, 2 * v * v) and close(second, v * v)
    found, (value, more) = func.grad_and_value(lambda a: (cube(a), {"x": a}), has_aux=True)(v)
    assert close(found, 3 * v * v) and value.item() == 36 and close(more["x"], v)
    assert not value.requires_grad and not more["x"].requires_grad


def test_derivatives_nest() -> None:
    assert close(func.grad(func.grad(gt.sin))(v[0]), -v[0].sin())
    second = gt.diag(6 * v)
    for outer in (func.jacrev, func.jacfwd):
        for inner in (func.jacrev, func.jacfwd):
            assert close(outer(inner(cube))(v), second), (outer, inner)
    assert close(func.hessian(cube)(v), second)
    third = func.jacfwd(func.hessian(cube))(v)
    assert close(third.diagonal(0, 0, 1).sum(0), gt.full((3,), 6.0))


def test_a_derivative_within_does_not_see_the_one_around() -> None:
    inner = lambda x: func.grad(lambda y: x * y)(gt.ones((), dtype=x.dtype))  # noqa: E731
    assert func.grad(lambda x: x * inner(x))(v[1]).item() == 4
    directional = lambda x: func.jvp(lambda y: x * y, (x,), (gt.ones_like(x),))[1]  # noqa: E731
    assert func.jvp(lambda x: x * directional(x), (v[1],), (gt.ones_like(v[1]),))[1].item() == 4


def test_each_entry_has_its_own_gradient() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (w @ x) ** 2

    w, data = gt.rand(3), gt.rand(5, 3)
    expected = 2 * (data @ w).unsqueeze(1) * data
    assert close(gt.vmap(func.grad(loss), (None, 0))(w, data), expected)
    assert close(func.grad(lambda w: gt.vmap(loss, (None, 0))(w, data).sum())(w), expected.sum(0))


def test_what_is_outside_stays_differentiable() -> None:
    w = gt.tensor(2.0, requires_grad=True)
    found = func.grad(lambda x: x * x * w)(gt.tensor(3.0))
    found.backward()
    assert found.item() == 12 and w.grad is not None and w.grad.item() == 6
    assert not func.grad(lambda x: x * x)(gt.tensor(3.0)).requires_grad
    with gt.no_grad():
        assert func.grad(lambda x: x * x)(gt.tensor(3.0)).item() == 6


def test_vjp_and_jvp_take_nested_arguments() -> None:
    def function(d: Any, x: Any) -> Any:
        return {"sum": d["a"] + x, "product": (d["a"] * x,)}

    out, pull = func.vjp(function, {"a": v}, v)
    given, second = pull({"sum": v, "product": (v,)})
    assert close(out["sum"], 2 * v) and close(given["a"], v + v * v) and close(second, v + v * v)
    _, tangent = func.jvp(function, ({"a": v}, v), ({"a": v}, 0 * v))
    assert close(tangent["sum"], v) and close(tangent["product"][0], v * v)
    value, push = func.linearize(lambda x: x.sin(), v)
    assert close(push(v), v.cos() * v) and close(push(2 * v), v.cos() * 2 * v)
    assert close(value, v.sin())


def test_writes_keep_their_tangents() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[0].mul_(x[1])
        y[1:] = x[:2].exp()
        return y.sum()

    _, tangent = func.jvp(function, (v,), (gt.ones_like(v),))
    reverse = func.grad(function)(v).sum()
    assert close(tangent, reverse)


def test_tangents_of_a_batch_follow_views_of_what_has_none() -> None:
    matrix = gt.rand(3, 2, dtype=gt.float64)
    tangents = gt.rand(4, 3, 2, dtype=gt.float64)
    found = gt.vmap(lambda t: func.jvp(lambda a: a.mT.reshape(-1), (matrix.mT.mT,), (t,))[1])
    assert close(found(tangents), tangents.mT.reshape(4, -1))


def test_what_is_overwritten_has_no_tangent() -> None:
    _, tangent = func.jvp(lambda x: (x * 1).zero_(), (v,), (v,))
    assert close(tangent, 0 * v)
    _, tangent = func.jvp(lambda x: (x * 1).uniform_() + x, (v,), (v,))
    assert close(tangent, v)


def test_modules_are_functions_of_their_parameters() -> None:
    models = [gt.nn.Linear(3, 2) for _ in range(4)]
    stacked, buffers = func.stack_module_state(models)
    data = gt.rand(5, 3)

    def one(parameters: Any, buffers: Any) -> Any:
        return func.functional_call(models[0], (parameters, buffers), (data,))

    found = gt.vmap(one)(stacked, buffers)
    for n, model in enumerate(models):
        assert close(found[n], model(data))
    with pytest.raises(RuntimeError, match="name all parameters and buffers of Linear"):
        func.functional_call(models[0], {"other": data}, data, strict=True)
    before = models[0].weight
    with pytest.raises(errors.GpuTensorError):
        func.functional_call(models[0], {"weight": gt.rand(2, 9)}, data)
    assert models[0].weight is before


def test_a_convolutions_per_sample_gradients() -> None:
    net = gt.nn.Sequential(
        gt.nn.Conv2d(1, 4, 3),
        gt.nn.ReLU(),
        gt.nn.MaxPool2d(2),
        gt.nn.Flatten(),
        gt.nn.Linear(36, 3),
    )
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    images, labels = gt.rand(4, 1, 8, 8), gt.tensor([0, 2, 1, 1])

    def loss(parameters: Any, image: Any, label: Any) -> Any:
        made = func.functional_call(net, parameters, (image.unsqueeze(0),))
        return gt.nn.functional.cross_entropy(made, label.unsqueeze(0))

    found = gt.vmap(func.grad(loss), (None, 0, 0))(parameters, images, labels)
    for n in range(4):
        alone = func.grad(loss)(parameters, images[n], labels[n])
        for name, g in alone.items():
            assert gt.allclose(found[name][n], g, atol=1e-5), name


def test_older_forms() -> None:
    assert close(functional.jacobian(gt.sin, v), gt.diag(v.cos()))
    assert close(functional.hessian(cube, v), gt.diag(6 * v))
    ((a, b),) = [functional.jacobian(lambda x, y: x * y, (v, 2 * v))]
    assert close(a, gt.diag(2 * v)) and close(b, gt.diag(v))
    for form in (functional.vhp, functional.hvp):
        value, product = form(cube, v, v)
        assert value.item() == 36 and close(product, 6 * v * v)
    assert close(functional.jvp(gt.sin, v, v)[1], v.cos() * v)
    assert close(functional.vjp(gt.sin, v, v)[1], v.cos() * v)
    w = v.clone().requires_grad_()
    functional.jacobian(lambda x: x**2, w, create_graph=True).sum().backward()
    assert w.grad is not None and close(w.grad, gt.full((3,), 2.0))


def test_a_block_has_tangents() -> None:
    with forward_ad.dual_level():
        y = forward_ad.make_dual(v, gt.ones_like(v)).sin()
        primal, tangent = forward_ad.unpack_dual(y)
        assert close(primal, v.sin()) and tangent is not None and close(tangent, v.cos())
        with pytest.raises(errors.GpuTensorError, match="once at a time"), forward_ad.dual_level():
            pass
    assert forward_ad.unpack_dual(v).tangent is None
    with pytest.raises(errors.GpuTensorError, match="within a dual_level"):
        forward_ad.make_dual(v, v)


@pytest.mark.parametrize("call", [
    lambda: func.grad(lambda x: x)(v),
    lambda: func.grad(lambda x: x.sum(), 1)(v),
    lambda: func.grad(lambda x: x.sum(), "0")(v),
    lambda: func.grad(lambda x: 3.0)(v),
    lambda: func.grad(cube)(3.0),
    lambda: func.jvp(cube, v, v),
    lambda: func.jvp(cube, (v,), (v[:2],)),
    lambda: func.jvp(cube, (v,), ()),
    lambda: func.vjp(cube, v)[1](v),
    lambda: func.jvp(lambda x: gt.ones(1), (v,), (v,), strict=True),
    lambda: functional.jvp(gt.sin, v),
    lambda: functional.hessian(gt.sin, v),
])  # fmt: skip
def test_bad_input(call: Any) -> None:
    with pytest.raises(errors.GpuTensorError):
        call()


def test_gradients_of_weights_have_rules() -> None:
    """`jacrev` lets backward operators work on whole batches; one without a rule would warn."""
    image, filters = gt.rand(2, 4, 5, 5, dtype=gt.float64), gt.rand(6, 2, 3, 3, dtype=gt.float64)
    scale, logs = gt.rand(4, dtype=gt.float64), gt.rand(3, 4, dtype=gt.float64)
    classes, nn = gt.tensor([2, 0, 1]), gt.nn.functional
    mean, var = gt.zeros(4, dtype=gt.float64), gt.ones(4, dtype=gt.float64)
    table = gt.rand(5, 3, dtype=gt.float64)
    wrong = []
    for number, (function, given) in enumerate([
        (lambda x, w: nn.conv2d(x, w, groups=2), (image, filters)),
        (lambda x, w: nn.conv_transpose2d(x, w[:4], groups=2), (image, filters)),
        (lambda x, w: nn.group_norm(x, 2, w, w), (image, scale)),
        (lambda x, w: nn.layer_norm(x.mT.flatten(1)[:, :4], (4,), w, w), (image, scale)),
        (lambda x, w: nn.batch_norm(x, None, None, w, w, training=True), (image, scale)),
        (lambda x, w: nn.batch_norm(x, mean, var, w, w), (image, scale)),
        (lambda x: nn.nll_loss(x, classes, scale, ignore_index=1), (logs,)),
        (lambda x: nn.nll_loss(x.reshape(1, 3, 2, 2), gt.zeros(1, 2, 2, dtype=gt.int64)), (logs,)),
        (lambda x: nn.cross_entropy(x, classes, scale, reduction="none"), (logs,)),
        (lambda x: x.unfold(0, 2, 1), (table,)), (lambda x: x.sum().unfold(0, 1, 1), (table,)),
    ]):  # fmt: skip
        rows = func.jacrev(function, tuple(range(len(given))))(*given)
        columns = func.jacfwd(function, tuple(range(len(given))))(*given)
        if not all(close(a, b) for a, b in zip(rows, columns)):
            wrong.append(number)
    assert not wrong
    found = func.jacrev(lambda w: nn.embedding(classes, w, padding_idx=1))(table)
    assert close(found[0, :, 2], gt.eye(3)) and not found[2].any()


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "group_norm", "batch_norm"])
def test_second_derivatives_of_norms(name: str) -> None:
    """All four ways to compose Jacobians give the Hessian, which is symmetric."""
    nn = gt.nn.functional
    x, w = gt.rand(4, 6, dtype=gt.float64) - 0.5, gt.rand(6, dtype=gt.float64)
    calls: dict[str, Any] = {
        "layer_norm": lambda x, w: nn.layer_norm(x, (6,), w),
        "rms_norm": lambda x, w: nn.rms_norm(x, (6,), w),
        "group_norm": lambda x, w: nn.group_norm(x, 2, w),
        "batch_norm": lambda x, w: nn.batch_norm(x, None, None, w, training=True),
    }

    def function(x: Any, w: Any) -> Any:
        return (calls[name](x, w) ** 3).sum()

    both = (0, 1)
    found = [
        outer(inner(function, both), both)(x, w)
        for outer in (func.jacrev, func.jacfwd) for inner in (func.jacrev, func.jacfwd)
    ]  # fmt: skip
    for hessian in found:
        assert close(hessian[1][0].flatten(1), hessian[0][1].flatten(0, 1).mT)
        for i, j in itertools.product(both, both):
            assert close(hessian[i][j], found[-1][i][j])


def test_tangents_are_written_into_what_has_none() -> None:
    """Tangents belong to storages: writes go to a whole tensor, to a view of it, to a tensor with
    an earlier view, and in nested levels."""

    def filled(x: Any) -> Any:
        out = x.new_zeros(2, 3)
        row = out[1]
        out[0] = x * x
        row.add_(x.sin())
        return out.T.reshape(-1) * 2

    def total(x: Any) -> Any:
        out = gt.zeros((), dtype=x.dtype)
        for n in range(3):
            out += x[n] ** 3
        return out

    def overwritten(x: Any) -> Any:
        out = gt.zeros(3, dtype=x.dtype)
        out.copy_(x)
        out[0] = 5.0
        out[1:].zero_()
        return out + x

    wanted = gt.stack([gt.diag(2 * v), gt.diag(v.cos())]).permute(1, 0, 2).reshape(6, 3) * 2
    assert close(func.jacfwd(filled)(v), wanted)
    assert close(func.jacrev(filled)(v), wanted)
    assert close(func.jacfwd(func.jacfwd(total))(v), gt.diag(6 * v))
    assert close(func.jacfwd(overwritten)(v), gt.eye(3))
    batches = gt.vmap(lambda a: func.jvp(filled, (a,), (a,))[1])(gt.stack([v, 2 * v]))
    for n, a in enumerate((v, 2 * v)):
        assert close(batches[n], func.jvp(filled, (a,), (a,))[1])
    with forward_ad.dual_level():
        out = gt.zeros(3, dtype=gt.float64)
        out.copy_(forward_ad.make_dual(v, v))
        assert close(forward_ad.unpack_dual(out.exp()).tangent, v * v.exp())
        assert close(forward_ad.unpack_dual(out).tangent, v)
    assert forward_ad.unpack_dual(out).tangent is None and close(out, v)


def test_a_function_writes_into_tensors_that_it_made() -> None:
    """Some values have a batch only so that gradients are separate. They can be written to a tensor
    without a batch."""
    kept = gt.zeros(3, dtype=v.dtype)

    def into_views(x: Any) -> Any:
        out = gt.zeros(2, 3, dtype=x.dtype)
        row = out[1]
        row.copy_(x**2)
        out[0, 1:] = x[1:] * x[0]
        return (out.sin() * x).sum()

    def in_place(x: Any) -> Any:
        out = gt.zeros(3, dtype=x.dtype)
        out.add_(x**2)
        out.mul_(x)
        out[0] *= x[1]
        return out.sum()

    def outside(x: Any) -> Any:
        kept.copy_(x.exp())
        return (kept * x).sum()

    for function in (into_views, in_place, outside):
        wanted = func.jacrev(func.jacrev(function))(v)
        assert close(func.hessian(function)(v), wanted)
        assert close(func.jacfwd(func.jacfwd(function))(v), wanted)
        assert close(func.jvp(func.grad(function), (v,), (gt.ones_like(v),))[1], wanted.sum(1))
    assert close(kept, v.exp())


def test_a_tangent_of_a_new_tensor_is_its_own() -> None:
    """A write to a copy does not change the tangent of the original."""
    copies: list[Any] = [
        lambda x: x.clone(), lambda x: x + 0, lambda x: gt.stack([x, x])[0],
        lambda x: x.reshape(1, 3).clone().flatten(), lambda x: gt.zeros_like(x).copy_(x),
        lambda x: gt.cat([x]), lambda x: x.neg().neg(), lambda x: x.double().clone(),
    ]  # fmt: skip
    for number, copied in enumerate(copies):
        tangent = gt.ones_like(v)

        def function(x: Any, copied: Any = copied) -> Any:
            other = copied(x)
            other.mul_(5)
            return x * 1, other

        (value, _), (of_x, of_copy) = func.jvp(function, (v,), (tangent,))
        assert value.equal(v) and of_x.tolist() == [1, 1, 1], number
        assert of_copy.tolist() == [5, 5, 5] and tangent.tolist() == [1, 1, 1], number


def test_what_is_written_to_behind_its_use_is_kept() -> None:
    def function(x: Any) -> Any:
        out = x.clone()
        out.mul_(x)
        out.mul_(x)
        return out.sum()

    batch = gt.stack([v, 2 * v])
    assert close(gt.vmap(func.grad(function))(batch), 3 * batch**2)
    assert close(func.jvp(func.grad(function), (v,), (v,))[1], 6 * v * v)


@pytest.mark.parametrize("transform", [func.jacrev, func.jacfwd, func.hessian])
def test_jacobians_of_a_number_by_a_number(transform: Any) -> None:
    made = transform(lambda x: x**3)(gt.tensor(2.0))
    assert made.shape == () and made.item() == 12


def test_functional_keeps_histories_in_no_grad() -> None:
    with gt.no_grad():
        made = functional.hessian(cube, v, create_graph=True)
        assert made.requires_grad and not functional.hessian(cube, v).requires_grad


def test_sinc_near_zero() -> None:
    tiny = gt.finfo(gt.float64).tiny
    x = gt.tensor([0.0, tiny, -tiny, 1.0], dtype=gt.float64, requires_grad=True)
    assert gt.autograd.grad(gt.sinc(x).sum(), x)[0].tolist() == [0, 0, 0, -1]


def test_results_within_no_grad_are_constants_of_outer_transforms() -> None:
    def shifted(x: Any) -> Any:
        with gt.no_grad():
            shift = func.grad(cube)(x)
            value = func.grad_and_value(cube)(x)[1]
            pulled, pull = func.vjp(cube, x)
            rows = (
                func.jacrev(cube)(x) + func.hessian(cube)(x).sum(0) + pull(gt.ones_like(value))[0]
            )
        return (x * (shift + rows)).sum() + value + pulled

    assert close(func.grad(shifted)(v), 9 * v * v + 6 * v)
    x = v.clone().requires_grad_()
    with gt.no_grad():
        inside = func.grad(cube)(x)
        y, pull = func.vjp(cube, x)
    assert not inside.requires_grad and not y.requires_grad and close(inside, 3 * v * v)
    (outside,) = pull(gt.ones_like(y))
    assert outside.requires_grad and close(outside, 3 * v * v)


@pytest.mark.parametrize("transform", [
    func.hessian, lambda f: func.jacfwd(func.grad(f)), lambda f: func.jacfwd(func.jacfwd(f)),
    lambda f: func.jacrev(func.grad(f)), lambda f: func.jacrev(func.jacfwd(f)),
])  # fmt: skip
def test_second_derivatives_in_no_grad(transform: Any) -> None:
    x = v.clone().requires_grad_()
    with gt.no_grad():
        made = transform(cube)(x)
    assert not made.requires_grad and close(made, (6 * v).diag())


def test_no_grad_in_a_function_stops_reverse_derivatives_only() -> None:
    def function(x: Any) -> Any:
        with gt.no_grad():
            constant = x**2
        return (x**2 * constant).sum()

    assert close(func.grad(function)(v), 2 * v**3)
    # Tangents pass through no_grad, as in PyTorch.
    assert close(func.hessian(function)(v), (6 * v * v).diag())
    assert close(func.jvp(function, (v,), (v,))[1], (4 * v**4).sum())


def test_rows_of_a_jacobian_are_computed_one_by_one() -> None:
    class Counted(gt.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            assert grad.nonzero().numel() == 1  # not possible within vmap
            return grad * 2

    made = func.jacrev(Counted.apply, chunk_size=1)(v)
    assert close(made, 2 * gt.eye(3))
    a, b = func.jacrev(lambda x, y: (x * y, y.sum()), argnums=(0, 1), chunk_size=1)(v, 2 * v)
    assert close(a[0], (2 * v).diag()) and close(b[1], gt.ones(3)) and close(b[0], gt.zeros(3))


@pytest.mark.filterwarnings("ignore:vmap")
def test_gradients_of_margin_losses_are_mapped() -> None:
    """These losses read the operands' arrays in compiled loops. In vmap there are no arrays."""
    multilabel_margin_loss = gt.nn.functional.multilabel_margin_loss
    x, targets = gt.rand(3, 2, 4), gt.tensor([[1, 2, -1, 0], [0, -1, 3, 3]])
    loss = gt.func.grad(lambda a: multilabel_margin_loss(a, targets))
    assert gt.allclose(gt.vmap(loss)(x), gt.stack([loss(a) for a in x]))
    each = gt.stack([targets, targets.flip(0), targets])
    found = gt.vmap(multilabel_margin_loss)(x, each)
    assert gt.allclose(found, gt.stack([multilabel_margin_loss(a, t) for a, t in zip(x, each)]))


def test_convolutions_of_no_samples_are_mapped() -> None:
    empty, filters = gt.ones(0, 2, 4, 4), gt.ones(3, 5, 2, 3, 3)
    found = gt.vmap(lambda w: gt.nn.functional.conv2d(empty, w))(filters)
    assert found.shape == (3, 0, 5, 2, 2)
