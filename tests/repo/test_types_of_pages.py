"""mypy and pyright, both strict, accept the Python blocks of README and docs.

The blocks of a page are one module. All pages are checked; OFF lists rules disabled on some.
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
# Rules about functions without annotations.
UNTYPED = """
    reportMissingParameterType reportUnknownArgumentType reportUnknownLambdaType
    reportUnknownMemberType reportUnknownParameterType reportUnknownVariableType
"""
# Rules of pyright that are disabled on a page, with the reasons.
OFF = {
    "architecture.md": "reportPrivateUsage",  # shows the parts of a tensor
    # shows attributes of operators, and functions that PyTorch's users write without types
    "custom_operators.md": f"{UNTYPED} reportPrivateUsage reportPossiblyUnboundVariable",
    # lambdas have no annotations
    "where_to_start.md": "reportUnknownArgumentType reportUnknownLambdaType",
    "kernels_without_a_gpu.md": UNTYPED,  # a fixture, and functions with a generator as argument
    # a device brings attributes of Tensor when it is registered: no checker can know `x.is_acme`
    "new_device.md": f"{UNTYPED} reportAttributeAccessIssue reportPossiblyUnboundVariable",
}
# The same for mypy.
UNTYPED_PAGES = [name for name, rules in OFF.items() if UNTYPED in rules]


def settings_of(page: str) -> str:
    """Return comments that disable rules of the checkers in the code below."""
    lines = [f"# pyright: {rule}=false" for rule in OFF.get(page, "").split()]
    if page in UNTYPED_PAGES:
        lines.append("# mypy: allow-untyped-defs, allow-untyped-calls")
    if "reportAttributeAccessIssue" in OFF.get(page, ""):
        lines.append('# mypy: disable-error-code="attr-defined"')
    return "".join(f"{line}\n" for line in lines)


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
        if texts:
            name = str(page.relative_to(ROOT)).removesuffix(".md").replace(os.sep, "_")
            (folder / f"page_{name}.py").write_text(
                settings_of(page.name) + "\n".join(texts), encoding="utf-8"
            )
    assert len(list(folder.glob("page_*.py"))) >= 8
    shutil.copy(Path(__file__).with_name("test_types_for_users.py"), folder)
    return folder


def test_mypy_takes_them(pages: Path) -> None:
    if find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict",
         "--follow-imports=silent", "--config-file=", "--cache-dir", str(pages / ".mypy"),
         *sorted(path.name for path in pages.glob("page_*.py"))],
        cwd=pages, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_takes_them(pages: Path) -> None:
    program = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("pyright is not installed")
    settings = {
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT)],
        "reportUnusedExpression": False,  # an example shows the value of an expression
    }
    (pages / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = subprocess.run(
        [program, "-p", str(pages), "--pythonpath", sys.executable], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
