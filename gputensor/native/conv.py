"""Convolution in any number of dimensions.

On the CPU, the compiled loops compute a convolution and its gradients in up to three dimensions.
Otherwise, windows are copied and multiplied in blocks (structured/layers/window_products.py). A
transposed convolution becomes a plain one: zeros are inserted between the input's elements, and the
weights are reversed. f16 and bf16 are computed in f32 and rounded once.

Source: aten/src/ATen/native/Convolution.cpp.
"""

from __future__ import annotations

from typing import Any

from .._generated import calls, operators
from ..core import errors, memory_format as formats
from ..core.device import CPU
from ..core.dtype import BOOL, FLOATING
from ..core.geometry import geometry
from ..kernels import stub
from ..structured import arguments
from ..structured.arguments import per_dim
from ..structured.forms import Kernel, given
from ..tensor.base import suggest_memory_format
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured.layers.precision import cast, wide
from ..structured.layers.window_products import Spread, Windows, correlate, weight_gradient
from ..structured.layers.windows import reach

_conv_loop = stub.compiled("conv", "conv")
_gradient_loop = stub.compiled("conv", "weight_gradient")

Sizes = tuple[int, ...]
Three = tuple[Tensor | None, Tensor | None, Tensor | None]


def convolution(
    key_set: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Tensor:  # fmt: skip
    op, table = "convolution", operators.convolution.table
    operands = [None if x is None else (x._geometry, x._device) for x in (input, weight, bias)]
    stride = arguments.ints(op, "stride", stride)
    padding = arguments.ints(op, "padding", padding)
    dilation = arguments.ints(op, "dilation", dilation)
    more = arguments.ints(op, "output_padding", output_padding) if transposed else (0,)
    groups = arguments.integer(op, "groups", groups)
    numbers = (stride, padding, dilation, transposed, more, groups)
    key = (*operands, *numbers)
    plan = table.plans.get(key)
    if plan is None:
        plan = _planned(op, input, weight, bias, *numbers)
        table.remember(key, plan)
    steps, pads, gaps, more, out, sizes, form = plan
    made = None
    if 0 in out:  # In a transposed convolution, padding can remove all output elements.
        return calls.contiguous(calls.new_zeros(input, sizes), form)
    x, w, b = wide(input), wide(weight), None if bias is None else wide(bias)
    if _has_loops(x) and x._geometry.numel and 0 not in sizes:
        made = _new(op, x, sizes, form)
        arrays = [None if t is None else t._get_array() for t in (x, w, b, made)]
        if not _conv_loop(*arrays, steps, pads, gaps, groups, transposed):
            made = None
    if made is None:
        made = _composed(x, w, b, out, steps, pads, gaps, transposed, more, groups)
    return calls.contiguous(cast(made, input._geometry.dtype), form)


def _planned(
    op: str, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Check the arguments. Return (stride, padding, dilation, output padding, spatial sizes of the
    result, all sizes of the result, memory format of the result). Each of the first four has one
    number per spatial dimension."""
    count = weight._geometry.ndim - 2
    _check(op, input, weight, bias, count, transposed, groups)
    steps = per_dim(op, "stride", stride, count, 1)
    gaps = per_dim(op, "dilation", dilation, count, 1)
    pads = per_dim(op, "padding", padding, count)
    more = per_dim(op, "output_padding", output_padding, count)
    if transposed and any(m >= max(s, d) for m, s, d in zip(more, steps, gaps)):
        rule = "be smaller than stride or dilation"
        raise errors.must(op, "output_padding", rule, output_padding)
    out = _output_sizes(op, input, weight, steps, pads, gaps, transposed, more)
    outer, inner = weight._geometry.sizes[:2]
    sizes = (input._geometry.sizes[0], inner * groups if transposed else outer, *out)
    return steps, pads, gaps, more, out, sizes, _format(input, weight, count)


def _output_sizes(
    op: str, input: Tensor, weight: Tensor, steps: Sizes, pads: Sizes, gaps: Sizes,
    transposed: bool, more: Any,
) -> list[int]:  # fmt: skip
    given, kernel = input._geometry.sizes[2:], weight._geometry.sizes[2:]
    reach = [d * (k - 1) for d, k in zip(gaps, kernel)]
    whole = [(n - 1) * s + 1 if n else 0 for n, s in zip(given, steps)]
    if transposed:
        out = [n + r - 2 * p + m for n, r, p, m in zip(whole, reach, pads, more)]
    else:
        out = [(n + 2 * p - r - 1) // s + 1 for n, s, r, p in zip(given, steps, reach, pads)]
    if min(out) < (0 if transposed and 0 not in given else 1):
        rule = f"be as large as the kernel {list(kernel)} that dilation spreads, with its padding"
        raise errors.wrong_shape(op, "input", rule, input)
    return out


def _is_real(x: Tensor) -> bool:
    return x._geometry.dtype.category == FLOATING


def _has_loops(x: Tensor) -> bool:
    return x._device is CPU and _is_real(x)


def _new(op: str, like: Tensor, sizes: Sizes, form: Any) -> Tensor:
    strides = formats.strides_for(op, sizes, form)
    return allocate(geometry(sizes, strides, like._geometry.dtype), CPU)


def _composed(
    x: Tensor, w: Tensor, bias: Tensor | None, out: Any, steps: Sizes, pads: Sizes, gaps: Sizes,
    transposed: bool, more: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Compute a convolution as products of the weights and of copied windows."""
    count = len(steps)
    none = (1,) * count
    spread = Spread(pads, pads, none)
    if transposed:
        w = _turned_round(w, groups)
        low = [d * (k - 1) - p for d, k, p in zip(gaps, w._geometry.sizes[2:], pads)]
        spread = Spread(tuple(low), tuple([n + m for n, m in zip(low, more)]), steps)
        steps = none
    kernel = w._geometry.sizes[2:]
    made = correlate(x, w, Windows(kernel, steps, gaps, tuple(out), groups, spread))
    if bias is not None:
        made = made + calls.reshape(bias, (1, -1, *[1] * count))
    return made


def _check(
    op: str, input: Tensor, weight: Tensor, bias: Tensor | None, count: int, transposed: bool,
    groups: int,
) -> None:  # fmt: skip
    if count < 1 or input._geometry.ndim != count + 2:
        rule = f"have weight's {weight._geometry.ndim} dimensions, at least 3"
        raise errors.wrong_shape(op, "input", rule, input)
    for arg, x in (("weight", weight), ("bias", bias)):
        if x is not None:
            arguments.check_alike(op, "input", input, arg, x)
    if input._geometry.dtype.category == BOOL:
        raise errors.wrong_dtype(op, "input", "not be bool", input)
    channels, (outer, inner) = input._geometry.sizes[1], weight._geometry.sizes[:2]
    if groups < 1 or outer % groups:
        raise errors.must(op, "groups", f"be positive and divide weight's {outer}", groups)
    wanted, made = (outer, inner * groups) if transposed else (inner * groups, outer)
    if channels != wanted:
        raise errors.wrong_shape(op, "input", f"have {wanted} channels", input)
    if bias is not None and bias._geometry.sizes != (made,):
        raise errors.wrong_shape(op, "bias", f"have sizes [{made}]", bias)


def _format(input: Tensor, weight: Tensor, count: int) -> Any:
    for x in (input, weight):
        form = suggest_memory_format(x)
        if form is not formats.contiguous_format:
            return form
    return formats.contiguous_format


def _turned_round(weight: Tensor, groups: int) -> Tensor:
    """Reverse and transpose the weights of a transposed convolution, as the equivalent plain
    convolution needs them."""
    outer, inner, *kernel = weight._geometry.sizes
    each = calls.reshape(weight, (groups, outer // groups, inner, *kernel))
    turned = calls.flip(calls.transpose_int(each, 1, 2), tuple(range(3, 3 + len(kernel))))
    return calls.reshape(turned, (groups * inner, outer // groups, *kernel))


# --- derivative -----------------------------------------------------------------------------------


def convolution_backward(
    key_set: int, grad_output: Tensor, input: Tensor, weight: Tensor, bias_sizes: Any, stride: Any,
    padding: Any, dilation: Any, transposed: bool, output_padding: Any, groups: int,
    output_mask: Any,
) -> Three:  # fmt: skip
    """Return the gradients of input, weight and bias. The gradient of the input is a transposed
    convolution, or a plain one if the forward convolution is transposed. The gradient of the weight
    is a convolution that sums over the samples.
    """
    op, count = "convolution_backward", weight._geometry.ndim - 2
    for arg, x in (("grad_output", grad_output), ("input", input)):
        if x._geometry.ndim != count + 2:
            raise errors.wrong_shape(op, arg, f"have {count + 2} dimensions, as weight has", x)
    steps, gaps = (per_dim(op, "stride", stride, count), per_dim(op, "dilation", dilation, count))
    pads = per_dim(op, "padding", padding, count)
    if len(output_mask) != 3:
        raise errors.must(op, "output_mask", "hold three bools", output_mask)
    of_input = of_weight = of_bias = None
    input, weight = calls.conj_physical(input), calls.conj_physical(weight)
    kernel, given = weight._geometry.sizes[2:], input._geometry.sizes[2:]
    if output_mask[0] and 0 in grad_output._geometry.sizes[2:]:
        of_input = calls.new_zeros(input, input._geometry.sizes)
    elif output_mask[0]:
        out = grad_output._geometry.sizes[2:]
        more = [0] * count
        if not transposed:
            more = [
                n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
                for n, m, s, p, d, k in zip(given, out, steps, pads, gaps, kernel)
            ]
        of_input = _of_input(
            grad_output, weight, steps, pads, gaps, transposed, more, given, groups
        )
    if output_mask[1]:
        x, g = (grad_output, input) if transposed else (input, grad_output)
        find = calls._convolution_weight_gradient if _is_real(x) else _of_weight
        of_weight = find(x, g, kernel, steps, pads, gaps, groups)
    if output_mask[2]:
        dims = (0, *range(2, count + 2))
        of_bias = cast(calls.sum_dim_IntList(wide(grad_output), dims, False), input._geometry.dtype)
    return of_input, of_weight, of_bias


def _check_gradient(x: Tensor, grad: Tensor, kernel: Any, groups: int) -> None:
    op, ndim = "_convolution_weight_gradient", len(kernel) + 2
    for arg, t in (("input", x), ("grad_output", grad)):
        if t._geometry.ndim != ndim:
            raise errors.wrong_shape(op, arg, f"have {ndim} dimensions, as weight has", t)
        if not _is_real(t):
            raise errors.wrong_dtype(op, arg, "be floating", t)
        if groups < 1 or t._geometry.sizes[1] % groups:
            raise errors.must(op, "groups", "be positive and divide the channels", groups)
    arguments.check_alike(op, "input", x, "grad_output", grad)
    if grad._geometry.sizes[0] != x._geometry.sizes[0]:
        raise errors.wrong_shape(op, "grad_output", "have as many samples as input", grad)


def _of_input(
    grad: Tensor, weight: Tensor, steps: Sizes, pads: Sizes, gaps: Sizes, transposed: bool,
    more: list[int], given: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of a convolution's input.

    The stride may leave elements at the end that no window reads. Their gradient is 0.
    """
    fits = all(m < max(s, d) for m, s, d in zip(more, steps, gaps))
    least = more if fits else [0] * len(more)
    made = calls.convolution(grad, weight, None, steps, pads, gaps, not transposed, least, groups)
    if not fits:
        for d, m in enumerate(more, 2):
            sizes = list(made._geometry.sizes)
            sizes[d] = m
            made = calls.cat([made, calls.new_zeros(made, sizes)], d)
    # If output_padding is not smaller than the stride, `made` is longer than the input. Cut off the
    # additional elements.
    for d, n in enumerate(given, 2):
        made = calls.slice_Tensor(made, d, 0, n, 1)
    return made


def _convolution_weight_gradient(
    key_set: int, input: Tensor, grad_output: Tensor, kernel_size: Any, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Tensor:  # fmt: skip
    """Return the gradient of the weights. Autograd cannot differentiate a compiled loop. This
    function is an operator with a derivative formula, so that second derivatives exist."""
    _check_gradient(input, grad_output, kernel_size, groups)
    count = len(kernel_size)
    op = "_convolution_weight_gradient"
    steps = per_dim(op, "stride", stride, count, 1)
    gaps = per_dim(op, "dilation", dilation, count, 1)
    pads = per_dim(op, "padding", padding, count)
    outer, inner = grad_output._geometry.sizes[1], input._geometry.sizes[1] // groups
    if _has_loops(input) and input._geometry.numel and grad_output._geometry.numel:
        x, grad = wide(input), wide(grad_output)
        made = calls.new_empty(x, (outer, inner, *kernel_size))
        arrays = [t._get_array() for t in (x, grad, made)]
        if _gradient_loop(*arrays, steps, pads, gaps, groups):
            return cast(made, input._geometry.dtype)
    x, out, none = wide(input), grad_output._geometry.sizes[2:], (1,) * count
    at = Windows(tuple(kernel_size), steps, gaps, out, groups, Spread(pads, pads, none))
    given = at.spread.sizes(input._geometry.sizes[2:])
    if input._geometry.numel and any(
        n > m for n, m in zip(reach(at.kernel, steps, gaps, out), given) if n > 0
    ):
        rule = "have no more windows than the padded input"
        raise errors.wrong_shape(op, "grad_output", rule, grad_output)
    return cast(weight_gradient(x, wide(grad_output), at), input._geometry.dtype)


def _of_weight(
    x: Tensor, grad: Tensor, kernel: Sizes, steps: Sizes, pads: Sizes, gaps: Sizes, groups: int
) -> Tensor:
    """Return the gradient of the weights, computed as a convolution. The samples of this
    convolution are the channels of x, and its channels are the samples of x. Stride and dilation
    are exchanged."""
    samples, channels, *sizes = x._geometry.sizes
    outer, *out = grad._geometry.sizes[1:]
    inner, count = channels // groups, len(kernel)
    spatial = tuple(range(3, 3 + count))
    if not samples or not x._geometry.numel or not grad._geometry.numel:
        return calls.new_zeros(x, (outer, inner, *kernel))
    turned = calls.permute(calls.reshape(x, (samples, groups, inner, *sizes)), (2, 1, 0, *spatial))
    as_input = calls.reshape(turned, (inner, groups * samples, *sizes))
    turned = calls.permute(
        calls.reshape(grad, (samples, groups, outer // groups, *out)), (1, 2, 0, *spatial)
    )
    as_weight = calls.reshape(turned, (outer, samples, *out))
    zeros = (0,) * count
    made = calls.convolution(as_input, as_weight, None, gaps, pads, steps, False, zeros, groups)
    for d, k in enumerate(kernel, 2):
        made = calls.slice_Tensor(made, d, 0, k, 1)
    made = calls.reshape(made, (inner, groups, outer // groups, *kernel))
    made = calls.permute(made, (1, 2, 0, *spatial))
    return calls.reshape(made, (outer, inner, *kernel))


# --- public functions -----------------------------------------------------------------------------


def _batched(op: str, input: Tensor, count: int) -> tuple[Tensor, bool]:
    """Return the input with a dimension of samples, and True if the input already had this
    dimension."""
    if input._geometry.ndim not in (count + 1, count + 2):
        rule = f"have {count + 1} dimensions, or {count + 2} with samples"
        raise errors.wrong_shape(op, "input", rule, input)
    is_batched = input._geometry.ndim == count + 2
    return (input if is_batched else calls.unsqueeze(input, 0)), is_batched


def _conv(
    key_set: int, count: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, dilation: Any, groups: int, output_padding: Any = None,
) -> Tensor:  # fmt: skip
    transposed = output_padding is not None
    op = f"conv_transpose{count}d" if transposed else f"conv{count}d"
    x, is_batched = _batched(op, input, count)
    if weight._geometry.ndim != count + 2:
        raise errors.wrong_shape(op, "weight", f"have {count + 2} dimensions", weight)
    if isinstance(padding, str):
        x, padding = _named_padding(op, x, weight, stride, padding, dilation, count)
    more = output_padding if transposed else (0,) * count
    made = calls.convolution(
        x, weight, bias, per_dim(op, "stride", stride, count, 1),
        per_dim(op, "padding", padding, count), per_dim(op, "dilation", dilation, count, 1),
        transposed, per_dim(op, "output_padding", more, count), groups,
    )  # fmt: skip
    return made if is_batched else calls.squeeze_dim(made, 0)


def _named_padding(
    op: str, x: Tensor, weight: Tensor, stride: Any, padding: str, dilation: Any, count: int
) -> tuple[Tensor, Sizes]:
    """Return the input and the padding for `valid` or `same`. In a dimension where `same` needs an
    odd total of padding, one zero is appended to the input."""
    if padding == "valid":
        return x, (0,) * count
    if padding != "same":
        raise errors.must(op, "padding", "be ints, 'valid' or 'same'", padding)
    if any(s != 1 for s in per_dim(op, "stride", stride, count, 1)):
        raise errors.must(op, "stride", "be 1 where padding is 'same'", stride)
    gaps = per_dim(op, "dilation", dilation, count, 1)
    reach = [d * (k - 1) for d, k in zip(gaps, weight._geometry.sizes[2:])]
    if any(r % 2 for r in reach):
        x = calls.constant_pad_nd(x, [n for r in reversed(reach) for n in (0, r % 2)], 0)
    return x, tuple([r // 2 for r in reach])


def _conv_transpose(
    key_set: int, count: int, input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any,
    padding: Any, output_padding: Any, groups: int, dilation: Any,
) -> Tensor:  # fmt: skip
    options = (stride, padding, dilation, groups, output_padding)
    return _conv(key_set, count, input, weight, bias, *options)


conv1d: Kernel = given(_conv, count=1)
conv2d: Kernel = given(_conv, count=2)
conv3d: Kernel = given(_conv, count=3)
conv_transpose1d: Kernel = given(_conv_transpose, count=1)
conv_transpose2d: Kernel = given(_conv_transpose, count=2)
conv_transpose3d: Kernel = given(_conv_transpose, count=3)
