"""Loops and kernels, a file per family and backend; `stub.py` picks between them.

They see pointers or ndarrays, shapes, stride bytes and dtypes, never a Tensor, so that a kernel
cannot call back into the dispatcher.
"""
