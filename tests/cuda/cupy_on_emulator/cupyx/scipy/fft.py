"""SciPy's fft over emulated memory."""

from __future__ import annotations

import sys

import cupy
import scipy.fft

sys.modules[__name__] = cupy._Part(__name__, scipy.fft)
