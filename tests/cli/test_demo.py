"""`gputensor demo`, run as users run it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gputensor.__main__ import main
from gputensor.cli import demo

Image = pytest.importorskip("PIL.Image", reason="the demonstration reads images with Pillow")
pytest.importorskip("matplotlib", reason="the demonstration draws its picture with matplotlib")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small image with an odd height; all pixels differ."""
    pixels = np.random.default_rng(0).integers(0, 256, (37, 48, 3), np.uint8)
    path = tmp_path_factory.mktemp("picture") / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture(scope="module")
def report(picture: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The output of one run, which tests only read."""
    output = str(tmp_path_factory.mktemp("drawn") / "out.png")
    of_run = "--device cpu --batch 2 --peers numpy --json --output".split()
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(["demo", str(picture), *of_run, output]) == 0
    return json.loads(printed.getvalue())


def rows(report: dict) -> dict[str, dict]:
    return {row["name"]: row for row in report["steps"]}


def test_layouts_of_every_step(report: dict) -> None:
    found = {name: (row["sizes"], row["strides"]) for name, row in rows(report).items()}
    assert found == {
        "raw": ([2, 37, 48, 3], [5328, 144, 3, 1]),
        "float": ([2, 37, 48, 3], [5328, 144, 3, 1]),
        "normalised": ([2, 37, 48, 3], [5328, 144, 3, 1]),
        "as_nchw": ([2, 3, 37, 48], [5328, 1, 144, 3]),
        "nchw": ([2, 3, 37, 48], [5328, 1776, 48, 1]),
        "packed": ([2, 3, 37, 48], [5328, 1776, 48, 1]),
        "channels_last": ([2, 3, 37, 48], [5328, 1, 144, 3]),
        "crop": ([2, 3, 29, 36], [5328, 1, 144, 3]),
        "cropped": ([2, 3, 29, 36], [3132, 1044, 36, 1]),
        "as_nhwc": ([2, 29, 36, 3], [3132, 36, 1, 1044]),
        "image": ([2, 29, 36, 3], [3132, 108, 3, 1]),
    }


def test_flags(report: dict) -> None:
    steps = rows(report)
    assert steps["nchw"]["flags"]["contiguous"] and not steps["nchw"]["flags"]["channels_last"]
    assert steps["channels_last"]["flags"]["channels_last"]
    assert not any(steps["crop"]["flags"].values())
    assert {name for name, row in steps.items() if row["is_view"]} == {"as_nchw", "crop", "as_nhwc"}


def test_results_are_verified_and_timed(report: dict) -> None:
    assert report["all_equal"] and report["equals_the_photograph"]
    timed = [row for row in report["steps"] if "bytes" in row]
    assert len(timed) == 7
    for row in timed:
        assert row["equal"] == {"gputensor": True}
        assert set(row["gb_per_s"]) == {"gputensor", "NumPy"} and min(row["gb_per_s"].values()) > 0


def test_the_picture_says_what_it_shows_and_nothing_overlaps(
    report: dict, picture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = np.array(Image.open(report["written"]))
    monkeypatch.syspath_prepend(str(demo.EXAMPLES))
    shown = importlib.import_module("photograph.picture")
    pyplot, seen = importlib.import_module("matplotlib.pyplot"), []
    monkeypatch.setattr(pyplot, "close", seen.append)
    image = np.array(Image.open(picture))
    planes = np.stack([image[..., c].astype(np.float32) for c in range(3)])
    assert shown.draw(report, image, planes).shape == written.shape
    (figure,) = seen
    monkeypatch.undo()
    before, *after = (axes.images[0].get_array() for axes in figure.axes if axes.images)
    assert np.array_equal(before, image) and np.array_equal(np.stack(after), planes)
    strip = next(axes for axes in figure.axes if len(axes.patches) == 48)
    cells = sorted(
        (-t.get_position()[1], t.get_position()[0], t.get_text())
        for t in strip.texts
        if re.fullmatch(r"[RGB]\d", t.get_text())
    )
    assert [text for *_, text in cells] == [
        *(f"{c}{n}" for n in range(8) for c in "RGB"),
        *(f"{c}{n}" for c in "RGB" for n in range(8)),
    ]
    bars = next(axes for axes in figure.axes if axes.get_legend())
    times = [
        row["seconds"][n] for row in map(rows(report).get, shown.TIMED) for n in row["seconds"]
    ]
    assert [bar.get_width() for bar in sorted(bars.patches, key=lambda b: b.get_y())] == (
        pytest.approx([1e3 * s for s in times])
    )
    words = list(figure.texts) + [t for axes in figure.axes for t in axes.texts]
    boxes = [(t.get_text(), t.get_window_extent()) for t in words if t.get_text()]
    assert not [
        (a[0], b[0]) for n, a in enumerate(boxes) for b in boxes[n + 1 :] if a[1].overlaps(b[1])
    ]
    pyplot.close("all")


def test_where_there_is_no_example_one_sentence_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "EXAMPLES", tmp_path)
    assert main(["demo"]) == 2
    said = capsys.readouterr()
    assert (
        said.out == "" and said.err.count("\n") == 1 and "run `make demo` in a checkout" in said.err
    )
    (command,) = re.findall(r"or here: gputensor (.+)", said.err)
    assert main(command.split()) == 0 and "the walk" in capsys.readouterr().out


def test_the_seeds_example_is_coalesced_to_two_dimensions(report: dict) -> None:
    walk = report["iterator"][0]
    assert (walk["shape"], walk["out_stride_bytes"], walk["in_stride_bytes"]) == (
        [64, 20],
        [4, 256],
        [80, 4],
    )


def test_trace_of_one_contiguous(report: dict) -> None:
    hops = [line.strip() for line in report["trace"]]
    names = [hop.split("op=[")[1].split("]")[0] for hop in hops]
    order = [
        "aten::contiguous",
        "aten::clone",
        "aten::empty_like",
        "aten::empty.memory_format",
        "aten::copy_",
    ]
    assert [n for i, n in enumerate(names) if n not in names[:i]] == order
    of_empty = [h for h in hops if "empty.memory_format" in h]
    assert of_empty == [
        "[call] op=[aten::empty.memory_format], key=[BackendSelect]",
        "[redispatch] op=[aten::empty.memory_format], key=[CPU]",
    ]


def test_the_default_photograph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(demo.EXAMPLES))
    images = importlib.import_module("photograph.images")
    image = images.read(images.default())
    assert image.shape == (600, 512, 3) and image.dtype == np.uint8


def test_text_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = str(tmp_path / "o.png")
    given = ["--device", "cpu", "--batch", "1", "--peers", "numpy", "--output", output]
    assert main(["demo", *given]) == 0
    printed = capsys.readouterr().out
    # The first line names the photograph and the last one the output, by paths of any length.
    assert max(map(len, printed.splitlines()[1:-1])) <= 120
    for expected in (
        "channels_last",
        "[64,20]",
        "[4,256]",
        "[80,4]",
        "aten::clone",
        "NumPy",
        "bit by bit",
    ):
        assert expected in printed


@pytest.mark.full
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 9)])
def test_tiny_images(
    size: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tiny.png"
    Image.new("L", size, 200).save(path)
    assert (
        main(
            [
                "demo",
                str(path),
                "--device",
                "cpu",
                "--batch",
                "1",
                "--peers",
                "numpy",
                "--json",
                "--output",
                str(tmp_path / "o.png"),
            ]
        )
        == 0
    )
    assert json.loads(capsys.readouterr().out)["all_equal"]


def _text(folder: Path) -> str:
    (folder / "text.png").write_text("not an image")
    return str(folder / "text.png")


def _truncated(folder: Path) -> str:
    Image.effect_noise((64, 64), 50).convert("RGB").save(folder / "whole.png")
    (folder / "half.png").write_bytes((folder / "whole.png").read_bytes()[:2000])
    return str(folder / "half.png")


BAD = [
    (["no_such_file.png"], 2, "no such file"),
    (["."], 2, "must be an image file"),
    ([_text], 2, "must be an image that Pillow reads"),
    ([_truncated], 2, "must be an image that Pillow reads"),
    (["--batch", "0"], 2, "'--batch' must be a positive integer (got '0')"),
    (["--batch", "two"], 2, "'--batch' must be a positive integer (got 'two')"),
    (["--batch", "-3"], 2, "--batch"),
    (["--batch", "100000000"], 2, "'--batch' must fit into memory"),
    (["--device", "tpu"], 2, "'--device' must be cpu, cuda or cuda:N (got 'tpu')"),
    (["--device", "meta"], 2, "'--device' must be cpu, cuda or cuda:N (got 'meta')"),
    (["--peers", "pandas"], 2, "'--peers' must be of"),
    (["--output", "no_such_folder/o.png"], 2, "'--output' must be a file in an existing folder"),
    (["--output", "o.txt"], 2, "'--output' must end in an image format's suffix"),
    (["--colour"], 2, "unrecognized arguments"),
]


@pytest.mark.parametrize("arguments, status, sentence", BAD, ids=[str(row[2]) for row in BAD])
def test_bad_input_is_one_sentence(
    arguments: list,
    status: int,
    sentence: str,
    picture: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(picture.parent)
    given = [a(picture.parent) if callable(a) else a for a in arguments]
    if given[0].startswith("--"):
        given = [str(picture), *given]
    before = set(picture.parent.iterdir())
    assert main(["demo", *given]) == status
    captured = capsys.readouterr()
    assert captured.out == ""
    assert sentence in captured.err and captured.err.count("\n") == 1
    assert set(picture.parent.iterdir()) == before


def test_an_absent_device_is_status_3(picture: Path) -> None:
    # a separate process, because the CUDA runtime is chosen once per process
    done = subprocess.run(
        [sys.executable, "-m", "gputensor", "demo", str(picture), "--device", "cuda:0"],
        cwd=picture.parent,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "GPUTENSOR_CUDA": "off", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    assert (
        done.stdout == "" and done.stderr.count("\n") == 1 and "GPUTENSOR_CUDA=off" in done.stderr
    )
