"""What codegen makes of the field `autocast`: each policy's kernel, its keys, the page."""

from __future__ import annotations

import textwrap

from codegen import emit_autocast, emit_page, load

YAML = """
- func: mm(Tensor self, Tensor mat2) -> Tensor
  family: matmul
  autocast: lower_precision_fp
  doc: Product.

- func: prod(Tensor self, *, ScalarType? dtype=None) -> Tensor
  autogen: prod.out
  family: reduce
  autocast: {CPU: fp32, CUDA: fp32_set_opt_dtype}
  doc: Product of all.

- func: norm(Tensor self, Scalar p=2) -> Tensor
  family: reduce
  autocast: {CUDA: fp32_append_dtype}
  doc: Norm.

- func: norm.dtype(Tensor self, Scalar p, ScalarType dtype) -> Tensor
  family: reduce
  doc: Norm in a dtype.

- func: bilinear(Tensor[] tensors, Tensor? bias=None) -> Tensor
  family: join
  autocast: {CUDA: promote}
  doc: Joined.

- func: atan2(Tensor self, Tensor other) -> Tensor
  family: binary
  numbers: other
  autocast: {CUDA: promote}
  doc: Angle.
"""


def model() -> load.Model:
    return load.loads(YAML.lstrip("\n"))


def kernel(name: str) -> str:
    """The lines of one kernel between `try:`, where the state is set, and `finally:`."""
    text = emit_autocast.autocast(model())
    body = text.split(f"def {name}(")[1].split("    try:\n")[1].split("    finally:")[0]
    body = body.partition("\n")[2]
    return textwrap.dedent(body).rstrip()


def test_where_kernels_are_registered() -> None:
    found = [(op.name, name, keys) for op, name, keys in emit_autocast.registered(model())]
    assert found == [
        ("mm", "mm", "AutocastCPU, AutocastCUDA"),
        ("prod", "prod_fp32", "AutocastCPU"),
        ("prod", "prod_fp32_set_opt_dtype", "AutocastCUDA"),
        ("norm", "norm", "AutocastCUDA"),
        ("bilinear", "bilinear", "AutocastCUDA"),
        ("atan2", "atan2", "AutocastCUDA"),
    ]


def test_forms_have_no_policy_of_their_own() -> None:
    assert [op.name for op in model().ops if op.autocast] == [
        "mm",
        "prod",
        "norm",
        "bilinear",
        "atan2",
    ]


def test_each_policy_has_its_lines() -> None:
    assert kernel("mm").splitlines() == [
        "to = device.dtype.get()",
        "self = _cast(self, to, device)",
        "mat2 = _cast(mat2, to, device)",
        "return _calls.mm(self, mat2)",
    ]
    assert kernel("prod_fp32").splitlines() == [
        "to = _float32", "self = _cast(self, to, device)", "return _calls.prod(self, dtype)",
    ]  # fmt: skip
    assert kernel("prod_fp32_set_opt_dtype").splitlines() == [
        "if dtype is None and _is_eligible(self, device):",
        "    dtype = _float32",
        "return _calls.prod(self, dtype)",
    ]
    assert "_calls.norm_dtype(" in kernel("norm")
    assert "_float32 if _is_eligible(self, device) else self.dtype" in kernel("norm")
    assert kernel("bilinear").splitlines() == [
        "to = _widest(device, *tensors, bias)",
        "tensors = _cast_list(tensors, to, device)",
        "bias = _cast_any(bias, to, device)",
        "return _calls.bilinear(tensors, bias)",
    ]
    assert "other = _cast_any(other, to, device)" in kernel("atan2")  # it may be a number


def test_the_module_compiles_and_the_page_tells() -> None:
    compile(emit_autocast.autocast(model()), "autocast.py", "exec")
    rows = {
        line.split("`")[1]: line
        for line in emit_page.page(model()).splitlines()
        if line.startswith("| `")
    }
    assert "| `lower_precision_fp` |" in rows["mm"]
    assert "| CPU: `fp32`, CUDA: `fp32_set_opt_dtype` |" in rows["prod"]
