"""Write golden/dispatch.txt: tables that PyTorch computes for random sets of registrations.

Run `python -m tests.golden.freeze_dispatch` with PyTorch installed. A block is a line of
registrations (`=fallthrough` marks a fallthrough) and a line for each kind of slot.
"""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

from gputensor.dispatch import keys

HERE = Path(__file__).parent
CASES = 150
# Keys that PyTorch has too, aliases included. Direct registration at Undefined means "no key"
# there.
KEYS = (
    "CPU", "CUDA", "XLA", "PrivateUse1", "Meta", "QuantizedCPU", "SparseCPU", "SparseCUDA",
    "BackendSelect",
    "Conjugate", "ADInplaceOrView", "AutogradOther", "AutogradCPU", "AutogradXLA", "AutocastCPU",
    "TESTING_ONLY_GenericMode", "Autograd", "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd",
)  # fmt: skip
OURS = {key.name for key in keys.RUNTIME_KEYS}
_LINE = re.compile(r"(\w+): (fallthrough )?(?:registered at .*|ambiguous_autogradother) \[(.*)\]")


def random_set(rng: random.Random) -> list[str]:
    """Up to 12 registrations at different keys; the backend kernels come before the composites.

    So PyTorch's AutogradOther slot is never stale (bug b of section 0).
    """
    chosen = rng.sample(KEYS, rng.randint(1, 12))
    chosen.sort(key=lambda key: key.startswith("Composite"))
    # PyTorch's Python front refuses Meta beside the implicit composite in that order.
    if "CompositeImplicitAutograd" in chosen and "Meta" in chosen:
        chosen.remove("Meta")
    return [key + ("=fallthrough" if rng.random() < 0.15 else "") for key in chosen]


def torch_slots(torch: Any, name: str) -> dict[str, str]:
    """key -> kind of slot, of PyTorch's operator, for keys that we have too; "missing" is left
    out."""
    found = map(_LINE.fullmatch, torch._C._dispatch_dump_table(name).splitlines())
    return {m[1]: m[3] + (" fallthrough" if m[2] else "") for m in found if m and m[1] in OURS}


def torch_lines(torch: Any, name: str) -> list[str]:
    """The same as the golden file writes it: without the fallbacks."""
    labels: dict[str, list[str]] = {}
    found = torch_slots(torch, name)
    for key in keys.RUNTIME_KEYS:
        if not found.get(key.name, "backend fallback").startswith("backend fallback"):
            labels.setdefault(found[key.name], []).append(key.name)
    return [f"{label}: {' '.join(labels[label])}" for label in sorted(labels)]


def torch_library(torch: Any, ns: str, words: list[str]) -> Any:
    """A library of PyTorch that defines `ns::f` and registers a kernel for each word."""
    lib = torch.library.Library(ns, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    for word in words:
        key, _, fallthrough = word.partition("=")
        lib.impl("f", torch.library.fallthrough_kernel if fallthrough else lambda x: x, key)
    return lib


def main() -> None:
    import torch

    rng = random.Random(0)
    blocks = []
    for number in range(CASES):
        words = random_set(rng)
        lib = torch_library(torch, f"golden{number}", words)
        blocks.append(
            "\n".join(["set " + " ".join(words), *torch_lines(torch, f"golden{number}::f")])
        )
        lib._destroy()
    (HERE / "dispatch.txt").write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
