"""Calls that reduce, normalise, accumulate or sort rows: reductions, softmax, cumulative sums,
sort."""

from __future__ import annotations

from .calls import K, K100, M4, Call, Group, Operand, ascending, floats, integers, masks

_MATRIX = (4096, 1024)
_IMAGES = (32, 64, 56, 56)

_REDUCTIONS = (
    Call("sum of everything", "x.sum()", "x.sum()"),
    Call("sum of rows", "x.sum(1)", "x.sum(1)"),
    Call("sum of columns", "x.sum(0)", "x.sum(0)"),
    Call("mean of everything", "x.mean()", "x.mean()"),
    Call("mean of rows", "x.mean(1)", "x.mean(1)"),
    Call("mean of columns", "x.mean(0)", "x.mean(0)"),
    Call("max of everything", "x.max()", "x.max()"),
    Call("max of rows", "x.max(1)", agree="r[0]"),
    Call("min of columns", "x.min(0)", agree="r[0]"),
    Call("amax of rows", "x.amax(1)", "x.max(1)"),
    Call("amax of columns", "x.amax(0)", "x.max(0)"),
    Call("aminmax", "torch.aminmax(x)"),
    Call("argmax of everything", "x.argmax()", "x.argmax()", agree="x.flatten()[r]"),
    Call("argmax of rows", "x.argmax(1)", "x.argmax(1)", agree="x.gather(1, r[:, None])"),
    Call("argmin of columns", "x.argmin(0)", "x.argmin(0)", agree="x.gather(0, r[None])"),
    Call("prod of rows", "one.prod(1)", "one.prod(1)", rtol=1e-3),
    Call("var of everything", "x.var()", "x.var(ddof=1)"),
    Call("var of rows", "x.var(1)", "x.var(1, ddof=1)"),
    Call("std of columns", "x.std(0)", "x.std(0, ddof=1)"),
    Call("norm of everything", "x.norm()", "np.linalg.norm(x)"),
    Call("norm of rows", "torch.linalg.vector_norm(x, dim=1)", "np.linalg.norm(x, axis=1)"),
    Call("logsumexp of rows", "torch.logsumexp(x, 1)", "scipy.special.logsumexp(x, 1)"),
    Call("count_nonzero", "torch.count_nonzero(m)", "np.count_nonzero(m)"),
    Call("any of everything", "none.any()", "none.any()"),
    Call("all of rows", "m.all(1)", "m.all(1)"),
    Call("any of columns", "none.any(0)", "none.any(0)"),
)
_OF_IMAGES = (
    Call("mean of pixels", "x.mean((2, 3))", "x.mean((2, 3))"),
    Call("sum of channels", "x.sum((0, 2, 3))", "x.sum((0, 2, 3))"),
    Call("amax of pixels", "x.amax((2, 3))", "x.max((2, 3))"),
    Call("var_mean of channels", "torch.var_mean(x, (0, 2, 3))"),
    Call("sum over channels", "x.sum(1)", "x.sum(1)"),
)
_FEW = (
    Call("sum", "x.sum()", "x.sum()"),
    Call("sum of rows", "x.sum(1)", "x.sum(1)"),
    Call("max", "x.max()", "x.max()"),
)
_FEW_FLOATS = (*_FEW, Call("mean", "x.mean()", "x.mean()"))
_HALVES = (
    Call("sum", "x.sum()"),
    Call("mean of rows", "x.mean(1)"),
    Call("max", "x.max()"),
)

_SOFTMAX = (
    Call("softmax of rows", "torch.softmax(x, 1)", "scipy.special.softmax(x, 1)"),
    Call("log_softmax of rows", "F.log_softmax(x, 1)", "scipy.special.log_softmax(x, 1)"),
    Call("softmax of columns", "torch.softmax(x, 0)", "scipy.special.softmax(x, 0)"),
    Call("softmax of scores", "torch.softmax(scores, -1)", "scipy.special.softmax(scores, -1)"),
    Call("softmax of a vocabulary", "torch.softmax(words, -1)", "scipy.special.softmax(words, -1)"),
    Call("log_softmax of a vocabulary", "F.log_softmax(words, -1)"),
    Call("softmax of classes", "torch.softmax(few, 1)", "scipy.special.softmax(few, 1)"),
    Call("log_softmax of pixels", "F.log_softmax(pixels, 1)"),
)

_SCANS = (
    Call("cumsum of everything", "flat.cumsum(0)", "flat.cumsum()", rtol=1e-3),
    Call("cumsum of rows", "x.cumsum(1)", "x.cumsum(1)"),
    Call("cumsum of columns", "x.cumsum(0)", "x.cumsum(0)"),
    Call("cumprod of rows", "one.cumprod(1)", "one.cumprod(1)"),
    Call("cummax of rows", "x.cummax(1)", agree="r[0]"),
    Call("cummin of columns", "x.cummin(0)", agree="r[0]"),
    Call("logcumsumexp of rows", "x.logcumsumexp(1)", "np.logaddexp.accumulate(x, 1)"),
    Call("cumsum of integers", "i.cumsum(0)", "i.cumsum()"),
    Call("cumsum, 1 k", "small.cumsum(0)", "small.cumsum()"),
    Call("diff of rows", "x.diff()", "np.diff(x)"),
)

_SORTS = (
    Call("sort, 100 k", "x.sort()", agree="r[0]"),
    Call("sort of integers, 100 k", "i.sort()", agree="r[0]"),
    Call("sort of rows", "rows.sort(1)", agree="r[0]"),
    Call("argsort, 100 k", "x.argsort()", "x.argsort()", agree="x[r]"),
    Call("msort", "torch.msort(rows)", "np.sort(rows, 0)"),
    Call("topk of everything", "x.topk(10)", agree="r[0]"),
    Call("topk of rows", "rows.topk(10)", agree="r[0]"),
    Call("topk of a vocabulary", "words.topk(16)", agree="r[0]"),
    Call("kthvalue of rows", "rows.kthvalue(10)", agree="r[0]"),
    Call("median of rows", "rows.median(1)", agree="r[0]"),
    Call("quantile", "torch.quantile(x, 0.9)", "np.quantile(x, 0.9)"),
    Call("unique of integers", "torch.unique(i)", "np.unique(i)"),
    Call("unique of floats", "torch.unique(x)", "np.unique(x)"),
    Call("unique with counts", "torch.unique(i, return_counts=True)",
         "np.unique(i, return_counts=True)"),
    Call("searchsorted", "torch.searchsorted(edges, x)", "np.searchsorted(edges, x)"),
    Call("bucketize", "torch.bucketize(x, edges)", "np.searchsorted(edges, x)"),
    Call("isin", "torch.isin(i, few)", "np.isin(i, few)"),
    Call("histc", "torch.histc(x, 100, -3.0, 3.0)", agree="r.sum()"),
)  # fmt: skip


def groups() -> list[Group]:
    return [*_reductions(), _softmax(), _scans(), _sorts()]


def _reductions() -> list[Group]:
    def few(*of: Operand) -> list[dict[str, Operand]]:
        return [{"x": x} for x in of]

    matrix = {
        "x": floats(*_MATRIX), "one": floats(*_MATRIX, low=0.99, high=1.01),
        "m": masks(*_MATRIX), "none": masks(*_MATRIX, share=0.0),
    }  # fmt: skip
    f64, i64, f16, small = few(
        floats(*_MATRIX, dtype="float64"), integers(*_MATRIX, below=1000),
        floats(*_MATRIX, dtype="float16", low=0.0, high=0.01), floats(16, K // 16),
    )  # fmt: skip
    return [
        Group("reductions", matrix, _REDUCTIONS),
        Group("reductions", {"x": floats(*_IMAGES)}, _OF_IMAGES),
        Group("reductions", f64, _FEW_FLOATS, "f64"),
        Group("reductions", i64, _FEW, "i64"),
        Group("reductions", f16, _HALVES, "f16"),
        Group("reductions", small, _FEW_FLOATS, "1 k"),
    ]


def _softmax() -> Group:
    given = {
        "x": floats(*_MATRIX), "scores": floats(8, 8, 256, 256), "words": floats(64, 32_000),
        "few": floats(64, 10), "pixels": floats(8, 21, 128, 128),
    }  # fmt: skip
    return Group("softmax, log_softmax", given, _SOFTMAX)


def _scans() -> Group:
    given = {
        "x": floats(1024, 1024), "one": floats(1024, 1024, low=0.99, high=1.01), "flat": floats(M4),
        "i": integers(1 << 20, below=1000), "small": floats(K),
    }  # fmt: skip
    return Group("scans", given, _SCANS)


def _sorts() -> Group:
    given = {
        "x": floats(K100), "i": integers(K100, below=5000), "rows": floats(1024, 256),
        "words": floats(64, 32_000), "edges": ascending(1000), "few": integers(100, below=5000),
    }  # fmt: skip
    return Group("sort, topk, unique", given, _SORTS)
