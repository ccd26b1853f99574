"""`where`, and the check that all loops of the YAML exist, on a small checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen import __main__ as command
from codegen import check_kernels, load, paths, where

YAML = """- func: erf(Tensor self) -> Tensor
  autogen: erf_
  variants: function, method
  family: unary
  dtypes: floating_real
  doc: Error function of each element.
- func: pick(Tensor self) -> Tensor
  dispatch:
    CPU: pick_cpu
  family: unary
  loop: pick
  doc: Something with rules of its own.
"""
FILES = {
    "native_functions.yaml": YAML,
    "gputensor/native/unary.py": "def functional(operator, loop): ...\n\ndef inplace(operator, "
    "loop): ...\n",
    "gputensor/kernels/cpu/unary.py": 'LOOPS = {\n    "erf": None,\n}\n',
    "gputensor/kernels/cuda/unary.cu": "namespace op {\nstruct erf {\n};\n}\n",
    "gputensor/_generated/families/unary.py": "op_erf = _define()\ndef erf(input): ...\n"
    "Tensor_erf = erf\n",
    "gputensor/registrations/_generated/unary.py": "def install():\n"
    '    bind(_operators.erf, native.functional, "erf", ErfBackward0)\n'
    "class ErfBackward0: ...\n",
    "docs/operators.md": "# Operators\n| `erf` | `gt.erf` |\n",
    "tests/rows/unary.py": 'ROWS = [\n    Row("erf"),\n]\n',
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> load.Model:
    read = load.loads(YAML)
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "YAML", tmp_path / "native_functions.yaml")
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "gputensor")
    return read


def test_where(model: load.Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert where.print_places(model, "erf") == 0
    assert capsys.readouterr().out == (
        "erf\n"
        "  public   gt.erf, Tensor.erf\n"
        "  schema   aten::erf(Tensor self) -> Tensor\n"
        "  yaml     native_functions.yaml:1\n"
        "  called   gputensor/_generated/families/unary.py:1 op_erf\n"
        "  called   gputensor/_generated/families/unary.py:2 erf\n"
        "  called   gputensor/_generated/families/unary.py:3 Tensor_erf\n"
        "  row      gputensor/registrations/_generated/unary.py:2 of registration\n"
        "  node     gputensor/registrations/_generated/unary.py:3 ErfBackward0\n"
        "  native   gputensor/native/unary.py:1 functional\n"
        "  cpu      gputensor/kernels/cpu/unary.py:2 erf\n"
        "  cuda     gputensor/kernels/cuda/unary.cu:2 erf\n"
        "  variants of f, by dtypes: floating_real\n"
        "  test     tests/rows/unary.py:2 erf\n"
        "  page     docs/operators.md:2\n"
    )


def test_where_of_another_namespace(capsys: pytest.CaptureFixture[str]) -> None:
    """Its native code is not in native/, and the names of its rows contain the namespace's
    operators."""
    assert where.print_places(load.load(), "_c10d_functional::all_reduce") == 0
    said = capsys.readouterr().out
    for part in (
        "  called   gputensor/_generated/families/collective.py:",
        "  row      gputensor/registrations/_generated/collective.py:",
        "  node     gputensor/registrations/_generated/collective.py:",
        "  native   gputensor/distributed/operators.py:",
    ):
        assert part in said


def test_where_takes_every_spelling(model: load.Model) -> None:
    assert [where.print_places(model, name) for name in ("erf_", "aten::erf", "pick")] == [0, 0, 0]


def test_where_suggests(model: load.Model, capsys: pytest.CaptureFixture[str]) -> None:
    assert where.print_places(model, "erv") == 2
    assert capsys.readouterr().err == (
        "where: 'operator' must be in native_functions.yaml (got 'erv'); did you mean erf\n"
    )


def test_what_is_promised_and_missing(model: load.Model) -> None:
    assert [str(item) for item in check_kernels.missing(model)] == [
        "native_functions.yaml:7: pick: must have 'def pick_cpu' in gputensor/native/unary.py",
        "native_functions.yaml:7: pick: must have a loop 'pick' in gputensor/kernels/cpu/unary.py",
        "native_functions.yaml:7: pick: must have 'struct pick' or a kernel 'pick' in "
        "gputensor/kernels/cuda/unary.cu",
    ]


def test_a_missing_file_is_said(tmp_path: Path, model: load.Model) -> None:
    (tmp_path / "gputensor/kernels/cuda/unary.cu").unlink()
    check_kernels.cuda_names.cache_clear()
    assert "unary.cu (no such file)" in str(check_kernels.missing(model)[0])


def test_the_operator_s_own_function_is_bound_before_the_family_s() -> None:
    assert check_kernels.python_names(paths.native("no_such_family")) == {}
    assert not check_kernels.defines("no_such_family", "erf")


def test_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["where", "add"]) == 0
    assert command.main(["where", "no_such_operator"]) == 2
    capsys.readouterr()
