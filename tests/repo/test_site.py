"""`make docs`: the site builds without warnings, has all public names, loads no external files."""

from __future__ import annotations

import html.parser
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import gputensor as gt
from gputensor import dispatch, library
from gputensor.core._generated import index

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        find_spec("mkdocs") is None and os.environ.get("GPUTENSOR_REQUIRE_DOCS") != "1",
        reason="mkdocs is not installed; it is in the extra `docs`",
    ),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shutil.rmtree(ROOT / "build" / "reference", ignore_errors=True)  # as in a fresh checkout
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(html.parser.HTMLParser):
    """The files that a page loads, its links, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.leads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {x for x in (given.get("id"), given.get("name")) if x}
        if given.get("href"):
            (self.leads if tag == "a" else self.loads).add(str(given["href"]))
        if given.get("src"):
            self.loads.add(str(given["src"]))


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_public_name_has_an_entry(pages: dict[Path, Page]) -> None:
    entries = {anchor for page in pages.values() for anchor in page.anchors}
    wanted = {f"gt.{name}" for name in index.FUNCTIONS}
    wanted |= {f"gt.Tensor.{name}" for name in dir(gt.empty(0)) if not name.startswith("_")}
    wanted |= {f"gt.library.{name}" for name in library.__all__}
    wanted |= {f"gt.dispatch.{name}" for name in dispatch.__all__}
    wanted |= {f"gt.cuda.{name}" for name in gt.cuda.__all__ if callable(getattr(gt.cuda, name))}
    wanted |= {"gt.layout.pack", "gt.optim.Optimizer.step", "gt.nn.functional.linear"}
    wanted |= {
        "gt.autocast",
        "gt.testing.assert_close",
        "gt.backend.register",
        "gt.autograd.Function",
    }
    assert len(wanted) > 200
    assert wanted - entries == set()


def test_every_page_of_the_docs_is_there(site: Path) -> None:
    docs = ROOT / "docs"
    made = [page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")]
    assert len(made) > 5 and all((site / page).is_file() for page in made)
    start = (site / "index.html").read_text(encoding="utf-8")
    assert "FAILED  histogram.cu:8: race for shared memory" in start.replace("&#39;", "'")


def test_links_lead_somewhere_and_nothing_comes_from_elsewhere(
    site: Path, pages: dict[Path, Page]
) -> None:
    for path, page in pages.items():
        assert not [url for url in page.loads if urlsplit(url).netloc], path
        for url in page.loads | page.leads:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.relative_to(site)}: {url}"
            if parts.fragment and target in pages and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {url}"
