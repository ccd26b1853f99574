"""Functions of the compiled library with NumPy's names, and the calls that they pass to NumPy's
functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gputensor.kernels import stub
from gputensor.kernels.compiled import library
from gputensor.kernels.cpu import loss

pytestmark = pytest.mark.skipif(
    library.choice().library is None, reason="the compiled library is not built, or switched off"
)


def _noted(given: list[Any], *args: Any) -> str:
    given.append(args)
    return "NumPy's"


def _served(given: list[Any]) -> Any:
    return library.served("softmax", "softmax", lambda *args: _noted(given, *args))


def test_a_call_that_the_function_takes_is_its_own() -> None:
    given: list[Any] = []
    x, out = np.arange(6.0).reshape(2, 3), np.empty((2, 3))
    assert _served(given)(x, 1, out) is True and not given
    np.testing.assert_allclose(out.sum(1), [1, 1])


def test_another_dtype_and_what_is_not_aligned_go_to_numpys() -> None:
    given: list[Any] = []
    wrong = np.arange(3, dtype=np.int64)
    shifted = np.zeros(25, np.uint8)[1:].view(np.float64)
    assert not shifted.flags.aligned
    for x in (wrong, shifted):
        out = np.empty(3)
        assert _served(given)(x, 0, out) == "NumPy's"
        (args,) = given
        assert args[0] is x and args[1] == 0 and args[2] is out
        given.clear()


def test_what_numpys_function_raises_is_raised() -> None:
    x, out = np.zeros((2, 3)), np.empty(())
    target = np.array([0, 3])
    with pytest.raises(IndexError, match=r"3"):
        stub.cpu("loss").nll_loss(x, target, None, loss.MEAN, -100, out, np.empty(()))


def test_a_name_that_the_library_lacks_stays_numpys() -> None:
    assert library.served("softmax", "_rows", len) is len
    assert stub.is_compiled(stub.cpu("softmax").softmax)


@pytest.mark.parametrize("args", [(np.zeros(3), "dim", np.zeros(3)), (np.zeros(3),) * 33])
def test_arguments_of_no_kind_that_it_has_are_refused(args: tuple[Any, ...]) -> None:
    given: list[Any] = []
    with pytest.raises(TypeError):
        _served(given)(*args)
    assert not given
