"""Other libraries on our tensors: each call is compared with the same call on NumPy arrays.

docs/usage/interop.md lists the libraries; test_table.py checks the list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Return a few numbers between 0 and 1, equal in every run."""
    return (np.arange(int(np.prod(shape))) * 7919 % 251 / 251).astype(dtype).reshape(shape)


def close(found: Any, expected: Any, place: str = "cpu", rtol: float = 1e-5) -> None:
    """Check that `found` is a tensor on the device and equals the client's result for NumPy
    arrays."""
    assert isinstance(found, gt.Tensor), type(found)
    assert found.device.type == place
    assert tuple(found.shape) == np.shape(expected)
    values = found.detach().cpu().numpy()
    np.testing.assert_allclose(values, np.asarray(expected), rtol=rtol, atol=rtol)


def all_close(found: Any, expected: Any, place: str | None, rtol: float = 1e-5) -> None:
    """Apply close() to the items of tuples and lists. Numbers are compared as numbers, because a
    client may return a number instead of a NumPy scalar. place: None if the client always returns
    NumPy arrays."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            all_close(one, other, place, rtol)
    elif isinstance(expected, np.ndarray) or not isinstance(found, (int, float, np.ndarray)):
        if place is None:
            assert isinstance(found, (np.ndarray, np.generic))
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
        else:
            close(found, expected, place, rtol)
    else:
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)
