"""mypy and pyright, both strict, take the Python blocks of README and docs.

The blocks of a page are one module. What is judged is gputensor: its names, their types, the calls.
Rules that would have the examples annotate their own functions and lambdas are off.
"""

from __future__ import annotations

import doctest
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .test_docs import PAGES, ROOT, blocks

pytestmark = pytest.mark.full
# Pages whose Python no checker can follow.
LEFT_OUT = {
    "new_device.md": "a device brings attributes of Tensor when it is registered",
    "kernels_without_a_gpu.md": "its last blocks are files of their own, with names of the first",
}
OF_THE_EXAMPLES = """
    reportMissingParameterType reportMissingTypeArgument reportPossiblyUnboundVariable
    reportPrivateUsage
    reportUnknownArgumentType reportUnknownLambdaType reportUnknownMemberType
    reportUnknownParameterType reportUnknownVariableType reportUnusedExpression
""".split()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    parser = doctest.DocTestParser()
    for page in PAGES:
        texts = [
            "".join(example.source for example in parser.get_examples(block.text))
            if ">>>" in block.text
            else block.text
            for block in blocks(page)
            if block.language == "python"
        ]
        if texts and page.name not in LEFT_OUT:
            name = str(page.relative_to(ROOT)).removesuffix(".md").replace(os.sep, "_")
            (folder / f"page_{name}.py").write_text("\n".join(texts), encoding="utf-8")
    assert len(list(folder.glob("page_*.py"))) >= 4
    shutil.copy(Path(__file__).with_name("test_types_for_users.py"), folder)
    return folder


def test_mypy_takes_them(pages: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--allow-untyped-defs", "--allow-untyped-calls",
         "--follow-imports=silent", "--config-file=", "--cache-dir", str(pages / ".mypy"),
         *sorted(path.name for path in pages.glob("page_*.py"))],
        cwd=pages, env=os.environ | {"MYPYPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_takes_them(pages: Path) -> None:
    program = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("pyright is not installed")
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT)],
        **dict.fromkeys(OF_THE_EXAMPLES, False),
    }
    (pages / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [program, "-p", str(pages), "--pythonpath", sys.executable], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
