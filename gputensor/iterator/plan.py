"""Plans: decisions of an operator call that depend only on geometries, devices and number types.

`build` and `build_reduction` run on a plan cache miss. Both are pure functions. A plan contains no
values and no addresses. Building a plan neither allocates memory nor checks partial overlap, which
`overlap.check` does at each call.

The steps follow PyTorch's TensorIteratorBase::build (ATen/TensorIterator.cpp): sizes, device,
dtype, and the actions for outputs. Then the fast set-up fixes the layout of dense operands; for
other operands, the dimensions are ordered, strides computed, and dimensions coalesced.
"""

from __future__ import annotations

from typing import Any

from ..core import errors
from ..core.geometry import Geometry, Sizes, contiguous_geometry, geometry, reduced_sizes
from ..core.memory_format import channels_last, contiguous_strides, strides_for
from .broadcast import common_sizes, strides_over
from .coalesce import coalesce
from .config import REDUCTION
from .operands import (
    ALLOCATE, KEEP, RESIZE, common_device, common_dtype, output_action, single_dtype,
)  # fmt: skip
from .order import dense_strides_like, dimension_order, strides_in_order
from .overlap import YES, internal_overlap

# Strides in bytes of one-dimensional iterations. _DENSE: over dense memory, by item size. _STAY:
# over one repeated element.
_DENSE = {itemsize: (itemsize,) for itemsize in (1, 2, 4, 8, 16)}
_STAY = (0,)


class OutputPlan:
    """An output's geometry and its action: ALLOCATE, KEEP (the given output fits) or RESIZE."""

    __slots__ = ("geometry", "action")
    geometry: Geometry
    action: str

    def __init__(self, geometry: Geometry, action: str) -> None:
        self.geometry, self.action = geometry, action

    def __repr__(self) -> str:
        return f"OutputPlan({self.action} {self.geometry})"


class Plan:
    """The iteration of one operator over its operands, outputs first.

    sizes: the broadcast sizes. common_dtype: the dtype of the computation; without promotion, the
    dtype of the first input. device: None without a tensor operand.
    dtypes: the stored dtype of each operand; common_dtype for numbers and scalar operands.
    shape, stride_bytes: the coalesced iteration, index 0 fastest; () where sizes is ().
    scalar_operands: 0-d CPU tensors among operands of another device. Their values are packed like
    numbers. stride_bytes[i] is None for a number and for a scalar operand.
    n_reduced: the number of leading dimensions of `shape` that are reduced (0 unless a reduction).
    elementwise_dense: the tensor operands are dense and have equal sizes and strides, so that NumPy
    allocates the result in this plan's layout.
    """

    __slots__ = (
        "op", "config", "sizes", "common_dtype", "device", "outputs", "dtypes", "shape",
        "stride_bytes", "numel", "n_outputs", "n_reduced", "scalar_operands", "elementwise_dense",
    )  # fmt: skip

    op: str
    config: Any
    sizes: Sizes
    common_dtype: Any
    device: Any
    outputs: tuple[OutputPlan, ...]
    dtypes: tuple[Any, ...]
    shape: Sizes
    stride_bytes: tuple[Sizes | None, ...]
    numel: int
    n_outputs: int
    n_reduced: int
    scalar_operands: Sizes
    elementwise_dense: bool

    def __repr__(self) -> str:
        return (
            f"Plan({self.op}, sizes={self.sizes}, {self.common_dtype}, outputs={self.outputs}, "
            f"shape={self.shape}, stride_bytes={self.stride_bytes})"
        )


def build(
    op: str, config: Any, outputs: tuple[Any, ...], inputs: tuple[Any, ...], *, default_dtype: Any,
    out_dtype: Any = None, is_like_input: bool = False, static_sizes: Sizes | None = None,
) -> Plan:  # fmt: skip
    """Return the plan of a pointwise operator.

    Operands are (geometry, device) pairs. An input may also be a Python number type. An output may
    be None; it is then allocated. An output that is also an input is the same pair object in both.
    out_dtype: the result's dtype if it differs from the common dtype, or a function of the common
    dtype (as for abs of complex numbers). is_like_input: if the result's dtype differs from the
    common dtype, it has the layout of the first input. static_sizes: the outputs' sizes, if the
    operands do not determine them.
    Raises: gputensor's errors about shape, device, dtype and an output's internal overlap.
    """
    plan = Plan()
    plan.op, plan.config = op, config
    tensors = [x for x in (*outputs, *inputs) if type(x) is tuple]

    if static_sizes is not None:
        sizes = static_sizes
    elif config.resize_outputs:
        sizes = common_sizes(op, config, (), inputs)
    else:
        sizes = common_sizes(op, config, outputs, inputs)
    plan.sizes = sizes

    plan.device = device = tensors[0][1] if tensors else None
    plan.scalar_operands = ()
    for x in tensors:
        if x[1] is not device:
            if config.check_all_same_device:
                plan.device, plan.scalar_operands = common_device(op, config, outputs, inputs)
            break

    is_of_common = callable(out_dtype)
    if config.promote_from is None:
        fallback = default_dtype if is_of_common else out_dtype or default_dtype
        common = single_dtype(op, config, outputs, inputs, fallback)
    else:
        common = common_dtype(op, config, inputs, default_dtype)
    plan.common_dtype = common
    if is_of_common:
        out_dtype = out_dtype(common)
    result = out_dtype or config.static_dtype or common
    has_numbers = len(tensors) != len(outputs) - outputs.count(None) + len(inputs)
    if is_like_input and outputs == (None,) and result is not common:
        shape, place = inputs[0]
        outputs = ((geometry(shape.sizes, dense_strides_like(shape), result), place),)

    actions = [output_action(op, config, x, inputs, sizes, result) for x in outputs]
    elements = [result if x is None else x[0].dtype for x in outputs]
    # Outputs that are allocated or resized do not influence the layout.
    known = [x[0] for x, action in zip(outputs, actions) if action is KEEP]
    known += [x[0] for x in inputs if type(x) is tuple]
    fresh = _dense_walk(config, sizes, known, has_numbers)
    if fresh is None:
        cast = _cast_strides(plan, outputs, inputs, actions, has_numbers)
        _lay_out_strided(plan, outputs, inputs, actions, elements, known, cast)
    else:
        _lay_out_dense(plan, outputs, inputs, actions, elements, fresh)
    return plan


def over_sizes(model: Plan, shape: Geometry) -> Plan:
    """Return the plan `model`, adapted to the sizes of `shape`, the geometry of an operand. The
    operands must be row-major, and neither empty nor 0-d."""
    plan, numel = _adapted(model, shape), shape.numel
    plan.elementwise_dense = True
    plan.shape, plan.stride_bytes = (numel,), model.stride_bytes
    return plan


def over_rows(model: Plan, shape: Geometry, inner: int) -> Plan:
    """Return the plan `model`, adapted to the sizes of `shape`, the geometry of an operand. Some
    operands of `model` are rows: they have the last of these sizes, with `inner` elements. All
    other operands have the sizes of `shape`. All operands must be row-major, and no size may be 0
    or 1."""
    plan = _adapted(model, shape)
    plan.elementwise_dense = False
    plan.shape = (inner, shape.numel // inner)
    strides = [s and (s[0], s[0] * inner if s[1] else 0) for s in model.stride_bytes]
    plan.stride_bytes = tuple(strides)
    return plan


def over_strides(model: Plan, to: Geometry, source: Geometry) -> Plan:
    """Return the plan `model` of a copy, adapted to two other layouts of equal sizes. `to` must be
    row-major, and neither empty nor 0-d, so that its strides alone order the dimensions."""
    plan = _adapted(model, to)
    plan.elementwise_dense = to.strides == source.strides
    order = list(range(to.ndim - 1, -1, -1))
    plan.shape, strides = coalesce(to.sizes, [to.stride_bytes, source.stride_bytes], order)
    plan.stride_bytes = tuple(strides)
    return plan


def over_reduced(model: Plan, source: Geometry, dims: Sizes, keepdim: bool) -> Plan:
    """Return the plan `model` of a reduction, adapted to a source of other sizes. The source must
    be row-major, have no dimension of size 0 or 1, and have as many dimensions as the model's
    source. At least one dimension is reduced, and the output is new."""
    sizes, of = source.sizes, model.outputs[0].geometry.dtype
    step, out_step, before = source.dtype.itemsize, of.itemsize, None
    reduced, kept = [list[int](), list[int]()], [list[int](), list[int](), list[int]()]
    for d in range(len(sizes) - 1, -1, -1):
        size, is_reduced = sizes[d], d in dims
        into = reduced if is_reduced else kept
        if is_reduced is before:  # the dimension merges with the one before
            into[0][-1] *= size
        else:
            into[0].append(size)
            into[1].append(step)
            if not is_reduced:
                kept[2].append(out_step)
        step *= size
        out_step *= 1 if is_reduced else size
        before = is_reduced
    made = contiguous_geometry(reduced_sizes(sizes, dims, keepdim), of)
    plan = Plan()
    plan.op, plan.config, plan.sizes = model.op, model.config, sizes
    plan.common_dtype, plan.device = model.common_dtype, model.device
    plan.scalar_operands, plan.dtypes = (), model.dtypes
    plan.outputs, plan.n_outputs = (OutputPlan(made, ALLOCATE),), 1
    plan.numel, plan.n_reduced, plan.elementwise_dense = source.numel, len(reduced[0]), False
    plan.shape = (*reduced[0], *kept[0])
    plan.stride_bytes = ((0,) * plan.n_reduced + tuple(kept[2]), (*reduced[1], *kept[1]))
    return plan


def _adapted(model: Plan, shape: Geometry) -> Plan:
    """Return a plan with the values of `model`, and row-major outputs of the sizes of `shape`,
    which is row-major. The iteration is missing."""
    plan, sizes, made = Plan(), shape.sizes, []
    plan.op, plan.config, plan.sizes = model.op, model.config, sizes
    plan.common_dtype, plan.device = model.common_dtype, model.device
    plan.scalar_operands, plan.dtypes = (), model.dtypes
    for o in model.outputs:
        of = o.geometry.dtype
        g = shape if of is shape.dtype else contiguous_geometry(sizes, of)
        made.append(OutputPlan(g, o.action))
    plan.outputs, plan.n_outputs = tuple(made), model.n_outputs
    plan.numel, plan.n_reduced = shape.numel, 0
    return plan


def _dense_walk(
    config: Any, sizes: Sizes, known: list[Geometry], has_numbers: bool
) -> Sizes | None:
    """Return the strides of new outputs if all operands are dense in one common order, otherwise
    None.

    0-d operands and numbers have no strides. With these operands, PyTorch sorts the dimensions
    instead of taking the fast path; for row-major operands the result is the same. Source:
    compute_fast_setup_type.
    """
    layouts: list[Geometry] = []
    has_scalars = has_numbers
    for g in known:
        if g.sizes != sizes:
            if g.ndim:
                return None
            has_scalars = True
        elif g not in layouts:
            layouts.append(g)
    if all([g.is_contiguous for g in layouts]):
        row_major = contiguous_strides(sizes)
        if not layouts or not sizes or not has_scalars:
            return row_major
        is_row_major = all([g.strides == row_major for g in layouts]) and layouts[0].numel
        return row_major if is_row_major else None
    if has_scalars or config.enforce_linear_iteration:
        return None
    first = layouts[0]
    if not first.is_non_overlapping_and_dense:
        return None
    if first.is_channels_last and all([g.is_channels_last for g in layouts]):
        return strides_for("", sizes, channels_last)
    return first.strides if all([g.strides == first.strides for g in layouts]) else None


def _cast_strides(
    plan: Plan, outputs: tuple[Any, ...], inputs: tuple[Any, ...], actions: list[str],
    has_numbers: bool,
) -> Sizes | None:  # fmt: skip
    """Return the strides that new outputs have because operands are cast to the common dtype.
    Return None if no cast changes a layout.

    PyTorch casts operands to the common dtype before it reads their strides. The cast copies of
    operands with gaps or repeated elements are dense. This function follows PyTorch on every
    device, so that a result has the same layout everywhere. Source: TensorIterator.cpp,
    compute_types.
    """
    config, common = plan.config, plan.common_dtype
    if config.promote_from is None or KEEP in actions:
        return None
    promoted = [x[0] for x in inputs[config.promote_from :] if type(x) is tuple]
    if all([g.dtype is common or g.is_non_overlapping_and_dense for g in promoted]):
        return None
    known = [x[0] for x in inputs[: config.promote_from] if type(x) is tuple]
    for g in promoted:
        if g.dtype is not common and not g.is_non_overlapping_and_dense:
            g = geometry(g.sizes, dense_strides_like(g), common)
        known.append(g)
    strides = _dense_walk(config, plan.sizes, known, has_numbers)
    if strides is not None:
        return strides
    seen = [strides_over(g.sizes, g.stride_bytes, plan.sizes) for g in known]
    return strides_in_order(plan.sizes, dimension_order(plan.sizes, seen))


def _lay_out_dense(
    plan: Plan, outputs: tuple[Any, ...], inputs: tuple[Any, ...], actions: list[str],
    elements: list[Any], fresh: Sizes,
) -> None:  # fmt: skip
    """Make the plan's iteration one-dimensional, or 0-d if all operands are 0-d."""
    sizes = plan.sizes
    made = []
    for x, action, element in zip(outputs, actions, elements):
        g = x[0] if action is KEEP else geometry(sizes, fresh, element)
        made.append(OutputPlan(g, action))
    numel = g.numel
    strides: list[Sizes | None] = [_DENSE[e.itemsize] if sizes else () for e in elements]
    is_elementwise = True
    for x in inputs:
        if type(x) is not tuple:
            elements.append(plan.common_dtype)
            strides.append(None)
        else:
            g = x[0]
            elements.append(g.dtype)
            if g.ndim:
                strides.append(_DENSE[g.dtype.itemsize])
            elif sizes:
                is_elementwise = False
                strides.append(_STAY)
            else:
                strides.append(())
    plan.shape = (numel,) if sizes else ()
    plan.elementwise_dense = is_elementwise
    _finish(plan, made, elements, strides, numel)


def _lay_out_strided(
    plan: Plan, outputs: tuple[Any, ...], inputs: tuple[Any, ...], actions: list[str],
    elements: list[Any], known: list[Geometry], fresh: Sizes | None,
) -> None:  # fmt: skip
    """Sort the dimensions, compute the strides of new outputs unless `fresh` gives them, and
    coalesce."""
    sizes = plan.sizes
    seen = [strides_over(g.sizes, g.stride_bytes, sizes) for g in known]
    if plan.config.enforce_linear_iteration:
        order = list(range(len(sizes) - 1, -1, -1))
    elif fresh is not None:
        made_bytes = [tuple([s * e.itemsize for s in fresh]) for e in elements[: len(outputs)]]
        order = dimension_order(sizes, [*made_bytes, *seen])
    else:
        order = dimension_order(sizes, seen)
    made = []
    for i, (x, action) in enumerate(zip(outputs, actions)):
        if action is KEEP:
            g = x[0]
        else:
            if fresh is None:
                fresh = strides_in_order(sizes, order)
            g = geometry(sizes, fresh, elements[i])
            seen.insert(i, g.stride_bytes)
        made.append(OutputPlan(g, action))
    plan.shape, found = coalesce(sizes, seen, order)
    strides: list[Sizes | None] = [*found]
    layouts = [o.geometry for o in made]
    for i, x in enumerate(inputs, len(outputs)):
        if type(x) is tuple:
            elements.append(x[0].dtype)
            layouts.append(x[0])
        else:
            elements.append(plan.common_dtype)
            strides.insert(i, None)
    plan.elementwise_dense = _is_one_dense_layout(layouts)
    _finish(plan, made, elements, strides, made[0].geometry.numel)


def _is_one_dense_layout(layouts: list[Geometry]) -> bool:
    first = layouts[0]
    for g in layouts:
        if g is not first and (g.strides != first.strides or g.sizes != first.sizes):
            return False
    return first.is_non_overlapping_and_dense


def _finish(
    plan: Plan, outputs: list[OutputPlan], elements: list[Any], strides: list[Any], numel: int
) -> None:
    for i in plan.scalar_operands:
        elements[i], strides[i] = plan.common_dtype, None
    plan.outputs, plan.n_outputs = tuple(outputs), len(outputs)
    plan.dtypes, plan.stride_bytes = tuple(elements), tuple(strides)
    plan.numel, plan.n_reduced = numel, 0


def build_reduction(
    op: str, self_operand: Any, output: Any, dims: Sizes, keepdim: bool, in_dtype: Any,
    out_dtype: Any, *, config: Any = REDUCTION,
) -> Plan:  # fmt: skip
    """Return the plan of a reduction of `self_operand` over the normalised `dims`.

    in_dtype: the dtype of the arithmetic, which is the plan's common_dtype. A new output is
    row-major for every layout of the input. The output's strides are 0 in the `n_reduced` leading
    dimensions of the iteration. Plan.sizes are the input's sizes.
    """
    plan = Plan()
    plan.op, plan.config = op, config
    source, device = self_operand
    sizes = source.sizes
    reduced = set(dims)
    plan.sizes, plan.device, plan.common_dtype = sizes, device, in_dtype
    plan.scalar_operands = ()
    out_sizes = reduced_sizes(sizes, reduced, keepdim)
    made = _reduction_output(op, config, self_operand, output, out_sizes, out_dtype)

    # The output's strides over the input's sizes are 0 along reduced dimensions.
    out_strides = iter(made.geometry.stride_bytes)
    if keepdim:
        seen = [0 if d in reduced else s for d, s in enumerate(out_strides)]
    else:
        seen = [0 if d in reduced else next(out_strides) for d in range(len(sizes))]
    walks = [tuple(seen), source.stride_bytes]
    order = dimension_order(sizes, walks, n_reduced=1)
    plan.shape, strides = coalesce(sizes, walks, order)
    _finish(plan, [made], [out_dtype, source.dtype], strides, source.numel)
    plan.elementwise_dense = False
    plan.n_reduced = _leading_zeros(strides[0]) if reduced else 0
    return plan


def _reduction_output(
    op: str, config: Any, self_operand: Any, output: Any, sizes: Sizes, out_dtype: Any
) -> OutputPlan:
    if output is None:
        return OutputPlan(contiguous_geometry(sizes, out_dtype), ALLOCATE)
    given, device = output
    if device is not self_operand[1]:
        raise errors.operand_devices(op, self_operand, config.input_name(0), output, "out")
    if given.dtype is not out_dtype:
        raise errors.dtypes_differ(op, "out", output, out_dtype)
    if given.sizes != sizes:
        return OutputPlan(contiguous_geometry(sizes, out_dtype), RESIZE)
    # PyTorch allows an `out` whose elements share memory. This is an error here, because several
    # rows would write to the same location.
    if internal_overlap(given) == YES:
        raise errors.internal_overlap(op, "out", output)
    return OutputPlan(given, KEEP)


def _leading_zeros(strides: Sizes) -> int:
    for i, stride in enumerate(strides):
        if stride:
            return i
    return len(strides)
