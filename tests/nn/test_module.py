"""Module: registration, iteration, moves, saving and loading, errors."""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import pickle
from typing import Any

import numpy as np
import pytest

import gputensor as gt
from gputensor import nn
from gputensor.core import errors


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 2, bias=False))
        self.scale = nn.Parameter(gt.ones(2))
        self.register_buffer("seen", gt.zeros(()))
        self.register_buffer("scratch", gt.zeros(3), persistent=False)

    def forward(self, x: gt.Tensor) -> gt.Tensor:
        return self.rest(self.first(x)) * self.scale


NAMES = ["scale", "first.weight", "first.bias", "rest.1.weight"]


def test_what_is_assigned_is_registered() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen", "scratch"]
    modules = [name for name, _ in net.named_modules()]
    assert modules == ["", "first", "rest", "rest.0", "rest.1"]
    assert net.get_submodule("rest.1") is net.rest[1]
    assert net.get_parameter("first.bias") is net.first.bias
    assert net.get_buffer("seen") is net.seen
    del net.scale
    assert not hasattr(net, "scale") and len(list(net.parameters())) == 3


def test_a_name_goes_from_one_kind_to_another() -> None:
    net = nn.Module()
    net.x = 3
    net.x = nn.Parameter(gt.ones(1))
    assert "x" not in vars(net) and list(net.parameters()) == [net.x]
    net.x = nn.ReLU()
    assert not list(net.parameters()) and list(net.children()) == [net.x]
    net.x = None
    assert net.x is None


def test_what_is_shared_counts_once() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert sorted(net.state_dict()) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    twice = nn.Sequential(net, net)
    assert len(list(twice.modules())) == 4


def test_forward_and_backward() -> None:
    net, x = Net(), gt.rand(5, 4)
    net(x).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    assert type(net.scale * 2) is gt.Tensor and type(net.scale) is nn.Parameter


def test_train_and_eval_reach_all() -> None:
    net = Net()
    assert all(m.training for m in net.modules())
    assert net.eval() is net and not any(m.training for m in net.modules())
    net.train()
    assert all(m.training for m in net.modules())


@pytest.mark.parametrize("assign", [False, True])
def test_a_state_is_loaded_whole_or_not_at_all(assign: bool) -> None:
    a, b, x = Net(), Net(), gt.rand(5, 4)
    state = a.state_dict()
    assert list(state) == ["scale", "seen", "first.weight", "first.bias", "rest.1.weight"]
    file = io.BytesIO()
    gt.save(state, file)
    file.seek(0)
    kept = b.first.weight
    said = b.load_state_dict(gt.load(file), assign=assign)
    assert str(said) == "<All keys matched successfully>"
    assert (a(x) == b(x)).all() and (b.first.weight is kept) is not assign
    assert type(b.first.weight) is nn.Parameter and b.first.weight.requires_grad
    before = {name: value.clone() for name, value in b.state_dict().items()}
    wrong = dict(state, **{"first.bias": gt.zeros(7), "more": gt.zeros(1)})
    del wrong["scale"]
    rule = r"first.bias \(7,\); missing scale; unexpected more"
    with pytest.raises(errors.GpuTensorError, match=rule):
        b.load_state_dict(wrong)
    assert all((before[name] == value).all() for name, value in b.state_dict().items())
    del wrong["first.bias"]
    found = b.load_state_dict(wrong, strict=False)
    assert found.missing_keys == ["scale", "first.bias"] and found.unexpected_keys == ["more"]


def test_a_state_of_arrays_is_loaded() -> None:
    net = nn.Linear(2, 2)
    weight = np.array([[1, 2], [3, 4]], np.float32)
    net.load_state_dict({"weight": weight, "bias": np.zeros(2, np.float32)})
    assert net.weight.tolist() == weight.tolist()


def test_to_moves_and_casts_what_is_floating() -> None:
    net = Net()
    net.register_buffer("count", gt.zeros((), dtype=gt.int64))
    held = net.first.weight
    net(gt.rand(1, 4)).sum().backward()
    assert net.to(gt.float64) is net and net.first.weight is held
    assert {p.dtype for p in net.parameters()} == {gt.float64} and net.count.dtype is gt.int64
    assert held.grad.dtype is gt.float64 and held.requires_grad and held.is_leaf
    net.to("meta", gt.float16)
    assert held.device.type == "meta" and net.seen.dtype is gt.float16
    with pytest.raises(errors.GpuTensorError, match="floating or complex"):
        net.to(gt.int32)


def test_hooks_see_and_change() -> None:
    net, seen = nn.Linear(2, 2), []
    before = net.register_forward_pre_hook(lambda m, args: (args[0] * 0,))
    after = net.register_forward_hook(lambda m, args, result: seen.append(result) or result + 1)
    assert (net(gt.ones(1, 2)) == net.bias + 1).all() and len(seen) == 1
    before.remove()
    after.remove()
    net(gt.ones(1, 2))
    assert len(seen) == 1


def test_copies_and_pickles() -> None:
    net, x = Net(), gt.rand(2, 4)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (other(x) == net(x)).all() and other.scale is not net.scale
        assert type(other.scale) is nn.Parameter and other.scale.requires_grad


def test_how_it_reads() -> None:
    assert repr(Net()) == (
        "Net(\n"
        "  (first): Linear(in_features=4, out_features=3, bias=True)\n"
        "  (rest): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Linear(in_features=3, out_features=2, bias=False)\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Parameter(gt.ones(1))) == (
        "Parameter containing:\ntensor([1.], requires_grad=True)"
    )


def test_containers() -> None:
    layers = nn.ModuleList([nn.ReLU(), nn.Linear(1, 1)])
    assert not isinstance(layers, nn.Sequential)
    layers.append(nn.ReLU()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in layers] == ["Identity", "ReLU", "Linear", "ReLU"]
    assert len(layers[1:3]) == 2 and layers[-1] is layers[3]
    del layers[0]
    assert [name for name, _ in layers.named_children()] == ["0", "1", "2"]
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Linear(1, 2)
    assert list(named) == ["a", "b"] and "a" in named and named["b"].out_features == 2
    assert [*named.items()] == [*zip(named.keys(), named.values())]
    parameters = nn.ParameterList([gt.ones(2), nn.Parameter(gt.ones(3))])
    assert [tuple(p.shape) for p in parameters] == [(2,), (3,)] and len(list(parameters)) == 2
    named_layers = nn.Sequential({"in": nn.Linear(1, 1), "out": nn.ReLU()})
    assert named_layers[0] is named_layers.get_submodule("in")
    with pytest.raises(errors.IndexRangeError, match=r"'index' must be in \[-3, 2\]"):
        layers[3]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda net: setattr(net, "scale", gt.ones(2)), "'scale' must be a Parameter or None"),
        (lambda net: setattr(net, "first", 3), "'first' must be a Module or None"),
        (lambda net: setattr(net, "seen", 3), "'seen' must be a Tensor or None"),
        (lambda net: net.register_parameter("a.b", None), "neither be empty nor have a dot|dot"),
        (lambda net: net.register_buffer("forward", None), "not be an attribute of Net"),
        (lambda net: net.register_parameter("p", gt.ones(1)), "'param' must be a Parameter"),
        (lambda net: net.load_state_dict([]), "'state_dict' must be a dict"),
        (lambda net: net.train(1), "'mode' must be a bool"),
        (lambda net: nn.Parameter(gt.ones(2, dtype=gt.int32)), "only those require grad"),
        (lambda net: nn.Parameter([1.0]), "'data' must be a Tensor"),
        (lambda net: nn.ReLU(True, 3), "ReLU: 'args' must be at most 1 arguments"),
        (lambda net: nn.ReLU(slope=1), "'arguments' must be among inplace"),
        (lambda net: nn.MaxPool2d(), "'kernel_size' must be given"),
        (lambda net: nn.LazyLinear(2).initialize_parameters([1]), "'input' must be a Tensor"),
        (lambda net: nn.init.sparse_(gt.ones(2, 2), float("nan")), "'sparsity' must be finite"),
    ],
)
def test_what_is_refused(act: Any, said: str) -> None:
    with pytest.raises(errors.GpuTensorError, match=said):
        act(Net())


@pytest.mark.parametrize(("kind", "ndims"), [
    (kind, ndims) for kind, most in (
        (nn.LazyBatchNorm1d, (2, 3)), (nn.LazyBatchNorm2d, (4,)), (nn.LazyInstanceNorm1d, (2, 3)),
        (nn.LazyInstanceNorm3d, (4, 5)),
    ) for ndims in range(6) if ndims not in most
])  # fmt: skip
def test_a_lazy_norm_stays_lazy_where_its_first_input_is_refused(kind: Any, ndims: int) -> None:
    made = kind()
    with pytest.raises(errors.ShapeError, match=f"{kind.__name__}: 'input' must have"):
        made(gt.ones((2,) * ndims))
    assert type(made) is kind and made.num_features == 0


def test_a_module_without_init_or_forward_says_so() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    with pytest.raises(errors.GpuTensorError, match="must be called before attributes"):
        Early()
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'none'"):
        _ = Net().none


@pytest.mark.parametrize("kind", [nn.Sequential, nn.ModuleList])
def test_lists_grow_and_shrink(kind: Any) -> None:
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    listed = kind(a, b) if kind is nn.Sequential else kind([a, b])
    both = listed + listed
    assert type(both) is kind and list(both) == [a, b, a, b] and list(listed) == [a, b]
    listed += listed
    assert list(listed) == [a, b, a, b]
    assert listed.insert(1, c) is listed and listed[1] is c
    assert listed.pop() is b and listed.pop(0) is a and list(listed) == [c, b, a]
    assert list(listed._modules) == ["0", "1", "2"]
    with pytest.raises(TypeError, match="insert: 'module' must be a Module"):
        listed.insert(1, [a])
    assert list(listed) == [c, b, a]
    if kind is nn.Sequential:
        with pytest.raises(IndexError, match=r"insert: 'index' must be in \[-3, 3\]"):
            listed.insert(4, a)


def test_modules_of_fixed_options_read_as_if_written_out() -> None:
    assert str(inspect.signature(nn.ReLU)) == "(inplace=False)"
    assert str(inspect.signature(nn.Unfold)) == "(kernel_size, dilation=1, padding=0, stride=1)"
    assert list(inspect.signature(nn.UpsamplingNearest2d).parameters) == ["size", "scale_factor"]

    class Leaky(nn.LeakyReLU):
        steps: int = 3  # of the user's own

    assert list(Leaky.options) == ["negative_slope", "inplace"] and Leaky(0.2).steps == 3

    class Own(nn.ReLU):
        def __init__(self, slope: float) -> None:
            super().__init__()

    assert list(inspect.signature(Own).parameters) == ["slope"]


def test_all_modules_are_exported() -> None:
    names = "attention container conv functional linear loss norm pooling recurrent".split()
    for name in [*names, "resampling"]:
        room = importlib.import_module(f"gputensor.nn.modules.{name}")
        made = {
            name for name, kind in vars(room).items()
            if isinstance(kind, type) and issubclass(kind, nn.Module) and name[0] != "_"
            and kind.__module__ == room.__name__ and name != "Fixed"
        }  # fmt: skip
        exported = {name for name in room.__all__ if issubclass(vars(room)[name], nn.Module)}
        assert made == exported and set(room.__all__) <= set(dir(nn))


def test_hooks_before_loading_rename_entries_of_old_files() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    seen = []

    def rename(state: dict, prefix: str, *rest: object) -> None:
        seen.append((prefix, len(rest)))
        state[f"{prefix}weight"] = state.pop(f"{prefix}old")

    handle = net[1]._register_load_state_dict_pre_hook(rename)
    state = dict(net.state_dict())
    state["1.old"] = gt.ones(2, 2)
    del state["1.weight"]
    assert not any(net.load_state_dict(state))
    assert seen == [("1.", 5)] and net[1].weight.tolist() == [[1, 1], [1, 1]]
    assert "1.old" in state  # the hook has a copy
    handle.remove()
    with pytest.raises(errors.ArgumentError, match="missing 1.weight"):
        net.load_state_dict(state)

    def complain(module: object, *rest: object) -> None:
        assert module is net
        rest[-1].append("no such thing")

    net.register_load_state_dict_pre_hook(complain)
    with pytest.raises(errors.ArgumentError, match="no such thing"):
        net.load_state_dict(net.state_dict())


def test_data_parallel_of_one_device() -> None:
    layer = nn.Linear(2, 1)
    model = nn.DataParallel(layer, dim=1)
    assert [*model.state_dict()] == ["module.weight", "module.bias"] and model.module is layer
    x = gt.ones(3, 2)
    assert gt.equal(model(x), layer(x)) and nn.DataParallel is nn.parallel.DataParallel
    assert nn.DataParallel(layer, ["cpu"])(x).shape == (3, 1)
    with pytest.raises(NotImplementedError, match="DataParallel: 'device_ids' must be one device"):
        nn.DataParallel(layer, [0, 1])


def test_sync_batch_norm_of_one_process() -> None:
    x = gt.arange(24.0).view(4, 3, 2)
    ours, plain = nn.SyncBatchNorm(3), nn.BatchNorm1d(3)
    for norm in (ours, plain):
        assert norm(x).shape == x.shape
    assert gt.equal(ours(x), plain(x)) and gt.equal(ours.running_var, plain.running_var)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(plain))
    assert [*made.state_dict()] == [f"0.{name}" for name in plain.state_dict()]
    assert made[0].running_var is plain.running_var


def test_errors_of_code_without_a_module_are_passed_on() -> None:
    """`exec` without `__name__` defines methods whose `__module__` is None."""
    space = {"nn": gt.nn, "__builtins__": __builtins__}
    exec("class M(nn.Module):\n  def forward(self, x): return x.no_such_name", space)
    space["M"].forward.__module__ = None
    with pytest.raises(AttributeError, match="no_such_name"):
        space["M"]()((1,))
