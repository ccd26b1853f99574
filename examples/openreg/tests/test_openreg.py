"""Tests of the device as a user sees it: memory, streams, events, operators, and complete
removal."""

from __future__ import annotations

import gputensor as gt
import pytest
from gputensor_openreg import bring_up, runtime

pytestmark = pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")


@pytest.fixture(autouse=True)
def device():
    with bring_up() as made:
        yield made


def matrix(device="openreg"):
    return gt.arange(6).reshape(2, 3).float().to(device)


def test_the_minimal_operators_are_native(device):
    assert [name for name in gt.backend.MINIMAL if not device.has_native(name)] == []


def test_tensors_come_and_go():
    x = matrix("openreg:1")
    assert x.device == gt.device("openreg:1") and x.is_openreg and not x.cpu().is_openreg
    assert x.t().cpu().tolist() == [[0, 3], [1, 4], [2, 5]] and x[1, 2].item() == 5
    assert x.cpu().openreg(0).to("openreg:1").tolist() == x.tolist()
    assert gt.tensor([1, 2]).openreg().device.index == gt.openreg.current_device() == 0


def test_views_share_memory_and_resize_keeps_it():
    x = matrix()
    x.view(-1)[1:3].copy_(gt.tensor([7.0, 8.0]))
    assert x.tolist() == [[0, 7, 8], [3, 4, 5]]
    x.resize_(9)
    assert x[:6].tolist() == [0, 7, 8, 3, 4, 5]


def test_a_native_kernel_sees_strides_and_makes_no_copy():
    x = matrix() - 2
    gt.openreg.synchronize()
    before = runtime.memory_allocated()
    with gt.dispatch.trace() as lines:
        y = x.t()[1:].abs()
    assert not any("contiguous" in line or "clone" in line or "copy" in line for line in lines)
    gt.openreg.synchronize()
    assert runtime.memory_allocated() == before + y.numel() * 4
    assert y.tolist() == [[1, 2], [0, 3]] and y.stride() == (1, 2)


def test_what_has_no_kernel_runs_on_the_cpu():
    x = matrix()
    y = (x + x.t().t() * 2).sum(0)
    assert y.is_openreg and y.tolist() == [9, 15, 21]
    x.add_(1)
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_devices_are_guarded():
    assert gt.openreg.device_count() == 2
    with gt.openreg.device(1):
        assert gt.empty(2, device="openreg").device.index == 1
    assert gt.openreg.current_device() == 0
    with pytest.raises(gt.GpuTensorError, match="2"):
        gt.empty(2, device="openreg:2")
    with pytest.raises(gt.GpuTensorError, match="must be on one device"):
        gt.cat([matrix("openreg:0"), matrix("openreg:1")])


def test_a_device_cannot_reach_another_ones_memory():
    x = matrix("openreg:1")
    with pytest.raises(runtime.Fault, match="device 0 cannot reach"):
        runtime.reach(x.data_ptr(), 4, 0)
    with pytest.raises(runtime.Fault, match="cannot reach 28 bytes"):
        runtime.reach(x.data_ptr(), 28, 1)


def test_memory_is_given_back():
    before = runtime.memory_allocated()
    x = gt.empty(1000, device="openreg")
    assert runtime.memory_allocated() == before + 4000
    del x
    assert runtime.memory_allocated() == before


def test_work_waits_in_its_stream():
    stream = gt.openreg.Stream()
    x = matrix()
    with gt.openreg.stream(stream):
        y = x.abs()
    assert not stream.query()
    gt.openreg.current_stream().wait_event(stream.record_event())
    assert y.tolist() == x.tolist() and stream.query()
    gt.openreg.synchronize()


def test_events_take_time_and_raise_when_wrong():
    stream = gt.openreg.default_stream(0)
    begin, end = gt.openreg.Event(True), gt.openreg.Event(True)
    for ask in (begin.query, begin.synchronize, begin.wait):
        with pytest.raises(runtime.Fault, match="not recorded"):
            ask()
    begin.record(stream)
    matrix().abs()
    end.record(stream)
    assert not end.query()
    with pytest.raises(runtime.Fault, match="have passed"):
        begin.elapsed_time(end)
    end.synchronize()
    assert begin.elapsed_time(end) >= 0
    with pytest.raises(runtime.Fault, match="enable_timing"):
        begin.elapsed_time(stream.record_event())
    with pytest.raises(runtime.Fault, match="of device 0"):
        end.record(gt.openreg.default_stream(1))


def test_an_operator_of_its_own():
    x, y = matrix(), matrix() + 1
    assert gt.ops.openreg.axpy(x.t(), y.t(), 2.0).cpu().tolist() == [[1, 10], [4, 13], [7, 16]]
    assert gt.ops.openreg.axpy(x.cpu(), y.cpu()).tolist() == [[1, 3, 5], [7, 9, 11]]
    with pytest.raises(runtime.Fault, match="device 0 cannot reach"):
        gt.ops.openreg.axpy(x, y.to("openreg:1"))
    for place in ("openreg:1", "cpu"):
        for a, b in ((x, y), (x.t(), y.t()), (x[:, 1], y[:, 1]), (x[:0], y[:0])):
            a, b = a.to(place).requires_grad_(), b.to(place).requires_grad_()
            checked = gt.library.opcheck(gt.ops.openreg.axpy, (a, b, 3.0))
            assert set(checked.values()) == {"SUCCESS"}


def test_it_goes_without_trace(device):
    x = matrix()
    device.remove()
    assert not hasattr(x, "openreg") and not hasattr(x, "is_openreg")
    assert not hasattr(gt, "openreg")
    with pytest.raises(gt.GpuTensorError, match="must be one of"):
        gt.device("openreg")
    with pytest.raises(gt.GpuTensorError, match="no kernel for key PrivateUse1"):
        x.abs()


def test_without_the_fallback_the_error_names_what_to_write(device):
    device.remove()
    with bring_up(cpu_fallback=False):
        what = "exp: no kernel .* bring a stub of family 'unary' for 'exp'"
        with pytest.raises(gt.GpuTensorError, match=what):
            matrix().exp()
        assert matrix().t().abs().tolist() == [[0, 3], [1, 4], [2, 5]]


def test_autocast_knows_the_device(device):
    if device.key != "PrivateUse1":
        pytest.skip("autocast has a key for PrivateUse1 alone")
    x = matrix().requires_grad_()
    with gt.autocast("openreg"):
        # mm runs in float16; abs runs in float32 by a policy of this device
        y = x.mm(x.t()).abs()
        assert x.mm(x.t()).dtype is gt.float16 and y.dtype is gt.float32
        with gt.autocast("openreg", gt.bfloat16):
            assert x.mm(x.t()).dtype is gt.bfloat16
    y.sum().backward()
    assert x.grad.is_openreg and x.grad.dtype is gt.float32
    assert x.grad.tolist() == [[6, 10, 14], [6, 10, 14]]
