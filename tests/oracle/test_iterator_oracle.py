"""Iterator and promotion against PyTorch, over thousands of random layouts.

Each test compares a plan (sizes, strides and dtype of the result, or an error) with the result of
PyTorch's operator.
"""

from __future__ import annotations

import itertools
import random
import warnings

import pytest

from gputensor.core import dtype as dt
from gputensor.core import errors, promotion
from gputensor.core.device import CPU
from gputensor.core.geometry import geometry
from gputensor.iterator import config, plan
from gputensor.iterator.order import dense_strides_like
from tests.iterator.layouts import extent, random_broadcastable, random_layout, random_strides

torch = pytest.importorskip("torch", reason="the oracle is PyTorch")

pytestmark = pytest.mark.oracle

ALL = dt.STORED
F32 = dt.float32


def to_torch(element):
    return getattr(torch, element.name)


def tensor(layout, element=F32, offset=0):
    sizes, strides = layout
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 is experimental
        base = torch.ones(extent(sizes, strides) + offset, dtype=to_torch(element))
    return base.as_strided(sizes, strides, offset)


def operand(layout, element=F32):
    return geometry(*layout, element), CPU


def build(op, flags, outputs, inputs, **kwargs):
    return plan.build(op, flags, outputs, inputs, default_dtype=F32, **kwargs)


def assert_output(made, result, case):
    got = made.outputs[0].geometry
    assert (got.sizes, got.strides, got.dtype.name) == (
        tuple(result.shape), result.stride(), str(result.dtype).removeprefix("torch.")
    ), case  # fmt: skip


def random_operands(rng, count):
    layouts = [random_layout(rng)]
    for _ in range(count - 1):
        shape = layouts[0][0]
        if rng.random() < 0.5:
            layouts.append((shape, random_strides(rng, shape)))
        else:
            layouts.append(random_broadcastable(rng, shape))
    if rng.random() < 0.3:
        layouts[1:] = [layouts[0]] * (count - 1)
    if rng.random() < 0.2:
        rng.shuffle(layouts)
    return layouts


def test_neg():
    rng = random.Random(1)
    for _ in range(3000):
        layout = random_layout(rng)
        made = build("neg", config.UNARY, (None,), (operand(layout),))
        assert_output(made, torch.neg(tensor(layout, offset=rng.randint(0, 3))), layout)


def test_add():
    # On the CPU, PyTorch casts operands to dense temporaries before it reads strides. PyTorch on
    # CUDA and gputensor do not. So only dense operands have mixed dtypes.
    rng = random.Random(2)
    for _ in range(4000):
        layouts = random_operands(rng, 2)
        elements = [rng.choice((F32, F32, dt.float64, dt.int64)) for _ in layouts]
        if not all(geometry(*layout, F32).is_non_overlapping_and_dense for layout in layouts):
            elements = [elements[0]] * 2
        made = build("add", config.BINARY, (None,), tuple(map(operand, layouts, elements)))
        assert_output(made, torch.add(*map(tensor, layouts, elements)), (layouts, elements))


def test_add_a_number():
    rng = random.Random(3)
    for _ in range(2000):
        layout = random_layout(rng)
        element = rng.choice((F32, dt.int32, dt.bool_, dt.complex64))
        number = rng.choice((True, 1, 1.5, 1j))
        made = build("add", config.BINARY, (None,), (operand(layout, element), type(number)))
        assert_output(made, tensor(layout, element) + number, (layout, element, number))


def test_eq():
    rng = random.Random(4)
    for _ in range(1500):
        layouts = random_operands(rng, 2)
        made = build("eq", config.COMPARISON, (None,), tuple(map(operand, layouts)))
        assert_output(made, torch.eq(*map(tensor, layouts)), layouts)


def test_where():
    # Both branches have one dtype, because PyTorch casts other dtypes before iterating, which makes
    # them dense.
    rng = random.Random(5)
    for _ in range(2500):
        layouts = random_operands(rng, 3)
        elements = (dt.bool_, F32, F32)
        made = build("where", config.WHERE, (None,), tuple(map(operand, layouts, elements)))
        assert_output(made, torch.where(*map(tensor, layouts, elements)), layouts)


def has_wide_unsigned(*given):
    """True if gputensor promotes and PyTorch does not: tests/core/test_promotion.py has the
    rule."""
    return bool({dt.uint16, dt.uint32, dt.uint64} & set(given))


def test_true_divide_and_sin_dtypes():
    for a, b in itertools.product(dt.ALL, repeat=2):
        case = (a, b)
        inputs = operand(((2,), (1,)), a), operand(((2,), (1,)), b)
        try:
            expected = torch.true_divide(tensor(((2,), (1,)), a), tensor(((2,), (1,)), b))
        except RuntimeError:
            assert has_wide_unsigned(a, b), case
            continue
        assert_output(build("div", config.BINARY_FLOAT, (None,), inputs), expected, case)


def test_clone_and_empty_like():
    rng = random.Random(6)
    for _ in range(4000):
        layout = random_layout(rng)
        strides = dense_strides_like(geometry(*layout, F32))
        t = tensor(layout)
        assert strides == t.clone().stride() == torch.empty_like(t).stride(), layout


def test_flags():
    rng = random.Random(7)
    for _ in range(4000):
        layout = random_layout(rng)
        g, t = geometry(*layout, F32), tensor(layout)
        assert g.is_contiguous == t.is_contiguous(), layout
        assert g.is_channels_last == t.is_contiguous(memory_format=torch.channels_last), layout
        assert g.is_channels_last_3d == t.is_contiguous(memory_format=torch.channels_last_3d), (
            layout
        )
        assert g.is_non_overlapping_and_dense == torch.ops.aten.is_non_overlapping_and_dense(t), (
            layout
        )


def test_out_given():
    rng = random.Random(8)
    n_resized = 0
    for _ in range(2000):
        layouts = random_operands(rng, 2)
        inputs = tuple(map(operand, layouts))
        sizes = build("add", config.BINARY, (None,), inputs).sizes
        out = (sizes, random_strides(rng, sizes)) if rng.random() < 0.7 else ((7,), (1,))
        element = rng.choice((F32, dt.float64))
        t = tensor(out, element)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # resizing a non-empty output is deprecated
                result = torch.add(*map(tensor, layouts), out=t)
        except RuntimeError:
            with pytest.raises(errors.ArgumentError, match="more than once"):
                build("add", config.BINARY, (operand(out, element),), inputs)
            continue
        made = build("add", config.BINARY, (operand(out, element),), inputs)
        n_resized += made.outputs[0].action == plan.RESIZE
        assert_output(made, result, (layouts, out))
    assert n_resized > 100


def test_copy_broadcasts_to_its_output():
    rng = random.Random(9)
    for _ in range(1500):
        out = random_layout(rng)
        src = random_broadcastable(rng, out[0]) if rng.random() < 0.8 else random_layout(rng)
        try:
            tensor(out).copy_(tensor(src, dt.int32))
        except RuntimeError:
            with pytest.raises((errors.ShapeError, errors.ArgumentError)):
                build("copy_", config.COPY, (operand(out),), (operand(src, dt.int32),))
            continue
        made = build("copy_", config.COPY, (operand(out),), (operand(src, dt.int32),))
        assert made.sizes == out[0]


@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(keepdim):
    rng = random.Random(10)
    for _ in range(1000):
        layout = random_layout(rng)
        ndim = len(layout[0])
        dims = tuple(sorted(rng.sample(range(ndim), rng.randint(1, ndim)))) if ndim else ()
        made = plan.build_reduction("sum", operand(layout), None, dims, keepdim, F32, F32)
        result = torch.sum(tensor(layout), dims or None, keepdim=keepdim)
        assert_output(made, result, (layout, dims))


def test_promote_types_and_can_cast():
    for a, b in itertools.product(ALL, repeat=2):
        assert promotion.can_cast(a, b) == torch.can_cast(to_torch(a), to_torch(b)), (a, b)
        try:
            expected = str(torch.promote_types(to_torch(a), to_torch(b))).removeprefix("torch.")
        except RuntimeError:
            assert has_wide_unsigned(a, b), (a, b)
        else:
            assert promotion.promote_types(a, b).name == expected, (a, b)


def samples(element):
    """Return samples of a dtype as tensors of both libraries."""
    return [
        (operand(layout, element), tensor(layout, element)) for layout in (((2,), (1,)), ((), ()))
    ]


@pytest.mark.parametrize("default", [dt.float32, dt.float64, dt.float16, dt.bfloat16])
def test_result_type_of_every_pair(default):
    numbers = [(kind, kind(1)) for kind in (bool, int, float, complex)]
    values = [pair for element in ALL for pair in samples(element)]
    torch.set_default_dtype(to_torch(default))
    try:
        for (ours, theirs), (other, their_other) in itertools.product(values, values + numbers):
            case = (ours, other, default)
            try:
                expected = str(torch.result_type(theirs, their_other)).removeprefix("torch.")
            except RuntimeError:
                found = [x[0].dtype for x in (ours, other) if isinstance(x, tuple)]
                assert has_wide_unsigned(*found), case
            else:
                assert promotion.result_type("add", (ours, other), default).name == expected, case
    finally:
        torch.set_default_dtype(torch.float32)
