"""Cubins from a folder: used with any NVRTC, and only for the sources that they were made from."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gputensor.runtime.compilation import carried, kernel_cache, nvrtc

TEXT = '#line 1 "unary.cu"\nextern "C" __global__ void f() {}\n'


class Binding:
    """An NVRTC of some version that records the texts that it must compile."""

    NVRTCError = RuntimeError

    def __init__(self, *version: int) -> None:
        self.version, self.compiled = version, 0

    def getVersion(self) -> tuple[int, ...]:
        return self.version

    def createProgram(self, *given: object) -> object:
        return given

    def compileProgram(self, program: object, options: object) -> None:
        self.compiled += 1

    def getCUBIN(self, program: object) -> bytes:
        return f"by {self.version}".encode()

    def destroyProgram(self, program: object) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_known", {})
    monkeypatch.setattr(carried, "_used", carried.Counter())
    carried._wrong.cache_clear()
    carried._told.clear()
    made = tmp_path / "carried"
    assert nvrtc.carry_cubin(Binding(12, 9), TEXT, {"OP": "abs"}, "sm_90", str(made))
    kernel_cache.clear()
    monkeypatch.setenv(carried.VARIABLE, str(made))
    return made


def compiled(binding: object, text: str = TEXT, arch: str = "sm_90", **defines: object) -> bytes:
    return nvrtc.compile_cubin(binding, text, defines or {"OP": "abs"}, arch)


def test_a_carried_cubin_is_taken_whatever_nvrtc_is_here(folder: Path) -> None:
    newer = Binding(13, 0)
    assert compiled(newer) == b"by (12, 9)\0" and newer.compiled == 0
    assert carried.used() == {"12.9": 1}
    without = SimpleNamespace()  # an NVRTC that does not load
    assert compiled(without) == b"by (12, 9)\0" and carried.used() == {"12.9": 2}


@pytest.mark.parametrize(
    "other",
    [{"text": TEXT + "//"}, {"OP": "neg"}, {"arch": "sm_80"}],
    ids=["text", "define", "arch"],
)
def test_another_source_define_or_architecture_is_compiled_here(folder: Path, other: dict) -> None:
    newer = Binding(13, 0)
    assert compiled(newer, **other) == b"by (13, 0)\0" and newer.compiled == 1
    assert carried.used() == {}


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"x" + data[1:]])
def test_a_damaged_one_is_compiled_here_and_stays_as_it_is(folder: Path, damage) -> None:
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    assert compiled(Binding(13, 0)) == b"by (13, 0)\0" and path.read_bytes() == before


def test_what_a_folder_has_is_not_compiled_again(folder: Path) -> None:
    again = Binding(13, 0)
    assert not nvrtc.carry_cubin(again, TEXT, {"OP": "abs"}, "sm_90", str(folder))
    assert again.compiled == 0 and len(list(folder.iterdir())) == 1


def test_without_the_variable_no_folder_is_asked(folder: Path, monkeypatch) -> None:
    monkeypatch.delenv(carried.VARIABLE)
    assert compiled(Binding(13, 0)) == b"by (13, 0)\0"


@pytest.mark.filterwarnings("default")
def test_a_folder_that_others_may_write_is_not_used_and_says_so_once(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.warns(
        RuntimeWarning, match="carried cubins are not used: .* may be written"
    ) as seen:
        for define in ("abs", "neg"):
            assert compiled(Binding(13, 0), OP=define) == b"by (13, 0)\0"
    assert len(seen) == 1 and carried.used() == {}


def test_a_warning_that_is_an_error_fails_one_kernel_and_not_all(folder: Path) -> None:
    folder.chmod(0o777)
    with pytest.raises(RuntimeWarning, match="carried cubins are not used"):
        compiled(Binding(13, 0))
    assert compiled(Binding(13, 0)) == b"by (13, 0)\0"


def test_a_cubin_that_others_may_write_is_compiled_here(folder: Path) -> None:
    (path,) = folder.iterdir()
    path.chmod(0o666)
    assert compiled(Binding(13, 0)) == b"by (13, 0)\0" and carried.used() == {}
