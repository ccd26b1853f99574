"""CUDA kernels: one `.cu` file per family, and the code that plans their launches.

`binding.bind` makes a Launch for a layout. `module` returns the loaded function of a launch's
(family, entry, defines) on a device. This package handles no tensors and does not import CuPy.
"""
