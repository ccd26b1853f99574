"""NumPy: arrays as tensors, and NumPy's functions and protocols for tensors."""
