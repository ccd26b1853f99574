"""The operators of `_c10d_functional` are rows, defined and loaded like those of `aten`."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gputensor as gt
from codegen import load

OPS = load.load().others


def test_they_load_when_they_are_named() -> None:
    program = (
        "import sys, gputensor as gt\n"
        "mine = [n for n in sys.modules if 'gputensor.distributed' in n]\n"
        "assert not mine, mine\n"
        "x = gt.ones(4, 3, device='meta')\n"
        "made = gt.ops._c10d_functional.all_gather_into_tensor(x, 2, '0')\n"
        "assert made.shape == (8, 3) and 'mpi4py' not in sys.modules\n"
        "try: gt.library.Library('_c10d_functional', 'DEF')\n"
        "except gt.GpuTensorError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "families/collective.py" in done.stdout, done.stderr


def test_all_are_there() -> None:
    ops = gt.ops._c10d_functional
    assert len(OPS) == 14 and "_c10d_functional" in dir(gt.ops)
    for op in OPS:
        operator = getattr(ops, op.base).default
        assert str(operator.schema) == op.full_schema
        assert operator.def_site is not None and "families/collective.py" in operator.def_site


@pytest.mark.oracle
@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_schemas_are_pytorchs(op: load.Op) -> None:
    torch = pytest.importorskip("torch")
    theirs = str(getattr(torch.ops._c10d_functional, op.base).default._schema)
    # PyTorch also accepts a group object, and prints lists in another form.
    theirs = theirs.replace("Any group_name", "str group_name").replace("[](a!)", "(a!)[]")
    assert theirs == op.full_schema
