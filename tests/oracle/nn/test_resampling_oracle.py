"""Resampling against PyTorch: random sizes, factors, dtypes and layouts of every leaf."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gputensor as gt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

LEAVES = {
    "upsample_nearest1d": 1, "upsample_nearest2d": 2, "upsample_nearest3d": 3,
    "_upsample_nearest_exact1d": 1, "_upsample_nearest_exact2d": 2, "_upsample_nearest_exact3d": 3,
    "upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_trilinear3d": 3,
    "upsample_bicubic2d": 2, "_upsample_bilinear2d_aa": 2, "_upsample_bicubic2d_aa": 2,
    "_upsample_lanczos2d_aa": 2,
}  # fmt: skip
TOLERANCES = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2, "uint8": 0}


def ours(x: Any) -> gt.Tensor:
    made = gt.empty_strided(x.shape, x.stride(), dtype=getattr(gt, str(x.dtype).split(".")[1]))
    made.copy_(gt.from_numpy(x.double().contiguous().numpy()))
    return made


def near(found: gt.Tensor, wanted: Any) -> None:
    assert tuple(found.shape) == tuple(wanted.shape)
    assert tuple(found.stride()) == tuple(wanted.stride())
    bound = TOLERANCES[str(wanted.dtype).split(".")[1]]
    a, b = found.to(gt.float64).numpy(), wanted.double().numpy()
    np.testing.assert_allclose(a, b, rtol=bound, atol=bound)


def inputs(random: np.random.Generator, sizes: Any, dtype: str) -> Any:
    x = torch.from_numpy(np.asarray(random.normal(size=sizes)))
    x = (x * 80 + 128).clamp(0, 255).byte() if dtype == "uint8" else x.to(getattr(torch, dtype))
    if len(sizes) > 3 and random.random() < 0.4:
        formats = {4: torch.channels_last, 5: torch.channels_last_3d}
        x = x.contiguous(memory_format=formats[len(sizes)])
    return x


@pytest.mark.parametrize("name", LEAVES)
def test_leaves(name: str) -> None:
    """Two cases are left out, because PyTorch's result depends on its code path: factors for an
    unchanged size; and results of width 1 with antialias, for which it uses the first row's
    weights."""
    random, count = np.random.default_rng(len(name)), LEAVES[name]
    least = 2 if name.endswith("_aa") else 1
    for dtype in TOLERANCES:
        is_whole = dtype == "uint8"
        if is_whole and count != 2 and "nearest" not in name:
            continue
        if least == 2 and dtype in ("float16", "bfloat16"):
            continue
        for _ in range(12):
            sizes = [int(random.integers(1, 3)), int(random.choice([1, 3, 5]))]
            sizes += random.integers(1, 12, count).tolist()
            out = random.integers(least, 16, count).tolist()
            options: list[Any] = [] if "nearest" in name else [bool(random.integers(2))]
            if random.random() < 0.4:
                scales = random.choice([0.3, 0.5, 1.5, 2.0, 2.7], count).tolist()
                out = [int(n * s) for n, s in zip(sizes[2:], scales)]
                if min(out) < least or any(a == b for a, b in zip(out, sizes[2:])):
                    continue
                options += scales
            x = inputs(random, sizes, dtype)
            wanted = getattr(torch.ops.aten, name)(x, out, *options)
            near(getattr(gt.ops.aten, name)(ours(x), out, *options), wanted)
            if not is_whole:
                grad, back = inputs(random, [*sizes[:2], *out], dtype), f"{name}_backward"
                wanted = getattr(torch.ops.aten, back)(grad, out, sizes, *options)
                near(getattr(gt.ops.aten, back)(ours(grad), out, sizes, *options), wanted)


OPTIONS: list[dict[str, Any]] = [
    {"size": 7}, {"scale_factor": 1.7}, {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"scale_factor": 0.6, "align_corners": True}, {"size": 7, "antialias": True}, {},
    {"size": 3, "antialias": True, "align_corners": True}, {"size": [3, 3, 3, 3]},
    {"size": 3, "scale_factor": 2.0}, {"size": 3, "recompute_scale_factor": True},
]  # fmt: skip
MODES = "nearest nearest-exact area linear bilinear bicubic trilinear lanczos".split()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_interpolate(mode: str, count: int) -> None:
    """Compares accepted arguments, results, and the classes of errors."""
    if (mode, count) == ("lanczos", 2):
        options = [{"size": 7, "antialias": True}, {"scale_factor": 0.5, "antialias": True}]
    else:
        options = OPTIONS
    given = np.random.default_rng(count).normal(size=(2, 3, 5, 5, 5)[: count + 2])
    for option in options:
        x = torch.from_numpy(given.copy()).requires_grad_()
        y = gt.from_numpy(given.copy()).requires_grad_()
        try:
            wanted = torch.nn.functional.interpolate(x, mode=mode, **option)
        except (ValueError, NotImplementedError, RuntimeError):
            with pytest.raises((ValueError, RuntimeError)):
                gt.nn.functional.interpolate(y, mode=mode, **option)
            continue
        found = gt.nn.functional.interpolate(y, mode=mode, **option)
        near(found.detach(), wanted.detach())
        wanted.square().sum().backward()
        found.square().sum().backward()
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_grid_sampler(count: int, mode: int, padding: int) -> None:
    """Compares values, strides and both gradients, at points inside and far outside."""
    if (count, mode) == (3, 2):
        return  # bicubic supports two dimensions only
    random, name = np.random.default_rng(mode + 3 * padding), f"grid_sampler_{count}d"
    for n in range(12):
        sizes = [*random.integers(1, 4, 2), *random.choice([1, 2, 3, 5, 7], count)]
        given = [
            random.normal(size=sizes),
            random.normal(size=(sizes[0], *random.integers(1, 6, count), count)),
        ]
        given[1] *= (0.5, 1, 3)[n % 3]
        x = [torch.from_numpy(a.copy()).requires_grad_() for a in given]
        y = [gt.from_numpy(a.copy()).requires_grad_() for a in given]
        options = (mode, padding, bool(n % 2))
        wanted = getattr(torch, name)(*x, *options)
        found = getattr(gt, name)(*y, *options)
        assert found.stride() == wanted.stride()
        wanted.square().sum().backward()
        found.square().sum().backward()
        for a, b in zip([found, y[0].grad, y[1].grad], [wanted, x[0].grad, x[1].grad]):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-9, 1e-9)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("sizes", [(2, 1, 3, 5), (1, 2, 2, 4), (2, 1, 2, 3, 4)])
def test_affine_grid(sizes: tuple[int, ...], align: bool) -> None:
    count = len(sizes) - 2
    theta = np.random.default_rng(count).normal(size=(sizes[0], count, count + 1))
    wanted = torch.nn.functional.affine_grid(torch.from_numpy(theta), sizes, align)
    found = gt.nn.functional.affine_grid(gt.from_numpy(theta), sizes, align)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-12, 1e-12)
    assert found.stride() == wanted.stride()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("p", [1, 2, 3, 2.5, float("inf"), -float("inf")])
def test_lp_pool(count: int, p: float) -> None:
    for stride, is_positive in ((None, True), (1, True), (None, False)):
        given = np.random.default_rng(count).normal(size=(2, 3, *(6,) * count))
        given = abs(given) if is_positive else given
        given[0] = 0
        x, y = (
            torch.from_numpy(given.copy()).requires_grad_(),
            gt.from_numpy(given).requires_grad_(),
        )
        wanted = getattr(torch.nn.functional, f"lp_pool{count}d")(x, p, 2, stride, True)
        found = getattr(gt.nn.functional, f"lp_pool{count}d")(y, p, 2, stride, True)
        wanted.sum().backward()
        found.sum().backward()
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-12)
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), 1e-12)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_windows_and_places_that_are_given(count: int, dtype: str) -> None:
    """Compares fractional_max_pool and its gradient, and max_unpool with the resulting indices."""
    random, name = np.random.default_rng(count), f"fractional_max_pool{count}d"
    theirs, our = torch.ops.aten, gt.ops.aten
    for _ in range(10):
        sizes = [*random.integers(1, 4, 2).tolist(), *random.integers(3, 9, count).tolist()]
        kernel = random.integers(1, 3, count).tolist()
        out = [int(random.integers(1, n - k + 1)) for n, k in zip(sizes[2:], kernel)]
        x = torch.from_numpy(random.normal(size=sizes)).to(getattr(torch, dtype))
        at = torch.from_numpy(random.uniform(0, 0.99, (*sizes[:2], count))).to(x.dtype)
        wanted = getattr(theirs, name)(x, kernel, out, at)
        found = getattr(our, name)(ours(x), kernel, out, ours(at))
        near(found[0], wanted[0])
        assert np.array_equal(found[1].numpy(), wanted[1].numpy())
        indices = gt.from_numpy(wanted[1].numpy())
        grad = torch.from_numpy(random.normal(size=[*sizes[:2], *out])).to(x.dtype)
        wanted_grad = getattr(theirs, f"{name}_backward")(grad, x, kernel, out, wanted[1])
        given = (ours(grad), ours(x), kernel, out, indices)
        near(getattr(our, f"{name}_backward")(*given), wanted_grad)
        more = ((2,) * 3, (0,) * 3) if count == 3 else ()
        unpooled = getattr(theirs, f"max_unpool{count}d")(wanted[0], wanted[1], sizes[2:], *more)
        made = getattr(our, f"max_unpool{count}d")(found[0], indices, sizes[2:], *more)
        if len(set(wanted[1].flatten().tolist())) == wanted[1].numel():  # no repeated index
            near(made, unpooled)


# name, arguments, keywords, sizes of the input
MODULES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("MaxPool1d", (2,), {"padding": 1}, (2, 3, 7)),
    ("MaxPool2d", ((2, 3),), {"stride": 2, "ceil_mode": True}, (2, 3, 7, 8)),
    ("MaxPool3d", (2,), {"dilation": 2}, (1, 2, 5, 5, 5)),
    ("AvgPool1d", (2,), {}, (2, 3, 7)),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False}, (2, 3, 7, 8)),
    ("AvgPool3d", (2,), {"divisor_override": 3}, (1, 2, 5, 5, 5)),
    ("AdaptiveAvgPool1d", (3,), {}, (2, 3, 7)),
    ("AdaptiveAvgPool2d", ((2, None),), {}, (2, 3, 7, 5)),
    ("AdaptiveAvgPool3d", (2,), {}, (1, 2, 5, 5, 5)),
    ("AdaptiveMaxPool2d", (2,), {}, (2, 3, 7, 5)),
    ("LPPool1d", (2, 3), {}, (2, 3, 7)),
    ("LPPool2d", (2, 3), {"stride": 2}, (2, 3, 7, 7)),
    ("Upsample", (), {"scale_factor": 2}, (1, 2, 3, 3)),
    ("Upsample", ((3, 4),), {"mode": "bilinear", "align_corners": True}, (1, 2, 5, 5)),
    ("UpsamplingNearest2d", (), {"scale_factor": (2, 3)}, (1, 2, 3, 3)),
    ("UpsamplingBilinear2d", (5,), {}, (1, 2, 3, 3)),
    ("PixelShuffle", (2,), {}, (1, 8, 3, 2)),
    ("PixelUnshuffle", (2,), {}, (1, 2, 4, 6)),
    ("ChannelShuffle", (2,), {}, (1, 6, 2, 2)),
    ("Unfold", (2,), {"stride": 2}, (1, 2, 4, 6)),
    ("Fold", ((4, 5), 2), {}, (1, 8, 12)),
    *((f"ConstantPad{n}d", (1, 2.5), {}, (2, 2, *(4, 5, 6)[:n])) for n in (1, 2, 3)),
    *(
        (f"{kind}Pad{n}d", (tuple(range(1, 2 * n + 1)),), {}, (2, 2, *(8, 7, 8)[:n]))
        for kind in ("Zero", "Reflection", "Replication", "Circular")
        for n in (1, 2, 3)
    ),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "sizes"), MODULES, ids=[f"{m[0]}{m[1]}{m[2]}" for m in MODULES]
)
def test_modules(name: str, args: Any, kwargs: Any, sizes: Any) -> None:
    theirs, own = (getattr(of, name)(*args, **kwargs) for of in (torch.nn, gt.nn))
    assert repr(own) == repr(theirs)
    hidden = ("training", "name")
    told = {key: x for key, x in vars(theirs).items() if key[0] != "_" and key not in hidden}
    assert {key: getattr(own, key) for key in told} == told
    given = np.random.default_rng(len(sizes)).uniform(size=sizes)
    x, y = torch.from_numpy(given).requires_grad_(), gt.from_numpy(given).requires_grad_()
    wanted, found = theirs(x), pickle.loads(pickle.dumps(own))(y)
    wanted.square().sum().backward()
    found.square().sum().backward()
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-12)
    np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), 1e-12)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_unpooling_modules(count: int) -> None:
    given = np.random.default_rng(count).uniform(size=(2, 3, *(7,) * count))
    made = []
    for of, x in ((torch, torch.from_numpy(given)), (gt, gt.from_numpy(given))):
        pool = getattr(of.nn, f"MaxPool{count}d")(2, stride=2, return_indices=True)
        unpool = getattr(of.nn, f"MaxUnpool{count}d")(2, stride=2)
        values, indices = pool(x)
        made.append((repr(unpool), unpool(values, indices, x.shape).numpy()))
    assert made[0][0] == made[1][0] and np.array_equal(made[0][1], made[1][1])


@pytest.mark.parametrize("count", [2, 3])
def test_fractional_modules(count: int) -> None:
    given = np.random.default_rng(count).uniform(size=(2, 3, *(7,) * count))
    samples = np.random.default_rng(0).uniform(size=(2, 3, count))
    options = {"output_ratio": 0.5, "return_indices": True}
    found = []
    for of in (torch, gt):
        module = getattr(of.nn, f"FractionalMaxPool{count}d")(
            2, **options, _random_samples=of.from_numpy(samples)
        )
        assert list(module.state_dict()) == ["_random_samples"]
        found.append([repr(module), *[r.numpy() for r in module(of.from_numpy(given))]])
    assert found[0][0] == found[1][0]
    assert all(np.array_equal(a, b) for a, b in zip(found[0][1:], found[1][1:]))
