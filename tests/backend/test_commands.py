"""`gputensor backend new|check|missing`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.__main__ import main
from gputensor.cli.backend import missing as backend_missing, new as backend_new
from gputensor.core.errors import GpuTensorError
from gputensor.op_tests import check, samples
from tests import freeze_samples
from tests.harness import tier

from .devices import Runtime, runs

ROOT = Path(__file__).parents[2]


@pytest.fixture
def acme() -> Any:
    with gt.backend.register("acme", runtime=Runtime()) as device:
        yield device


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["backend", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


# --- new ------------------------------------------------------------------------------------------


def test_openreg_is_what_new_writes() -> None:
    for path, text in backend_new.render("openreg", "PrivateUse1").items():
        assert (ROOT / "examples" / "openreg" / path).read_text() == text, path


@pytest.mark.full
@pytest.mark.parametrize("key", tier.pick(["PrivateUse3"], ["PrivateUse1", "PrivateUse3"]))
def test_what_new_writes_passes_its_own_tests_and_the_check(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made"
    status, found = answer(capsys, "new", "toy", "--key", key, "--into", str(folder))
    assert status == 0 and len(found["files"]) == 7 and found["key"] == key
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for command in (
        ["pytest", "-q"],
        ["gputensor", "backend", "check", "./", "--op", "abs", "--op", "add"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "1 native, 1 fallback, 0 missing, 0 failed" in done.stdout


@pytest.mark.parametrize("arguments, sentence", [
    (["new", "Toy"], "must be a lower-case identifier"),
    (["new", "class"], "must be a lower-case identifier"),
    (["new", "cuda"], "must not be an operator, a method, a module or a device of ours"),
    (["new", "privateusetwo"], "must not be an operator"),
    (["new"], "(see gputensor backend new --help)"),
    (["new", "toy", "--into", "."], "must be a new folder"),
    (["new", "toy", "--key", "CUDA"], "invalid choice"),
    (["check", "acme", "--op", "nop"], "must name operators that have tests (got nop)"),
    (["check", "./nowhere"], "must be a folder whose pyproject.toml"),
    (["missing", "acme", "nowhere.py"], "'script' must be a file"),
    (["old"], "invalid choice"),
])  # fmt: skip
def test_bad_input_is_one_sentence(
    acme: Any, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backend", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and sentence in captured.err and captured.err.count("\n") == 1


@pytest.mark.parametrize("command", [["check", "nobody"], ["missing", "nobody", __file__]])
def test_a_device_that_is_not_there(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backend", *command]) == 3
    assert "nobody: no device" in capsys.readouterr().err


# --- check ----------------------------------------------------------------------------------------


def test_the_samples_are_the_rows() -> None:
    assert freeze_samples.is_current(), "samples.json is stale; run python -m tests.freeze_samples"
    loaded = samples.load()
    assert len(loaded) > 80 and sum(len(row.samples) for row in loaded) > 1000


def test_nothing_executed_is_a_failure(acme: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = answer(capsys, "check", "acme", "--op", "exp", "--op", "mm")
    assert status == 1 and found["executed"] == 0 and found["missing"] == 2
    assert main(["backend", "check", "acme", "--op", "exp"]) == 1
    shown = capsys.readouterr().out
    assert "nothing was executed" in shown and "next to write: exp" in shown


def test_missing_operators_fail_only_a_strict_check(
    acme: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    status, found = answer(capsys, "check", "acme", "--op", "exp", "--op", "view")
    assert status == 0 and found["missing"] == found["native"] == 1
    assert answer(capsys, "check", "acme", "--op", "exp", "--op", "view", "--strict")[0] == 1


@pytest.mark.parametrize("work, what", [
    (lambda op, out, x: np.add(np.absolute(x), 1, out=out, casting="unsafe"), "wanted"),
    (lambda op, out, x: np.copyto(out, np.absolute(x).ravel()[::-1].reshape(x.shape)), "wanted"),
    (lambda op, out, x: 1 / 0, "ZeroDivisionError"),
    (lambda op, out, x: (np.absolute(x, out=out), x.fill(0)), "wanted"),  # writes to its input
])  # fmt: skip
def test_a_wrong_kernel_fails(
    acme: Any, work: Any, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    acme.register_stub("unary", runs(work), "abs")
    status, found = answer(capsys, "check", "acme", "--op", "abs")
    (row,) = found["operators"]
    assert status == 1 and row["status"] == "failed" and what in row["failures"][0]
    assert main(["backend", "check", "acme", "--op", "abs"]) == 1
    assert "failed" in capsys.readouterr().out


def test_a_kernel_that_ignores_strides_fails(acme: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def bind(op: str, plan: Any) -> Any:
        plan.stride_bytes = tuple(
            tuple(4 * i + 4 for i, _ in enumerate(s)) for s in plan.stride_bytes
        )
        return runs(lambda op, out, x: np.absolute(x, out=out))(op, plan)

    acme.register_stub("unary", bind, "abs")
    assert answer(capsys, "check", "acme", "--op", "abs")[0] == 1


@pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")
def test_who_served_is_told_apart(acme: Any) -> None:
    acme.register_stub("unary", runs(lambda op, out, x: np.absolute(x, out=out)), "abs")
    acme.fall_back_to_cpu(deny=["exp"])
    rows = [
        r for r in samples.load() if r.name in ("abs", "add", "exp", "flip", "contiguous", "view")
    ]
    found = {o.name: o for o in check.check(rows, gt.device("acme"))}
    assert {n: o.status for n, o in found.items()} == {
        "abs": "native", "add": "fallback", "exp": "missing", "flip": "fallback",
        "contiguous": "fallback", "view": "native",
    }  # fmt: skip
    assert found["add"].served_elsewhere == {"aten::add.Tensor", "aten::add_.Tensor"}
    assert found["contiguous"].served_elsewhere == {"aten::copy_"}


# --- missing --------------------------------------------------------------------------------------

SCRIPT = """
import sys
import gputensor as gt
x = gt.arange(8).float()
for _ in range(5):
    x = (x * 2).abs()
print(x.sum(), sys.argv[1:])
"""


def test_missing_ranks_by_calls_and_bytes(
    acme: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acme.register_stub("unary", lambda op, plan: None, "abs")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    status, found = answer(capsys, "missing", "acme", str(script), "one")
    rows = {r["operator"]: r for r in found["operators"]}
    assert status == 0 and list(rows)[:2] == ["aten::abs", "aten::mul.Tensor"]
    assert rows["aten::mul.Tensor"] == {
        "operator": "aten::mul.Tensor",
        "status": "missing",
        "calls": 5,
        "bytes": 320,
    }
    assert (
        rows["aten::abs"]["status"] == "native"
        and rows["aten::arange.start_out"]["status"] == "missing"
    )
    assert rows["aten::copy_"]["status"] == "missing"
    assert main(["backend", "missing", "acme", str(script)]) == 0
    captured = capsys.readouterr()
    assert (
        "aten::abs" not in captured.out
        and "aten::sum" in captured.out
        and "tensor(" in captured.err
    )


def test_a_script_that_fails_or_calls_nothing(
    acme: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text("1 / 0")
    assert main(["backend", "missing", "acme", str(script)]) == 2
    assert "'script' raised ZeroDivisionError" in capsys.readouterr().err
    script.write_text("pass")
    assert main(["backend", "missing", "acme", str(script)]) == 1


@pytest.mark.parametrize("operator, call", [
    ("aten::arange", lambda d: gt.arange(3, device=d)),
    ("aten::arange.start", lambda d: gt.arange(1, 3, device=d)),
    ("aten::linspace", lambda d: gt.linspace(0, 1, 3, device=d)),
    ("aten::eye", lambda d: gt.eye(3, device=d)),
    ("aten::eye.m", lambda d: gt.eye(3, 2, device=d)),
    ("aten::uniform_", lambda d: gt.rand(3, device=d)),
    ("aten::uniform_", lambda d: gt.rand_like(gt.empty(3, device=d))),
    ("aten::random_.from", lambda d: gt.randint(3, (3,), device=d)),
])  # fmt: skip
def test_composites_ask_for_what_is_recorded(acme: Any, operator: str, call: Any) -> None:
    with backend_missing.record() as needs:
        call("cpu")
    needed = backend_missing.ASKS.get(operator, operator)
    assert needs[needed].calls == 1
    with pytest.raises(GpuTensorError) as raised:
        call("acme")
    assert str(raised.value).startswith(needed.removeprefix("aten::").partition(".")[0])
