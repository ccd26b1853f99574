"""Install and run what a release publishes, as its users do: `make release`, or
`python -m tests.release dist`.

pip installs every wheel and the sdist of the folder into a new environment of each Python of this
machine. Then a program runs there, without access to the checkout. The sdist is built only
on the first Python, because its result depends on the compiler. pip fetches the dependencies.
Prints one line for each installation; exits with 1 if one fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from . import interpreters

PROGRAM = '''
"""Works on what the package is for: layouts, training, files, programs of PyTorch's, doctor."""
import subprocess, sys
from importlib.metadata import version
from pathlib import Path
import numpy as np
import gputensor as gt
from gputensor import nn

assert Path(gt.__file__).is_relative_to(sys.prefix), gt.__file__
assert gt.__version__ == version("gputensor"), (gt.__version__, version("gputensor"))

image = np.arange(2 * 5 * 7 * 3, dtype=np.uint8).reshape(2, 5, 7, 3)
packed = gt.layout.pack(gt.from_numpy(image).permute(0, 3, 1, 2), dtype=gt.float32, scale=1 / 255)
expected = image.transpose(0, 3, 1, 2) / np.float32(255)
np.testing.assert_allclose(packed.numpy(), expected, rtol=1e-6)

gt.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 3 * 5, 2))
optimizer = gt.optim.Adam(model.parameters(), lr=0.02)
losses = []
for _ in range(20):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(packed), gt.tensor([0, 1]))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.5 * losses[0], losses

gt.save(model.state_dict(), "model.pt")
again = gt.load("model.pt")
assert all(gt.equal(again[name], value) for name, value in model.state_dict().items())

Path("script.py").write_text("import torch; print(torch.ones(2, 3).softmax(1).sum().item())")
command = [sys.executable, "-I", "-m", "gputensor"]
ran = subprocess.run([*command, "run-as-torch", "script.py"], capture_output=True, text=True)
assert ran.stdout.strip() == "2.0", ran
doctor = subprocess.run([*command, "doctor"], capture_output=True, text=True)
assert "gputensor" in doctor.stdout, doctor
print(gt.__version__, gt.backends.cpu.get_cpu_capability())
'''


def pythons() -> dict[str, str]:
    """Return the interpreter of each version, the running one first."""
    own = "{}.{}".format(*sys.version_info)
    return {own: getattr(sys, "_base_executable", sys.executable), **interpreters.others()}


def trials(folder: Path) -> Iterator[tuple[Path, str, str]]:
    """Return (file, version, interpreter) for each installation to test."""
    found = pythons()
    for wheel in sorted(folder.glob("*.whl")):
        yield from ((wheel, version, python) for version, python in found.items())
    for sdist in sorted(folder.glob("*.tar.gz")):
        yield (sdist, *next(iter(found.items())))


def tried(file: Path, python: str, at: Path) -> str:
    """Return the output of the program. Raises: CalledProcessError."""
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("GPUTENSOR_", "PYTHON"))
    }  # fmt: skip
    place = at / "environment"
    runs = str(place / "bin" / "python")
    (at / "program.py").write_text(PROGRAM)
    for command in (
        [python, "-m", "venv", str(place)],
        [runs, "-m", "pip", "install", "-qq", "--disable-pip-version-check", str(file)],
        [runs, "-I", "program.py"],
    ):
        done = subprocess.run(
            command, cwd=at, env=environment, capture_output=True, text=True, check=True
        )
    return done.stdout.strip()


def main(folder: str) -> None:
    failed = 0
    todo = list(trials(Path(folder).resolve()))
    if not todo:
        sys.exit(f"release: nothing to try in {folder}; `make release` builds it")
    for number, (file, version, python) in enumerate(todo, 1):
        with tempfile.TemporaryDirectory() as at:
            try:
                said = tried(file, python, Path(at))
            except subprocess.CalledProcessError as error:
                failed += 1
                said = f"FAILED: {' '.join(error.cmd)}\n{error.stdout}{error.stderr}"
        print(f"{number}/{len(todo)}  Python {version:5} {file.name}: {said}", flush=True)
    if failed:
        sys.exit(f"release: {failed} of {len(todo)} failed")


if __name__ == "__main__":
    main(*sys.argv[1:])
