"""Run rows of the table with PyTorch, or with gputensor under its name, and write the results.

    python -m tests.programs.child SIDE FOLDER NAME ...

SIDE is `torch`, `gputensor`, or `back`: PyTorch reading the files that gputensor saved. FOLDER gets
`NAME.SIDE.npz` for each row, or `NAME.SIDE.txt` with an error message. Each model's weights go from
PyTorch to gputensor by a checkpoint, and its state and that of its optimizer go back by another.
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .compare import differing
from .program import Inputs, Program, Row

# Operators that torchvision's library would define. The library is compiled against one build of
# PyTorch, and without its operators torchvision cannot be imported. No row calls them.
_VISION = (
    "nms qnms roi_align _roi_align_backward ps_roi_align _ps_roi_align_backward roi_pool "
    "_roi_pool_backward ps_roi_pool _ps_roi_pool_backward qroi_align deform_conv2d "
    "_deform_conv2d_backward"
)


def tensors_of(x: Any, name: str = "out") -> Iterator[tuple[str, Any]]:
    """Return the tensors of nested outputs, each with its path."""
    import torch

    if isinstance(x, torch.Tensor):
        yield name, x
    elif isinstance(x, Mapping):
        for key, value in x.items():
            yield from tensors_of(value, f"{name}.{key}")
    elif isinstance(x, (list, tuple)):
        for place, value in enumerate(x):
            yield from tensors_of(value, f"{name}.{place}")
    elif dataclasses.is_dataclass(x):
        yield from tensors_of({f.name: getattr(x, f.name) for f in dataclasses.fields(x)}, name)
    elif isinstance(x, (bool, int, float)):
        yield name, torch.tensor(x)


def array(x: Any) -> np.ndarray:
    import torch

    x = x.detach()
    if x.dtype in (torch.bfloat16, torch.float16):
        x = x.float()
    return np.array(x.numpy())


def loss_of(outputs: list[tuple[str, Any]]) -> Any:
    """Return one number that depends on each element of each output."""
    import torch

    total: Any = 0.0
    for _, x in outputs:
        if x.requires_grad and x.is_floating_point():
            weights = np.random.default_rng(0).standard_normal(tuple(x.shape))
            weights = weights.astype(np.float32) / max(weights.size, 1) ** 0.5
            total = total + (x * torch.from_numpy(np.array(weights)).to(x.dtype)).sum()
    return total


def without_dropout(model: Any) -> None:
    for module in model.modules():
        for name in ("p", "drop_prob", "dropout", "dropout_p", "drop_rate", "attention_dropout"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)


def run(row: Row, side: str, folder: Path) -> dict[str, np.ndarray]:
    import torch

    torch.manual_seed(0)
    dtype = getattr(torch, row.dtype)
    program = row.make(Inputs(row.name))
    model = program.model
    if model is not None:
        take_weights(program, row, side, folder)
        model.to(dtype)
        without_dropout(model)
        model.train(program.train)
    inputs = list(program.inputs)
    for place, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and x.is_floating_point():
            inputs[place] = x.to(dtype).requires_grad_(program.grad)
    call = program.call or model
    with torch.set_grad_enabled(program.grad):
        outputs = list(tensors_of(call(*inputs, **(program.keywords or {}))))
    assert outputs, "no output is a tensor"
    found = {name: array(x) for name, x in outputs}
    state: dict[str, Any] = {}
    if program.grad:
        found |= step(program, inputs, loss_of(outputs), state)
    if side == "gputensor" and model is not None:
        keep(model, state, folder / f"{row.name}.checkpoint")
    if program.saves and side != "back":
        model.save_pretrained(folder / f"{row.name}.{side}")
    return found


def take_weights(program: Program, row: Row, side: str, folder: Path) -> None:
    """Load the weights from PyTorch's checkpoint, in which PyTorch has written them; they must be
    equal bit for bit."""
    import torch

    model, path = program.model, folder / f"{row.name}.weights"
    if side == "torch":
        np.savez(f"{path}.npz", **{k: array(v) for k, v in model.state_dict().items()})
        torch.save(model.state_dict(), f"{path}.pt")
        if program.saves:
            model.save_pretrained(folder / f"{row.name}.start")
    elif side == "gputensor":
        state = torch.load(f"{path}.pt", weights_only=True)
        with np.load(f"{path}.npz") as kept:
            wrong = differing({k: kept[k] for k in kept}, {k: array(v) for k, v in state.items()})
        assert not wrong, f"the checkpoint: {wrong}"
        if program.saves:
            state = type(model).from_pretrained(folder / f"{row.name}.start").state_dict()
        model.load_state_dict(state)


def keep(model: Any, optimizer: dict[str, Any], path: Path) -> None:
    """Write a checkpoint, and separately the elements that PyTorch must read from it."""
    import torch

    state = {"model": model.state_dict(), "optimizer": optimizer}
    torch.save(state, f"{path}.pt")
    np.savez(f"{path}.npz", **{name: array(x) for name, x in tensors_of(state, "checkpoint")})


def step(
    program: Program, inputs: list[Any], loss: Any, state: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Return gradients, and the parameters after a step of the optimizer. The optimizer's state is
    written to `state`."""
    import torch

    loss.backward()
    found = {}
    for place, x in enumerate(inputs):
        if isinstance(x, torch.Tensor) and x.grad is not None:
            found[f"grad of input {place}"] = array(x.grad)
    if program.model is None:
        return found
    names = dict(program.model.named_parameters())
    found |= {f"grad of {n}": array(p.grad) for n, p in names.items() if p.grad is not None}
    make = program.optimizer or (lambda params: torch.optim.SGD(params, lr=0.1))
    parameters = [p for p in names.values() if p.requires_grad]
    if parameters:
        optimizer = make(parameters)
        optimizer.step()
        state.update(optimizer.state_dict())
    found |= {f"state {n}": array(x) for n, x in program.model.state_dict().items()}
    return found


def read_back(row: Row, folder: Path) -> dict[str, np.ndarray]:
    """Return the values that PyTorch reads from gputensor's files."""
    import torch

    state = torch.load(folder / f"{row.name}.checkpoint.pt", weights_only=True)
    found = {name: array(x) for name, x in tensors_of(state, "checkpoint")}
    if (saved := folder / f"{row.name}.gputensor").is_dir():
        read = type(row.make(Inputs(row.name)).model).from_pretrained(saved)
        found |= {f"state {n}": array(x) for n, x in read.state_dict().items()}
    return found


def main(side: str, folder: str, *names: str) -> None:
    warnings.simplefilter("ignore")
    if side == "gputensor":
        from gputensor import as_torch

        as_torch.install()
    import torch

    torch.set_num_threads(1)
    kept = []
    if side != "gputensor":
        kept.append(torch.library.Library("torchvision", "FRAGMENT"))
        for name in _VISION.split():
            kept[0].define(f"{name}(Tensor x) -> Tensor")
    from .table import ROWS

    for row in (row for row in ROWS if row.name in names):
        path = Path(folder) / f"{row.name}.{side}"
        try:
            if side == "back":
                found = read_back(row, Path(folder))
            else:
                found = run(row, side, Path(folder))
            np.savez(f"{path}.npz", **found)
        except Exception as error:
            where = traceback.format_exc()
            Path(f"{path}.txt").write_text(f"{type(error).__name__}: {error}")
            Path(f"{path}.trace").write_text(where)


if __name__ == "__main__":
    main(*sys.argv[1:])
