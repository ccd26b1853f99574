"""Every public name of PyTorch's modules exists, or is left out with a reason."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import gputensor as gt
from gputensor.core.errors import absent, names

OF_PROGRAMS = Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines()
FROZEN = {
    module: listed.split()
    for module, _, listed in (
        line.partition(": ")
        for line in names._LISTS.read_text(encoding="utf-8").splitlines()[1:] + OF_PROGRAMS
    )
    if module.startswith("torch")
}
MODULES = sorted(FROZEN)
# Names with a module in gputensor; its errors also contain the reason.
WITH_OURS = [name for name in MODULES if not any(x.startswith(f"{name}: ") for x in OF_PROGRAMS)]
# A complex matrix has every attribute of tensors.
LOOK = """
import importlib, json, sys
from gputensor import as_torch
as_torch.install()
import torch
found = {}
for module, listed in json.load(sys.stdin).items():
    is_class = module == "torch.Tensor"
    of = torch.ones(2, 2, dtype=complex) if is_class else importlib.import_module(module)
    found[module] = [name for name in listed if not hasattr(of, name)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def lacking() -> dict[str, list[str]]:
    """Return the names that a program under run-as-torch does not find, by module."""
    asked = json.dumps({module: FROZEN[module] for module in MODULES})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK], input=asked, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_name_is_there_or_left_out_with_a_reason(
    module: str, lacking: dict[str, list[str]]
) -> None:
    assert [name for name in lacking[module] if not absent.why(module, name)] == []


def test_the_modules_have_names() -> None:
    assert len(MODULES) > 15 and sum(map(len, FROZEN.values())) > 2000


@pytest.mark.parametrize("module", WITH_OURS)
def test_what_is_left_out_is_not_there(module: str) -> None:
    of = (
        gt.ones(2, 2, dtype=gt.complex64)
        if module == "torch.Tensor"
        else functools.reduce(getattr, module.split(".")[1:], gt)
    )
    out = [name for name in FROZEN[module] if absent.why(module, name)]
    assert [name for name in out if hasattr(of, name)] == []
    for name in out:
        with pytest.raises(AttributeError) as caught:
            getattr(of, name)
        assert str(caught.value).endswith(f"no attribute {name!r}: {absent.why(module, name)}")


def test_no_pattern_is_left_over() -> None:
    unused = [
        (module, form) for module, form in absent.patterns()
        if not any(fnmatchcase(name, form) for name in FROZEN.get(module, ()))
        and module in FROZEN
    ]  # fmt: skip
    assert unused == []


@pytest.mark.oracle
def test_the_modules_that_are_left_out_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    from pathlib import Path

    root = Path(torch.__file__).parent.parent
    for name in absent.modules():
        path = root.joinpath(*name.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), name
