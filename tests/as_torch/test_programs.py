"""PyTorch programs with gputensor as `torch`, each in a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gputensor as gt
from gputensor.as_torch.finder import Facade
from gputensor.as_torch.places import Absent, SOURCES
from gputensor.as_torch.stand_ins import STAND_INS
from gputensor.core.errors import absent

PROGRAM = """
import sys
from typing import Optional
import torch, torch.nn as nn, torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.utils import _pair
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.checkpoint import checkpoint
from torch.autograd import Variable
from torch.optim.lr_scheduler import CyclicLR
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.optim.swa_utils import AveragedModel
from torch.optim._muon import Muon
from torch.fx import Graph

torch.backends.cudnn.benchmark = True


@torch.jit.script
def swish(x: Tensor, scale: Optional[float] = None) -> Tensor:
    return x * torch.sigmoid(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, _pair(3))
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = checkpoint(lambda x: swish(self.norm(self.conv(x))), x, use_reentrant=False)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


assert torch.__config__.show() and isinstance(torch.ones(1).layout, torch.layout)
assert torch.__version__ >= "2.2" and torch.__version__ > (2, 10) and "+" in torch.__version__
import torch.nn.utils.weight_norm
assert torch.nn.utils.weight_norm(nn.Linear(1, 1)).weight_g.shape == (1, 1)

torch.manual_seed(0)
net = Net()
assert isinstance(Variable(torch.ones(1)), Variable) and not torch.ones(1).is_sparse
assert isinstance(net.norm, _BatchNorm) and isinstance(torch.zeros(1), torch.FloatTensor)
data = DataLoader(TensorDataset(torch.rand(16, 1, 6, 6), torch.arange(16) % 2), 4, shuffle=True)
optimizer = torch.optim.NAdam(net.named_parameters(), lr=1e-2)
schedule, average = CyclicLR(optimizer, 1e-3, 1e-2, step_size_up=2), AveragedModel(net)
stepped = []
register_optimizer_step_post_hook(lambda *of: stepped.append(of))
for images, labels in data:
    optimizer.zero_grad()
    loss = F.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    schedule.step()
    average.update_parameters(net)
assert len(stepped) == average.n_averaged == 4 and Muon is torch.optim.Muon
added = torch.compile(lambda x: x + 1)(torch.ones(2))
print(torch.isfinite(loss).item(), added.tolist(), sys.argv[1:])
print(torch.func.grad(lambda x: (x * x).sum())(torch.ones(2)).tolist(), torch.__name__)
"""


def run(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(("-c", code) if code else ("-m", "gputensor", "run-as-torch"))]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def test_a_training_program_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    done = run(str(script), "a", "--b")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "True [2.0, 2.0] ['a', '--b']"
    assert second == "[2.0, 2.0] torch"


@pytest.mark.full
def test_every_module_of_the_table_is_imported() -> None:
    names = sorted({*SOURCES, *STAND_INS, *absent.modules()} - {"torch.utils.tensorboard"})
    code = "from gputensor import as_torch; as_torch.install(); import importlib\n"
    code += f"for name in {names}:\n    m = importlib.import_module(name); assert dir(m), name\n"
    done = run(code=code + "import torch; assert torch.nn.functional.relu and torch.linalg.inv")
    assert done.returncode == 0, done.stderr


NOT_HERE = [
    ("import torch.nonsense", "No module named 'torch.nonsense' in gputensor"),
    ("import torch; torch.nonsense", "has no attribute 'nonsense' in gputensor"),
    ("from torch.ao.quantization import QuantStub; QuantStub()", "there are no quantised tensors"),
    ("import torch; torch.hub.load('a', 'b')", "nothing is downloaded"),
    ("import torch; torch.jit.trace(len, ())", "not compiled to TorchScript"),
    ("import torch; torch.sparse_coo_tensor()", "torch.sparse_coo_tensor: there are no sparse"),
    ("import torch; torch.sparse.mm()", "torch.sparse.mm: there are no sparse tensors"),
    ("import torch; torch.ones(1).to_sparse()", "there are no sparse tensors; use dense ones"),
]

TOLD = """
import traceback
from gputensor import as_torch
as_torch.install()
for code in {codes}:
    try:
        exec(code, {{}})
    except BaseException as error:
        print(traceback.format_exception_only(error)[-1].splitlines()[-1])
    else:
        print("nothing")
"""


def test_a_module_stores_functions_types_and_dtypes() -> None:
    module = Facade("torch", ("gputensor",), {})
    names = {"matmul", "Generator", "float64"}
    assert not names & vars(module).keys()
    assert all(getattr(module, name) is getattr(gt, name) for name in names)
    assert names <= vars(module).keys()
    assert module.pi == gt.pi and "pi" not in vars(module)
    module.matmul = len
    assert module.matmul is len


@pytest.mark.full
def test_what_is_not_here_says_so() -> None:
    done = run(code=TOLD.format(codes=[code for code, _ in NOT_HERE]))
    assert done.returncode == 0, done.stderr
    for told, (code, said) in zip(done.stdout.splitlines(), NOT_HERE, strict=True):
        assert said in told, code


def test_it_is_never_active_unasked_and_never_beside_pytorch() -> None:
    code = """
import sys, types, gputensor
assert "torch" not in sys.modules
from gputensor import as_torch
as_torch.install(); as_torch.install()
import torch, importlib.metadata
assert importlib.metadata.version("torch") == torch.__version__.partition("+")[0]
as_torch.uninstall()
assert not as_torch.is_installed() and not [n for n in sys.modules if n.startswith("torch")]
sys.modules["torch"] = types.ModuleType("torch")
try:
    as_torch.install()
except Exception as error:
    print(error)
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    assert "before PyTorch is imported" in done.stdout


def test_functions_of_numpy_return_what_they_do_in_pytorch() -> None:
    code = """
import numpy as np
import gputensor
from gputensor import as_torch
as_torch.install()
import torch
t = torch.tensor([1.0, 2.0])
for made in (np.concatenate([t, t]), np.stack([t, t]), np.vstack([t, t]), np.unique(t),
             np.where([True, False], t, 0), np.expand_dims(t, 0)):
    assert type(made) is np.ndarray, made
assert type(np.linalg.norm(t)) is np.float32
for made in (np.sqrt(t), np.transpose(t), np.clip(t, 0, 1), np.argmax(t), np.abs(t)):
    assert type(made) is torch.Tensor, made
assert type((1,) + t.shape) is torch.Size and (1,) + t.shape == (1, 2)
as_torch.uninstall()
assert type(np.concatenate([t, t])) is gputensor.Tensor and type(np.clip(t, 0, 1)) is type(t)
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
def test_the_command_refuses_what_is_no_program(tmp_path: Path) -> None:
    assert run(str(tmp_path / "none.py")).returncode == 2
    assert run("-m").returncode == 2 and run().returncode == 2
    script = tmp_path / "ends.py"
    script.write_text("import sys; sys.exit(7)")
    assert run(str(script)).returncode == 7


@pytest.mark.full
def test_weights_are_mapped_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(8)))
    code = f"""
from gputensor import as_torch; as_torch.install()
import torch
stored = torch.UntypedStorage.from_file({str(path)!r}, False, 8)
stored = stored.untyped()[4:8]
print(torch.asarray(stored, dtype=torch.uint8).view(dtype=torch.int16).reshape(2).tolist())
is_storage = isinstance(torch.ones(1).untyped_storage(), torch.UntypedStorage)
print(torch.finfo(torch.float8_e4m3fn).max, is_storage)
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1284, 1798]\n448.0 True\n"


@pytest.mark.full
def test_a_call_of_tensor_makes_one() -> None:
    code = """
from gputensor import as_torch; as_torch.install()
import torch
sized, empty = torch.Tensor(2, 3), torch.Tensor()
print([*sized.shape], [*empty.shape], [*torch.Tensor(torch.Size([4])).shape], sized.dtype)
print(torch.Tensor([1, 2]).tolist(), torch.Tensor(sized).data_ptr() == sized.data_ptr())
assert torch.torch is torch and torch.ones(1).type("torch.LongTensor").dtype is torch.int64
as_torch.uninstall()
try:
    torch.Tensor(2)
except TypeError as error:
    print(error)
"""
    done = run(code=code)
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "[2, 3] [0] [4] torch.float32" and second == "[1.0, 2.0] True"
    assert "must be given to gputensor.tensor" in third


def test_names_that_packages_import_are_there() -> None:
    code = """
from gputensor import as_torch; as_torch.install()
import torch
from torch.autograd.function import FunctionCtx
from torch.distributions.transforms import _InverseTransform
from torch.optim.optimizer import required
from torch.utils.checkpoint import get_device_states, set_device_states
from torch.utils.dlpack import from_dlpack, to_dlpack
assert from_dlpack(to_dlpack(torch.ones(2))).tolist() == [1, 1]
devices, states = get_device_states(torch.ones(2), 3)
set_device_states(devices, states)
assert devices == states == [] and repr(required) == "<required parameter>"
assert torch.profiler.ProfilerActivity.CPU is not torch.profiler.ProfilerActivity.CUDA
active = torch._C._are_functorch_transforms_active
inside = []
torch.func.vmap(lambda x: (inside.append(active()), x)[1])(torch.ones(2))
assert inside == [True] and not active()
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert isinstance(ctx, FunctionCtx)
        return x * 2
Twice.apply(torch.ones(1))
try:
    torch._assert_async(torch.zeros(1))
except AssertionError:
    print("ok")
"""
    done = run(code=code)
    assert done.returncode == 0 and done.stdout == "ok\n", done.stderr


def test_absent_names_can_be_derived_from() -> None:
    found = Absent("fx.Tracer", "programs are not traced into graphs")

    class Mine(found):  # type: ignore[misc]
        pass

    assert not isinstance(3, found) and found[int] is found
    for use in (Mine, lambda: iter(found), lambda: tuple(found)):
        with pytest.raises(NotImplementedError, match="not traced into graphs"):
            use()


@pytest.mark.full
@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_that_a_program_starts_see_it_too(tmp_path: Path, method: str) -> None:
    script = tmp_path / "program.py"
    script.write_text(f"""
import torch
import torch.multiprocessing as mp

def double(x, results):
    x.mul_(2)
    results.put(torch.__version__)

if __name__ == "__main__":
    context = mp.get_context({method!r})
    x, results = torch.ones(3).share_memory_(), context.Queue()
    process = context.Process(target=double, args=(x, results))
    process.start()
    print(results.get(timeout=100))
    process.join()
    print(x.tolist(), process.exitcode)
""")
    done = run("-m", "gputensor", "run-as-torch", str(script))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2.13.0+gputensor\n[2.0, 2.0, 2.0] 0\n"


@pytest.mark.full
def test_tensorboard_is_missing_as_a_package_is() -> None:
    """Programs that log in another way if it is not installed do so."""
    program = (
        "from gputensor import as_torch; as_torch.install()\n"
        "try: from torch.utils.tensorboard import SummaryWriter\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = run(code=program)
    assert "tensorboardX" in done.stdout, done.stderr
