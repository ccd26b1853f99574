"""A plan derived from a plan of other sizes equals the plan built for these sizes."""

from __future__ import annotations

import math
import random
import warnings

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.core.dtype import bfloat16, bool_, complex32, float16, float32, float64, int64, uint8
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.dispatch import dispatcher
from gputensor.iterator.config import COPY
from gputensor.iterator.plan import build, build_reduction, over_reduced, over_strides
from gputensor.kernels.cuda import reduce_launch
from gputensor.kernels.cuda.copy_launch import Copy
from gputensor.kernels.cuda.launch import Launch
from gputensor.kernels.cuda.pointwise_launch import ByAddress, Scaled
from gputensor.kernels.cuda.random_launch import Random
from gputensor.kernels.cuda.range_launch import Range
from gputensor.native import copy as copies
from gputensor.native.copy import _OnDevice
from gputensor.structured.pointwise import CpuEntry, DeviceEntry, writes
from tests.cuda.support import requires_emulator
from tests.harness import tier

DTYPES = (bfloat16, bool_, complex32, float16, float32, float64, int64, uint8)
# One element, a few, more than the thresholds of 16-bit loops and of several threads; a size of 1.
SIZES = ((2, 3), (1,), (700,), (1, 5), (5, 1 << 16))
MORE = (1 << 20,)  # ufuncs use several threads; slow, so with one dtype only
CALLS = {
    "exp": lambda x, y: x.exp(),
    "abs": lambda x, y: x.abs(),
    "neg_": lambda x, y: x.neg_(),
    "isnan": lambda x, y: x.isnan(),
    "add.Tensor": lambda x, y: gt.add(x, y),
    "add.Tensor number": lambda x, y: x + 2,
    "add.Tensor alpha": lambda x, y: gt.add(x, y, alpha=2),
    "sub.Tensor number first": lambda x, y: 1.5 - x,
    "mul_.Tensor": lambda x, y: x.mul_(y),
    "mul_.Tensor itself": lambda x, y: x.mul_(x),
    "pow.Tensor_Scalar": lambda x, y: x**2,
    "lt.Tensor": lambda x, y: x < y,
    "where.self": lambda x, y: gt.where(x > 0, x, y),
    "clamp": lambda x, y: x.clamp(0, 1),
    "lerp.Scalar": lambda x, y: x.lerp(y, 0.25),
    "addcmul": lambda x, y: gt.addcmul(x, x, y, value=2),
    "erf": lambda x, y: x.erf(),
    "bitwise_and.Tensor": lambda x, y: x & y,
}


def operand(sizes, element, seed, device="cpu", at=0):
    values = np.random.default_rng(seed).integers(0, 3, sizes)
    flat = gt.zeros(values.size + at, dtype=element, device=device)
    made = flat.as_strided(sizes, gt.empty(sizes, device="meta").stride(), at)
    return made.copy_(gt.from_numpy(values))


def forget():
    for operator in dispatcher.operators():
        operator.table.forget()


def entries(kind=CpuEntry):
    return {
        (operator.qualified_name, key): entry
        for operator in dispatcher.operators()
        for key, entry in operator.table.plans.items()
        if type(entry) is kind
    }


def described(entry):
    """Return all attributes of an entry that a call reads; for its loop, the attributes that
    distinguish kinds."""
    plan = {name: getattr(entry.plan, name) for name in entry.plan.__slots__}
    plan["outputs"] = [(o.geometry, o.action) for o in entry.plan.outputs]
    loop = getattr(entry.loop, "__qualname__", entry.loop)
    own = (entry.kinds, entry.geometry, entry.block, entry.numpy_allocates, entry.has_numbers)
    return plan, repr(loop), own


def made(call, sizes, first, second):
    """Return the result and the changed operands of a call, or its error."""
    x, y = operand(sizes, first, 1), operand(sizes, second, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            z = call(x, y)
        except gt.GpuTensorError as error:
            return str(error), {}
    shown = [(t.dtype, t.shape, t.stride(), t._get_array().tobytes()) for t in (x, z)]
    return shown, entries()


@pytest.mark.parametrize("name", tier.pick(list(CALLS)[::16], list(CALLS)))
def test_a_plan_over_other_sizes_is_the_plan_that_is_built(name, monkeypatch):
    call = CALLS[name]
    relaid = []
    over_sizes = CpuEntry.over_sizes
    monkeypatch.setattr(
        CpuEntry, "over_sizes", lambda *args: relaid.append(args) or over_sizes(*args)
    )
    for first in DTYPES:
        for second in DTYPES if name.endswith(".Tensor") else (first,):
            forget()
            known = [made(call, sizes, first, second) for sizes in SIZES]
            for sizes, (results, found) in zip(SIZES, known):
                forget()
                again, built = made(call, sizes, first, second)
                assert again == results, (first, second, sizes)
                assert built.keys() <= found.keys()
                for key in built:
                    if found[key].geometry.sizes == sizes:
                        assert described(found[key]) == described(built[key]), (key, sizes)
    # the result of abs of complex numbers has its input's layout, so more than the sizes differs
    assert (len(relaid) >= len(SIZES) - 1) is (name != "abs")


def test_an_operand_without_dimensions_is_of_no_such_kind():
    """A 0-d operand promotes differently, and results with more elements cannot be written to
    it."""
    wide, narrow = gt.ones(4, dtype=float64), gt.ones(4)
    assert (wide + narrow).dtype is float64
    assert (gt.ones((), dtype=float64) + gt.ones(5)).dtype is float32
    narrow.add_(narrow.clone())
    with pytest.raises(errors.ShapeError, match="broadcast"):
        gt.ones(()).add_(narrow)


def launched(launch, at):
    """Return what a call of a launch hands to the runtime, for operands at this address."""
    if type(launch) is Scaled:
        return launched(launch.plain, at)
    if type(launch) is ByAddress:
        return type(launch), launched(launch.at(*(at for _ in launch.pointers)), at)
    operands = [0] * launch.n_pointers
    scalars = (1,) * sum(source < 0 for _, source, _ in launch.packers)
    given = launch.pack(tuple(operands), scalars)
    return launch.entry, launch.defines, launch.grid, launch.block, given


def row_of(y, n=1):
    """Return elements of y as a tensor of the last n sizes of y."""
    sizes = y.shape[-n:]
    return y.flatten()[: sizes.numel()].view(sizes)


ROWS = {
    "x + row": lambda x, y: x + row_of(y),
    "row * x": lambda x, y: row_of(y) * x,
    "row / rows": lambda x, y: row_of(y) / x.expand(3, *x.shape).contiguous(),
    "x < plane": lambda x, y: x.expand(3, *x.shape).contiguous() < row_of(y, 2),
    "x.sub_(row)": lambda x, y: x.sub_(row_of(y)),
    "lerp": lambda x, y: x.lerp(row_of(y), 0.25),
    "where": lambda x, y: gt.where(x > 0, x, row_of(y)),
    "addcmul": lambda x, y: gt.addcmul(x, row_of(y), row_of(x), value=2),
    "two rows": lambda x, y: gt.addcmul(x, row_of(y), row_of(x, 2), value=2),
}


@requires_emulator
@pytest.mark.parametrize(
    "name", tier.pick(["add.Tensor", "lt.Tensor", "x + row", "where"], [*CALLS, *ROWS])
)
def test_a_launch_over_other_sizes_is_the_launch_that_is_bound(name, monkeypatch):
    """Sizes below and above the threshold of specialised kernels, and addresses that are not
    aligned."""
    call = CALLS.get(name) or ROWS[name]
    relaid = []
    method = "over_sizes" if name in CALLS else "over_rows"
    over = getattr(DeviceEntry, method)
    monkeypatch.setattr(DeviceEntry, method, lambda *args: relaid.append(args) or over(*args))

    def made(sizes, first, second, at):
        x, y = (operand(sizes, d, k, "cuda", at) for k, d in enumerate((first, second)))
        try:
            return call(x, y).cpu()._get_array().tobytes(), entries(DeviceEntry)
        except gt.GpuTensorError as error:
            return str(error), {}

    dtypes = (float32, int64, bfloat16)
    for first, second in {(a, b) for a in dtypes for b in (a, float32)}:
        forget()
        shapes = ((2, 3), (1,), (100, 91), (1, 5))
        if name in ROWS:
            shapes = ((2, 3), (100, 91), (1, 5), (5, 1), (2, 3, 4), (130, 257))
        cases = [(sizes, at) for sizes in shapes for at in (0, 1)]
        # The second call with a size stores the entry.
        known = [[made(sizes, first, second, at) for _ in range(2)][1] for sizes, at in cases]
        for (sizes, at), (results, found) in zip(cases, known):
            forget()
            again, built = made(sizes, first, second, at)
            assert again == results, (first, second, sizes, at)
            for key in built:
                before, after = found[key], built[key]
                if before.geometry.sizes == sizes:
                    for field in ("shape", "stride_bytes", "dtypes"):
                        assert getattr(before.plan, field) == getattr(after.plan, field)
                    low = at * 4 % 16
                    assert launched(before.launch, low) == launched(after.launch, low), (key, at)
    assert relaid or name in ("abs", "two rows")


COPIES = {
    "clone": lambda x: x.clone(),
    "to half": lambda x: x.to(float16),
    "to float": lambda x: x.to(float32),
    "copy_": lambda x: x.copy_(gt.zeros(x.shape, device="cuda")),
    "arange": lambda x: gt.arange(x.numel(), device="cuda"),
    "arange f": lambda x: gt.arange(0.0, x.numel(), dtype=x.dtype, device="cuda"),
    "full": lambda x: gt.full(x.shape, 1, dtype=x.dtype, device="cuda"),
    "eye": lambda x: gt.eye(*x.shape[-2:], dtype=x.dtype, device="cuda"),
    "rand": lambda x: gt.manual_seed(3) and gt.rand(x.shape, device="cuda"),
}


def moving():
    """Return the launches of copies and of factories, by their keys."""
    found = {}
    for name in ("copy_", "fill_.Scalar"):
        for key, plan in dispatcher.find(f"aten::{name}").table.plans.items():
            if callable(key[0]) or type(plan) is set:  # a model for other sizes, or hashes
                continue
            launch = plan.launch if type(plan) is _OnDevice else plan
            if type(launch) is Copy:
                layout = launch.layout
                of = layout.shape, layout.stride_bytes, layout.dtypes, launch.op
            elif type(launch) is Range:
                of = launch.shape, launch.strides, repr(launch.whole)
            elif isinstance(launch, Launch) and not isinstance(launch, Random):
                of = launched(launch, 0)
            else:
                of = repr(launch) if isinstance(launch, Random) else type(launch)
            found[name, key] = of
    return found


@requires_emulator
@pytest.mark.parametrize("name", tier.pick(["to half", "arange"], list(COPIES)))
def test_copies_and_factories_over_other_sizes_are_those_that_are_planned(name, monkeypatch):
    def made(sizes, element):
        found = COPIES[name](operand(sizes, element, 1, "cuda"))
        return found.shape, found.stride(), found.cpu()._get_array().tobytes(), moving()

    builds = []
    for module in (copies, writes):
        monkeypatch.setattr(
            module, "build",
            lambda *of, build=module.build, **more: builds.append(of) or build(*of, **more),
        )  # fmt: skip
    sizes = ((2, 3), (1, 5), (130, 257), (0, 2), (4, 4))
    if name != "eye":
        sizes += ((1,), (700,), ())
    for element in (float32, int64, bfloat16):
        forget()
        builds.clear()
        # The second call stores a derived copy.
        known = [[made(each, element) for _ in range(2)][1] for each in sizes]
        derived = len(builds)
        builds.clear()
        for each, (*results, found) in zip(sizes, known):
            forget()
            *again, built = made(each, element)
            assert again == results, (each, element)
            same = [found.get(key, of) == of for key, of in built.items()]
            assert all(same), (each, element)
        assert derived < len(builds) or name == "to float" and element is float32


@requires_emulator
def test_a_size_that_occurs_once_on_a_device_is_not_stored(monkeypatch):
    forget()
    table = dispatcher.find("aten::add.Tensor").table
    x = gt.arange(400, dtype=float32).to("cuda")
    assert (x[:4] + x[:4]).tolist() == [0, 2, 4, 6]
    stored = len(table.plans)
    for n in range(5, 100):
        assert (x[:n] + x[:n]).tolist() == [2 * k for k in range(n)]
        assert (x[: 3 * n].view(3, n) + x[:n]).shape == (3, n)
    assert len(table.plans) <= stored + 3, "a model for rows and two sets of hashes at most"
    for n in range(5, 10):
        x[:n] + x[:n]
    assert len(table.plans) <= stored + 8
    monkeypatch.setattr("gputensor.structured.pointwise.make_entry", None)
    for n in range(5, 10):
        assert (x[:n] + x[:n]).tolist() == [2 * k for k in range(n)]


def layouts(rng):
    """Return sizes, and strides of a source of any layout: permuted, with gaps or repeated."""
    sizes = tuple(rng.choice((1, 2, 3, 4, 5)) for _ in range(rng.randrange(1, 6)))
    step, strides = rng.choice((1, 1, 2)), [0] * len(sizes)
    for d in rng.sample(range(len(sizes)), len(sizes)):
        strides[d] = 0 if rng.random() < 0.1 else step
        step *= sizes[d] * rng.choice((1, 1, 1, 2))
    return sizes, tuple(strides)


def test_the_plan_of_a_copy_over_other_strides_is_the_plan_that_is_built():
    rng = random.Random(5)
    place = gt.device("cpu")
    for to, of in ((float32, float32), (float32, bfloat16), (int64, float32)):
        model = None
        for _ in range(400):
            sizes, strides = layouts(rng)
            wanted, given = contiguous_geometry(sizes, to), geometry(sizes, strides, of)
            specs = ((wanted, place),), ((given, place),)
            built = build("copy_", COPY, *specs, default_dtype=None)
            model = model or built
            derived = over_strides(model, wanted, given)
            # Strides over a single element do not matter.
            different = {"outputs", "elementwise_dense", *["stride_bytes"] * (wanted.numel == 1)}
            for name in {*built.__slots__} - different:
                assert getattr(derived, name) == getattr(built, name), (name, given)
            [one], [other] = derived.outputs, built.outputs
            assert (one.geometry, one.action) == (other.geometry, other.action)


def reductions(rng):
    """Return sizes without 0 and 1, and some dimensions."""
    ndim = rng.randrange(1, 5)
    dims = tuple(sorted(rng.sample(range(ndim), rng.randrange(1, ndim + 1))))
    return ndim, dims, rng.random() < 0.5


def parts_of(run):
    """Return what a launch of a reduction passes to the kernel."""
    stages = [(*at, *[getattr(stage, n) for n in COMPARED]) for *at, stage in run.stages]
    return stages, run.last and [getattr(run.last, n) for n in COMPARED], run.workspace_bytes


COMPARED = ("entry", "defines", "grid", "block", "tail", "segments")


def test_the_plan_of_a_reduction_over_other_sizes_is_the_plan_that_is_built():
    rng, place = random.Random(7), gt.device("cuda:0")
    kinds = (("sum", float32, float32), ("mean", bfloat16, bfloat16), ("amax", uint8, uint8),
             ("any", float32, bool_), ("sum", uint8, int64))  # fmt: skip
    for _ in range(tier.pick(40, 200)):
        ndim, dims, keepdim = reductions(rng)
        loop, of, to = rng.choice(kinds)
        compute = to if loop != "any" else of
        model = run = None
        for _ in range(5):
            sizes = tuple(rng.choice((2, 3, 5, 8, 40, 300)) for _ in range(ndim))
            source = contiguous_geometry(sizes, of)
            built = build_reduction(loop, (source, place), None, dims, keepdim, compute, to)
            bound = reduce_launch.bind("reduce", loop, built)
            if model is None:
                model, run = built, bound
            derived = over_reduced(model, source, dims, keepdim)
            for name in {*built.__slots__} - {"outputs"}:
                assert getattr(derived, name) == getattr(built, name), (name, sizes, dims)
            [one], [other] = derived.outputs, built.outputs
            assert (one.geometry, one.action) == (other.geometry, other.action)
            found = run.over(derived)
            assert found is None or parts_of(found) == parts_of(bound)
            assert found is not None or bound.last is not None


@requires_emulator
@pytest.mark.emulator
def test_reductions_of_new_sizes_do_not_build_plans(monkeypatch):
    dispatcher.forget_plans()
    x = gt.arange(4096.0).to("cuda")
    wanted = [x[: 4 * n].cpu().view(4, n).sum(0).tolist() for n in range(8, 40)]
    for n in (5, 6, 7):
        x[: 4 * n].view(4, n).sum(0)
    monkeypatch.setattr("gputensor.native.reduce.build_reduction", None)
    for n, sums in enumerate(wanted, 8):
        assert x[: 4 * n].view(4, n).sum(0).tolist() == sums
    monkeypatch.undo()
    dispatcher.forget_plans()


@requires_emulator
@pytest.mark.emulator
def test_a_strided_copy_after_one_that_is_dense_in_spite_of_its_strides():
    dispatcher.forget_plans()
    for sizes in ((1, 3, 1, 1), (1, 16, 7, 7), (2, 16, 7, 5)):
        host = gt.arange(math.prod(sizes), dtype=gt.float16).view(sizes).permute(0, 2, 3, 1)
        out = gt.empty(host.shape, dtype=gt.float16, device="cuda").copy_(host.to("cuda"))
        assert out.tolist() == host.tolist()
    dispatcher.forget_plans()
