"""Outputs that overlap inputs or themselves: every operator with `out=` and every in-place form.

A call either raises and changes no sizes, strides, version and bytes, or has the result of a call
without overlap. Operands are views, `.data` or NumPy arrays of one buffer. The table must contain
every operator with an `out`, so that new operators are not forgotten.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.iterator import overlap

from ..harness import cases as forms
from ..harness.cases import OPS, OPS_OF, some
from ..rows import Row
from ..operators.test_ops_variants import CASTS_OUT as WITH_OUT, outs_of, run_into

aten = gt.ops.aten


def _unary(name: str) -> Callable[..., Any]:
    return lambda x, **k: getattr(aten, name)(x, **k)


def _binary(name: str) -> Callable[..., Any]:
    return lambda x, **k: getattr(aten, name)(x, x, **k)


# Name of the operator in _generated/operators.py -> its call over one matrix.
OUT: dict[str, Callable[..., Any]] = {
    **{f"{n}_out": _unary(n) for n in ("abs", "exp", "neg", "relu", "sqrt", "conj_physical")},
    **{f"{n}_out": _binary(n) for n in ("add", "sub", "mul", "div", "maximum", "minimum", "mm")},
    **{f"{n}_Tensor_out": _binary(n) for n in ("eq", "ne", "lt", "le", "gt", "ge")},
    "div_out_mode": lambda x, **k: aten.div(x, x + 1, rounding_mode="floor", **k),
    "where_self_out": lambda x, **k: aten.where(x > 4, x, x, **k),
    "addmm_out": lambda x, **k: aten.addmm(x, x, x, **k),
    **{f"{n}_out": (lambda n: lambda x, **k: getattr(aten, n)(x, (0,), **k))(n) for n in ("amax",
    "amin")},
    **{f"{n}_out": (lambda n: lambda x, **k: getattr(aten, n)(x, 0, **k))(n) for n in ("all",
    "any", "argmax", "argmin")},
    **{f"{n}_dims_out": (lambda n: lambda x, **k: getattr(aten, n)(x, (0, 1),
    **k))(n) for n in ("all", "any")},
    **{f"{n}_all_out": _unary(n) for n in ("all", "any")},
    "sum_out": _unary("sum"),
    "sum_IntList_out": lambda x, **k: aten.sum(x, (1,), True, **k),
    "mean_out": lambda x, **k: aten.mean(x, (0,), **k),
    "mean_dtype_out": _unary("mean"),
    "cat_out": lambda x, **k: aten.cat([x, x], 1, **k),
    "stack_out": lambda x, **k: aten.stack([x, x], **k),
    "_softmax_out": lambda x, **k: aten._softmax(x, 0, False, **k),
    "_log_softmax_out": lambda x, **k: aten._log_softmax(x, 1, False, **k),
    "arange_out": lambda x, **k: aten.arange(4, **k),
    "arange_start_out": lambda x, **k: aten.arange(0, 4, 1, **k),
    "linspace_out": lambda x, **k: aten.linspace(0, 1, 4, **k),
    "eye_out": lambda x, **k: aten.eye(4, **k),
    "eye_m_out": lambda x, **k: aten.eye(4, 4, **k),
}  # fmt: skip
IN_PLACE = ("add_", "sub_", "mul_", "div_", "copy_", "eq_", "lt_")

SIZE, COUNT = 4, 128


def _buffer(device: str) -> Any:
    return gt.from_numpy(np.arange(COUNT, dtype=np.float32) % 7 + 1).clone().to(device)


def _outs(buffer: Any, x: Any, of: Any) -> dict[str, Any]:
    """Return outputs of dtype `of` over the buffer that has `x` in elements 32 to 48."""
    at = 32 * 4 // of.itemsize
    whole = buffer.view(of)
    square = whole[at : at + 16].view(4, 4)
    found = {
        "same": square, "part": square[0], "row": square[:1], "element": square[0, 0],
        "turned": square.t(),
        "shifted": whole[at + 1 : at + 17].view(4, 4), "before": whole[at - 2 : at],
        "free": whole[:16].view(4, 4),
        "columns": whole[:32].view(4, 8)[:, ::2], "expanded": whole[:1].expand(4),
        "expanded matrix": whole[:4].expand(4, 4), "data": square.data,
        "data of a part": square[1:].data,
        "twin of the whole": whole.data[at : at + 16].view(4, 4),
    }  # fmt: skip
    if of is x.dtype:
        found["itself"] = x
    if buffer.is_cpu and of is not gt.bool:
        numbers = whole.numpy()
        found["NumPy"] = gt.from_numpy(numbers[at : at + 16].reshape(4, 4))
        found["NumPy, shifted"] = gt.from_numpy(numbers[at + 2 : at + 18].reshape(4, 4))
    return found


def _state(buffer: Any, out: Any) -> Any:
    return (
        out.shape,
        out.stride(),
        out.storage_offset(),
        out._version,
        buffer.cpu().tolist(),
        len(out.untyped_storage()),
    )


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not gt.cuda.is_available():
        pytest.skip("no CUDA device and no emulator")
    return str(request.param)


def test_every_operator_with_out_has_a_row() -> None:
    tried = {op.name for row in WITH_OUT for op in OPS_OF[row.name] if op.kind == "out"}
    assert (
        not {op.name for op in OPS if op.kind == "out" and len(op.schema.out_arguments) == 1}
        - tried
    )


def _over(x: Any, wanted: Any) -> dict[str, Any]:
    """Return outputs that share memory with an operand, or whose own elements overlap."""
    found = {}
    if x.dtype is wanted.dtype:
        storage, sizes = x.untyped_storage(), tuple(wanted.shape)
        if x.shape == wanted.shape:
            found["itself"], found["its data"] = x, x.data
        if wanted.numel() * x.element_size() <= len(storage):
            found["the storage from its begin"] = x.data.set_(storage, 0, sizes)
    if wanted.numel() > 1:
        found["one element"] = wanted.new_zeros(()).expand(wanted.shape)
    return found


@pytest.mark.parametrize("row", some(WITH_OUT, 3), ids=str)
def test_out_over_an_operand(row: Row, device: str) -> None:
    """Each row's call raises and changes nothing, or has the result of a call with separate
    memory."""
    for case in forms.one_of_each_form(row):
        if outs_of(case) != 1:
            continue
        wanted = case.build(device).run()
        if isinstance(wanted, (list, tuple)):
            continue
        for number in range(len(case.build(device).built)):
            for kind in _over(case.build(device).built[number].tensor, wanted):
                call = case.build(device)
                out = _over(call.built[number].tensor, wanted)[kind]
                of = f"{case} into {kind} of operand {number}"
                before = [_bytes_of(x) for x in (*(b.tensor for b in call.built), out)]
                layout = out.shape, out.stride(), out._version
                try:
                    found = run_into(row, call, out)
                except errors.GpuTensorError:
                    after = [_bytes_of(x) for x in (*(b.tensor for b in call.built), out)]
                    assert after == before, f"{of}: was refused and has changed something"
                    assert (out.shape, out.stride(), out._version) == layout, of
                else:
                    assert found is out and kind != "one element", of
                    assert _bytes_of(out) == _bytes_of(wanted), of


def _bytes_of(x: Any) -> bytes:
    x = x.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return bytes(x.reshape(-1).view(gt.uint8).numpy())


@pytest.mark.parametrize("name", OUT)
def test_out(name: str, device: str) -> None:
    call = OUT[name]
    wanted = call(_buffer(device)[32:48].view(4, 4).clone())
    taken = refused = 0
    for kind in _outs(_buffer(device), _buffer(device)[32:48].view(4, 4), wanted.dtype):
        buffer = _buffer(device)
        x = buffer[32:48].view(4, 4)
        out = _outs(buffer, x, wanted.dtype)[kind]
        before = _state(buffer, out)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of an `out` that is resized
                found = call(x, out=out)
        except errors.GpuTensorError as error:
            assert "share" in str(error) or "memory location" in str(error), f"{kind}: {error}"
            assert _state(buffer, out) == before, (
                f"{name} into {kind}: was refused and has changed something"
            )
            refused += 1
            continue
        assert found is out and np.array_equal(
            out.cpu().numpy().ravel(), wanted.cpu().numpy().ravel()
        ), f"{name} into {kind}"
        taken += 1
    assert taken and refused


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, device: str) -> None:
    taken = refused = 0
    for kind in _outs(_buffer(device), _buffer(device)[32:48].view(4, 4), gt.float32):
        for target in ("view", "data"):
            buffer = _buffer(device)
            x = buffer[32:48].view(4, 4)
            x = x.data if target == "data" else x
            other = _outs(buffer, x, gt.float32)[kind]
            try:
                wanted = getattr(x.clone(), name)(other.clone())
            except errors.ShapeError:
                continue
            before = _state(buffer, x)
            try:
                getattr(x, name)(other)
            except errors.GpuTensorError as error:
                assert "share" in str(error), f"{kind}: {error}"
                assert _state(buffer, x) == before, f"{name} of {target} and {kind}"
                refused += 1
                continue
            assert np.array_equal(x.cpu().numpy(), wanted.cpu().numpy()), (
                f"{name} of {target} and {kind}"
            )
            taken += 1
    assert taken and refused


def test_data_shares_memory_after_a_resize(device: str) -> None:
    for resized, other in ((0, 1), (1, 0)):
        x = gt.arange(4.0, device=device)
        pair = (x, x.data)
        again = pair[other].data
        pair[resized].resize_(8, 8)
        pair[resized].fill_(3)
        assert pair[other].tolist() == again.tolist() == [3.0] * 4
        pair[other].add_(1)
        assert pair[resized][0, :5].tolist() == [4, 4, 4, 4, 3]
        assert (pair[resized]._version, again._version) == (2, 0)


def test_data_counts_its_own_versions() -> None:
    x = gt.ones(3)
    twin = x.data
    twin.add_(1)
    assert (x._version, twin._version) == (0, 1) and x.tolist() == [2, 2, 2]


def test_set_to_data() -> None:
    x = gt.arange(9.0).view(3, 3)
    y = gt.empty(0).set_(x.data)
    with pytest.raises(RuntimeError, match="share part"):
        y.add_(x.t())


def test_assignments_from_itself(device: str) -> None:
    def fresh() -> Any:
        return gt.arange(9.0, device=device).view(3, 3)

    x = fresh()
    x[None] = x
    assert x.tolist() == fresh().tolist()
    for i in range(3):
        x = fresh()
        x[:] = x[i]
        assert x.tolist() == [fresh()[i].tolist()] * 3
        x = fresh()
        x[:] = x[:, i : i + 1]
        assert x.tolist() == fresh()[:, i : i + 1].expand(3, 3).tolist()
        x = fresh()
        assert x.fill_(x[i, i]).tolist() == gt.full((3, 3), 4.0 * i).tolist()
    with pytest.raises(RuntimeError, match="share part"):
        x[:] = x.t()


def test_meta_twins() -> None:
    x = gt.empty(3, 3, device="meta")
    with pytest.raises(RuntimeError, match="share part"):
        x.data.add_(x.t())
    x.data.add_(gt.empty(3, 3, device="meta").data)


def test_gaps_are_told_apart() -> None:
    whole = gt.zeros(4, 8)
    assert overlap.relation(whole[:, ::2], whole[:, 1::2]) == overlap.TOO_HARD
    overlap.check_apart("mm", whole[:, ::2], whole[:, 1::2], "self")
    with pytest.raises(RuntimeError, match="share memory"):
        overlap.check_apart("mm", whole[:, ::2], whole[:, 2:4], "self")
