"""Other people's libraries on our tensors: each call is compared with what the library makes of
NumPy's arrays. docs/interop.md lists them; test_table.py keeps the list true."""

from __future__ import annotations

from typing import Any

import numpy as np

import gputensor as gt


def values(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """The same few numbers between 0 and 1 in every run."""
    return (np.arange(int(np.prod(shape))) * 7919 % 251 / 251).astype(dtype).reshape(shape)


def close(found: Any, expected: Any, place: str = "cpu", rtol: float = 1e-5) -> None:
    """found is a tensor on the device, and holds what the client made of NumPy's arrays."""
    assert isinstance(found, gt.Tensor), type(found)
    assert found.device.type == place
    assert tuple(found.shape) == np.shape(expected)
    values = found.detach().cpu().numpy()
    np.testing.assert_allclose(values, np.asarray(expected), rtol=rtol, atol=rtol)
