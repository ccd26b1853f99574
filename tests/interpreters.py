"""Print a line `3.12 PATH` for each other Python of this machine, so that make can run tests with
it.

It prints one Python of each version from 3.11 on, except the running version, if it can make a
virtual environment. It searches the PATH and the folders of pyenv and uv. Missing versions are
reported on stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_SAYS = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def candidates(version: str) -> list[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or Path.home() / ".local/share/uv/python")
    folders = [*pyenv.glob(f"versions/{version}.*"), *uv.glob(f"cpython-{version}.*")]
    return [f"python{version}", *(str(folder / "bin/python3") for folder in sorted(folders))]


def version_of(python: str) -> str | None:
    """Return the version that it reports; None if it does not run or cannot make a virtual
    environment."""
    try:
        done = subprocess.run([python, "-c", _SAYS], capture_output=True, text=True, cwd="/")
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def others() -> dict[str, str]:
    own = "{}.{}".format(*sys.version_info)
    found: dict[str, str] = {}
    for version in VERSIONS:
        for python in candidates(version) if version != own else ():
            if version_of(python) == version:
                found.setdefault(version, python)
    return found


def main() -> None:
    found = others()
    own = "{}.{}".format(*sys.version_info)
    missing = [version for version in VERSIONS if version not in found and version != own]
    print(
        f"check: beside Python {own} also {', '.join(found) or 'none'}; "
        f"not found: {', '.join(missing) or 'none'}",
        file=sys.stderr,
    )
    for version, python in found.items():
        print(version, python)


if __name__ == "__main__":
    main()
