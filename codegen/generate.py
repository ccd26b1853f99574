"""All generated files of a model, as texts by path."""

from __future__ import annotations

from pathlib import Path

from . import (
    emit_autocast,
    emit_autograd,
    emit_families,
    emit_kernels,
    emit_page,
    emit_register,
    emit_stubs,
    faces,
    paths,
)
from .model import Model


def files(model: Model) -> dict[Path, str]:
    kernels = {
        paths.GENERATED / "backend_select.py": emit_kernels.backend_select(model),
        paths.GENERATED / "inplace_or_view.py": emit_kernels.inplace_or_view(model),
        paths.GENERATED / "derivatives.py": emit_autograd.derivatives(model),
        paths.GENERATED / "autograd.py": emit_autograd.autograd(model),
        paths.GENERATED / "autocast.py": emit_autocast.autocast(model),
        paths.GENERATED / "register.py": emit_register.register(model),
    }
    used = emit_families.used_calls(model, kernels.values())
    return {
        **{paths.GENERATED / name: text for name, text in faces.FILES.items()},
        **emit_families.families(model, used),
        paths.GENERATED / "functions.pyi": emit_stubs.functions(model),
        paths.GENERATED / "methods.pyi": emit_stubs.methods(model),
        paths.GENERATED / "calls.pyi": emit_stubs.calls(model, used),
        paths.GENERATED / "operators.pyi": emit_stubs.operators(model),
        **kernels,
        paths.OPERATORS_PAGE: emit_page.page(model),
    }
