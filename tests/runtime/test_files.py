"""Atomic writes of files: readers, the former file, and killed writers."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gputensor as gt
from gputensor.runtime import files

HOURS_AGO = time.time() - 3 * 3600
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
NOT_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def put(path: Path, data: bytes) -> None:
    with files.whole(path) as file:
        file.write(data)


def only(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


# --- the target ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o755, 0o200])
@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_the_mode_of_an_existing_file_stays(tmp_path: Path, mode: int, umask: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(mode)
    before = os.umask(umask)
    try:
        put(path, b"new")
    finally:
        os.umask(before)
    assert mode_of(path) == mode and only(tmp_path) == ["x"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_a_new_file_has_the_mode_that_open_gives(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        put(tmp_path / "x", b"")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "x") == 0o666 & ~umask


def test_nobody_else_reads_a_private_file_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o600)
    with files.whole(path) as file:
        file.write(b"secret")
        (temporary,) = files.temporaries(str(tmp_path))
        assert mode_of(Path(temporary)) & 0o077 == 0


@AS_ROOT
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    os.chown(path, 4321, 4322)
    put(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (4321, 4322)


def test_a_group_that_cannot_be_kept_takes_its_rights_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(0o664)
    old = list(path.stat())
    old[stat.ST_GID] += 1

    def refused(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refused)
    descriptor = os.open(path, os.O_RDWR)
    files._keep(descriptor, os.stat_result(old))
    os.close(descriptor)
    assert mode_of(path) == 0o644


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_link_stays_and_its_target_is_replaced(tmp_path: Path, is_relative: bool) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "x", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(os.path.join("there", "x") if is_relative else target)
    put(link, b"new")
    assert link.is_symlink() and target.read_bytes() == b"new"
    assert only(tmp_path) == ["link", "there"] and only(tmp_path / "there") == ["x"]


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("x")
    put(tmp_path / "link", b"new")
    assert (tmp_path / "x").read_bytes() == b"new" and (tmp_path / "link").is_symlink()


def test_place_replaces_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"old")
    (tmp_path / "link").symlink_to("victim")
    files.place(str(tmp_path / "link"), b"new", 0o600)
    assert (tmp_path / "victim").read_bytes() == b"old"
    assert not (tmp_path / "link").is_symlink() and mode_of(tmp_path / "link") == 0o600


def test_names_that_are_planted_are_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"old")
    taken = iter([b"a" * 8, b"a" * 8, b"b" * 8])
    monkeypatch.setattr(os, "urandom", lambda n: next(taken))
    (tmp_path / f".gputensor-{(b'a' * 8).hex()}.tmp").symlink_to("victim")
    (tmp_path / f"x.{os.getpid()}.tmp").symlink_to("victim")
    put(tmp_path / "x", b"new")
    assert victim.read_bytes() == b"old" and (tmp_path / "x").read_bytes() == b"new"


def test_a_device_is_written_to_and_stays() -> None:
    before = os.stat(os.devnull)
    put(Path(os.devnull), b"x")
    assert os.stat(os.devnull).st_rdev == before.st_rdev


def test_a_pipe_is_written_to() -> None:
    """This holds for names too: the target of /dev/stdout has no path."""
    text = "import gputensor as gt; gt.save(gt.arange(3), '/dev/stdout')"
    answer = subprocess.run([sys.executable, "-c", text], capture_output=True)
    assert gt.load(io.BytesIO(answer.stdout)).tolist() == [0, 1, 2], answer.stderr


def test_what_stands_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        put(tmp_path, b"x")
    with pytest.raises(FileNotFoundError, match="absent/x"):
        put(tmp_path / "absent" / "x", b"x")


@NOT_ROOT
def test_a_read_only_file_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o444)
    with pytest.raises(PermissionError):
        put(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_bytes() == b"old"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_a_block_that_fails_changes_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(error), files.whole(tmp_path / "x") as file:
        file.write(b"half")
        raise error
    assert (tmp_path / "x").read_bytes() == b"old" and only(tmp_path) == ["x"]


def test_file_and_folder_reach_the_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(of: str, to: str) -> None:
        done.append("name")
        replace(of, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    gt.save(gt.arange(3), tmp_path / "x")
    assert done == ["file", "name", "folder"]


FULL = """
import resource, signal, sys
import gputensor as gt
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    gt.save(gt.zeros(1 << 20), sys.argv[1])
except OSError as error:
    print(error.errno)
"""


def test_what_does_not_fit_on_the_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """A limit on the size of files simulates a full disk."""
    path = tmp_path / "x.gt"
    gt.save(gt.arange(3), path)
    command = [sys.executable, "-c", FULL, str(path)]
    answer = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"GPUTENSOR_CUDA": "off"}
    )
    assert int(answer.stdout) == errno.EFBIG, answer.stderr
    assert only(tmp_path) == ["x.gt"] and gt.load(path).tolist() == [0, 1, 2]


# --- leftovers ----------------------------------------------------------------------------------


def left(folder: Path, *, age_s: float = 7200) -> Path:
    path = folder / ".gputensor-0123456789abcdef.tmp"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def test_an_old_temporary_goes_with_the_next_write(tmp_path: Path) -> None:
    left(tmp_path)
    put(tmp_path / "x", b"")
    assert only(tmp_path) == ["x"]


def test_a_young_one_stays(tmp_path: Path) -> None:
    path = left(tmp_path, age_s=60)
    assert files.sweep(str(tmp_path)) == 0 and path.exists()


def test_one_that_is_written_stays_however_old(tmp_path: Path) -> None:
    with files.whole(tmp_path / "x") as file:
        file.write(b"slow")
        file.flush()
        (temporary,) = files.temporaries(str(tmp_path))
        os.utime(temporary, (HOURS_AGO, HOURS_AGO))
        assert files.sweep(str(tmp_path)) == 0
    assert (tmp_path / "x").read_bytes() == b"slow"


@AS_ROOT
def test_that_of_another_user_stays(tmp_path: Path) -> None:
    path = left(tmp_path)
    os.chown(path, 4321, 4321)
    assert files.sweep(str(tmp_path)) == 0 and path.exists()


def test_names_of_others_and_folders_stay(tmp_path: Path) -> None:
    for name in ("x.1234.tmp", ".gputensor-notes", "gputensor-x.tmp"):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (HOURS_AGO, HOURS_AGO))
    (tmp_path / ".gputensor-folder.tmp").mkdir()
    os.utime(tmp_path / ".gputensor-folder.tmp", (HOURS_AGO, HOURS_AGO))
    assert files.sweep(str(tmp_path)) == 0 and len(only(tmp_path)) == 4


KILLED = """
import sys
from gputensor.runtime import files
print(files.own_folder(), flush=True)
with files.whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_after_kill_9_the_next_process_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch, folder = tmp_path / "tmp", tmp_path / "out"
    scratch.mkdir()
    folder.mkdir()
    command = [sys.executable, "-c", KILLED, str(folder / "x")]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"TMPDIR": str(scratch)},
    )  # fmt: skip
    assert process.stdout is not None
    own = Path(process.stdout.readline().strip())
    assert process.stdout.readline() == "ready\n" and own.parent == scratch
    (own / "unit.cpp").write_text("")
    (temporary,) = files.temporaries(str(folder))
    for path in (temporary, own / "gputensor.lock"):
        os.utime(path, (HOURS_AGO, HOURS_AGO))
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setattr(files, "_own", None)
    assert files.sweep(str(folder)) == 0  # it lives
    files.own_folder()
    assert own.exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    monkeypatch.setattr(files, "_own", None)
    assert files.sweep(str(folder)) == 1 and only(folder) == []
    files.own_folder()
    assert not own.exists()


SAVES = """
import sys
import gputensor as gt
turn = 0
while True:
    turn += 1
    gt.save(gt.full((200_000,), turn), sys.argv[1])
    print(turn, flush=True)
"""


@pytest.mark.full
def test_a_saver_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "x.gt"
    for saves in (1, 2, 3, 5, 8):
        process = subprocess.Popen(
            [sys.executable, "-c", SAVES, str(path)], stdout=subprocess.PIPE, text=True,
            env=os.environ | {"GPUTENSOR_CUDA": "off"},
        )  # fmt: skip
        assert process.stdout is not None
        for _ in range(saves):
            process.stdout.readline()
        process.kill()
        process.communicate()
        found = gt.load(path)
        assert (found == found[0]).all() and found[0] >= saves
    for temporary in files.temporaries(str(tmp_path)):
        os.utime(temporary, (HOURS_AGO, HOURS_AGO))
    files.sweep(str(tmp_path))
    assert only(tmp_path) == ["x.gt"]


def test_a_forked_child_has_a_folder_of_its_own() -> None:
    folder = files.own_folder()
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700 and files.own_folder() == folder
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, files.own_folder().encode())
            files._remove_own(os.getpid() + 1, folder, -1)
            files._remove_own(*files._own)  # the interpreter does this at exit
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    theirs = os.read(reading, 4096).decode()
    os.close(reading)
    os.close(writing)
    assert theirs != folder and os.path.isdir(folder) and not os.path.exists(theirs)


# --- simultaneous writers -------------------------------------------------------------------------

ROUNDS = 12 * int(os.environ.get("GPUTENSOR_FUZZ", "1"))

MANY = """
import json, sys, threading
import gputensor as gt
path, first, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def work(number):
    for turn in range(rounds):
        gt.save({"of": [number, turn], "x": gt.full((3000,), number, dtype=gt.int64)}, path)
        found = gt.load(path)
        assert (found["x"] == found["of"][0]).all(), found["of"]
wrong = []
threading.excepthook = lambda given: wrong.append(repr(given.exc_value))
threads = [threading.Thread(target=work, args=(first + n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(wrong))
"""


@pytest.mark.full
def test_threads_and_processes_save_and_load_one_path(tmp_path: Path) -> None:
    """Every load reads a complete file of one of the writers."""
    path = tmp_path / "x.gt"
    gt.save({"of": [0, 0], "x": gt.zeros(3, dtype=gt.int64)}, path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MANY, str(path), str(10 * n), str(ROUNDS)],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"GPUTENSOR_CUDA": "off"},
        )
        for n in range(3)
    ]  # fmt: skip
    wrong = [json.loads(process.communicate()[0]) for process in processes]
    assert wrong == [[], [], []]
    assert only(tmp_path) == ["x.gt"]


def test_writers_of_one_name_in_one_process(tmp_path: Path) -> None:
    inside = threading.Barrier(4)

    def write(number: int) -> None:
        with files.whole(tmp_path / "x") as file:
            inside.wait()  # all are open at once
            file.write(bytes([number]) * 1000)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = (tmp_path / "x").read_bytes()
    assert len(data) == 1000 and len(set(data)) == 1 and only(tmp_path) == ["x"]
