"""`explain`, `trace` and `ops` on cases with known answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor.__main__ import COMMANDS, main


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs a command with --json; returns (status, document)."""

    def run(*arguments: str) -> tuple[int, Any]:
        status = main([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return run


def test_copy_of_the_seeds_example(answer: Any) -> None:
    status, found = answer("explain", "copy", "--sizes", "1,64,5,4", "--to", "channels_last")
    assert status == 0
    assert found["out"]["strides"] == [1280, 1, 256, 64]
    assert found["iterator"]["shape"] == [64, 20]
    assert found["iterator"]["out_stride_bytes"] == [4, 256]
    assert found["iterator"]["in_stride_bytes"] == [80, 4]
    assert found["gpu"]["kernel"] == "ELEM" and found["gpu"]["grid"] >= 1


def test_a_copy_names_the_kernel_that_a_gpu_runs(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "explain",
        "copy",
        "--sizes",
        "8,3,224,224",
        "--to",
        "channels_last",
        "--dtype",
        "uint8",
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "SKINNY: 3 channels beside 50176 pixels" in printed and "copy_skinny:" in printed


def test_small_layouts_are_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "copy", "--sizes", "2,3", "--strides", "1,2"]) == 0
    printed = capsys.readouterr().out
    assert "in   0 3 1 4 2 5" in printed and "out  0 1 2 3 4 5" in printed


VIEWS = [
    (("--sizes", "2,3,4", "--as", "6,4"), 0, [4, 1]),
    (("--sizes", "2,3,4", "--as", "-1"), 0, [1]),
    (("--sizes", "2,3,4", "--strides", "12,1,3", "--as", "2,12"), 1, None),
    (("--sizes", "2,3,4", "--strides", "12,1,3", "--as", "2,3,2,2"), 0, [12, 1, 6, 3]),
]


@pytest.mark.parametrize("arguments, status, strides", VIEWS)
def test_views(
    arguments: tuple[str, ...], status: int, strides: list[int] | None, answer: Any
) -> None:
    got, found = answer("explain", "view", *arguments)
    assert got == status and found["possible"] == (strides is not None)
    assert (found["out"] and found["out"]["strides"]) == strides
    assert (found["reason"] is None) == (strides is not None)


def test_no_view_shows_the_copy_instead(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "explain",
        "view",
        "--sizes",
        "2,300,400",
        "--strides",
        "120000,1,300",
        "--as",
        "2,120000",
    )
    status, found = answer(*arguments)
    assert status == 1 and found["copy"]["kernel"] == "TILE"
    assert main(list(arguments)) == 1
    assert "The copy that `reshape` makes" in capsys.readouterr().out


def test_the_runs_behind_a_view(answer: Any) -> None:
    _, found = answer("explain", "view", "--sizes", "2,3,4", "--strides", "12,1,3", "--as", "24")
    assert [run["dims"] for run in found["runs"]] == [[0], [1], [2]]


def test_dispatch(answer: Any) -> None:
    status, found = answer("explain", "dispatch", "clone")
    assert status == 0
    hops = {hop["key"]: hop["does"] for hop in found["hops"]}
    assert hops["CPU"] == "kernel" and hops["BackendSelect"] == "falls through"
    assert [k for k in hops if k.startswith("Autograd")] == ["AutogradCPU"]


def test_dispatch_of_a_call(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = answer("explain", "dispatch", "add(x, y.conj())", "--dtype", "complex64")
    assert (
        status == 0 and set(found["operands"]) == {"x", "y"} and found["result"] == "c64[2,3] cpu"
    )
    heads = [line for line in found["trace"] if line.startswith("[call]")]
    assert [head.split("op=[")[1].split("]")[0] for head in heads] == [
        "aten::conj",
        "aten::add.Tensor",
    ]
    assert any("key=[Conjugate]" in line for line in found["trace"])
    assert main(["explain", "dispatch", "gt.zeros(2).sum(0)"]) == 0
    assert "key=[BackendSelect]" in capsys.readouterr().out


def test_trace(answer: Any) -> None:
    status, found = answer("trace", "--setup", "x = gt.ones(2, 3)", "x.t().contiguous()")
    assert status == 0
    assert any("aten::clone" in line for line in found["trace"])
    assert not any("aten::ones" in line for line in found["trace"])
    assert found["result"].startswith("tensor(")


BAD = [
    (("explain", "copy"), "'--sizes' must be given"),
    (("explain", "copy", "--sizes", "2,x"), "comma-separated integers"),
    (
        ("explain", "copy", "--sizes", "2,3", "--to", "channels_last"),
        "'memory_format' must be channels_last only for a tensor of 4 dimensions (got 2 "
        "dimensions)",
    ),
    (("explain",), "are required: {copy,view,dispatch,fuse}"),
    (("explain", "copy", "--sizes", "2,3", "--dtype", "nope"), "'--dtype' must be a dtype"),
    (("explain", "copy", "--sizes", "2,3", "--strides", "1"), "stride"),
    (("explain", "view", "--sizes", "2,3"), "'--as' must be given"),
    (("explain", "view", "--sizes", "2,3", "--as", "5"), "6 elements"),
    (("explain", "dispatch", "no_such"), "no operator is called 'no_such'"),
    (("explain", "dispatch", "clon"), "did you mean clone"),
    (("explain", "dispatch", "add(x, "), "must be a call"),
    (("explain", "dispatch", "add(x, 'a')"), "add(x, 'a') raised"),
    (("explain", "dispatch", "nope(x)"), "must call functions of gputensor (got nope)"),
    (("explain", "dispatch", "clone", "--device", "tpu"), "device"),
    (("explain", "nothing"), "invalid choice"),
    (("trace", "x ="), "must be Python"),
    (("trace", "'\udc80'"), "must be Python"),
    (("trace", "1 / 0"), "ZeroDivisionError"),
    (("ops", "no_such_operator"), "gputensor ops lists all"),
    (("ops", "contigous"), "did you mean contiguous"),
    (("ops", "aten::all_reduce"), "no operator is called 'aten::all_reduce'"),
    (("nothing",), "no command"),
]


@pytest.mark.parametrize("arguments, sentence", BAD, ids=[" ".join(row[0]) for row in BAD])
def test_bad_input(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and sentence in captured.err and captured.err.count("\n") == 1


def test_ops_lists_and_shows(answer: Any, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = answer("ops", "add")
    assert status == 0
    assert "aten::add.Tensor" in [o["name"] for o in found["operators"]]
    places = {place.split()[0] for row in found["operators"] for place in row["places"]}
    assert places == {"called", "row", "node", "native", "cpu", "cuda"}
    add = next(r for r in found["operators"] if r["name"] == "aten::add.Tensor")
    for place in add["places"]:
        path, _, line = place.split()[1].partition(":")
        text = (Path(gt.__file__).parents[1] / path).read_text(encoding="utf-8")
        assert "add" in text.splitlines()[int(line) - 1].lower() or place.startswith("native"), (
            place
        )
    assert main(["ops", "add"]) == 0
    text = capsys.readouterr().out
    assert "native/" in text and "tags: core, pointwise" in text and "[kernel]" in text
    _, found = answer("ops", "add.Tensor", "--table")
    (row,) = found["operators"]
    assert {"CPU", "Meta", "BackendSelect", "Conjugate", "AutocastCPU"} <= set(row["registered"])
    assert row["why"]["BackendSelect"] == "backend fallback, falls through" and row["tags"] == [
        "core",
        "pointwise",
    ]


def test_ops_shows_those_of_other_namespaces(answer: Any) -> None:
    _, found = answer("ops", "_c10d_functional::all_reduce")
    row = found["operators"][0]
    assert row["files"] == ["distributed/operators.py"]
    assert {place.split()[0] for place in row["places"]} == {"called", "row", "node", "native"}


def test_ops_finds_what_another_namespace_has_by_its_bare_name(answer: Any) -> None:
    status, found = answer("ops", "all_reduce")
    names = [row["name"] for row in found["operators"]]
    assert status == 0
    assert names == ["_c10d_functional::all_reduce", "_c10d_functional::all_reduce_"]


@pytest.mark.full
def test_ops_groups_by_family_and_says_what_is_missing(
    answer: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = answer("ops")
    families = found["families"]
    assert "add.Tensor" in families["binary"]["operators"]
    known = {name for row in families.values() for name in row["operators"]}
    missing = {name for row in families.values() for name in row["missing"]}
    assert len(known) > 100 and not known & missing and set(found["core"]) <= missing
    assert main(["ops", "--missing"]) == 0
    text = capsys.readouterr().out
    for line in re.findall(r"(\d+) here, (\d+) missing", text):
        assert int(line[1])
    assert "add.Tensor" not in text.split() and missing <= set(re.findall(r"[\w.]+", text))
    assert main(["ops", "add", "--missing"]) == 2


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        main([name, "--help"])
    assert leaving.value.code == 0 and "--json" in capsys.readouterr().out


@pytest.mark.full
def test_a_reader_that_leaves_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m gputensor ops | head -1",
        shell=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0 and done.stderr == ""
