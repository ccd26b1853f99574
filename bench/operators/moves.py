"""Calls that move or create elements: indexing, cat and pad, random numbers."""

from __future__ import annotations

from .calls import K, M4, Call, Group, floats, integers, masks, number, permutation

_INDEXING = (
    Call("embedding", "F.embedding(tokens, table)", "table[tokens]"),
    Call("index_select of rows", "table.index_select(0, i)", "table[i]"),
    Call("rows by index", "table[i]", "table[i]"),
    Call("columns by index", "x[:, j]", "x[:, j]"),
    Call("elements by two indices", "x[row, j]", "x[row, j]"),
    Call("take", "x.take(flat)", "x.take(flat)"),
    Call("gather of rows", "x.gather(1, near)", "np.take_along_axis(x, near, 1)"),
    Call("gather of one class", "x.gather(1, one)", "np.take_along_axis(x, one, 1)"),
    Call("scatter", "x.scatter(1, one, 0.0)"),
    Call("scatter_add of rows", "x.scatter_add(1, near, v)"),
    Call("scatter_reduce amax", "x.scatter_reduce(1, near, v, 'amax')"),
    Call("index_add of rows", "table.index_add(0, i, new)"),
    Call("index_copy of rows", "table.index_copy(0, unlike, new)"),
    Call("index_put", "x.index_put((row, j), w)"),
    Call("index_put accumulate", "x.index_put((row, j), w, accumulate=True)"),
    Call(
        "assignment of rows",
        "table.__setitem__(i, 0.5)",
        "table.__setitem__(i, 0.5)",
        agree="table",
    ),
    Call("masked_select", "x[m]", "x[m]"),
    Call("masked_fill", "x.masked_fill(m, 0.0)", "np.where(m, np.float32(0), x)"),
    Call("assignment by mask", "x.__setitem__(m, 0.5)", "x.__setitem__(m, 0.5)", agree="x"),
    Call("nonzero", "m.nonzero()", "np.argwhere(m)"),
    Call("one_hot", "F.one_hot(classes, 100)", "np.eye(100, dtype=np.int64)[classes]"),
    Call("bincount", "torch.bincount(flat)", "np.bincount(flat)"),
    Call("embedding_bag", "F.embedding_bag(tokens, table)"),
    Call("every second column", "x[:, ::2].contiguous()", "np.ascontiguousarray(x[:, ::2])"),
)  # fmt: skip

_JOINS = (
    Call("cat of rows", "torch.cat([x, y])", "np.concatenate([x, y])"),
    Call("cat of columns", "torch.cat([x, y], 1)", "np.concatenate([x, y], 1)"),
    Call("cat of channels", "torch.cat([image, image], 1)", "np.concatenate([image, image], 1)"),
    Call("stack", "torch.stack([x, y])", "np.stack([x, y])"),
    Call("stack of scalars", "torch.stack([s, s, s, s])", "np.stack([s, s, s, s])"),
    Call("pad", "F.pad(image, (1, 1, 1, 1))", "np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))"),
    Call("pad reflect", "F.pad(image, (1, 1, 1, 1), 'reflect')",
         "np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), 'reflect')"),
    Call("pad replicate", "F.pad(image, (1, 1, 1, 1), 'replicate')",
         "np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)), 'edge')"),
    Call("flip of columns", "image.flip(3)", "np.flip(image, 3).copy()"),
    Call("flip of rows", "image.flip(2)", "np.flip(image, 2).copy()"),
    Call("roll", "x.roll(5, 1)", "np.roll(x, 5, 1)"),
    Call("repeat", "x.repeat(2, 2)", "np.tile(x, (2, 2))"),
    Call("tile of a row", "row.tile(8)", "np.tile(row, 8)"),
    Call("repeat_interleave", "x.repeat_interleave(2, 0)", "np.repeat(x, 2, 0)"),
    Call("tril", "x.tril()", "np.tril(x)"),
    Call("triu", "x.triu(1)", "np.triu(x, 1)"),
    Call("transpose", "x.t().contiguous()", "np.ascontiguousarray(x.T)"),
    Call("channels last", "image.permute(0, 2, 3, 1).contiguous()",
         "np.ascontiguousarray(image.transpose(0, 2, 3, 1))"),
    Call("expand", "row.expand(x.shape).contiguous()", "np.broadcast_to(row, x.shape).copy()"),
    Call("clone", "x.clone()", "x.copy()"),
    Call("pixel_shuffle", "F.pixel_shuffle(image, 2)"),
    Call("unfold", "F.unfold(image, 3)"),
    Call("arange", "torch.arange(n)", "np.arange(n)"),
    Call("zeros", "torch.zeros(n)"),
    Call("full", "torch.full((n,), 0.5)", "np.full(n, np.float32(0.5))"),
)  # fmt: skip

# Two generators draw different numbers, so only the range of the result is compared.
_UNIFORM = "((r >= 0) & (r < 1)).all() & (r.min() < r.max())"
_NORMAL = "r.isfinite().all() & (r.min() < 0) & (r.max() > 0)"
_RANDOM = (
    Call("rand", "torch.rand(n)", "rng.random(n, np.float32)", agree=_UNIFORM),
    Call("randn", "torch.randn(n)", "rng.standard_normal(n, np.float32)", agree=_NORMAL),
    Call("randint", "torch.randint(0, 100, (n,))", "rng.integers(0, 100, n)",
         agree="((r >= 0) & (r < 100)).all() & (r.min() < r.max())"),
    Call("rand, 1 k", "torch.rand(k)", "rng.random(k, np.float32)", agree=_UNIFORM),
    Call("randn, 1 k", "torch.randn(k)", "rng.standard_normal(k, np.float32)", agree=_NORMAL),
    Call("uniform_", "x.uniform_(-1.0, 1.0)",
         agree="(r.abs() <= 1).all() & (r.min() < 0) & (r.max() > 0)"),
    Call("bernoulli", "torch.bernoulli(p)", agree="((r == 0) | (r == 1)).all() & (r.max() == 1)"),
    Call("exponential_", "x.exponential_()", agree="(r >= 0).all() & (r.min() < r.max())"),
    Call("randperm", "torch.randperm(h)", "rng.permutation(h)", agree="r.sort()[0]"),
    Call("multinomial", "torch.multinomial(p[:k], 64, replacement=True)",
         agree="((r >= 0) & (r < k)).all()"),
    Call("dropout", "F.dropout(x, 0.5)", agree="((r == 0) | (r == 2 * x)).all() & (r != 0).any()"),
)  # fmt: skip


def groups() -> list[Group]:
    indices = {
        "tokens": integers(32, 128, below=20_000), "table": floats(20_000, 256),
        "i": integers(4096, below=20_000), "new": floats(4096, 256), "x": floats(4096, 1024),
        "j": integers(512, below=1024), "row": permutation(512), "w": floats(512),
        "flat": integers(100_000, below=4096), "near": integers(4096, 64, below=1024),
        "one": integers(4096, 1, below=1024), "v": floats(4096, 64), "m": masks(4096, 1024),
        "classes": integers(4096, below=100), "unlike": permutation(4096),
    }  # fmt: skip
    joined = {
        "x": floats(1024, 1024), "y": floats(1024, 1024), "image": floats(8, 64, 56, 56),
        "row": floats(1024), "s": floats(), "n": number(M4),
    }  # fmt: skip
    drawn = {
        "n": number(M4), "k": number(K), "h": number(100_000), "x": floats(1 << 20),
        "p": floats(1 << 20, low=0.0, high=1.0),
    }  # fmt: skip
    return [
        Group("indexing, gather, scatter", indices, _INDEXING),
        Group("cat, pad, flip, roll", joined, _JOINS),
        Group("random", drawn, _RANDOM),
    ]
