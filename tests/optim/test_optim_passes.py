"""Steps in one pass over memory: the bits equal those of separate operators; cases in which
operators run."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import gputensor as gt
from gputensor.kernels.compiled import library
from gputensor.optim import passes

from ..harness import tier
from ..harness.launches import launched_kernels, on_emulator  # noqa: F401

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="passes are programs of the compiled library"
)

SIZES = [(3, 4), (), (0, 2), (130,), (16, 3, 3, 3), (40_000,), *[(n,) for n in range(1, 9)]]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("ASGD", {"t0": 2, "weight_decay": 0.1}),
    ("Adam", {"weight_decay": 0.1}),
    ("AdamW", {"amsgrad": True, "maximize": True}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {"weight_decay": 0.2}),
    ("Rprop", {}),
]


class Counts:
    """Counts the parameters that passes stepped, and those that operators stepped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.left = 0
        of = gt.optim.Optimizer
        by_pass, by_operators = of._set_numbers, of._step_by_operators

        def passed(*args: Any) -> None:
            by_pass(*args)
            self.passed += 1

        def left(*args: Any) -> None:
            by_operators(*args)
            self.left += 1

        monkeypatch.setattr(of, "_set_numbers", passed)
        monkeypatch.setattr(of, "_step_by_operators", left)


def _parameters(dtype: Any, sizes: Any = SIZES, device: str = "cpu") -> list[gt.Tensor]:
    gt.manual_seed(0)
    return [gt.randn(shape, device=device).to(dtype).requires_grad_() for shape in sizes]


def _set_gradients(params: list[gt.Tensor], seed: int) -> None:
    gt.manual_seed(seed)
    for p in params:
        p.grad = gt.randn(p.shape, device=p.device).to(p.dtype)


def _steps(name: str, options: dict[str, Any], params: list[gt.Tensor]) -> Any:
    optimizer = getattr(gt.optim, name)(params, 0.1, **options)
    for n in range(7):
        _set_gradients(params, n + 1)
        optimizer.step()
    return optimizer


def _values(optimizer: Any) -> list[Any]:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    states = [optimizer.state[p] for p in params]
    return [*[p.tolist() for p in params], *[
        (name, value.tolist() if isinstance(value, gt.Tensor) else value)
        for state in states for name, value in state.items()
    ]]  # fmt: skip


@pytest.mark.parametrize(
    "dtype",
    [gt.float32, gt.float64, gt.bfloat16, gt.float16],
    ids=lambda of: of[0] if isinstance(of, tuple) else str(of),
)
@pytest.mark.parametrize(
    "optimizer",
    OPTIMIZERS[:: tier.pick(2, 1)],
    ids=lambda of: of[0] if isinstance(of, tuple) else str(of),
)
def test_the_bits_of_operators(
    optimizer: tuple[str, dict[str, Any]], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, options = optimizer
    counts = Counts(monkeypatch)
    found = _values(_steps(name, options, _parameters(dtype)))
    # Operators write a buffer whose first value is a copy of the gradient.
    is_copied = name == "SGD" and "momentum" in options and "weight_decay" not in options
    first = len(SIZES) if is_copied else 0
    assert (counts.passed, counts.left) == (7 * len(SIZES) - first, first)
    monkeypatch.setattr(passes, "are_on", lambda: False)
    assert repr(found) == repr(_values(_steps(name, options, _parameters(dtype))))
    assert counts.left == first + 7 * len(SIZES)


def test_few_small_parameters_are_stepped_by_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(monkeypatch)
    _steps("Adam", {}, _parameters(gt.float32, [(3,), (1 << 17,)]))
    assert (counts.passed, counts.left) == (7, 7)


def test_a_write_is_counted() -> None:
    params = _parameters(gt.float32)
    loss = (params[3] * params[3]).sum()
    _steps("SGD", {}, params)
    assert params[3]._version == 7
    with pytest.raises(RuntimeError, match="version"):
        loss.backward()


@pytest.mark.parametrize("change", ["transposed", "expanded", "itself", "complex"])
def test_tensors_that_passes_leave_to_operators(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gradient(p: gt.Tensor) -> gt.Tensor:
        if change == "transposed":
            return gt.arange(9.0).reshape(3, 3).t()
        if change == "expanded":
            return gt.ones(3, 1).expand(3, 3)
        return p.detach() if change == "itself" else gt.full((3, 3), 1 + 2j)

    results = []
    for is_on in (True, False):
        counts = Counts(monkeypatch) if is_on else None
        dtype = gt.complex64 if change == "complex" else gt.float32
        params = _parameters(dtype, [(3, 3)] * 12)
        optimizer = gt.optim.Adagrad(params, 0.1)
        for p in params:
            p.grad = gradient(p)
        if not is_on:
            monkeypatch.setattr(passes, "are_on", lambda: False)
        optimizer.step()
        results.append(repr(_values(optimizer)))
        assert counts is None or (counts.passed, counts.left) == (0, 12)
    assert results[0] == results[1]


def test_a_rate_that_is_a_tensor_is_left_to_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(monkeypatch)
    params = _parameters(gt.float32)
    _set_gradients(params, 1)
    gt.optim.SGD(params, gt.tensor(0.1)).step()
    assert (counts.passed, counts.left) == (0, len(SIZES))


@pytest.mark.parametrize("block", ["fuse", "profile"])
def test_blocks_that_watch_operators_see_them(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Counts(monkeypatch)
    params = _parameters(gt.float32)
    _set_gradients(params, 1)
    with gt.fuse() if block == "fuse" else gt.profiler.profile() as seen:
        gt.optim.SGD(params, 0.1).step()
    assert (counts.passed, counts.left) == (0, len(SIZES))
    assert block == "fuse" or "add_" in str(seen)


def test_chains_still_may_delay_reads_of_parameters() -> None:
    params = _parameters(gt.float32)
    _steps("SGD", {}, params)
    assert {type(p._get_storage()).__name__ for p in params} == {"Storage"}


def test_a_failed_formula_changes_nothing() -> None:
    params = _parameters(gt.float32)
    _set_gradients(params, 1)
    optimizer = gt.optim.ASGD(params, 0.1, lambd=-1e4, alpha=0.5)
    before = [p.tolist() for p in params]
    with contextlib.suppress(gt.GpuTensorError):
        optimizer.step()
        pytest.fail("this rate is no real number")
    assert [p.tolist() for p in params] == before and not optimizer.state


# --- on CUDA --------------------------------------------------------------------------------------

OF_CUDA = [(*given, gt.float32) for given in OPTIMIZERS] + [("Adam", {}, gt.bfloat16)]


@on_emulator
@pytest.mark.parametrize("name, options, dtype", OF_CUDA[: tier.pick(1, None)])
def test_a_step_on_cuda_is_one_launch(
    name: str, options: dict[str, Any], dtype: Any, launched: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    results, counts = [], []
    for _ in (True, False):
        params = _parameters(dtype, device="cuda")
        optimizer = getattr(gt.optim, name)(params, 0.1, **options)
        for n in range(3):
            _set_gradients(params, n + 1)
            launched.clear()
            optimizer.step()
        results.append(repr(_values(optimizer)))
        counts.append(len(launched))
        monkeypatch.setattr(passes, "are_on", lambda: False)
    assert results[0] == results[1]
    with_elements = sum(0 not in shape for shape in SIZES)
    assert counts[0] == 1
    assert counts[1] >= (with_elements if name == "SGD" and not options else 3 * with_elements)


@on_emulator
def test_more_parameters_than_a_launch_takes(launched: list[str]) -> None:
    results = []
    for device in ("cuda", "cpu"):
        params = _parameters(gt.float32, [(n % 7 + 1, n % 3 + 1) for n in range(200)])
        params = [p.detach().to(device).requires_grad_() for p in params]
        optimizer = gt.optim.Adam(params, 0.1)
        gt.manual_seed(1)
        for p in params:
            p.grad = gt.randn(p.shape).to(device)
        optimizer.step()
        launched.clear()
        optimizer.step()
        assert launched == (["chain_lists"] * 3 if device == "cuda" else [])
        results.append(repr(_values(optimizer)))
    assert results[0] == results[1]


@on_emulator
@pytest.mark.parametrize("dtype", [gt.float32, gt.bfloat16])
def test_parameters_in_one_buffer_are_one_launch(
    dtype: Any, launched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their memory is dense, apart, and not aligned to 16 bytes."""
    gt.manual_seed(0)
    values, gradients = gt.randn(30_000).to(dtype), gt.randn(30_000).to(dtype)
    sizes = [1, 2, 3, 9_000, 5, 8_000, 7, 8, 4_000, 10, 11, 12, 8_000]
    sizes.append(30_000 - sum(sizes))
    results = []
    for is_on in (True, False):
        buffer = values.to("cuda", copy=True)
        params = [p.detach().requires_grad_() for p in buffer.split(sizes)]
        for p, grad in zip(params, gradients.to("cuda").split(sizes)):
            p.grad = grad
        if not is_on:
            monkeypatch.setattr(passes, "are_on", lambda: False)
        optimizer = gt.optim.SGD(params, 0.1, weight_decay=0.3)
        launched.clear()
        optimizer.step()
        results.append(buffer.tolist())
        assert (launched == ["chain_lists"]) == is_on
    assert results[0] == results[1]


@on_emulator
def test_parameters_that_overlap_are_stepped_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for is_on in (True, False):
        counts = Counts(monkeypatch)
        buffer = gt.arange(60.0, device="cuda")
        params = [buffer[n : n + 4].detach().requires_grad_() for n in range(12)]
        for p in params:
            p.grad = buffer[48:52]
        if not is_on:
            monkeypatch.setattr(passes, "are_on", lambda: False)
        gt.optim.SGD(params, 0.1).step()
        results.append(buffer.tolist())
        assert counts.passed == 12 * is_on
    assert results[0] == results[1]


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_emulator)])
def test_a_gradient_in_part_of_its_parameter_is_refused(device: str) -> None:
    buffer = gt.arange(48.0, device=device)
    params = [buffer[4 * n : 4 * n + 3].detach().requires_grad_() for n in range(12)]
    for n, p in enumerate(params):
        p.grad = buffer[4 * n + 1 : 4 * n + 4]
    with pytest.raises(gt.GpuTensorError, match="share part of its memory"):
        gt.optim.SGD(params, 0.1).step()
    assert gt.equal(buffer.cpu(), gt.arange(48.0))


def test_a_parameter_that_is_listed_twice_is_stepped_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results = []
    for is_on in (True, False):
        params = _parameters(gt.float32)
        _set_gradients(params, 1)
        with pytest.warns(UserWarning, match="twice"):
            optimizer = gt.optim.Adam([*params, params[3], params[4]], 0.1)
        if not is_on:
            monkeypatch.setattr(passes, "are_on", lambda: False)
        optimizer.step()
        assert optimizer.state[params[3]]["step"] == 2
        results.append(repr(_values(optimizer)))
    assert results[0] == results[1]
