"""Each maker's kernels for special schemas have the results of its general kernel.

An operator of a user gets the same kernel as ours of the same schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core._generated import index
from gputensor.makers._generated import shapes
from gputensor.autograd import history
from gputensor.autograd.node import Node
from gputensor.autograd.variable import check_out, check_resize
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys, tls
from gputensor.dispatch.operator import Operator
from gputensor.makers import autocast, autograd, backend_select, inplace_or_view
from gputensor.tensor.make import view_of

OURS = ("aten", *index.NAMESPACES)
NAMES = [n for n in vars(shapes) if re.match("(casts|counts|tracks|selects|refuses|records)_", n)]
CPU, AUTOGRAD, AD_INPLACE_OR_VIEW, BACKEND_SELECT, AUTOCAST_CPU, AUTOCAST_CUDA = map(
    keys.key,
    ("CPU", "Autograd", "ADInplaceOrView", "BackendSelect", "AutocastCPU", "AutocastCUDA"),
)
TYPES = {
    "T": "Tensor", "N": "Tensor", "C": "Tensor", "M": "Tensor", "O": "Tensor?", "P": "Tensor?",
    "Q": "Tensor?",
    "L": "Tensor[]",
    "V": "int",
}  # fmt: skip


class Seen:
    """A backend's kernel that records its arguments and the thread's state."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self.answer, self.calls = answer, []

    def __call__(self, key_set: int, *args: Any) -> Any:
        self.calls.append((key_set, args, tls.state.get()))
        return self.answer(*args)


@pytest.fixture
def defined() -> Iterator[Callable[..., tuple[Operator, Seen]]]:
    made: list[Operator] = []
    handles = []

    def define(text: str, answer: Callable[..., Any], numbers: Any = ()) -> tuple[Operator, Seen]:
        operator = dispatcher.define(f"shaped::{text}", numbers=tuple(numbers))
        made.append(operator)
        seen = Seen(answer)
        handles.append(dispatcher.register_kernel(operator, CPU, seen, "native"))
        return operator, seen

    yield define
    for handle in handles:
        handle.remove()
    for operator in made:
        dispatcher.undefine(operator)


def of(kind: str) -> list[str]:
    found = [name for name in NAMES if name.startswith(kind)]
    assert found, kind
    return found


def test_a_shape_says_what_the_schemas_say() -> None:
    """The generator and the makers must spell shapes alike; otherwise every call would use the
    general kernel."""
    wanted = set()
    for operator in dispatcher.operators():
        for key in (AUTOGRAD, AD_INPLACE_OR_VIEW, BACKEND_SELECT, AUTOCAST_CPU, AUTOCAST_CUDA):
            for kernel in operator.kernels.get(key, ()):
                if kernel.convention == "maker" and operator.namespace in OURS:
                    code = kernel.function(operator.table, 0).__qualname__.partition(".")[0]
                    written = [a.type.name for a in operator.schema.arguments if a.is_write]
                    if code != "general" or written == ["Tensor"]:  # no shape counts several writes
                        wanted.add(code)
    assert set(NAMES) <= wanted and wanted - set(NAMES) <= {"replays", "_in_float32", "_refusing"}


# --- ADInplaceOrView ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", of("counts_"))
def test_a_write_is_counted_once_it_is_done(name: str, defined: Any) -> None:
    place, n = map(int, re.findall(r"\d+", name))
    listed = [f"Tensor(a!) x{i}" if i == place else f"int x{i}" for i in range(n)]
    operator, seen = defined(f"{name}({', '.join(listed)}) -> Tensor(a!)", lambda *a: a[place])
    found = {}
    for label, kernel in (
        (name, inplace_or_view.counts(operator.table, 0)),
        ("general", inplace_or_view.general(operator.table, [place])),
    ):
        x, lazy = gt.ones(2), gt.ones(2).t()
        args = [x if i == place else i for i in range(n)]
        version = x._version
        assert kernel(x._keys, *args) is x
        with gt.inference_mode():
            made = gt.ones(2)
        with pytest.raises(errors.AutogradError, match="inference"):
            kernel(x._keys, *[made if i == place else i for i in range(n)])
        seen.answer = failing
        with pytest.raises(ZeroDivisionError):
            kernel(x._keys, *args)
        seen.answer = lambda *a: a[place]
        kernel(lazy._keys, *[lazy if i == place else i for i in range(n)])
        found[label] = (x._version - version, lazy._version, [c[0] for c in seen.calls])
        assert seen.calls[0][1] == tuple(args)
        seen.calls.clear()
    assert found[name] == found["general"] and found[name][:2] == (1, 1)
    assert inplace_or_view.counts(operator.table, 0).__qualname__.startswith(f"{name}.")


def failing(*args: Any) -> Any:
    raise ZeroDivisionError


@pytest.mark.parametrize("name", of("tracks_"))
@pytest.mark.parametrize("mode", ["recording", "no_grad", "of a view", "requires grad"])
def test_a_view_knows_its_base(name: str, mode: str, defined: Any) -> None:
    n, is_list = int(name[-1]), "views" in name
    rest = "".join(f", int x{i}" for i in range(1, n))
    returned = "Tensor(a)[]" if is_list else "Tensor(a)"

    def answer(x: Any, *rest: Any) -> Any:
        made = view_of(x, x._geometry, x._offset)
        return [made, view_of(x, x._geometry, x._offset)] if is_list else made

    operator, _ = defined(f"{name}(Tensor(a) x0{rest}) -> {returned}", answer)
    found = []
    for kernel in (
        inplace_or_view.tracks(operator.table, 0),
        inplace_or_view.of_custom(operator.table, 0),
    ):
        base = gt.ones(4)
        x = base.view(2, 2) if mode == "of a view" else base
        x = x.requires_grad_() if mode == "requires grad" else x
        with gt.no_grad() if mode == "no_grad" else gt.enable_grad():
            result = kernel(x._keys & ~tls.AUTOGRAD, x, *range(1, n))
        views = result if is_list else [result]
        assert all(view._base is base for view in views)
        view = history.view_of(views[0])
        found.append((view[1:3], view[3] is None, len(views)))
    assert found[0] == found[1]


def test_a_users_operator_that_lies_about_a_view_is_not_believed(defined: Any) -> None:
    operator, _ = defined("fresh(Tensor(a) x) -> Tensor(a)", lambda x: gt.ones(2))
    x = gt.ones(2)
    assert inplace_or_view.of_custom(operator.table, 0)(x._keys, x)._base is None


# --- BackendSelect --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", of("selects_"))
def test_the_device_chooses_the_backend(name: str, defined: Any) -> None:
    place, n = map(int, re.findall(r"\d+", name))
    listed = [f"Device? {'device' if i == place else f'x{i}'}=None" for i in range(n)]
    operator, seen = defined(f"{name}(*, {', '.join(listed)}) -> Tensor", lambda *a: None)
    meta = Seen(lambda *a: None)
    handle = dispatcher.register_kernel(operator, keys.key("Meta"), meta, "native")
    made = backend_select.selects(operator.table, 0)
    assert made.__qualname__.startswith(f"{name}.")
    for kernel in (made, backend_select.general(operator, place)):
        kernel(0, *[None] * n)
        kernel(0, *[gt.device("meta") if i == place else i for i in range(n)])
        with pytest.raises(errors.DispatchError, match="no kernel for key XLA"):
            kernel(0, *[gt.device("xla")] * n)
    handle.remove()
    assert seen.calls[0] == seen.calls[1] and len(seen.calls) == 2
    assert seen.calls[0][1][place] == gt.device("cpu")
    assert meta.calls[0] == meta.calls[1] and meta.calls[0][1][place] == gt.device("meta")


# --- Autograd -------------------------------------------------------------------------------------


def schema_of(letters: str, name: str, out: bool) -> tuple[str, list[str]]:
    """Return a schema of this shape, and the arguments that may be numbers."""
    listed = [f"{TYPES[letter]} x{i}" for i, letter in enumerate(letters)]
    if out:
        listed[-1] = f"*, Tensor(a!) x{len(letters) - 1}"
    numbers = [f"x{i}" for i, letter in enumerate(letters) if letter in "NQM"]
    return f"{name}({', '.join(listed)}) -> Tensor{'(a!)' if out else ''}", numbers


def given(letters: str, requires: int = -1, **other: Any) -> list[Any]:
    made: list[Any] = []
    for i, letter in enumerate(letters):
        x = gt.ones(2).requires_grad_(i == requires)
        made.append([gt.ones(2), x] if letter == "L" else x if letter in "TNCMOPQ" else i)
    return made


@pytest.mark.parametrize("name", of("refuses_"))
@pytest.mark.parametrize("check", [check_out, check_resize])
def test_what_cannot_be_recorded_is_refused(name: str, check: Any, defined: Any) -> None:
    letters = name.partition("_")[2]
    text, numbers = schema_of(letters, name, letters[-1] == "T")
    operator, seen = defined(text, lambda *a: a[-1], numbers)
    made = autograd.refuses_out if check is check_out else autograd.refuses_resize
    kernel = made(operator.table, 0)
    assert kernel.__qualname__.startswith(f"{name}.")
    for place, letter in enumerate(letters):
        if letter == "V":
            continue
        args = given(letters, place)
        with pytest.raises(errors.AutogradError, match=name):
            kernel(gt.ones(1)._keys, *args)
        assert not seen.calls
        if check is check_out:
            with gt.no_grad():
                kernel(gt.ones(1)._keys, *args)
            seen.calls.clear()
    plain = [1.5 if letter == "N" else x for letter, x in zip(letters, given(letters))]
    assert kernel(gt.ones(1)._keys, *plain) is plain[-1]
    ((key_set, args, _),) = seen.calls
    assert key_set == gt.ones(1)._keys & keys.below("AutogradOther") and args == tuple(plain)


class Kept(Node):
    """Stores its arguments."""

    __slots__ = ("kept",)

    def keep(node, *args: Any) -> None:
        node.kept = args

    def backward(node, grad: Any) -> Any:
        return (grad,) * len(node.edges)


@pytest.mark.parametrize("name", of("records_"))
def test_what_requires_grad_is_recorded(name: str, defined: Any) -> None:
    letters = name.partition("_")[2]
    text, numbers = schema_of(letters, name, False)
    operator, seen = defined(text, lambda *a: gt.ones(2), numbers)
    inputs = tuple(f"x{i}" for i, letter in enumerate(letters) if letter in "TNLPQ")
    kind = type("Recorded", (Kept,), {"inputs": inputs, "__slots__": ()})
    kernel = autograd.records(kind)(operator.table, 0)
    assert kernel.__qualname__.startswith(f"{name}.")
    all_keys, outside = gt.ones(1)._keys, tls.state.get()
    below = (outside[0], outside[1] & ~tls.AUTOGRAD & ~tls.AD_INPLACE_OR_VIEW)

    odd = {"O": None, "M": 1.5}
    args = [odd.get(letter, x) for letter, x in zip(letters, given(letters))]
    assert kernel(all_keys, *args).grad_fn is None and seen.calls[-1][1:] == (tuple(args), outside)
    for place, letter in enumerate(letters):
        args = given(letters, place)
        if letter in "CMO":
            with pytest.raises(errors.AutogradError, match=f"'x{place}'"):
                kernel(all_keys, *args)
        elif letter != "V":
            result = kernel(all_keys, *args)
            assert type(result.grad_fn) is kind and result.grad_fn.kept == tuple(args)
            assert seen.calls[-1][0] == all_keys & keys.below("AutogradOther")
            assert seen.calls[-1][1:] == (tuple(args), below) and tls.state.get() == outside
            with gt.no_grad():
                assert kernel(all_keys, *args).grad_fn is None
            seen.answer = failing
            with pytest.raises(ZeroDivisionError):
                kernel(all_keys, *args)
            assert tls.state.get() == outside
            seen.answer = lambda *a: gt.ones(2)


# --- Autocast -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*of("casts_"), "TNLPV"])
@pytest.mark.parametrize("fixed", [None, gt.float32, "widest"])
def test_operands_are_cast(name: str, fixed: Any, defined: Any) -> None:
    letters = name.rpartition("_")[2]
    place = next(n for n, letter in enumerate(letters) if letter != "V")
    text, numbers = schema_of(letters, name, False)
    operator, seen = defined(text, lambda *a: None, numbers)
    how = (None, True) if fixed == "widest" else (fixed, False)
    kernels = [autocast.general(operator, *how)]
    if name != letters:
        kernels.append(vars(shapes)[name](operator, *how))
    plain = [gt.ones(2, dtype=gt.float16), gt.ones(2), gt.ones(2, dtype=gt.float64)]
    found = []
    for kernel in kernels:
        for x in plain:
            for missing in (False, True):
                args = given(letters)
                args[place] = [x, x] if letters[place] == "L" else x
                if missing:
                    odd = {"P": None, "N": 1.5}
                    rest = zip(letters[place + 1 :], args[place + 1 :])  # one tensor is left
                    args[place + 1 :] = [odd.get(letter, a) for letter, a in rest]
                with gt.autocast("cpu"):
                    outside = tls.state.get()
                    kernel(x._keys | keys.key_set(("AutocastCPU",)), *args)
                    assert tls.state.get() == outside
                key_set, cast, state = seen.calls.pop()
                assert not state[1] & keys.key_set(("AutocastCPU",))
                found.append((key_set, state, [dtypes(value) for value in cast]))
    half = len(found) // len(kernels)
    assert found[:half] == found[-half:]
    expected = {None: gt.bfloat16, gt.float32: gt.float32, "widest": gt.float32}[fixed]
    first = found[0][2][place]
    assert (first[0] if isinstance(first, list) else first) is expected


def dtypes(value: Any) -> Any:
    if isinstance(value, list):
        return [dtypes(x) for x in value]
    return value.dtype if isinstance(value, gt.Tensor) else value


# --- built-in and users' operators ----------------------------------------------------------------


RULES = {
    "ADInplaceOrView": inplace_or_view.of_custom, "BackendSelect": backend_select.selects,
    "Autograd": autograd.refuses_out, "AutocastCPU": None, "AutocastCUDA": None,
}  # fmt: skip


@pytest.mark.parametrize("key_name", RULES)
def test_a_users_operator_of_the_same_schema_gets_the_same_kernel(
    key_name: str, defined: Any
) -> None:
    """Except for views: whether a user's operator returns a view is checked."""
    n = 0
    for operator in dispatcher.operators():
        found = operator.kernels.get(keys.key(key_name), ())
        if not operator.name.startswith("aten::") or not found or found[0].convention != "maker":
            continue
        schema = operator.schema
        writes = any(a.is_write for a in schema.arguments)
        if key_name == "ADInplaceOrView" and not writes:
            continue
        if key_name == "Autograd" and schema.kind != "out":
            continue
        ours = found[0].function(operator.table, 0)
        text = str(schema).removeprefix("aten::")
        twin, _ = defined(text, lambda *a: None, operator.definition.numbers)
        rule = RULES[key_name]
        if rule is None:
            policy = autocast.shipped[key_name][operator.qualified_name]
            if policy == "fp32_append_dtype":  # it forwards to an overload
                other = autocast.with_dtype(operator)
                defined(str(other.schema).removeprefix("aten::"), lambda *a: None)
            rule = autocast.casts(policy)
        assert rule(twin.table, 0).__code__ is ours.__code__, operator
        n += 1
    assert n >= 10
