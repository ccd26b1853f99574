"""Chains on the CPU by loops that g++ builds, where somebody asked for them by name.

Arithmetic parts of a chain become one loop each, of the same functors as a kernel on CUDA
(kernels/cuda/chain_source.py), built as kernels/cpu/copy_compiled.py has its loops built. The
other operators stay NumPy's, block by block between them. What is no flat walk, and a chain with
less to gain, is left to cpu.py.

Note [The bits of NaN]
IEEE 754 says what each of these operators gives, to the bit, but for which NaN: of two operands
that are NaN a compiler takes either. So a loop says whether a stored number is NaN, and NumPy's
loops then do that block again. A result that lies where an operand does is copied there last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import bool_, dtype, float32, float64, int32, int64, uint8
from ..kernels import stub
from ..kernels.cpu import copy_compiled, quiet
from ..kernels.cuda import chain_source, module, variants
from ..runtime import cpu
from ..tensor.tensor import Tensor
from . import cpu_body, cuda
from .chain import Chain, Instruction

# Of which a functor gives the bits that NumPy's loop gives: sums, products, quotients, roots,
# comparisons, what moves or tests bits; not what tells one NaN from another. tests/fusion/
# test_native.py holds each against NumPy.
LOOPS = {
    "unary": frozenset(
        (
            "abs", "bitwise_not", "isfinite", "isinf", "isnan", "isneginf", "isposinf",
            "logical_not", "neg", "reciprocal", "relu", "sqrt",
        )
    ),
    "binary": frozenset(
        ("add", "add_alpha", "sub_alpha", "bitwise_and", "bitwise_or", "bitwise_xor", "div", "mul",
         "sub")
    ),
    "comparison": frozenset(
        ("eq", "ge", "gt", "le", "logical_and", "logical_or", "logical_xor", "lt", "ne")
    ),
    "ternary": frozenset(("addcdiv", "addcmul", "lerp")),
    "where": frozenset(("where",)),
    "copy": frozenset(("copy",)),
}  # fmt: skip
DTYPES = frozenset((bool_, uint8, int32, int64, float32, float64))
# Of a chain: below, what is won is not worth a compiler.
_FROM = 1 << 14

_PRELUDE = """
#include <cmath>
#define __device__
#define __host__
#define __global__ static
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
struct uint2 { unsigned x, y; };
struct uint3 { unsigned x, y, z; };
struct uint4 { unsigned x, y, z, w; };
static const uint3 threadIdx = {}, blockIdx = {}, blockDim = {}, gridDim = {};
void __syncthreads();
void __syncwarp();
unsigned __byte_perm(unsigned, unsigned, unsigned);
unsigned __funnelshift_r(unsigned, unsigned, unsigned);
template <class T> T __ldg(const T*);
"""


class _Loop:
    """Instructions that are one loop. inputs: values that it reads, from outside; stores: values
    that it leaves. body, packing: as cuda.py writes them."""

    __slots__ = ("steps", "inputs", "stores", "body", "packing", "repeats", "call")
    body: Any
    call: Any

    def __init__(self, chain: Chain, first: int, last: int) -> None:
        count = len(chain.inputs)
        steps = chain.instructions[first:last]
        made = range(count + first, count + last)
        self.steps = range(first, last)
        self.inputs = list(dict.fromkeys(
            [x for step in steps for x in step.operands if x >= 0 and x not in made]
        ))  # fmt: skip
        later = {x for step in chain.instructions[last:] for x in step.operands} | {*chain.stores}
        self.stores = [x for x in made if x in later]
        number = {x: n for n, x in enumerate(self.inputs)}
        number.update({x: len(self.inputs) + n for n, x in enumerate(made)})
        part = Chain(
            chain.device, tuple([chain.geometry(x) for x in self.inputs]), chain.scalars,
            tuple([
                Instruction(x.what, tuple([number.get(n, n) for n in x.operands]), x.params)
                for x in steps
            ]),
            tuple([number[x] for x in self.stores]),
        )  # fmt: skip
        self.body, self.packing = cuda.written(part)
        self.repeats = [chain.geometry(x).numel == 1 for x in self.inputs]
        self.call = None

    def numbers(self, scalars: list[Any]) -> bytes:
        return b"".join([pack(scalars[~source]) for _, source, pack in self.packing])


def prepare(chain: Chain) -> Callable[[list[Tensor], list[Tensor], list[Any]], None] | None:
    """What runs a chain with at least one loop of two operators; None where there is none. See Note
    [An executor]. Raises: DeviceError without g++."""
    parts = _parts(chain)
    if parts is None:
        return None
    for part in parts:
        if isinstance(part, _Loop):
            part.call = _compiled(part)
    return _Walk(chain, parts).run


def source(chain: Chain) -> str | None:
    """Which operators are a loop, with its functor, and which stay NumPy's."""
    parts, count = _parts(chain), len(chain.inputs)
    if parts is None:
        return None
    lines = []
    for part in parts:
        if isinstance(part, _Loop):
            of = ", ".join([f"v{count + n}" for n in part.steps])
            lines += [f"one loop: {of}", chain_source.functor(part.body)]
        else:
            lines.append(f"NumPy's: v{count + part}")
    return "\n".join(lines)


def _parts(chain: Chain) -> list[_Loop | int] | None:
    """Loops, and the numbers of instructions between them."""
    if chain.walk.numel < _FROM or not _is_flat(chain):
        return None
    parts: list[_Loop | int] = []
    number, count = 0, len(chain.instructions)
    while number < count:
        last = number
        while last < count and _is_arithmetic(chain, chain.instructions[last]):
            last += 1
        if last - number > 1:
            made = _Loop(chain, number, last)
            if made.body is not None and made.inputs and made.stores:
                parts.append(made)
                number = last
                continue
        parts += range(number, max(last, number + 1))
        number = max(last, number + 1)
    return parts if any([isinstance(part, _Loop) for part in parts]) else None


def whole(chain: Chain) -> _Loop | None:
    """The one loop that a chain is, of however few elements; None where it is not one."""
    steps = chain.instructions
    if len(steps) < 2 or not _is_flat(chain) or not all([_is_arithmetic(chain, x) for x in steps]):
        return None
    made = _Loop(chain, 0, len(steps))
    return made if made.body is not None and made.inputs and made.stores else None


def _is_flat(chain: Chain) -> bool:
    walk = chain.walk
    return all([
        x.numel == 1 or x.sizes == walk.sizes and x.strides == walk.strides
        for x in (*chain.inputs, *map(chain.geometry, chain.stores))
    ])  # fmt: skip


def _is_arithmetic(chain: Chain, step: Instruction) -> bool:
    what = step.what
    kinds = {chain.geometry(x).dtype for x in step.operands if x >= 0}
    return (
        what.loop in LOOPS.get(what.family, ())
        and {*kinds, what.compute, what.result} <= DTYPES
        and stub.registered(what.family, what.loop, "cpu") is None
        and (what.family != "copy" or _is_exact(kinds.pop(), what.result))
        and not (what.loop == "div" and not what.compute.is_floating_point)
    )


def _is_exact(source: dtype, to: dtype) -> bool:
    """Whether a cast needs no rule of ours."""
    return not source.is_floating_point or to.is_floating_point or to is bool_


class _Walk:
    """A chain's parts over blocks of its elements."""

    def __init__(self, chain: Chain, parts: list[_Loop | int]) -> None:
        self.chain, self.parts, self.n_inputs = chain, parts, len(chain.inputs)
        self.order = sorted(range(chain.walk.ndim), key=lambda d: -chain.walk.strides[d])
        self.block = cpu_body.block_of(chain.walk.numel)
        self.place = {x: n for n, x in reversed([*enumerate(chain.stores)])}
        # What parts leave: its dtype, and the buffer that it has where it is not stored.
        self.kept: dict[int, Any] = {}
        self.buffer: dict[int, int] = {}
        self.buffers = self._buffers()

    def _buffers(self) -> int:
        """Gives values buffers, and says how many; one is used again after the last part that reads
        its value."""
        reads = [
            part.inputs if isinstance(part, _Loop) else self.chain.instructions[part].operands
            for part in self.parts
        ]
        last = {x: n for n, read in enumerate(reads) for x in read}
        free: list[int] = []
        used = 0
        for n, part in enumerate(self.parts):
            for x in part.stores if isinstance(part, _Loop) else [self.n_inputs + part]:
                self.kept[x] = self.chain.geometry(x).dtype.np
                if x not in self.place:
                    if not free:
                        free.append(used)
                        used += 1
                    self.buffer[x] = free.pop()
            free += [self.buffer[x] for x in {*reads[n]} if last[x] == n and x in self.buffer]
        return used

    def run(self, inputs: list[Tensor], outputs: list[Tensor], scalars: list[Any]) -> None:
        given, results = ([self._flat(x) for x in tensors] for tensors in (inputs, outputs))
        numbers = [
            ctypes.create_string_buffer(part.numbers(scalars) or b"\0")
            for part in self.parts if isinstance(part, _Loop)
        ]  # fmt: skip
        begins = {cpu.address_of(x) for x in given}
        aside = {x for x, n in self.place.items() if cpu.address_of(results[n]) in begins}
        numel = self.chain.walk.numel

        def make() -> Callable[[int], None]:
            size = min(self.block, numel)
            widest = max([of.itemsize for of in self.kept.values()])
            mine = cpu_body.Pool(self.buffers + len(aside), size * widest)
            places = self.buffer | {x: n for n, x in enumerate(aside, self.buffers)}
            scratch = {x: mine[n].view(self.kept[x])[:size] for x, n in places.items()}

            def block(index: int, _: Any = mine) -> None:  # they are its own as long as it is there
                part = slice(index * size, min((index + 1) * size, numel))
                values = {
                    n: x if x.size == 1 else x[part] for n, x in enumerate(given)
                }  # fmt: skip
                for x in self.kept:
                    found = scratch.get(x)
                    values[x] = (
                        results[self.place[x]][part] if found is None
                        else found[: part.stop - part.start]
                    )  # fmt: skip
                self._block(values, scalars, numbers, part.stop - part.start)
                for x in aside:
                    results[self.place[x]][part] = values[x]
                for n, x in enumerate(self.chain.stores):
                    if self.place[x] != n:
                        results[n][part] = values[x]

            return block

        cpu.share(-(-numel // self.block), cpu.get_num_threads(), make)

    def _flat(self, x: Tensor) -> Any:
        array = x._get_array()
        return array.reshape(1) if array.size == 1 else array.transpose(self.order).reshape(-1)

    def _block(self, values: dict[int, Any], scalars: list[Any], numbers: Any, count: int) -> None:
        loops = iter(numbers)
        for part in self.parts:
            if not isinstance(part, _Loop):
                quiet.run(self._one, part, values, scalars, values[self.n_inputs + part])
                continue
            operands = [values[x] for x in (*part.stores, *part.inputs)]
            pointers = (ctypes.c_void_p * len(operands))(*map(cpu.address_of, operands))
            if part.call(pointers, next(loops), count):
                quiet.run(self._again, part, values, scalars, count)

    def _one(self, number: int, values: dict[int, Any], scalars: list[Any], out: Any) -> None:
        step = self.chain.instructions[number]
        given = [values[x] if x >= 0 else scalars[~x] for x in step.operands]
        step.what.entry.loop(*given, *[scalars[~x] for x in step.params], out)

    def _again(self, loop: _Loop, values: dict[int, Any], scalars: list[Any], count: int) -> None:
        """By NumPy's loops. See Note [The bits of NaN]."""
        mine = {**values}
        for number in loop.steps:
            value = self.n_inputs + number
            if value not in self.kept:
                mine[value] = np.empty(count, self.chain.geometry(value).dtype.np)
            self._one(number, mine, scalars, mine[value])


def _compiled(loop: _Loop) -> Any:
    """`call(addresses of what is stored and read, numbers, count)`: whether a stored one is NaN."""
    return copy_compiled.loop_of(text(loop), "chain", "ppn", "fuse")


def text(loop: _Loop) -> str:
    before_body = chain_source.text(loop.body).partition(module.BODY)[0]
    stores = [variants.storage(x) for x in loop.body.dtypes[: len(loop.stores)]]
    inputs = [variants.storage(x) for x in loop.body.inputs]
    count = max(1, len(loop.packing))
    # in memory of others an element may lie anywhere
    lines = [
        f"typedef {of} {name}{n}_t __attribute__((aligned(1)));"
        for name, types in (("r", stores), ("x", inputs)) for n, of in enumerate(types)
    ]  # fmt: skip
    lines += [
        'extern "C" __attribute__((visibility("default")))',
        "int chain(char* const* p, const value_slot* given, i64 count) {",
        f"  value_slot n[{count}];",
        f"  for (int k = 0; k < {count}; ++k) n[k] = given[k];",
    ]
    lines += [f"  r{n}_t* r{n} = (r{n}_t*)p[{n}];" for n in range(len(stores))]
    for n, repeats in enumerate(loop.repeats):
        at = f"p[{len(stores) + n}]"
        lines.append(
            f"  const x{n}_t x{n} = *(const x{n}_t*){at};" if repeats
            else f"  const x{n}_t* x{n} = (const x{n}_t*){at};"
        )  # fmt: skip
    read = [f"x{n}" if repeats else f"x{n}[i]" for n, repeats in enumerate(loop.repeats)]
    lines += [
        "  int has_nan = 0;", "#pragma GCC ivdep", "  for (i64 i = 0; i < count; ++i) {",
        f"    const auto v = op::{chain_source.NAME}::of({', '.join(['n', *read])});",
    ]  # fmt: skip
    for n, of in enumerate(stores):
        value = f"v.r{n}" if len(stores) > 1 else "v"
        lines.append(f"    r{n}[i] = {value};")
        if of in ("f32", "f64"):
            lines.append(f"    has_nan |= {value} != {value};")
    return "\n".join([_PRELUDE, before_body, *lines, "  }", "  return has_nan;", "}", ""])
