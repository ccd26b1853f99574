"""The benchmark `operators`: its cases, comparison of results, totals."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from bench import __main__ as command, operators
from bench.measurement import peers
from bench.operators import capabilities, sides, totals
from bench.operators.calls import Call, Case, floats, integers, scaled
from bench.records import readme, record
from bench.records.environment import environment

TINY = 1 << 22
# One case of each family, and cases with special operands or results.
FEW = (
    "add, 1 k", "gelu, 100 k", "where, 4 M", "softmax of rows, bf16", "bool to u8", "remainder",
    "scalar tensor", "max of rows", "log_softmax of classes", "cummax", "searchsorted", "argsort",
    "index_copy", "assignment by mask", "pad reflect", "randperm", "linear of pixels", "slogdet",
    "cholesky of a batch", "fft2", "batch_norm in eval", "backward of conv2d", "step of attention",
)  # fmt: skip


@pytest.fixture(autouse=True)
def without_pytorch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """gputensor replaces PyTorch, because the benchmark is tested and not the library."""
    before = gt.get_num_threads()
    monkeypatch.setattr(peers, "torch", lambda device: gt)
    monkeypatch.setattr(peers, "set_threads", lambda name, count: None)
    yield
    gt.set_num_threads(before)


def few(*matching: str, **options: Any) -> dict[str, Any]:
    return operators.run(rounds=1, scale=TINY, matching=matching, **options)


# --- calls ----------------------------------------------------------------------------------------


def test_there_are_calls_of_all_families_and_their_names_are_unique() -> None:
    unique = {case.name for case in operators.CASES}
    assert operators.COUNT == len(unique) >= 250
    assert [case.number for case in operators.CASES] == list(range(1, operators.COUNT + 1))
    sizes: dict[str, int] = {}
    for case in operators.CASES:
        sizes[case.family] = sizes.get(case.family, 0) + 1
    for size in ("1 k", "100 k", "4 M"):
        assert sizes[f"pointwise, {size}"] >= 23
    assert {*totals.LENIENT} < sizes.keys() and min(sizes.values()) >= 6


def test_calls_name_their_operands() -> None:
    for case in operators.CASES:
        known = {"r", "g", "t", "torch", "F"} | case.operands.keys()
        for text in (case.call.setup, case.call.text, case.call.agree):
            assert names(text) <= known, case.name
        known = {"np", "scipy", "rng", *dir(builtins)} | case.operands.keys()
        assert names(case.call.numpy) <= known, case.name


def names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def test_sizes_that_agree_still_agree_when_they_are_scaled() -> None:
    assert [scaled(n, 4) for n in (3, 16, 64, 60, 4096)] == [3, 16, 16, 16, 1024]
    operand = floats(64, 3, 224)
    assert operand.array("x", 4).shape == (16, 3, 56)
    np.testing.assert_array_equal(operand.array("x", 4), operand.array("x", 4))
    assert (operand.array("x", 4) != operand.array("y", 4)).any()
    found = integers(1000, below=20_000).array("i", 1000)
    assert found.shape == (16,) and found.max() < scaled(20_000, 1000)


# --- run ------------------------------------------------------------------------------------------


def test_it_measures_compares_and_reports(tmp_path: Path) -> None:
    data = few(*FEW)
    assert not data["failed"] and len(data["cases"]) >= len(FEW)
    assert {case["kind"] for case in data["cases"]} == {case.family for case in operators.CASES}
    assert all(case["verified"] and case["ratio"]["torch"] > 0 for case in data["cases"])
    assert data["capability"] == gt.backends.cpu.get_cpu_capability()
    record.write(record.build(data, environment("cpu")), tmp_path / "operators-cpu.json")
    kept = record.read(tmp_path / "operators-cpu.json")
    assert kept["summary"] == operators.summary(kept)
    text = operators.report(kept)
    assert text.startswith(
        "| calls | cases | × PyTorch | worst | below 0.7 | below 0.5 | × NumPy |"
    )
    assert "| **all** |" in text and "| `torch.where(m, x, y)` |" in text
    assert "the whole benchmark" in " ".join(record.lacking(kept, operators))


@pytest.mark.full
def test_every_call_runs_with_the_results_of_pytorch() -> None:
    data = few()
    assert not data["failed"] and len(data["cases"]) == operators.COUNT


def test_the_command_chooses_calls_and_writes_a_page(tmp_path: Path) -> None:
    words = ["run", "operators", "--rounds", "1", "--scale", str(TINY), "--out", str(tmp_path)]
    assert command.main([*words, "--only", "FFT: rfft", "--only", "neg, 1 k"]) == command.FINE
    kept = record.read(tmp_path / "operators-cpu.json")
    assert [case["name"] for case in kept["cases"]] == ["neg, 1 k", "rfft", "rfft2"]
    page = tmp_path / "PAGE.md"
    page.write_text("<!-- bench:operators-cpu -->\n<!-- /bench:operators-cpu -->\n")
    assert readme.rewrite(page, tmp_path)
    assert "| pointwise, 1 k | 1 |" in page.read_text() and "Budgets:" in page.read_text()


def test_a_plot_has_a_line_for_each_family(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    data = few("neg", "rfft")
    (path,) = operators.draw(data, tmp_path)
    assert path.name == "operators-cpu-ratio.png" and path.stat().st_size > 1000
    assert operators.draw(data | {"cases": []}, tmp_path) == []


def test_a_wrong_result_has_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(**{name: getattr(gt, name) for name in dir(gt) if name[0] != "_"})
    wrong.maximum = gt.minimum
    monkeypatch.setattr(peers, "torch", lambda device: wrong)
    data = few("maximum, 1 k", "neg, 1 k")
    assert [case["name"] for case in data["cases"]] == ["neg, 1 k"]
    (said,) = data["failed"].items()
    assert said[0] == "pointwise, 1 k: maximum, 1 k" and "elements differ" in said[1]
    assert "No figures: pointwise, 1 k: maximum, 1 k" in operators.report(data)


def test_it_says_why_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "torch", lambda device: None)
    monkeypatch.setattr(peers, "why_not", lambda name, device: "it is not installed")
    found = operators.run()
    assert "it is not installed" in operators.report(found) and not operators.failures(found)


# --- results --------------------------------------------------------------------------------------


def compared(text: str, ours: Any, theirs: Any, **of: Any) -> None:
    case = Case(1, "family", "name", Call("name", text, **of), {"x": floats(2)})
    a, b = (sides.Built(case, text, "", {"x": x, "torch": gt}) for x in (ours, theirs))
    sides.compare(a, a.side(), b, b.side())


def test_results_agree_in_structure_dtype_shape_and_elements() -> None:
    x = gt.tensor([1.0, float("nan"), float("inf")])
    compared("(x, [x.sum(), 3])", x, x)
    compared("x", x, x + 1e-6)
    compared("x", gt.tensor([1.0, 2.0]).bfloat16(), gt.tensor([1.01, 2.0]).bfloat16())
    compared("x.to(torch.complex64)", x, x)
    for ours, said in (
        (x.double(), "float64"), (x[:2], r"\[2\]"), (x + 0.01, "1 of 3 elements"),
        (x.nan_to_num(), "2 of 3 elements"),
    ):  # fmt: skip
        with pytest.raises(sides.Differs, match=said):
            compared("x", ours, x)
    with pytest.raises(sides.Differs, match="2 parts"):
        compared("tuple(x)", x[:2], x)


def test_what_has_to_agree_may_be_a_part_of_the_result() -> None:
    x, y = gt.tensor([3.0, 1.0]), gt.tensor([1.0, 3.0])
    compared("x", x, y, agree="r.sort()[0]")
    compared("x", x, x + 0.1, rtol=0.1)
    with pytest.raises(sides.Differs):
        compared("x", x, y + 1, agree="r.sort()[0]")
    with pytest.raises(sides.Differs, match="float64"):
        compared("x", x.double(), y, agree="r.sort()[0]")


# --- totals and capabilities ----------------------------------------------------------------------


def case_of(kind: str, ratio: float, number: int = 1) -> dict[str, Any]:
    return {
        "number": number, "name": f"{kind} {number}", "kind": kind, "call": "x | x",
        "ns": {"gputensor": 1000.0, "torch": 1000.0 * ratio}, "ratio": {"torch": ratio},
        "torch_threads": 2, "skipped": {},
    }  # fmt: skip


def data_of(*cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    data = {
        "benchmark": "operators", "device": "cpu", "threads": 2, "peers": ["torch"],
        "capability": "default", "skipped": {}, "failed": {}, "cases": [*cases], **more,
    }  # fmt: skip
    return data | {"summary": operators.summary(data)}


def test_budgets_are_of_the_mean_the_slow_and_the_worst() -> None:
    fine = data_of(*(case_of("casts", 1.2, n) for n in range(9)), case_of("fft", 0.4, 10))
    assert operators.failures(fine) == [] and "not reached: 1.3" in operators.brief(fine)
    assert fine["summary"]["below_slow"] == fine["summary"]["below_least"] == 1
    slow = data_of(case_of("casts", 0.6), case_of("casts", 0.45, 2), case_of("fft", 0.45, 3))
    mean, share, worst = operators.failures(slow)
    assert "0.50 times PyTorch's speed" in mean and "3 of 3 calls are below 0.7" in share
    assert worst.startswith("1 of 3 calls are below 0.5") and "casts 2 with 0.45" in worst
    assert "missed: 3 of 3" in operators.brief(slow) and r"`x \| x`" in operators.report(slow)


def test_capabilities_are_joined_and_the_highest_is_the_records() -> None:
    low = data_of(case_of("casts", 0.5), case_of("casts", 0.5, 2), failed={"fft: b": "wrong"})
    high = data_of(case_of("casts", 1.0), case_of("casts", 4.0, 2), capability="avx2")
    data = capabilities.joined({"avx512": high, "default": low})
    assert data["capabilities"] == {"default": "default", "avx512": "avx2"}
    assert data["failed"] == {"fft: b (default)": "wrong"}
    assert data["summary"]["geomean_vs_torch"] == pytest.approx(2.0)
    by = data["summary"]["by_capability"]
    assert by["default"]["geomean_vs_torch"] == pytest.approx(0.5) and by["avx512"]["cases"] == 2
    text = operators.report(data)
    assert "| calls | cases | avx512: × PyTorch |" in text and "| default: × PyTorch |" in text
    assert "avx512 was asked for, gputensor took avx2" in text
    assert readme._options(data) == " --capability default --capability avx512"
    record.check(record.build(data, environment("cpu")))


def test_capabilities_run_from_the_highest_in_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, Any]] = []

    def part(name: str, options: dict[str, Any]) -> dict[str, Any]:
        asked.append((name, options))
        return data_of(case_of("casts", 1.0), capability=name)

    monkeypatch.setattr(capabilities, "_part", part)
    noted: list[dict[str, Any]] = []
    data = operators.run(capability=["all"], matching=["casts"], note=noted.append)
    assert [name for name, _ in asked] == ["avx512", "avx2", "default"] and len(noted) == 3
    assert asked[0][1]["matching"] == ["casts"] and list(data["capabilities"]) == [
        "default", "avx2", "avx512",
    ]  # fmt: skip
    assert capabilities.chosen(["avx2"]) == ["avx2"]


@pytest.mark.full
def test_a_process_of_its_own_has_the_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"rounds": 1, "scale": TINY, "matching": ["neg, 1 k"]}
    found = capabilities._part("default", options)
    assert found["benchmark"] == "operators" and found["capability"] == "default"
    with pytest.raises(RuntimeError, match="GPUTENSOR_CPU_CAPABILITY=default ended with status"):
        capabilities._part("default", {"device": "nothing"})
