"""CUDA kernels: one `.cu` text per family, and the launch plans that call it.

`binding.bind` turns a layout into a Launch; `module` turns a Launch's (family, entry, defines) into
a function of one device. Nothing here knows tensors, and nothing here imports CuPy.
"""
