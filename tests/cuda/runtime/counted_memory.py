"""Memory of a ResNet-50, counted by the allocator without computing or allocating anything.

    python -m tests.cuda.runtime.counted_memory 64      # samples of 3 x 224 x 224

prints JSON, in bytes: `forward`, the peak of a forward pass without gradients; `held`, what a
forward pass leaves for the gradients; `step`, the peak of a training step with SGD and momentum
after the first. Blocks of windows are those of the emulator's GPU. Temporaries within a function of
a library, such as cuBLAS's workspace, are not in it.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import count
from types import SimpleNamespace
from typing import Any

import gputensor as gt
from gputensor import nn, runtime
from gputensor.nn import functional as F


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1, self.norm1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample: nn.Module | None = None
        if inputs != outputs or stride != 1:
            narrow = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(narrow, nn.BatchNorm2d(outputs))

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm3(self.conv3(self.relu(self.norm2(self.conv2(y)))))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


def resnet50() -> nn.Module:
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    inputs = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if stage and not block else 1))
            inputs = 4 * width
    ends = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)
    return nn.Sequential(*layers, *ends)


def leave_out_work() -> None:
    """Replace the emulator's memory by addresses, and make its launches, copies and calls do
    nothing."""
    from gputensor.runtime import cuda_emulator
    from gputensor.runtime.cuda_emulator import devices, memory

    cuda_emulator.start()
    devices.total_bytes = 1 << 45
    addresses = count(1 << 40, 1 << 35)  # the next address, after all allocated ones

    def nothing(*args: Any, **kwargs: Any) -> None:
        pass

    def call_library(
        op: str, function: Any, operands: Any, results: Any, device_index: int
    ) -> list[Any]:
        return [memory.allocate(x.extent_bytes, device_index) for x in results]

    memory.Backend.malloc = lambda self, size, stream: (next(addresses), size)  # type: ignore
    memory.Backend.free = nothing  # type: ignore[method-assign]
    replaced = {
        "launch": nothing, "launcher": lambda *args: nothing, "call_library": call_library,
        "copy_async": nothing, "memset_async": nothing, "prefer_shared": nothing,
        "compile": lambda *args, **kwargs: b"", "load": lambda *args: SimpleNamespace(),
    }  # fmt: skip
    for name, function in replaced.items():
        setattr(cuda_emulator, name, function)
        if hasattr(runtime, name):
            setattr(runtime, name, function)


def counted(samples: int) -> dict[str, int]:
    net = resnet50().to("cuda")
    optimizer = gt.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    x = gt.empty(samples, 3, 224, 224, device="cuda")
    target = gt.empty(samples, dtype=gt.int64, device="cuda")
    found = {}
    with gt.no_grad():
        gt.cuda.reset_peak_memory_stats()
        net(x)
    found["forward"] = gt.cuda.max_memory_allocated()
    for _ in range(2):
        optimizer.zero_grad()
        gt.cuda.reset_peak_memory_stats()
        loss = F.cross_entropy(net(x), target)
        found["held"] = gt.cuda.memory_allocated()
        loss.backward()
        optimizer.step()
        del loss
        found["step"] = gt.cuda.max_memory_allocated()
    return found


if __name__ == "__main__":
    os.environ["GPUTENSOR_CUDA"] = "emulator"
    leave_out_work()
    print(json.dumps(counted(int(sys.argv[1]))))
