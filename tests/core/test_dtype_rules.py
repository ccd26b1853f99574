"""The words of `dtypes:`: accepted dtypes, error messages, and result dtypes."""

from __future__ import annotations

import pytest

from gputensor.kernels._generated.loops import LOOPS
from gputensor.core.dtype import ALL
from gputensor.core.dtype_rules import KINDS, RULES
from gputensor.core.errors import DtypeError
from gputensor.kernels import stub
from gputensor.kernels.cuda import variants
from tests.harness import dtype_rules


@pytest.mark.parametrize("word", RULES)
def test_a_word_refuses_the_kinds_that_it_does_not_take(word: str) -> None:
    rule = RULES[word]
    for of in ALL:
        if rule.takes(of):
            rule.check("op", "self", of)
        else:
            with pytest.raises(DtypeError, match=f"^op: 'self' must .* .got {of.short}."):
                rule.check("op", "self", of)


@pytest.mark.parametrize("word", sorted({*RULES} - {"conjugated"}))
def test_a_word_takes_what_the_tests_own_rules_take(word: str) -> None:
    """The tests' rules are written independently. For words that promote, operands have one dtype
    here."""
    rule = RULES[word]
    for of in ALL:
        expected = dtype_rules.expected(word, "unary", [((2,), of)], None)
        becomes_float = rule.to_float and of.category < KINDS.index("f")
        assert (expected is not None) == (becomes_float or rule.takes(of)), of


def test_every_family_finds_its_launches_by_name() -> None:
    for family, loops in LOOPS.items():
        module = stub.cuda(family)
        own = f"{family}_launch"
        assert module.__name__.rpartition(".")[2] in (own, "pointwise_launch")
        assert set(loops) <= {v["OP"] for v in variants.group(family)} | {"conj_physical"}


@pytest.mark.parametrize("family", ["unary", "binary", "comparison", "reduce", "argreduce"])
def test_variants_are_those_of_the_dtypes_that_a_row_takes(family: str) -> None:
    for op, word in LOOPS[family].items():
        for of in ALL:
            assert variants.has(family, op, of) == RULES[word].takes(of), (op, of)
    assert not variants.has(family, "nope", ALL[0])
