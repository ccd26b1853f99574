"""gt.nn's modules against torch.nn's: names and shapes of states, results and gradients with equal
weights, repr."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")]

# name, arguments, keywords, sizes of the inputs
MODULES: list[tuple[str, tuple[Any, ...], dict[str, Any], list[tuple[int, ...]]]] = [
    ("Linear", (4, 3), {}, [(5, 4)]),
    ("Linear", (4, 3), {"bias": False}, [(2, 5, 4)]),
    ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]),
    ("Conv1d", (4, 6, 3), {"padding": 1, "groups": 2}, [(2, 4, 9)]),
    ("Conv2d", (3, 4, 3), {"stride": 2, "padding": 1}, [(2, 3, 8, 8)]),
    ("Conv2d", (3, 4, 3), {"padding": "same", "dilation": 2, "bias": False}, [(2, 3, 8, 8)]),
    ("Conv2d", (3, 4, 3), {"padding": 1, "padding_mode": "reflect"}, [(2, 3, 8, 8)]),
    ("Conv2d", (3, 4, 3), {"padding": 1, "padding_mode": "circular"}, [(3, 8, 8)]),
    ("Conv3d", (2, 3, 2), {}, [(1, 2, 4, 5, 6)]),
    ("ConvTranspose1d", (4, 3, 3), {"stride": 2}, [(2, 4, 5)]),
    (
        "ConvTranspose2d",
        (4, 3, 3),
        {"stride": 2, "padding": 1, "output_padding": 1},
        [(2, 4, 5, 5)],
    ),
    ("BatchNorm1d", (4,), {}, [(6, 4)]),
    ("BatchNorm1d", (4,), {"bias": False}, [(6, 4, 2)]),
    ("GroupNorm", (2, 4), {"bias": False}, [(2, 4, 3)]),
    ("BatchNorm2d", (3,), {"momentum": None}, [(2, 3, 4, 4)]),
    ("BatchNorm3d", (2,), {"affine": False}, [(2, 2, 3, 3, 3)]),
    ("BatchNorm2d", (3,), {"track_running_stats": False}, [(2, 3, 4, 4)]),
    ("InstanceNorm2d", (3,), {"affine": True}, [(2, 3, 4, 4)]),
    ("InstanceNorm1d", (3,), {"track_running_stats": True}, [(2, 3, 5)]),
    ("GroupNorm", (2, 4), {}, [(2, 4, 3, 3)]),
    ("LayerNorm", ((3, 4),), {}, [(2, 3, 4)]),
    ("LayerNorm", (4,), {"bias": False}, [(2, 3, 4)]),
    ("RMSNorm", (4,), {}, [(2, 3, 4)]),
    ("PReLU", (3,), {}, [(2, 3, 4)]),
    *(
        (name, (), {}, [(2, 3, 4)])
        for name in "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Sigmoid Tanh Hardtanh "
        "Hardsigmoid Hardswish Hardshrink Softshrink Tanhshrink Softplus Softsign LogSigmoid "
        "Identity Flatten Dropout".split()
    ),
    ("GELU", (), {"approximate": "tanh"}, [(2, 3)]),
    ("Threshold", (0.1, 20), {}, [(2, 3)]),
    ("GLU", (), {"dim": 1}, [(2, 4, 3)]),
    *((name, (), {"dim": 1}, [(2, 3, 4)]) for name in ("Softmax", "Softmin", "LogSoftmax")),
    ("Unflatten", (1, (2, 2)), {}, [(3, 4)]),
    ("MaxPool1d", (2,), {}, [(2, 3, 8)]),
    ("MaxPool2d", (3, 2, 1), {}, [(2, 3, 8, 8)]),
    ("MaxPool3d", (2,), {}, [(1, 2, 4, 4, 4)]),
    ("AvgPool1d", (2,), {}, [(2, 3, 8)]),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False}, [(2, 3, 8, 8)]),
    ("AvgPool3d", (2,), {}, [(1, 2, 4, 4, 4)]),
    ("AdaptiveAvgPool2d", ((2, 3),), {}, [(2, 3, 7, 8)]),
    ("AdaptiveMaxPool2d", (2,), {}, [(2, 3, 7, 8)]),
    ("PixelShuffle", (2,), {}, [(1, 8, 3, 3)]),
    ("PixelUnshuffle", (2,), {}, [(1, 2, 4, 6)]),
    ("Upsample", (), {"scale_factor": 2}, [(1, 2, 3, 3)]),
    ("Upsample", (), {"size": (5, 7), "mode": "bilinear"}, [(1, 2, 3, 3)]),
    ("CosineSimilarity", (), {}, [(3, 4), (3, 4)]),
    ("PairwiseDistance", (), {"p": 1.0, "keepdim": True}, [(3, 4), (3, 4)]),
    ("LocalResponseNorm", (3,), {"k": 2.0}, [(2, 5, 3)]),
    ("Softmax2d", (), {}, [(2, 3, 4, 2)]),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {}, [(3, 2, 8)]),
    (
        "TransformerEncoderLayer",
        (8, 2, 16, 0.0, "gelu"),
        {"batch_first": True, "norm_first": True, "bias": False},
        [(3, 2, 8)],
    ),
    ("TransformerDecoderLayer", (8, 2, 16, 0.0), {"batch_first": True}, [(3, 2, 8), (3, 4, 8)]),
    ("Transformer", (8, 2, 1, 2, 16, 0.0), {}, [(3, 2, 8), (4, 2, 8)]),
    ("MSELoss", (), {}, [(3, 4), (3, 4)]),
    ("L1Loss", (), {"reduction": "sum"}, [(3, 4), (3, 4)]),
    ("HuberLoss", (), {}, [(3, 4), (3, 4)]),
    ("SmoothL1Loss", (), {"beta": 0.5}, [(3, 4), (3, 4)]),
    ("BCEWithLogitsLoss", (), {}, [(3, 4), (3, 4)]),
    ("KLDivLoss", (), {"reduction": "batchmean"}, [(3, 4), (3, 4)]),
    ("PoissonNLLLoss", (), {}, [(3, 4), (3, 4)]),
    ("MarginRankingLoss", (), {"margin": 0.1}, [(4,), (4,), (4,)]),
    ("TripletMarginLoss", (), {}, [(3, 4), (3, 4), (3, 4)]),
]
ids = [f"{name}{args}{kwargs}" for name, args, kwargs, _ in MODULES]


def arrays(sizes: list[tuple[int, ...]]) -> list[np.ndarray]:
    random = np.random.default_rng(len(sizes))
    return [random.uniform(-1, 1, s).astype(np.float32) for s in sizes]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("name", "args", "kwargs", "sizes"), MODULES, ids=ids)
def test_as_pytorchs(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], sizes: Any, training: bool
) -> None:
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*args, **kwargs).train(training)
    ours = getattr(gt.nn, name)(*args, **kwargs).train(training)
    if name == "Dropout" and training:
        return  # random numbers differ
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    given = arrays(sizes)
    if not given or name == "BCEWithLogitsLoss":
        given[1] = np.abs(given[1])
    x = [torch.from_numpy(a.copy()).requires_grad_(n == 0) for n, a in enumerate(given)]
    y = [gt.from_numpy(a.copy()).requires_grad_(n == 0) for n, a in enumerate(given)]
    wanted, found = theirs(*x), ours(*y)
    weights = np.random.default_rng(1).uniform(0, 1, tuple(wanted.shape)).astype(np.float32)
    (wanted * torch.from_numpy(weights)).sum().backward()
    (found * gt.from_numpy(weights)).sum().backward()
    near(found, wanted)
    near(y[0].grad, x[0].grad)
    for (key, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert key == other
        near(p.grad, q.grad)
    for (key, p), (other, q) in zip(ours.named_buffers(), theirs.named_buffers()):
        assert key == other
        near(p, q)


def near(found: Any, wanted: Any) -> None:
    wanted = wanted.detach().numpy()
    assert tuple(found.shape) == wanted.shape
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("name", "args", "kwargs", "sizes"), MODULES, ids=ids)
def test_how_they_begin(name: str, args: Any, kwargs: dict[str, Any], sizes: Any) -> None:
    """Initial weights are within PyTorch's bounds: formulas are equal, random numbers differ."""
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(gt.nn, name)(*args, **kwargs)
    for p, q in zip(ours.parameters(), theirs.parameters()):
        drawn, bound = np.abs(p.detach().numpy()), float(q.detach().abs().max())
        assert p.dtype is gt.float32 and drawn.max() <= bound * 2 + 1e-6
        assert drawn.max() > 0 or bound == 0


def signature(of: Any) -> list[tuple[str, str]]:
    found = inspect.signature(of).parameters.values()
    without = ("self", "_stacklevel", "min_value", "max_value")  # PyTorch deprecates the last two
    return [(p.name, shown(p.default)) for p in found if p.name not in without]


def shown(default: Any) -> str:
    return (
        "a function"
        if callable(default) and default is not inspect.Parameter.empty
        else (str(default))
    )


def both(ours: Any, theirs: Any, kind: Any) -> list[str]:
    return [
        n for n in dir(ours) if n[0] != "_" and all(kind(getattr(m, n, 0)) for m in (ours, theirs))
    ]


def test_modules_take_what_pytorchs_take() -> None:
    names = both(gt.nn, torch.nn, inspect.isclass)
    assert len(names) > 90
    # Base classes without `mode` or `num_chunks` in gputensor, and classes with their own __new__.
    apart = {"RNNBase", "RNNCellBase", "UninitializedBuffer", "UninitializedParameter"}
    for name in sorted({*names} - apart):
        ours, theirs = getattr(gt.nn, name), getattr(torch.nn, name)
        wanted = signature(theirs)
        if wanted == signature(ours) or wanted[:1] == [("args", str(inspect.Parameter.empty))]:
            continue
        options = getattr(ours, "options", None)
        assert options is not None, name
        assert [word for word, _ in wanted] == list(options), name
        for word, default in wanted:
            assert default in (shown(options[word]), str(inspect.Parameter.empty)), (name, word)


def test_functions_take_what_pytorchs_take() -> None:
    names = both(gt.nn.functional, torch.nn.functional, inspect.isfunction)
    assert len(names) > 50
    for name in names:
        theirs = getattr(torch.nn.functional, name)
        wanted = signature(theirs)
        if wanted[0][0] != "args" and not name.endswith("_with_indices"):
            assert signature(getattr(gt.nn.functional, name)) == wanted, name


MASKS = [None, "bool", "float", "of each head"]


@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 5, "vdim": 3},
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
@pytest.mark.parametrize("batches", ["first", "second", "none"])
def test_multihead_attention(options: dict[str, Any], batches: str) -> None:
    """With masks of both kinds, and with and without weights, which are averaged or not."""
    torch.manual_seed(0)
    options = options | {"batch_first": batches == "first"}
    theirs = torch.nn.MultiheadAttention(8, 2, **options)
    ours = gt.nn.MultiheadAttention(8, 2, **options)
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    count = 1 if batches == "none" else 2

    def rows(length: int, width: int) -> Any:
        sizes = {"first": (count, length, width), "second": (length, count, width)}
        return torch.randn(sizes.get(batches, (length, width)))

    for mask, padding in itertools.product(MASKS, MASKS[:3]):
        given = [rows(3, 8), rows(4, options.get("kdim", 8)), rows(4, options.get("vdim", 8))]
        hides = {None: None, "bool": torch.rand(3, 4) > 0.6, "float": torch.randn(3, 4),
                 "of each head": torch.randn(2 * count, 3, 4)}[mask]  # fmt: skip
        pads = {None: None, "bool": torch.rand(count, 4) > 0.6, "float": torch.randn(count, 4)}
        padded = pads[padding]
        for x in (hides, padded):
            if x is not None and x.dtype is torch.bool:
                x[:, 0] = False  # a query without keys gives NaN
        if padded is not None and batches == "none":
            padded = padded[0]
        for weights, averaged in ((True, True), (True, False), (False, True)):
            rest = (padded, weights, hides, averaged)
            wanted = theirs(*given, *rest)
            found = ours(*[gt.from_numpy(x.numpy()) for x in given], *[
                gt.from_numpy(x.numpy()) if isinstance(x, torch.Tensor) else x for x in rest
            ])  # fmt: skip
            near(found[0], wanted[0])
            assert (found[1] is None) == (wanted[1] is None)
            if weights:
                near(found[1], wanted[1])


LAYERS = [
    ("RNN", {"nonlinearity": "relu"}),
    ("RNN", {"bias": False, "batch_first": True}),
    ("LSTM", {"num_layers": 2, "bidirectional": True}),
    ("LSTM", {"proj_size": 2, "num_layers": 2, "batch_first": True}),
    ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    ("RNNCell", {"nonlinearity": "relu"}),
    ("LSTMCell", {"bias": False}),
    ("GRUCell", {}),
]


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(("name", "options"), LAYERS, ids=str)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("begun", [False, True])
def test_recurrent(name: str, options: dict[str, Any], alone: bool, begun: bool) -> None:
    """Compares results, last states and gradients, also with given initial states."""
    torch.manual_seed(0)
    theirs, ours = (getattr(m, name)(3, 4, **options) for m in (torch.nn, gt.nn))
    assert repr(ours) == repr(theirs)
    state = {key: value.numpy().copy() for key, value in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    given = torch.randn(5, 3) if alone else torch.randn(2, 5, 3)
    if "Cell" in name:
        given = given[0]
    hx: Any = None
    if begun:
        found = theirs(given)
        last = found if "Cell" in name else found[1]
        hx = [torch.randn(x.shape) for x in (last if isinstance(last, tuple) else [last])]
    x, y = given.clone().requires_grad_(), gt.from_numpy(given.numpy()).requires_grad_()
    also = [] if hx is None else [tuple(hx) if "LSTM" in name else hx[0]]
    of_ours = [] if hx is None else [[gt.from_numpy(h.numpy()) for h in hx]]
    wanted = flat(theirs(x, *also))
    found = flat(ours(y, *[tuple(h) if "LSTM" in name else h[0] for h in of_ours]))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        near(a, b)
    sum((a * a).sum() for a in wanted).backward()
    sum((a * a).sum() for a in found).backward()
    near(y.grad, x.grad)
    for (key, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert key == other
        near(p.grad, q.grad)


def flat(results: Any) -> list[Any]:
    if not isinstance(results, tuple):
        return [results]
    return [x for result in results for x in flat(result)]


def test_an_embedding_bag() -> None:
    theirs, ours = (m.EmbeddingBag(10, 3, mode="sum", padding_idx=2) for m in (torch.nn, gt.nn))
    ours.load_state_dict({"weight": theirs.weight.detach().numpy()})
    numbers, offsets = np.array([1, 2, 9, 2, 2, 1]), np.array([0, 4])
    wanted = theirs(torch.from_numpy(numbers), torch.from_numpy(offsets))
    found = ours(gt.from_numpy(numbers), gt.from_numpy(offsets))
    wanted.sum().backward()
    found.sum().backward()
    near(found, wanted)
    near(ours.weight.grad, theirs.weight.grad)


def test_an_embedding() -> None:
    theirs = torch.nn.Embedding(10, 3, padding_idx=2)
    ours = gt.nn.Embedding(10, 3, padding_idx=2)
    ours.load_state_dict({"weight": theirs.weight.detach().numpy()})
    numbers = np.array([[1, 2, 9], [2, 2, 1]])
    wanted, found = theirs(torch.from_numpy(numbers)), ours(gt.from_numpy(numbers))
    wanted.sum().backward()
    found.sum().backward()
    near(found, wanted)
    near(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss"])
def test_losses_of_classes(name: str) -> None:
    scores, weight = arrays([(4, 3), (3,)])
    weight, classes = np.abs(weight), np.array([0, 2, 1, 2])
    kwargs = {"label_smoothing": 0.1} if name == "CrossEntropyLoss" else {}
    theirs = getattr(torch.nn, name)(torch.from_numpy(weight), **kwargs)
    ours = getattr(gt.nn, name)(gt.from_numpy(weight), **kwargs)
    x, y = torch.from_numpy(scores).requires_grad_(), gt.from_numpy(scores).requires_grad_()
    wanted = theirs(x, torch.from_numpy(classes))
    found = ours(y, gt.from_numpy(classes))
    wanted.backward()
    found.backward()
    near(found, wanted)
    near(y.grad, x.grad)


def test_clipping() -> None:
    given = arrays([(4, 3), (5,)])
    theirs = [torch.zeros(a.shape, requires_grad=True) for a in given]
    ours = [gt.zeros(a.shape, requires_grad=True) for a in given]
    for norm in (1.0, 2.0, float("inf")):
        for p, q, a in zip(theirs, ours, given):
            p.grad, q.grad = torch.from_numpy(a.copy()), gt.from_numpy(a.copy())
        wanted = torch.nn.utils.clip_grad_norm_(theirs, 0.5, norm)
        near(gt.nn.utils.clip_grad_norm_(ours, 0.5, norm), wanted)
        for p, q in zip(theirs, ours):
            near(q.grad, p.grad)
    torch.nn.utils.clip_grad_value_(theirs, 0.01)
    gt.nn.utils.clip_grad_value_(ours, 0.01)
    for p, q in zip(theirs, ours):
        near(q.grad, p.grad)


@pytest.mark.parametrize("of", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("kept", ["float32", "float64"])
@pytest.mark.parametrize("learns", [True, False])
def test_statistics_of_another_dtype(of: str, kept: str, learns: bool) -> None:
    """As in PyTorch, instance_norm accepts running statistics of any floating dtype."""
    found = []
    for lib in (torch, gt):
        x = lib.arange(24.0).reshape(2, 3, 4).to(getattr(lib, of))
        mean = lib.zeros(3, dtype=getattr(lib, kept))
        var = lib.ones(3, dtype=getattr(lib, kept))
        y = lib.nn.functional.instance_norm(x, mean, var, use_input_stats=learns)
        assert str(y.dtype).endswith(of) and str(mean.dtype).endswith(kept)
        found.append([x.to(lib.float64).numpy() for x in (y, mean, var)])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, 1e-2 if of == "bfloat16" else 2e-6)
