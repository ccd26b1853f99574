"""SciPy with SCIPY_ARRAY_API=1 on tensors, through the array API namespace.

CUDA tensors work in functions that SciPy writes with the standard's functions. SciPy passes the
others to NumPy: CPU tensors give tensors again, CUDA tensors raise.
"""

from __future__ import annotations

import numpy as np
import pytest

import gputensor as gt

from . import child, values

pytestmark = pytest.mark.full
pytest.importorskip("scipy", reason="SciPy is not installed")

from scipy import (  # noqa: E402
    cluster, fft, integrate, linalg, ndimage, signal, spatial, special, stats,
)  # fmt: skip

D = np.float64
X, V, M, GRID = (values(*shape, dtype=D) for shape in ((4, 5), (24,), (4, 4), (12, 12)))
M += 3 * np.eye(4)
SOS, (NUMERATOR, DENOMINATOR) = signal.butter(4, 0.2, output="sos"), signal.butter(2, 0.2)

CASES: dict[str, child.Case] = {
    "special.erf": lambda a: special.erf(a(X)),
    "special.gammaln": lambda a: special.gammaln(a(X + 1)),
    "special.expit": lambda a: special.expit(a(X)),
    "special.ndtr": lambda a: special.ndtr(a(X)),
    "special.betainc": lambda a: special.betainc(a(X), a(X), a(X)),
    "special.xlogy": lambda a: special.xlogy(a(X), a(X + 1)),
    "special.rel_entr": lambda a: special.rel_entr(a(X + 1), a(X + 2)),
    "special.logsumexp": lambda a: special.logsumexp(a(X), axis=0),
    "special.softmax": lambda a: special.softmax(a(X), axis=1),
    "special.log_softmax": lambda a: special.log_softmax(a(X), axis=1),
    "stats.zscore": lambda a: stats.zscore(a(X)),
    "stats.skew": lambda a: stats.skew(a(X), axis=1),
    "stats.kurtosis": lambda a: stats.kurtosis(a(X)),
    "stats.moment": lambda a: stats.moment(a(X), 3),
    "stats.gmean": lambda a: stats.gmean(a(X + 1)),
    "stats.hmean": lambda a: stats.hmean(a(X + 1)),
    "stats.variation": lambda a: stats.variation(a(X)),
    "stats.sem": lambda a: stats.sem(a(X)),
    "stats.describe": lambda a: tuple(stats.describe(a(X)))[2:],
    "stats.quantile": lambda a: stats.quantile(a(V), 0.3),
    "stats.circmean": lambda a: stats.circmean(a(V)),
    "stats.entropy": lambda a: stats.entropy(a(X + 1)),
    "stats.rankdata": lambda a: stats.rankdata(a(V)),
    "stats.pearsonr": lambda a: tuple(stats.pearsonr(a(V), a(V**2))),
    "stats.ttest_ind": lambda a: tuple(stats.ttest_ind(a(V), a(V[:20] * 1.1))),
    "stats.ttest_rel": lambda a: tuple(stats.ttest_rel(a(V), a(V**2))),
    "stats.mannwhitneyu": lambda a: tuple(stats.mannwhitneyu(a(V), a(V * 1.1))),
    "stats.bartlett": lambda a: tuple(stats.bartlett(a(V), a(V * 2))),
    "stats.jarque_bera": lambda a: tuple(stats.jarque_bera(a(V))),
    "linalg.inv": lambda a: linalg.inv(a(M)),
    "linalg.solve": lambda a: linalg.solve(a(M), a(X)),
    "linalg.svdvals": lambda a: linalg.svdvals(a(X)),
    "linalg.cholesky": lambda a: linalg.cholesky(a(M @ M.T)),
    "linalg.eigvalsh": lambda a: linalg.eigvalsh(a(M + M.T)),
    "linalg.expm": lambda a: linalg.expm(a(M)),
    "linalg.lu": lambda a: linalg.lu(a(M)),
    "ndimage.gaussian_filter": lambda a: ndimage.gaussian_filter(a(GRID), 1.0),
    "ndimage.sobel": lambda a: ndimage.sobel(a(GRID)),
    "ndimage.median_filter": lambda a: ndimage.median_filter(a(GRID), 3),
    "ndimage.convolve": lambda a: ndimage.convolve(a(GRID), a(values(3, 3, dtype=D))),
    "ndimage.zoom": lambda a: ndimage.zoom(a(GRID), 2.0),
    "ndimage.rotate": lambda a: ndimage.rotate(a(GRID), 30.0),
    "ndimage.map_coordinates": lambda a: ndimage.map_coordinates(a(GRID), a(GRID[:2] * 11)),
    "ndimage.label": lambda a: ndimage.label(a(GRID > 0.5)),
    "ndimage.binary_erosion": lambda a: ndimage.binary_erosion(a(GRID > 0.2)),
    "ndimage.center_of_mass": lambda a: ndimage.center_of_mass(a(GRID)),
    "signal.convolve": lambda a: signal.convolve(a(V), a(V[:5])),
    "signal.fftconvolve": lambda a: signal.fftconvolve(a(V), a(V[:5])),
    "signal.oaconvolve": lambda a: signal.oaconvolve(a(V), a(V[:5])),
    "signal.correlate": lambda a: signal.correlate(a(V), a(V[:5])),
    "signal.lfilter": lambda a: signal.lfilter(a(NUMERATOR), a(DENOMINATOR), a(V)),
    "signal.filtfilt": lambda a: signal.filtfilt(a(NUMERATOR), a(DENOMINATOR), a(V)),
    "signal.sosfilt": lambda a: signal.sosfilt(a(SOS), a(V)),
    "signal.freqz": lambda a: signal.freqz(a(NUMERATOR), a(DENOMINATOR), worN=a(V)),
    "signal.hilbert": lambda a: signal.hilbert(a(V)),
    "signal.resample": lambda a: signal.resample(a(V), 12),
    "signal.detrend": lambda a: signal.detrend(a(V)),
    "signal.medfilt": lambda a: signal.medfilt(a(V), 3),
    "signal.savgol_filter": lambda a: signal.savgol_filter(a(V), 5, 2),
    "fft.fft": lambda a: fft.fft(a(X)),
    "fft.rfftn": lambda a: fft.rfftn(a(X)),
    "fft.irfft": lambda a: fft.irfft(a(X + 0j)),
    "fft.fftshift": lambda a: fft.fftshift(a(X)),
    "fft.dct": lambda a: fft.dct(a(X)),
    "integrate.trapezoid": lambda a: integrate.trapezoid(a(X), axis=0),
    "integrate.cumulative_trapezoid": lambda a: integrate.cumulative_trapezoid(a(X)),
    "integrate.cumulative_simpson": lambda a: integrate.cumulative_simpson(a(X)),
    "cluster.vq.whiten": lambda a: cluster.vq.whiten(a(X)),
    "cluster.vq.vq": lambda a: cluster.vq.vq(a(X), a(X[:2])),
    "cluster.hierarchy.linkage": lambda a: cluster.hierarchy.linkage(a(X)),
    "spatial.distance.pdist": lambda a: spatial.distance.pdist(a(X)),
    "spatial.transform.Rotation": lambda a: spatial.transform.Rotation.from_rotvec(
        a(V[1:4])
    ).as_matrix(),
}
# For these functions SciPy returns NumPy arrays for every library.
NUMPYS = {name for name in CASES if name.startswith("linalg.")}
ON_CUDA = """special.xlogy special.rel_entr special.logsumexp special.softmax special.log_softmax
    stats.zscore stats.skew stats.kurtosis stats.moment stats.gmean stats.hmean stats.variation
    stats.sem stats.describe stats.quantile stats.circmean signal.fftconvolve signal.oaconvolve
    signal.hilbert signal.resample fft.fft fft.rfftn fft.irfft fft.fftshift integrate.trapezoid
    integrate.cumulative_trapezoid cluster.vq.whiten spatial.transform.Rotation""".split()


@pytest.mark.parametrize("name, place", child.both(CASES, ON_CUDA))
def test_scipy(name, place):
    child.check(__name__, name, place)


def test_a_cuda_tensor_is_not_fetched_unasked(place):
    if place == "cuda":
        with pytest.raises(TypeError, match=r"use \.cpu\(\)"):
            linalg.inv(gt.tensor(M, device=place))


if __name__ == "__main__":
    child.run(CASES, ON_CUDA, NUMPYS)
