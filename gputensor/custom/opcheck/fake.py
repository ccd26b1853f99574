"""Comparison of the Meta kernel's result with the operator's: sizes, strides and dtypes."""

from __future__ import annotations

from typing import Any

from ...autograd.modes import no_grad
from ...core import errors
from ...core.device import META, device
from ...dispatch import keys
from ...dispatch.backend_select import DENSE_KEYS, TENSOR_KEYS
from ...tensor.base import tensors_of
from ...tensor.storage import Storage, allocate_storage
from ...tensor.make import from_storage
from ...tensor.tensor import Tensor
from . import memory
from .call import Call


def check(call: Call) -> None:
    """Run the call on copies and on meta tensors. Raises: OpCheckError if the results differ."""
    operator = call.operator
    with no_grad():
        real, metas = call.copied(), _on_meta(call)
        versions = [(x, x._version) for x in metas.tensors()]
        expected = real.results(real.run())
        try:
            result = metas.run() if metas.tensors() else _at_meta(metas)
        except errors.MissingFake:
            raise
        except Exception as error:
            if operator.table.slot(keys.runtime_key("Meta"))[0] is None:
                raise errors.no_fake(operator) from error
            remedy = "make the results from sizes, strides and dtypes, as there are no data on meta"
            raise errors.opcheck_raises(operator, "Meta kernel", error, remedy) from error
        found = metas.results(result)
    _check_writes(metas, dict(versions))
    memory.check_results(metas, result, "the Meta kernel's result")
    for number, (a, b) in enumerate(zip(expected, found)):
        one, other = tensors_of(a), tensors_of(b)
        if len(one) != len(other):
            raise _differs(call, number, f"{len(one)} tensors", f"{len(other)}")
        for y, meta in zip(one, other):
            _compare(call, number, y, meta)


def _on_meta(call: Call) -> Call:
    """Return the call with meta tensors, and with "meta" for `device` arguments.

    Tensors that share memory share it on the meta device, too.
    """
    storages: dict[int, Storage] = {}

    def storage(of: Storage) -> Storage:
        return storages.setdefault(id(of), allocate_storage(of._nbytes, META))

    def change(value: Any) -> Any:
        if isinstance(value, device):
            return META
        if isinstance(value, Storage):
            return storage(value)
        if not isinstance(value, Tensor):
            return value
        there = storage(value._get_storage())
        return from_storage(there, value._offset, value._geometry, TENSOR_KEYS["meta"])

    return call.mapped(change)


def _at_meta(call: Call) -> Any:
    """Call the operator at the Meta key directly. Without tensor arguments, the dispatcher could
    not derive the Meta key from the arguments."""
    signature = call.operator.table.signature
    given = call.values
    return call.operator.redispatch(
        DENSE_KEYS["meta"], *given[: signature.n_positional], **signature.keywords_of(given)
    )


def _check_writes(metas: Call, before: dict[Tensor, int]) -> None:
    """Detect undeclared writes by version counters, because meta tensors have no bytes to
    compare."""
    written = {x._get_storage() for argument, _, x in metas.named() if argument.is_write}
    for argument, what, x in metas.named():
        if x._version != before[x] and x._get_storage() not in written:
            raise metas.wrong(
                f"the Meta kernel writes to {what}, which the schema does not declare",
                f"make the result from the sizes of '{argument.name}', and leave it as it is",
            )


def _compare(call: Call, number: int, y: Tensor, meta: Tensor) -> None:
    if not meta.is_meta:
        raise call.wrong(
            f"the Meta kernel returns result {number} on {meta.device}, where its arguments are "
            "on meta",
            "make it with new_empty or empty_like of an argument",
        )
    for what, mine, other in (
        ("sizes", tuple(y.shape), tuple(meta.shape)), ("dtype", y.dtype, meta.dtype),
        ("strides", _strides(y), _strides(meta)), ("storage_offset", y._offset, meta._offset),
    ):  # fmt: skip
        if mine != other:
            raise _differs(call, number, f"{what} {mine}", f"{other}")


def _strides(x: Tensor) -> tuple[Any, ...]:
    """Return the strides, with "*" for dimensions of size 1, whose strides do not matter."""
    if not x.numel():
        return ()
    return tuple(s if n > 1 else "*" for n, s in zip(x.shape, x.stride()))


def _differs(call: Call, number: int, real: str, fake: str) -> errors.OpCheckError:
    return call.wrong(
        f"result {number} has {real}, and the Meta kernel returns {fake}",
        "let register_fake's function return what the kernels return",
    )
