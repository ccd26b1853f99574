"""Loops and kernels, one file per family and backend. `stub.py` chooses among them.

They see pointers or ndarrays, shapes, stride bytes and dtypes, never a Tensor, so that a kernel
cannot call back into the dispatcher.
"""
