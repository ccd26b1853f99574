"""gt.backend.register: features that need only a runtime, errors, and complete removal."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor import runtime as runtimes
from gputensor.core import device as devices
from gputensor.core import errors
from gputensor.dispatch import backend_select, dispatcher
from gputensor.kernels import stub

from .devices import Runtime, runs


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def acme(runtime: Runtime) -> Iterator[Any]:
    with gt.backend.register("acme", "PrivateUse2", runtime=runtime) as device:
        yield device


def test_generators_of_the_device() -> None:
    with gt.backend.register("acme", runtime=Runtime()) as device:
        device.register_stub(
            "random", runs(lambda op, out, seed, first, *_: out.fill(seed + first)), "uniform"
        )
        made = gt.Generator(device="acme")
        assert str(made.device) == "acme:0" and made.manual_seed(7).initial_seed() == 7
        x = gt.empty(4, device="acme")
        assert x.uniform_(generator=made).cpu().tolist() == [7] * 4
        assert x.uniform_(generator=made).cpu().tolist() == [8] * 4
        state = made.get_state()
        assert x.uniform_(generator=made).cpu().tolist() == [9] * 4
        made.set_state(state)
        assert x.uniform_(generator=made).cpu().tolist() == [9] * 4
        gt.acme.manual_seed(30)
        assert gt.acme.initial_seed() == 30 and gt.rand(1, device="acme").item() == 30
        gt.acme.manual_seed_all(50)
        assert [gt.rand(1, device=f"acme:{n}").item() for n in (0, 1)] == [50, 50]
        with pytest.raises(
            errors.DeviceError, match="'generator' must be of a device of type acme .got cpu"
        ):
            x.uniform_(generator=gt.Generator())
        assert x.cpu().tolist() == [9] * 4
    gt.manual_seed(3)
    assert gt.initial_seed() == 3


def matrix(device: str = "acme") -> Any:
    return gt.arange(6).reshape(2, 3).float().to(device)


# --- features that need only a runtime ------------------------------------------------------------


def test_the_minimal_operators_follow_from_the_runtime(acme: Any) -> None:
    assert len(gt.backend.MINIMAL) == 12
    for name in gt.backend.MINIMAL:
        assert acme.has_native(name), name


def test_tensors_carry_the_keys_of_their_backend(acme: Any) -> None:
    x = matrix()
    assert "PrivateUse2" in gt.dispatch.key_set(x) and "AutogradPrivateUse2" in gt.dispatch.key_set(
        x
    )
    assert gt.device("acme:1") is gt.device("privateusetwo:1") is gt.device("acme", 1)
    assert repr(x).endswith("device='acme:0')")


@pytest.mark.parametrize("place", ["acme", "acme:1"])
def test_bytes_cross_in_both_directions_and_any_layout(acme: Any, place: str) -> None:
    x = matrix(place)
    assert x.t().cpu().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x[:, 1].cpu().tolist() == [1, 4] and x[1, 2].item() == 5
    assert gt.ones(2, 3).copy_(x.t().t()[:, :1]).tolist() == [[0, 0, 0], [3, 3, 3]]
    x[:, 1:].copy_(gt.tensor([[7], [8]]))  # the copy broadcasts and casts; the gap is unchanged
    assert x.tolist() == [[0, 7, 7], [3, 8, 8]]
    assert x.cpu().double().to(place).dtype is gt.float64


def test_devices_of_one_type_wait_for_each_other(acme: Any, runtime: Runtime) -> None:
    with acme.module.device(0):
        x = matrix("acme:0")
    acme.register_stub("copy", lambda op, plan: None)  # dense bytes need no copy kernel
    runtime.log.clear()
    y = x.to("acme:1")
    assert runtime.log == [
        "allocate 24 on 1", "record_event", "wait_event", "copy 24 from 0 to 1", "record_event",
        "wait_event",
    ]  # fmt: skip
    assert y.tolist() == x.tolist()


def test_three_devices_at_once_and_copies_between_them() -> None:
    names = {"one": "PrivateUse1", "two": "PrivateUse2", "three": "PrivateUse3"}
    made = [gt.backend.register(n, k, runtime=Runtime()) for n, k in names.items()]
    try:
        x = gt.arange(3)
        for name in names:
            x = x.to(name)
            assert x.device.type == name and x.tolist() == [0, 1, 2]
        assert x.one().two().is_two
        made[1].remove()
        with pytest.raises(gt.GpuTensorError):
            gt.device("two")
        assert gt.arange(2).one().three().tolist() == [0, 1]
    finally:
        for device in made:
            device.remove()


def test_cuda_and_a_further_device_meet_on_the_host(acme: Any) -> None:
    if not gt.cuda.is_available():
        pytest.skip("no CUDA device, real or emulated")
    x = gt.arange(6).reshape(2, 3)
    assert x.cuda().to("acme").tolist() == x.tolist()
    assert x.to("acme").t().cuda().tolist() == x.t().tolist()


def test_resize_and_set_keep_bytes(acme: Any) -> None:
    x = matrix()
    x.resize_(2, 4)
    assert x.view(-1)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    y = gt.empty(0, device="acme").set_(x.untyped_storage(), 1, (2,), (2,))
    assert y.tolist() == [1, 3] and y.untyped_storage().is_acme


def test_tensors_save_copy_and_pickle(acme: Any) -> None:
    x = matrix("acme:1").t()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.device is x.device and y.tolist() == x.tolist() and y.stride() == x.stride()
    file = io.BytesIO()
    gt.save({"x": x}, file)
    file.seek(0)
    assert gt.load(file)["x"].device is x.device


def test_the_module_has_what_cuda_has(acme: Any, runtime: Runtime) -> None:
    assert gt.acme is acme.module and gt.acme.is_available() and gt.acme.device_count() == 2
    with gt.acme.device("acme:1"):
        assert gt.acme.current_device() == 1 and gt.empty(1, device="acme").device.index == 1
    assert gt.acme.current_device() == 0
    gt.acme.set_device(1)
    gt.acme.synchronize()
    assert runtime.log[-1] == "synchronize 1" and gt.acme.current_stream(0) is runtime.stream
    with pytest.raises(errors.DeviceError, match="2"):
        gt.acme.set_device(2)
    with pytest.raises(errors.ArgumentError, match="be of type acme"):
        gt.acme.synchronize("cpu")
    with pytest.raises(AttributeError, match="gputensor.acme: its runtime has no 'Event'"):
        gt.acme.Event()


def test_optional_parts_of_the_runtime_are_used(acme: Any, runtime: Runtime) -> None:
    acme.register_stub("fill", lambda op, plan: None)
    seen: list[Any] = []
    runtime.memset_async = lambda *given: seen.append(given[1:4])  # type: ignore[attr-defined]
    gt.zeros(3, device="acme:1")
    assert seen == [(0, 12, 1)]


# --- errors that say what to write ----------------------------------------------------------------


@pytest.mark.parametrize("call, operator, advice", [
    (lambda x: x.abs(), "abs", "bring a stub of family 'unary' for 'abs'"),
    (lambda x: x + 1, "add", "bring a stub of family 'binary' for 'add'"),
    (lambda x: x.sum(), "sum", "bring a stub of family 'reduce' for 'sum'"),
    (lambda x: x @ x.t(), "mm", "bring a stub of family 'matmul' for 'mm'"),
    (lambda x: x.t().contiguous(), "copy_", "bring a stub of family 'copy' for 'copy'"),
    (lambda x: x.flip(0), "flip", "bring a stub of family 'copy' for 'copy'"),
    (lambda x: x.fill_(1), "fill_", "bring a stub of family 'fill' for 'fill'"),
    (lambda x: gt.ones(2, device=x.device), "fill_", "bring a stub of family 'fill' for 'fill'"),
    (lambda x: gt.arange(3, device=x.device), "arange", "bring a stub of family 'range' for "
                                                        "'arange'"),
    (lambda x: gt.linspace(0, 1, 3, device=x.device), "linspace", "bring a stub of family 'range' "
                                                                  "for 'linspace'"),
    (lambda x: gt.eye(3, device=x.device), "eye", "bring a stub of family 'range' for 'eye'"),
    (lambda x: gt.rand(3, device=x.device), "uniform_", "bring a stub of family 'random' for "
                                                        "'uniform'"),
])  # fmt: skip
def test_a_missing_kernel_names_the_next_one_to_write(
    acme: Any, call: Any, operator: str, advice: str
) -> None:
    with pytest.raises(errors.DispatchError) as raised:
        call(matrix())
    first = str(raised.value).splitlines()[0]
    assert first.startswith(f"{operator}: no kernel for key PrivateUse2 (acme)"), first
    assert advice in first and first.endswith("or cpu_fallback=True")


@pytest.mark.parametrize(
    "name", ["cpu", "cuda", "add", "Acme", "a-b", "class", "", 3, "float", "backend", "t"]
)
def test_a_name_must_be_free_and_an_identifier(name: Any, runtime: Runtime) -> None:
    with pytest.raises(errors.GpuTensorError, match="'name' must"):
        gt.backend.register(name, runtime=runtime)


def test_a_key_serves_one_device_at_a_time(acme: Any, runtime: Runtime) -> None:
    with pytest.raises(
        errors.RegistrationError,
        match=r"PrivateUse2 must be free for 'emca' \(got 'acme', registered at .*test_register.py",
    ):
        gt.backend.register("emca", "PrivateUse2", runtime=runtime)
    with pytest.raises(errors.GpuTensorError, match="'name' must"):
        gt.backend.register("acme", "PrivateUse3", runtime=runtime)
    with pytest.raises(errors.ArgumentError, match="'backend' must be one of PrivateUse1"):
        gt.backend.register("emca", "CUDA", runtime=runtime)


def test_a_runtime_that_lacks_something_is_refused_and_nothing_stays() -> None:
    class Half:
        def device_count(self) -> int:
            return 1

    before = state()
    with pytest.raises(
        errors.RegistrationError,
        match="partial: the runtime must have current_device, exchange_device, allocate",
    ):
        gt.backend.register("partial", runtime=Half())
    assert state() == before


def test_an_index_that_is_not_there_is_refused(acme: Any) -> None:
    with pytest.raises(errors.DeviceError, match="2"):
        gt.empty(1, device="acme:2")


# --- removal --------------------------------------------------------------------------------------


def state() -> Any:
    """Return all state that a registration may change."""
    return (
        {o.qualified_name: {k.name: len(s) for k,
        s in o.kernels.items()} for o in dispatcher.operators()},
        dict(backend_select.BACKEND_OF_TYPE), dict(backend_select.TENSOR_KEYS),
        dict(backend_select._current_index),
        dict(backend_select.remedies), set(devices._TYPES), dict(devices._ALIASES),
        dict(stub._registered),
        dict(runtimes._further), set(vars(gt.Tensor)), set(vars(gt.Storage)),
        set(dispatcher.fallbacks()), [b.name for b in gt.backend.registered()],
    )  # fmt: skip


def test_removal_leaves_nothing_behind(runtime: Runtime) -> None:
    before = state()
    device = gt.backend.register("acme", runtime=runtime, cpu_fallback=True)
    device.register_stub("unary", lambda op, plan: stub.nothing, "abs")
    device.impl("aten::mm", lambda self, mat2: self)
    x = matrix()
    device.remove()
    device.remove()
    assert state() == before and not hasattr(gt, "acme")
    for call in (
        lambda: x + 1,
        lambda: x.cpu(),
        lambda: gt.empty(1, device=x.device),
        lambda: x.clone(),
    ):
        with pytest.raises(errors.GpuTensorError):
            call()
    with pytest.raises(errors.RegistrationError, match="be registered, but was removed"):
        device.register_stub("unary", lambda op, plan: stub.nothing)


def test_a_name_that_comes_back_means_the_same_devices(runtime: Runtime) -> None:
    with gt.backend.register("acme", "PrivateUse1", runtime=runtime):
        x = matrix("acme:1")
    with gt.backend.register("acme", "PrivateUse1", runtime=runtime):
        assert gt.device("acme:1") is x.device and x.cpu().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_devices_come_and_go_while_others_work() -> None:
    stop, failures = threading.Event(), []

    def work() -> None:
        a = gt.ones(4)
        while not stop.is_set():
            if (a + a).tolist() != [2.0] * 4:
                failures.append(1)

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(20):
        with gt.backend.register("acme", runtime=Runtime()):
            assert matrix().cpu().tolist() == [[0, 1, 2], [3, 4, 5]]
    stop.set()
    worker.join()
    assert not failures


def test_a_package_without_methods(runtime: Runtime) -> None:
    with gt.backend.register("acme", runtime=runtime, generate_methods=False):
        assert not hasattr(gt.Tensor, "acme") and gt.empty(1, device="acme").device.type == "acme"
