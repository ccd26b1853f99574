"""CPU loops and GPU kernels, one file per family and backend. `stub.py` looks them up.

They take pointers or ndarrays, shapes, stride bytes and dtypes, never a Tensor, so that a kernel
cannot call back into the dispatcher.
"""
