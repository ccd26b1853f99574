"""`dir()` of gt and its modules lists the public names, and missing names are explained."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import gputensor as gt
from gputensor.core._generated import index

ROOT = Path(__file__).parents[2]
MODULES = """
    gt gt.amp gt.array_api gt.array_api.fft gt.array_api.linalg gt.autograd
    gt.autograd.forward_ad gt.autograd.functional gt.autograd.graph gt.backend gt.backends
    gt.backends.cpu gt.cuda gt.dispatch gt.distributed
    gt.distributions gt.distributions.constraint_registry gt.distributions.constraints
    gt.distributions.kl gt.distributions.transforms gt.distributions.utils gt.fallback gt.fft
    gt.func gt.layout gt.library gt.linalg
    gt.nn gt.nn.functional gt.nn.init gt.nn.parallel gt.nn.utils gt.nn.utils.fusion
    gt.nn.utils.parametrizations gt.nn.utils.parametrize gt.nn.utils.prune gt.nn.utils.rnn
    gt.nn.utils.stateless
    gt.optim gt.optim.lr_scheduler gt.optim.swa_utils gt.profiler
    gt.quasirandom gt.random gt.serialization gt.special gt.testing gt.utils gt.utils.checkpoint
    gt.utils.data gt.utils.data.distributed gt.utils.flop_counter
""".split()

# Devices of examples, gt.ops, and overloads of the operator `gt`.
NOT_LISTED = {"acme", "emca", "NAME", "toy", "ops", "Scalar", "Scalar_out", "Tensor_out"}


def found(path: str) -> object:
    value: object = gt
    for name in path.split(".")[1:]:
        value = getattr(value, name)
    return value


def test_every_module_that_a_module_lists_is_checked() -> None:
    listed = {
        f"{path}.{name}"
        for path in MODULES
        for name in dir(found(path))
        if isinstance(found(f"{path}.{name}"), types.ModuleType)
        and not name.startswith("__")
    }  # fmt: skip
    assert listed - {"gt.ops"} == set(MODULES) - {"gt"}  # accepts any name, as torch.ops does


@pytest.mark.parametrize("path", MODULES)
def test_a_module_lists_what_users_name(path: str) -> None:
    module = found(path)
    names = [name for name in dir(module) if not re.fullmatch("__.*__", name)]
    assert names == sorted(set(module.__all__)) and len(names) == len(module.__all__)
    for name in names:
        assert not name.startswith("_")
        value = getattr(module, name)
        if not isinstance(value, type(re)):  # its names are those of modules
            home = str(getattr(value, "__module__", "gputensor"))
            assert home.startswith("gputensor"), f"{path}.{name} comes from {home}"
    assert not {"Any", "annotations", "errors", "lazy"} & set(names)


def test_what_the_pages_name_is_listed() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if page.name == "new_operator.md":  # adds a name to a copy
            continue
        for name in re.findall(r"\bgt((?:\.[a-z_]+)*\.[A-Za-z]\w*)\b", page.read_text("utf-8")):
            at = "gt"
            for part in name[1:].split("."):
                if at not in MODULES:
                    break
                if at != "gt" or part not in NOT_LISTED:
                    assert part in dir(found(at)), f"{page.name}: {at}.{part}"
                at += f".{part}"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gt.linalg.sov", "'gputensor.linalg' has no attribute 'sov'; did you mean 'solve'"),
        (
            "gt.profiler.schedule",
            "PyTorch has torch.profiler.schedule, and gputensor does not",
        ),
        ("gt.sparse_coo_tensor", "no attribute 'sparse_coo_tensor': there are no sparse tensors"),
        ("gt.ptp", "NumPy has numpy.ptp, and gputensor does not yet"),
        ("gt.nn.functional.linaer", "did you mean 'linear' or 'bilinear'"),
        (
            "gt.profiler.proflie",
            "'gputensor.profiler' has no attribute 'proflie'; did you mean 'prof",
        ),
        ("gt.backend.registr", "module 'gputensor.backend' has no attribute 'registr'"),
        ("gt.fallback.foo", "module 'gputensor.fallback' has no attribute 'foo'"),
        ("gt.profiler.schedule", "PyTorch has torch.profiler.schedule, and"),
        ("gt.array_api.linalg.solv", "'gputensor.array_api.linalg' has no attribute 'solv'; did"),
        ("gt.testing.assert_clos", "did you mean 'assert_close'; docs/operators.md lists the op"),
    ],
)
def test_a_missing_name_is_explained(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(says)):
        found(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("to_sparse", "'Tensor' object has no attribute 'to_sparse': there are no sparse tensors"),
        ("partition", "NumPy has numpy.ndarray.partition, and gputensor does not yet"),
        ("strides", "'Tensor' object has no attribute 'strides'; did you mean 'stride'"),
    ],
)
def test_a_name_that_tensors_of_others_have_is_explained(name: str, says: str) -> None:
    x = gt.ones(2)
    with pytest.raises(AttributeError, match=re.escape(says)):
        getattr(x, name)
    assert not hasattr(x, name) and not hasattr(gt.Tensor, name) and name not in dir(x)

    class Own(gt.Tensor):
        pass

    setattr(Own, name, 3)
    own = x.as_subclass(Own)
    assert getattr(own, name) == 3 and name in dir(own)


def test_python_names_what_is_near_to_a_slip() -> None:
    # It searches dir(x), at most 750 names.
    assert len(dir(gt.ones(2))) < 750
    program = "import gputensor as gt; gt.ones(2).shpae"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "Did you mean: 'shape'" in done.stderr


def test_names_of_others_are_no_operators_of_ours() -> None:
    lacks = index.LACKS.split()
    assert len(lacks) > 50 and not set(lacks) & {*index.METHODS, *vars(gt.Tensor)}


def test_hasattr_builds_no_message() -> None:
    program = (
        "import sys, gputensor as gt; loaded = set(sys.modules)\n"
        "assert not hasattr(gt.linalg, '__foo__') and not hasattr(gt, '__foo__')\n"
        "assert not hasattr(gt.linalg, 'foo')\n"
        "print(sorted(n for n in set(sys.modules) - loaded if 'difflib' in n))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
