"""gt.nn.utils against torch.nn.utils: parametrizations, packed sequences, folded norms."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]


def near(ours: Any, theirs: Any, tolerance: float = 1e-5) -> None:
    found = ours.detach().numpy()
    np.testing.assert_allclose(found, theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def data(*sizes: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(sizes).astype(np.float32)


def same_state(ours: Any, theirs: Any) -> None:
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({name: gt.from_numpy(x.numpy()) for name, x in state.items()})


NORMS: list[tuple[str, str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("parametrizations.weight_norm", "Linear", (4, 3), {}, (5, 4)),
    ("parametrizations.weight_norm", "Linear", (4, 3), {"dim": None}, (5, 4)),
    ("parametrizations.weight_norm", "Conv2d", (3, 4, 2), {"dim": 1}, (2, 3, 4, 4)),
    ("parametrizations.spectral_norm", "Linear", (4, 3), {}, (5, 4)),
    ("parametrizations.spectral_norm", "ConvTranspose1d", (4, 3, 2), {}, (2, 4, 3)),
    ("parametrizations.orthogonal", "Linear", (4, 4), {}, (5, 4)),
    ("parametrizations.orthogonal", "Linear", (4, 4), {"orthogonal_map": "cayley"}, (5, 4)),
    ("parametrizations.orthogonal", "Linear", (4, 3), {}, (5, 4)),
    ("parametrizations.orthogonal", "Linear", (3, 4), {"use_trivialization": False}, (5, 3)),
    ("weight_norm", "Linear", (4, 3), {}, (5, 4)),
    ("weight_norm", "Conv1d", (4, 3, 2), {"dim": None}, (5, 4, 3)),
    ("spectral_norm", "Linear", (4, 3), {"n_power_iterations": 2}, (5, 4)),
]


@pytest.mark.parametrize("path, layer, args, kwargs, sizes", NORMS)
def test_norms(path: str, layer: str, args: Any, kwargs: Any, sizes: Any) -> None:
    made = []
    for library in (gt, torch):
        wrap: Any = library.nn.utils
        for name in path.split("."):
            wrap = getattr(wrap, name)
        made.append(wrap(getattr(library.nn, layer)(*args), **kwargs))
    ours, theirs = made
    same_state(ours, theirs)
    if "orthogonal" in path:  # away from the matrix that maps to the base
        with torch.no_grad():
            for p in theirs.parameters():
                p.add_(torch.linspace(-0.4, 0.3, p.numel()).view(p.shape))
        same_state(ours, theirs)
    results = []
    for library, module in ((gt, ours), (torch, theirs)):
        x = library.from_numpy(data(*sizes)).requires_grad_()
        y = module(x)
        (first,) = library.autograd.grad((y * y).sum(), x, create_graph=True)
        (first * first).sum().backward()
        results.append((y, first, x.grad, *[p.grad for p in module.parameters()]))
    for one, other in zip(*results):
        assert (one is None) == (other is None)
        if one is not None:
            near(one, other, 1e-3)
    same_state(ours, theirs)


@pytest.mark.parametrize("kind, extra", [("RNN", {}), ("LSTM", {"proj_size": 3}), ("GRU", {})])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_packed_layers(kind: str, extra: Any, bidirectional: bool, given: bool) -> None:
    args = dict(num_layers=2, bidirectional=bidirectional, batch_first=True, **extra)
    ours, theirs = (getattr(library.nn, kind)(4, 5, **args) for library in (gt, torch))
    same_state(ours, theirs)
    results = []
    for library, module in ((gt, ours), (torch, theirs)):
        rnn, x = library.nn.utils.rnn, library.from_numpy(data(3, 6, 4)).requires_grad_()
        packed = rnn.pack_padded_sequence(x, [2, 6, 3], batch_first=True, enforce_sorted=False)
        count = 2 * (1 + bidirectional)
        sizes = [3, 5] if kind == "LSTM" else [5]
        hx: Any = [library.from_numpy(data(count, 3, n, seed=n)) for n in sizes]
        hx = (tuple(hx) if kind == "LSTM" else hx[0]) if given else None
        out, last = module(packed, hx)
        padded, lengths = rnn.pad_packed_sequence(out, True, 0.5, 7)
        states = last if kind == "LSTM" else (last,)
        sum((s * s).sum() for s in (padded, *states)).backward()
        grads = [p.grad for p in module.parameters()]
        results.append((padded, lengths, *out, *states, x.grad, *grads))
    for one, other in zip(*results):
        near(one, other)


def test_sequences() -> None:
    found = []
    for library in (gt, torch):
        rnn = library.nn.utils.rnn
        listed = [library.from_numpy(data(n, 2)) for n in (2, 4, 1)]
        packed = rnn.pack_sequence(listed, enforce_sorted=False)
        padded = rnn.pad_sequence(listed, True, 2.0, padding_side="left")
        back = rnn.unpad_sequence(rnn.pad_sequence(listed), library.tensor([2, 4, 1]))
        inverse = rnn.invert_permutation(library.tensor([2, 0, 1]))
        found.append([*packed, padded, *back, *rnn.unpack_sequence(packed), inverse])
    for one, other in zip(*found):
        near(one, other)


@pytest.mark.parametrize("layer, norm, args, sizes", [
    ("Conv2d", "BatchNorm2d", (3, 4, 2), (2, 3, 4, 4)),
    ("ConvTranspose2d", "BatchNorm2d", (3, 4, 2), (2, 3, 4, 4)),
    ("Linear", "BatchNorm1d", (3, 4), (5, 3)),
])  # fmt: skip
def test_fused_norms(layer: str, norm: str, args: Any, sizes: Any) -> None:
    one, two = getattr(gt.nn, layer)(*args), getattr(gt.nn, norm)(4)
    their_one, their_two = getattr(torch.nn, layer)(*args), getattr(torch.nn, norm)(4)
    their_two(their_one(torch.from_numpy(data(*sizes))))
    same_state(one, their_one)
    same_state(two, their_two)
    rest = (True,) if "Transpose" in layer else ()
    name = "fuse_linear_bn_eval" if layer == "Linear" else "fuse_conv_bn_eval"
    ours = getattr(gt.nn.utils, name)(one.eval(), two.eval(), *rest)
    theirs = getattr(torch.nn.utils, name)(their_one.eval(), their_two.eval(), *rest)
    near(ours.weight, theirs.weight)
    near(ours.bias, theirs.bias)
    x = data(*sizes)
    near(ours(gt.from_numpy(x)), theirs(torch.from_numpy(x)))


def test_remove() -> None:
    for library in (gt, torch):
        utils, layer = library.nn.utils, library.nn.Linear(4, 3)
        before = layer.weight.detach().clone()
        utils.parametrizations.weight_norm(layer)
        assert utils.parametrize.is_parametrized(layer, "weight")
        assert utils.parametrize.type_before_parametrizations(layer) is library.nn.Linear
        with utils.parametrize.cached():
            assert layer.weight is layer.weight
        utils.parametrize.remove_parametrizations(layer, "weight")
        utils.remove_weight_norm(utils.weight_norm(layer))
        utils.remove_spectral_norm(utils.spectral_norm(layer))
        assert type(layer) is library.nn.Linear and sorted(layer.state_dict()) == ["bias", "weight"]
        assert layer.weight.shape == before.shape and isinstance(layer.weight, library.nn.Parameter)


def test_functional_call() -> None:
    for library in (gt, torch):
        layer = library.nn.Linear(2, 2)
        weight = library.ones(2, 2).requires_grad_()
        call = library.nn.utils.stateless.functional_call
        y = call(layer, {"weight": weight, "bias": library.zeros(2)}, (library.ones(1, 2),))
        y.sum().backward()
        assert y.tolist() == [[2, 2]] and weight.grad.tolist() == [[1, 1], [1, 1]]
        assert layer.weight.grad is None and isinstance(layer.weight, library.nn.Parameter)


@pytest.mark.parametrize("sizes, groups", [((3, 4, 3), 1), ((6, 2, 3, 4), 3), ((4, 2, 2, 3, 3), 2)])
def test_dirac(sizes: Any, groups: int) -> None:
    ours, theirs = (m.nn.init.dirac_(m.empty(sizes), groups) for m in (gt, torch))
    near(ours, theirs)
    fans = [m.nn.init._calculate_fan_in_and_fan_out(m.empty(sizes)) for m in (gt, torch)]
    assert fans[0] == fans[1]


def test_sparse() -> None:
    made = gt.nn.init.sparse_(gt.empty(10, 4), 0.25)
    assert (made == 0).sum(0).tolist() == [3] * 4


def prune_of(library: Any) -> Any:
    return import_module(f"{library.__name__}.nn.utils.prune")


def pruned(library: Any, steps: list[tuple[str, dict[str, Any]]], pruned_name: str) -> Any:
    module = library.nn.Conv2d(3, 4, 2)
    with library.no_grad():
        for p in module.parameters():
            p.copy_(library.from_numpy(data(*p.shape, seed=p.ndim)))
    for step, options in steps:
        made = {
            name: library.from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in options.items()
        }
        assert getattr(prune_of(library), step)(module, pruned_name, **made) is module
    return module


PRUNINGS: list[list[tuple[str, dict[str, Any]]]] = [
    [("identity", {})], [("l1_unstructured", {"amount": 0.3})],
    [("l1_unstructured", {"amount": 7})],
    [("l1_unstructured", {"amount": 0.5, "importance_scores": data(4, 3, 2, 2, seed=5)})],
    [("ln_structured", {"amount": 0.5, "n": 2, "dim": 0})],
    [("ln_structured", {"amount": 1, "n": 1, "dim": -3})],
    [("ln_structured", {"amount": 1, "n": float("inf"), "dim": 1})],
    [("ln_structured", {"amount": 0, "n": 2, "dim": 1})],
    [("custom_from_mask", {"mask": (data(4, 3, 2, 2, seed=6) > 0).astype("f4")})],
    [("l1_unstructured", {"amount": 0.3}), ("l1_unstructured", {"amount": 0.25})],
    [("ln_structured", {"amount": 1, "n": 2, "dim": 0}),
     ("ln_structured", {"amount": 1, "n": 2, "dim": 0}), ("l1_unstructured", {"amount": 5})],
    [("l1_unstructured", {"amount": 20}), ("ln_structured", {"amount": 0.5, "n": 2, "dim": 1}),
     ("custom_from_mask", {"mask": (data(4, 3, 2, 2, seed=7) > 0).astype("f4")})],
]  # fmt: skip


@pytest.mark.parametrize("steps", PRUNINGS)
def test_pruning(steps: list[tuple[str, dict[str, Any]]]) -> None:
    ours, theirs = (pruned(library, steps, "weight") for library in (gt, torch))
    near(ours.weight_mask, theirs.weight_mask, 0)
    near(ours.weight, theirs.weight, 0)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = data(2, 3, 4, 4, seed=9)
    for library, module in ((gt, ours), (torch, theirs)):
        module(library.from_numpy(x)).square().sum().backward()
    near(ours.weight_orig.grad, theirs.weight_orig.grad, 1e-4)
    for library, module in ((gt, ours), (torch, theirs)):
        assert prune_of(library).is_pruned(module)
        prune_of(library).remove(module, "weight")
        assert not prune_of(library).is_pruned(module)
    near(ours.weight, theirs.weight, 0)
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_pruning_over_several_parameters() -> None:
    found = []
    for library in (gt, torch):
        prune = prune_of(library)
        net = library.nn.Sequential(library.nn.Linear(4, 3), library.nn.Linear(3, 2))
        with library.no_grad():
            for n, p in enumerate(net.parameters()):
                p.copy_(library.from_numpy(data(*p.shape, seed=n)))
        pairs = [(net[0], "weight"), (net[1], "weight"), (net[0], "bias")]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.4)
        scores = {(net[0], "bias"): library.from_numpy(data(3, seed=8))}
        prune.global_unstructured(pairs[::2], prune.L1Unstructured, scores, amount=3)
        found.append(net)
    for name, x in found[1].state_dict().items():
        near(found[0].state_dict()[name], x, 0)
    assert list(found[0].state_dict()) == list(found[1].state_dict())
