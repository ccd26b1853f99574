"""CUDA kernels: one `.cu` text per family, and its launch plans.

`binding.bind` turns a layout into a Launch; `module` turns a Launch's (family, entry, defines) into
a function of one device. This package sees no tensors and does not import CuPy.
"""
