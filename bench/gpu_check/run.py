"""Execution of the steps one after the other, each with a time limit. The results are kept.

Results, the table, and an archive of the working folder are written again after every step and
every few seconds, so that they are complete whenever this process is killed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from gputensor.runtime import files

from bench.records import checkout

from . import verdicts
from .steps import SKIPPED, Step

# The maximum size of the archive.
ARCHIVE_BYTES = 15 << 20
# The archive contains at most HEAD bytes from the beginning of a log and TAIL bytes from its end.
HEAD, TAIL = 64 << 10, 192 << 10
REFRESH_S = 15.0
# The number of seconds between SIGTERM and SIGKILL.
GRACE_S = 3.0
_POLL_S = 0.05


class Stopped(BaseException):
    """Raised when this process receives a signal to end."""


class Run:
    """A run of the steps of one mode. work: the folder to which the steps write. out: the folder
    for the results."""

    def __init__(
        self, mode: str, steps: list[Step], work: Path, out: Path, budget_s: float,
        settings: dict[str, str],
    ) -> None:  # fmt: skip
        self.mode, self.steps, self.work, self.out = mode, steps, work, out
        self.begin = time.monotonic()
        self.deadline = self.begin + budget_s
        self.environment = {**os.environ, **settings}
        self.results: list[dict[str, Any]] = []
        self.is_emulated = settings["GPUTENSOR_CUDA"] == "emulator"
        self.status = "running"

    def run(self) -> int:
        """Run all steps. Return the exit status: 0 if every step succeeded or was skipped,
        otherwise 1."""
        (self.work / "logs").mkdir(parents=True, exist_ok=True)
        self.out.mkdir(parents=True, exist_ok=True)
        # `timeout` and a closing shell send one of these signals before they kill the process. The
        # signal stops the steps, so that the results are still written.
        before = [(s, signal.signal(s, _stop)) for s in (signal.SIGTERM, signal.SIGHUP)]
        try:
            self.keep()
            for step in self.steps:
                self._step(step)
                self.keep()
            self.status = "done"
        except (Stopped, KeyboardInterrupt):
            self.status = "stopped"
        finally:
            for number, handler in before:
                signal.signal(number, handler)
            self.keep()
        print(verdicts.table(self.mode, self.steps, self.results, self.work, self.is_emulated))
        fine = {result["name"] for result in self.results if result["exit"] in (0, SKIPPED)}
        return 0 if fine == {step.name for step in self.steps} else 1

    def _step(self, step: Step) -> None:
        limit = min(step.seconds, self.deadline - time.monotonic())
        result: dict[str, Any] = {
            "name": step.name, "exit": None, "seconds": 0.0, "limit": round(max(0.0, limit), 1),
            "command": step.command,
        }  # fmt: skip
        self.results.append(result)
        if limit <= 0:
            result["why"] = "no time was left"
            print(f"== {step.name}: no time was left", flush=True)
            return
        print(f"== {step.name}: {' '.join(step.command[1:])}", flush=True)
        begin = time.monotonic()
        with open(self.work / "logs" / f"{step.name}.log", "ab") as log:
            try:
                process = subprocess.Popen(
                    step.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=self.environment, cwd=checkout.ROOT, start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                result |= {"exit": 127, "why": f"it did not start ({error.strerror})"}
                return
            try:
                self._wait(process, begin + limit, result)
            finally:
                _end(process)
                result["seconds"] = round(time.monotonic() - begin, 1)
                result["exit"] = process.returncode
        print(f"== {step.name}: exit {result['exit']} after {result['seconds']:.1f} s", flush=True)

    def _wait(self, process: subprocess.Popen[bytes], end: float, result: dict[str, Any]) -> None:
        refreshed = time.monotonic()
        while process.poll() is None:
            now = time.monotonic()
            if now > end:
                result["why"] = f"it was ended after its {result['limit']:.0f} s"
                return
            if now - refreshed > REFRESH_S:
                self.keep()
                refreshed = time.monotonic()
            time.sleep(_POLL_S)

    def keep(self) -> None:
        """Write results, table and archive. If the table cannot be made, write the reason in its
        place. If a file cannot be written, print the error and write the other files."""
        stem = f"gpu_check-{self.mode}"
        found = {
            "mode": self.mode, "status": self.status, "commit": checkout.commit(),
            "is_emulated": self.is_emulated, "seconds": round(time.monotonic() - self.begin, 1),
            "steps": self.results, "not_begun": [s.name for s in self.steps[len(self.results) :]],
        }  # fmt: skip
        try:
            page = verdicts.table(self.mode, self.steps, self.results, self.work, self.is_emulated)
        except Exception as error:  # an error in the table must not lose the other results
            page = f"No table: {type(error).__name__}: {error}\n"
        packed = b""
        with _reported():
            packed, found["left_out"] = archive(self.work)
        text = json.dumps(found, indent=1) + "\n"
        for place in (self.out, self.work):
            with _reported():
                files.write_text(place / f"{stem}.json", text)
            with _reported():
                files.write_text(place / f"{stem}.md", page)
        if packed:
            with _reported(), files.whole(self.out / f"{stem}.tar.gz") as file:
                file.write(packed)


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Report an error of the file system instead of raising it."""
    try:
        yield
    except OSError as error:
        print(f"gpu_check: {error}", file=sys.stderr, flush=True)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a step and all processes that it has started, through its process group."""
    for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        if number == signal.SIGTERM:
            _let_go(process.pid)
    process.wait()


def _let_go(group: int) -> None:
    """Wait until all processes of the group have ended, but at most GRACE_S seconds."""
    end = time.monotonic() + GRACE_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(_POLL_S)


def archive(work: Path) -> tuple[bytes, list[str]]:
    """Return (a tar.gz of the folder, the names of omitted files). The largest files are omitted if
    the tar.gz would exceed ARCHIVE_BYTES."""
    found = []
    for path in sorted(work.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            try:
                found.append((path.relative_to(work).as_posix(), _content(path)))
            except OSError:  # the file was removed meanwhile
                continue
    found.sort(key=lambda pair: len(zlib.compress(pair[1], 1)))
    most = len(found)
    while True:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
            for name, data in found[:most]:
                entry = tarfile.TarInfo(f"{work.name}/{name}")
                entry.size, entry.mtime = len(data), int(time.time())
                tar.addfile(entry, io.BytesIO(data))
        if buffer.tell() <= ARCHIVE_BYTES or most == 0:
            return buffer.getvalue(), [name for name, _ in found[most:]]
        most = most - 1 if most < 8 else most * 7 // 8


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".log" or len(data) <= HEAD + TAIL:
        return data
    left_out = len(data) - HEAD - TAIL
    return data[:HEAD] + f"\n[… {left_out} bytes …]\n".encode() + data[-TAIL:]
