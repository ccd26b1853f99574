"""gt.autocast: casts, nesting, threads and tasks, decorators, errors."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core import errors
from gputensor.dispatch import tls
from tests.backend.devices import Runtime

pytestmark = pytest.mark.filterwarnings("ignore::gputensor.core.errors.FallbackWarning")

DEVICES = ["cpu", "cuda", "pretended"]
LOW = {"cpu": gt.bfloat16, "cuda": gt.float16, "pretended": gt.bfloat16}
OTHER = {gt.bfloat16: gt.float16, gt.float16: gt.bfloat16}


@pytest.fixture(autouse=True)
def pretended() -> Iterator[Any]:
    with gt.backend.register("pretended", runtime=Runtime(), cpu_fallback=True) as device:
        device.register_autocast((gt.bfloat16, gt.float16))
        yield device


def matrix(device: str, dtype: Any = gt.float32, **options: Any) -> gt.Tensor:
    return (
        gt.arange(9)
        .reshape(3, 3)
        .to(dtype)
        .to(device)
        .requires_grad_(options.get("requires_grad", False))
    )


# --- policies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_products_are_computed_in_the_lower_precision(device: str) -> None:
    x, low = matrix(device), LOW[device]
    with gt.autocast(device):
        y = x @ x
        assert x.mm(x).dtype is y.dtype is low
        assert (y @ x).dtype is low and (x.to(OTHER[low]) @ y).dtype is low
        assert (x + y).dtype is gt.float32 and (y + y).dtype is low  # no policy: ordinary promotion
    assert y.device.type == device and y.float().tolist() == (x @ x).tolist()
    assert (x @ x).dtype is gt.float32


@pytest.mark.parametrize("device", DEVICES)
def test_what_loses_too_much_is_computed_in_float32(device: str) -> None:
    x = (matrix(device) / 8).to(LOW[device])
    with gt.autocast(device):
        # as in PyTorch; the CPU has another list
        expected = LOW[device] if device == "cpu" else gt.float32
        assert x.exp().dtype is x.sum().dtype is x.sum(0).dtype is expected
        assert x.sum(dtype=LOW[device]).dtype is LOW[device]
        assert x.double().sum().dtype is gt.float64
        assert gt.tensor([1, 2], device=device).sum().dtype is gt.int64


def test_joined_tensors_are_promoted_on_the_cpu() -> None:
    x = matrix("cpu")
    with gt.autocast("cpu"):
        assert gt.cat([x.bfloat16(), x]).dtype is gt.float32
        assert gt.stack([x.bfloat16(), x.bfloat16()]).dtype is gt.bfloat16
        assert gt.cat([x.bfloat16(), x.double()]).dtype is gt.float64
        # PyTorch raises here; ordinary promotion finds a dtype for both
        assert gt.cat([x.half(), x.bfloat16()]).dtype is gt.float32
        pairs = x[:, :2].contiguous().bfloat16()
        assert gt.view_as_complex(pairs).dtype is gt.complex64


@pytest.mark.parametrize("device", DEVICES)
def test_only_floating_tensors_that_are_not_double_are_cast(device: str) -> None:
    with gt.autocast(device):
        for dtype in (gt.float64, gt.int64, gt.complex64):
            x = matrix("cpu", dtype).to(device)
            assert x.mm(x).dtype is dtype
        with pytest.raises(errors.DtypeError):
            matrix(device).mm(matrix(device, gt.float64))


def test_other_devices_are_left_alone() -> None:
    with gt.autocast("cuda"):
        assert matrix("cpu").mm(matrix("cpu")).dtype is gt.float32
        last = f"cuda:{gt.cuda.device_count() - 1}"
        assert matrix(last).mm(matrix(last)).dtype is gt.float16
        with gt.autocast("cpu"):
            assert matrix("cpu").mm(matrix("cpu")).dtype is gt.bfloat16
            assert matrix("cuda").mm(matrix("cuda")).dtype is gt.float16
            meta = matrix("cpu").to("meta")
            assert meta.mm(meta).dtype is gt.float32
            with pytest.raises(errors.DeviceError, match="cpu.*cuda|cuda.*cpu"):
                matrix("cpu").mm(matrix("cuda"))


@pytest.mark.parametrize("device", DEVICES)
def test_factories_writes_and_out_forms_are_not_autocast(device: str) -> None:
    x = matrix(device)
    with gt.autocast(device):
        assert gt.ones(2, device=device).dtype is gt.zeros_like(x).dtype is gt.float32
        kept = x.clone()
        assert kept.exp_() is kept and kept.dtype is gt.float32
        assert gt.mm(x, x, out=gt.empty(3, 3, device=device)).dtype is gt.float32
        with pytest.raises(errors.DtypeError):
            gt.mm(x, x.to(LOW[device]), out=gt.empty(3, 3, device=device))


def test_the_trace_shows_the_key_and_that_it_is_left_below() -> None:
    x = matrix("cpu")
    with gt.autocast("cpu"), gt.dispatch.trace() as lines:
        x @ x
    assert lines[0] == "[call] op=[aten::matmul], key=[AutocastCPU]"
    assert sum("Autocast" in line for line in lines) == 1
    assert " [call] op=[aten::_to_copy], key=[AutogradCPU]" in lines


def test_a_call_without_autocast_meets_nothing_of_it() -> None:
    x = matrix("cpu")
    before = tls.state.get()
    assert not before[1] & tls.AUTOCAST
    with gt.autocast("cpu"):
        x @ x
    assert tls.state.get() == before
    with gt.dispatch.trace() as lines:
        x @ x
    assert lines[0] == "[call] op=[aten::matmul], key=[AutogradCPU]"


# --- blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_blocks_nest(device: str) -> None:
    x, low = matrix(device), LOW[device]
    seen = lambda: x.mm(x).dtype  # noqa: E731
    assert not gt.is_autocast_enabled(device)
    with gt.autocast(device):
        assert gt.is_autocast_enabled(device) and gt.get_autocast_dtype(device) is seen() is low
        with gt.autocast(device, enabled=False):
            assert not gt.is_autocast_enabled(device) and seen() is gt.float32
            with gt.autocast(device, OTHER[low]):
                assert seen() is OTHER[low]
            assert seen() is gt.float32
        with gt.autocast(device, dtype=OTHER[low]):
            assert seen() is gt.get_autocast_dtype(device) is OTHER[low]
        assert seen() is low
        with pytest.raises(ZeroDivisionError), gt.autocast(device, enabled=False):
            1 / 0  # noqa: B018
        assert seen() is low
    assert seen() is gt.float32 and gt.get_autocast_dtype(device) is low


def test_a_failing_operator_leaves_the_block_as_it_was() -> None:
    with gt.autocast("cpu"):
        before = tls.state.get()
        with pytest.raises(errors.ShapeError):
            matrix("cpu").mm(gt.ones(4, 4))
        assert tls.state.get() == before


def test_one_object_may_be_entered_twice_and_by_several_threads() -> None:
    block, seen = gt.autocast("cpu"), []
    inside, done = threading.Barrier(2), threading.Barrier(2)

    def work() -> None:
        with block:
            inside.wait()
            seen.append(gt.is_autocast_enabled("cpu"))
            done.wait()
        seen.append(gt.is_autocast_enabled("cpu"))

    with block, block:
        other = threading.Thread(target=work)
        other.start()
        inside.wait()
    assert not gt.is_autocast_enabled("cpu")
    done.wait()
    other.join()
    assert seen == [True, False]


def test_threads_start_without_it_and_tasks_with_what_made_them() -> None:
    seen = []

    async def task(name: str) -> None:
        seen.append((name, gt.is_autocast_enabled("cpu")))
        with gt.autocast("cpu", enabled=name == "on"):
            await asyncio.sleep(0)
            seen.append((name, gt.is_autocast_enabled("cpu")))

    async def both() -> None:
        with gt.autocast("cpu"):
            await asyncio.gather(task("on"), task("off"))
            assert gt.is_autocast_enabled("cpu")

    asyncio.run(both())
    assert sorted(seen) == [("off", False), ("off", True), ("on", True), ("on", True)]
    with gt.autocast("cpu"):
        thread = threading.Thread(
            target=lambda: seen.append(("thread", gt.is_autocast_enabled("cpu")))
        )
        thread.start()
        thread.join()
    assert seen[-1] == ("thread", False)


def test_as_a_decorator() -> None:
    @gt.autocast("cpu")
    def product(x: gt.Tensor, depth: int = 0) -> Any:
        """Told."""
        return product(x, depth - 1) if depth else x.mm(x).dtype

    @gt.autocast("cpu", gt.float16)
    async def later(x: gt.Tensor) -> Any:
        await asyncio.sleep(0)
        return x.mm(x).dtype

    assert product.__doc__ == "Told." and product(matrix("cpu"), 2) is gt.bfloat16
    assert (
        asyncio.run(later(matrix("cpu"))) is gt.float16
    )  # PyTorch leaves before the coroutine runs
    assert not gt.is_autocast_enabled("cpu")

    @gt.autocast("cpu")
    def steps() -> Iterator[Any]:
        yield matrix("cpu").mm(matrix("cpu")).dtype

    for seen in steps():
        assert seen is gt.bfloat16 and not gt.is_autocast_enabled("cpu")
    with pytest.raises(TypeError, match="autocast: 'func' must be callable"):
        gt.autocast("cpu")(3)  # type: ignore[arg-type]


def test_the_state_can_be_set_without_a_block() -> None:
    def work() -> list[Any]:
        gt.set_autocast_enabled("cpu", True)
        gt.set_autocast_dtype("cpu", gt.float16)
        gt.set_autocast_cache_enabled(False)
        found = [matrix("cpu").mm(matrix("cpu")).dtype, gt.is_autocast_cache_enabled()]
        gt.set_autocast_enabled("cpu", False)
        return [*found, matrix("cpu").mm(matrix("cpu")).dtype]

    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.extend(work()))
    thread.start()
    thread.join()
    assert results == [gt.float16, False, gt.float32]
    assert gt.get_autocast_dtype("cpu") is gt.bfloat16 and gt.is_autocast_cache_enabled()


# --- errors ---------------------------------------------------------------------------------------


def test_devices_and_dtypes_that_it_does_not_know() -> None:
    assert [gt.amp.is_autocast_available(d) for d in (*DEVICES, "meta")] == [
        True,
        True,
        True,
        False,
    ]
    assert gt.amp.autocast is gt.autocast
    with pytest.raises(
        RuntimeError,
        match=r"^autocast: 'device_type' must be one of cpu, cuda, pretended \(got 'meta'\)$",
    ):
        gt.autocast("meta")
    with pytest.raises(RuntimeError, match="must be one of"):
        gt.autocast("nonsense")
    with pytest.raises(ValueError, match="'device_type' must be a str"):
        gt.autocast(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'dtype' must be a dtype"):
        gt.autocast("cpu", "float16")  # type: ignore[arg-type]
    with pytest.raises(
        RuntimeError, match=r"'dtype' must be one of bfloat16, float16 \(got 'float32'\)"
    ):
        gt.set_autocast_dtype("cpu", gt.float32)
    with pytest.warns(
        errors.AutocastWarning,
        match="'cpu' supports bfloat16, float16 .got float32.; the block runs without",
    ):
        block = gt.autocast("cpu", gt.float32)
    with block:
        assert not gt.is_autocast_enabled("cpu") and gt.get_autocast_dtype("cpu") is gt.bfloat16


def test_without_cuda_the_block_warns_and_runs_without() -> None:
    code = """
import warnings, gputensor as gt
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with gt.autocast("cuda"):
        print(gt.is_autocast_enabled("cuda"), (gt.ones(2, 2) @ gt.ones(2, 2)).dtype)
    print(gt.amp.GradScaler().is_enabled())
for w in caught:
    print(w.category.__name__, w.filename.rpartition("/")[2], w.message)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"GPUTENSOR_CUDA": "off"},
        capture_output=True,
        text=True,
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["False gputensor.float32", "False"], done.stderr
    assert lines[2].startswith("AutocastWarning <string> autocast: there is no CUDA device (")
    assert lines[3].startswith("AutocastWarning <string> GradScaler: there is no CUDA device (")


# --- handlers -------------------------------------------------------------------------------------


def test_a_mode_sees_the_casts_and_the_operator() -> None:
    seen = []

    class Noting(gt.DispatchMode):
        def __gputensor_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(op.short_name)
            assert not gt.is_autocast_enabled("cpu")
            return op(*args, **(kwargs or {}))

    w = matrix("cpu", requires_grad=True)
    with gt.autocast("cpu"), Noting():
        w.mm(w)
    assert seen == ["_to_copy", "_to_copy", "mm"]  # casts within a mode are not cached
