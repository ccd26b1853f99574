"""xarray: tensors inside of DataArray and Dataset, by the array API."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import close, values

pytestmark = pytest.mark.full
xr = pytest.importorskip("xarray", reason="xarray is not installed")

X = values(3, 4, dtype=np.float64)


def holding(place):
    """Return equal labelled arrays, of tensors and of NumPy arrays."""
    return tuple(
        xr.DataArray(data, dims=("time", "place"), coords={"time": [10, 20, 30]})
        for data in (gt.tensor(X, device=place), X.copy())
    )


CASES = {
    "arithmetic": lambda d: (2 * d + d**2 - 1) / (d + 3),
    "broadcasting": lambda d: d - d.mean("time", skipna=False),
    "comparison": lambda d: (d > 0.5) & (d < 0.9),
    "ufuncs": lambda d: abs(-d),
    "mean": lambda d: d.mean(skipna=False),
    "sum": lambda d: d.sum("place", skipna=False),
    "max": lambda d: d.max("time", skipna=False),
    "argmax": lambda d: d.argmax("place", skipna=False),
    "any": lambda d: (d > 0.5).any("time"),
    "transpose": lambda d: d.transpose("place", "time"),
    "stack": lambda d: d.stack(all=("place", "time")),
    "expand_dims": lambda d: d.expand_dims(k=2),
    "isel": lambda d: d.isel(time=slice(1, None), place=[0, 2]),
    "sel": lambda d: d.sel(time=20),
    "where": lambda d: d.where(d > 0.5, d / 2),
    "concat": lambda d: xr.concat([d, d.assign_coords(time=[40, 50, 60])], "time"),
    "concat, a new dimension": lambda d: xr.concat([d, d + 1], "n"),
    "reindex": lambda d: d.reindex(time=[10, 30], fill_value=0.0),
    "dot": lambda d: xr.dot(d, d, dim="place"),
    "Dataset": lambda d: (xr.Dataset({"a": d, "b": d * 2}) + 1).isel(time=0)["b"],
    "groupby": lambda d: d.groupby(d.time > 10).mean(skipna=False),
    "clip": lambda d: d.clip(0.2, 0.6),
    "round": lambda d: d.round(),
}


@pytest.mark.parametrize("name", CASES)
def test_xarray(place, name):
    tensors, arrays = holding(place)
    found, expected = CASES[name](tensors), CASES[name](arrays)
    assert found.dims == expected.dims
    assert found.coords.keys() == expected.coords.keys()
    close(found.data, expected.data, place)


def test_values_are_numpys_of_the_cpu(place):
    tensors, arrays = holding(place)
    if place == "cuda":
        with pytest.raises(TypeError, match=r"use \.cpu\(\)"):
            _ = tensors.values
    else:
        assert (tensors.values == arrays.values).all()


def test_a_repr_is_printed(place):
    assert "gputensor" in repr(holding(place)[0]) or "tensor(" in repr(holding(place)[0])
