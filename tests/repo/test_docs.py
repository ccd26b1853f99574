"""Code blocks in README and docs run.

```python blocks of a page run in order in one namespace, as a reader would type them (with `>>>`,
as a doctest). ```sh blocks: each `gputensor …` line runs and must succeed; `make`, `docker`, `pip`
and the like are only checked to name targets and modules that exist.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "docker").glob("*.md")),
]
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]
# Languages of blocks that are shown and not run.
SHOWN = {"text", "yaml", "toml", "diff", "c++", "dockerfile"}

# Pages whose blocks launch kernels: skipped where neither a GPU nor the emulator is there.
NEEDS_CUDA = {"kernels_without_a_gpu.md"}

BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """(line, language, text) of every fenced block."""
    text = page.read_text(encoding="utf-8")
    return [(text[: m.start()].count("\n") + 1, m[1], m[2]) for m in BLOCK.finditer(text)]


def shell_lines(page: Path) -> list[tuple[int, str]]:
    found = []
    for line, language, text in blocks(page):
        if language == "sh":
            joined = text.replace("\\\n", " ")
            found += [
                (line, part.split(" #")[0].strip()) for part in joined.splitlines() if part.strip()
            ]
    return found


def test_the_readme_has_code_and_commands() -> None:
    languages = [language for _, language, _ in blocks(ROOT / "README.md")]
    assert "python" in languages and "sh" in languages
    first = shell_lines(ROOT / "README.md")[:2]
    assert [command for _, command in first] == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_names_a_language_that_is_checked(page: Path) -> None:
    assert {language for _, language, _ in blocks(page)} <= {"python", "sh", *SHOWN}


def _skip_without_cuda(page: Path) -> None:
    if page.name in NEEDS_CUDA:
        from gputensor import cuda

        if not cuda.is_available():
            pytest.skip(str(cuda.unavailable_reason()))


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _skip_without_cuda(page)
    names: dict[str, object] = {"__name__": "__docs__"}
    for line, language, text in blocks(page):
        if language != "python":
            continue
        where = f"{page.name}:{line}"
        if ">>>" in text:
            test = doctest.DocTestParser().get_doctest(text, names, where, str(page), line)
            failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
                test, clear_globs=False
            )
            names.update(test.globs)
            assert not failed, where
        else:
            exec(compile("\n" * line + text, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_shell_lines_run_or_name_what_exists(page: Path, tmp_path: Path) -> None:
    _skip_without_cuda(page)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line, command in shell_lines(page):
        words = [w for w in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", w)]
        settings = dict(
            w.split("=", 1) for w in shlex.split(command) if re.fullmatch(r"[A-Z_]+=.*", w)
        )
        where = f"{page.name}:{line}: {command}"
        if words[0] == "make":
            assert set(words[1:]) <= set(targets), where
        elif words[:2] == ["python", "-m"]:
            assert (ROOT / words[2]).is_dir() or words[2] in ("pip", "pytest"), where
        elif words[0] == "gputensor":
            environment = os.environ | settings | {"PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                [sys.executable, "-m", *words],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, where + "\n" + done.stderr
        else:
            assert words[0] in ("pip", "docker", "git", "cd", "pytest", "bench/gpu_check.sh"), where


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", prose):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_files_that_prose_names_exist(page: Path) -> None:
    """`dispatch/tls.py` in running text is a promise; <placeholders> are not."""
    for name in re.findall(
        r"`([a-z_]+(?:/[a-z_]+)+\.(?:py|cu|cuh|yaml|sh))`", page.read_text(encoding="utf-8")
    ):
        assert (ROOT / name).exists() or (ROOT / "gputensor" / name).exists(), (
            f"{page.name}: {name}"
        )
