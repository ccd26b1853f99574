"""Conjugates, negatives and efficient zeros: which results are lazy or materialised, and writes."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import keys
from gputensor.library import Library

DEVICES = ["cpu", *(["cuda"] if gt.cuda.is_available() else [])]
aten = gt.ops.aten
Z = [1 + 2j, 3 - 4j, -5j, 6]
on_devices = pytest.mark.parametrize("device", DEVICES)


def z(device: str = "cpu") -> gt.Tensor:
    return gt.tensor(Z, device=device)


def zeros(*sizes: int, device: str = "cpu", dtype: gt.dtype | None = None) -> gt.Tensor:
    return aten._efficientzerotensor(sizes, device=device, dtype=dtype)


def conjugated(values: Any) -> Any:
    return np.conjugate(np.asarray(values, np.complex64)).tolist()


# --- views ----------------------------------------------------------------------------------------


@on_devices
def test_a_conjugate_is_a_view_with_a_bit(device: str) -> None:
    x = z(device)
    c = x.conj()
    assert c.untyped_storage() is x.untyped_storage() and c.is_conj() and not x.is_conj()
    assert "Conjugate" in gt.dispatch.key_set(c)
    assert c.tolist() == conjugated(Z) and x.tolist() == Z
    assert not c.conj().is_conj() and c.conj().tolist() == Z
    assert gt.is_conj(c) and gt.conj(c).tolist() == Z
    x[0] = 9j
    assert c[0].item() == -9j


def test_real_tensors_are_their_own_conjugates() -> None:
    x = gt.ones(2)
    assert (
        x.conj() is x and x.conj_physical() is x and x.resolve_conj() is x and x.resolve_neg() is x
    )
    assert gt.real(x) is x and x.real is x
    with pytest.raises(errors.DtypeError, match="_conj: 'self' must be complex"):
        aten._conj(x)
    with pytest.raises(RuntimeError, match="imag: 'self' must be complex"):
        x.imag  # noqa: B018


VIEWS: dict[str, Any] = {
    "view": lambda x: x.view(4, 3), "reshape": lambda x: x.reshape(2, 6),
    "permute": lambda x: x.permute(1, 0),
    "t": lambda x: x.t(), "select": lambda x: x[1], "slice": lambda x: x[:, ::2],
    "expand": lambda x: x[None].expand(2, 3, 4),
    "unbind": lambda x: x.unbind()[0], "split": lambda x: x.split(2)[1],
    "chunk": lambda x: x.chunk(2, 1)[0],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3)), "diagonal": lambda x: x.diagonal(),
    "detach": lambda x: x.detach(),
    "unfold": lambda x: x.unfold(1, 2, 1), "squeeze": lambda x: x[:1].squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "flatten": lambda x: x.flatten(), "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "movedim": lambda x: x.movedim(0, 1),
    "alias": lambda x: gt.alias(x), "narrow": lambda x: x.narrow(1, 1, 2),
    "contiguous": lambda x: x.contiguous(),
    "swapaxes": lambda x: x.swapaxes(0, 1), "mT": lambda x: x.mT,
    "expand_as": lambda x: x.expand_as(x),
    "transpose_": lambda x: gt.alias(x).transpose_(0, 1), "squeeze_": lambda x: x[:1].squeeze_(),
    "t_": lambda x: gt.alias(x).t_(), "as_strided_": lambda x: gt.alias(x).as_strided_((2,), (1,)),
    "unsqueeze_": lambda x: gt.alias(x).unsqueeze_(0),
}  # fmt: skip


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("inference", [False, True])
def test_views_carry_the_bits(name: str, inference: bool) -> None:
    base = gt.tensor(np.arange(12).reshape(3, 4) * (1 + 2j))
    plain = VIEWS[name](gt.tensor(base.numpy().copy()))
    with gt.dispatch.InferenceMode(inference):
        for lazy in (base.conj(), aten._neg_view(base), aten._neg_view(base.conj()), zeros(3, 4)):
            view = VIEWS[name](lazy)
            assert view._keys & keys.LAZY == lazy._keys & keys.LAZY
            assert view.untyped_storage() is lazy.untyped_storage()
            assert (view.shape, view.stride()) == (plain.shape, plain.stride())
    assert base._version == 0 or name.endswith("_")


@on_devices
def test_real_and_imaginary_parts_are_views(device: str) -> None:
    x = z(device)
    c = x.conj()
    assert x.real.stride() == (2,) and x.imag.storage_offset() == 1
    assert c.real.tolist() == x.real.tolist() and not c.real.is_neg()
    assert c.imag.is_neg() and c.imag.tolist() == [-v for v in x.imag.tolist()]
    c.imag.fill_(7)
    assert x.tolist() == [v.real - 7j for v in map(complex, Z)]
    x.real.add_(1)
    assert x[0].item() == 2 - 7j


def test_pairs_of_reals() -> None:
    x = z()
    pairs = gt.view_as_real(x)
    assert pairs.shape == (4, 2) and pairs.untyped_storage() is x.untyped_storage()
    assert gt.view_as_complex(pairs).tolist() == Z
    assert gt.view_as_complex(aten._neg_view(pairs)).tolist() == [-v for v in Z]
    with pytest.raises(errors.ArgumentError, match="not be a lazy conjugate"):
        gt.view_as_real(x.conj())
    with pytest.raises(errors.ArgumentError, match="begin at an even offset"):
        gt.view_as_complex(gt.ones(3)[1:])
    with pytest.raises(errors.ArgumentError, match="even strides before the last"):
        gt.view_as_complex(gt.ones(2, 3)[:, :2])


# --- materialising --------------------------------------------------------------------------------


@on_devices
def test_operators_read_what_the_view_shows(device: str) -> None:
    x, y = z(device), gt.tensor([1j, 1, 2, 1 - 1j], device=device)
    a, b = np.asarray(Z, np.complex64), np.asarray([1j, 1, 2, 1 - 1j], np.complex64)
    for found, wanted in (
        (x.conj() * y, a.conj() * b), (x.conj() + y.conj(), a.conj() + b.conj()), (-x.conj(),
        -a.conj()),
        (gt.cat([x.conj(), y]), np.concatenate([a.conj(), b])), (x.conj().sum(), a.conj().sum()),
        (gt.where(y == 1, x.conj(), y), np.where(b == 1, a.conj(), b)), (x.conj().flip(0),
        a.conj()[::-1]),
        (gt.stack([x.conj(), x]), np.stack([a.conj(), a])), (aten._neg_view(x) * 1, -a),
        (x.conj().abs(), abs(a)),
        (aten._neg_view(x.conj()) * 1, -a.conj()), (x.conj().repeat(2), np.tile(a.conj(), 2)),
        (x.conj()[:2, None] @ y.conj()[None, :2], np.outer(a.conj()[:2], b.conj()[:2])),
    ):  # fmt: skip
        assert not found._keys & keys.LAZY
        np.testing.assert_allclose(found.cpu().numpy(), wanted, rtol=1e-6)


@on_devices
def test_copies_are_materialised_and_turned_in_one_pass(device: str) -> None:
    c = z(device).conj()
    for made in (
        c.clone(),
        c.to(gt.complex128),
        c[::2].contiguous(),
        c.resolve_conj(),
        c.cpu() if device == "cuda" else c * 1,
    ):
        assert made._keys & keys.LAZY == (keys.CONJUGATE if made is c else 0)
    assert c.clone().tolist() == conjugated(Z) and c.to(gt.complex128).tolist() == conjugated(Z)
    assert c.cpu().tolist() == conjugated(Z)
    hops = []
    with gt.dispatch.trace() as lines:
        c.clone()
    hops = [line for line in lines if "copy_" in line or "out]" in line]
    assert [h.split("op=[")[1].split("]")[0] for h in hops][-2:] == [
        "aten::copy_",
        "aten::conj_physical.out",
    ]


def test_what_is_made_like_a_lazy_view_is_plain() -> None:
    c = z().conj()
    for made in (
        gt.empty_like(c), gt.zeros_like(c), gt.ones_like(c), c.new_zeros(2), c.new_empty((2,)),
        gt.full_like(c, 1),
        c.new_full((2,), 3),
    ):  # fmt: skip
        assert not made._keys & keys.LAZY
    assert gt.ones_like(zeros(2)).tolist() == [1, 1]
    with gt.dispatch.trace() as lines:
        gt.ones_like(c), c.new_ones(3)
    assert not any("copy_" in line or "clone" in line for line in lines)


def test_questions_materialise_nothing() -> None:
    c = z().conj()
    with gt.dispatch.InferenceMode(), gt.dispatch.trace() as lines:
        assert c.is_conj() and not c.is_neg() and not aten._is_zerotensor(c)
    assert len(lines) == 6 and not any("clone" in line for line in lines)


@on_devices
@pytest.mark.parametrize("target", [gt.float32, gt.int32, gt.uint8, gt.bool, gt.complex128])
def test_casts_of_lazy_views(device: str, target: gt.dtype) -> None:
    x = gt.tensor([0.0, 1.5, -2.0, 300.0], device=device)
    wanted = (-x).to(target).tolist()
    assert aten._neg_view(x).to(target).tolist() == wanted
    into = gt.empty(4, dtype=target, device=device)
    assert into.copy_(aten._neg_view(x)).tolist() == wanted


# --- writing --------------------------------------------------------------------------------------


@on_devices
def test_writes_through_a_conjugate(device: str) -> None:
    x = z(device)
    c = x.conj()
    assert c.mul_(1j) is c and c.is_conj() and x._version == 1
    assert x.tolist() == [complex(v) * -1j for v in Z]
    assert c.copy_(z(device)) is c and x.tolist() == conjugated(Z)
    assert gt.add(x, 1, out=c) is c and x.tolist() == [v + 1 for v in map(complex, Z)]
    c.zero_()
    assert x.tolist() == [0] * 4
    c[1] = 1j
    assert x[1].item() == -1j and x._version == 5


@on_devices
def test_copies_between_lazy_views(device: str) -> None:
    for turned in (lambda x: x.conj(), aten._neg_view, lambda x: aten._neg_view(x.conj())):
        to, source = gt.zeros(4, dtype=gt.complex64, device=device), z(device)
        turned(to).copy_(turned(source))
        assert to.tolist() == Z
        turned(to).copy_(source)
        assert turned(to).tolist() == Z
        to.copy_(turned(source)[:1])
        assert to.tolist() == [turned(source)[0].item()] * 4
    x = z(device)
    x.copy_(x.conj())
    assert x.tolist() == conjugated(Z)
    with pytest.raises(errors.ArgumentError, match="partial overlap"):
        x[1:].copy_(x[:-1].conj())


def test_operands_that_alias_the_written_one() -> None:
    x = z()
    x.conj().mul_(x)  # conj(x) * x, read before anything is written
    assert x.tolist() == [complex(v).conjugate() * v for v in Z]


def test_out_of_another_size_through_a_conjugate() -> None:
    out = gt.empty(0, dtype=gt.complex64).conj()
    gt.mul(z(), 1, out=out)
    assert out.is_conj() and out.tolist() == Z and aten._conj(out).tolist() == conjugated(Z)


def test_physical_forms() -> None:
    x = z()
    c = x.conj()
    assert c.conj_physical().tolist() == Z and not c.conj_physical().is_conj()
    assert c.conj_physical_() is c and c.tolist() == Z and x.tolist() == conjugated(Z)
    n = aten._neg_view(x)
    assert n.neg_() is n and n.is_neg() and n.tolist() == conjugated(Z)
    out = gt.empty(4, dtype=gt.complex64)
    gt.conj_physical(x, out=out)
    assert out.tolist() == [-v for v in Z]


def test_bool_has_no_negative() -> None:
    n = aten._neg_view(gt.tensor([True]))
    with pytest.raises(errors.DtypeError, match="neg: 'self' must not be bool"):
        n.clone()


def test_another_dtype_cannot_be_seen_through_a_bit() -> None:
    for lazy in (z().conj(), aten._neg_view(gt.ones(2))):
        with pytest.raises(RuntimeError, match="view: 'self' must not be a lazy view"):
            lazy.view(gt.uint8)


# --- efficient zeros ------------------------------------------------------------------------------


@on_devices
def test_zeros_without_memory(device: str) -> None:
    x = zeros(2, 3, device=device)
    assert (
        x.tolist() == [[0] * 3] * 2 and x.data_ptr() == 0 and "ZeroTensor" in gt.dispatch.key_set(x)
    )
    assert x.device.type == device and x.untyped_storage().nbytes() == 24
    assert repr(zeros(2)) == "tensor([0., 0.])"
    for plain in (
        x.clone(),
        x + 1,
        x.to(gt.float64),
        -x,
        x.sum(),
        gt.zeros_like(x),
        gt.cat([x, x]),
    ):
        assert not plain._keys & keys.LAZY and plain.data_ptr()
    assert zeros(2, dtype=gt.complex64).conj().tolist() == [0, 0]
    to = gt.ones(4, 3, device=device)
    to.copy_(x[0])
    assert to.sum().item() == 0
    with pytest.raises(errors.GpuTensorError, match="must match"):
        to.copy_(zeros(5, device=device))


@on_devices
def test_arithmetic_that_keeps_zeros_efficient(device: str) -> None:
    x, y = zeros(2, 3, device=device), gt.full((3,), float("inf"), dtype=gt.float64, device=device)
    for made in (x * y, y * x, x * 2, x / y, x + x, x - x):
        assert aten._is_zerotensor(made) and made.shape == (2, 3)
        assert made.device == x.device
    assert (x * y).dtype is gt.float64 and (x * 2).dtype is gt.float32
    assert (x + y).tolist() == [[float("inf")] * 3] * 2 and (y - x).dtype is gt.float64
    assert gt.sub(x, 2, alpha=3).tolist() == [[-6] * 3] * 2
    assert (gt.tensor([1.0, -1.0, 0.0], device=device) / x)[0].tolist()[:2] == [
        float("inf"),
        -float("inf"),
    ]
    if device == "cuda":
        with pytest.raises(errors.DeviceError, match="all tensors must be on one device"):
            x * gt.ones(3)
        assert aten._is_zerotensor(x * gt.ones(()))


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x.fill_(1), lambda x: x.copy_(gt.ones(2)),
    lambda x: x.resize_(7),
    lambda x: gt.add(x, 1, out=x), lambda x: x.set_(), lambda x: x.__setitem__(0, 1),
])  # fmt: skip
def test_zeros_are_immutable(write: Any) -> None:
    with pytest.raises(
        errors.ArgumentError,
        match=r"must have memory to write to \(got an efficient zero\); use .clone",
    ):
        write(zeros(2))


# --- other readers of memory ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [lambda: z().conj(), lambda: aten._neg_view(z()), lambda: zeros(4)],
    ids=["conj", "neg", "zero"],
)
def test_readers_of_memory(make: Any) -> None:
    x = make()
    for read in (lambda: x.numpy(), lambda: np.asarray(x), lambda: x._get_array()):
        with pytest.raises(errors.ArgumentError):
            read()
    with pytest.raises(BufferError, match="lazy conjugate, negative or zero"):
        x.__dlpack__()
    values = x.clone().tolist()
    assert x.numpy(force=True).tolist() == values == x.tolist() == [v.item() for v in x]
    assert repr(x) == repr(x.clone()) and x[0].item() == values[0]
    gt.testing.assert_close(x, x.clone())
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), _saved(x)):
        assert again.tolist() == values
    assert copy.deepcopy(x)._keys == x._keys


def _saved(x: gt.Tensor) -> gt.Tensor:
    file = io.BytesIO()
    gt.save({"x": x}, file)
    file.seek(0)
    return gt.load(file)["x"]


def test_meta_tensors_are_lazy_too() -> None:
    x = gt.empty(2, dtype=gt.complex64, device="meta").conj()
    assert x.is_conj() and (x * 2).shape == (2,) and not (x * 2).is_conj()
    assert zeros(2, device="meta").add(1).device.type == "meta"


# --- rules ----------------------------------------------------------------------------------------


def test_user_operators_get_materialised_operands(lib: Library) -> None:
    lib.define("f(Tensor x, Tensor?[] ys, *, Tensor(a!) out) -> Tensor(a!)")
    seen: list[Any] = []

    @lib.impl("f", "CPU")
    def f(x: Any, ys: Any, *, out: Any) -> Any:
        seen.extend([x, *ys, out])
        return out.copy_(x)

    c, target = z().conj(), gt.zeros(4, dtype=gt.complex64)
    out = target.conj()
    assert getattr(gt.ops, lib.ns).f(c, [None, aten._neg_view(c), target], out=out) is out
    assert not any(x._keys & keys.LAZY for x in seen if x is not None) and seen[3] is target
    assert out.tolist() == conjugated(Z) and target.tolist() == Z


def test_an_operator_may_know_better(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, "CPU")
    lib.impl("f", gt.library.fallthrough_kernel, "Conjugate")
    c = z().conj()
    assert getattr(gt.ops, lib.ns).f(c) is c


def test_gradients_pass_lazy_views() -> None:
    x = z().requires_grad_()
    (x.conj() * x).real.sum().backward()
    assert x.grad.tolist() == [2 * v for v in Z]


def test_threads_do_not_disturb_each_other() -> None:
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = gt.full((64,), complex(number, 1))
        for _ in range(50):
            if (x.conj() * 1).tolist() != [complex(number, -1)] * 64:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
