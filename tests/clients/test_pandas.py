"""pandas: columns of tensors, and tensors of columns."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import close, values

pytestmark = pytest.mark.full
pd = pytest.importorskip("pandas", reason="pandas is not installed")

X = values(6, 3, dtype=np.float64)


def test_a_frame_of_a_tensor():
    found = pd.DataFrame(gt.tensor(X), columns=list("abc"))
    pd.testing.assert_frame_equal(found, pd.DataFrame(X, columns=list("abc")))


def test_a_frame_of_columns():
    columns = {"a": X[:, 0], "n": np.arange(6), "m": X[:, 1] > 0.4}
    found = pd.DataFrame({name: gt.tensor(column) for name, column in columns.items()})
    pd.testing.assert_frame_equal(found, pd.DataFrame(columns))


def test_a_series_and_an_index_of_a_tensor():
    pd.testing.assert_series_equal(pd.Series(gt.tensor(X[:, 0])), pd.Series(X[:, 0]))
    labels = np.array([3, 1, 2])
    assert pd.Index(gt.tensor(labels)).equals(pd.Index(labels))


def test_a_tensor_of_a_series_and_of_a_frame():
    frame = pd.DataFrame(X, columns=list("abc"))
    for make in (gt.tensor, gt.as_tensor, gt.asarray):
        close(make(frame["b"]), X[:, 1])
        close(make(frame), X)
        assert make(frame["b"]).dtype == gt.float64


def test_a_column_is_set_to_a_tensor():
    frame = pd.DataFrame({"a": X[:, 0]})
    frame["b"] = gt.tensor(X[:, 1])
    pd.testing.assert_series_equal(frame["b"], pd.Series(X[:, 1], name="b"))
