"""The cache key of a kernel covers all included files: an edit of any one compiles it again."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import gputensor as gt
from gputensor.runtime.compilation import includes, kernel_cache, nvrtc_users

from ..cuda.support import requires_emulator
from ..cuda.compile.test_compile import requires_nvrtc


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with headers in it, in `inc`, and in `more`."""
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_known", {})
    here = tmp_path / "here"
    for name in ("here.h", "inc/a.h", "inc/deep/b.h", "inc/deep/c.h", "more/a.h", "more/only.h"):
        path = here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#define N 1\n")
    (here / "inc" / "deep" / "b.h").write_text('#include "c.h"\n')
    monkeypatch.chdir(here)
    return here


# (text, options, the file that is edited)
INCLUDED = [
    ('#include "here.h"', (), "here.h"),
    ('#include "inc/a.h"', (), "inc/a.h"),
    ("#include <a.h>", ("-Iinc",), "inc/a.h"),
    ('#include "a.h"', ("-Iinc",), "inc/a.h"),
    ("#include <a.h>", ("-I", "inc"), "inc/a.h"),
    ("#include <a.h>", ("-I inc",), "inc/a.h"),
    ("#include <a.h>", ("--include-path=inc",), "inc/a.h"),
    ("#include <a.h>", ("--include-path", "inc"), "inc/a.h"),
    ("#include <a.h>", ("-Imore", "-Iinc"), "more/a.h"),
    ("#include <deep/b.h>", ("-Iinc",), "inc/deep/b.h"),
    ("#include <deep/b.h>", ("-Iinc",), "inc/deep/c.h"),
    ("  #  include\t<a.h>  // why", ("-Iinc",), "inc/a.h"),
    ("#include /* why */ <a.h>", ("-Iinc",), "inc/a.h"),
    ("#inc\\\nlude <a.h>", ("-Iinc",), "inc/a.h"),
    ("#include <deep//b.h>", ("-Iinc",), "inc/deep/b.h"),
    ("#define H <a.h>\n#include H", ("-Iinc",), "inc/a.h"),
    ("#include H", ("-Iinc", "-DH=<deep/b.h>"), "inc/deep/c.h"),
    ('#define H "here.h"\n#include H', (), "here.h"),
    ("", ("-include=a.h", "-Iinc"), "inc/a.h"),
    ("", ("--pre-include", "here.h"), "here.h"),
    ("#if __has_include(<only.h>)\n#endif", ("-Imore",), "more/only.h"),
    ("#include_next <a.h>", ("-Iinc", "-Imore"), "more/a.h"),
]


@pytest.mark.parametrize(("text", "options", "edited"), INCLUDED)
def test_an_edit_changes_the_key(
    folder: Path, text: str, options: tuple[str, ...], edited: str
) -> None:
    before = includes.digest([text], options)
    assert includes.digest([text], options) == before
    (folder / edited).write_text("#define N 22\n")
    assert includes.digest([text], options) != before


@pytest.mark.parametrize("edited", ["more/only.h", "inc/deep/c.h", "here.h"])
def test_a_file_that_is_not_included_does_not(folder: Path, edited: str) -> None:
    before = includes.digest(["#include <a.h>"], ("-Iinc", "-Imore"))
    (folder / edited).write_text("#define N 22\n")
    assert includes.digest(["#include <a.h>"], ("-Iinc", "-Imore")) == before


def test_a_file_that_appears_before_another_changes_it(folder: Path) -> None:
    before = includes.digest(["#include <only.h>"], ("-Iinc", "-Imore"))
    (folder / "inc" / "only.h").write_text("")
    assert includes.digest(["#include <only.h>"], ("-Iinc", "-Imore")) != before


def test_the_same_files_elsewhere_are_the_same(folder: Path) -> None:
    before = includes.digest(["#include <deep/b.h>"], ("-Iinc",))
    os.rename("inc", "moved")
    assert includes.digest(["#include <deep/b.h>"], ("-Imoved",)) == before


def test_files_that_include_each_other_end(folder: Path) -> None:
    (folder / "inc" / "a.h").write_text("#include <deep/b.h>\n")
    (folder / "inc" / "deep" / "b.h").write_text('#include "../a.h"\n#include "b.h"\n')
    includes.digest(["#include <a.h>"], ("-Iinc",))


TEXT = '#include {}\nextern "C" __global__ void f(float* x) {{ x[0] = N; }}\n'


@requires_nvrtc
@pytest.mark.parametrize(
    ("name", "options", "edited"),
    [("<a.h>", ("-Iinc",), "inc/a.h"), ('"here.h"', (), "here.h"), ("<deep/b.h>", ("-I", "inc"),
    "inc/deep/c.h")],
)  # fmt: skip
def test_nvrtc_builds_anew(folder: Path, name: str, options: tuple[str, ...], edited: str) -> None:
    binding = nvrtc_users.binding()

    def build() -> bytes:
        return nvrtc_users.compile_text(
            binding, TEXT.format(name), {}, "sm_80", ("f",), {}, options
        )

    first = build()
    assert build() == first and len(list(kernel_cache.entries())) == 1
    (folder / edited).write_text("#define N 2\n")
    assert build() != first


@pytest.mark.full
@requires_emulator
@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    ("before", "name", "options", "edited"),
    [
        ("", '"here.h"', (), "here.h"),
        ("", "<a.h>", ("-Iinc",), "inc/a.h"),
        ("#define H <a.h>\n", "H", ("-Iinc",), "inc/a.h"),  # a header that only g++ can find
    ],
)
def test_the_emulator_builds_anew(
    folder: Path, before: str, name: str, options: tuple[str, ...], edited: str, is_file: bool
) -> None:
    if not gt.cuda.is_emulated():
        pytest.skip("a GPU is there; the emulator is another device")
    found = np.zeros(1, np.float32)
    text = before + TEXT.format(name)
    (folder / "k.cu").write_text(text)
    for value in (1, 2):
        (folder / edited).write_text(f"#define N {value}\n")
        kernel = gt.cuda.Kernel(folder / "k.cu" if is_file else text, "f", options=options)
        kernel[1, 1](found)
        assert found[0] == value
