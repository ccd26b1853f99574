"""`python -m bench.models '["torch", NAME, "step", SCALE]'`: run a model with one library and print
the peak of its resident memory in bytes. The benchmark's `run` starts this process."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from .networks import NETWORKS

CALLS = 3


def _peak_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) << 10
    raise OSError("/proc/self/status has no VmHWM")


def main(library: str, name: str, what: str, scale: int) -> None:
    lib = importlib.import_module(library)
    network = NETWORKS[name](lib, scale > 1)
    network.module.train(what == "step")
    optimizer = network.optimizer(list(network.module.parameters()))
    for _ in range(CALLS):
        if what == "forward":
            with lib.no_grad():
                network.module(*network.inputs)
            continue
        optimizer.zero_grad()
        network.loss(network.module(*network.inputs)).backward()
        if network.clip is not None:
            lib.nn.utils.clip_grad_norm_(network.module.parameters(), network.clip)
        optimizer.step()
    print(_peak_bytes())


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
