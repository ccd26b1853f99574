"""Restart a process with libasan. AddressSanitizer needs it from the start of the process.

A shared object that was built with AddressSanitizer aborts a process without libasan. With
`GPUTENSOR_EMULATOR_SANITIZE=1`, the import of gputensor therefore restarts the process once, with
libasan preloaded.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

from gputensor.core import errors

# Leaks are not detected, because Python intentionally keeps memory until exit. A finding is an
# error of the launch and does not end the process.
OPTIONS = "detect_leaks=0:halt_on_error=0:detect_stack_use_after_return=0:suppress_equal_pcs=0:"


def is_active() -> bool:
    """Return True if libasan is loaded in this process."""
    return hasattr(ctypes.CDLL(None), "__asan_init")


def environment() -> dict[str, str]:
    """Return the environment of a process that preloads libasan."""
    command = [os.environ.get("GPUTENSOR_CXX") or "g++", "-print-file-name=libasan.so"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        why = f"GPUTENSOR_EMULATOR_SANITIZE=1 needs g++: {error}"
        raise errors.no_device("cuda", why) from None
    if not os.path.isabs(answer):
        raise errors.no_device("cuda", "GPUTENSOR_EMULATOR_SANITIZE=1 needs libasan beside g++")
    preload = " ".join(filter(None, (os.path.realpath(answer), os.environ.get("LD_PRELOAD"))))
    options = OPTIONS + os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "LD_PRELOAD": preload, "ASAN_OPTIONS": options}


def ensure_preloaded() -> None:
    """Restart this process with libasan if libasan is not loaded."""
    if is_active():
        return
    env = environment()
    if env["LD_PRELOAD"] == os.environ.get("LD_PRELOAD"):
        raise errors.no_device("cuda", "libasan was preloaded and is not in the process")
    capture = sys.modules.get("_pytest.capture")
    if capture is not None and not os.isatty(1) and _is_deleted(1):
        raise errors.no_device(
            "cuda",
            "GPUTENSOR_EMULATOR_SANITIZE=1 restarts the process, and pytest has taken its output; "
            f"run pytest -s, or start it with LD_PRELOAD='{env['LD_PRELOAD']}' "
            f"ASAN_OPTIONS='{env['ASAN_OPTIONS']}'",
        )
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.execve(sys.executable, sys.orig_argv, env)


def _is_deleted(descriptor: int) -> bool:
    """Return True if the file was deleted. The files into which pytest captures output are deleted
    files."""
    return os.fstat(descriptor).st_nlink == 0
