"""Plans: the coalesced walk equals brute force; devices, dtypes and outputs."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputensor.core import dtype as dt
from gputensor.core import errors
from gputensor.core.device import CPU, META, device
from gputensor.core.geometry import contiguous_geometry, geometry
from gputensor.iterator import config, plan, split
from tests.harness import tier
from tests.iterator import layouts, walks

F32 = dt.float32
CUDA0, CUDA1 = device("cuda:0"), device("cuda:1")


def pair(sizes, strides=None, element=F32, place=CPU):
    if strides is None:
        return (contiguous_geometry(sizes, element), place)
    return (geometry(sizes, strides, element), place)


def build(flags, outputs, inputs, op="add", **kwargs):
    return plan.build(op, flags, tuple(outputs), tuple(inputs), default_dtype=F32, **kwargs)


# --- the walk -------------------------------------------------------------------------------------


@tier.examples(300)
@given(st.integers(0, 2**32), st.integers(1, 3), st.booleans())
def test_walk_meets_the_same_offsets_as_brute_force(seed, count, gives_output):
    rng = random.Random(seed)
    shape = layouts.random_sizes(rng, 4)
    chosen = [(shape, layouts.random_strides(rng, shape))]
    chosen += [layouts.random_broadcastable(rng, shape) for _ in range(count - 1)]
    rng.shuffle(chosen)
    inputs = [pair(*layout, element=rng.choice((F32, dt.int16))) for layout in chosen]
    flags = config.BINARY.replace(check_mem_overlap=False)
    sizes = build(flags, [None], inputs).sizes
    outputs = [pair(sizes, layouts.random_strides(rng, sizes)) if gives_output else None]
    made = build(flags, outputs, inputs)
    geometries = [made.outputs[0].geometry, *[x[0] for x in inputs]]
    assert walks.of_plan(made) == walks.of_geometries(sizes, geometries)
    assert made.numel == len(list(walks.of_plan(made).elements()))
    assert all(n > 1 for n in made.shape) or made.numel <= 1 or len(made.shape) == 1
    fresh = plan.build("add", flags, (None,), tuple(inputs), default_dtype=F32).outputs[0].geometry
    assert fresh.is_non_overlapping_and_dense


@tier.examples(100)
@given(st.integers(0, 2**32))
def test_linear_iteration_is_row_major(seed):
    rng = random.Random(seed)
    shape = layouts.random_sizes(rng, 4)
    x = pair(shape, layouts.random_strides(rng, shape))
    made = build(config.UNARY.replace(enforce_linear_iteration=True), [None], [x])
    out = made.outputs[0].geometry
    expected = walks.row_major(shape, [walks.over(out, shape), walks.over(x[0], shape)])
    assert walks.offsets(made.shape, list(made.stride_bytes)) == expected
    assert out is contiguous_geometry(shape, F32)


@tier.examples(200)
@given(st.integers(0, 2**32), st.booleans())
def test_reduction_walk_meets_the_same_offsets_as_brute_force(seed, keepdim):
    rng = random.Random(seed)
    shape = layouts.random_sizes(rng, 4)
    dims = tuple(sorted(rng.sample(range(len(shape)), rng.randint(0, len(shape)))))
    x = pair(shape, layouts.random_strides(rng, shape))
    made = plan.build_reduction("sum", x, None, dims, keepdim, F32, F32)
    out = made.outputs[0].geometry
    # With keepdim, an output of size 1 is by definition broadcast over the input.
    kept = tuple(s for d, s in enumerate(shape) if d not in dims)
    assert out.sizes == (
        tuple(1 if d in dims else s for d, s in enumerate(shape)) if keepdim else kept
    )
    strides = iter(
        out.stride_bytes
        if not keepdim
        else [s for d, s in enumerate(out.stride_bytes) if d not in dims]
    )
    seen = tuple(0 if d in dims else next(strides) for d in range(len(shape)))
    expected = sorted(walks.row_major(shape, [seen, x[0].stride_bytes]))
    assert sorted(walks.offsets(made.shape, list(made.stride_bytes))) == expected
    if made.numel > 1:
        reduced = made.stride_bytes[0][: made.n_reduced]
        assert set(reduced) <= {0} and 0 not in made.stride_bytes[0][made.n_reduced :]


def test_copy_of_a_published_example():
    # (1,64,5,4) to channels_last: the same walk as in PyTorch.
    out = pair((1, 64, 5, 4), (1280, 1, 256, 64))
    made = build(config.COPY, [out], [pair((1, 64, 5, 4))], op="copy_")
    assert made.shape == (64, 20)
    assert made.stride_bytes == ((4, 256), (80, 4))


def test_dense_walks_have_one_dimension():
    x = pair((2, 3, 4))
    made = build(config.BINARY, [None], [x, x])
    assert (made.shape, made.stride_bytes, made.elementwise_dense) == ((24,), ((4,),) * 3, True)
    made = build(config.BINARY, [None], [x, float])
    assert (made.shape, made.stride_bytes, made.elementwise_dense) == (
        (24,),
        ((4,), (4,), None),
        True,
    )
    made = build(config.BINARY, [None], [x, pair(())])
    assert (made.shape, made.stride_bytes, made.elementwise_dense) == (
        (24,),
        ((4,), (4,), (0,)),
        False,
    )
    made = build(config.BINARY, [None], [pair(()), pair(())])
    assert (made.shape, made.stride_bytes, made.elementwise_dense) == ((), ((), (), ()), True)


@pytest.mark.parametrize(
    "inputs, expected",
    [
        ([pair((2, 3), (1, 2)), int], True),
        ([pair((2, 3), (1, 2)), pair((2, 3), (1, 2))], True),
        ([pair((2, 3)), pair((2, 3), (1, 2))], False),
        ([pair((2, 3)), pair((3,))], False),
        ([pair((2, 3), (6, 2)), int], False),
        ([pair((2, 3), (3, 1)), pair((1, 3))], False),
    ],
)
def test_elementwise_dense(inputs, expected):
    assert build(config.BINARY, [None], inputs).elementwise_dense is expected


def test_32bit_limits():
    def fits(sizes, strides=None, element=dt.float32):
        made = build(config.UNARY, [None], [pair(sizes, strides, element=element)])
        return split.can_use_32bit(made.shape, made.stride_bytes)

    assert fits(((1 << 31) - 1,), element=dt.int8) and not fits((1 << 31,), element=dt.int8)
    # The last element's offset counts, not its last byte; as in PyTorch.
    assert fits((1 << 29,)) and not fits(((1 << 29) + 1,)) and not fits((2,), (1 << 29,))


# --- dtypes ---------------------------------------------------------------------------------------


def test_dtypes_of_operands_as_stored():
    made = build(
        config.BINARY, [None], [pair((3,), element=dt.int32), pair((3,), element=dt.float16)]
    )
    assert made.common_dtype is dt.float16
    assert made.dtypes == (dt.float16, dt.int32, dt.float16)
    made = build(config.COMPARISON, [None], [pair((3,), element=dt.int32), float])
    assert made.dtypes == (dt.bool_, dt.int32, F32)
    made = build(config.UNARY, [None], [pair((3,), element=dt.complex64)], out_dtype=F32)
    assert (made.common_dtype, made.dtypes) == (dt.complex64, (F32, dt.complex64))


def test_an_output_of_another_dtype_needs_a_config_that_casts():
    out, x = pair((3,), element=dt.uint8), pair((3,))
    assert build(config.COMPARISON, [out], [x, x], op="eq").dtypes[0] is dt.uint8
    with pytest.raises(errors.DtypeError, match="^signbit: 'out' must be bool "):
        to_bool = config.Config(check_all_same_dtype=False, static_dtype=dt.bool_)
        build(to_bool, [out], [x], op="signbit")


def test_the_results_dtype_may_follow_from_the_common_one():
    rule = {"op": "abs", "out_dtype": lambda common: common.to_real, "is_like_input": True}
    x = pair((2, 3), (1, 4), dt.complex64)  # with gaps
    made = build(config.UNARY, [None], [x], **rule)
    assert (made.common_dtype, made.dtypes) == (dt.complex64, (F32, dt.complex64))
    assert made.outputs[0].geometry is geometry((2, 3), (1, 2), F32)  # dense, in the input's order
    assert build(config.UNARY, [None], [pair((2, 3), (1, 4))], **rule).dtypes == (F32, F32)


def test_default_dtype_is_passed_in():
    x = pair((3,), element=dt.int64)
    made = plan.build("sin", config.UNARY_FLOAT, (None,), (x,), default_dtype=dt.float64)
    assert made.common_dtype is made.outputs[0].geometry.dtype is dt.float64
    made = plan.build("add", config.BINARY, (None,), (x, complex), default_dtype=dt.float64)
    assert made.common_dtype is dt.complex128


def test_where_promotes_its_branches_and_demands_a_bool_condition():
    condition = pair((3,), element=dt.bool_)
    made = build(config.WHERE, [None], [condition, pair((3,), element=dt.int32), float], op="where")
    assert made.common_dtype is F32
    assert made.dtypes == (F32, dt.bool_, dt.int32, F32)
    with pytest.raises(
        errors.DtypeError, match="^where: 'condition' must be bool .got f32.3. cpu.$"
    ):
        build(config.WHERE, [None], [pair((3,)), pair((3,)), pair((3,))], op="where")


def test_a_resized_output_keeps_its_dtype():
    made = build(config.BINARY, [pair((0,), element=dt.float64)], [pair((2, 3)), pair((2, 3))])
    out = made.outputs[0]
    assert (out.action, out.geometry) == (plan.RESIZE, contiguous_geometry((2, 3), dt.float64))


def test_nullary_takes_its_sizes_from_the_output_or_from_the_call():
    made = build(config.FILL, [pair((2, 3), (0, 1))], [], op="fill_")
    assert (made.sizes, made.outputs[0].action, made.common_dtype) == ((2, 3), plan.KEEP, F32)
    assert (made.shape, made.stride_bytes) == ((3, 2), ((4, 0),))
    made = build(config.NULLARY, [None], [], static_sizes=(4, 5), out_dtype=dt.int64)
    assert made.outputs[0].geometry is contiguous_geometry((4, 5), dt.int64)
    assert (made.shape, made.device) == ((20,), None)


# --- devices --------------------------------------------------------------------------------------


def test_a_cpu_scalar_joins_a_device():
    made = build(config.BINARY, [None], [pair((3,), place=CUDA0), pair((), element=dt.int64)])
    assert (made.device, made.scalar_operands) == (CUDA0, (2,))
    assert made.stride_bytes == ((4,), (4,), None)
    assert made.dtypes == (F32, F32, F32)
    made = build(config.BINARY, [None], [pair(()), pair((3, 4), (1, 3), place=CUDA0)])
    assert made.scalar_operands == (1,) and made.stride_bytes[1] is None
    made = build(config.BINARY, [None], [pair((2,), place=META), pair(())])
    assert made.device is META


@pytest.mark.parametrize(
    "inputs",
    [
        (pair((2,), place=CUDA0), pair((2,))),
        (pair((2,)), pair((2,), place=CUDA0)),
        (pair((2,), place=CUDA0), pair((2,), place=CUDA1)),
        (pair((2,)), pair((), place=CUDA0)),
        (pair((), place=CUDA0), pair((1,))),
        (pair((2,), place=META), pair((2,))),
        (pair((2,)), pair((), place=META)),
    ],
)
def test_mixed_devices_are_named(inputs):
    with pytest.raises(errors.DeviceError) as caught:
        build(config.BINARY, [None], inputs)
    for name, (g, place) in zip(("self", "other"), inputs):
        assert f"{name}={errors.describe_layout(g, place)}" in str(caught.value)


def test_unary_takes_no_cpu_scalar_output_and_where_takes_two():
    with pytest.raises(errors.DeviceError, match="out=f32"):
        build(config.UNARY, [pair((2,))], [pair((2,), place=CUDA0)], op="neg")
    with pytest.raises(errors.DeviceError, match="at most 1 CPU scalar"):
        flags = config.BINARY.replace(arg_names=("self", "x", "y"))
        build(flags, [None], [pair((2,), place=CUDA0), pair(()), pair(())])
    condition = pair((2,), element=dt.bool_, place=CUDA0)
    made = build(config.WHERE, [None], [condition, pair(()), pair(())], op="where")
    assert made.scalar_operands == (2, 3)


def test_copy_crosses_devices():
    made = build(
        config.COPY, [pair((2, 3), place=CUDA0)], [pair((3,), element=dt.int64)], op="copy_"
    )
    assert (made.device, made.common_dtype, made.sizes) == (CUDA0, dt.int64, (2, 3))


# --- errors ---------------------------------------------------------------------------------------


def message(call, *args, **kwargs):
    with pytest.raises(errors.GpuTensorError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_messages():
    x, y = pair((2, 3)), pair((2, 4))
    assert message(build, config.BINARY, [None], [x, y]) == (
        "add: 'other' must broadcast with 'self' (got self=f32[2,3] cpu, other=f32[2,4] cpu); "
        "sizes 3 and 4 differ at dimension 1"
    )
    assert message(build, config.BINARY, [None], [pair((3,)), pair((5, 2, 4))]).endswith(
        "dimension 2"
    )
    three = [pair((2, 1), element=dt.bool_), pair((1, 3)), pair((1, 4))]
    assert "where: 'other' must broadcast with 'self'" in message(
        build, config.WHERE, [None], three, op="where"
    )
    z = pair((3,))
    assert message(build, config.BINARY, [z], [z, x], op="add_") == (
        "add_: 'self' must have the broadcast shape [2,3] (got f32[3] cpu)"
    )
    assert message(build, config.BINARY, [pair((2, 3), element=dt.int64)], [x, x]) == (
        "add: 'out' must be of a dtype that the result type float32 can be cast to "
        "(got i64[2,3] cpu)"
    )
    assert message(build, config.UNARY, [pair((2, 3), element=dt.float64)], [x], op="neg") == (
        "neg: 'out' must be float32 (got f64[2,3] cpu)"
    )
    assert message(build, config.BINARY, [pair((2, 3), (0, 1))], [x, x]) == (
        "add: 'out' must not hold one memory location more than once (got f32[2,3] cpu with "
        "strides (0, 1)); use .clone() first"
    )


def test_reduction_output_is_checked():
    x = pair((2, 3))

    def reduce(out):
        return plan.build_reduction("sum", x, out, (0,), False, F32, F32)

    assert reduce(pair((3,))).outputs[0].action == plan.KEEP
    assert reduce(pair((5,))).outputs[0].action == plan.RESIZE
    assert "'out' must be float32" in message(reduce, pair((3,), element=dt.int64))
    assert "out=f32[3] cuda:0" in message(reduce, pair((3,), place=CUDA0))
    assert "more than once" in message(reduce, pair((3,), (0,)))


def test_config_is_immutable_and_says_what_it_changes():
    with pytest.raises(AttributeError):
        config.BINARY.cpu_scalars = 2
    assert repr(config.Config(cpu_scalars=1)) == "Config(cpu_scalars=1)"
    assert config.BINARY.replace(cpu_scalars=0).promote_from == 0
    with pytest.raises(AssertionError):
        config.Config(no_such_flag=1)
