"""Families of operators load when one of their names is first used, whole or not at all.

Each program runs in a new process, where no family is loaded.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
HEAD = """
import sys
import gputensor as gt

def families():
    head = "gputensor._generated.families."
    return sorted(m.removeprefix(head) for m in sys.modules if m.startswith(head))

def registered():
    head = "gputensor.registrations._generated."
    return sorted(m.removeprefix(head) for m in sys.modules if m.startswith(head))
"""


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_function_brings_its_family_alone() -> None:
    run("""
assert families() == [] and "add" in dir(gt) and "native" not in str([*sys.modules])
gt.matmul
assert families() == ["matmul"] and registered() == []
assert gt.matmul is vars(gt)["matmul"] is gt._generated.functions.matmul
""")


NAMED = {
    "x + x": "binary", "2 - x": "binary", "x == x": "comparison", "x[0]": "slicing",
    "x[...]": "view", "x @ x": "matmul", "-x": "unary", "abs(x)": "unary", "x.mT": "view",
    "hasattr(x, 'sum')": "reduce", "gt.Tensor.view": "view", "super(Sub, Sub).exp": "unary",
    "inspect.signature(gt.Tensor.flatten)": "view", "gt.ops.aten.sum": "reduce",
    "gt.library.Library('aten', 'IMPL').impl('exp', print, 'PrivateUse1')": "unary",
    "gt.dispatch.dump_table('aten::mm')": "matmul", "x.__iadd__(x)": "binary",
    "gt.dispatch.find('aten::where.self')": "where", "copy.deepcopy(x)": "copy",
    "pickle.loads(b'cgputensor._generated.functions\\nexp\\n.')": "unary",
    "gt.nn.functional.relu(x)": "unary", "help(gt.argmax)": "argreduce",
}  # fmt: skip


def test_what_names_a_family_brings_it() -> None:
    """Each expression in a child of a process that has loaded no family."""
    run(f"""
import copy, inspect, os, pickle, traceback
class Sub(gt.Tensor): pass
x = gt.from_numpy(__import__("numpy").ones((2, 2)))
assert families() == []
failed = []
for expression, family in {NAMED!r}.items():
    child = os.fork()
    if not child:
        try:
            exec(expression)
            assert family in families(), (expression, families())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(expression)
assert not failed, failed
""")


def test_operators_of_python_are_there_from_the_first_use_on() -> None:
    assert (
        run("""
x = gt.tensor([1.0, 2.0])
x += 1
print((x + 1, 1 - x, x == x, x @ x, x[...], x[0] if x.any() else None, {x: 1}[x]))
""")
        == "(tensor([3., 4.]), tensor([-1., -2.]), tensor([True, True]), tensor(13.),"
        " tensor([2., 3.]), tensor(2.), 1)\n"
    )


def test_an_override_runs_once() -> None:
    run("""
class Loud(gt.Tensor):
    calls = 0
    def add(self, other):
        Loud.calls += 1
        return super().add(other)

x = gt.ones(2).as_subclass(Loud)
x.add(1)
assert Loud.calls == 1
""")


def test_names_are_known_before_anything_is_loaded() -> None:
    run("""
assert {"add", "mT", "__add__", "__matmul__"} <= set(dir(gt.Tensor))
assert {"zeros", "autocast", "nn", "float32"} <= set(dir(gt)) and families() == []
x = gt.from_numpy(__import__("numpy").ones(3))
try:
    x.mT = 1
except AttributeError:
    pass
else:
    raise AssertionError("x.mT")
exec("from gputensor import *", space := {})
assert space["add"] is gt.add and space["autocast"] is gt.autocast and len(families()) > 15
import pickle
for name in ("add", "view"):
    found = getattr(gt.Tensor, name)
    assert pickle.loads(pickle.dumps(found)) is found
    assert found.__qualname__ == f"GeneratedMethods.{name}"
for found in (gt.zeros, gt.arctan2, gt.Tensor.arctan2, gt.Tensor.__pow__, gt.Tensor.__rand__):
    assert pickle.loads(pickle.dumps(found)) is found
assert gt.arctan2 is not gt.atan2 and gt.arctan2.__doc__ == gt.atan2.__doc__
""")


def test_our_kernels_are_older_than_a_users() -> None:
    run("""
import warnings
warnings.simplefilter("ignore")
with gt.library.Library("aten", "IMPL") as lib:
    lib.impl("exp", lambda x: x, "CPU")
    x = gt.tensor([3.0])
    assert gt.exp(x) is x
assert gt.exp(gt.tensor([0.0])).item() == 1
""")


def test_what_is_set_before_a_family_loads_holds_for_it() -> None:
    run("""
x = gt.from_numpy(__import__("numpy").ones(2))
with gt.dispatch.trace() as lines:
    x.exp()
assert any("aten::exp" in line for line in lines)
class Seen(gt.DispatchMode):
    def __gputensor_dispatch__(self, op, types, args=(), kwargs=None):
        seen.append(op.name)
        return op(*args, **(kwargs or {}))
seen = []
with Seen():
    x.mul(2)
assert "aten::mul" in seen
y = gt.tensor([1 + 2j]).conj()
assert y.clone().item() == 1 - 2j and (y * 2).item() == 2 - 4j  # keys of lazy views
""")


@pytest.mark.full
@pytest.mark.parametrize("step", ["families", "kernels"])
def test_a_family_that_fails_leaves_nothing_and_loads_the_next_time(step: str) -> None:
    run(f"""
import importlib
from gputensor.dispatch import dispatcher, families as lazily

x = gt.from_numpy(__import__("numpy").full(2, 4.0))
gt.zeros(1) + 1  # what every call needs is there
def state():
    from gputensor.makers import further
    return ({{name: (o.definition, o.kernels) for name, o in dispatcher._operators.items()
              if lazily.family_of(name) == "unary" and {step!r} == "families"}},
            {{name: {{k: len(s) for k, s in o.kernels.items()}}
              for name, o in dispatcher._operators.items()}}
            if {step!r} == "kernels" else None,
            len(further.entries.get("unary", ())))
if {step!r} == "kernels":
    lazily.called("unary")
    importlib.import_module("gputensor.registrations._generated.unary")  # it names other families
before = state()
name = {{"families": "gputensor._generated.families.unary",
        "kernels": "gputensor.registrations._generated.unary"}}[{step!r}]
real = importlib.import_module
def failing(module, package=None):
    found = real(module, package)
    if module == name:
        if {step!r} == "kernels":
            install = found.install
            def half():
                found.install = install
                install()
                raise AttributeError("half way")
            found.install = half
        else:
            del sys.modules[name]
            raise OSError("half way")
    return found
lazily.import_module = failing
for use in (lambda: x.exp(), lambda: gt.exp(x), lambda: gt.ops.aten.exp(x)):
    try:
        use()
    except (ImportError, OSError) as error:
        assert "half way" in str(error)
        assert state() == before
    else:
        raise AssertionError("loaded")
lazily.import_module = real
assert x.sqrt().tolist() == [2.0, 2.0] and gt.exp(x).shape == (2,)
gt.dispatch.check_invariants()
""")


@pytest.mark.full
@pytest.mark.parametrize("first", [0, 120, 240])
def test_what_a_signal_interrupts_is_taken_back_and_loads_the_next_time(first: int) -> None:
    run(f"""
import signal
from gputensor.dispatch import dispatcher, families as lazily

signal.signal(signal.SIGINT, signal.default_int_handler)
seen = 0
def trace(frame, event, argument):
    global seen
    if frame.f_code.co_filename not in (dispatcher.__file__, lazily.__file__):
        return None
    if event == "line" and frame.f_code.co_name in ("define", "register_kernel", "note"):
        seen += 1
        if seen == {first} + at:
            signal.raise_signal(signal.SIGINT)
    return trace

names = "sqrt sum sort matmul cumsum where stack gather softmax histc tril kron roll".split()
for at, name in enumerate(names, 3):
    seen = 0
    sys.settrace(trace)
    try:
        getattr(gt, name)
        lazily.registered(lazily.index.FUNCTIONS[name])
    except KeyboardInterrupt:
        pass
    sys.settrace(None)
    getattr(gt, name)
    lazily.registered(lazily.index.FUNCTIONS[name])
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert gt.ones(4).sqrt().sum() == 4
""")


@pytest.mark.full
def test_threads_that_name_families_at_once() -> None:
    run("""
import threading
import numpy as np
x = gt.from_numpy(np.ones((4, 4)))
uses = [
    lambda: x + x, lambda: x @ x, lambda: x.sum(), lambda: x.exp(), lambda: gt.zeros(3),
    lambda: x == x, lambda: x.softmax(0), lambda: gt.where(x > 0, x, x), lambda: x[0],
    lambda: gt.ops.aten.argmax(x), lambda: gt.cat([x, x]), lambda: gt.dispatch.dump("aten::mm"),
]
start = threading.Barrier(2 * len(uses))
failed = []
def use(one):
    start.wait()
    try:
        one()
    except BaseException as error:
        failed.append(error)
threads = [threading.Thread(target=use, args=(one,), daemon=True) for one in uses * 2]
for thread in threads: thread.start()
for thread in threads: thread.join(60)
assert not failed and not any(thread.is_alive() for thread in threads), failed
gt.dispatch.check_invariants()
""")


def test_who_looks_up_an_operator_waits_for_the_thread_that_loads_its_family() -> None:
    run("""
import importlib, threading
from gputensor.dispatch import dispatcher, families
halted, go_on = threading.Event(), threading.Event()
def slow(module):
    if module.endswith("families.binary"):
        halted.set()
        go_on.wait(60)
    return importlib.import_module(module)
families.import_module = slow
loader = threading.Thread(target=lambda: gt.add)
loader.start()
halted.wait(60)
seen = []
asks = threading.Thread(target=lambda: seen.append(dispatcher.get("aten::sub.Tensor")))
asks.start()
asks.join(0.2)
assert asks.is_alive() and not seen
go_on.set()
loader.join(60), asks.join(60)
assert seen[0].kernels and "gputensor.registrations._generated.binary" in sys.modules
""")
