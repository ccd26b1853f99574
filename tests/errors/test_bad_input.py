"""Bad input: one sentence that names operator, argument, rule and value; no partial changes.

A case is a call on tensors `x` f32[2,3], `m` f32[3,4], `i` i64[3], `b` bool[2,3], `h` f16[2,3] and
`e` f32[0,3] of each device. After the error every tensor has its old sizes, strides, version and
elements, and every operator its old registrations.
"""

from __future__ import annotations

import pytest

import gputensor as gt
from gputensor.dispatch import dispatcher

# (operator in the message, argument in the message, call, exception besides GpuTensorError)
CASES = [
    ("empty", "size", lambda t, d: gt.empty((2, -1), device=d), RuntimeError),
    ("empty", "size", lambda t, d: gt.empty((2.5,), device=d), TypeError),
    ("empty", "size", lambda t, d: gt.empty("ab", device=d), TypeError),
    ("empty", "dtype", lambda t, d: gt.empty((2,), dtype="float32", device=d), TypeError),
    ("empty", "dtype", lambda t, d: gt.empty((2,), dtype=str, device=d), TypeError),
    ("empty", "memory_format",
     lambda t, d: gt.empty((2, 3), memory_format=gt.channels_last, device=d), RuntimeError),
    ("empty", "memory_format",
     lambda t, d: gt.empty((2,), memory_format=gt.preserve_format, device=d), RuntimeError),
    ("empty_strided", "stride",
     lambda t, d: gt.empty_strided((2, 3), (1,), device=d), RuntimeError),
    ("empty_strided", "stride", lambda t, d: gt.empty_strided((2,), (-1,), device=d), RuntimeError),
    ("arange", "step", lambda t, d: gt.arange(0, 5, 0, device=d), RuntimeError),
    ("arange", "end", lambda t, d: gt.arange(5, 0, 1, device=d), RuntimeError),
    ("arange", "end", lambda t, d: gt.arange(float("inf"), device=d), RuntimeError),
    ("linspace", "steps", lambda t, d: gt.linspace(0, 1, -1, device=d), RuntimeError),
    ("eye", "n", lambda t, d: gt.eye(-1, device=d), RuntimeError),
    ("rand", "dtype", lambda t, d: gt.rand(3, dtype=gt.int64, device=d), RuntimeError),
    ("view", "size", lambda t, d: t.x.view(4, 2), RuntimeError),
    ("view", "size", lambda t, d: t.x.view(-1, -1), RuntimeError),
    ("view", "size", lambda t, d: t.x.t().view(6), RuntimeError),
    ("view", "size", lambda t, d: t.e.view(-1, 0), RuntimeError),
    ("reshape", "size", lambda t, d: t.x.reshape(7), RuntimeError),
    ("reshape", "size", lambda t, d: t.x.reshape(-2, 3), RuntimeError),
    ("permute", "dims", lambda t, d: t.x.permute(0, 0), RuntimeError),
    ("permute", "dims", lambda t, d: t.x.permute(0, 5), IndexError),
    ("permute", "dims", lambda t, d: t.x.permute(0), RuntimeError),
    ("transpose", "dim1", lambda t, d: t.x.transpose(0, 2), IndexError),
    ("t", "self", lambda t, d: t.x.unsqueeze(0).t(), RuntimeError),
    ("mT", "self", lambda t, d: t.i.mT, RuntimeError),
    ("expand", "size", lambda t, d: t.x.expand(4, 3), RuntimeError),
    ("expand", "size", lambda t, d: t.x.expand(3), RuntimeError),
    ("narrow", "length", lambda t, d: t.x.narrow(1, 2, 5), RuntimeError),
    ("narrow", "length", lambda t, d: t.x.narrow(1, 0, -1), RuntimeError),
    ("select", "index", lambda t, d: t.x.select(0, 2), IndexError),
    ("select", "dim", lambda t, d: t.x.select(2, 0), IndexError),
    ("slice", "step", lambda t, d: gt.ops.aten.slice.Tensor(t.x, 0, 0, 2, 0), RuntimeError),
    ("squeeze", "dim", lambda t, d: t.x.squeeze(3), IndexError),
    ("unsqueeze", "dim", lambda t, d: t.x.unsqueeze(4), IndexError),
    ("flatten", "start_dim", lambda t, d: t.x.flatten(1, 0), RuntimeError),
    ("unflatten", "size", lambda t, d: t.x.unflatten(1, (2, 2)), RuntimeError),
    ("as_strided", "size", lambda t, d: t.x.as_strided((100,), (1,)), RuntimeError),
    ("as_strided", "stride", lambda t, d: t.x.as_strided((2,), (-1,)), RuntimeError),
    ("as_strided", "storage_offset", lambda t, d: t.x.as_strided((2,), (1,), -1), RuntimeError),
    ("diagonal", "dim2", lambda t, d: t.x.diagonal(0, 1, 1), RuntimeError),
    ("unfold", "size", lambda t, d: t.i.unfold(0, 4, 1), RuntimeError),
    ("unfold", "step", lambda t, d: t.i.unfold(0, 2, 0), RuntimeError),
    ("movedim", "destination", lambda t, d: t.x.movedim((0, 1), (1,)), RuntimeError),
    ("split", "split_size", lambda t, d: t.x.split(-1), RuntimeError),
    ("chunk", "chunks", lambda t, d: t.x.chunk(0), RuntimeError),
    ("add", "other", lambda t, d: t.x + t.m, RuntimeError),
    ("add", "other", lambda t, d: gt.add(t.x, "one"), TypeError),
    ("add", "other", lambda t, d: gt.add(t.x, [1.0]), TypeError),
    ("add", "alpha", lambda t, d: gt.add(t.i, t.i, alpha=1.5), RuntimeError),
    ("add", "alpha", lambda t, d: gt.add(t.x, t.x, alpha="2"), TypeError),
    ("add", "out", lambda t, d: gt.add(t.x, t.x, out=t.i), RuntimeError),
    ("add_", "self", lambda t, d: t.i.add_(1.5), RuntimeError),
    ("add_", "self", lambda t, d: t.i.add_(t.x), RuntimeError),
    ("add_", "self", lambda t, d: t.x[:1].expand(2, 3).add_(1), RuntimeError),
    ("sub", "self", lambda t, d: t.b - t.b, RuntimeError),
    ("neg", "self", lambda t, d: -t.b, RuntimeError),
    ("div", "rounding_mode", lambda t, d: gt.div(t.x, t.x, rounding_mode="up"), RuntimeError),
    ("lt", "self", lambda t, d: t.x.to(gt.complex64) < 1, RuntimeError),
    ("maximum", "other", lambda t, d: gt.maximum(t.x, None), TypeError),
    ("where", "condition", lambda t, d: gt.where(t.x, t.x, t.x), RuntimeError),
    ("where", "other", lambda t, d: gt.where(t.b, t.x, t.m), RuntimeError),
    ("sum", "dim", lambda t, d: t.x.sum(2), IndexError),
    ("sum", "dim", lambda t, d: t.x.sum((0, 0)), RuntimeError),
    ("sum", "dim", lambda t, d: t.x.sum(1.5), TypeError),
    ("mean", "self", lambda t, d: t.i.mean(), RuntimeError),
    ("amax", "dim", lambda t, d: t.e.amax(0), IndexError),
    ("amax", "self", lambda t, d: t.x.to(gt.complex64).amax(), RuntimeError),
    ("mm", "mat2", lambda t, d: gt.mm(t.x, t.x), RuntimeError),
    ("mm", "self", lambda t, d: gt.mm(t.i, t.m), RuntimeError),
    ("mm", "mat2", lambda t, d: gt.mm(t.x, t.m.half()), RuntimeError),
    ("mm", "out", lambda t, d: gt.mm(t.x.t(), t.x, out=t.x), RuntimeError),
    ("cat", "tensors", lambda t, d: gt.cat([]), RuntimeError),
    ("cat", "tensors[1]", lambda t, d: gt.cat([t.x, t.m], 1), RuntimeError),
    ("cat", "dim", lambda t, d: gt.cat([t.x, t.x], 2), IndexError),
    ("stack", "tensors[1]", lambda t, d: gt.stack([t.x, t.m]), RuntimeError),
    ("repeat", "repeats", lambda t, d: t.x.repeat(2), RuntimeError),
    ("copy_", "src", lambda t, d: t.x.copy_(t.m), RuntimeError),
    ("copy_", "self", lambda t, d: t.x[:1].expand(2, 3).copy_(t.x), RuntimeError),
    ("fill_", "value", lambda t, d: t.x.fill_("1"), TypeError),
    ("fill_", "value", lambda t, d: t.x.fill_(t.x), RuntimeError),
    ("fill_", "value", lambda t, d: t.x.fill_(1j), RuntimeError),
    ("to", "dtype", lambda t, d: t.x.to(dtype="float16"), TypeError),
    ("contiguous", "memory_format", lambda t, d: t.x.contiguous(memory_format=gt.channels_last),
    RuntimeError),
    ("contiguous", "memory_format", lambda t,
    d: t.x.t().contiguous(memory_format=gt.preserve_format), RuntimeError),
    ("item", "self", lambda t, d: t.x.item(), RuntimeError),
    ("bool", "self", lambda t, d: bool(t.x), RuntimeError),
    ("resize_", "size", lambda t, d: t.x.resize_(2, -3), RuntimeError),
    ("flip", "dims", lambda t, d: t.x.flip(0, 0), RuntimeError),
    ("uniform_", "from", lambda t, d: t.x.uniform_(2, 1), RuntimeError),
]  # fmt: skip
IDS = [f"{number:02}-{op}-{arg}" for number, (op, arg, _, _) in enumerate(CASES)]


class Tensors:
    """The tensors of one device that the cases work on."""

    def __init__(self, device: str) -> None:
        self.x = gt.arange(6, dtype=gt.float32, device=device).view(2, 3)
        self.m = gt.ones((3, 4), device=device)
        self.i = gt.arange(3, device=device)
        self.b = self.x > 2
        self.h = self.x.half()
        self.e = gt.empty((0, 3), device=device)

    def state(self) -> list[object]:
        found: list[object] = []
        for name, t in vars(self).items():
            elements = None if t.is_meta else t.tolist()
            found.append((name, tuple(t.shape), t.stride(), t.dtype, t._version, elements))
        return found


def _registrations() -> list[object]:
    return [
        (o.qualified_name, {k.name: len(v) for k, v in o.kernels.items()})
        for o in dispatcher.operators()
    ]


@pytest.fixture(params=["cpu", "meta", "cuda:0", "cuda:1"])
def device(request):
    if request.param.startswith("cuda"):
        if not gt.cuda.is_available():
            pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
        if gt.device(request.param).index >= gt.cuda.device_count():
            pytest.skip("one CUDA device only")
    return request.param


@pytest.mark.parametrize(("op", "arg", "call", "kind"), CASES, ids=IDS)
def test_refused_in_one_sentence_and_unchanged(op, arg, call, kind, device):
    if device == "meta" and op in ("item", "bool"):
        pytest.skip("a meta tensor has no element to ask for")
    tensors = Tensors(device)
    before, registered = tensors.state(), _registrations()
    with pytest.raises(gt.GpuTensorError) as caught:
        call(tensors, device)
    message = str(caught.value)
    assert isinstance(caught.value, kind), f"{type(caught.value).__name__}: {message}"
    assert message.startswith(f"{op}: "), message
    assert f"'{arg}'" in message, message
    assert "(got " in message, message
    assert "\n" not in message and not message.endswith("."), message
    assert tensors.state() == before
    assert _registrations() == registered


MIXES = [
    ("add", lambda x, y: x + y),
    ("sub", lambda x, y: x - y),
    ("eq", lambda x, y: x == y),
    ("where", lambda x, y: gt.where(x > 1, x, y)),
    ("mm", lambda x, y: gt.mm(x, y.t())),
    ("cat", lambda x, y: gt.cat([x, y])),
    ("add_", lambda x, y: x.add_(y)),
    ("add", lambda x, y: gt.add(x, x, out=y)),
    ("maximum", gt.maximum),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "call"), MIXES, ids=[f"{n}-{op}" for n, (op, _) in enumerate(MIXES)]
)
@pytest.mark.parametrize(
    "pair",
    [("cpu", "cuda:0"), ("cuda:0", "cpu"), ("cuda:0", "cuda:1"), ("cpu", "meta")],
    ids="+".join,
)
def test_devices_do_not_mix(op, call, pair):
    if any(d.startswith("cuda") for d in pair) and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    if "cuda:1" in pair and gt.cuda.device_count() < 2:
        pytest.skip("one CUDA device only")
    x, y = (gt.ones((2, 3), device=d) for d in pair)
    with pytest.raises(gt.GpuTensorError) as caught:
        call(x, y)
    message = str(caught.value)
    assert message.startswith(f"{op}: "), message
    assert pair[0] in message and pair[1] in message, message
    assert x._version == 0 and y._version == 0


def test_there_are_enough_cases():
    assert len(CASES) + len(MIXES) >= 60


@pytest.mark.parametrize("arg", ["fweights", "aweights"])
def test_weights_of_covariances_are_not_negative(arg: str) -> None:
    weights = gt.tensor([1, -1, 2], dtype=gt.int64 if arg == "fweights" else gt.float32)
    with pytest.raises(RuntimeError, match=f"cov: '{arg}' must not hold negative numbers"):
        gt.cov(gt.ones(2, 3), **{arg: weights})
