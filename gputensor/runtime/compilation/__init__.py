"""Compiling `.cu` texts: NVRTC, what a text includes, and the cache of compiled kernels."""
