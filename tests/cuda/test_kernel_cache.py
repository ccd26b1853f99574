"""The disk cache of compiled kernels: what decides a hit, and what a bad file or directory does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from gputensor.runtime import kernel_cache


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_known", {})
    monkeypatch.setattr(kernel_cache, "_own_directory", None)
    return tmp_path / "cache"


class Builder:
    def __init__(self, payload=b"\x7fELF payload"):
        self.payload = payload
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.payload


def another_process(monkeypatch):
    monkeypatch.setattr(kernel_cache, "_known", {})


def test_an_entry_is_built_once_for_all_processes(cache, monkeypatch):
    build = Builder()
    for _ in range(2):
        payload, path = kernel_cache.fetch("k" * 64, ".so", build, "unary.cu sm_90")
        another_process(monkeypatch)
    assert (payload, build.calls) == (build.payload, 1)
    with open(path, "rb") as file:
        assert file.read().startswith(build.payload)
    (entry,) = kernel_cache.entries()
    assert (entry.label, entry.path) == ("unary.cu sm_90", path)
    assert entry.nbytes == os.path.getsize(path) and entry.age_s >= 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign"])
def test_a_damaged_entry_is_built_again(monkeypatch, damage):
    build = Builder()
    _, path = kernel_cache.fetch("k", ".cubin", build)
    with open(path, "rb") as file:
        data = file.read()
    bad = {"cut": data[:-1], "flipped": b"\x00" + data[1:], "empty": b"", "foreign": b"x" * 100}
    with open(path, "wb") as file:
        file.write(bad[damage])
    another_process(monkeypatch)
    assert kernel_cache.read(path) is None
    assert kernel_cache.fetch("k", ".cubin", build)[0] == build.payload
    assert build.calls == 2
    assert kernel_cache.read(path) == build.payload


def test_a_key_covers_every_part_and_their_borders():
    keys = {
        kernel_cache.key(*parts)
        for parts in (
            ("a", "b"),
            ("ab",),
            ("a", "b", ""),
            ({"OP": "add"},),
            ({"OP": "sub"},),
            (b"a", "b"),
        )
    }
    assert len(keys) == 6
    assert kernel_cache.key("a", {"x": 1}) == kernel_cache.key("a", {"x": 1})


@pytest.mark.filterwarnings("default")
def test_an_unwritable_directory_warns_once_and_keeps_entries_in_this_process(
    tmp_path, monkeypatch
):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(blocked / "below"))
    build = Builder()
    with pytest.warns(
        RuntimeWarning, match="cannot be written .*; set GPUTENSOR_CACHE_DIR"
    ) as caught:
        for name in ("a", "b", "a"):
            payload, path = kernel_cache.fetch(name, ".so", build)
            assert payload == build.payload and os.path.exists(path)
    assert len(caught) == 1 and build.calls == 2


def test_threads_wait_for_one_build():
    begun = threading.Event()
    build = Builder()

    def slow():
        begun.wait(0.05)
        return build()

    threads = [
        threading.Thread(target=kernel_cache.fetch, args=("k", ".so", slow)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    begun.set()
    for thread in threads:
        thread.join()
    assert build.calls == 1


def test_a_build_that_fails_leaves_nothing(cache):
    def fails():
        raise ValueError("log")

    with pytest.raises(ValueError, match="log"):
        kernel_cache.fetch("k", ".so", fails)
    assert not list(kernel_cache.entries())
    assert kernel_cache.fetch("k", ".so", Builder())[0]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_others_may_read_an_entry_as_the_umask_says(umask, mode):
    """An image fills the cache as root and runs as somebody else."""
    before = os.umask(umask)
    try:
        path = kernel_cache.fetch("k" * 64, ".cubin", Builder())[1]
    finally:
        os.umask(before)
    assert os.stat(path).st_mode & 0o777 == mode


def test_clear_removes_entries_and_drafts_and_nothing_else(cache):
    kernel_cache.fetch("a", ".so", Builder())
    kernel_cache.fetch("b", ".cubin", Builder())
    (cache / ".draft-x").write_text("")
    (cache / "notes.txt").write_text("")
    assert kernel_cache.clear() == 3
    assert os.listdir(cache) == ["notes.txt"]
    assert kernel_cache.clear() == 0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"GPUTENSOR_CACHE_DIR": "/a"}, "/a"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/gputensor"),
        ({"HOME": "/h"}, "/h/.cache/gputensor"),
    ],
)
def test_where_the_cache_lies(monkeypatch, settings, expected):
    for name in ("GPUTENSOR_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert kernel_cache.directory() == expected


def test_processes_write_at_once(cache):
    text = "from gputensor.runtime import kernel_cache; kernel_cache.fetch('k', '.so', lambda: b'x' * 100000)"
    processes = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert kernel_cache.fetch("k", ".so", Builder())[0] == b"x" * 100000
    assert os.listdir(cache) == ["k.so"]
