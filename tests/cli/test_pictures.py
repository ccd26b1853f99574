"""`--svg` and `--html`: pictures show all findings in order, and texts fit."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gputensor as gt
from gputensor import dispatch
from gputensor.__main__ import main
from gputensor.cli.pictures import svg
from gputensor.cli.pictures.plane import Plane
from gputensor.cli.trace import described
from gputensor.dispatch import dispatcher, keys
from gputensor.dispatch.precedence import MEANS

from ..harness import tier

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"

CALLS = [
    ("trace", "--setup", "x = gt.rand(2, 3)", "x.t().contiguous()"),
    ("trace", "gt.rand(2, 3).sum(0)"),
    ("trace", "--setup", "w = gt.ones(3).requires_grad_()", "(w * 3).sum().backward()"),
    ("explain", "dispatch", "add(x, y.conj())", "--dtype", "complex64"),
    ("explain", "dispatch", "clone", "--device", "cuda"),
    ("explain", "dispatch", "add.Tensor"),
]
COPIES = [
    ("explain", "copy", "--sizes", "1,64,5,4", "--to", "channels_last"),
    ("explain", "copy", "--sizes", "512,300", "--strides", "1,512"),
    ("explain", "copy", "--sizes", "8,3,224,224", "--to", "channels_last", "--dtype", "uint8"),
    ("explain", "copy", "--sizes", "100,1000", "--strides", "1200,1"),
    ("explain", "copy", "--sizes", "300,1000", "--strides", "1,0"),
    ("explain", "copy", "--sizes", "300,1000", "--strides", "0,1"),
    ("explain", "copy", "--sizes", "8,9,10,11,12,13", "--strides", "1,8,72,720,7920,95040"),
    ("explain", "copy", "--sizes", "3,5", "--strides", "20,2", "--dtype", "complex128"),
    ("explain", "copy", "--sizes", "5"),
    ("explain", "copy", "--sizes", "100000,30000", "--strides", "1,100000"),
    ("explain", "copy", "--sizes", "0,3"),
    ("explain", "copy", "--sizes", ""),
]
VIEWS = [
    ("explain", "view", "--sizes", "2,3,4", "--as", "6,2,2"),
    ("explain", "view", "--sizes", "2,3,4", "--strides", "12,1,3", "--as", "2,3,2,2"),
    ("explain", "view", "--sizes", "2,300,400", "--strides", "120000,1,300", "--as", "2,-1"),
    ("explain", "view", "--sizes", "0,3", "--as", "3,0"),
]
CHAINS = [
    ("explain", "fuse", "gt.ones(2, 1000).mul(2).add(gt.ones(1000)).exp()"),
    ("explain", "fuse", "(x * 2).sum(1).sqrt() + 1", "--setup", "x = gt.ones(3, 4)"),
    (
        "explain",
        "fuse",
        "y = x * 2; print(y[0, 0].item()); z = y + 1",
        "--setup",
        "x = gt.ones(3, 4)",
    ),
    ("explain", "fuse", "gt.ones(3)"),
]
ALL = [*CALLS, *COPIES, *VIEWS, *CHAINS]


def drawn(tmp_path: Path, arguments: tuple[str, ...]) -> tuple[ElementTree.Element, str, str]:
    """Return the parsed picture, its text, and the page."""
    paths = tmp_path / "a.svg", tmp_path / "a.html"
    assert main([*arguments, "--svg", str(paths[0]), "--html", str(paths[1])]) in (0, 1)
    picture, page = (path.read_text() for path in paths)
    return ElementTree.fromstring(picture), picture, page


def words(of: ElementTree.Element) -> list[str]:
    """Return the texts of a picture, in order."""
    return [text.text or text[0].tail or "" for text in of.iter(f"{SVG}text")]


@pytest.mark.parametrize("arguments", ALL, ids=" ".join)
def test_a_picture_is_whole_and_all_of_it_fits(arguments: tuple[str, ...], tmp_path: Path) -> None:
    tree, text, page = drawn(tmp_path, arguments)
    assert tree.get("role") == "img" and tree.get("aria-label")
    assert [child.tag for child in tree][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert tree[0].text and tree[1].text and len(text) < 60_000 and len(page) < 200_000
    assert text in page and ("http" not in page.replace("http://www.w3.org/2000/svg", ""))
    right, bottom = (float(tree.get(name, "0")) for name in ("width", "height"))
    assert right == svg.WIDTH
    for of in tree.iter(f"{SVG}text"):
        wide = svg.width(of.text or "", float(of.get("font-size", "12")), of.get("class", ""))
        x = float(of.get("x", "0")) - {"end": wide, "middle": wide / 2}.get(
            of.get("text-anchor", ""), 0
        )
        assert x >= 0 and x + wide <= right and float(of.get("y", "0")) < bottom, of.text
    for of in tree.iter(f"{SVG}rect"):
        x, y, w, h = (float(of.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert x >= 0 and w > 0 and h > 0 and x + w <= right and y + h <= bottom


@pytest.mark.parametrize("arguments", CALLS, ids=" ".join)
def test_every_hop_is_in_the_picture_and_on_the_page_in_its_order(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, _, page = drawn(tmp_path, arguments)
    printed = capsys.readouterr().out
    hops = re.findall(r"^ *\[(\w+)\] op=\[(.*?)\], key=\[(\w+)\]", printed, re.M)
    if arguments[-1] in ("cuda", "add.Tensor"):  # not traced: the kernels of the table
        keys = re.findall(r"^(\w+) +kernel ", printed, re.M)
        hops = [("redispatch" if n else "call", arguments[2], key) for n, key in enumerate(keys)]
        hops = [(kind, f"aten::{op}", key) for kind, op, key in hops]
    assert hops
    assert [hop.strip() for hop in (tree[1].text or "").split(";")] == [
        f"{kind} {op} at {key}" for kind, op, key in hops
    ]
    keys = [t for t in tree.iter(f"{SVG}text") if t.get("data-steps")]
    assert [t.text for t in keys] == [key for _, _, key in hops]
    assert [t.get("data-steps") for t in keys] == [str(n) for n in range(len(hops))]
    heads = re.findall(r"<h2>(\w+) <code>(.*?)</code> at <code>(\w+)</code></h2>", page)
    assert [(kind, html.unescape(op), key) for kind, op, key in heads] == hops


def test_the_way_of_a_call() -> None:
    """Operators are boxes that contain the keys from top to bottom, with file, kernel and
    reason."""
    with gt.library.Library("drawn", "DEF") as lib:
        lib.define("outer(Tensor x) -> Tensor")
        lib.define("inner(Tensor x) -> Tensor")

        @lib.impl("outer", "AutogradCPU", with_keyset=True)
        def above(key_set: Any, x: Any) -> Any:
            below = key_set & dispatch.full_after("AutogradCPU")
            return gt.ops.drawn.outer.default.redispatch(below, x)

        lib.impl("outer", lambda x: gt.ops.drawn.inner(x), "CPU")
        lib.impl("inner", lambda x: x, "CompositeImplicitAutograd")
        x = gt.ones(2)
        with dispatch.trace() as lines, (tracing := dispatch.trace()):
            gt.ops.drawn.outer(x)
    assert len(lines) == 3
    from gputensor.cli.pictures import call

    text = call.draw("outer(x)", ["x: f32[2]"], described(tracing.hops))
    here = "tests/cli/test_pictures.py: test_the_way_of_a_call"
    assert words(ElementTree.fromstring(text)) == [
        "outer(x)", "x: f32[2]",
        "call", "drawn::outer",
        "AutogradCPU", here, "kernel",
        "CPU", here, "kernel",
        "call", "drawn::inner",
        "AutogradCPU", here, "math kernel",
    ]  # fmt: skip


def test_a_page_has_the_slots_and_why(tmp_path: Path) -> None:
    _, _, page = drawn(tmp_path, CALLS[0])
    assert "<td>default backend kernel: of the alias CompositeExplicitAutograd" in page
    row = "<td>BackendSelect</td><td>{}</td><td>backend fallback: at this key for every operator"
    assert row.format("falls through") in page and row.format("waits below") in page
    assert re.search(r"clone\nregistered at gputensor/\S*_generated/\S+\.py:\d+</td>", page)
    assert "<td>self</td><td>{AutocastCPU, AutogradCPU, ADInplaceOrView, CPU}</td>" in page


def test_every_reason_is_explained() -> None:
    found = {table.slot(key)[1] for operator in dispatcher.operators()
             for table in [operator.table] for key in keys.RUNTIME_KEYS}  # fmt: skip
    assert len(found) >= 5 and found <= set(MEANS)


def test_without_scripts_all_steps_stand_below_the_picture(tmp_path: Path) -> None:
    _, _, page = drawn(tmp_path, COPIES[0])
    assert page.count("<li>") == 64 and "<li hidden" not in page and "<nav hidden" in page


def test_the_walk_of_a_copy(tmp_path: Path) -> None:
    tree, _, page = drawn(tmp_path, ("explain", "copy", "--sizes", "2,3", "--strides", "1,2"))
    assert words(tree) == [
        "copy f32[2,3] to contiguous",
        "in [2,3], strides [1,2], dense", "out [2,3], strides [3,1], contiguous",
        "source", "a line is d1: 2 × 4 B", "+0 B", "0", "3", "+8 B", "1", "4", "+16 B", "2", "5",
        "destination", "a line is d0: 3 × 4 B",
        "+0 B", "0", "1", "2", "+12 B", "3", "4", "5",
        "the first run of dst", "the next",
        "equal numbers are one element; they count in the order of dst",
        "ELEM", "on a GPU", "24 B are less than 65536: a launch costs more than the layout",
        "element by element in dst's order", "copy_strided: 1 block of 32 threads",
        "size", "dst step", "src step",
        "d0", "3", "4 B", "8 B", "the walk", "d1", "2", "12 B", "4 B",
        "24 B read and 24 B written, 64 B in sectors: at most 75% of memcpy's speed",
    ]  # fmt: skip
    steps = re.findall("<li>(.*?)</li>", page)
    assert steps[1] == "element 1: read 4 B of src at +8 B, write 4 B of dst at +4 B"
    assert len(steps) == 6


def test_merged_dimensions_are_told(tmp_path: Path) -> None:
    tree, _, _ = drawn(tmp_path, COPIES[0])
    assert words(tree)[3] == "2 of 4 dimensions are left: what lies as one is walked as one"


def test_a_tile_is_loaded_along_src_and_stored_along_dst(tmp_path: Path) -> None:
    _, _, page = drawn(tmp_path, COPIES[1])
    steps = re.findall("<li>(.*?)</li>", page)
    first = [step.split(": ")[1] for step in steps if step.startswith("tile 0:")]
    assert first[:2] == ["load 128 B of src at +0 B", "load 128 B of src at +2048 B"]
    assert first[-1] == f"store 128 B of dst at +{31 * 1200} B"
    assert steps[-1] == f"tile 159: store 48 B of dst at +{511 * 1200 + 288 * 4} B"


@st.composite
def layouts(draw: Any) -> tuple[Any, Any]:
    """Return two NumPy arrays of one shape with any order of dimensions; the source has steps,
    flips and repeats."""
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    pair = []
    for is_source in (False, True):
        order = draw(st.permutations(range(len(shape))))
        steps = [draw(st.sampled_from([1, 1, 2])) for _ in shape]
        whole = np.arange(np.prod([n * s for n, s in zip(shape, steps)]), dtype=np.int32)
        array = whole.reshape([shape[d] * steps[d] for d in order]).transpose(np.argsort(order))
        for d, step in enumerate(steps):
            turned = is_source and draw(st.booleans())
            array = array[(slice(None),) * d + (slice(None, None, -step if turned else step),)]
        if is_source and draw(st.booleans()):
            at = draw(st.integers(0, len(shape) - 1))
            array = np.broadcast_to(array[(slice(None),) * at + (slice(0, 1),)], shape)
        pair.append(array)
    return pair[0], pair[1]


@given(layouts())
@tier.examples(150)
def test_cells_are_where_the_elements_lie(pair: tuple[Any, Any]) -> None:
    dst, src = pair
    found = gt.layout.explain(dst, src).to_dict()
    walk, ways = found["walk"], []
    for side in ("dst", "src"):
        at = np.zeros(walk["sizes"][::-1], np.int64)
        for d, stride in enumerate(walk[f"{side}_stride_bytes"]):
            line = np.arange(walk["sizes"][d]) * stride
            at = at + line.reshape([-1 if k == d else 1 for k in range(at.ndim)][::-1])
        ways.append(at.reshape(-1))
    plane = Plane(found)
    for side, offsets in ((plane.dst, ways[0]), (plane.src, ways[1])):
        places = [cell.offset_bytes for cell in side.cells.values()]
        assert len(set(places)) == len(places)
        for cell in side.cells.values():
            assert cell.offset_bytes == offsets[cell.number]
            assert cell.steps and cell.tint >= 0 and cell.count >= 1
    if len(plane.sizes) <= 2 and len(plane.places) == np.prod(plane.sizes):
        written = sum(int(n) for n in re.findall(r"write (\d+) B", " ".join(plane.steps)))
        assert written == found["bytes"]["written"]
    touched = {step for side in (plane.dst, plane.src) for c in side.cells.values()
               for step in c.steps}  # fmt: skip
    assert touched == set(range(len(plane.steps)))


@pytest.mark.full
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=60),
       st.integers(10, 400))  # fmt: skip
@tier.examples(200)
def test_texts_are_cut_to_their_room(text: str, room: int) -> None:
    for kind in ("", "mono", "bold"):
        shown = svg.cut(text, room, 12, kind)
        assert shown == text or svg.width(shown, 12, kind) <= max(room, svg.width("…", 12, kind))


def test_what_is_written_is_safe_in_xml(tmp_path: Path) -> None:
    code = "gt.ones(2) if '<b>&\"' < ']]>\x1b' else None"
    tree, _, page = drawn(tmp_path, ("trace", code))
    assert tree[0].text == tree.get("aria-label") == code.replace("\x1b", "\ufffd")
    assert "<b>" not in page


def test_json_stays_alone_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.svg"
    assert main([*COPIES[0], "--json", "--svg", str(path)]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["gpu"]["box"] == [1, 1]
    assert captured.err == f"wrote {path}\n" and path.exists()


@pytest.mark.parametrize("option", ["--svg", "--html"])
def test_a_file_that_cannot_be_written(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COPIES[0], option, str(tmp_path / "no" / "a")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and f"'{option}' must be writable (got '" in captured.err


def test_more_hops_than_a_picture_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.svg"
    code = "for i in range(60): gt.ones(2)"
    assert main(["trace", code, "--svg", str(path)]) == 2 and not path.exists()
    assert "of at most 100 hops (got 300)" in capsys.readouterr().err
    assert main(["trace", code.replace("60", "20"), "--svg", str(path)]) == 0
    assert path.stat().st_size < 60_000


def test_a_hundred_hops_fit_a_page(tmp_path: Path) -> None:
    _tree, text, page = drawn(tmp_path, ("trace", "for i in range(20): gt.ones(2)"))
    assert len(text) < 60_000 and len(page) < 200_000


def test_a_chain_is_drawn_with_what_explain_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = CHAINS[1]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [x["operator"] for x in found["chains"][0]["operators"]][:2] == [
        "aten::mul.Tensor", "aten::sum.dim_IntList",
    ]  # fmt: skip
    first = found["chains"][0]["operators"][0]
    assert (first["bytes_read"], first["bytes_written"]) == (48, 48)
    chains = found["chains"]
    assert found["bytes_moved"] == sum(x["bytes_moved"] for x in chains)
    assert found["bytes_apart"] == sum(
        step["bytes_read"] + step["bytes_written"] for x in chains for step in x["operators"]
    )
    tree, _, _ = drawn(tmp_path, command)
    shown = words(tree)
    kernels = f"{len(chains)} kernel{'s' * (len(chains) != 1)}"
    assert f"fused: {kernels}, {found['bytes_moved']} B" in shown
    for step in (step for x in chains for step in x["operators"]):
        assert f"v{step['value']} = {step['operator'].removeprefix('aten::')}" in shown


@pytest.mark.parametrize(
    "code, said",
    [
        ([], "'operator' must be given: Python"),
        (["1 +"], "'operator' must be Python (got '1 +'"),
        (["gt.ones(3) + gt.ones(2)"], "'operator' raised ShapeError"),
        (["x", "--setup", "x ="], "'--setup' must be Python"),
    ],
)
def test_code_that_cannot_be_fused(
    code: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "fuse", *code]) == 2
    assert said in capsys.readouterr().err


FOLDER = ROOT / "docs" / "pictures"
PAGES = ("internals/dispatch_tools.md", "usage/fusion.md")
PAGE = "".join((ROOT / "docs" / name).read_text() for name in PAGES)
COMMANDS = re.findall(r"^gputensor (.* --svg (\w+\.svg))$", PAGE, re.M)


@pytest.mark.parametrize("command, name", COMMANDS)
def test_the_pictures_of_the_docs_are_current(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert Path(name).read_text() == (FOLDER / name).read_text(), (
        f"run in docs/pictures: gputensor {command}"
    )
    assert f"(../pictures/{name})" in PAGE


def test_every_picture_has_its_command() -> None:
    assert {name for _, name in COMMANDS} == {path.name for path in FOLDER.iterdir()}
