"""The disk cache of compiled kernels: its key, and bad files and directories."""

from __future__ import annotations

import ast
import hashlib
import os
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from gputensor.runtime import trust
from gputensor.runtime.compilation import kernel_cache

from .support import fresh_emulator, requires_emulator


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_cache, "_known", {})
    monkeypatch.setattr(kernel_cache, "_is_alone", False)
    # Some writes trim the cache; those of the process so far would decide which.
    monkeypatch.setattr(kernel_cache, "_writes", 1)
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


def test_a_warning_that_is_an_error_fails_one_kernel_and_not_all(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(tmp_path / "file" / "below"))
    build = Builder()
    with pytest.raises(RuntimeWarning, match="cannot be written"):
        kernel_cache.fetch("a", ".so", build)
    assert kernel_cache.fetch("a", ".so", build)[0] == build.payload


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


@pytest.mark.parametrize(
    ("umask", "folder", "mode"),
    [(0o022, 0o755, 0o644), (0o077, 0o700, 0o600), (0o002, 0o755, 0o644), (0, 0o755, 0o644)],
)
def test_others_may_read_a_named_cache_as_the_umask_says_and_never_write(
    cache, umask, folder, mode
):
    """A container image fills the cache as root and runs as another user."""
    before = os.umask(umask)
    try:
        path = kernel_cache.fetch("k" * 64, ".cubin", Builder())[1]
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == mode
    assert stat.S_IMODE(cache.stat().st_mode) == folder


@pytest.mark.parametrize("umask", [0o022, 0])
def test_the_cache_that_nobody_named_is_private(tmp_path, monkeypatch, umask):
    monkeypatch.delenv("GPUTENSOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    before = os.umask(umask)
    try:
        path = kernel_cache.fetch("k", ".so", Builder())[1]
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    while (path := os.path.dirname(path)) != str(tmp_path):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700


# --- the owner of an entry ------------------------------------------------------------------------

AS_ROOT = os.geteuid() == 0
OTHER = 4321  # the number of a user that does not exist here


def entry(payload, label=b"label", length=None, digest=None):
    body = payload + label + (len(label) if length is None else length).to_bytes(4, "little")
    return body + (digest or hashlib.sha256(body).digest()) + b"gputnsr1"


def to_other(path):
    if not AS_ROOT:
        pytest.skip("only root gives files to others")
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


def to_link(path):
    real = path.with_name("elsewhere")
    path.rename(real)
    path.symlink_to(real)


def to_pipe(path):
    path.unlink()
    os.mkfifo(path)


def to_folder(path):
    path.unlink()
    path.mkdir()


def written(data):
    return lambda path: path.write_bytes(data)


FOREIGN = b"foreign code"
PLANTED = {
    "another's": to_other,
    "the group may write": lambda path: path.chmod(0o664),
    "everybody may write": lambda path: path.chmod(0o666),
    "a link": to_link,
    "a pipe": to_pipe,
    "no hash": written(FOREIGN),
    "a wrong hash": written(entry(FOREIGN, digest=bytes(32))),
    "a label that is no text": written(entry(FOREIGN, b"\xff\xfe")),
    "a label longer than all": written(entry(FOREIGN, length=1 << 20)),
    "a label of 4 GiB": written(entry(FOREIGN, length=(1 << 32) - 1)),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "only a footer": written(hashlib.sha256(b"").digest() + b"gputnsr1"),
    "empty": written(b""),
}


@pytest.mark.parametrize("how", PLANTED)
def test_a_planted_entry_is_built_again_and_replaced(cache, monkeypatch, how):
    cache.mkdir()
    path = cache / "k.so"
    path.write_bytes(entry(FOREIGN))
    path.chmod(0o644)
    assert kernel_cache.fetch("k", ".so", Builder())[0] == FOREIGN  # before anything is wrong
    another_process(monkeypatch)
    PLANTED[how](path)
    build = Builder()
    assert kernel_cache.fetch("k", ".so", build) == (build.payload, str(path))
    another_process(monkeypatch)
    assert kernel_cache.fetch("k", ".so", build)[0] == build.payload and build.calls == 1
    status = os.lstat(path)
    assert stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if how == "a link":  # its target must not be changed
        assert (cache / "elsewhere").read_bytes() == entry(FOREIGN)
    list(kernel_cache.entries())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "how", ["another's", "the group may write", "everybody may write", "sticky"]
)
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_of_others_is_not_used(cache, monkeypatch, how, above):
    """A folder inside another folder where other users could replace it is not used either."""
    folder = cache / "below" if above else cache
    folder.mkdir(parents=True)
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(folder))
    (folder / "k.so").write_bytes(entry(FOREIGN))
    if how == "sticky":
        cache.chmod(0o1777)
    else:
        PLANTED[how](cache) if how == "another's" else cache.chmod(
            0o777 if "every" in how else 0o775
        )
    if how == "the group may write" and above:
        monkeypatch.setattr(trust, "_is_only_ours", lambda gid: False)
    build = Builder()
    if how == "sticky" and above:  # as in /tmp
        assert kernel_cache.fetch("k", ".so", build)[0] == FOREIGN
        return
    with pytest.warns(RuntimeWarning, match=f"{cache} (is owned by user|may be written by others)"):
        payload, path = kernel_cache.fetch("k", ".so", build)
    assert payload == build.payload and not path.startswith(str(cache))
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert (folder / "k.so").read_bytes() == entry(FOREIGN)


def test_a_group_of_one_may_write_a_folder_above(cache, monkeypatch):
    (cache / "below").mkdir(parents=True)
    cache.chmod(0o775)
    monkeypatch.setenv("GPUTENSOR_CACHE_DIR", str(cache / "below"))
    monkeypatch.setattr(trust, "_is_only_ours", lambda gid: True)
    path = kernel_cache.fetch("k", ".so", Builder())[1]
    assert path.startswith(str(cache))


def test_a_link_to_the_folder_is_followed_and_the_folder_judged(cache, tmp_path, monkeypatch):
    """A home on another disk may be such a link."""
    (tmp_path / "disk").mkdir()
    cache.symlink_to(tmp_path / "disk")
    assert kernel_cache.fetch("k", ".so", Builder())[1] == str(tmp_path / "disk" / "k.so")
    (tmp_path / "disk").chmod(0o777)
    another_process(monkeypatch)
    with pytest.warns(RuntimeWarning, match="disk may be written by others"):
        kernel_cache.fetch("k", ".so", Builder())


@pytest.mark.skipif(not AS_ROOT, reason="only root runs as another user")
def test_an_image_of_root_serves_another_user_and_is_not_changed_by_him(monkeypatch):
    """All users use root's entries. The user's own entries go to another folder, after a
    warning."""
    text = (
        "import os, shutil, tempfile, warnings; warnings.simplefilter('ignore')\n"
        "from gputensor.core import errors; errors.no_kernel_cache\n"
        "from gputensor.runtime.compilation import kernel_cache as c\n"
        "os.setgid(4321); os.setuid(4321)\n"  # the user may be unable to read this checkout
        "print(c.fetch('k', '.so', lambda: b'his'), c.fetch('l', '.so', lambda: b'his'))"
    )
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # pytest's own folders are closed to others
        cache = os.path.join(folder, "cache")
        monkeypatch.setenv("GPUTENSOR_CACHE_DIR", cache)
        kernel_cache.fetch("k", ".so", lambda: b"root's")
        answer = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, text=True, check=True
        )
        (first, at), (second, elsewhere) = ast.literal_eval(answer.stdout.replace(") (", "), ("))
        assert (first, at) == (b"root's", f"{cache}/k.so") and os.listdir(cache) == ["k.so"]
        assert second == b"his" and not elsewhere.startswith(folder)


# --- bounds ---------------------------------------------------------------------------------------


def aged(name, hours, nbytes=1000):
    path = kernel_cache.fetch(name, ".so", lambda: bytes(nbytes))[1]
    used = time.time() - hours * 3600
    os.utime(path, (used, used))
    return path


def names(cache):
    return sorted(p.name.removesuffix(".so") for p in cache.iterdir())


def test_what_is_not_used_for_long_goes(cache, monkeypatch):
    aged("old", 24 * 91), aged("new", 24 * 89)
    assert kernel_cache.trim() == 1 and names(cache) == ["new"]
    monkeypatch.setenv("GPUTENSOR_CACHE_MAX_DAYS", "1")
    assert kernel_cache.trim() == 1 and names(cache) == []


def test_the_oldest_beyond_the_size_go(cache, monkeypatch):
    for name, hours in (("a", 5), ("b", 4), ("c", 3), ("d", 2)):
        aged(name, hours, 1 << 20)
    monkeypatch.setenv("GPUTENSOR_CACHE_MAX_MIB", "2.5")
    assert kernel_cache.trim() == 2 and names(cache) == ["c", "d"]


def test_nothing_of_the_last_hour_goes(cache, monkeypatch):
    aged("now", 0.5)
    monkeypatch.setenv("GPUTENSOR_CACHE_MAX_MIB", "0")
    monkeypatch.setenv("GPUTENSOR_CACHE_MAX_DAYS", "0")
    assert kernel_cache.trim() == 0 and names(cache) == ["now"]


def test_a_use_counts(cache, monkeypatch):
    aged("k", 24 * 100)
    another_process(monkeypatch)
    kernel_cache.fetch("k", ".so", Builder())
    assert kernel_cache.trim() == 0


def test_writing_trims(cache, monkeypatch):
    aged("old", 24 * 100)
    monkeypatch.setattr(kernel_cache, "_writes", 0)
    kernel_cache.fetch("new", ".so", Builder())
    assert names(cache) == ["new"]


@pytest.mark.parametrize("value", ["x", "-1", "nan"])
def test_a_bound_that_means_nothing_is_refused(cache, monkeypatch, value):
    monkeypatch.setenv("GPUTENSOR_CACHE_MAX_MIB", value)
    with pytest.raises(ValueError, match="GPUTENSOR_CACHE_MAX_MIB: must be a number of 0 or more"):
        kernel_cache.trim()


@pytest.mark.full
@requires_emulator
def test_a_kernel_whose_file_went_is_loaded_all_the_same(cache, monkeypatch):
    """Another process removes the file from the cache. A second device needs the file again and
    finds its variable."""
    text = """
    __device__ int calls;
    struct call { int* out; };
    extern "C" __global__ void count(call c) { c.out[0] = ++calls; }
    """
    emulator = fresh_emulator(monkeypatch, devices=2)
    image = emulator.compile(text, [{}], entries=["count"])
    out = np.zeros(1, np.int32)

    def run(device):
        where = emulator.allocate(4, device)
        function = emulator.load(image, "count", device)
        stream = emulator.current_stream(device)
        emulator.launch(function, (1, 1, 1), (1, 1, 1), 0, stream, struct.pack("Q", where.ptr))
        emulator.copy_async(out.ctypes.data, -1, where.ptr, device, 4, stream)
        stream.synchronize()
        return int(out[0])

    assert run(0) == 1
    for _ in range(2):
        for path in cache.iterdir():
            path.unlink()
        assert (run(1), run(0)) in ((1, 2), (2, 3))


def test_clear_removes_entries_and_leftovers_and_nothing_else(cache):
    kernel_cache.fetch("a", ".so", Builder())
    kernel_cache.fetch("b", ".cubin", Builder())
    for name in ("1", "2"):
        (cache / f".gputensor-{name}.tmp").write_text("")
    os.utime(cache / ".gputensor-1.tmp", (0, 0))  # another process may still be writing it
    (cache / "notes.txt").write_text("")
    assert kernel_cache.clear() == 3
    assert sorted(os.listdir(cache)) == [".gputensor-2.tmp", "notes.txt"]
    assert kernel_cache.clear() == 0


MANY = """
import os, random, sys
from gputensor.runtime.compilation import kernel_cache
rng = random.Random(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    name = f"k{rng.randrange(6)}"
    kernel_cache._known.clear()
    payload, path = kernel_cache.fetch(name, ".so", lambda: name.encode() * 5000, name)
    assert payload == name.encode() * 5000
    turn = rng.randrange(4)
    if turn == 0 and os.path.exists(path):
        try: os.utime(path, (0, 0))
        except FileNotFoundError: pass
    elif turn == 1:
        kernel_cache.trim()
    elif turn == 2:
        assert all(entry.label for entry in kernel_cache.entries())
    elif rng.randrange(8) == 0:
        kernel_cache.clear()
print("done")
"""


@pytest.mark.full
def test_processes_fetch_list_trim_and_clear_at_once(cache):
    rounds = 60 * int(os.environ.get("GPUTENSOR_FUZZ", "1"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(n), str(rounds)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for n in range(4)
    ]  # fmt: skip
    answers = [process.communicate() for process in processes]
    assert [out for out, _ in answers] == ["done\n"] * 4, answers
    assert not [n for n in os.listdir(cache) if not n.endswith(".so")]


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
    text = (
        "from gputensor.runtime.compilation import kernel_cache as c; "
        "c.fetch('k', '.so', lambda: b'x' * 10**5)"
    )
    processes = [subprocess.Popen([sys.executable, "-c", text]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert kernel_cache.fetch("k", ".so", Builder())[0] == b"x" * 100000
    assert os.listdir(cache) == ["k.so"]
