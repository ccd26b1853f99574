"""array-api-extra and array-api-compat: both find the namespace of tensors by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import all_close, values

pytestmark = pytest.mark.full
xpx = pytest.importorskip("array_api_extra", reason="array-api-extra is not installed")
compat = pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")

X, V, COUNTS = values(3, 4, dtype=np.float64), values(7, dtype=np.float64), np.array([1, 0, 2, 0])

CASES = {
    "at": lambda a: xpx.at(a(X), 1).set(2.0),
    "at, a mask": lambda a: xpx.at(a(X), a(X > 0.5)).add(1.0),
    "at, in place": lambda a: xpx.at(a(X), (slice(None), 2)).multiply(3.0, copy=False),
    "apply_where": lambda a: xpx.apply_where(a(X > 0.5), a(X), lambda x: 1 / x, fill_value=0.0),
    "atleast_nd": lambda a: xpx.atleast_nd(a(V), ndim=3),
    "cov": lambda a: xpx.cov(a(X)),
    "create_diagonal": lambda a: xpx.create_diagonal(a(V), offset=1),
    "isclose": lambda a: xpx.isclose(a(X), a(X + 1e-9)),
    "kron": lambda a: xpx.kron(a(X), a(X[:2])),
    "nan_to_num": lambda a: xpx.nan_to_num(a(np.array([1.0, np.nan, np.inf]))),
    "nunique": lambda a: xpx.nunique(a(COUNTS)),
    "one_hot": lambda a: xpx.one_hot(a(COUNTS), 3),
    "pad": lambda a: xpx.pad(a(X), ((1, 2), (0, 1)), constant_values=7.0),
    "setdiff1d": lambda a: xpx.setdiff1d(a(COUNTS), a(COUNTS[:1])),
    "sinc": lambda a: xpx.sinc(a(V)),
}


@pytest.mark.parametrize("name", CASES)
def test_array_api_extra(place, name):
    found = CASES[name](lambda x: gt.tensor(x, device=place))
    all_close(found, CASES[name](np.copy), place)


def test_namespace_device_and_sizes(place):
    x = gt.tensor(X, device=place)
    xp = compat.array_namespace(x, 2.0, None)
    assert xp is x.__array_namespace__()
    assert compat.is_array_api_obj(x)
    assert compat.device(x) == x.device
    assert compat.size(x) == 12
    assert compat.to_device(x, "cpu").device.type == "cpu"
    assert not any(
        getattr(compat, name)(x)
        for name in dir(compat)
        if name.startswith("is_") and name.endswith("_array") and "writeable" not in name
    )
