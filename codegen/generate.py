"""All generated files of a model, as a dict from path to text."""

from __future__ import annotations

from pathlib import Path

from . import paths
from .emit import faces, families, kernels, loops, page, shapes, stubs
from .model import MODULES, Model
from .short_cuts.forms import short_forms


def files(model: Model) -> dict[Path, str]:
    registrations = {
        paths.generated("makers") / "shapes.py": shapes.shapes(model.all),
        paths.generated("structured") / "short_forms.py": short_forms(),
        **{
            paths.registrations(family): kernels.kernels(model, family)
            for family in model.families()
        },
        **{
            paths.registrations(family): kernels.kernels(model.apart, family)
            for family in model.apart.families()
        },
    }
    used = families.used_calls(model, registrations.values())
    named = families.named_operators()
    return {
        **{paths.PACKAGE / name: text for name, text in faces.FILES.items()},
        **families.families(model, used),
        paths.GENERATED / "functions.pyi": stubs.functions(model),
        **{paths.GENERATED / f"{name}.pyi": stubs.functions(model, name) for name in MODULES},
        paths.GENERATED / "nn.pyi": stubs.nn(model),
        paths.GENERATED / "methods.pyi": stubs.methods(model),
        paths.GENERATED / "calls.pyi": stubs.calls(model, used),
        paths.GENERATED / "operators.pyi": stubs.operators(model, named),
        **registrations,
        paths.generated("kernels") / "loops.h": loops.loops(model),
        paths.OPERATORS_PAGE: page.page(model),
    }
