"""pyright --verifytypes: the share of public names with known types may only rise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .test_public_names import MODULES, ROOT

pytestmark = pytest.mark.full
# The share of all names without an underscore, also in modules that users never import. Increase it
# with the share.
KNOWN = 0.954
# Public names whose types pyright infers. The functions of gt.cuda are bound methods of one object,
# whose signatures are visible. With Callable[..., int] pyright would know the type, but readers
# would not see the arguments.
INFERRED = {
    "gt.array_api.__dir__", "gt.array_api.__getattr__", "gt.cuda.Stream",
    "gt.cuda.current_device", "gt.cuda.current_stream", "gt.cuda.default_stream", "gt.cuda.device",
    "gt.cuda.device_count", "gt.cuda.get_rng_state", "gt.cuda.initial_seed",
    "gt.cuda.is_available", "gt.cuda.manual_seed", "gt.cuda.manual_seed_all",
    "gt.cuda.set_device", "gt.cuda.set_rng_state", "gt.cuda.stream", "gt.cuda.synchronize",
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    program = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("pyright is not installed")
    asked = [program, "--verifytypes", "gputensor", "--ignoreexternal", "--outputjson"]
    done = subprocess.run(
        [*asked, "--pythonpath", sys.executable],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    said: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    assert Path(said["packageRootDirectory"]) == ROOT / "gputensor"
    return said


def test_the_share_only_rises(found: dict[str, Any]) -> None:
    assert found["completenessScore"] >= KNOWN
    assert found["completenessScore"] < KNOWN + 0.01, "raise KNOWN"


def test_what_users_name_has_a_declared_type(found: dict[str, Any]) -> None:
    inferred, count = set(), 0
    for symbol in found["symbols"]:
        module, _, name = symbol["name"].replace("gputensor", "gt", 1).rpartition(".")
        if module in MODULES:
            count += 1
            if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]:
                inferred.add(f"{module}.{name}")
    assert count > 1300 and inferred == INFERRED
