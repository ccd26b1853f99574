"""matplotlib: tensors are drawn like arrays."""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import values

pytestmark = pytest.mark.full
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

X, Y, GRID = np.arange(6.0), values(6, dtype=np.float64), values(4, 4, dtype=np.float64)

DRAWN = {
    "plot": lambda ax, a: ax.plot(a(X), a(Y)),
    "plot, of columns": lambda ax, a: ax.plot(a(GRID)),
    "scatter": lambda ax, a: ax.scatter(a(X), a(Y), c=a(Y), s=a(Y * 50)),
    "bar": lambda ax, a: ax.bar(a(X), a(Y)),
    "hist": lambda ax, a: ax.hist(a(Y), bins=4),
    "errorbar": lambda ax, a: ax.errorbar(a(X), a(Y), yerr=a(Y / 5)),
    "fill_between": lambda ax, a: ax.fill_between(a(X), a(Y), a(Y + 1)),
    "imshow": lambda ax, a: ax.imshow(a(GRID)),
    "contourf": lambda ax, a: ax.contourf(a(GRID)),
    "pcolormesh": lambda ax, a: ax.pcolormesh(a(GRID)),
    "quiver": lambda ax, a: ax.quiver(a(X), a(Y), a(Y), a(X)),
    "limits": lambda ax, a: (ax.set_xlim(a(X).min(), a(X).max()), ax.axhline(a(Y).mean())),
}


def pixels(draw, array):
    figure = Figure(figsize=(2, 2), dpi=50)
    draw(figure.subplots(), array)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


@pytest.mark.parametrize("name", DRAWN)
def test_the_picture_is_that_of_numpys_arrays(name):
    found, expected = pixels(DRAWN[name], gt.tensor), pixels(DRAWN[name], np.asarray)
    assert expected.min() < 255
    assert (found == expected).all()
