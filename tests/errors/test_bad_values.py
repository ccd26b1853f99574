"""Bad values for every argument of every public function: accepted, or one clear error of ours.

There must be no other exception, no chained exception and no changed operand. Only some calls are
made; GPUTENSOR_BAD_VALUES=all makes all (a minute).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt

from ..harness import bad_values, cases, tier
from ..harness.bad_values import VALUES
from ..harness.cases import CALLABLE, OPS, OPS_OF, Case
from ..harness import module_entrances
from ..harness.entrances import ENTRANCES
from ..rows import Row

# One of this number of calls is made. The choice covers all values in turn.
STRIDE = tier.pick({"cpu": 41, "meta": 97, "cuda:0": 23}, {"cpu": 5, "meta": 11, "cuda:0": 17})
# One of this number of rows is called on CUDA, because the emulator compiles kernels for each
# operator.
CUDA_ROWS = tier.pick(24, 1)
if os.environ.get("GPUTENSOR_BAD_VALUES") == "all":
    STRIDE, CUDA_ROWS = dict.fromkeys(STRIDE, 1), 1


def _good(row: Row) -> list[Case]:
    """Return the three forms with most arguments; three, so that the test stays short."""
    return sorted(cases.one_of_each_form(row), key=lambda case: -len(case.sample.args))[:3]


def _forms(row: Row) -> Iterator[tuple[str, Callable[..., Any], int | None]]:
    """Return (name, callable, the position of `self` among the arguments of a method)."""
    for base in dict.fromkeys(op.base for op in OPS_OF[row.name]):
        ops = [op for op in cases.OVERLOADS[base] if op.is_public]
        if any("function" in op.variants and op.kind != "out" for op in ops):
            yield f"gt.{ops[0].public_name}", cases.public(ops[0]), None
        method = next((op for op in ops if "method" in op.variants), None)
        if method is not None:
            yield (
                f"x.{base}",
                getattr(gt.Tensor, base),
                [a.name for a in method.arguments].index("self"),
            )
    for op in OPS_OF[row.name]:
        yield f"gt.ops.aten.{op.name}", cases.operator_of(op), None


def _spoiled(case: Case, device: str) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield (form, argument, name of the value, call) with one argument replaced in each."""
    for form, function, place in _forms(case.row):
        known = bad_values.parameters(function)
        given = len(case.sample.args)
        if place is not None and (place >= given or "method" not in case.op().variants):
            continue  # an overload that is not a method
        spread = "*args" in known
        arguments = [f"#{n}" for n in range(0 if place is None else 1, given)]
        arguments += [
            n for n in known[0 if spread else given :] if not n.startswith("*") and n != "self"
        ]
        for argument in arguments:
            for name, make in VALUES.items():

                def call(
                    argument: str = argument,
                    make: Any = make,
                    function: Any = function,
                    place: Any = place,
                ) -> Any:
                    made = case.build(device)
                    args, kwargs = list(made.args), dict(made.kwargs)
                    if place is not None:
                        args.insert(0, args.pop(place))
                    if argument.startswith("#"):
                        args[int(argument[1:])] = make()
                    else:
                        kwargs[argument] = make()
                    return made, lambda: function(*args, **kwargs)

                yield form, argument, name, call


@pytest.mark.parametrize("device", STRIDE)
@pytest.mark.parametrize("family", sorted({op.family for op in OPS}))
def test_operators(family: str, device: str) -> None:
    if device != "cpu" and device != "meta" and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    faults, tried = [], []
    rows = [row for row in CALLABLE if OPS_OF[row.name][0].family == family]
    calls = (
        (case, *spoiled) for row in (rows[::CUDA_ROWS] if device == "cuda:0" else rows)
        for case in _good(row) for spoiled in _spoiled(case, device)
    )  # fmt: skip
    for number, (case, form, argument, value, call) in enumerate(calls):
        if number % STRIDE[device]:
            continue
        built, run = call()
        _outcome, fault = bad_values.try_one(run, [b.tensor for b in built.built], built.built)
        tried.append(case)
        if fault is not None:
            faults.append(f"{form} of {case} with {value} for {argument}: {fault}")
    assert not faults, f"{len(faults)} of {len(tried)}\n" + "\n".join(faults[:20])
    # No bad value may remain in a plan or a cache and break a valid call.
    for case in {id(case): case for case in tried}.values():
        # On meta, elements decide the sizes of where(condition).
        if device != "meta" or not (case.row.no_meta or case.op().name == "where"):
            case.build(device).run()


# Exceptions that are not gputensor's: they are a function's documented result, or another library
# raises them.
OF_OTHERS = {
    "load": (OSError,),
    "save": (OSError,),
    "testing.assert_close": (AssertionError, ValueError, TypeError),
    "from_dlpack": (BufferError,),
    "triplet_margin_with_distance_loss": (TypeError,),  # of the function that is given
    "nn.TripletMarginWithDistanceLoss": (TypeError,),
    "swa_utils.AveragedModel": (TypeError,),
    "map_": (TypeError,),  # of the function that is given
    "map2_": (TypeError,),
}


def _reset() -> None:
    """Restore the initial settings of the process and the thread."""
    gt.set_printoptions(profile="default")
    gt.set_default_dtype(gt.float32)
    gt.set_type_promotion("pytorch")
    gt.set_default_device("cpu")
    gt.autograd.set_grad_enabled(True)
    gt.autograd.set_detect_anomaly(False)
    gt.fallback.set_autograd_fallback_mode("warn")
    gt.set_autocast_enabled("cpu", False)
    gt.set_autocast_dtype("cpu", gt.bfloat16)
    gt.set_autocast_cache_enabled(True)
    if gt.cuda.is_available():
        gt.cuda.set_memory_limit(None)
        gt.cuda.set_device(0)


@pytest.fixture
def same_settings(tmp_path: Any, monkeypatch: Any) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # a bad value may be the name of a file
    threads = gt.get_num_threads()
    with gt.device("cpu"):
        yield
        _reset()
    gt.set_num_threads(threads)
    gt.set_numpy_on_devices(False)


@pytest.mark.parametrize("name", ENTRANCES)
def test_other_functions(name: str, same_settings: None) -> None:
    if name.startswith(("cuda", "device", "record_stream")) and not gt.cuda.is_available():
        pytest.skip(f"no CUDA device ({gt.cuda.unavailable_reason()})")
    _sweep(name, ENTRANCES[name], tier.pick(5, 1))


@pytest.mark.filterwarnings("ignore:kaiming_uniform_:UserWarning")  # some layers have size 0
@pytest.mark.parametrize("name", [*module_entrances.ENTRANCES][:: tier.pick(4, 1)])
def test_modules_and_optimizers(name: str) -> None:
    _sweep(name, module_entrances.ENTRANCES[name], STRIDE["cpu"])


def _sweep(name: str, make: Callable[[], Any], stride: int) -> None:
    """Try every value for every argument of a valid call; only one of a number of calls is made."""
    function, args, kwargs = make()
    function(*args, **kwargs)
    faults, number = [], 0
    for value, spoil in VALUES.items():
        for argument, _, _ in list(bad_values.spoiled(*make(), None)):
            number += 1
            if number % stride:
                continue
            function, args, kwargs = make()
            if argument.startswith("#"):
                args = tuple(spoil() if f"#{n}" == argument else x for n, x in enumerate(args))
            else:
                kwargs = {**kwargs, argument: spoil()}
            tensors = [x for x in args if isinstance(x, gt.Tensor)]

            def call(function: Any = function, args: Any = args, kwargs: Any = kwargs) -> Any:
                return function(*args, **kwargs)

            _, fault = bad_values.try_one(call, tensors, of_others=OF_OTHERS.get(name, ()))
            _reset()
            if fault is not None:
                faults.append(f"{name} with {value} for {argument}: {fault}")
    assert not faults, f"{len(faults)}\n" + "\n".join(faults[:20])


# Functions without arguments, with callables only, or with arguments that another function makes.
NOT_SWEPT = """
    DispatchMode GpuTensorError Size Storage Tensor TensorIterator dtype memory_format
    no_dispatch printoptions
    clear_autocast_cache get_default_device get_default_dtype get_num_threads get_printoptions
    get_numpy_on_devices get_type_promotion initial_seed
    is_autocast_cache_enabled is_grad_enabled is_inference_mode_enabled
    empty_cache device_count current_device is_available is_emulated unavailable_reason
    Module LRScheduler Optimizer RNNBase RNNCellBase UninitializedBuffer UninitializedParameter
    skip_init SparseAdam BasePruningMethod DistributedDataParallel
    graph_pool_handle is_current_stream_capturing
    memory_snapshot OutOfMemoryError emulator_settings audit_copies
    bfloat16 bool byte cdouble cfloat chalf char cpu data_ptr dim double element_size get_device int
    is_complex is_floating_point is_inference is_signed long nelement numel retain_grad short
    ndimension seed storage_offset tolist untyped_storage
    DeviceProperties get_arch_list get_rng_state_all init is_initialized is_tf32_supported seed_all
    const_data_ptr is_distributed is_shared share_memory_ storage clip_grad_norm
""".split()


def test_every_public_function_is_swept() -> None:
    from gputensor._generated import functions, methods

    swept = (
        {name.rpartition(".")[2] for name in (*ENTRANCES, *module_entrances.ENTRANCES)}
        | set(functions.__all__)
        | set(NOT_SWEPT)
    )
    places = (
        gt, gt.cuda, gt.nn, gt.nn.functional, gt.nn.init, gt.nn.parallel, gt.nn.utils,
        gt.nn.utils.prune, gt.optim, gt.Tensor, gt.optim.lr_scheduler, gt.optim.swa_utils,
    )  # fmt: skip
    missing = [
        f"{place.__name__}.{name}" for place in places
        for name in sorted({*dir(place), *getattr(place, "_LATER",
        ())})  # also unloaded names
        if not name.startswith("_") and name not in swept and not hasattr(methods.GeneratedMethods,
        name)
        and callable(found := getattr(place, name, None)) and _is_named(place, name, found)
    ]  # fmt: skip
    assert not missing, f"tests/harness/entrances.py has no good call of {missing}"


def _is_named(place: Any, name: str, found: Any) -> bool:
    """True if `place` is public: users find the object there, and the module does not only import
    it for its own use."""
    if place is gt or place is gt.Tensor:
        return getattr(found, "__module__", "gputensor").startswith("gputensor")
    if place is gt.nn.init:
        return getattr(found, "__module__", "") == place.__name__
    return name in getattr(place, "__all__", ())


REFUSED = [
    ("register_hook", lambda: gt.ones(2, requires_grad=True).register_hook(5)),
    ("set_printoptions", lambda: gt.set_printoptions(threshold="x")),
    ("device", lambda: gt.set_default_device(2**63)),
    ("__contains__", lambda: None in gt.ones(2)),
    ("promote_types", lambda: gt.promote_types("float32", gt.int64)),
    ("can_cast", lambda: gt.can_cast(str, gt.int64)),
    ("uniform_", lambda: gt.ones(2).uniform_(0, 10**400)),
    ("SGD", lambda: gt.optim.SGD([gt.ones(2)], lr="0.1")),
    ("grad", lambda: gt.autograd.grad(gt.ones((), requires_grad=True), [None])),
    ("Kernel", lambda: gt.cuda.Kernel("", None)),
    ("zeros", lambda: gt.zeros(-1)),
    ("linear", lambda: gt.nn.functional.linear(gt.ones(2, 3), gt.ones(4, 5))),
    ("swapaxes", lambda: gt.ones(2, 3).swapaxes(0, 7)),
    ("avg_pool2d", lambda: gt.nn.functional.avg_pool2d(gt.ones(1, 4, 4), 2, divisor_override="x")),
    ("stft", lambda: gt.stft(gt.ones(32), 8, window=5, return_complex=True)),
    (
        "grid_sampler",
        lambda: gt.grid_sampler(gt.ones(1, 1, 3, 2), gt.ones(1, 1, 2, 2), 0, 0, gt.ones(2)),
    ),
    ("full_like", lambda: gt.full_like(gt.ones(2), 1, memory_format=gt.channels_last)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "call"), REFUSED, ids=[op for op, _ in REFUSED])
def test_refused_by_the_name_that_was_called(op: str, call: Callable[[], Any]) -> None:
    before = gt.get_printoptions(), gt.zeros(()).device
    with pytest.raises(gt.GpuTensorError, match=f"^{op}: '"):
        call()
    assert (gt.get_printoptions(), gt.zeros(()).device) == before


def test_values_that_a_factorisation_does_not_end_with() -> None:
    from gputensor.linalg import LinAlgError

    nan = gt.full((2, 2), float("nan"))
    # On a GPU cuSOLVER returns NaN, and gputensor does not wait for the device to check it.
    is_emulated = gt.cuda.is_available() and gt.cuda.is_emulated()
    for device in ("cpu", *(["cuda"] if is_emulated else [])):
        for call in (gt.linalg.svd, gt.linalg.pinv, gt.linalg.eig, gt.ops.aten.linalg_eig):
            with pytest.raises(LinAlgError, match="(svd|eig|pinv): 'A' must have"):
                call(nan.to(device))
    with pytest.raises(LinAlgError, match="cholesky: A is not positive-definite"):
        gt.linalg.cholesky(nan)


@pytest.mark.parametrize("device", STRIDE)
@pytest.mark.parametrize("place", [0, -1, 3, -(2**31), 2**31 - 1])
def test_pivots_that_name_no_row(place: int, device: str) -> None:
    if (
        device == "meta"
        or device != "cpu"
        and not (gt.cuda.is_available() and gt.cuda.is_emulated())
    ):
        pytest.skip("values are looked at on the host alone")
    a, b = gt.eye(2, device=device), gt.ones(2, 1, device=device)
    pivots = gt.full((2,), place, dtype=gt.int32, device=device)
    with pytest.raises(gt.GpuTensorError, match="'LU_pivots' must name rows"):
        gt.lu_solve(b, a, pivots).cpu()
    if abs(place) != 1:
        with pytest.raises(gt.GpuTensorError, match="'pivots' must name rows"):
            gt.linalg.ldl_solve(a, pivots, b).cpu()


@pytest.mark.parametrize("device", STRIDE)
@pytest.mark.parametrize("most", [2**63 - 1, 2**62, 2**50])
def test_more_bins_than_there_is_memory_for(most: int, device: str) -> None:
    if device == "meta" or device != "cpu" and not gt.cuda.is_available():
        pytest.skip("bincount waits for values")
    x = gt.tensor([1, most], device=device)  # for 2**63 - 1 NumPy writes outside of its bins
    with pytest.raises(gt.GpuTensorError, match="^bincount: |cannot allocate"):
        gt.bincount(x)
    if most == 2**63 - 1:
        with pytest.raises(gt.GpuTensorError, match="numbers less than"):
            gt.bincount(gt.tensor([1, 2**64 - 1], dtype=gt.uint64, device=device))


def test_one_edge_bounds_no_bin() -> None:
    with pytest.raises(gt.GpuTensorError, match="^histogram: 'bins' must be edges .* at least two"):
        gt.histogram(gt.tensor([1.0, 1.0]), gt.tensor([1.0]))


def test_statistics_that_may_not_be_written_leave_the_others() -> None:
    mean, var = gt.zeros(2), gt.ones(1).expand(2)
    with pytest.raises(gt.GpuTensorError, match="^batch_norm: 'running_var' must not hold one"):
        gt.batch_norm(gt.ones(3, 2), None, None, mean, var, True, 0.5, 1e-5, False)
    assert mean.tolist() == [0, 0]


def test_a_schedule_that_divides_by_zero_says_so() -> None:
    schedule = gt.optim.lr_scheduler.CosineAnnealingLR(gt.optim.SGD([gt.ones(1)], 0.1), 0)
    with pytest.raises(gt.GpuTensorError, match="^CosineAnnealingLR: 'step' must have numbers"):
        schedule.step()


def test_a_constructor_names_the_class_and_the_argument() -> None:
    class Mine(gt.nn.Module):
        def __init__(self) -> None:
            raise TypeError("mine")

    with pytest.raises(gt.GpuTensorError, match="^Linear: 'in_features' must be an int"):
        gt.nn.Linear("x", 3)
    with pytest.raises(gt.GpuTensorError, match="^RNN: 'num_layers' must be at most"):
        gt.nn.RNN(3, 2, 2**62)
    with pytest.raises(TypeError, match="^mine$"):
        Mine()


def test_numbers_of_numpy_are_taken_where_python_s_are() -> None:
    import numpy as np

    x = gt.arange(16.0).view(1, 1, 4, 4)
    pool = gt.nn.functional.avg_pool2d
    assert pool(x, 2, np.int64(1)).tolist() == pool(x, 2, 1).tolist()
    normalize = gt.nn.functional.normalize
    assert normalize(x, eps=np.float64(9.0)).tolist() == normalize(x, eps=9.0).tolist()


def test_what_fails_runs_once_whatever_the_numbers_are() -> None:
    import numpy as np

    seen = []

    def fails(x: gt.Tensor) -> gt.Tensor:
        seen.append(x)
        raise RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="the user's"):
        x = gt.ones(2, dtype=gt.float64, requires_grad=True)
        gt.autograd.gradcheck(fails, x, eps=np.float64(1e-6))
    assert len(seen) == 1


def test_memory_that_is_not_there() -> None:
    for make in (
        lambda: gt.empty(2**60),
        lambda: gt.arange(2**60),
        lambda: gt.ops.aten.empty((2**60,)),
    ):
        with pytest.raises(gt.cuda.OutOfMemoryError, match="cannot allocate"):
            make()
        with pytest.raises(MemoryError):
            make()


def _read_only() -> Any:
    import numpy as np

    array = np.ones(3, np.float32)
    array.flags.writeable = False
    return gt.from_numpy(array)


WRITES = {
    "add_": lambda r: r.add_(1), "fill_": lambda r: r.fill_(1), "zero_": lambda r: r.zero_(),
    "copy_": lambda r: r.copy_(gt.ones(3)), "uniform_": lambda r: r.uniform_(),
    "exp_": lambda r: r.exp_(),
    "index": lambda r: r.__setitem__(0, 5.0), "add": lambda r: gt.add(r, r, out=r),
    "sum": lambda r: gt.sum(gt.ones(2, 3), 0, out=r), "arange": lambda r: gt.arange(3, out=r),
    "cat": lambda r: gt.cat([gt.ones(1), gt.ones(2)], out=r), "linspace": lambda r: gt.linspace(0,
    1, 3, out=r),
    "where": lambda r: gt.where(gt.ones(3) > 0, gt.ones(3), 1, out=r),
    "mm": lambda r: gt.mm(gt.ones(3, 1), gt.ones(1, 1), out=r.view(3, 1)),
    "relu_": lambda r: gt.nn.functional.relu(r, inplace=True), "mul_": lambda r: r[:2].mul_(2),
    "elu_": lambda r: gt.nn.functional.elu_(r), "silu_": lambda r: gt.nn.functional.silu(r, True),
    "sub_": lambda r: gt.ops.aten.sub_.Tensor(r, 1), "div_": lambda r: r.__itruediv__(2),
}  # fmt: skip


@pytest.mark.parametrize("op", WRITES)
def test_memory_that_may_not_be_written(op: str) -> None:
    r = _read_only()
    with pytest.raises(gt.GpuTensorError, match=f"^{op}: '(self|out)' must be writable") as caught:
        WRITES[op](r)
    assert isinstance(caught.value, ValueError) and "During handling" not in str(caught.value)
    assert caught.value.__suppress_context__ and r._version == 0 and r.tolist() == [1.0] * 3


def test_functions_of_nn_functional_name_themselves_and_their_input() -> None:
    from gputensor.nn import functional as F

    for call, said in (
        (lambda: F.relu(3), "relu: 'input' must be"), (lambda: F.elu_(3), "elu_: 'input' must be"),
        (lambda: F.dropout2d(3), "dropout2d: 'input' must be"),
        (lambda: F.dropout2d(gt.ones(2, 2), 2), "dropout2d: 'p' must be"),
        (lambda: F.embedding_bag(gt.zeros(2, 3, dtype=gt.int64), gt.ones(4, 5), mode="sum",
                                 per_sample_weights=gt.ones(6)),
         "embedding_bag: 'per_sample_weights' must have input's sizes"),
    ):  # fmt: skip
        with pytest.raises(gt.GpuTensorError, match=f"^{said}"):
            call()  # type: ignore[no-untyped-call]


def test_a_name_that_is_not_there_is_answered_with_a_near_one() -> None:
    with pytest.raises(
        AttributeError, match="did you mean 'full' or 'full_like'; docs/operators.md lists"
    ):
        gt.fulll  # noqa: B018


def test_a_value_equal_to_the_right_one_leaves_no_plan_that_fails() -> None:
    import numpy as np

    x = gt.arange(6.0).view(2, 3)
    wanted = x.sum(0, keepdim=np.True_)
    assert x.sum(0, keepdim=True).tolist() == wanted.tolist() == [[3.0, 5.0, 7.0]]


def test_what_a_users_kernel_raises_goes_on_as_it_is() -> None:
    with gt.library.Library("aten", "IMPL") as lib:

        def relu(x: Any) -> Any:
            raise TypeError("mine")

        with pytest.warns(UserWarning):
            lib.impl("relu", relu, "CPU")
        with pytest.raises(TypeError, match="^mine$"):
            gt.relu(gt.ones(2))


def test_a_fault_is_found() -> None:
    def raises(kind: type[Exception]) -> Any:
        raise kind("no")

    def keeps(error: Exception) -> Any:  # in this frame, to which the error's traceback refers
        raise error

    def chained() -> None:
        try:
            {}[1]
        except KeyError:
            raise gt.GpuTensorError("late")  # noqa: B904 - that is the fault

    x = gt.ones(2)
    assert "raw KeyError" in str(bad_values.try_one(lambda: raises(KeyError), [x]))
    assert "shows what it was made from" in str(bad_values.try_one(chained, [x]))
    assert "changed" in str(bad_values.try_one(lambda: (x.add_(1), raises(gt.GpuTensorError)), [x]))
    assert "is kept" in str(bad_values.try_one(lambda: keeps(gt.GpuTensorError("no")), [x]))
    assert bad_values.try_one(lambda: raises(gt.GpuTensorError), [x]) == ("refused", None)
    assert len(VALUES) >= 51
