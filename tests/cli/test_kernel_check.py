"""`gputensor kernel check`: tables, cases and statuses, on test files and the examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..cuda.support import requires_emulator

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "blur"
pytestmark = [requires_emulator, pytest.mark.emulator]

KERNEL = """extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""
SPEC = {
    "scale": {
        "sizes": {"n": [1, 33, 300]}, "grid": "(n + 255) // 256", "block": 256,
        "args": {"x": "float32[n]", "y": "float32[n]", "factor": "2.0", "n": "n"},
        "reference": "reference.py:scale",
    }
}  # fmt: skip
REFERENCE = "def scale(x, y, factor, n):\n    return {'y': x * x.dtype.type(factor)}\n"


def check(*arguments: object) -> tuple[int, str, str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "gputensor", "kernel", "check", *map(str, arguments)]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True)
    return answer.returncode, answer.stdout, answer.stderr


@pytest.fixture
def file(tmp_path):
    (tmp_path / "scale.cu").write_text(KERNEL)
    (tmp_path / "scale.check.json").write_text(json.dumps(SPEC))
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path / "scale.cu"


@pytest.mark.full
def test_a_json_spec(file):
    status, out, err = check("--no-compile", "--json", file)
    assert status == 0, err
    (record,) = json.loads(out)["kernels"]
    assert [(r["cases"], r["order"], r["checked"]) for r in record["runs"]] == [
        (3, order, checked)
        for checked in (True, False)
        for order in ("forward", "reversed", "random")
    ]


@pytest.mark.full
def test_an_edit_of_the_reference_counts_at_once(file):
    """The edit has the same size and happens within one second, so that Python would use the old
    bytecode."""
    reference = file.with_name("reference.py")
    moment = reference.stat().st_mtime
    assert check("--no-compile", file)[0] == 0
    reference.write_text(REFERENCE.replace("x * x.dtype", "x + x.dtype"))
    os.utime(reference, (moment, moment))
    assert check("--no-compile", file)[0] == 1


@pytest.mark.full
def test_the_first_failure_is_one_sentence(file):
    file.write_text(KERNEL.replace("i < n", "i <= n"))
    status, out, _ = check("--no-compile", file)
    assert status == 1
    assert (
        "FAILED  scale.cu:3: read 4 B past 'x' (block (0,0,0), thread (1,0,0), index 1 of 1) "
        "[order forward, every access checked]" in out
    )
    file.write_text(KERNEL.replace("factor * x", "factor + x"))
    status, out, _ = check("--no-compile", "--order", "random", file)
    assert (
        status == 1
        and "FAILED  scale: case 0: 'y'[0] is " in out
        and "1 of 1 elements differ" in out
    )


@pytest.mark.full
def test_bad_input(file, tmp_path):
    assert check(tmp_path / "gone.cu")[0] == 2
    (tmp_path / "scale.check.json").unlink()
    status, _, err = check("--no-compile", file)
    assert status == 2 and err.startswith(
        "gputensor kernel: scale.cu: no scale.check.py or .check.json beside it; write one, such as"
    )
    (tmp_path / "scale.check.py").write_text("def other(random):\n    pass\n")
    status, _, err = check("--no-compile", file)
    assert status == 2 and "no function has a kernel's name" in err
    (tmp_path / "scale.check.py").write_text("def scale(random):\n    return iter(())\n")
    status, out, _ = check("--no-compile", file)
    assert status == 1 and "gives no cases, so nothing was run" in out
    (tmp_path / "scale.check.py").write_text("def scale(random):\n    yield missing\n")
    status, _, err = check("--no-compile", file)
    assert status == 2 and "scale.check.py:2: NameError: name 'missing' is not defined" in err
    (tmp_path / "scale.check.py").unlink()
    (tmp_path / "scale.check.json").write_text('{"scale": {"grid": 1}}')
    status, _, err = check("--no-compile", file)
    assert status == 2 and "scale.check.json: scale: 'block' must be given" in err
    status, _, err = check()
    assert status == 2 and "FILE.cu (see gputensor kernel check --help)" in err


def test_the_file_to_begin_with_runs(file, tmp_path):
    """Without a file of cases, a template of it is printed, in which only the reference is
    missing."""
    (tmp_path / "scale.check.json").unlink()
    _, _, err = check("--no-compile", file)
    begun = err.partition("scale.check.py:\n")[2]
    assert begun.count("...") == 1
    (tmp_path / "scale.check.py").write_text(begun.replace("...", "x * np.float32(1)"))
    assert check("--no-compile", "--order", "forward", file)[0] == 0
    (tmp_path / "scale.check.py").write_text(begun.replace("...", "x * np.float32(2)"))
    assert check("--no-compile", "--order", "forward", file)[0] == 1


TEMPLATE = KERNEL.replace('extern "C" __global__', "template <typename T, int N = 4> __global__")
CASES = """
import numpy as np
KERNELS
def scale(random):
    x = random.random(33, np.float32)
    yield {"grid": 1, "block": 64, "args": (x, np.zeros_like(x), 2.0, 33), "expect": {"y": x * 2}}
"""
BY_TYPE = """
import numpy as np
options = ("-DWIDE=1",)
kernels = {"scale": ["scale<float>", "scale<double, 8>"]}
def scale(random, entry):
    x = random.random(33).astype("float64" if "double" in entry else "float32")
    yield {"grid": 1, "block": 64, "args": (x, np.zeros_like(x), 2.0, 33), "expect": {"y": x * 2}}
"""


@pytest.mark.full
def test_templates_are_checked_for_the_instances_that_the_file_names(file, tmp_path):
    (tmp_path / "scale.check.json").unlink()
    file.write_text(TEMPLATE)
    cases = tmp_path / "scale.check.py"
    cases.write_text(CASES.replace("KERNELS", ""))
    status, _, err = check("--no-compile", file)
    said = "scale is a template<typename T, int N = 4>; "
    said += 'kernels = {"scale": "scale<float, 4>"} in the file'
    assert status == 2 and said in err
    cases.write_text(CASES.replace("KERNELS", 'kernels = {"scale": "scale<float>"}'))
    assert check("--no-compile", "--order", "forward", file)[0] == 0
    cases.write_text(CASES.replace("KERNELS", 'kernels = {"other": "scale<float>"}'))
    status, _, err = check("--no-compile", file)
    assert status == 2 and "no function 'other' gives its cases" in err
    file.write_text(
        TEMPLATE.replace("const float*", "const T*")
        .replace("float* y", "T* y")
        .replace("float factor", "T factor")
    )
    cases.write_text(BY_TYPE)
    status, out, err = check("--no-compile", "--order", "forward", file)
    assert (
        status == 0 and "scale<float>: 1 launches" in out and "scale<double, 8>: 1 launches" in out
    ), err


def test_a_template_in_a_header_of_a_folder_that_options_name(file, tmp_path):
    (tmp_path / "scale.check.json").unlink()
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "scale.cuh").write_text(TEMPLATE)
    file.write_text("#include <scale.cuh>\n")
    options = f"options = ('-I{tmp_path / 'inc'}',)"
    (tmp_path / "scale.check.py").write_text(CASES.replace("KERNELS", options))
    status, _, err = check("--no-compile", file)
    assert status == 2 and "scale is a template<typename T, int N = 4>" in err, err


@pytest.mark.full
def test_a_template_to_begin_with(file, tmp_path):
    (tmp_path / "scale.check.json").unlink()
    file.write_text(TEMPLATE.replace("float* ", "T* "))
    begun = check("--no-compile", file)[2].partition("scale.check.py:\n")[2]
    assert 'kernels = {"scale": "scale<float, 4>"}' in begun
    (tmp_path / "scale.check.py").write_text(begun.replace("...", "x * np.float32(1)"))
    assert check("--no-compile", "--order", "forward", file)[0] == 0


def test_an_endless_kernel_ends_the_check(file, monkeypatch):
    file.write_text(
        KERNEL.replace("if (i < n)", "while (((volatile float*)x)[0] < 9) {}\n  if (i < n)")
    )
    monkeypatch.setenv("GPUTENSOR_EMULATOR_LIMIT", "0.2")
    status, out, err = check("--no-compile", file)
    assert status == 1 and "scale.cu:3: ran longer than its limit of 0.2 s" in out, out + err


@pytest.mark.full
def test_a_template_by_json(file, tmp_path):
    file.write_text(TEMPLATE)
    spec = {"scale": SPEC["scale"] | {"entry": "scale<float>"}}
    (tmp_path / "scale.check.json").write_text(json.dumps(spec))
    assert check("--no-compile", "--order", "forward", file)[0] == 0


@pytest.mark.full
def test_the_page_shows_cases_that_pass(tmp_path):
    page = (ROOT / "docs" / "extensions" / "kernels_without_a_gpu.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    cases = next(b for b in blocks if b.startswith("def axpy(random)"))
    (tmp_path / "axpy.check.py").write_text(f"import numpy as np\nimport gputensor as gt\n{cases}")
    (tmp_path / "axpy.cu").write_text(re.search(r'TEXT = r"""\n(.*?)"""', blocks[0], re.DOTALL)[1])
    status, out, err = check("--no-compile", tmp_path / "axpy.cu")
    assert status == 0 and "axpy: 72 launches equal to the reference, 72 more" in out, out + err


@pytest.mark.full
def test_registers_and_spills_without_a_gpu(file):
    status, out, err = check("--order", "forward", file)
    if status == 3:
        pytest.skip(err)
    lines = [line.split() for line in out.splitlines()]
    assert [line[1] for line in lines if line[:1] == ["scale"] and line[1].startswith("sm_")] == [
        "sm_75", "sm_80", "sm_86", "sm_90", "sm_120"
    ]  # fmt: skip
    status, out, _ = check("--max-registers", 1, file)
    assert status == 1 and "registers, more than 1" in out
    file.write_text(KERNEL.replace("factor *", "missing *"))
    status, out, _ = check(file)
    assert status == 1 and 'scale.cu(3): error: identifier "missing" is undefined' in out


@pytest.mark.full
def test_the_examples_pass_and_their_twins_do_not(tmp_path):
    names = sorted(path.stem for path in EXAMPLES.glob("*.cu"))
    assert names == ["blur", "histogram", "softmax", "warp_sum"]
    status, out, err = check("--no-compile", *(EXAMPLES / f"{name}.cu" for name in names))
    assert status == 0, out + err
    assert out.count(
        "600 launches equal to the reference, 600 more with every access checked"
    ) == len(names)
    for name in names:
        twin = tmp_path / f"{name}.cu"
        shutil.copy(EXAMPLES / "planted" / twin.name, twin)
        planted = next(
            n for n, line in enumerate(twin.read_text().splitlines(), 1) if "// planted" in line
        )
        for order in ("forward", "reversed", "random"):
            status, out, _ = check(
                "--no-compile", "--order", order, "--spec", EXAMPLES / f"{name}.check.py", twin
            )
            assert status == 1 and f"FAILED  {name}.cu:{planted}: " in out, out
