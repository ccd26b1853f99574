"""Text of structured/_generated/short_forms.py: the functions of short cuts, composed of common
parts.

A short cut does the work of a dispatch table, of Autograd's kernel and of the backend's kernel in
one frame, so it cannot call functions for these steps (Note [Short cuts] in
gputensor/dispatch/shortcuts.py). Here each step is written once: checks of operands and thread,
addresses of memory, the loop, the new tensor.
"""

from __future__ import annotations

from ..text import joined, module
from . import cpu, cuda, views
from .parts import SIZES

DOC = """The forms of short cuts. See Note [Short cuts] in dispatch/shortcuts.py.

gputensor/structured/shortcuts/ chooses a form when a plan is used again. Each form makes a function
whose closure contains all data that the call needs. It returns None except in the plain case."""

IMPORTS = """from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import runtime
from ...core.arguments import are_equal as _are_equal
from ...core.device import CPU
from ...dispatch.backend_select import TENSOR_KEYS, default_devices
from ...dispatch.shortcuts import LONG, ShortCut, in_block as _in_block
from ...dispatch.tls import BELOW, FUSING, PLAIN, state, unrecorded
from ...kernels.cpu.quiet import again, enter
from ...kernels.cuda.launch import straight
from ...tensor import differentiable
from ...tensor.make import CPU_KEYS, is_plain
from ...tensor.storage import Storage
from ...tensor.tensor import Tensor, blank

CUDA_KEYS = TENSOR_KEYS["cuda"]
_now = state.get
_places = default_devices.get
_empty, _array, _may_share = np.empty, np.array, np.may_share_memory


def _track(source, made):
    \"\"\"Record the base of a view. Called if any thread is in no-grad mode.\"\"\"
    return differentiable.autograd.inplace_or_view.track_view(source, made)


def may_write(self: Any) -> Any:
    \"\"\"True if autograd need not record a write to this tensor: the base of the view has no
    history, or this thread records nothing.\"\"\"
    return is_plain(self) or unrecorded and differentiable.variable.is_written_unrecorded(self)"""


def short_forms() -> str:
    parts = [
        cpu.functional("unary", 1),
        cpu.functional("binary", 2),
        cpu.functional("with_number", 1, has_number=True),
        cpu.functional("with_element", 1, has_number=True, is_element=True),
        cpu.functional("one", 1, n_params=3),
        cpu.functional("two", 2, n_params=2),
        cpu.functional("three", 3, n_params=2),
        cpu.reduction(),
        cpu.inplace("unary_inplace", 1),
        cpu.inplace("inplace", 2),
        cpu.inplace("inplace_number", 1, has_number=True),
        cpu.inplace("inplace_element", 1, has_number=True, is_element=True),
        cpu.scaled("scaled", is_inplace=False),
        cpu.scaled("scaled_inplace", is_inplace=True),
        cpu.out("out_1", 1),
        cpu.out("out_2", 2),
        cpu.out("out_number", 1, has_number=True),
        cpu.into(1),
        cpu.into(2),
        cpu.made("made_of_nothing", ["geometry", "array", "asks"], "array()"),
        cpu.made("empty", ["geometry", "asks", "given"], "_empty(sizes, element)"),
        cpu.made("like", ["geometry", "array"], "array()"),
        cpu.made("empty_like", ["geometry"], "_empty(sizes, element)"),
        cpu.filled(),
        *map(cpu.repeated, (1, 2, 3)),
        cpu.copied(),
        cpu.copy_(),
        cuda.cuda_functional("cuda_unary", 1, n_params=3),
        cuda.cuda_functional("cuda_binary", 2),
        cuda.cuda_functional("cuda_with_number", 1, has_number=True),
        cuda.cuda_inplace("cuda_inplace", 2),
        cuda.cuda_inplace("cuda_inplace_number", 1, has_number=True),
        cuda.cuda_empty(),
        cuda.cuda_empty_like(),
        views.recorded(),
        views.view(),
        *(views.view(f"view_{n}", n) for n in range(1, len(SIZES) + 1)),
        views.view("view_n", 0),
        views.views(),
        views.part(),
        views.stretch(),
    ]
    return module(DOC, IMPORTS, *map(joined, parts))
