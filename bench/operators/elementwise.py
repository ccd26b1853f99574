"""Pointwise calls: arithmetic, functions, 16-bit floats, casts, integers, broadcasts."""

from __future__ import annotations

from .calls import K, K100, M4, Call, Group, Operand, floats, integers, masks, positive

_SIZES = ((K, "1 k"), (K100, "100 k"), (M4, "4 M"))

_POINTWISE = (
    Call("add", "x + y", "x + y"),
    Call("add alpha", "torch.add(x, y, alpha=0.5)", "x + np.float32(0.5) * y"),
    Call("add_ alpha", "x.add_(y, alpha=1e-6)"),
    Call("mul", "x * y", "x * y"),
    Call("mul number", "x * 2.0", "x * np.float32(2)"),
    Call("div", "x / p", "x / p"),
    Call("neg", "-x", "-x"),
    Call("abs", "x.abs()", "np.abs(x)"),
    Call("maximum", "torch.maximum(x, y)", "np.maximum(x, y)"),
    Call("clamp", "x.clamp(-0.5, 0.5)", "np.clip(x, -0.5, 0.5)"),
    Call("where", "torch.where(m, x, y)", "np.where(m, x, y)"),
    Call("greater", "x > y", "x > y"),
    Call("relu", "F.relu(x)", "np.maximum(x, 0)"),
    Call("exp", "x.exp()", "np.exp(x)"),
    Call("log", "p.log()", "np.log(p)"),
    Call("sqrt", "p.sqrt()", "np.sqrt(p)"),
    Call("rsqrt", "p.rsqrt()", "1 / np.sqrt(p)"),
    Call("sin", "x.sin()", "np.sin(x)"),
    Call("tanh", "x.tanh()", "np.tanh(x)"),
    Call("sigmoid", "x.sigmoid()", "scipy.special.expit(x)"),
    Call("erf", "x.erf()", "scipy.special.erf(x)"),
    Call("gelu", "F.gelu(x)"),
    Call("gelu tanh", "F.gelu(x, approximate='tanh')"),
    Call("silu", "F.silu(x)", "x * scipy.special.expit(x)"),
    Call("softplus", "F.softplus(x)", "np.logaddexp(x, 0)"),
    Call("pow 3", "x ** 3", "x ** 3"),
    Call("pow 2.5", "p ** 2.5", "p ** np.float32(2.5)"),
    Call("atan2", "torch.atan2(x, y)", "np.arctan2(x, y)"),
    Call("lerp", "torch.lerp(x, y, 0.3)", "x + np.float32(0.3) * (y - x)"),
    Call("addcmul", "torch.addcmul(x, y, p, value=0.5)", "x + np.float32(0.5) * y * p"),
)

# not compared with NumPy, which is slow for f16 and lacks bf16
_HALF = (
    Call("add", "x + y"),
    Call("exp", "x.exp()"),
    Call("sum", "x.sum()"),
)
_HALF_LARGE = (
    *_HALF,
    Call("mul", "x * y"),
    Call("relu", "F.relu(x)"),
    Call("gelu", "F.gelu(x)"),
    Call("sigmoid", "x.sigmoid()"),
    Call("greater", "x > y"),
    Call("where", "torch.where(m, x, y)"),
    Call("mean of rows", "x.mean(1)"),
    Call("amax of rows", "x.amax(1)"),
    Call("softmax of rows", "torch.softmax(x, 1)"),
    Call("layer_norm", "F.layer_norm(x, x.shape[1:], w, b)"),
)

# source dtype -> target dtypes
_CASTS = {
    "float32": ("float16", "bfloat16", "float64", "int64", "int32", "uint8", "bool", "complex64"),
    "float16": ("float32", "bfloat16", "int64"),
    "bfloat16": ("float32", "float16"),
    "float64": ("float32", "int64"),
    "int64": ("float32", "float64", "int32", "bool"),
    "int32": ("float32", "int64"),
    "uint8": ("float32", "float16", "bfloat16", "int64"),
    "bool": ("float32", "int64", "uint8"),
}
_SHORT = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int64": "i64",
    "int32": "i32", "uint8": "u8", "bool": "bool", "complex64": "c64",
}  # fmt: skip

_INTEGERS = (
    Call("add", "i + j", "i + j"),
    Call("mul", "i * j", "i * j"),
    Call("floor divide", "i // j", "i // j"),
    Call("remainder", "i % j", "i % j"),
    Call("maximum", "torch.maximum(i, j)", "np.maximum(i, j)"),
    Call("and", "i & j", "i & j"),
    Call("shift", "i << 3", "i << 3"),
    Call("equal", "i == j", "i == j"),
    Call("abs", "i.abs()", "np.abs(i)"),
)
_SMALL_INTEGERS = (
    Call("add", "i + j", "i + j"),
    Call("mul", "i * j", "i * j"),
    Call("less", "i < j", "i < j"),
)
_BOOLEANS = (
    Call("and", "m & n", "m & n"),
    Call("not", "~m", "~m"),
)

_BROADCASTS = (
    Call("row", "x + row", "x + row"),
    Call("column", "x * column", "x * column"),
    Call("column and row", "column + row", "column + row"),
    Call("scalar tensor", "x * s", "x * s"),
    Call("standardise", "(x - column) / row", "(x - column) / row"),
    Call("bias of channels", "image + bias", "image + bias"),
    Call("scale and bias of channels", "image * scale + bias", "image * scale + bias"),
    Call("mask of attention", "scores.masked_fill(hidden, -1e9)",
         "np.where(hidden, np.float32(-1e9), scores)"),
    Call("maximum with a row", "torch.maximum(x, row)", "np.maximum(x, row)"),
)  # fmt: skip


def groups() -> list[Group]:
    return [*_pointwise(), *_half(), *_casts(), *_whole_numbers(), _broadcasts()]


def _pointwise() -> list[Group]:
    return [
        Group(
            f"pointwise, {label}",
            {"x": floats(n), "y": floats(n), "p": positive(n), "m": masks(n)},
            _POINTWISE,
            label,
        )
        for n, label in _SIZES
    ]


def _half() -> list[Group]:
    found = []
    for dtype in ("float16", "bfloat16"):
        for n, label in _SIZES[:2]:
            given = {"x": floats(n, dtype=dtype), "y": floats(n, dtype=dtype)}
            found.append(Group("f16 and bf16", given, _HALF, f"{_SHORT[dtype]} {label}"))
        rows = (4096, 1024)
        given = {
            "x": floats(*rows, dtype=dtype),
            "y": floats(*rows, dtype=dtype),
            "w": floats(1024, dtype=dtype),
            "b": floats(1024, dtype=dtype),
            "m": masks(*rows),
        }
        found.append(Group("f16 and bf16", given, _HALF_LARGE, f"{_SHORT[dtype]} 4 M"))
    return found


def _casts() -> list[Group]:
    found = []
    for source, results in _CASTS.items():
        calls = tuple(
            Call(
                f"{_SHORT[source]} to {_SHORT[result]}",
                f"x.to(torch.{result})",
                "" if "bfloat16" in (source, result) else f"x.astype(np.{result})",
            )
            for result in results
        )
        found.append(Group("casts", {"x": _castable(M4, source)}, calls, "4 M"))
    few = (
        Call("f32 to f16", "x.half()", "x.astype(np.float16)"),
        Call("f32 to bf16", "x.bfloat16()"),
        Call("f32 to i64", "x.long()", "x.astype(np.int64)"),
    )
    return [*found, Group("casts", {"x": _castable(K100, "float32")}, few, "100 k")]


def _castable(n: int, dtype: str) -> Operand:
    """Return elements from 0 to 100, which every dtype can represent."""
    if dtype == "bool":
        return masks(n)
    if dtype.startswith(("int", "uint")):
        return integers(n, below=100, dtype=dtype)
    return floats(n, dtype=dtype, low=0.0, high=100.0)


def _whole_numbers() -> list[Group]:
    def pair(n: int, dtype: str = "int64") -> dict[str, Operand]:
        below = 15 if dtype == "uint8" else 1000
        return {name: integers(n, low=1, below=below, dtype=dtype) for name in ("i", "j")}

    return [
        Group("integers", pair(1 << 20), _INTEGERS, "i64 1 M"),
        Group("integers", pair(K), _INTEGERS[:2], "i64 1 k"),
        Group("integers", pair(1 << 20, "int32"), _SMALL_INTEGERS, "i32 1 M"),
        Group("integers", pair(1 << 20, "uint8"), _SMALL_INTEGERS, "u8 1 M"),
        Group("integers", {"m": masks(M4), "n": masks(M4)}, _BOOLEANS, "bool 4 M"),
    ]


def _broadcasts() -> Group:
    given = {
        "x": floats(4096, 1024), "row": positive(1024), "column": floats(4096, 1), "s": floats(),
        "image": floats(16, 64, 56, 56), "bias": floats(1, 64, 1, 1), "scale": floats(1, 64, 1, 1),
        "scores": floats(8, 8, 256, 256), "hidden": masks(1, 1, 256, 256),
    }  # fmt: skip
    return Group("broadcasts", given, _BROADCASTS)
