"""Short cut functions for CUDA; see forms.py."""

from __future__ import annotations

from collections.abc import Sequence

from .parts import (
    ARRAYS, OPERANDS, PARAMS, RECORDED, WRITTEN, each, form, ints, is_plain, kept, others, params,
    records, storage, tensor, unless,
)  # fmt: skip

CUDA_MEMORY = [
    "index, nbytes = device.index, geometry.extent * geometry.dtype.itemsize",
    "take = runtime.cuda().taker(nbytes, index)",
]
# lines that make a storage and a tensor from the allocated `memory`
ALLOCATED = [
    "storage = Storage()",
    "storage._data = memory",
    "storage._array = None",
    "storage._nbytes = nbytes",
    "storage.device = device",
    "storage.version = 0",
    *tensor("None", "CUDA_KEYS", "device", "storage"),
]


def addresses(operands: Sequence[str], storages: Sequence[str], low_bits: str) -> list[str]:
    """Return lines that compute the operands' addresses. low_bits: a mask of the address bits that
    must be 0. For other addresses, the lines leave the short cut, and the full dispatch may choose
    another kernel."""
    lines = [
        f"{x} = {storage}._data.ptr + {operand}._offset * size_{x}"
        for x, storage, operand in zip(ARRAYS, storages, operands)
    ]
    names = ARRAYS[: len(operands)]
    return [
        *lines,
        *unless(f"({' | '.join(names)}) & {low_bits}" if names[1:] else f"x & {low_bits}"),
    ]


def cuda_functional(name: str, n: int, has_number: bool = False, n_params: int = 0) -> list[str]:
    """Return the functional form. If the operator has params, the form handles calls with the
    params of the stored launch. It passes other calls to the short cut `otherwise`."""
    operands, number = OPERANDS[:n], ["other"] if has_number else []
    closed = ["geometry", "device", "launch", *each("size_{}", ARRAYS[:n])]
    closed += ["low_bits", "params", "otherwise"] if n_params else []
    setup = [*CUDA_MEMORY, "run, pack, tail = straight(launch, index)", *kept(n_params)]
    setup.append("begin, finish = around")
    given = [*operands, *number, *params(n_params)]
    names = ", ".join([*operands, *number, *PARAMS[:n_params]])
    doc = f"({names}) -> the launch's result."
    return form(name, [*closed, "around"], doc, setup, given, [
        *others(n_params, f"otherwise({names})"),
        *records(operands, [*operands, *number], keys="CUDA_KEYS", device="device"),
        *addresses(operands, each("{}._storage", operands), "low_bits" if n_params else "15"),
        "memory = take()",
        f"run(pack({', '.join(['memory.ptr', *ARRAYS[:n], *number, 'tail'])}))",
        *ALLOCATED,
        RECORDED,
    ])  # fmt: skip


def cuda_inplace(name: str, n: int, has_number: bool = False) -> list[str]:
    operands, number = OPERANDS[:n], ["other"] if has_number else []
    closed = ["device", "launch", *each("size_{}", ARRAYS[:n])]
    setup = ["run, pack, tail = straight(launch, device.index)"]
    given = [*operands, *number]
    return form(name, closed, f"({', '.join(given)}) -> self.", setup, given, [
        *is_plain(operands, "CUDA_KEYS", is_written=True, device="device"),
        *storage(operands, may_lack=False),
        *addresses(operands, ("storage", "theirs"), "15"),
        f"run(pack({', '.join(['x', *ARRAYS[:n], *number, 'tail'])}))",
        *WRITTEN,
    ])  # fmt: skip


def cuda_empty() -> list[str]:
    doc = "size -> uninitialised memory. asks: check that the device is current."
    setup = ["cuda = runtime.cuda()", *CUDA_MEMORY]
    return form("cuda_empty", ["geometry", "device", "asks"], doc, setup, ["size"], [
        *ints(),
        *unless("_now() is not PLAIN", "asks and cuda.current_device() != index"),
        "memory = take()",
        *ALLOCATED,
        "return tensor",
    ])  # fmt: skip


def cuda_empty_like() -> list[str]:
    doc = "self -> uninitialised memory; autograd does not record it."
    return form("cuda_empty_like", ["geometry", "device"], doc, CUDA_MEMORY, ["self"], [
        *unless("self._keys is not CUDA_KEYS", "self._device is not device", "_now() is not PLAIN"),
        "memory = take()",
        *ALLOCATED,
        "return tensor",
    ])  # fmt: skip
