"""Compilation of `.cu` texts: NVRTC, included files, and the cache of compiled kernels."""
