"""10,000 random layouts: flags, copies in every memory format, casts and arithmetic equal
PyTorch's."""

from __future__ import annotations

import os
import random
import warnings

import pytest

torch = pytest.importorskip("torch")

import gputensor as gt  # noqa: E402

from ...iterator import layouts  # noqa: E402
from . import layouts as L  # noqa: E402

pytestmark = pytest.mark.oracle

CASES = 10_000
CHUNKS = 20
FORMATS = {
    "preserve": (torch.preserve_format, gt.preserve_format),
    "contiguous": (torch.contiguous_format, gt.contiguous_format),
    "channels_last": (torch.channels_last, gt.channels_last),
    "channels_last_3d": (torch.channels_last_3d, gt.channels_last_3d),
}


def _cases(chunk: int):
    for number in range(CASES // CHUNKS):
        seed = chunk * (CASES // CHUNKS) + number
        yield seed, random.Random(seed)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_flags_and_views(chunk):
    for seed, rng in _cases(chunk):
        theirs, ours = L.random_pair(rng)
        what = f"seed {seed}: {L.describe(theirs)}"
        L.assert_same(theirs, ours, what)
        assert theirs.storage_offset() == ours.storage_offset(), what
        assert theirs.is_contiguous() == ours.is_contiguous(), what
        for a, b in list(FORMATS.values())[1:]:
            assert theirs.is_contiguous(memory_format=a) == ours.is_contiguous(memory_format=b), (
                what
            )


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_copies_in_every_format(chunk):
    for seed, rng in _cases(chunk):
        theirs, ours = L.random_pair(rng)
        for name, (a, b) in FORMATS.items():
            if (
                name == "channels_last"
                and theirs.ndim != 4
                or name == "channels_last_3d"
                and theirs.ndim != 5
            ):
                continue
            what = f"seed {seed}: {name} of {L.describe(theirs)}"
            L.assert_same(
                theirs.clone(memory_format=a), ours.clone(memory_format=b), "clone " + what
            )
            L.assert_same(
                torch.empty_like(theirs, memory_format=a), gt.empty_like(ours, memory_format=b),
                "empty_like " + what, exact=False,
            )  # fmt: skip
            x, y = theirs.to(memory_format=a), ours.to(memory_format=b)
            L.assert_same(x, y, "to " + what)
            assert (x is theirs) == (y is ours), "to " + what
            if name != "preserve":
                x, y = theirs.contiguous(memory_format=a), ours.contiguous(memory_format=b)
                L.assert_same(x, y, "contiguous " + what)
                assert (x is theirs) == (y is ours), "contiguous " + what


def _is_in_range(theirs, name) -> bool:
    """False for negative numbers cast to unsigned dtypes, whose result depends on the machine."""
    if not theirs.numel() or not (name.startswith("uint") or name == "bool"):
        return True
    real = torch.view_as_real(theirs) if theirs.is_complex() else theirs
    return str(theirs.dtype).startswith("torch.uint") or bool((real.to(torch.float64) >= 0).all())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_copy_between_dtypes(chunk):
    for seed, rng in _cases(chunk):
        theirs, ours = L.random_pair(rng)
        name = rng.choice(L.DTYPES)
        if not _is_in_range(theirs, name):
            continue
        what = f"seed {seed}: {L.describe(theirs)} to {name}"
        L.assert_same(theirs.to(L.torch_dtype(name)), ours.to(L.gt_dtype(name)), "to " + what)
        order = list(range(theirs.ndim))
        rng.shuffle(order)
        sizes = [theirs.shape[d] for d in order]
        back = [order.index(d) for d in range(theirs.ndim)]
        x = torch.zeros(sizes, dtype=L.torch_dtype(name)).permute(back)
        y = gt.zeros(sizes, dtype=L.gt_dtype(name)).permute(back)
        L.assert_same(x.copy_(theirs), y.copy_(ours), "copy_ " + what)


def _operand(rng, theirs, ours):
    """Return a second operand that almost always broadcasts with the first."""
    kind = rng.random()
    if kind < 0.2:
        number = rng.choice((True, 3, 2.5, -1, 1.5 + 2j))
        return number, number
    name = rng.choice(L.DTYPES)
    if kind < 0.4:
        return L.random_pair(rng, name, 1) if rng.random() < 0.1 else L.pair_of(rng, (), name)
    sizes = [n if rng.random() < 0.7 else 1 for n in theirs.shape][
        rng.randint(0, theirs.ndim) if theirs.ndim else 0 :
    ]
    x, y = L.pair_of(rng, tuple(sizes), name)
    if x.ndim and rng.random() < 0.5:
        order = list(range(x.ndim))
        rng.shuffle(order)
        back = [order.index(d) for d in range(x.ndim)]
        z = L.pair_of(rng, tuple(x.shape[d] for d in order), name)
        return z[0].permute(back), z[1].permute(back)
    return x, y


OPS = {
    "add": (torch.add, gt.add), "sub": (torch.sub, gt.sub), "mul": (torch.mul, gt.mul),
    "eq": (torch.eq, gt.eq),
    "ne": (torch.ne, gt.ne), "lt": (torch.lt, gt.lt), "maximum": (torch.maximum, gt.maximum),
    "div": (torch.div, gt.div),
}  # fmt: skip


def _both(f, g):
    """Return PyTorch's and our result or exception class."""
    results = []
    for call in (f, g):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(call())
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
            results.append(error)
    return results


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_arithmetic_broadcasts_and_promotes(chunk):
    for seed, rng in _cases(chunk):
        theirs, ours = L.random_pair(rng)
        other_theirs, other_ours = _operand(rng, theirs, ours)
        name = rng.choice(list(OPS))
        f, g = OPS[name]
        if name == "maximum" and not isinstance(other_theirs, torch.Tensor):
            continue
        x, y = _both(lambda: f(theirs, other_theirs), lambda: g(ours, other_ours))
        second = (
            L.describe(other_theirs)
            if isinstance(other_theirs, torch.Tensor)
            else repr(other_theirs)
        )
        what = f"seed {seed}: {name} of {L.describe(theirs)} and {second}"
        if isinstance(x, Exception):
            assert isinstance(y, Exception) or _is_gap(name, theirs, other_theirs, x), (
                f"{what}: PyTorch raises {x}"
            )
            continue
        if isinstance(y, Exception):
            raise AssertionError(f"{what}: raises {y}")
        exact = name != "div" or x.dtype not in (torch.complex64, torch.complex128)
        L.assert_same(x, y, what, exact=exact)


def _strided(rng, name, sizes, strides):
    """Return a pair over as_strided memory."""
    x, y = L.pair_of(rng, (layouts.extent(sizes, strides),), name)
    return torch.as_strided(x, sizes, strides), gt.as_strided(y, sizes, strides)


# GPUTENSOR_LAYOUTS=20000 sets the number.
MIXED = int(os.environ.get("GPUTENSOR_LAYOUTS") or 2000)


@pytest.mark.parametrize("chunk", range(4))
def test_mixed_dtypes_sizes_of_one_and_broadcasts(chunk):
    """Compares strides of results, for operands of any strides, dtypes and numbers of
    dimensions."""
    differences = []
    for seed in range(chunk * MIXED // 4, (chunk + 1) * MIXED // 4):
        rng = random.Random(f"mixed {seed}")
        sizes, strides = layouts.random_layout(rng, 5)
        names = [rng.choice(L.DTYPES) for _ in range(3)]
        if rng.random() < 0.2:
            names[1] = names[0]
        first = _strided(rng, names[0], sizes, strides)
        second = _strided(rng, names[1], *layouts.random_broadcastable(rng, sizes))
        pairs = [first, second]
        kind = rng.random()
        if kind < 0.1:
            number = rng.choice((True, 3, 2.5, 1j))
            pairs[1] = (number, number)
        elif kind < 0.5:
            pairs.reverse()
        name = rng.choice([*OPS, "where", "neg", "exp"])
        if name in ("neg", "exp"):
            pairs = [p for p in pairs if isinstance(p[0], torch.Tensor)][:1]
            f, g = getattr(torch, name), getattr(gt, name)
        elif name == "where":
            pairs.insert(0, _strided(rng, "bool", *layouts.random_broadcastable(rng, sizes)))
            f, g = torch.where, gt.where
        else:
            f, g = OPS[name]
        if name == "maximum" and not all(isinstance(p[0], torch.Tensor) for p in pairs):
            continue
        x, y = _both(lambda: f(*[p[0] for p in pairs]), lambda: g(*[p[1] for p in pairs]))
        given = [L.describe(p[0]) if isinstance(p[0], torch.Tensor) else repr(p[0]) for p in pairs]
        what = f"seed {seed}: {name} of {' and '.join(given)}"
        if isinstance(x, Exception) or isinstance(y, Exception):
            assert isinstance(y, Exception) or L.unsigned(pairs) or "not implemented" in str(x), (
                f"{what}: PyTorch raises {x}"
            )
            assert isinstance(x, Exception), f"{what}: raises {y}"
            continue
        try:
            L.assert_same(x, y, what, exact=False)
        except AssertionError as error:
            differences.append(str(error))
    assert not differences, f"{len(differences)} differ; {differences[:10]}"


def _is_gap(name, theirs, other, error) -> bool:
    """True for dtypes without a CPU kernel of this operator in PyTorch (some unsigned types, and
    mostly complex32)."""
    if "ComplexHalf" in str(error):
        return True
    names = {str(t.dtype) for t in (theirs, other) if isinstance(t, torch.Tensor)}
    return bool(names & {"torch.uint16", "torch.uint32", "torch.uint64"})


SHAPED = {
    "clone": lambda lib, x: x.clone(),
    "to": lambda lib, x: x.to(lib.float64),
    "contiguous": lambda lib, x: x.contiguous(),
    "like": lambda lib, x: lib.empty_like(x),
    "sum": lambda lib, x: x.sum(-1),
    "any": lambda lib, x: x.any(0, keepdim=True),
    "cat": lambda lib, x: lib.cat([x, x], 0),
    "stack": lambda lib, x: lib.stack([x, x], 1),
    "repeat": lambda lib, x: x.repeat((2,) * x.ndim),
    "flip": lambda lib, x: x.flip(0),
    "squeeze": lambda lib, x: x.squeeze(),
    "unsqueeze": lambda lib, x: x.unsqueeze(1),
    "expand": lambda lib, x: x.expand((1, *x.shape)),
    "expand_ones": lambda lib, x: x.expand([3 if n == 1 else n for n in x.shape]),
    "reshape": lambda lib, x: x.reshape(-1),
    "reshape_ones": lambda lib, x: x.reshape((1, *x.shape, 1)),
    "without_ones": lambda lib, x: x.reshape([n for n in x.shape if n != 1]),
    "flatten": lambda lib, x: x.flatten(0, 1),
    "unflatten": lambda lib, x: x.unflatten(0, (-1, 1)),
    "unfold": lambda lib, x: x.unfold(0, 1, 1),
    "diagonal": lambda lib, x: x.diagonal(),
    "select": lambda lib, x: x.select(0, 0),
    "narrow": lambda lib, x: x.narrow(0, 0, 1),
    "movedim": lambda lib, x: x.movedim(0, -1),
    "split": lambda lib, x: x.split(1, -1)[-1],
    "index": lambda lib, x: x[..., None],
    "channels_last": lambda lib, x: x.contiguous(memory_format=lib.channels_last),
    "plus": lambda lib, x: x + 1,
    "abs": lambda lib, x: x if x.dtype is lib.bool else x.abs(),  # PyTorch has no kernel for bool
    "where": lambda lib, x: lib.where(x == 0, x, x),
}


@pytest.mark.parametrize("name", SHAPED)
def test_shapes_of_results(name):
    """Compares sizes, strides, offset and whether the result is a view, for one operand of any
    strides."""
    f = SHAPED[name]
    for seed in range(MIXED // 20):
        rng = random.Random(f"{name} {seed}")
        sizes, strides = layouts.random_layout(rng, 5)
        dtype = rng.choice(("float32", "int16", "bool", "complex64"))
        theirs, ours = _strided(rng, dtype, sizes, strides)
        x, y = _both(lambda: f(torch, theirs), lambda: f(gt, ours))
        what = f"seed {seed}: {name} of {L.describe(theirs)}"
        assert isinstance(x, Exception) == isinstance(y, Exception), f"{what}: {x!r}, {y!r}"
        if not isinstance(x, Exception):
            L.assert_same(x, y, what, exact=False)
            assert (x.storage_offset(), x._is_view()) == (y.storage_offset(), y._is_view()), what
