"""DistributedDataParallel with two ranks against PyTorch's with gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ...distributed import launch

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

# One step accumulates gradients, and one does not use all parameters; buffers differ by rank.
PROGRAM = """
import sys
from importlib import import_module
import numpy as np
name, folder, rank = sys.argv[1], sys.argv[2], int(sys.argv[3])
lib = import_module(name)
nn, dist = lib.nn, import_module(name + ".distributed")
parallel = import_module(name + ".nn.parallel")
if name == "torch":
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
else:
    dist.init_process_group()
    rank = dist.get_rank()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6)
        self.seldom, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
    def forward(self, x, all_of_it):
        x = self.norm(self.first(x)).tanh()
        return self.last(self.seldom(x) if all_of_it else x)

random = np.random.default_rng(rank)
net = Net()
with lib.no_grad():
    for p in net.parameters():
        p.copy_(lib.from_numpy(random.normal(size=tuple(p.shape)).astype("f4")))
model = parallel.DistributedDataParallel(net, find_unused_parameters=True, bucket_cap_mb=1e-4)
optimizer = lib.optim.Adam(model.parameters(), lr=0.05)
for step in range(6):
    x, y = (lib.from_numpy(random.normal(size=(5, n)).astype("f4")) for n in (4, 3))
    def backward():
        ((model(x, step % 3 != 1) - y) ** 2).mean().backward()
    if step == 3:
        with model.no_sync():
            backward()
        continue
    backward()
    optimizer.step()
    optimizer.zero_grad()
state = {name: x.detach().numpy() for name, x in model.state_dict().items()}
np.savez(f"{folder}/{name}{rank}", **state)
dist.destroy_process_group()
"""


def test_data_parallel(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    command = [str(script), "torch", str(tmp_path)]
    theirs = [
        subprocess.Popen([sys.executable, *command, str(rank)], stderr=subprocess.PIPE,
                         env=os.environ | {"OMP_NUM_THREADS": "1"})
        for rank in range(2)
    ]  # fmt: skip
    for process in theirs:
        _, said = process.communicate(timeout=launch.LIMIT_S)
        assert process.returncode == 0, said.decode()
    done = launch.run(2, str(script), "gputensor", str(tmp_path), "-1")
    assert done.returncode == 0, done.stdout
    for rank in range(2):
        ours, found = (np.load(tmp_path / f"{name}{rank}.npz") for name in ("gputensor", "torch"))
        assert ours.files == found.files
        for name in found.files:
            np.testing.assert_allclose(ours[name], found[name], 2e-4, 2e-5, err_msg=name)
