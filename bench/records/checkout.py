"""The commit of a run, read from git, or from a note in a copy of the tree without git.

`python -m bench.gpu_check prepare` writes the note (`.carried/commit.json`): the commit, whether
files were changed, and a hash of the sources, from which later changes are detected.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from gputensor.runtime import files

ROOT = Path(__file__).resolve().parents[2]
NOTE = ROOT / ".carried" / "commit.json"
# Files whose changes do not make the commit dirty. A run writes them, or they are generated from a
# record.
_RESULTS = (":!bench/results", ":!README.md", ":!docs/measurements/figures.md")
_SOURCES = ("gputensor", "bench", "tests", "examples")


def commit() -> dict[str, Any] | None:
    """Return the commit as {"hash", "dirty"}, or None if it is unknown. In a container image, this
    is the commit of the checkout from which the image was built."""
    noted = _noted()
    # The note is read first, because a copied tree may be inside another repository, or may
    # overwrite a checkout of an older commit.
    if noted is not None and not noted["dirty"]:
        return noted
    return _of_git() or noted


def _of_git() -> dict[str, Any] | None:
    try:
        changed = _git("status", "--porcelain", "--", ".", *_RESULTS)
        return {"hash": _git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.CalledProcessError):
        built = os.environ.get("GPUTENSOR_COMMIT")
        return {"hash": built, "dirty": False} if built else None


def note() -> Path:
    """Write the note for a copy without git, and return its path. Raises: RuntimeError if git is
    missing."""
    found = _of_git()
    if found is None:
        raise RuntimeError("there is no git to ask for the commit")
    NOTE.parent.mkdir(parents=True, exist_ok=True)
    files.write_text(NOTE, json.dumps(found | {"sources": sources()}) + "\n")
    return NOTE


def sources() -> str:
    """Return one hash of the names and contents of all source files."""
    h = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            inside = path.relative_to(ROOT)
            generated = "__pycache__" in inside.parts or inside.parts[:2] == ("bench", "results")
            if not generated and path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                h.update(f"{inside.as_posix()} {len(data)}\n".encode() + data)
    return h.hexdigest()


def _noted() -> dict[str, Any] | None:
    try:
        found = json.loads(NOTE.read_text())
        return {"hash": found["hash"], "dirty": found["dirty"] or found["sources"] != sources()}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
