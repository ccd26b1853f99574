"""Write tests/golden/checkpoints with PyTorch: python -m tests.golden.freeze_checkpoints.

zip.pt and legacy.pt have equal contents in PyTorch's two formats, module.pt is a whole module.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "checkpoints"


def values(torch: Any, is_zip: bool) -> dict[str, Any]:
    x = torch.arange(6.0).reshape(2, 3)
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        module.weight.copy_(x)
        module.bias.copy_(torch.tensor([1.0, -1.0]))
    made = {
        "x": x, "view": x.t()[1:], "state": module.state_dict(), "parameter": module.weight,
        "plain": [1, 2.5, "a", None, True, (1, 2), 2**70],
        "bf16": torch.ones(3, dtype=torch.bfloat16), "c64": torch.tensor([1 + 2j]).conj(),
        "dtype": torch.float32, "device": torch.device("cpu"), "size": torch.Size([1, 2]),
        "grad": torch.ones(2, requires_grad=True), "bytes": b"ab\xff",
    }  # fmt: skip
    if is_zip:
        made["u16"] = torch.tensor([65535], dtype=torch.uint16)
        made["meta"] = torch.empty(2, 3, device="meta")
    return made


def main() -> None:
    torch = import_module("torch")
    FOLDER.mkdir(exist_ok=True)
    for name, is_zip in (("zip.pt", True), ("legacy.pt", False)):
        made = values(torch, is_zip)
        torch.save(made, FOLDER / name, _use_new_zipfile_serialization=is_zip)
    torch.save(torch.nn.Linear(2, 1), FOLDER / "module.pt")


if __name__ == "__main__":
    main()
