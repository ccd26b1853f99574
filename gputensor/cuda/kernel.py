"""The class Kernel: a user's CUDA C kernel, which runs on a GPU or on the emulator. It can also be
compiled for the GPU of another machine.

    >>> scale = gt.cuda.Kernel(text, "scale")
    >>> scale[grid, block](x, y, 2.0, n)

Arrays may be gputensor's, CuPy's or torch's. On the emulator they may also be NumPy arrays and
torch's CPU tensors. Arguments are checked against the declaration: an array must have its pointer's
dtype, and must be contiguous unless the kernel takes its Layout. The arguments determine device and
stream. A launch on a GPU allocates no memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import runtime
from ..core import errors
from ..dispatch.refusal import declares
from ..exchange.foreign import ForeignArray
from ..runtime.current import stream_given
from ..runtime.emulator import nvrtc_options, settings
from . import declaration, host_memory, operands, packing, text
from .declaration import LAYOUT, POINTER, STRUCT

if TYPE_CHECKING:
    from ..structured.tensor_iterator import TensorIterator
    from .over import Over
    from .report import Report

Dims = int | Sequence[int]
__tracebackhide__ = errors.is_of_a_kernel


class Kernel:
    """One `__global__` function of a CUDA C text.

    Args:
        text_or_path: the text, or a file: a path object or one line that ends in `.cu`.
        entry: the function; `scale<float, 4>` for an instance of a template.
        defines: preprocessor definitions.
        signature: parameters to use instead of the declared ones, `const float*, float*, int`.
        options: more options for NVRTC; the emulator supports -I, -D, -U and -std, and rejects
            options that would change a result.
    Raises: KernelError if the text has no such kernel.
    """

    __slots__ = (
        "_functions", "_packers", "_symbols", "declaration", "defines", "entry", "options",
        "source",
    )  # fmt: skip

    @declares(
        "Kernel", text_or_path="str|path", entry="str", defines="dict?", signature="str?",
        options="Iterable",
    )  # fmt: skip
    def __init__(
        self, text_or_path: str | os.PathLike[str], entry: str, *,
        defines: Mapping[str, object] | None = None, signature: str | None = None,
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        if isinstance(options, str) or not all(isinstance(one, str) for one in options):
            raise errors.wrong_type(entry, "options", "be a list of str", options)
        self.options: tuple[str, ...] = tuple(options)
        asked = nvrtc_options.parse(self.options)
        self.source: text.Source = text.load(text_or_path, entry, asked.folders)
        self.entry: str = entry
        self.defines: dict[str, object] = dict(defines or {})
        macros = nvrtc_options.with_macros(self.defines, asked)
        self.declaration: declaration.Declaration = declaration.read(
            self.source.text, entry, macros, signature
        )
        self._functions: dict[tuple[Any, ...], Any] = {}
        self._symbols: tuple[str, ...] = ()
        parameters, addresses = self.declaration.parameters, (POINTER, LAYOUT)
        self._packers = [
            None if p.kind in addresses else packing.packer(entry, p) for p in parameters
        ]

    def __repr__(self) -> str:
        return f"<Kernel {self.declaration}>"

    # --- launching ------------------------------------------------------------------------------

    def __getitem__(self, configuration: Any) -> Launcher:
        """Return a Launcher. The forms are `kernel[grid, block]`,
        `kernel[grid, block, shared_bytes]` and `kernel[grid, block, shared_bytes, stream]`."""
        given = configuration if isinstance(configuration, tuple) else (configuration,)
        if not 2 <= len(given) <= 4:
            rule = "be [grid, block, shared bytes, stream]"
            raise errors.cannot_launch(self.entry, "[...]", rule, given)
        return Launcher(self, *given)

    def launch(
        self, *args: Any, grid: Dims, block: Dims, shared: int = 0, stream: Any = None
    ) -> None:
        """Queue one launch: `kernel[grid, block, shared, stream](*args)`."""
        Launcher(self, grid, block, shared, stream)(*args)

    def _launch(
        self, args: Sequence[Any], grid: tuple[int, int, int], block: tuple[int, int, int],
        shared: int, stream: Any
    ) -> None:  # fmt: skip
        cuda = runtime.cuda()
        device_index, found = self._operands(cuda, args)
        function, offsets = self._function(cuda, device_index)
        own = cuda.current_stream(device_index)
        stream, others = self._streams(cuda, device_index, found, own, stream)
        pointers = {number: operand.address for number, operand in found.items()}
        regions = host_memory.to_device(
            cuda, device_index, stream, found, self.declaration.written, pointers
        )
        params = self._pack(args, found, pointers)
        for other in others:
            stream.wait_stream(other)
        cuda.launch(function, grid, block, shared, stream, params, offsets)
        for other in others:
            other.wait_stream(stream)
        host_memory.to_host(cuda, device_index, stream, regions)
        self._note_writes(cuda, found, stream, own)

    def over(self, iterator: TensorIterator, block: int = 256, per_thread: int = 1) -> Over:
        """Return a launch over a TensorIterator's operands: `kernel.over(it)(alpha)`."""
        from .over import Over

        return Over(self, iterator, block, per_thread)

    def _operands(self, cuda: Any, args: Sequence[Any]) -> tuple[int, dict[int, ForeignArray]]:
        """Return the device of the arrays, and the arrays as a dict by parameter number."""
        entry, declared = self.entry, self.declaration
        if len(args) != len(declared.taken):
            names = ", ".join(p.name for p in declared.taken)
            rule = f"be {len(declared.taken)}: {names}"
            raise errors.cannot_launch(entry, "args", rule, f"{len(args)}")
        found: dict[int, ForeignArray] = {}
        at = 0
        for number, parameter in enumerate(declared.parameters):
            if parameter.kind == LAYOUT:
                continue
            value = args[at]
            at += 1
            if parameter.kind == POINTER and (value is not None or number in declared.bound):
                operand = found[number] = operands.describe(entry, parameter.name, value)
                packing.check_pointer(entry, parameter, operand, number in declared.bound)
        return self._device_of(cuda, found), found

    def _device_of(self, cuda: Any, found: Mapping[int, ForeignArray]) -> int:
        if not cuda.is_available():
            raise errors.no_device_for_kernel(self.entry, str(cuda.unavailable_reason()))
        parameters = self.declaration.parameters
        first: int | None = None
        for number, operand in found.items():
            name = parameters[number].name
            if operand.device_index < 0:
                if not cuda.is_emulated:
                    raise errors.must(
                        self.entry, name, "be on a CUDA device", errors.Got(str(operand)),
                        kind=errors.DeviceError, remedy="copy it there first",
                    )  # fmt: skip
                continue
            if cuda.is_emulated and operand.library != "gputensor":
                raise errors.must(
                    self.entry, name, "be of gputensor, or in host memory, where CUDA is emulated",
                    errors.Got(str(operand)), kind=errors.DeviceError,
                )  # fmt: skip
            if first is None:
                first = number
            elif operand.device_index != found[first].device_index:
                raise errors.must(
                    self.entry, name, f"be on the device of '{parameters[first].name}', "
                                      f"cuda:{found[first].device_index}",
                    errors.Got(str(operand)), kind=errors.DeviceError,
                )  # fmt: skip
        return int(cuda.current_device()) if first is None else found[first].device_index

    def _streams(
        self, cuda: Any, device_index: int, found: Mapping[int, ForeignArray], own: Any, given: Any
    ) -> tuple[Any, list[Any]]:
        """Return the stream for the launch, and a list of streams to synchronise with it. If the
        caller passes a stream, the list is empty, because the caller must synchronise."""
        if given is None:
            return operands.streams_of(found, cuda, device_index, own)
        return stream_given(self.entry, cuda, device_index, given), []

    def _pack(
        self, args: Sequence[Any], found: Mapping[int, ForeignArray], pointers: Mapping[int, int]
    ) -> bytes:
        parameters = self.declaration.parameters
        layouts = {}
        if self.declaration.bound:
            bound = [p.of for p in parameters if p.kind == LAYOUT]
            ordered = {n: (parameters[n], found[n]) for n in bound}
            layouts = packing.layouts(self.entry, ordered)
        parts, at = [], 0
        values = iter(args)
        for number, (parameter, pack) in enumerate(zip(parameters, self._packers)):
            if parameter.kind == LAYOUT:
                data = layouts[parameter.of]
            elif pack is not None:
                data = pack(next(values))
            else:
                next(values)
                data = pointers.get(number, 0).to_bytes(8, "little")
            if parameter.offset != at:
                parts.append(bytes(parameter.offset - at))
            parts.append(data)
            at = parameter.offset + len(data)
        return b"".join(parts)

    def _note_writes(
        self, cuda: Any, found: Mapping[int, ForeignArray], stream: Any, own: Any
    ) -> None:
        for number in self.declaration.written:
            if number in found:
                operands.note_write(found[number])
        if own.key != stream.key:
            for operand in found.values():
                if operand.library == "gputensor" and operand.device_index >= 0:
                    cuda.record_stream(operand.owner._get_storage().data, stream)

    # --- compiling ------------------------------------------------------------------------------

    def _function(self, cuda: Any, device_index: int) -> tuple[Any, tuple[int, ...]]:
        """Return the loaded function and the offsets of its parameters."""
        key = (cuda, device_index, cuda.is_emulated and settings.current().build)
        function = self._functions.get(key)
        if function is None:
            arch = cuda.arch(device_index)
            image = cuda.compile(
                self.source.text, [self.defines], arch, entries=self._entries(cuda.is_emulated),
                headers=text.headers(), options=self.options,
            )  # fmt: skip
            loaded = cuda.load(image, self._loaded_name(cuda.is_emulated), device_index)
            self._settle_places(loaded)
            offsets = tuple(p.offset for p in self.declaration.parameters)
            function = self._functions[key] = loaded, offsets
        return function

    def _entries(self, is_emulated: bool) -> tuple[str, ...]:
        """Return the names that the compiler must keep: template instances and the variables that
        `set` writes."""
        if is_emulated:
            return (self.entry,)
        own = () if self.declaration.has_c_name else (self.entry,)
        return (*own, *(f"&{name}" for name in self._symbols))

    def _loaded_name(self, is_emulated: bool) -> str:
        is_instance = "<" in self.entry
        return self.entry if is_instance or not is_emulated else self.declaration.name

    def _settle_places(self, loaded: Any) -> None:
        """Set the parameters' offsets and the structs' sizes, as the emulator's compiler reports
        them.
        """
        places = getattr(loaded, "places", None)
        parameters = self.declaration.parameters
        if places is None:
            unknown = next((p for p in parameters if p.kind == STRUCT and not p.size), None)
            if unknown is not None and len(parameters) > 1:
                rule = (
                    "have a struct type that the text defines plainly, or a signature= without it"
                )
                raise errors.cannot_launch(self.entry, unknown.name, rule, unknown.text)
            return
        if len(places) != len(parameters):
            rule = f"have {len(places)} parameters"
            raise errors.cannot_launch(self.entry, "signature", rule, len(parameters))
        for parameter, (offset, size) in zip(parameters, places):
            if parameter.kind != STRUCT and (parameter.size, parameter.offset) != (size, offset):
                if parameter.size != size:
                    rule = f"have {size} bytes, as it is compiled"
                    raise errors.cannot_launch(self.entry, parameter.name, rule, parameter.text)
            parameter.offset, parameter.size = offset, size
        loaded.arguments = tuple(
            (p.name, p.offset, p.element.size, not p.is_const)
            for p in parameters
            if p.kind == POINTER and p.element
        )

    def set(self, name: str, values: Any, device: Any = None) -> None:
        """Write a `__constant__` or `__device__` variable of the text, on one device."""
        import numpy as np

        from . import _index

        cuda, index = runtime.cuda(), _index(device, "set")
        if name not in self._symbols:
            self._symbols = (*self._symbols, name)
            if not cuda.is_emulated:
                self._functions.clear()
        address, nbytes = self._function(cuda, index)[0].symbol(name)
        data = np.ascontiguousarray(values)
        if nbytes is not None and data.nbytes != nbytes:
            raise errors.wrong_value(
                self.entry,
                "values",
                f"be the {nbytes} bytes of '{name}'",
                errors.Got(f"{data.nbytes} bytes of {data.dtype}"),
            )
        stream = cuda.current_stream(index)
        if cuda.is_emulated:
            cuda.write_symbol(address, data.tobytes(), stream)
        else:
            cuda.copy_async(address, index, data.ctypes.data, -1, data.nbytes, stream)
            stream.synchronize()  # the memory of `data` may be freed after this call

    def compile(self, arch: str) -> bytes:
        """Return the cubin for an architecture such as `sm_90`. Needs NVRTC and no GPU."""
        from ..runtime.compilation import nvrtc_users

        return nvrtc_users.compile_text(
            nvrtc_users.binding(), self.source.text, self.defines, arch, self._entries(False),
            text.headers(), self.options,
        )  # fmt: skip

    def report(self, archs: Sequence[str] = ("sm_80", "sm_90")) -> Report:
        """Return registers, spills, shared memory and widths of loads and stores for each
        architecture."""
        from .report import Report, row

        return Report([row(self, arch) for arch in archs])


class Launcher:
    """A kernel with grid, block, bytes of dynamic shared memory and stream."""

    __slots__ = ("block", "grid", "kernel", "shared", "stream")
    kernel: Kernel
    stream: Any

    def __init__(
        self, kernel: Kernel, grid: Dims, block: Dims, shared: int = 0, stream: Any = None
    ) -> None:
        self.kernel, self.stream = kernel, stream
        if not hasattr(shared, "__index__"):
            raise errors.cannot_launch(kernel.entry, "shared", "be a number of bytes", shared)
        self.shared: int = shared.__index__()
        self.grid: tuple[int, int, int] = _dims(kernel.entry, "grid", grid)
        self.block: tuple[int, int, int] = _dims(kernel.entry, "block", block)

    def __call__(self, *args: Any) -> None:
        self.kernel._launch(args, self.grid, self.block, self.shared, self.stream)


def _dims(entry: str, arg: str, given: Dims) -> tuple[int, int, int]:
    parts = (given,) if isinstance(given, int) else tuple(given)
    if not 1 <= len(parts) <= 3 or not all(hasattr(n, "__index__") for n in parts):
        raise errors.cannot_launch(entry, arg, "be one to three integers", given)
    whole = [n.__index__() for n in parts] + [1, 1]
    return whole[0], whole[1], whole[2]
