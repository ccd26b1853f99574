"""CUDA graphs: a replay has the results of the calls, on memory reserved for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gputensor as gt
from gputensor import runtime
from gputensor.core import errors
from gputensor.kernels import cublas
from gputensor.nn import functional as F
from gputensor.runtime import capture

CUDA = "cuda:0"


@pytest.fixture(autouse=True)
def _all_is_over() -> Iterator[None]:
    before = gt.cuda.current_stream(CUDA)
    yield
    assert not capture.capturing and gt.cuda.current_stream(CUDA).key == before.key


def arange(n: int, device: str = CUDA) -> gt.Tensor:
    return gt.arange(n, dtype=gt.float32).to(device)


def captured(function: Callable[..., Any], *args: Any, **how: Any) -> tuple[Any, Any]:
    """Return the graph of a call and the call's result. A first call loads the kernels."""
    gt.cuda.synchronize(CUDA)
    with gt.cuda.stream(gt.cuda.Stream(CUDA)):
        function(*args)
    gt.cuda.synchronize(CUDA)
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g, **how):
        made = function(*args)
    return g, made


# --- replays --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("order")
def test_a_replay_is_the_calls_on_what_the_inputs_hold_now() -> None:
    def program(x: gt.Tensor, y: gt.Tensor) -> tuple[gt.Tensor, ...]:
        z = (x * 2 + y).t().contiguous()
        y.add_(1)
        return z, z.sum(1), z @ x, z.zero_().clone(), x * (x > 3)

    x, y = arange(12).view(3, 4), arange(12).view(3, 4) * 0.5
    g, made = captured(program, x, y)
    for step in range(3):
        x.copy_(arange(12).view(3, 4) - step)
        other = y.clone()
        g.replay()
        for got, wanted in zip(made, program(x, other)):
            assert got.tolist() == wanted.tolist(), step
        assert y.tolist() == other.tolist()


@pytest.mark.usefixtures("order")
def test_nothing_runs_in_a_capture() -> None:
    x = gt.zeros(4, device=CUDA)
    g, _ = captured(lambda: x.add_(1))
    assert x.tolist() == [1.0] * 4, "of the call before the capture"
    g.replay()
    g.replay()
    assert x.tolist() == [3.0] * 4


@pytest.mark.usefixtures("order")
def test_streams_that_join_and_are_waited_for(tmp_path: Path) -> None:
    x, side = arange(8), gt.cuda.Stream(CUDA)

    def program() -> gt.Tensor:
        main = gt.cuda.current_stream(CUDA)
        side.wait_stream(main)
        with gt.cuda.stream(side):
            a = x * 3
            for _ in range(4):
                a = a + 1
        b = x * 5
        main.wait_stream(side)
        return a + b

    g, made = captured(program)
    g.debug_dump(str(tmp_path / "graph.dot"))
    assert "->" in (tmp_path / "graph.dot").read_text()
    for step in range(3):
        x.add_(step)
        g.replay()
        assert made.tolist() == (x * 8 + 4).tolist()


def test_a_side_stream_that_is_not_waited_for() -> None:
    x, side = arange(8), gt.cuda.Stream(CUDA)
    x + 1
    g = gt.cuda.CUDAGraph()
    with pytest.raises(errors.DeviceError, match="capture_end: .* has not waited for"):
        with gt.cuda.graph(g):
            side.wait_stream(gt.cuda.current_stream(CUDA))
            with gt.cuda.stream(side):
                x + 1
    assert (x + 1).tolist() == list(range(1, 9)), "the side stream runs again"
    with gt.cuda.stream(side):
        assert (x + 1).tolist() == list(range(1, 9))


def test_work_outside_is_not_waited_for_within() -> None:
    event = gt.cuda.Event()
    event.record(gt.cuda.Stream(CUDA))
    with pytest.raises(errors.DeviceError, match="wait_event: .* for what is not captured"):
        with gt.cuda.graph(gt.cuda.CUDAGraph()):
            event.wait()
    inner = gt.cuda.Event()
    x = arange(4)
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g):
        x.zero_()
        inner.record()
    for call in (inner.synchronize, inner.query):
        with pytest.raises(errors.DeviceError, match="it waits for the device"):
            call()
    with pytest.raises(errors.DeviceError, match="belongs to a capture that is over"):
        inner.wait()
    inner.record()
    inner.synchronize()


# --- memory ---------------------------------------------------------------------------------------


def test_memory_goes_to_nobody_else_while_the_graph_lives() -> None:
    gt.cuda.empty_cache()
    allocated, reserved = gt.cuda.memory_allocated(CUDA), gt.cuda.memory_reserved(CUDA)
    x = arange(1000)

    def program(x: gt.Tensor) -> gt.Tensor:
        a = x + 1
        b = a * 2  # dropped before the capture ends, and still written by every replay
        return b.sum()

    g, made = captured(program, x)
    others = [gt.full((1000,), 7.0, device=CUDA) for _ in range(8)]
    for _ in range(2):
        g.replay()
    assert all((other == 7).all().item() for other in others)
    assert made.item() == 2 * (999 * 1000 / 2 + 1000)
    assert gt.cuda.memory_allocated(CUDA) - allocated == sum(
        512 * -(-n // 512) for n in [4000] * 9 + [4]
    )
    held = gt.cuda.memory_reserved(CUDA)
    gt.cuda.empty_cache()
    pooled = [b for b in gt.cuda.memory_snapshot() if b["state"] == "inactive"]
    assert gt.cuda.memory_reserved(CUDA) <= held and pooled, "what replays write is not given back"
    del others, x
    g.reset()
    gt.cuda.empty_cache()
    assert made.item() == 1001000.0, "a tensor outlives its graph"
    del made, g
    gc.collect()
    gt.cuda.empty_cache()
    assert gt.cuda.memory_allocated(CUDA) == allocated
    assert gt.cuda.memory_reserved(CUDA) <= reserved


def test_dropping_a_graph_gives_its_memory_back() -> None:
    gt.cuda.empty_cache()
    reserved, x = gt.cuda.memory_reserved(CUDA), arange(4)
    g, made = captured(lambda x: (x + 1).exp(), x)
    del made
    gt.cuda.empty_cache()
    held = gt.cuda.memory_reserved(CUDA)
    del g, x
    gt.cuda.empty_cache()
    assert gt.cuda.memory_reserved(CUDA) < held and gt.cuda.memory_reserved(CUDA) <= reserved


@pytest.mark.parametrize("is_shared", [True, False])
def test_graphs_share_a_pool_if_told_so(is_shared: bool) -> None:
    x = arange(256)
    seen: list[int] = []

    def program() -> gt.Tensor:
        a = x + 1
        seen.append(a.data_ptr())
        return a.sum()

    first, one = captured(program)
    pool = first.pool() if is_shared else gt.cuda.graph_pool_handle()
    second, two = captured(program, pool=pool)
    assert (seen[1] == seen[3]) == is_shared, "the second finds what the first has dropped"
    assert one.data_ptr() != two.data_ptr(), "what is held is not shared"
    for step in range(2):
        x.add_(step)
        first.replay()
        second.replay()
        assert one.item() == two.item() == (x + 1).sum().item()
    first.reset()
    gt.cuda.empty_cache()
    x.zero_()
    second.replay()
    assert two.item() == 256.0, "the pool lives as long as one of its graphs"


@pytest.mark.full
@pytest.mark.usefixtures("order")
def test_a_block_used_on_another_stream_waits_until_the_capture_is_over() -> None:
    x, side = arange(64), gt.cuda.Stream(CUDA)
    y = x + 1
    with gt.cuda.stream(side):
        side.wait_stream(gt.cuda.default_stream(CUDA))
        z = y * 2
        runtime.cuda().record_stream(y._get_storage().data, side)
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g):
        del y  # no event can be recorded now
        w = x + 1
    g.replay()
    assert w.tolist() == [n + 1 for n in range(64)] and z.tolist() == (2 * w).tolist()


@pytest.mark.usefixtures("order")
def test_an_operand_may_be_dropped_while_a_replay_waits() -> None:
    operands = [arange(4)]
    g, made = captured(lambda: operands[0] + 1)
    g.replay()
    operands.clear()
    gt.cuda.synchronize(CUDA)
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0]


# --- errors ---------------------------------------------------------------------------------------


def test_captures_do_not_nest() -> None:
    x = arange(4)
    x + 1
    g, inner = gt.cuda.CUDAGraph(), gt.cuda.CUDAGraph()
    done, _ = captured(lambda: x * 2)
    with gt.cuda.graph(g):
        for call in (inner.capture_begin, lambda: gt.cuda.graph(inner).__enter__(), done.replay):
            with pytest.raises(errors.DeviceError, match="cannot be captured"):
                call()
        assert gt.cuda.is_current_stream_capturing()
        made = x + 1
    assert not gt.cuda.is_current_stream_capturing()
    g.replay()
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0], "the outer capture went on"
    with pytest.raises(errors.DeviceError, match="capture_begin: the graph has been captured into"):
        with gt.cuda.graph(g):
            pass
    g.reset()
    with gt.cuda.graph(g):
        made = x + 1
    g.replay()


def test_calls_out_of_order() -> None:
    g = gt.cuda.CUDAGraph()
    for call in (g.replay, g.capture_end, g.pool, g.instantiate, lambda: g.debug_dump("never")):
        with pytest.raises(errors.DeviceError, match="the graph (holds no capture|is not being)"):
            call()
    with pytest.raises(errors.DeviceError, match="the default stream cannot be captured"):
        g.capture_begin()
    with gt.cuda.stream(gt.cuda.Stream(CUDA)):
        with pytest.raises(errors.ArgumentValueError, match="capture_begin: 'capture_error_mode'"):
            g.capture_begin(capture_error_mode="lenient")
        with pytest.raises(errors.ArgumentTypeError, match="capture_begin: 'pool' must be what"):
            g.capture_begin(pool=7)
        g.capture_begin()
        with gt.cuda.stream(gt.cuda.Stream(CUDA)):
            with pytest.raises(errors.GpuTensorError, match="the one that the capture began on"):
                g.capture_end()
        g.capture_end()
    g.replay()
    with pytest.raises(errors.ArgumentTypeError, match="graph: 'cuda_graph' must be a CUDAGraph"):
        gt.cuda.graph(7)


UNSAFE: dict[str, tuple[Callable[[gt.Tensor], Any], str]] = {
    "item": (lambda x: x[0].item(), "item: .* between the device and the host"),
    "tolist": (lambda x: x.tolist(), "between the device and the host"),
    "bool": (lambda x: bool(x[0]), "between the device and the host"),
    "cpu": (lambda x: x.cpu(), "to_device: .* between the device and the host"),
    "from the host": (lambda x: x.copy_(gt.ones(4)), "copy_: .* host"),
    "tensor": (lambda x: gt.tensor([1.0], device=CUDA), "host"),
    "nonzero": (lambda x: x.nonzero(), "nonzero: "),
    "synchronize": (lambda x: gt.cuda.synchronize(CUDA), "synchronize: .* waits for the device"),
    "stream": (lambda x: gt.cuda.current_stream(CUDA).synchronize(), "synchronize: .* waits"),
    "query": (lambda x: gt.cuda.current_stream(CUDA).query(), "query: .* waits"),
    "event": (lambda x: gt.cuda.current_stream(CUDA).record_event().synchronize(), "synchronize:"),
    "empty_cache": (lambda x: gt.cuda.empty_cache(), "empty_cache: .* back to the driver"),
    "default stream": (
        lambda x: gt.cuda.stream(gt.cuda.default_stream(CUDA)).__enter__(), "stream: .* no part",
    ),
    "a new kernel": (lambda x: gt.special.bessel_y1(x), "bessel_y1: .* its kernel is loaded"),
    "randperm": (lambda x: gt.randperm(4, device=CUDA), "randperm: .* the same in every replay"),
    "pinned memory": (lambda x: runtime.cuda().pinned_allocate(8), "pinned memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSAFE)
def test_what_is_not_safe_raises_and_the_capture_goes_on(name: str) -> None:
    call, words = UNSAFE[name]
    x = arange(4)
    x + 1
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g):
        made = x + 1
        with pytest.raises(errors.DeviceError, match=words) as caught:
            call(x)
    assert "\n" not in str(caught.value) and "cannot be captured" in str(caught.value)
    g.replay()
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_an_error_within_leaves_everything_as_it_was() -> None:
    x = arange(4)
    x + 1
    gt.cuda.empty_cache()
    allocated = gt.cuda.memory_allocated(CUDA)
    g = gt.cuda.CUDAGraph()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            with gt.cuda.graph(g):
                made = x + 1
                made.add_(1 // 0)
        del made
        assert not capture.capturing and gt.cuda.memory_allocated(CUDA) == allocated
        with pytest.raises(errors.DeviceError, match="replay: the graph holds no capture"):
            g.replay()
    with gt.cuda.graph(g):
        made = x + 1
    g.replay()
    assert made.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_other_threads_work_on_as_the_mode_says() -> None:
    """Other threads may use their own streams. Waiting for the whole device raises in every
    mode."""
    x = arange(4)
    x + 1
    results: dict[str, Any] = {}

    def work(mode: str) -> None:
        results[mode, "stream"] = gt.cuda.Stream(CUDA)
        with gt.cuda.stream(results[mode, "stream"]):
            results[mode] = (gt.ones(4, device=CUDA, dtype=gt.float32) + 1).add_(1)
            for refused in (gt.cuda.empty_cache, gt.cuda.synchronize):
                with pytest.raises(errors.DeviceError, match="cannot be captured"):
                    refused()
            results[mode, "refused"] = True

    gt.ones(4, device=CUDA, dtype=gt.float32).add_(1)
    for mode in ("global", "thread_local", "relaxed"):
        g = gt.cuda.CUDAGraph()
        with gt.cuda.graph(g, capture_error_mode=mode):
            made = x + 1
            thread = threading.Thread(target=work, args=(mode,))
            thread.start()
            thread.join()
        results[mode, "stream"].synchronize()
        assert results[mode].tolist() == [3.0] * 4
        g.replay()
        assert made.tolist() == [1.0, 2.0, 3.0, 4.0] and results[mode, "refused"]


def test_two_threads_capture_at_once() -> None:
    x = arange(4)
    x + 1, x * 2
    made: dict[str, Any] = {}
    steps = [threading.Event() for _ in range(3)]

    def other() -> None:
        g = gt.cuda.CUDAGraph()
        with gt.cuda.stream(gt.cuda.Stream(CUDA)):
            steps[0].wait()
            g.capture_begin(capture_error_mode="thread_local")
            made["theirs"] = x * 2
            steps[1].set()
            steps[2].wait()
            g.capture_end()
        made["graph"] = g

    thread = threading.Thread(target=other)
    thread.start()
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g, capture_error_mode="thread_local"):
        steps[0].set()
        steps[1].wait()
        ours = x + 1
    steps[2].set()
    thread.join()
    g.replay()
    made["graph"].replay()
    assert (ours.tolist(), made["theirs"].tolist()) == ([1, 2, 3, 4], [0, 2, 4, 6])


@pytest.mark.parametrize("times", [1, 4])
def test_large_products_do_without_cublas(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int
) -> None:
    """CuPy does not allow cuBLAS in a capture; the kernel that replaces it is loaded before. This
    also holds for short cuts, which repeated calls store."""
    monkeypatch.setattr(cublas, "LARGE", 1)
    a, b = arange(12).view(3, 4), arange(12).view(4, 3)
    for _ in range(times):
        wanted = (a @ b).tolist()
        gt.addmm(b[:3], a, b)
    g, path = gt.cuda.CUDAGraph(), tmp_path / "graph.dot"
    with gt.cuda.graph(g):
        made, added = a @ b, gt.addmm(b[:3], a, b)
    g.replay()
    assert made.tolist() == wanted and added.tolist() == (b[:3] + made).tolist()
    g.debug_dump(str(path))
    assert not gt.cuda.is_emulated() or path.read_text().count("matmul_strided") == 2


# --- random numbers -------------------------------------------------------------------------------


@pytest.mark.usefixtures("order")
def test_replays_draw_what_the_calls_would_draw() -> None:
    own = gt.Generator(CUDA)

    def program() -> tuple[gt.Tensor, ...]:
        a = gt.rand(5, device=CUDA)
        b = F.dropout(gt.ones(6, device=CUDA), 0.5)
        c = gt.empty(3, dtype=gt.int64, device=CUDA).random_(0, 100, generator=own)
        return a, b, c, gt.empty(3, 2, device=CUDA).t().normal_()

    g, made = captured(program)
    gt.manual_seed(5)
    own.manual_seed(6)
    wanted = [[x.tolist() for x in program()] for _ in range(3)]
    state = gt.cuda.get_rng_state(CUDA)
    gt.manual_seed(5)
    own.manual_seed(6)
    for each in wanted:
        g.replay()
        assert [x.tolist() for x in made] == each
    assert gt.equal(gt.cuda.get_rng_state(CUDA), state), "as after the calls"


def test_a_generator_is_not_seeded_within() -> None:
    gt.rand(4, device=CUDA)
    with gt.cuda.graph(gt.cuda.CUDAGraph()):
        gt.rand(4, device=CUDA)
        with pytest.raises(errors.DeviceError, match="manual_seed: .* draws from this generator"):
            gt.cuda.manual_seed(3)


# --- autograd and optimizers ----------------------------------------------------------------------


def mlp(seed: int) -> gt.nn.Module:
    gt.manual_seed(seed)
    return gt.nn.Sequential(gt.nn.Linear(6, 5), gt.nn.ReLU(), gt.nn.Linear(5, 3)).to(CUDA)


@pytest.mark.full
@pytest.mark.usefixtures("order")
def test_a_graphed_module_trains_as_the_module_does() -> None:
    ours, plain = mlp(0), mlp(0)
    sample = arange(24).view(4, 6).requires_grad_()
    graphed = gt.cuda.make_graphed_callables(ours, (sample,))
    assert graphed is ours
    for step in range(3):
        given = (arange(24).view(4, 6) * 0.1 - step).requires_grad_()
        other = given.detach().clone().requires_grad_()
        for model, x in ((graphed, given), (plain, other)):
            model(x).square().mean().backward()
            with gt.no_grad():
                for p in model.parameters():
                    p.sub_(p.grad * 0.1)
                    p.grad = None
        assert given.grad.tolist() == other.grad.tolist()
    pairs = zip(graphed.parameters(), plain.parameters())
    assert all(p.tolist() == q.tolist() for p, q in pairs)
    graphed.eval()
    assert graphed(arange(6)).tolist() == plain(arange(6)).tolist(), "another mode has no graph"


def test_graphed_functions_of_several_results() -> None:
    def first(x: gt.Tensor, y: gt.Tensor) -> dict[str, Any]:
        return {"a": x * y, "b": [(x.exp(), y.detach() + 1)]}

    def second(x: gt.Tensor) -> gt.Tensor:
        return (x * x).sum()

    x, y = arange(4).requires_grad_(), arange(4)
    made = gt.cuda.make_graphed_callables((first, second), ((x, y), (x.detach().requires_grad_(),)))
    given = (arange(4) * 0.5).requires_grad_()
    found = made[0](given, arange(4) + 1)
    assert found["b"][0][1].tolist() == [2, 3, 4, 5] and not found["b"][0][1].requires_grad
    loss = made[1](found["a"]) + found["b"][0][0].sum()
    loss.backward()
    other = (arange(4) * 0.5).requires_grad_()
    (second(other * (arange(4) + 1)) + other.exp().sum()).backward()
    assert given.grad.tolist() == other.grad.tolist()
    with pytest.raises(errors.GpuTensorError, match="'args' must be as the samples"):
        made[1](arange(5))
    with pytest.raises(errors.ArgumentTypeError, match="be a tuple of Tensors"):
        gt.cuda.make_graphed_callables(second, (3,))


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: gt.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: gt.optim.Adam(p, lr=0.01, amsgrad=True, capturable=True),
    "adamw": lambda p: gt.optim.AdamW(p, lr=0.01, capturable=True),
    "rmsprop": lambda p: gt.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, capturable=True),
}


@pytest.mark.parametrize(
    "name", ["adam", *[pytest.param(n, marks=pytest.mark.full) for n in OPTIMIZERS if n != "adam"]]
)
def test_whole_steps_in_a_graph(name: str) -> None:
    """The graph has forward, backward and the step. Replays give the result of equally many eager
    steps."""
    models = mlp(1), mlp(1)
    optimizers = [OPTIMIZERS[name](list(m.parameters())) for m in models]
    x, y = arange(24).view(4, 6) * 0.1, arange(12).view(4, 3) * 0.1

    def step(model: Any, optimizer: Any) -> gt.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    losses = []
    side = gt.cuda.Stream(CUDA)
    side.wait_stream(gt.cuda.current_stream(CUDA))
    with gt.cuda.stream(side):
        for _ in range(2):
            losses.append(step(models[0], optimizers[0]).item())
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g):
        loss = step(models[0], optimizers[0])
    for _ in range(3):
        g.replay()
        losses.append(loss.item())
    assert losses == [step(models[1], optimizers[1]).item() for _ in range(5)]
    assert len(set(losses)) == 5
    kept = optimizers[0].state_dict()
    if name != "sgd":
        assert kept["state"][0]["step"].item() == 5.0, "replays count, too"
    optimizers[1].load_state_dict(kept)
    again = optimizers[1].state_dict()
    assert repr(again["state"]) == repr(kept["state"])


def test_a_step_whose_count_would_stand_still() -> None:
    p = arange(4).requires_grad_()
    for kind in (gt.optim.Adam, gt.optim.AdamW, gt.optim.RMSprop, gt.optim.Adagrad):
        optimizer = kind([p])
        p.grad = gt.ones(4, device=CUDA)
        optimizer.step()
        with gt.cuda.graph(gt.cuda.CUDAGraph()):
            with pytest.raises(errors.DeviceError, match=f"{kind.__name__}.step: .* capturable"):
                optimizer.step()
    for optimizer in (gt.optim.SGD([p], momentum=0.5), gt.optim.Adam([p], capturable=True)):
        with gt.cuda.graph(gt.cuda.CUDAGraph()):
            with pytest.raises(errors.DeviceError, match="made by a first step"):
                optimizer.step()
    assert p.tolist() == p.tolist()


def test_a_schedule_writes_into_a_rate_that_is_a_tensor() -> None:
    rate = gt.full((), 0.5, device=CUDA)
    p = gt.zeros(2, device=CUDA).requires_grad_()
    optimizer = gt.optim.SGD([p], lr=rate)
    schedules = [
        gt.optim.lr_scheduler.ExponentialLR(optimizer, 0.5),
        gt.optim.lr_scheduler.StepLR(optimizer, 2, 0.5),
    ]
    p.grad = gt.ones(2, device=CUDA)
    optimizer.step()
    g = gt.cuda.CUDAGraph()
    with gt.cuda.graph(g):
        optimizer.step()
    seen = [p.tolist()[0]]
    for _ in range(3):
        for schedule in schedules:
            schedule.step()
        g.replay()
        seen.append(p.tolist()[0])
    assert seen == [-0.5, -0.75, -0.8125, -0.84375]
    assert optimizer.param_groups[0]["lr"] is rate and schedules[0].base_lrs[0].item() == 0.5


@pytest.mark.usefixtures("order")
def test_chains_are_captured_where_they_were_recorded() -> None:
    x = arange(6)

    def chain(x: gt.Tensor) -> gt.Tensor:
        return (x * 2 + 1) * x - x

    with gt.fuse():
        before = chain(x)
    wanted = before.tolist()
    g, h = gt.cuda.CUDAGraph(), gt.cuda.CUDAGraph()
    with gt.fuse():
        outside = chain(x)
        with gt.cuda.graph(g):
            within = chain(x)
    with gt.cuda.graph(h), gt.fuse():
        own = chain(x)
    assert outside.tolist() == wanted, "what came before the capture ran before it"
    for step in range(2):
        x.fill_(step)
        g.replay()
        h.replay()
        assert within.tolist() == own.tolist() == chain(x).tolist()
    assert outside.tolist() == wanted
