"""CUDA kernels: one `.cu` text per family, and its launch plans.

`binding.bind` makes a Launch for a layout. `module` makes a function of one device for a Launch's
(family, entry, defines). This package handles no tensors and does not import CuPy.
"""
