"""Figures on pages equal the records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt
from bench import __main__ as command
from bench.copies import layout, pack
from bench.records import checkout, plots, readme, record, tables
from bench.records.environment import _missing, environment

ROOT = Path(__file__).parents[3]
RECORDS = sorted((ROOT / "bench" / "results").glob("*.json"))
COPIES = [path for path in RECORDS if path.name.startswith(("layout-", "pack-"))]
PAGES = [
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if readme.names(page.read_text())
]


@pytest.fixture(scope="module")
def data():
    before = gt.get_num_threads()
    found = layout.run(
        "cpu", rounds=3, only=(1, 12, 14, 33, 36, 37), libraries=("numpy", "opencv"), scale=16
    )
    gt.set_num_threads(before)
    around = environment("cpu", ["run", "layout"]) | {"commit": {"hash": "c" * 40, "dirty": False}}
    return record.build(found, around | {"missing": []})


@pytest.fixture
def folder(data, tmp_path):
    record.write(data, tmp_path / "results" / "layout-cpu.json")
    page = "before\n<!-- bench:layout-cpu -->\nold\n<!-- /bench:layout-cpu -->\nafter\n"
    (tmp_path / "PAGE.md").write_text(page)
    return tmp_path


def test_pages_have_blocks():
    figures = readme.names((ROOT / "docs" / "measurements" / "figures.md").read_text())
    assert {"layout-cpu", "pack-cpu"} <= set(figures)
    assert readme.names((ROOT / "README.md").read_text()) == [readme.SUMMARY]


def test_the_summary_has_the_means_of_the_records():
    said = readme.block(readme.SUMMARY, readme.RESULTS, ROOT / "README.md")
    for name in readme.SUMMARISED:
        found = record.read(readme.RESULTS / f"{name}.json")["summary"]
        (line,) = [line for line in said.splitlines() if f"/{name}.md)" in line]
        assert f"| {found['geomean_vs_torch']:.2f} |" in line


def test_any_record_of_the_summary_writes_it(folder):
    page = folder / "PAGE.md"
    page.write_text("<!-- bench:summary -->\nold\n<!-- /bench:summary -->\n")
    assert readme.rewrite(page, folder / "results", "layout-cpu")
    assert (
        "[layout copies](results/layout-cpu.md)" in page.read_text()
        and "old" not in page.read_text()
    )
    with pytest.raises(LookupError, match="memcpy-cuda"):
        readme.rewrite(page, folder / "results", "memcpy-cuda")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_block_is_what_its_record_gives(page):
    text = page.read_text(encoding="utf-8")
    for match in readme._BLOCK.finditer(text):
        name = match[2] if match[2] != readme.SUMMARY else next(iter(readme.SUMMARISED))
        assert match[3] == readme.block(match[2], readme.RESULTS, page), (
            f"python -m bench report bench/results/{name}.json --readme {page.relative_to(ROOT)}"
        )


def test_there_are_records():
    assert RECORDS


@pytest.mark.parametrize("path", RECORDS, ids=lambda p: p.name)
def test_a_committed_record_is_valid_and_its_table_is_its_own(path):
    data = record.read(path)
    module = command._module(data)
    if hasattr(module, "summary"):
        assert data["summary"] == module.summary(data)
    page = path.with_suffix(".md")
    if page.exists():
        assert page.read_text(encoding="utf-8").startswith(module.report(data))


def test_report_writes_the_block_and_nothing_else(folder, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    results, page = folder / "results", folder / "PAGE.md"
    path = str(results / "layout-cpu.json")
    assert (
        command.main(["report", path, "--out", str(results), "--readme", str(page)]) == command.FINE
    )
    text = page.read_text()
    assert text.startswith("before\n<!-- bench:layout-cpu -->\n| kind of copy | cases |")
    assert text.endswith("<!-- /bench:layout-cpu -->\nafter\n") and "old" not in text
    assert "(results/layout-cpu-ratio.png)" in text and "(results/layout-cpu-memcpy.png)" in text
    assert "commit cccccccccc" in text and f"NumPy {np.__version__}" in text
    assert "`python -m bench run layout --device cpu --out bench/results`" in text
    assert not readme.rewrite(page, results)  # a repetition changes nothing
    assert sorted(p.name for p in results.iterdir()) == [
        "layout-cpu-memcpy.png", "layout-cpu-ratio.png", "layout-cpu.json", "layout-cpu.md",
    ]  # fmt: skip


def test_an_incomplete_record_is_not_published(folder, data, capsys):
    raw = json.loads(json.dumps(data))
    raw["gputensor"]["environment"]["missing"] = ["a clean commit"]
    path = folder / "results" / "layout-cpu.json"
    record.write(raw, path)
    before = (folder / "PAGE.md").read_text()
    assert (
        command.main(["report", str(path), "--readme", str(folder / "PAGE.md")]) == command.MISSED
    )
    assert (folder / "PAGE.md").read_text() == before
    assert "it lacks a clean commit" in capsys.readouterr().out


def test_a_page_without_the_block_is_bad_input(folder, capsys):
    path = str(folder / "results" / "layout-cpu.json")
    (folder / "OTHER.md").write_text("nothing\n")
    assert command.main(["report", path, "--readme", str(folder / "OTHER.md")]) == command.BAD_INPUT
    assert "has no block <!-- bench:layout-cpu -->" in capsys.readouterr().err


def test_without_a_record_a_block_says_how_to_make_one(tmp_path):
    said = readme.block("pack-cuda", tmp_path, tmp_path / "README.md")
    assert (
        said
        == "*No record yet; `python -m bench run pack --device cuda --out bench/results` makes "
        "one.*\n"
    )


def test_what_a_published_record_lacks():
    complete = {"commit": {"hash": "c", "dirty": False}, "busy_cpus": 0.2, "cpus": 2}
    assert _missing(complete) == []
    assert _missing(complete | {"busy_cpus": 1.3}) == ["an idle machine (1.3 of 2 CPUs were busy)"]
    assert _missing(complete | {"busy_cpus": None}) == []
    assert _missing(complete | {"commit": None}) == ["a clean commit"]
    gpu = {"emulated": False, "driver_version": "580", "other_processes": 0}
    assert _missing(complete | {"gpu": gpu}) == []
    assert _missing(complete | {"gpu": gpu | {"other_processes": 2}}) == [
        "a GPU of its own (2 other processes)"
    ]
    assert _missing(complete | {"gpu": {"emulated": True}}) == ["a real GPU"]
    assert _missing(complete | {"gpu": {"emulated": False}}) == ["nvidia-smi"]


def test_how_many_cpus_are_busy(monkeypatch):
    from bench.records import environment as module

    told = iter(["cpu  100 0 50 800 50 0 0 0 0 0\nmore", "cpu  130 0 70 830 70 0 0 0 0 0\nmore"])
    monkeypatch.setattr(module, "_read", lambda path: next(told))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert module._busy_cpus(0.0) == 2.0
    monkeypatch.setattr(module, "_read", lambda path: None)
    assert module._busy_cpus(0.0) is None


@pytest.mark.usefixtures("figures_that_are_none")
def test_a_part_of_a_benchmark_is_not_published(tmp_path):
    part = ["run", "layout", "--scale", "64", "--rounds", "1", "--cases", "1", "--peers", "numpy"]
    assert command.main([*part, "--out", str(tmp_path)]) == command.FINE
    found = record.read(tmp_path / "layout-cpu.json")["environment"]
    assert [what for what in found["missing"] if what not in ("a clean commit",
    ) and "idle" not in what] == [
        "full sizes (--scale)", "10 rounds of each case (--rounds)", "the whole benchmark (it has "
                                                                     "1 of 38 cases)",
    ]  # fmt: skip
    assert found["argv"] == part


def test_the_commit_of_an_image_is_that_of_its_build(monkeypatch, tmp_path):
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    monkeypatch.setattr(checkout, "NOTE", tmp_path / "commit.json")
    monkeypatch.setenv("GPUTENSOR_COMMIT", "abc")
    assert checkout.commit() == {"hash": "abc", "dirty": False}
    monkeypatch.setenv("GPUTENSOR_COMMIT", "")
    assert checkout.commit() is None


def test_a_tree_without_git_has_the_commit_that_was_noted_before_it_travelled(
    monkeypatch, tmp_path
):
    monkeypatch.delenv("GPUTENSOR_COMMIT", raising=False)
    tree, source = tmp_path / "tree", tmp_path / "tree" / "bench" / "timing.py"
    source.parent.mkdir(parents=True)
    source.write_text("a = 1\n")
    git = ["git", "-C", str(tree), "-c", "user.name=n", "-c", "user.email=e"]
    for command_ in (["init", "-q"], ["add", "."], ["commit", "-qm", "m"]):
        subprocess.run([*git, *command_], check=True)
    monkeypatch.setattr(checkout, "ROOT", tree)
    monkeypatch.setattr(checkout, "NOTE", tree / ".carried" / "commit.json")
    made = checkout.commit()
    assert len(made["hash"]) == 40 and not made["dirty"]
    checkout.note()
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "another"], check=True)
    assert checkout.commit() == made  # not the repository that contains the copy
    shutil.rmtree(tree / ".git")
    (tree / "bench" / "__pycache__").mkdir()
    (tree / "bench" / "__pycache__" / "timing.pyc").write_text("")
    assert checkout.commit() == made
    source.write_text("a = 2\n")
    assert checkout.commit() == made | {"dirty": True}  # edited after copying
    checkout.NOTE.write_text("[]")
    assert checkout.commit() is None
    with pytest.raises(RuntimeError, match="no git"):
        checkout.note()


# --- plots ----------------------------------------------------------------------------------------


def overlaps(boxes):
    return [
        (a[0], b[0]) for n, a in enumerate(boxes) for b in boxes[n + 1 :]
        if a[1].overlaps(b[1]) and a[0] != b[0]
    ]  # fmt: skip


@pytest.mark.parametrize(
    "peers", [("numpy",), ("numpy", "torch", "torch.compile", "cupy", "opencv")]
)
def test_plots_say_what_they_show_and_nothing_overlaps(data, tmp_path, monkeypatch, peers):
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.figure import Figure

    seen = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda self, *a, **k: (seen.append(self), save(self, *a, **k))[1]
    )
    ours = json.loads(json.dumps(data["gputensor"])) | {"peers": list(peers)}
    ours["cases"][0]["name"] = max((case.name for case in pack.CASES), key=len)
    for case in ours["cases"]:
        case["ratio"] = {peer: 1.5 + n for n, peer in enumerate(peers)}
    paths = plots.draw(ours, tmp_path)
    assert [p.name for p in paths] == ["layout-cpu-memcpy.png", "layout-cpu-ratio.png"]
    assert all(p.read_bytes()[:4] == b"\x89PNG" for p in paths)
    for figure in seen:
        figure.draw_without_rendering()  # savefig has changed the resolution
        (axes,) = figure.axes
        (legend,) = figure.legends
        labels = [t.get_text() for t in legend.get_texts()]
        expected = len(peers) if axes.get_xscale() == "log" else 2
        assert len(labels) == expected and axes.get_xlabel()
        ticks = [(t.get_text(), t.get_window_extent()) for t in axes.get_yticklabels()]
        heads = [(t.get_text(), t.get_window_extent()) for t in axes.texts]
        words = [
            (t.get_text(), t.get_window_extent()) for t in (*figure.texts, *legend.get_texts())
        ]
        low, high = axes.get_xlim()
        shown = [t for t in axes.get_xticklabels() if low <= t.get_position()[0] <= high]
        assert len(shown) > 1
        xs = [(t.get_text(), t.get_window_extent()) for t in (*shown, axes.xaxis.label)]
        assert not overlaps([*ticks, *heads, *words, *xs])
        whole = figure.bbox
        for text, box in [*ticks, *heads, *words, *xs]:
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1, text
    matplotlib.pyplot.close("all")


def labels_of_plots(data, folder, monkeypatch):
    """Return (case labels, headings, legend) of each plot of a record."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    from matplotlib.figure import Figure

    seen = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: seen.append(self))
    plots.draw(data, folder)
    return [
        (
            [t.get_text() for t in figure.axes[0].get_yticklabels()],
            [t.get_text() for t in figure.axes[0].texts],
            [t.get_text() for t in figure.legends[0].get_texts()],
        )
        for figure in seen
    ]


@pytest.mark.parametrize("path", COPIES, ids=lambda p: p.name)
def test_table_and_plots_show_the_same_cases_each_with_its_shape(path, tmp_path, monkeypatch):
    data = record.read(path)
    rows = [line.split(" | ") for line in tables.brief(data).splitlines() if line.startswith("| ")]
    kinds = {row[0][2:]: int(row[1]) for row in rows[2:] if not row[0].startswith("| **")}
    assert kinds.pop("the worst") == len(data["cases"]) == sum(kinds.values())
    for labels, texts, _ in labels_of_plots(data, tmp_path, monkeypatch):
        assert sorted(labels) == sorted(map(tables.label, data["cases"]))
        assert set(kinds) <= set(texts)
        assert all("×" in label or "^" in label for label in labels)


@pytest.mark.parametrize("path", COPIES, ids=lambda p: p.name)
def test_the_worst_figures_are_those_of_named_cases(path):
    data = record.read(path)
    said = tables.brief(data).splitlines()
    cells = next(line for line in said if line.startswith("| the worst")).strip("| ").split(" | ")
    shown = [f"share of memcpy {cells[2]}"]
    of_peers = cells[4:] if tables.is_gpu(data) else cells[3:]  # after the share of sectors
    shown += [
        f"× {tables.NAMES[p]} {cell}" for p, cell in zip(data["peers"], of_peers) if cell != "–"
    ]
    (named,) = [line for line in said if line.startswith("The worst figures: ")]
    for figure in shown:
        assert figure in named
    for case in data["cases"]:
        for peer, ratio in case["ratio"].items():
            if ratio == min(c["ratio"][peer] for c in data["cases"] if peer in c["ratio"]):
                after = named.partition(f"`{tables.label(case)}`: ")[2].partition(";")[0]
                assert f"× {tables.NAMES[peer]} {ratio:.2f}" in after


def test_sectors_are_a_notion_of_gpus(data, tmp_path, monkeypatch):
    ours = json.loads(json.dumps(data["gputensor"]))
    by_sectors = [c for c in ours["cases"] if c["kind"] == "sectors"]
    assert by_sectors and by_sectors[0]["share_of_sectors"] > by_sectors[0]["share_of_memcpy"]
    for device, is_gpu in (("cpu", False), ("cuda:0", True)):
        here = ours | {"device": device}
        here["summary"] = layout.summary(here)
        plain, adjusted = (here["summary"][f"geomean_share_of_{n}"] for n in ("memcpy", "sectors"))
        assert plain < adjusted
        for text in (tables.report(here), tables.brief(here)):
            assert ("of sectors" in text) is is_gpu
            assert f"{plain:.2f}" in text
        _, _, legend = labels_of_plots(here, tmp_path, monkeypatch)[0]
        assert (plots.LIMIT_LABEL in legend) is is_gpu


def test_a_record_without_rates_gives_no_plot(tmp_path):
    assert (
        plots.draw(
            {"benchmark": "overhead", "device": "cpu", "cases": [{"name": "a", "ns": {}}]}, tmp_path
        )
        == []
    )
