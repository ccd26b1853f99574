"""What programs ask of PyTorch that has no meaning here: harmless answers, or a refusal.

`jit.script` returns its function, `compiler.is_compiling` is False, flags of backends can be set
and change nothing; what cannot be had raises NotImplementedError with a sentence.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

PAGE = "docs/programs.md"


def refuse(name: str, why: str) -> Callable[..., Any]:
    """A function of that name that raises the reason."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{name}: {why} (see {PAGE})")

    refused.__name__ = refused.__qualname__ = name.rpartition(".")[2]
    return refused


class _AbsentType(type):
    """The type of what is not here: a class to derive from and to ask isinstance of."""

    why: str

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{cls.__qualname__}: {cls.why} (see {PAGE})")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{cls.__qualname__}.{name}", cls.why)


def Absent(name: str, why: str) -> Any:
    """What can be imported, derived from and asked isinstance of, and refuses to be called."""
    short = name.rpartition(".")[2]
    return _AbsentType(short, (), {"why": why, "__qualname__": name, "__module__": "torch"})


class Placement:
    """How a tensor would lie over devices: packages make constants of these when imported."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: Any = args


class _Required:
    """The default of an optimizer's setting that a program must give."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def as_it_is(function: Any = None, *args: Any, **kwargs: Any) -> Any:
    """The function itself; also a decorator with arguments."""
    return function if callable(function) else (lambda given: given)


def never(*args: Any, **kwargs: Any) -> bool:
    """False, whatever is asked."""
    return False


def nothing(*args: Any, **kwargs: Any) -> None:
    """Nothing is done."""


@contextlib.contextmanager
def block(*args: Any, **kwargs: Any) -> Iterator[None]:
    """A block that changes nothing."""
    yield


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value."""
    return the_value


class Flags(SimpleNamespace):
    """Flags that programs set and read; functions among them answer."""


def _pair_of(count: int) -> Callable[[Any], Any]:
    def parse(x: Any) -> Any:
        return tuple(x) if isinstance(x, (list, tuple)) else (x,) * count

    parse.__name__ = f"_{count}_of"
    return parse


def load_library(path: Any) -> None:
    """Raises OSError: packages then go on without their compiled operators."""
    raise OSError(f"{path} is compiled against PyTorch")


def check(condition: Any, message: Callable[[], str] | None = None) -> None:
    """Raise RuntimeError with the message unless the condition holds."""
    if not condition:
        raise RuntimeError("a check failed" if message is None else message())


def _assert(condition: Any, message: str = "") -> None:
    """`assert` as a function."""
    assert condition, message


jit: dict[str, Any] = {
    "script": as_it_is, "script_if_tracing": as_it_is, "ignore": as_it_is, "unused": as_it_is,
    "export": as_it_is, "interface": as_it_is, "_script_if_tracing": as_it_is,
    "_overload_method": as_it_is, "_overload": as_it_is,
    "is_scripting": never, "is_tracing": never, "annotate": annotate, "Final": typing.Final,
    "ScriptFunction": type("ScriptFunction", (), {}),
    "ScriptModule": type("ScriptModule", (), {}), "RecursiveScriptModule": type("_R", (), {}),
    "trace": refuse("jit.trace", "programs are not traced into graphs"),
    "load": refuse("jit.load", "TorchScript files hold code of PyTorch's"),
    "save": refuse("jit.save", "there is no TorchScript here"),
    "fork": refuse("jit.fork", "there is no TorchScript here"),
    "freeze": as_it_is, "optimize_for_inference": as_it_is,
}  # fmt: skip
compiler: dict[str, Any] = {
    "is_compiling": never, "is_dynamo_compiling": never, "is_exporting": never,
    "disable": as_it_is, "allow_in_graph": as_it_is, "assume_constant_result": as_it_is,
    "reset": nothing, "cudagraph_mark_step_begin": nothing, "set_stance": block,
}  # fmt: skip
dynamo: dict[str, Any] = compiler | {
    "config": Flags(), "mark_dynamic": nothing, "mark_static_address": nothing,
    "is_dynamo_supported": never, "graph_break": nothing,
}  # fmt: skip
fx: dict[str, Any] = {"wrap": as_it_is}
hub: dict[str, Any] = {
    "load": refuse("hub.load", "nothing is downloaded; give the file to torch.load"),
    "load_state_dict_from_url": refuse(
        "hub.load_state_dict_from_url", "nothing is downloaded; give the file to torch.load"
    ),
    "download_url_to_file": refuse("hub.download_url_to_file", "nothing is downloaded"),
    "get_dir": lambda: "", "set_dir": nothing, "_get_torch_home": lambda: "",
    "HASH_REGEX": None, "urlparse": None, "tqdm": as_it_is,
}  # fmt: skip
onnx: dict[str, Any] = {
    "is_in_onnx_export": never, "is_onnxrt_backend_supported": never,
    "symbolic_opset11": Flags(),
    "register_custom_op_symbolic": nothing, "symbolic_helper": Flags(parse_args=as_it_is),
}  # fmt: skip
cudnn: dict[str, Any] = {
    "enabled": False, "benchmark": False, "deterministic": True, "allow_tf32": False,
    "is_available": never, "version": nothing, "flags": block, "is_acceptable": never,
}  # fmt: skip
cuda_backend: dict[str, Any] = {
    "matmul": Flags(
        allow_tf32=False, allow_fp16_reduced_precision_reduction=True,
        allow_bf16_reduced_precision_reduction=True,
    ),
    "is_built": lambda: True, "flash_sdp_enabled": never, "math_sdp_enabled": lambda: True,
    "mem_efficient_sdp_enabled": never, "cudnn_sdp_enabled": never, "enable_flash_sdp": nothing,
    "enable_math_sdp": nothing, "enable_mem_efficient_sdp": nothing, "sdp_kernel": block,
    "enable_cudnn_sdp": nothing, "cufft_plan_cache": Flags(),
}  # fmt: skip
absent: dict[str, Any] = {
    "is_available": never, "is_built": never, "enabled": False, "flags": block,
    "device_count": lambda: 0,
}  # fmt: skip
overrides: dict[str, Any] = {
    "has_torch_function": never, "has_torch_function_unary": never,
    "has_torch_function_variadic": never, "is_tensor_like": never,
    "TorchFunctionMode": type("TorchFunctionMode", (), {}),
    "handle_torch_function": refuse("overrides.handle_torch_function", "no class overrides here"),
}  # fmt: skip
core: dict[str, Any] = {
    "DisableTorchFunctionSubclass": block, "DisableTorchFunction": block,
    "_log_api_usage_once": nothing, "_get_tracing_state": nothing, "_jit_set_profiling_mode": never,
    "_jit_set_profiling_executor": never, "_has_torch_function": never,
    "_cuda_isCurrentStreamCapturing": never,
    "ScriptModule": type("ScriptModule", (), {}), "Graph": type("Graph", (), {}),
    "Value": type("Value", (), {}), "Node": type("Node", (), {}),
}  # fmt: skip
nn_utils_of_modules: dict[str, Any] = {
    "_single": _pair_of(1), "_pair": _pair_of(2), "_triple": _pair_of(3), "_quadruple": _pair_of(4),
    "_ntuple": lambda n, name="parse": _pair_of(n),
    "_reverse_repeat_tuple": lambda t, n: tuple(x for x in reversed(t) for _ in range(n)),
}  # fmt: skip
