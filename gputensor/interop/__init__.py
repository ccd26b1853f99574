"""Memory shared with other libraries: NumPy arrays, DLPack capsules, the CUDA array interface.

Nothing here copies unless it is told to, and nothing here computes.
"""
