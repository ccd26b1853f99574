"""Functions, constructors and methods have PyTorch's parameters: the same names, in the same order.
Classes derive from the same classes."""

from __future__ import annotations

import json
import subprocess
import sys
from fnmatch import fnmatchcase
from typing import Any

import pytest

from . import parameters

pytestmark = pytest.mark.oracle

# Maps a module to (the parameters of its callables, the bases of its classes).
Known = dict[str, tuple[dict[str, list[tuple[str, str]]], dict[str, list[str]]]]

# Maps a pattern of functions to parameters that are left out, and the reason.
LEFT_OUT: dict[str, tuple[str, str]] = {
    "*.Library.define": ("schema", "it is called `text`"),
    "*.CustomOpDef": ("namespace schema", "operators are made by custom_op"),
    "*.impl_abstract": ("qualname", "it is called `op`"),
    "*.wrap_triton": ("triton_kernel", "Triton is not supported"),
    "*.register_fake": ("allow_override", "a second registration replaces the first"),
    "*.RNNBase": ("mode", "programs use it with isinstance"),
    "*.RNNCellBase": ("num_chunks", "programs use it with isinstance"),
    "*.Hardtanh": ("min_value max_value", "deprecated names of min_val and max_val"),
    "*enable_grad": ("orig_func", "it is called `function`, as in no_grad"),
    "*.backward": ("grad_variables", "a deprecated name of grad_tensors"),
    "*.ModuleDict.update": ("modules", "all containers with names have one method"),
    "*.ParameterDict.update": ("parameters", "all containers with names have one method"),
    "*.Sequential.extend": ("sequential", "all numbered containers have one method"),
    "*.RemovableHandle": ("hooks_dict extra_dict", "programs do not make handles"),
    "*.ProcessContext": ("error_files", "programs do not make contexts"),
    "*.SpawnContext": ("error_files", "programs do not make contexts"),
    "*.RecursiveScriptModule": ("cpp_module", "programs are not compiled to TorchScript"),
    "*Storage": ("wrap_storage dtype device", "storages are made by tensors"),
    "*.SymFloat": ("node", "sizes are not symbolic"),
    "*.sym_float": ("a", "sizes are not symbolic"),
    "*.DistributedDataParallel": (
        "skip_all_reduce_unused_params bucket_cap_mb_list batched_grad_copy forward_sync_buffers",
        "settings of PyTorch's reducer",
    ),
    "*.barrier": ("timeout", "the group's timeout holds"),
    "*Graph.capture_begin": ("check_input_liveness", "a check of PyTorch's allocator"),
    "*.graph": ("enable_annotations check_input_liveness", "checks of PyTorch's allocator"),
    "*.Graph": ("pool capture_error_mode", "arguments of capture_begin"),
    "*.Graph.debug_dump": ("path", "it is called `debug_path`, as in CUDAGraph"),
    "*.Event": ("interprocess external", "events belong to one process"),
    "*.memory_snapshot": ("mempool_id include_traces", "there is one pool, without traces"),
    "*.export_chrome_trace": ("metadata use_python_export", "there is one writer of traces"),
    "*.gradcheck": ("check_batched_forward_grad masked", "gt.func's tests compare batches"),
    "*.gradgradcheck": ("masked", "there are no sparse tensors"),
    "*.list_backends": ("exclude_tags", "there are no backends"),
    "*.stft": ("align_to_window", "frames are aligned as by default"),
    "*.Wishart.rsample": ("max_try_correction", "samples need no correction"),
    "*.log_abs_det_jacobian": ("intermediates", "nothing is computed twice"),
    "*.icdf": ("prob", "all distributions call it `value`"),
    "*.MixtureSameFamily.*": ("x", "all distributions call it `value`"),
    "*.check": ("x", "all constraints call it `value`"),
    "*.index": ("positions dims", "PyTorch's dimensions as objects"),
    "torch.functional.split": ("tensor split_size_or_sections", "torch.split has these names"),
}


@pytest.fixture(scope="module")
def known() -> tuple[Known, Known]:
    found = []
    for library in ("torch", "gputensor"):
        command = [sys.executable, "-m", "tests.oracle.names.parameters", library]
        done = subprocess.run(
            command, cwd=parameters.ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    return found[0], found[1]


def _is_left_out(path: str, name: str) -> bool:
    return any(
        fnmatchcase(path, form) and name in listed.split() for form, (listed, _) in LEFT_OUT.items()
    )


def _lacking(path: str, theirs: Any, ours: Any) -> list[str]:
    if any(kind == "VAR_KEYWORD" for _, kind in ours):
        return []
    names = {name for name, _ in ours}
    return [
        name for name, kind in theirs
        if not kind.startswith("VAR") and not name.startswith("_")
        and name not in names and name != "self"
        and not _is_left_out(path, name)
    ]  # fmt: skip


@pytest.mark.parametrize("module", parameters.modules())
def test_a_function_has_the_parameters_of_pytorch(module: str, known: tuple[Known, Known]) -> None:
    theirs, ours = (library.get(module, ({}, {}))[0] for library in known)
    lacking = {
        path: found for path in theirs if path in ours
        if (found := _lacking(f"{module}.{path}", theirs[path], ours[path]))
    }  # fmt: skip
    assert lacking == {}


def _positional(of: Any) -> list[str]:
    return [name for name, kind in of if kind.startswith("POSITIONAL")]


@pytest.mark.parametrize("module", parameters.modules())
def test_parameters_are_in_the_order_of_pytorch(module: str, known: tuple[Known, Known]) -> None:
    theirs, ours = (library.get(module, ({}, {}))[0] for library in known)
    wrong = {}
    for path in theirs:
        if path not in ours or any(kind.startswith("VAR") for _, kind in ours[path]):
            continue
        here, there = _positional(ours[path]), _positional(theirs[path])
        there = [name for name in there if name in here]
        if [name for name in here if name in there] != there:
            wrong[path] = here, there
    assert wrong == {}


# Python's classes, which modules import. A context is an object of FunctionCtx, and no Function.
LEFT_OUT_BASES = {"ABC", "Any", "Enum", "FunctionCtx", "Generic", "NamedTuple", "Protocol"}


@pytest.mark.parametrize("module", parameters.modules())
def test_classes_derive_from_those_of_pytorch(module: str, known: tuple[Known, Known]) -> None:
    theirs, ours = (library.get(module, ({}, {}))[1] for library in known)
    lacking = {
        name: found for name in theirs if name in ours
        if (found := {*theirs[name]} & {*ours} - {*ours[name]} - LEFT_OUT_BASES)
    }  # fmt: skip
    assert lacking == {}
