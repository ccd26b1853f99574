"""Converts a photograph to a model's input and back to an image.

For each step the program prints sizes, strides and flags. It times the step in alternating rounds
with NumPy (and PyTorch and CuPy if installed), and compares the results bit by bit. A picture shows
the photograph before and after, the order in memory, and the times.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import gputensor as gt
from gputensor.cli import layouts
from gputensor.cli.output import (
    BAD_INPUT,
    CHECK_FAILED,
    DEVICE_ABSENT,
    FINE,
    Arguments,
    Progress,
    Refusal,
    print_json,
)
from gputensor.core import errors

from . import images, picture, pipelines, report, timing
from .pipelines import STEPS, VIEWS, Pipeline, State

# Number of images in a batch: too many for the caches, and few enough to run in seconds.
_BATCH = {"cpu": 8, "cuda": 64, "emulator": 2}
_ROUNDS = 7


def main(argv: list[str]) -> int:
    parser = Arguments("demo", __doc__ or "")
    parser.add_argument(
        "image", nargs="?", type=Path, help="PNG or JPEG (default: matplotlib's sample photograph)"
    )
    parser.add_argument(
        "--device", help="cpu, cuda or cuda:N (default: the GPU where there is one, else cpu)"
    )
    parser.add_argument("--batch", help="how many images the batch holds")
    parser.add_argument(
        "--peers", help="comma-separated: numpy, cupy, torch (default: all that are installed)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("demo.png"),
        help="the picture to write (default: %(default)s)",
    )
    arguments = parser.parse_args(argv)

    device = _device(arguments.device)
    count = _positive("--batch", arguments.batch)
    path = arguments.image or images.default()
    image = images.read(path)
    images.check_writable(arguments.output)
    picture.require()
    contestants = _contestants(device, arguments.peers)

    progress = Progress()
    kind = "emulator" if _is_emulated(device) else device.type
    batch = images.make_batch(image, count, _BATCH.get(kind, 2))
    found, planes = run(batch, device, contestants, progress)
    progress("the picture")
    images.write(arguments.output, picture.draw(found, batch[0], planes))
    progress.done()
    found |= {"image": str(path), "written": str(arguments.output)}
    print_json(found) if arguments.json else print(report.text(found))
    return FINE if found["all_equal"] else CHECK_FAILED


def _device(name: str | None) -> Any:
    if name is None:
        return gt.device(
            "cuda:0" if gt.cuda.is_available() and not gt.cuda.is_emulated() else "cpu"
        )
    try:
        device = gt.device(name)
    except errors.GpuTensorError:
        device = None
    if device is None or device.type == "meta":
        rule = "must be cpu, cuda or cuda:N"
        raise Refusal(
            f"'--device' {rule} (got {name!r}), or a device that is registered", BAD_INPUT
        )
    try:
        return gt.empty(1, device=device).device
    except errors.GpuTensorError as error:
        raise Refusal(f"'--device': {error}", DEVICE_ABSENT) from None


def _is_emulated(device: Any) -> bool:
    return device.type == "cuda" and gt.cuda.is_emulated()


def _positive(option: str, given: str | None) -> int | None:
    if given is None:
        return None
    if not (given.isascii() and given.isdigit() and int(given)):
        raise Refusal(f"'{option}' must be a positive integer (got {given!r})")
    return int(given)


def _contestants(device: Any, chosen: str | None) -> list[Pipeline]:
    found = pipelines.peers(device, _is_emulated(device))
    names = list(found) if chosen is None else [n for n in chosen.split(",") if n]
    for name in names:
        if name not in found:
            raise Refusal(f"'--peers' must be of {', '.join(found)} here (got {name!r})")
    # NumPy's results are the reference, so NumPy always runs, even if `--peers` does not name it
    return [
        pipelines.Tensors(gt, "gputensor", device),
        *(found[n]() for n in dict.fromkeys(("numpy", *names))),
    ]


def run(
    batch: np.ndarray, device: Any, contestants: list[Pipeline], progress: Progress
) -> tuple[dict[str, Any], np.ndarray]:
    """Run all steps. Return the report, and the first image in the layout of a model's input: (C,
    H, W)."""
    is_emulated = _is_emulated(device)
    count = len(batch)
    window = _window(batch.shape[1]), _window(batch.shape[2])
    states: list[State] = [p.start(batch, window) for p in contestants]
    ours = states[0]
    rows = [
        _row(
            "raw",
            "1 photograph" if count == 1 else f"{count} photographs",
            ours["raw"],
            is_view=False,
        )
    ]
    for number, step in enumerate(STEPS, 1):
        progress(f"{step.name} ({number} of {len(STEPS)})")
        if step.reads in VIEWS:
            for pipeline, state in zip(contestants, states):
                state[step.reads] = pipeline.view(step.reads, state)
            code = VIEWS[step.reads].format(*(f"{w.start}:{w.stop}" for w in window))
            rows.append(_row(step.reads, code, ours[step.reads], is_view=True))
        row = _measure(step, contestants, states, 0 if is_emulated else _ROUNDS)
        rows.append(
            _row(step.name, contestants[0].code(step), ours[step.name], is_view=False) | row
        )
    top, left = window
    pixels = contestants[0].to_numpy(ours["image"])
    round_trip = bool(np.array_equal(pixels, batch[:, top, left]))
    checks = [equal for row in rows for equal in row.get("equal", {}).values()]
    found = {
        "gputensor": gt.__version__,
        "device": str(device),
        "is_emulated": is_emulated,
        "threads": gt.get_num_threads(),
        "libraries": [{"name": p.name, "device": p.where} for p in contestants],
        "batch": list(batch.shape),
        "steps": rows,
        "trace": _trace(ours["as_nchw"]),
        "iterator": _walks(ours, device),
        "equals_the_photograph": round_trip,
        "all_equal": round_trip and all(checks),
    }
    return found, contestants[0].to_numpy(ours["packed"])[0]


def _window(size: int) -> slice:
    return slice(size // 8, size - size // 8)


def _row(name: str, code: str, tensor: Any, is_view: bool) -> dict[str, Any]:
    return {"name": name, "code": code, "is_view": is_view} | layouts.describe(tensor)


def _measure(
    step: Any, contestants: list[Pipeline], states: list[State], rounds: int
) -> dict[str, Any]:
    """Run a step with every library, compare the results with NumPy's, and time it."""
    for pipeline, state in zip(contestants, states):
        state[step.name] = pipeline.run(step, state)
    nbytes = sum(
        states[0][name].numel() * states[0][name].element_size() for name in (step.reads, step.name)
    )
    reference = next(s[step.name] for p, s in zip(contestants, states) if p.name == "NumPy")
    equal = {
        p.name: bool(np.array_equal(p.to_numpy(s[step.name]), reference))
        for p, s in zip(contestants, states)
        if p.name != "NumPy"
    }
    seconds = {}
    if rounds:
        seconds = timing.take_turns(
            [
                timing.Contestant(p.name, _work(p, step, s), p.synchronize)
                for p, s in zip(contestants, states)
            ],
            rounds,
        )
    return {
        "bytes": nbytes,
        "seconds": seconds,
        "gb_per_s": {n: nbytes / s / 1e9 for n, s in seconds.items()},
        "equal": equal,
    }


def _work(pipeline: Pipeline, step: Any, state: State) -> Any:
    return lambda: pipeline.run(step, state)


def _trace(view: Any) -> list[str]:
    from gputensor.dispatch import trace

    with trace() as lines:
        view.contiguous()
    return lines


def _walks(ours: State, device: Any) -> list[dict[str, Any]]:
    """Return the coalesced layouts of four copies. The first copy is small enough for a reader to
    check the layout by hand."""
    small = gt.empty(1, 64, 5, 4, device=device)
    copies = [
        ("1,64,5,4 to channels_last", small.contiguous(memory_format=gt.channels_last), small),
        ("NHWC to NCHW", ours["nchw"], ours["as_nchw"]),
        ("NCHW to channels_last", ours["channels_last"], ours["nchw"]),
        ("the crop, made contiguous", ours["cropped"], ours["crop"]),
    ]
    return [{"copy": name} | layouts.walk(out, source) for name, out, source in copies]
