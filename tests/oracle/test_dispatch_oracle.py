"""Tables, key sets and thread state against PyTorch's, for operators registered in both.

Excluded: keys with a backend fallback in one library only (OTHER_FALLBACKS), registration at
Undefined (in PyTorch it means "no key"), a Meta kernel with CompositeImplicitAutograd (PyTorch's
Python API rejects it in one order only). Because of bug b of section 0, PyTorch's AutogradOther
slot is out of date if a Quantized or Sparse kernel is registered after the composite one; then the
test makes PyTorch compute it again.
"""

from __future__ import annotations

import itertools
import random
import warnings
from typing import Any

import pytest

from gputensor import dispatch
from gputensor.core import errors
from gputensor.dispatch import dispatcher, keys, table_text, tls
from gputensor.func import operators as func_operators
from gputensor.library import Library, fallthrough_kernel
from tests.dispatch.operands import Operand, kernel
from tests.dispatch.registration.test_tables import golden_lines
from tests.golden.freeze_dispatch import KEYS, random_set, torch_library, torch_lines, torch_slots

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

SETS = 5000
SEQUENCES, STEPS = 2500, 12
# Keys with a fallback in one library only: Meta raises in both; two keys without a boxed autograd
# kernel in PyTorch have one in gputensor; functionalization and the Python dispatcher exist only in
# PyTorch; Fuse exists only in gputensor and has a fallback after fusion is loaded.
OTHER_FALLBACKS = (
    "Meta",
    "AutogradPrivateUse2",
    "AutogradPrivateUse3",
    "Functionalize",
    "Fuse",
    "PythonDispatcher",
)


@pytest.fixture(scope="module", autouse=True)
def _with_fallbacks_of_func() -> None:
    """Load gt.func's fallbacks. PyTorch registers its own when it is imported, gt.func on first
    use."""
    func_operators.install()


def our_library(ns: str, words: list[str]) -> Library:
    lib = Library(ns, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    for word in words:
        register(lib, word)
    return lib


def register(lib: Library, word: str) -> Any:
    key, _, fallthrough = word.partition("=")
    return lib.impl("f", fallthrough_kernel if fallthrough else kernel(key), key)


def test_random_sets_of_registrations_give_equal_tables() -> None:
    rng = random.Random(1)
    sizes = set()
    for number in range(SETS):
        words, ns = random_set(rng), f"oracle{number}"
        theirs = torch_library(torch, ns, words)
        ours = our_library(ns, words)
        assert golden_lines(f"{ns}::f") == torch_lines(torch, f"{ns}::f"), words
        sizes.add(len(words))
        theirs._destroy()
        ours._destroy()
    assert sizes == set(range(1, 13))


def _may_be_stale(live: list[str]) -> bool:
    """True if PyTorch's AutogradOther slot may be out of date (section 0b)."""
    names = {word.partition("=")[0] for word in live}
    return bool(names & {"QuantizedCPU", "SparseCPU", "SparseCUDA"})


def our_slots(name: str) -> dict[str, str]:
    """Return key -> kind of slot, in the form of `torch_slots`."""
    operator = dispatcher.get(name)
    found = [] if operator is None else table_text.slots(operator.table)
    return {
        key.name: why + (" fallthrough" if kernel.is_fallthrough else "")
        for key, kernel, why in found
    }


def comparable(slots: dict[str, str]) -> dict[str, str]:
    return {
        k: why
        for k, why in slots.items()
        if not (k in OTHER_FALLBACKS and why == "backend fallback")
    }


def refresh_autograd_other(ns: str) -> None:
    """Make PyTorch compute the slot again, as a registration at its key does."""
    passing = torch.library.Library(ns, "IMPL")
    passing.impl("f", lambda x: x, "AutogradOther")
    passing._destroy()


def test_random_sequences_of_registering_and_undoing_give_equal_tables() -> None:
    """def, impl, fallthrough and their removal occur in any order, also removal of the definition;
    slots are compared by kind."""
    rng = random.Random(2)
    candidates = [key for key in KEYS if key != "Meta"]
    compared, kinds = 0, set()
    for number in range(SEQUENCES):
        ns = f"sequence{number}"
        live: list[tuple[str, Any, Any]] = []
        for _ in range(STEPS):
            words = [word for word, _, _ in live]
            action = rng.random()
            if live and action < 0.4:
                _, theirs, ours = live.pop(rng.randrange(len(live)))
                theirs._destroy()
                ours._destroy()
            elif "def" not in words and action < 0.6:
                live.append(("def", torch_library(torch, ns, []), our_library(ns, [])))
            else:
                word = rng.choice(candidates) + ("=fallthrough" if rng.random() < 0.2 else "")
                theirs, ours = torch.library.Library(ns, "IMPL"), Library(ns, "IMPL")
                key, _, fallthrough = word.partition("=")
                theirs.impl(
                    "f", torch.library.fallthrough_kernel if fallthrough else lambda x: x, key
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", errors.OverrideWarning)
                    register(ours, word)
                live.append((word, theirs, ours))
            words = [word for word, _, _ in live]
            if _may_be_stale(words):
                refresh_autograd_other(ns)
            expected = comparable(torch_slots(torch, f"{ns}::f"))
            assert comparable(our_slots(f"{ns}::f")) == expected, words
            kinds.update(expected.values())
            compared += 1
        for _, theirs, ours in live:
            theirs._destroy()
            ours._destroy()
    assert compared == SEQUENCES * STEPS
    assert kinds == {
        "kernel", "kernel fallthrough", "math kernel", "math kernel fallthrough",
        "default backend kernel",
        "default backend kernel fallthrough", "autograd kernel", "autograd kernel fallthrough",
        "backend fallback", "backend fallback fallthrough", "ambiguous autogradother",
    }  # fmt: skip


def test_every_permutation_of_up_to_four_gives_one_table() -> None:
    rng = random.Random(3)
    for number in range(12):
        ns, words = f"permuted{number}", rng.sample(KEYS, 4)
        if "Meta" in words:
            words.remove("Meta")
        seen: dict[frozenset[str], list[str]] = {}
        with our_library(ns, []) as base, Library(ns, "IMPL") as lib:
            for order in itertools.permutations(words):
                for undo in itertools.permutations(words):
                    handles: dict[str, Any] = {}
                    for word in order:
                        handles[word] = register(lib, word)
                        lines = golden_lines(f"{base.ns}::f")
                        assert seen.setdefault(frozenset(handles), lines) == lines
                    for word in undo:
                        handles.pop(word).remove()
                        lines = golden_lines(f"{base.ns}::f")
                        assert seen.setdefault(frozenset(handles), lines) == lines
        theirs_sets = [s for s in seen if s]
        for chosen in theirs_sets:
            in_order = sorted(chosen, key=lambda key: key.startswith("Composite"))
            theirs = torch_library(torch, f"{ns}t", in_order)
            assert torch_lines(torch, f"{ns}t::f") == seen[chosen]
            theirs._destroy()


# --- key sets -------------------------------------------------------------------------------------

# Some keys are attributes, others only have a name that can be parsed.
_RUNTIME = {
    key.name: getattr(torch._C.DispatchKey, key.name,
    None) or torch._C._parse_dispatch_key(key.name)
    for key in keys.RUNTIME_KEYS if key.name not in ("Undefined", "Fuse")
}  # fmt: skip


def _names(theirs: Any) -> set[str]:
    return {name for name, key in _RUNTIME.items() if theirs.has(key)}


def _ours(bits: int) -> set[str]:
    return {name for name in _RUNTIME if name in keys.KeySet(bits)}


def _theirs(names: Any) -> Any:
    found = torch._C.DispatchKeySet(torch._C.DispatchKey.Undefined)
    for name in names:
        found = found | torch._C.DispatchKeySet(_RUNTIME[name])
    return found


def test_full_after_is_pytorchs_for_every_key() -> None:
    assert len(_RUNTIME) == len(keys.RUNTIME_KEYS) - 2 > 40  # Undefined, and Fuse, which is ours
    for name, key in _RUNTIME.items():
        theirs = _names(torch._C._dispatch_keyset_full_after(key))
        assert _ours(dispatch.full_after(name)) == theirs, name


def test_set_operations_are_pytorchs() -> None:
    rng = random.Random(4)
    for _ in range(500):
        a, b = (rng.sample(list(_RUNTIME), rng.randint(0, 6)) for _ in range(2))
        one, two = keys.KeySet(keys.key_set(a)), keys.KeySet(keys.key_set(b))
        left, right = _theirs(a), _theirs(b)
        assert _ours(one | two) == _names(left | right)
        assert _ours(one & two) == _names(left & right)
        assert _ours(one - two) == _names(left - right)
        if a:
            assert _RUNTIME[one.highest().name] == left.highestPriorityTypeId()


# --- calls ----------------------------------------------------------------------------------------

_CALLED = (
    "CPU", "Meta", "BackendSelect", "Conjugate", "Negative", "ADInplaceOrView", "AutogradCPU",
    "AutogradMeta",
    "AutocastCPU", "TESTING_ONLY_GenericWrapper", "TESTING_ONLY_GenericMode",
)  # fmt: skip


def test_calls_guards_and_redispatches_take_pytorchs_way() -> None:
    """A chain of kernels, each of which redispatches below itself, must run in the same order with
    the same key sets. Only keys with a registration are compared: without one, PyTorch's autograd
    keys have a boxed fallback that stays in the set, while ours fall through.
    """
    rng = random.Random(5)
    lengths = set()
    for number in range(200):
        ns = f"way{number}"
        chosen = [key for key in _CALLED if rng.random() < 0.7 or key in ("CPU", "Meta")]
        falls = {key for key in chosen if rng.random() < 0.15 and key not in ("CPU", "Meta")}
        # Keys without a kernel of this test would reach PyTorch's own fallbacks.
        include = [key for key in chosen if rng.random() < 0.2 and not key.startswith("Auto")]
        exclude = [key for key in _CALLED if rng.random() < 0.1]
        ours, theirs = (
            _our_way(ns, chosen, falls, include, exclude),
            _their_way(ns, chosen, falls, include, exclude),
        )
        assert ours == theirs, (chosen, falls, include, exclude)
        lengths.add(len(ours))
    assert len(lengths) >= 5


def _our_way(ns: str, chosen: Any, falls: Any, include: Any, exclude: Any) -> list[Any]:
    log: list[Any] = []
    with Library(ns, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        operator = dispatch.find(f"{ns}::f")

        def make(name: str) -> Any:
            def run(key_set: Any, x: Any) -> Any:
                log.append((name, sorted(_ours(key_set) & set(chosen))))
                rest = key_set & dispatch.full_after(name)
                return x if name in keys.BACKENDS else operator.redispatch(rest, x)

            return run

        for key in chosen:
            if key in falls:
                lib.impl("f", fallthrough_kernel, key)
            else:
                lib.impl("f", make(key), key, with_keyset=True)
        try:
            with dispatch.IncludeDispatchKeys(include), dispatch.ExcludeDispatchKeys(exclude):
                operator(Operand("CPU"))
        except NotImplementedError:
            log.append("error")
    return log


def _their_way(ns: str, chosen: Any, falls: Any, include: Any, exclude: Any) -> list[Any]:
    log: list[Any] = []
    x = torch.ones(1)
    lib = torch.library.Library(ns, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    operator = getattr(torch.ops, ns).f.default

    def make(name: str) -> Any:
        key = _RUNTIME[name]

        def run(key_set: Any, x: Any) -> Any:
            log.append((name, sorted(_names(key_set) & set(chosen))))
            rest = key_set & torch._C._dispatch_keyset_full_after(key)
            return x if name in keys.BACKENDS else operator.redispatch(rest, x)

        return run

    for key in chosen:
        if key in falls:
            lib.impl("f", torch.library.fallthrough_kernel, key)
        else:
            lib.impl("f", make(key), key, with_keyset=True)
    try:
        with _Guards(include, exclude):
            operator(x)
    except NotImplementedError:
        log.append("error")
    lib._destroy()
    return log


class _Guards:
    """PyTorch's include and exclude guards, which take one key set each."""

    def __init__(self, include: Any, exclude: Any) -> None:
        self.include, self.exclude = _theirs(include), _theirs(exclude)

    def __enter__(self) -> None:
        self.before = (
            torch._C._dispatch_tls_local_include_set(),
            torch._C._dispatch_tls_local_exclude_set(),
        )
        self.guard = torch._C._ForceDispatchKeyGuard(
            self.before[0] | self.include, self.before[1] | self.exclude
        )
        self.guard.__enter__()

    def __exit__(self, *exc: Any) -> None:
        self.guard.__exit__(*exc)


def test_the_default_state_is_pytorchs() -> None:
    assert _ours(tls.included()) == _names(torch._C._dispatch_tls_local_include_set())
    shown = _names(torch._C._dispatch_tls_local_exclude_set())
    assert {k for k in _ours(tls.excluded()) if k.startswith("Auto")} == {
        k for k in shown if k.startswith("Auto")
    }
    with torch.inference_mode():
        included = _names(torch._C._dispatch_tls_local_include_set())
    with dispatch.InferenceMode():
        assert _ours(tls.included()) == included


def test_tensors_carry_pytorchs_keys() -> None:
    for backend, made in (("CPU", torch.ones(1)), ("Meta", torch.ones(1, device="meta"))):
        assert _ours(keys.tensor_keys(backend)) == _names(torch._C._dispatch_keys(made))
    with torch.inference_mode():
        assert _ours(keys.tensor_keys("CPU", inference=True)) == _names(
            torch._C._dispatch_keys(torch.ones(1))
        )
