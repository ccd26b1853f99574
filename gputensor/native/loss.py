"""Classification losses: nll_loss and its gradient; cross_entropy_loss, which is composed of other
operators.

Note [Targets outside the classes]: on the CPU, an IndexError names the first target that is not a
class. On CUDA, the host does not wait: an assertion fails in the kernel, and the next
synchronisation reports it, as in PyTorch. In both cases no memory outside the operands is read or
written. Source: aten/src/ATen/native/LossNLL.cpp.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._generated import calls, operators
from ..core import dtype as dtypes, errors
from ..core.device import CPU
from ..core.dtype import FLOATING, dtype
from ..core.geometry import contiguous_geometry
from ..dispatch.shortcuts import CPU as CPU_CALL, jumps
from ..kernels import stub
from ..kernels.cpu.quiet import run
from ..tensor.make import allocate
from ..tensor.tensor import Tensor
from ..structured import arguments
from ..structured.forms import Kernel, given
from ..structured.shortcuts import results
from .criterion import MEAN, NONE, SUM, check_reduction

IGNORE_INDEX = -100


# --- nll_loss: operands of a stub -----------------------------------------------------------------


class Targets:
    """The plan of nll_loss and nll_loss_backward. target selects one element of x in each row.

    rows, classes: the sizes of x. dtypes, stride_bytes: of x (row, class), target (row) and weight
    (class); None without a weight. nll_loss has the operands loss, total_weight (its outputs), x,
    target, weight. nll_loss_backward has the operands grad_input (its output, row-major), grad,
    target, weight, total_weight. 0 stands for a missing weight. scalars: (ignore_index,).
    grad_stride_bytes: in nll_loss_backward, the stride of the rows' gradients; 0 if all rows share
    one gradient.
    """

    __slots__ = (
        "op", "rows", "classes", "reduction", "dtypes", "stride_bytes", "common_dtype", "numel",
        "n_outputs", "grad_stride_bytes",
    )  # fmt: skip
    op: str
    rows: int
    classes: int
    reduction: int
    numel: int
    n_outputs: int

    def __init__(
        self, op: str, self_: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
        grad: Tensor | None,
    ) -> None:  # fmt: skip
        x, t = self_._geometry, target._geometry
        self.op, self.reduction = op, reduction
        self.rows, self.classes = x.sizes if x.ndim == 2 else (1, x.sizes[0])
        self.dtypes = (x.dtype, t.dtype, None if weight is None else weight._geometry.dtype)
        walk = x.stride_bytes if x.ndim == 2 else (0, x.stride_bytes[0])
        along = t.stride_bytes[0] if t.ndim else 0
        self.stride_bytes = (
            walk, (along,), None if weight is None else weight._geometry.stride_bytes,
        )  # fmt: skip
        self.grad_stride_bytes = 0
        if grad is not None and grad._geometry.ndim:
            self.grad_stride_bytes = grad._geometry.stride_bytes[0]
        self.common_dtype, self.numel, self.n_outputs = x.dtype, x.numel, 1


def _forward(
    key_set: int, op: str, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    x, place = self._geometry, self._device
    key = _key(op, reduction, ignore_index, self, target, weight)
    known = operators.nll_loss_forward.table.plans.get(key)
    if known is not None:
        each, launch = known
        loss = allocate(contiguous_geometry(each, x.dtype), place)
        total = allocate(contiguous_geometry((), x.dtype), place)
        _launch(launch, loss, total, self, target, weight, ignore_index)
        return loss, total
    ignore_index = _check(op, self, target, weight, reduction, ignore_index)
    if reduction == NONE and x.ndim == 1:
        reduction = SUM  # For a single row, the total weight is that row's weight.
    each = target._geometry.sizes if reduction == NONE else ()
    if x.ndim == 4 and self._device is not CPU:
        rows = _rows(self), calls.reshape(target, (target._geometry.numel,))
        loss, total = calls.nll_loss_forward(*rows, weight, reduction, ignore_index)
        return calls.reshape(loss, each), total
    loss = allocate(contiguous_geometry(each, x.dtype), self._device)
    total = allocate(contiguous_geometry((), x.dtype), self._device)
    if self._device is CPU:
        run(
            stub.cpu("loss").nll_loss, self._get_array(), target._get_array(),
            None if weight is None else weight._get_array(), reduction, ignore_index,
            loss._get_array(), total._get_array(),
        )  # fmt: skip
    elif self._device.type != "meta":
        launch = _bound(op, self, target, weight, reduction, None)
        if key is not None:
            operators.nll_loss_forward.table.remember(key, (each, launch))
        _launch(launch, loss, total, self, target, weight, ignore_index)
    return loss, total


def _key(op: str, reduction: Any, ignore_index: Any, *operands: Tensor | None) -> Any:
    """Return the key under which a call's launch is cached. If a call has a key, its checks depend
    only on the operands' layouts. Return None on the CPU, where launches are not cached, and if the
    checks may reject `reduction` or `ignore_index`."""
    first = operands[0]
    if first is None or first._device is CPU or type(reduction) is not int:
        return None
    if type(ignore_index) is not int or not -(1 << 63) <= ignore_index < 1 << 63:
        return None
    shapes = [None if x is None else (x._geometry, x._device) for x in operands]
    return (op, reduction, *shapes)


def _launch(
    launch: Any, loss: Tensor, total: Tensor, self: Tensor, target: Tensor, weight: Tensor | None,
    ignore_index: int,
) -> None:  # fmt: skip
    launch(
        self._device.index,
        (loss._address(), total._address(), _start(self), _start(target), _start(weight)),
        (ignore_index,),
    )  # fmt: skip


def _backward(
    key_set: int, op: str, grad_output: Tensor, self: Tensor, target: Tensor,
    weight: Tensor | None, reduction: int, ignore_index: int, total_weight: Tensor,
) -> Tensor:  # fmt: skip
    x, place, table = self._geometry, self._device, operators.nll_loss_backward.table
    key = _key(op, reduction, ignore_index, self, target, weight, grad_output, total_weight)
    launch = table.plans.get(key)
    if launch is not None:
        made = allocate(contiguous_geometry(x.sizes, x.dtype), place)
        _launch_backward(launch, made, grad_output, target, weight, total_weight, ignore_index)
        return made
    ignore_index = _check(op, self, target, weight, reduction, ignore_index)
    each = target._geometry.sizes if reduction == NONE and x.ndim > 1 else ()
    if x.ndim == 4 and reduction == NONE and grad_output._geometry.sizes != each:
        raise errors.wrong_shape(op, "grad_output", "have target's sizes", grad_output)
    _check_total(op, self, each, grad_output=grad_output, total_weight=total_weight)
    if x.ndim == 4 and self._device is not CPU:
        n, c, h, w = x.sizes
        grad = calls.reshape(grad_output, (n * h * w,)) if reduction == NONE else grad_output
        rows = _rows(self), calls.reshape(target, (n * h * w,))
        made = calls.nll_loss_backward(grad, *rows, weight, reduction, ignore_index, total_weight)
        return calls.contiguous(calls.movedim_int(calls.reshape(made, (n, h, w, c)), -1, 1))
    made = allocate(contiguous_geometry(x.sizes, x.dtype), self._device)
    if self._device is CPU:
        run(
            stub.cpu("loss").nll_loss_backward, grad_output._get_array(), target._get_array(),
            None if weight is None else weight._get_array(), reduction, ignore_index,
            total_weight._get_array(), made._get_array(),
        )  # fmt: skip
    elif self._device.type != "meta" and x.numel:
        launch = _bound(op, self, target, weight, reduction, grad_output)
        if key is not None:
            table.remember(key, launch)
        _launch_backward(launch, made, grad_output, target, weight, total_weight, ignore_index)
    return made


def _launch_backward(
    launch: Any, made: Tensor, grad: Tensor, target: Tensor, weight: Tensor | None, total: Tensor,
    ignore_index: int,
) -> None:  # fmt: skip
    launch(
        made._device.index,
        (made._address(), grad._address(), _start(target), _start(weight), total._address()),
        (ignore_index,),
    )  # fmt: skip


nll_loss_forward: Kernel = given(_forward, op="nll_loss")
nll_loss_backward: Kernel = given(_backward, op="nll_loss_backward")
nll_loss2d_forward: Kernel = given(_forward, op="nll_loss2d")
nll_loss2d_backward: Kernel = given(_backward, op="nll_loss2d_backward")


def _rows(self: Tensor) -> Tensor:
    """Return the pixels of planes (N, C, H, W) as rows (N H W, C)."""
    n, c, h, w = self._geometry.sizes
    return calls.reshape(calls.movedim_int(self, 1, -1), (n * h * w, c))


def _bound(
    op: str, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    grad: Tensor | None,
) -> Any:  # fmt: skip
    targets = Targets(op, self, target, weight, reduction, grad)
    return stub.bind("loss", op, self._device.type, targets)


def _start(x: Tensor | None) -> int:
    return 0 if x is None or x._geometry.numel == 0 else x._address()


def _check(
    op: str, self: Tensor, target: Tensor, weight: Tensor | None, reduction: Any, ignore_index: Any
) -> int:
    """Check the operands and the reduction. Return ignore_index."""
    x, t = self._geometry, target._geometry
    is_of_planes = op.startswith("nll_loss2d")
    arguments.check_is_floating(op, "self", self)
    if x.ndim not in ((4,) if is_of_planes else (1, 2)):
        dims = "four dimensions, (N, C, H, W)" if is_of_planes else "one or two dimensions"
        raise errors.wrong_shape(op, "self", f"have {dims}", self)
    if t.dtype not in (dtypes.int64, dtypes.uint8):
        raise errors.wrong_dtype(op, "target", "hold classes as int64 or uint8", target)
    wanted = x.sizes[:1] + x.sizes[2:] if x.ndim > 1 else ()
    classes = x.sizes[1:2] if x.ndim > 1 else x.sizes
    if t.sizes != wanted and not (x.ndim == 1 and t.sizes == (1,)):
        each = (
            "self's sizes but for the classes," if is_of_planes else "a class for each row, sizes"
        )
        raise errors.wrong_shape(op, "target", f"have {each} {list(wanted)}", target)
    arguments.check_device(op, "self", self, "target", target)
    _check_weight(op, self, weight, classes)
    check_reduction(op, reduction)
    return arguments.integer(op, "ignore_index", ignore_index)


def _check_weight(op: str, self: Tensor, weight: Tensor | None, classes: tuple[int, ...]) -> None:
    if weight is None:
        return
    arguments.check_device(op, "self", self, "weight", weight)
    w, of = weight._geometry, self._geometry.dtype
    if w.sizes != classes or w.dtype is not of:
        wanted = errors.describe_layout(contiguous_geometry(classes, of))
        raise errors.wrong_shape(op, "weight", f"be {wanted}, a number for each class", weight)


def _check_total(op: str, self: Tensor, sizes: tuple[int, ...], **given: Tensor) -> None:
    """Check that grad_output has these sizes. Check that grad_output and the total weight have
    self's dtype and device."""
    of = self._geometry.dtype
    for arg, x in given.items():
        arguments.check_device(op, "self", self, arg, x)
        wanted = () if arg == "total_weight" else sizes
        if x._geometry.sizes != wanted or x._geometry.dtype is not of:
            rule = f"be {errors.describe_layout(contiguous_geometry(wanted, of))}"
            raise errors.must(op, arg, rule, x)


# --- composed of other operators ----------------------------------------------------------------


def nll_loss_nd(
    key_set: int, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN,
    ignore_index: int = IGNORE_INDEX,
) -> Tensor:  # fmt: skip
    """Return the loss of an input with any number of dimensions. Dimension 1 has the classes. All
    other dimensions together are the rows."""
    sizes = self._geometry.sizes
    if len(sizes) <= 2:
        table = operators.nll_loss_nd.table
        made = calls.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]
        if weight is None and made._device is CPU and type(made) is Tensor:
            args = (self, target, weight, reduction, ignore_index)
            results.learn(table, nll_loss_nd, args, made, _losing(made, *args[3:]), is_new=True)
        return made
    wanted = (sizes[0], *sizes[2:])
    if target._geometry.sizes != wanted:
        rule = f"have self's sizes but for the classes, {list(wanted)}"
        raise errors.wrong_shape("nll_loss", "target", rule, target)
    if len(sizes) != 4:
        plane = (1, math.prod(sizes[2:]))
        self = calls.reshape(self, (*sizes[:2], *plane))
        target = calls.reshape(target, (sizes[0], *plane))
    found = calls.nll_loss2d(self, target, weight, reduction, ignore_index)
    return calls.reshape(found, wanted) if reduction == NONE else found


def _losing(made: Tensor, reduction: int, ignore_index: int) -> Any:
    """Return a function that takes the arrays of an input and its targets, and returns the array of
    the loss `made`."""
    sizes, element, loop = made._geometry.sizes, made._geometry.dtype.np, stub.cpu("loss").nll_loss
    reduction = SUM if reduction == NONE and not sizes else reduction  # a single row

    def compute(x: Any, target: Any) -> Any:
        loss, total = np.empty(sizes, element), np.empty((), element)
        loop(x, target, None, reduction, ignore_index, loss, total)
        return loss

    return compute


jumps(nll_loss_nd, lambda: ((operators.nll_loss_forward, CPU_CALL, nll_loss_forward),))


def cross_entropy_loss(
    key_set: int, self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = MEAN,
    ignore_index: int = IGNORE_INDEX, label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    if not 0 <= label_smoothing <= 1:
        raise errors.must("cross_entropy", "label_smoothing", "be in [0, 1]", label_smoothing)
    dim = 0 if self._geometry.ndim == 1 else 1
    if not self._geometry.ndim:
        raise errors.wrong_shape("cross_entropy", "self", "have a dimension of classes", self)
    is_plain = self._geometry.sizes != target._geometry.sizes and not label_smoothing
    if is_plain and self._geometry.ndim in (1, 2, 4):
        return calls._cross_entropy(self, target, weight, reduction, ignore_index)[0]
    logs = calls.log_softmax_int(self, dim)
    if self._geometry.sizes == target._geometry.sizes:
        return _of_probabilities(
            logs, target, weight, reduction, ignore_index, label_smoothing, dim
        )
    of_targets = calls.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return of_targets
    return _smoothed(
        logs, of_targets, target, weight, reduction, ignore_index, label_smoothing, dim
    )


def _cross_entropy(
    key_set: int, self: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    ndim = self._geometry.ndim
    if ndim not in (1, 2, 4):
        raise errors.wrong_shape("cross_entropy", "self", "have 1, 2 or 4 dimensions", self)
    logs = calls.log_softmax_int(self, 0 if ndim == 1 else 1)
    forward = calls.nll_loss2d_forward if ndim == 4 else calls.nll_loss_forward
    loss, total = forward(logs, target, weight, reduction, ignore_index)
    return loss, logs, total


def _cross_entropy_backward(
    key_set: int, grad_output: Tensor, log_probabilities: Tensor, target: Tensor,
    weight: Tensor | None, reduction: int, ignore_index: int, total_weight: Tensor,
) -> Tensor:  # fmt: skip
    logs, ndim = log_probabilities, log_probabilities._geometry.ndim
    dim, backward = 0 if ndim == 1 else 1, calls.nll_loss_backward
    if ndim == 4:
        backward = calls.nll_loss2d_backward
    made = backward(grad_output, logs, target, weight, reduction, ignore_index, total_weight)
    if made._device is not CPU:
        return calls._log_softmax_backward_data(made, logs, dim, logs._geometry.dtype)
    # Compute in place: with many classes, the allocation of an array costs more than the
    # computation.
    array = made._get_array()
    run(stub.cpu("softmax").log_softmax_backward, array, logs._get_array(), dim, array)
    return made


def _share(smoothing: float, classes: int) -> float:
    """Return the weight that label smoothing gives each class; inf if there are no classes, as in
    PyTorch."""
    return smoothing / classes if classes else math.inf


def _along(weight: Tensor, dim: int, ndim: int) -> Tensor:
    """Return the class weights, viewed so that they broadcast along dimension `dim`."""
    sizes = tuple([-1 if d == dim else 1 for d in range(ndim)])
    return calls.reshape(weight, sizes)


def _of_probabilities(
    logs: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int,
    smoothing: float, dim: int,
) -> Tensor:  # fmt: skip
    if target._geometry.dtype.category < FLOATING:
        rule = "be floating where it holds probabilities"
        raise errors.wrong_dtype("cross_entropy", "target", rule, target)
    if ignore_index >= 0:
        rule = "be left out where target holds probabilities"
        raise errors.must("cross_entropy", "ignore_index", rule, ignore_index)
    classes = logs._geometry.sizes[dim]
    if smoothing:
        target = target * (1 - smoothing) + _share(smoothing, classes)
    terms = logs * target
    if weight is not None:
        terms = terms * _along(weight, dim, logs._geometry.ndim)
    if reduction == NONE:
        return -calls.sum_dim_IntList(terms, (dim,), False)
    rows = logs._geometry.numel // classes if classes else 0
    total = -calls.sum(terms)
    return total / rows if reduction == MEAN else total


def _smoothed(
    logs: Tensor, of_targets: Tensor, target: Tensor, weight: Tensor | None, reduction: int,
    ignore_index: int, smoothing: float, dim: int,
) -> Tensor:  # fmt: skip
    """Return the loss with label smoothing: (1 - smoothing) times the targets' loss, plus smoothing
    times the mean loss over all classes."""
    terms = logs if weight is None else logs * _along(weight, dim, logs._geometry.ndim)
    each = -calls.sum_dim_IntList(terms, (dim,), False)
    ignored = calls.eq_Tensor(target, ignore_index)
    each = calls.where_self(ignored, 0.0, each)
    if reduction == MEAN:
        each = calls.sum(each) / _total_weight(target, ignored, weight, logs._geometry.dtype)
    elif reduction == SUM:
        each = calls.sum(each)
    return of_targets * (1 - smoothing) + each * _share(smoothing, logs._geometry.sizes[dim])


def _total_weight(target: Tensor, ignored: Tensor, weight: Tensor | None, of: dtype) -> Tensor:
    """Return the sum of the weights of all targets that are not ignored. Without weights, return
    the number of these targets."""
    if weight is None:
        return calls.sum(calls.to_dtype(~ignored, of))
    rows = (target._geometry.numel,)
    classes = calls.to_dtype(calls.where_self(ignored, 0, target), dtypes.int64)
    each = calls.index_select(weight, 0, calls.reshape(classes, rows))
    return calls.sum(calls.where_self(calls.reshape(ignored, rows), 0.0, each))
