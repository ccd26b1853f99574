"""native_functions.yaml is the only list of operators: the package has no other.

A list is a tuple, list, set or dict with names of two or more operators. The file of a family,
`native/reduce.py` or `kernels/cuda/reduce_launch.py`, may name operators of the family.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest


from gputensor.core._generated.index import OPERATORS

ROOT = Path(__file__).parents[2]
ROOMS = (
    "codegen", "gputensor/native", "gputensor/structured", "gputensor/kernels",
    "gputensor/fallbacks", "gputensor/makers",
)  # fmt: skip
FILES = sorted(
    path for room in ROOMS for path in (ROOT / room).rglob("*.py")
    if "_generated" not in path.parts
)  # fmt: skip
# Lists of operators of the binary family in files that the pointwise families share, with the
# reasons.
KNOWN = {
    "gputensor/native/binary.py": {"floor", "trunc"},  # how a quotient is rounded
    "gputensor/kernels/cuda/pointwise_launch.py": {"add", "sub"},  # one kernel serves both alphas
    "gputensor/native/complex_view.py": {"abs", "angle"},  # polar's arguments
    "gputensor/native/segment.py": {"sum", "mean", "prod", "max", "min"},  # segment_reduce's words
    "gputensor/kernels/cuda/prebuilt.py": {"add", "sub", "mul", "div"},  # kernels shipped compiled
}

FAMILIES: dict[str, set[str]] = {}
for name, family in OPERATORS.items():
    for spelled in (name, name.partition(".")[0], name.partition(".")[0].removesuffix("_")):
        FAMILIES.setdefault(spelled, set()).add(family)
for family in {*OPERATORS.values()}:
    FAMILIES.pop(family, None)  # tables by family are allowed


def lists(text: str, stem: str = "") -> Iterator[set[str]]:
    """Return the operators in a list that do not belong to this file's family."""
    for node in ast.walk(ast.parse(text)):
        items: list[ast.expr] = []
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            items = node.elts
        elif isinstance(node, ast.Dict):
            items = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "split" and isinstance(node.func.value, ast.Constant):
                items = [ast.Constant(word) for word in str(node.func.value.value).split()]
        words = [str(x.value).removeprefix("aten::") for x in items if isinstance(x, ast.Constant)]
        found = {
            word for word in words
            if word in FAMILIES
            and not any(stem == f or stem.startswith(f"{f}_") for f in FAMILIES[word])
        }  # fmt: skip
        if len(found) > 1:
            yield found


@pytest.mark.full
def test_no_file_lists_operators() -> None:
    assert len(FILES) > 100
    for path in FILES:
        name = path.relative_to(ROOT).as_posix()
        for found in lists(path.read_text(encoding="utf-8"), path.stem):
            assert found <= KNOWN.get(name, set()), f"{name} lists {', '.join(sorted(found))}"


def test_what_is_known_is_there() -> None:
    for name, wanted in KNOWN.items():
        listed = list(lists((ROOT / name).read_text(encoding="utf-8")))
        assert wanted in listed, name


def test_a_list_is_seen() -> None:
    assert list(lists('_NEED = frozenset(("resize_", "set_"))')) == [{"resize_", "set_"}]
    assert list(lists('{"div.Tensor_mode": 1, "fill_.Scalar": 2}')) == [
        {"div.Tensor_mode", "fill_.Scalar"}
    ]
    assert list(lists('"amax amin".split()')) == [{"amax", "amin"}]
    assert list(lists('["amax", "amin"]', "reduce_launch")) == []
    assert list(lists('["neg", "self", "out"]')) == []
