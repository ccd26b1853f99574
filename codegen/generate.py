"""All generated files of a model, as a dict from path to text."""

from __future__ import annotations

from pathlib import Path

from . import (
    emit_families,
    emit_kernels,
    emit_loops,
    emit_page,
    emit_shapes,
    emit_short,
    emit_stubs,
    faces,
    paths,
)
from .model import MODULES, Model


def files(model: Model) -> dict[Path, str]:
    kernels = {
        paths.GENERATED / "shapes.py": emit_shapes.shapes(model.all),
        paths.GENERATED / "short_forms.py": emit_short.short_forms(),
        **{
            paths.GENERATED / "kernels" / f"{family}.py": emit_kernels.kernels(model, family)
            for family in model.families()
        },
        **{
            paths.GENERATED / "kernels" / f"{family}.py": emit_kernels.kernels(model.apart, family)
            for family in model.apart.families()
        },
    }
    used = emit_families.used_calls(model, kernels.values())
    named = emit_families.named_operators()
    return {
        **{paths.GENERATED / name: text for name, text in faces.FILES.items()},
        **emit_families.families(model, used),
        paths.GENERATED / "functions.pyi": emit_stubs.functions(model),
        **{paths.GENERATED / f"{name}.pyi": emit_stubs.functions(model, name) for name in MODULES},
        paths.GENERATED / "nn.pyi": emit_stubs.nn(model),
        paths.GENERATED / "methods.pyi": emit_stubs.methods(model),
        paths.GENERATED / "calls.pyi": emit_stubs.calls(model, used),
        paths.GENERATED / "operators.pyi": emit_stubs.operators(model, named),
        **kernels,
        paths.GENERATED / "loops.h": emit_loops.loops(model),
        paths.OPERATORS_PAGE: emit_page.page(model),
    }
