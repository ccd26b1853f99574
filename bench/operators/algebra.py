"""Calls of linear algebra: matrix products, LAPACK, Fourier transforms."""

from __future__ import annotations

from .calls import Call, Group, M4, definite, floats, invertible

_PRODUCTS = (
    Call("matmul 64", "a64 @ b64", "a64 @ b64"),
    Call("matmul 256", "a256 @ b256", "a256 @ b256"),
    Call("matmul 1024", "a @ b", "a @ b"),
    Call("matmul of a transpose", "a @ b.t()", "a @ b.T"),
    Call("matmul f64 512", "d @ d", "d @ d"),
    Call("matmul f16 512", "h @ h"),
    Call("matmul bf16 512", "l @ l"),
    Call("matrix by vector", "a @ v", "a @ v"),
    Call("addmm", "torch.addmm(b256, a256, b256)", "b256 + a256 @ b256"),
    Call("bmm", "torch.bmm(many, more)", "many @ more"),
    Call("bmm of small ones", "tiny @ tiny", "tiny @ tiny"),
    Call("scores of attention", "q @ k.transpose(-2, -1)", "q @ k.swapaxes(-2, -1)"),
    Call("linear of pixels", "F.linear(pixels, w, bias)", "pixels @ w.T + bias"),
    Call("linear of tokens", "F.linear(tokens, wide)", "tokens @ wide.T"),
    Call("linear of one sample", "F.linear(one, w, bias)", "one @ w.T + bias"),
    Call("einsum", "torch.einsum('bhqd,bhkd->bhqk', q, k)",
         "np.einsum('bhqd,bhkd->bhqk', q, k, optimize=True)"),
    Call("dot", "torch.dot(long, long)", "np.dot(long, long)"),
    Call("outer", "torch.outer(v, v)", "np.outer(v, v)"),
    Call("cdist", "torch.cdist(points, others)", "scipy.spatial.distance.cdist(points, others)"),
)  # fmt: skip

# The signs of vectors and factors are not determined, so these calls compare only values.
_LINALG = (
    Call("inv 256", "torch.linalg.inv(a)", "np.linalg.inv(a)"),
    Call("inv of a batch", "torch.linalg.inv(batch)", "np.linalg.inv(batch)"),
    Call("solve 256", "torch.linalg.solve(a, b)", "np.linalg.solve(a, b)"),
    Call("solve of a batch", "torch.linalg.solve(batch, batch)", "np.linalg.solve(batch, batch)"),
    Call("det of a batch", "torch.linalg.det(batch)", "np.linalg.det(batch)", rtol=1e-3),
    Call("slogdet of a batch", "torch.linalg.slogdet(batch)", "np.linalg.slogdet(batch)"),
    Call("cholesky 256", "torch.linalg.cholesky(p)", "np.linalg.cholesky(p)"),
    Call("cholesky of a batch", "torch.linalg.cholesky(small)", "np.linalg.cholesky(small)"),
    Call("lu_factor 256", "torch.linalg.lu_factor(a)", agree="r[0]"),
    Call("qr 256", "torch.linalg.qr(a)", "np.linalg.qr(a)", agree="r[0] @ r[1]", rtol=1e-3),
    Call("svd 128", "torch.linalg.svd(b)", "np.linalg.svd(b)", agree="r[1]", rtol=1e-3),
    Call("svdvals 128", "torch.linalg.svdvals(b)", "np.linalg.svd(b, compute_uv=False)", rtol=1e-3),
    Call("eigh 256", "torch.linalg.eigh(p)", "np.linalg.eigh(p)", agree="r[0]", rtol=1e-3),
    Call("lstsq", "torch.linalg.lstsq(tall, b).solution", "np.linalg.lstsq(tall, b)[0]", rtol=1e-2),
    Call("matrix_exp of a batch", "torch.linalg.matrix_exp(small)", rtol=1e-3),
)

_FFT = (
    Call("fft", "torch.fft.fft(z)", "scipy.fft.fft(z, workers=2)"),
    Call("ifft", "torch.fft.ifft(z)", "scipy.fft.ifft(z, workers=2)"),
    Call("rfft", "torch.fft.rfft(x)", "scipy.fft.rfft(x, workers=2)"),
    Call("fft2", "torch.fft.fft2(planes)", "scipy.fft.fft2(planes, workers=2)"),
    Call("rfft2", "torch.fft.rfft2(images)", "scipy.fft.rfft2(images, workers=2)"),
    Call("fft of 1 k", "torch.fft.fft(short)", "scipy.fft.fft(short)"),
)


def groups() -> list[Group]:
    products = {
        "a64": floats(64, 64), "b64": floats(64, 64), "a256": floats(256, 256),
        "b256": floats(256, 256), "a": floats(1024, 1024), "b": floats(1024, 1024),
        "d": floats(512, 512, dtype="float64"), "h": floats(512, 512, dtype="float16"),
        "l": floats(512, 512, dtype="bfloat16"), "v": floats(1024), "many": floats(64, 128, 64),
        "more": floats(64, 64, 128), "tiny": floats(4096, 4, 4), "q": floats(8, 8, 256, 64),
        "k": floats(8, 8, 256, 64), "pixels": floats(128, 784), "w": floats(512, 784),
        "bias": floats(512), "tokens": floats(2048, 512), "wide": floats(2048, 512),
        "one": floats(1, 784), "long": floats(M4), "points": floats(1000, 64),
        "others": floats(1000, 64),
    }  # fmt: skip
    linalg = {
        "a": invertible(256, 256), "batch": invertible(512, 8, 8), "p": definite(256, 256),
        "small": definite(512, 8, 8), "b": floats(256, 128), "tall": floats(256, 16),
    }  # fmt: skip
    fft = {
        "z": floats(64, 4096, dtype="complex64"), "x": floats(64, 4096),
        "planes": floats(8, 256, 256, dtype="complex64"), "images": floats(8, 256, 256),
        "short": floats(1024, dtype="complex64"),
    }  # fmt: skip
    return [
        Group("matmul, bmm, cdist", products, _PRODUCTS),
        Group("linalg", linalg, _LINALG),
        Group("fft", fft, _FFT),
    ]
