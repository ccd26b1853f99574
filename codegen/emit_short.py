"""_generated/short_forms.py: the forms of short cuts, each written out from parts they share.

A short cut does in one frame what a table, Autograd's kernel and the backend's kernel would do, so
nothing in it can be called (Note [Short cuts] in gputensor/dispatch/shortcuts.py). Here its parts
have one home each: what is asked of operands and of the thread, where their memory is, what runs,
what the tensor is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .text import WIDTH, indent, module, wrap

DOC = """The forms of short cuts. See Note [Short cuts] in dispatch/shortcuts.py.

gputensor/structured/short*.py choose among them when a plan is used again; each makes a function
with all that it needs in its cells. Other things than the plain case it answers with None."""

IMPORTS = """from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import runtime
from ..core.device import CPU
from ..dispatch.backend_select import TENSOR_KEYS, default_devices
from ..dispatch.shortcuts import LONG, ShortCut
from ..dispatch.tls import BELOW, PLAIN, state, unrecorded
from ..kernels.cpu.quiet import again, enter
from ..kernels.cuda.launch import straight
from ..tensor import differentiable
from ..tensor.make import CPU_KEYS, is_plain
from ..tensor.storage import Storage
from ..tensor.tensor import Tensor

CUDA_KEYS = TENSOR_KEYS["cuda"]
_now = state.get
_places = default_devices.get
_new = object.__new__
_empty = np.empty


def _track(source, made):
    \"\"\"Note what a view is of where some thread records nothing, and this one may be it.\"\"\"
    return differentiable.autograd.inplace_or_view.track_view(source, made)"""

OPERANDS = ("self", "other", "third")
ARRAYS = ("x", "y", "z")
PARAMS = ("a", "b", "c")
LONG_WAY = "    return None"


def short_forms() -> str:
    parts = [
        _functional("unary", 1),
        _functional("binary", 2),
        _functional("with_number", 1, has_number=True),
        _functional("one", 1, n_params=3),
        _functional("two", 2, n_params=2),
        _functional("three", 3, n_params=2),
        _reduction(),
        _inplace("unary_inplace", 1),
        _inplace("inplace", 2),
        _inplace("inplace_number", 1, has_number=True),
        _into(1),
        _into(2),
        _made("made_of_nothing", ["geometry", "array", "asks"], "array()"),
        _made("empty", ["geometry", "asks"], "_empty(sizes, element)"),
        _made("like", ["geometry", "array"], "array()"),
        _made("empty_like", ["geometry"], "_empty(sizes, element)"),
        _copied(),
        _copy_(),
        _cuda_functional("cuda_unary", 1, n_params=3),
        _cuda_functional("cuda_binary", 2),
        _cuda_functional("cuda_with_number", 1, has_number=True),
        _cuda_inplace("cuda_inplace", 2),
        _cuda_inplace("cuda_inplace_number", 1, has_number=True),
        _cuda_empty(),
        _view(),
        _part(),
        _stretch(),
    ]
    return module(DOC, IMPORTS, *("\n".join(part) for part in parts))


def _form(
    name: str, closed: Sequence[str], doc: str, setup: Iterable[str], given: Sequence[str],
    body: Iterable[str],
) -> list[str]:  # fmt: skip
    """A function of what lies in the cells, which makes `short`."""
    return [
        *wrap(f"def {name}(", _each("{}: Any", closed), ") -> ShortCut:", WIDTH),
        f'    """{doc}"""',
        *indent(setup),
        "",
        f"    def short({', '.join(given)}):",
        *indent(body, 8),
        "",
        "    return short",
    ]


def _unless(*tests: str) -> list[str]:
    """The long way where one of the tests holds."""
    line = f"if {' or '.join(tests)}:"
    if len(line) <= WIDTH - 8:
        return [line, LONG_WAY]
    first, *others = tests
    return ["if (", *indent([first, *(f"or {test}" for test in others)]), "):", LONG_WAY]


# --- parts ----------------------------------------------------------------------------------------


def _each(pattern: str, names: Iterable[str]) -> list[str]:
    return [pattern.format(name) for name in names]


def _params(n: int) -> list[str]:
    """What is passed beside the operands, each with a default: calls leave the last ones out."""
    return _each("{}=None", PARAMS[:n])


def _kept(n: int) -> list[str]:
    """The params of a short cut, in its cells."""
    nones = ", ".join(["None"] * n)
    return [f"{', '.join(_each('{}0', PARAMS[:n]))} = (*params, {nones})[:{n}]"] if n else []


def _others(n: int, on: str, is_dims: bool = False) -> list[str]:
    """Go on elsewhere where the params are not the very ones. is_dims: the first may be a tuple."""
    tests = _each("{0} is not {0}0", PARAMS[:n])
    if n and is_dims:
        tests[0] += " and (type(a) is not tuple or a != a0)"
    return [f"if {' or '.join(tests)}:", f"    return {on}"] if n else []


def _records(operands: Sequence[str], given: Sequence[str]) -> list[str]:
    """Plain operands in a plain thread; a node, where autograd knows one."""
    begin = f"now is PLAIN and (node := begin({', '.join(given)})) is LONG"
    lines = [
        "now, node = _now(), None",
        *_unless(
            *_each("{}._keys is not CPU_KEYS", operands), "now is not PLAIN and now is not BELOW"
        ),
    ]
    known = _each("{}._autograd is not None", operands)
    if len(known) == 1:
        return [*lines, f"if {known[0]} and {begin}:", LONG_WAY]
    return [*lines, f"if {' or '.join(known)}:", f"    if {begin}:", "    " + LONG_WAY]


def _is_plain(operands: Sequence[str], keys: str, is_written: bool, device: str = "") -> list[str]:
    """Operands that autograd has nothing to do for. is_written: the first one; a view that is
    written to may be one of a tensor that has a history tomorrow."""
    reads = _each("{0}._autograd is not None and not is_plain({0})", operands)
    if is_written:
        reads[0] = "self._autograd is not None"
    return _unless(
        *_each(f"{{}}._keys is not {keys}", operands),
        *(_each(f"{{}}._device is not {device}", operands) if device else ()),
        *reads,
        "_now() is not PLAIN",
    )


def _arrays(operands: Iterable[str]) -> list[str]:
    lines = []
    for x, operand in zip(ARRAYS, operands):
        lines += [
            f"{x} = {operand}._array",
            f"if {x} is None:",
            f"    {x} = {operand}._get_array()",
        ]
    return lines


def _storage(operands: Sequence[str], may_lack: bool = True) -> list[str]:
    """Of what is written to, which shares no memory with what is read. may_lack: on the CPU a
    tensor's storage is made when it is asked for."""
    names = "storage, theirs" if len(operands) == 2 else "storage"
    lines = [f"{names} = {', '.join(_each('{}._storage', operands))}"]
    if may_lack:
        lines += ["if storage is None:", "    storage = self._get_storage()"]
    if len(operands) == 2:
        shared = "theirs is not None and theirs.is_shared" if may_lack else "theirs.is_shared"
        lines += _unless("theirs is storage", "storage.is_shared", shared)
    return lines


def _run(given: Sequence[str], result: str = "", overflow: str = "") -> list[str]:
    """The loop, without NumPy's warnings. overflow: why the long way is free to refuse a number."""
    args, to = ", ".join(["loop", *given]), f"{result} = " if result else ""
    return [
        "try:",
        f"    {to}enter({args})",
        "except RuntimeError as error:",
        f"    {to}again(error, {args})",
        *(["except OverflowError:", f"{LONG_WAY}  # {overflow}"] if overflow else ()),
    ]


def _tensor(
    array: str, keys: str = "CPU_KEYS", device: str = "CPU", storage: str = "None",
    geometry: str = "geometry",
) -> list[str]:  # fmt: skip
    return [
        "tensor = _new(Tensor)",
        f"tensor._geometry = {geometry}",
        f"tensor._keys = {keys}",
        f"tensor._device = {device}",
        f"tensor._storage = {storage}",
        "tensor._offset = 0",
        f"tensor._array = {array}",
        "tensor._autograd = None",
    ]


RECORDED = "return tensor if node is None else finish(tensor, node)"
WRITTEN = ["storage.version += 1", "return self"]
ELEMENT = "sizes, element = geometry.sizes, geometry.dtype.np"


# --- forms of the CPU -----------------------------------------------------------------------------


def _functional(name: str, n: int, has_number: bool = False, n_params: int = 0) -> list[str]:
    """loop(*arrays) gives the result's array; with params, loop(*arrays, *behind)."""
    operands = OPERANDS[:n]
    given = [*operands, *(["other"] if has_number else [])]
    passed = ", ".join([*given, *PARAMS[:n_params]])
    closed = ["loop", *(["behind"] if n_params else []), "geometry"]
    closed += [*(["params", "otherwise"] if n_params else []), "around"]
    setup = ["begin, finish = around", *_kept(n_params)]
    cast = []
    if n_params:
        setup.append("element = geometry.dtype.np")
        cast = ["if array.dtype is not element:", "    array = array.astype(element, copy=False)"]
    values = [*ARRAYS[:n], *given[n:], *(["*behind"] if n_params else [])]
    overflow = "the way that is not short says which number is too large" if has_number else ""
    doc = f"({passed}) -> what the loop gives."
    return _form(name, closed, doc, setup, [*given, *_params(n_params)], [
        *_others(n_params, f"otherwise({passed})"),
        *_records(operands, given),
        *_arrays(operands),
        *_run(values, "array", overflow),
        *cast,
        *_tensor("array"),
        RECORDED,
    ])  # fmt: skip


def _reduction() -> list[str]:
    doc = "loop(x, *behind[:2], out, *behind[2:]) over a new array."
    closed = ["loop", "behind", "geometry", "params", "otherwise", "around"]
    setup = ["begin, finish = around", *_kept(3), ELEMENT, "first, second, last = behind"]
    return _form("reduction", closed, doc, setup, ["self", *_params(3)], [
        *_others(3, "otherwise(self, a, b, c)", is_dims=True),
        *_records(("self",), ("self",)),
        *_arrays(("self",)),
        "array = _empty(sizes, element)",
        *_run(["x", "first", "second", "array", "last"]),
        *_tensor("array"),
        RECORDED,
    ])  # fmt: skip


def _inplace(name: str, n: int, has_number: bool = False) -> list[str]:
    operands = OPERANDS[:n]
    number = ["other"] if has_number else []
    overflow = "before anything was written: NumPy converts it first" if has_number else ""
    signature = [*operands, *number]
    return _form(name, ["loop"], f"({', '.join(signature)}) -> self.", (), signature, [
        *_is_plain(operands, "CPU_KEYS", is_written=True),
        *_storage(operands),
        *_arrays(operands),
        *_run([*ARRAYS[:n], *number, "x"], overflow=overflow),
        *WRITTEN,
    ])  # fmt: skip


def _into(n: int) -> list[str]:
    values = ", ".join(ARRAYS[:n])
    return [
        f"def into_{n}(loop: Any, geometry: Any) -> Callable[..., Any]:",
        '    """What gives the result of a loop that writes into a new array."""',
        f"    {ELEMENT}",
        "",
        f"    def into({values}):",
        "        array = _empty(sizes, element)",
        f"        loop({values}, array)",
        "        return array",
        "",
        "    return into",
    ]


def _made(name: str, closed: list[str], array: str) -> list[str]:
    """Of no operand, or of one that only says what is made."""
    setup = [ELEMENT] if "sizes" in array else []
    of = "array()" if "array" in closed else "uninitialised memory"
    if "asks" in closed:
        doc = f"() -> a tensor over {of}. asks: for the default device, as none was named."
        plain = _unless("_now() is not PLAIN", "asks and _places()[-1] is not CPU")
        return _form(name, closed, doc, setup, (), [*plain, *_tensor(array), "return tensor"])
    plain = _unless("self._keys is not CPU_KEYS", "_now() is not PLAIN")
    doc = f"self -> a tensor over {of}; autograd has nothing to say of it."
    return _form(name, closed, doc, setup, ["self"], [*plain, *_tensor(array), "return tensor"])


def _copied() -> list[str]:
    doc = "self -> a copy of a geometry, in NumPy's order."
    return _form("copied", ["geometry", "order"], doc, (), ["self"], [
        *_is_plain(("self",), "CPU_KEYS", is_written=False),
        *_arrays(("self",)),
        *_tensor("x.copy(order)"),
        "return tensor",
    ])  # fmt: skip


def _copy_() -> list[str]:
    operands = OPERANDS[:2]
    return [
        "def copy_(self: Any, other: Any) -> Any:",
        '    """A small copy between elements of one dtype; what is a view goes the long way."""',
        *indent([
            *_is_plain(operands, "CPU_KEYS", is_written=True),
            *_storage(operands),
            *_arrays(operands),
            "x[...] = y",
            *WRITTEN,
        ]),
    ]  # fmt: skip


# --- forms of CUDA --------------------------------------------------------------------------------


CUDA_MEMORY = [
    "index, nbytes = device.index, geometry.extent * geometry.dtype.itemsize",
    "cuda = runtime.cuda()",
]
# Memory of the allocator's, and the storage and tensor over it.
ALLOCATED = [
    "storage = _new(Storage)",
    "storage._data = memory",
    "storage._array = None",
    "storage.nbytes = nbytes",
    "storage.device = device",
    "storage.version = 0",
    *_tensor("None", "CUDA_KEYS", "device", "storage"),
    "return tensor",
]


def _addresses(operands: Sequence[str], storages: Sequence[str], low_bits: str) -> list[str]:
    """low_bits: those that are to be 0; other kernels may serve other addresses."""
    lines = [
        f"{x} = {storage}._data.ptr + {operand}._offset * size_{x}"
        for x, storage, operand in zip(ARRAYS, storages, operands)
    ]
    names = ARRAYS[: len(operands)]
    return [
        *lines,
        *_unless(f"({' | '.join(names)}) & {low_bits}" if names[1:] else f"x & {low_bits}"),
    ]


def _cuda_functional(name: str, n: int, has_number: bool = False, n_params: int = 0) -> list[str]:
    """With params, of those that the launch was made of."""
    operands, number = OPERANDS[:n], ["other"] if has_number else []
    closed = ["geometry", "device", "launch", *_each("size_{}", ARRAYS[:n])]
    closed += ["low_bits", "params"] if n_params else []
    setup = [*CUDA_MEMORY, "run, head, tail = straight(launch, index)", *_kept(n_params)]
    given = [*operands, *number, *_params(n_params)]
    doc = f"({', '.join([*operands, *number, *PARAMS[:n_params]])}) -> the launch's result."
    return _form(name, closed, doc, setup, given, [
        *_others(n_params, "None", is_dims=True),
        *_is_plain(operands, "CUDA_KEYS", is_written=False, device="device"),
        *_addresses(operands, _each("{}._storage", operands), "low_bits" if n_params else "15"),
        "memory = cuda.allocate(nbytes, index)",
        f"run(head({', '.join(['memory.ptr', *ARRAYS[:n], *number])}) + tail)",
        *ALLOCATED,
    ])  # fmt: skip


def _cuda_inplace(name: str, n: int, has_number: bool = False) -> list[str]:
    operands, number = OPERANDS[:n], ["other"] if has_number else []
    closed = ["device", "launch", *_each("size_{}", ARRAYS[:n])]
    setup = ["run, head, tail = straight(launch, device.index)"]
    given = [*operands, *number]
    return _form(name, closed, f"({', '.join(given)}) -> self.", setup, given, [
        *_is_plain(operands, "CUDA_KEYS", is_written=True, device="device"),
        *_storage(operands, may_lack=False),
        *_addresses(operands, ("storage", "theirs"), "15"),
        f"run(head({', '.join(['x', *ARRAYS[:n], *number])}) + tail)",
        *WRITTEN,
    ])  # fmt: skip


def _cuda_empty() -> list[str]:
    doc = "() -> uninitialised memory. asks: whether the device is current, as none was named."
    return _form("cuda_empty", ["geometry", "device", "asks"], doc, CUDA_MEMORY, (), [
        *_unless("_now() is not PLAIN", "asks and cuda.current_device() != index"),
        "memory = cuda.allocate(nbytes, index)",
        *ALLOCATED,
    ])  # fmt: skip


# --- forms of views, of any device ----------------------------------------------------------------

BASE = [
    "base = self._autograd",
    "if base is None:",
    "    base = self",
    "elif type(base) is not Tensor or base._autograd is not None:",
    LONG_WAY,
]


def _seen_of(geometry: str, offset: str, is_tracked: str = "unrecorded") -> list[str]:
    """The view, which knows what it is a view of, as ADInplaceOrView has it."""
    return [
        "storage = self._storage",
        "if storage is None:",
        "    storage = self._get_storage()",
        "tensor = _new(Tensor)",
        f"tensor._geometry = {geometry}",
        "tensor._keys = keys",
        "tensor._device = self._device",
        "tensor._storage = storage",
        f"tensor._offset = self._offset{offset}",
        "tensor._array = tensor._autograd = None",
        f"if {is_tracked}:",
        "    return _track(self, tensor)",
        "tensor._autograd = base",
        "return tensor",
    ]


def _view() -> list[str]:
    doc = "self, of these keys -> a view that keeps the offset."
    return _form("view", ["geometry", "keys"], doc, (), ["self"], [
        "now = _now()",
        *_unless("self._keys is not keys"),
        "if now is BELOW:  # autograd is not told",
        "    base = None",
        "elif now is not PLAIN:",
        LONG_WAY,
        "else:",
        *indent(BASE),
        *_seen_of("geometry", "", "unrecorded and base is not None"),
    ])  # fmt: skip


def _part() -> list[str]:
    doc = (
        "(self, index) -> what begins at an index of a dimension; negative ones count from its end."
    )
    closed = ["geometry", "last", "size", "stride", "keys"]
    return _form("part", closed, doc, (), ["self", "index"], [
        *_unless("type(index) is not int"),
        "if index < 0:",
        "    index += size",
        *_unless("not 0 <= index <= last", "self._keys is not keys", "_now() is not PLAIN"),
        *BASE,
        *_seen_of("geometry", " + index * stride"),
    ])  # fmt: skip


def _stretch() -> list[str]:
    doc = (
        "(self, start, end) -> a slice of a dimension; one of a length not seen goes the long way."
    )
    setup = ["size, stride, known = shape.sizes[dim], shape.strides[dim], shape.views"]
    closed = ["shape", "dim", "step", "keys"]
    return _form("stretch", closed, doc, setup, ["self", "start", "end"], [
        *_unless("self._keys is not keys", "_now() is not PLAIN"),
        *BASE,
        "if start is None:",
        "    start = 0",
        "elif type(start) is not int:",
        LONG_WAY,
        "elif start < 0:",
        "    start = start + size if start > -size else 0",
        "elif start > size:",
        "    start = size",
        "if end is None:",
        "    end = size",
        "elif type(end) is not int:",
        LONG_WAY,
        "else:",
        "    if end < 0:",
        "        end += size",
        "    elif end > size:",
        "        end = size",
        "    if end < start:",
        "        end = start",
        'seen = known.get(("slice", dim, (end - start + step - 1) // step, step))',
        *_unless("seen is None"),
        *_seen_of("seen.value", " + start * stride"),
    ])  # fmt: skip
