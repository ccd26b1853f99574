"""Chains of operators as one kernel, on the emulator: the bits equal those of eager operators.

Each operator, random chains, any layout. GPUTENSOR_FUZZ=500 makes 500 chains.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import gputensor as gt
from gputensor.core.dtype import (
    ALL, bfloat16, bool_, complex64, dtype, float16, float32, int32, uint8,
)  # fmt: skip
from gputensor.kernels.cuda import chain_source, module, pointwise_plan
from gputensor.kernels.cuda.chain_source import Body, Step

from ...harness import tier
from . import chains
from .chains import LAYOUTS, Case
from ..support import requires_emulator

pytestmark = [
    requires_emulator,
    pytest.mark.skipif(not gt.cuda.is_emulated(), reason="compiles for the emulator"),
]

FUZZ = int(os.environ.get("GPUTENSOR_FUZZ", "0"))
THRESHOLDS = ("SMALL_BYTES", "TURNED_BYTES", "TURNED_SIDE_BYTES", "TURNED_USED", "ROW_BYTES")
FAMILIES = sorted(chain_source.FAMILIES - {"copy"})

# v = a * b + n, in f16; where(v > n, v, a); stored as it is and as f32.
SCALED = Body(
    (float16, float16),
    (
        Step("binary", "mul", float16, float16, (0, 1), (), "aten::mul.Tensor"),
        Step("binary", "add", float16, float16, (2, ~0), (), "aten::add.Tensor"),
        Step("comparison", "gt", float16, bool_, (3, ~1), (), "aten::gt.Scalar"),
        Step("where", "where", float16, float16, (4, 3, 0), (), "aten::where.self"),
        Step("copy", "copy", float16, float32, (5,), (), "aten::_to_copy"),
    ),
    (5, 6),
)


def check_all(cases: list[Case]) -> None:
    assert cases

    def run() -> None:
        for case in cases:
            case.fused()

    chains.compile_together(run)
    for case in cases:
        case.check()


def test_the_text_calls_the_functors_in_order_and_rounds_after_each() -> None:
    assert "".join(chain_source.functor(SCALED).partition("struct chain_functor {")[1:]) == (
        """struct chain_functor {
  template <class V> static DEVICE auto of(const V& n, f16 x0, f16 x1) {
    // aten::mul.Tensor
    const f16 v0 = made<mul, f16, f16>(taken<f16>(x0), taken<f16>(x1), acc_of<f16>::type());
    // aten::add.Tensor
    const f16 v1 = made<add, f16, f16>(taken<f16>(v0), given<f16>(n[0]), acc_of<f16>::type());
    // aten::gt.Scalar
    const b8 v2 = made<gt, f16, b8>(taken<f16>(v1), given<f16>(n[1]));
    // aten::where.self
    const f16 v3 = cast<f16>(where::of(is_true(v2), cast<f16>(v1), cast<f16>(x0)));
    // aten::_to_copy
    const f32 v4 = cast<f32>(v3);
    return chain_functor_results{v3, v4};
  }
};

}  // namespace op
"""
    )


def test_a_chain_of_several_outputs_in_every_layout() -> None:
    check_all([Case(SCALED, layout, 7) for layout in LAYOUTS])


def test_other_numbers_are_the_same_kernel() -> None:
    case = Case(SCALED, "contiguous", 3)
    case.fused()
    before = set(module._functions)
    case.numbers = tuple([x + 1 for x in case.numbers])
    case.check()
    added = {key for key, _ in set(module._functions) - before}
    assert not [family for family, _, _ in added if family.startswith("chain_")]


USUAL = [
    ("binary", "add"), ("binary", "mul"), ("unary", "neg"), ("unary", "abs"), ("comparison", "lt"),
    ("where", "where"),
]  # fmt: skip


@pytest.mark.full
def test_random_chains_of_usual_operators() -> None:
    rng = random.Random(5)
    bodies = [chains.some_chain(rng, rng.randint(2, 16), USUAL) for _ in range(6)]
    check_all([Case(body, layout, 5) for body, layout in zip(bodies, LAYOUTS)])


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in THRESHOLDS:
        monkeypatch.setattr(pointwise_plan, name, 0)
    yield


@pytest.mark.full
def test_large_layouts(everything_is_large: None) -> None:
    sizes, layouts = (67, 45), tier.pick(("stepped", "transposed"), [*LAYOUTS][:4])
    cases = [Case(SCALED, layout, 2, sizes) for layout in layouts]
    check_all(cases)
    assert {x for case in cases for x in case.entries()} == {"chain_rows", "chain_turned"}


SUM = Body(
    (float32, float32),
    (
        Step("binary", "mul", float32, float32, (0, 1), (), "aten::mul.Tensor"),
        Step("binary", "add", float32, float32, (2, 0), (), "aten::add.Tensor"),
    ),
    (3,),
)


@pytest.mark.parametrize("layout", tier.pick(["transposed"], ["contiguous", "transposed"]))
def test_an_output_may_be_an_input(layout: str, everything_is_large: None) -> None:
    case = Case(SUM, layout, 4, (67, 45))
    x, (wanted,) = case.inputs[0], case.apart()
    tensors = [x, *case.inputs]
    case.bound(tensors)(0, tuple([t._address() for t in tensors]), ())
    chains.assert_same(x, wanted, layout)


# --- everything ---


def cases_of(family: str, of: dtype) -> list[Case]:
    """Return chains of all operators of a family and dtype, each group in another layout."""
    layouts, shift = [*LAYOUTS], ALL.index(of)
    return [
        Case(chains.beside(family, ops, of), layouts[k % len(layouts)], k)
        for k, ops in enumerate(chains.groups(family, of), shift)
    ]


@pytest.mark.full
@pytest.mark.parametrize(
    ("family", "of"), [(x, d) for x in FAMILIES for d in ALL if chains.groups(x, d)], ids=str
)
def test_every_operator(family: str, of: dtype) -> None:
    check_all(cases_of(family, of))


@pytest.mark.full
@pytest.mark.parametrize("family", sorted({*FAMILIES} - {"unary"}))
def test_numbers_in_place_of_inputs(family: str) -> None:
    cases = []
    for number, (of, op) in enumerate(chains.operators()):
        inputs = chains.takes(of, op)[0]
        if of == family and inputs > 1:
            for d in (float16, bfloat16, int32, uint8, complex64):
                if d in chains.dtypes_of(family, op):
                    body = chains.beside(family, [op], d, numbers=tuple(range(1, inputs)))
                    cases.append(Case(body, "contiguous", number))
    check_all(cases)


@pytest.mark.full
def test_casts_of_every_pair() -> None:
    pairs = [(a, b) for a in ALL for b in ALL if a is not b and (b.is_complex or not a.is_complex)]
    check_all([Case(chains.cast(*pair), "stepped", k) for k, pair in enumerate(pairs)])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(FUZZ // 20 or 4))
def test_random_chains(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [chains.some_chain(rng, rng.randint(2, 16)) for _ in range(20)]
    check_all([Case(x, rng.choice(list(LAYOUTS)), k) for k, x in enumerate(bodies)])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(FUZZ // 20 or 2))
def test_random_chains_over_large_layouts(seed: int, everything_is_large: None) -> None:
    rng = random.Random(100 + seed)
    cases: list[Any] = []
    for k in range(12):
        body = chains.some_chain(rng, rng.randint(2, 9), USUAL)
        sizes = rng.choice(((67, 45), (33, 300), (2000, 3), (130, 16)))
        layout = rng.choice(("contiguous", "transposed", "stepped", "expanded"))
        cases.append(Case(body, layout, k, sizes))
    check_all(cases)
    assert len({x for case in cases for x in case.entries()}) == 2


@pytest.mark.full
def test_nothing_is_wrong_under_address_and_undefined_sanitizers() -> None:
    """Runs in a separate process, because libasan must be loaded at its start."""
    environment = {**os.environ, "GPUTENSOR_EMULATOR_SANITIZE": "1", "GPUTENSOR_CUDA": "emulator"}
    command = [sys.executable, "-m", __name__]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0 and "chains equal" in answer.stdout, answer.stderr[-2000:]


def main() -> None:
    """Run chains of ordinary operators over small layouts, and over large layouts by their
    kernels."""
    rng = random.Random(11)
    bodies = [SCALED, *[chains.some_chain(rng, rng.randint(2, 9), USUAL) for _ in range(4)]]
    check_all([Case(body, layout, 1) for body, layout in zip(bodies, LAYOUTS)])
    for name in THRESHOLDS:
        setattr(pointwise_plan, name, 0)
    layouts = ("transposed", "contiguous", "stepped", "expanded", "transposed")
    cases = [Case(body, layout, 2, (67, 45)) for body, layout in zip(bodies, layouts)]
    check_all(cases)
    print(f"{len(cases)} chains equal their operators one by one")


if __name__ == "__main__":
    main()
