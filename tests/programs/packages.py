"""Packages of the tested programs, fetched once to a folder beside the repository.

Each has its own folder, without dependencies: the table of programs lists these too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path


class NotFetched(Exception):
    """A package could not be fetched; the message has its name and pip's last line."""


def cache() -> Path:
    """Return the folder of the packages: GPUTENSOR_PROGRAMS, otherwise a folder in the user's
    cache."""
    named = os.environ.get("GPUTENSOR_PROGRAMS")
    if named:
        return Path(named)
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "gputensor" / "programs"


def fetch(requirements: Iterable[str]) -> list[Path]:
    """Return the folder of each `name==version`, in order. Fetch missing packages.

    Raises: NotFetched.
    """
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(partial(_fetch, folder), requirements))


def _fetch(folder: Path, requirement: str) -> Path:
    there = folder / requirement
    if there.is_dir():
        return there
    partly = Path(tempfile.mkdtemp(prefix="partly-", dir=folder))
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", str(partly)]
    pip += ["--disable-pip-version-check", "--retries", "1", requirement]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(partly, ignore_errors=True)
        last = done.stderr.strip().splitlines()[-1:] or ["pip said nothing"]
        raise NotFetched(f"{requirement}: {last[0]}")
    try:
        # If another process was faster, its folder stays.
        partly.rename(there)
    except OSError:
        shutil.rmtree(partly, ignore_errors=True)
    return there
