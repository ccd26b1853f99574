"""NumPy: its arrays as tensors, and its functions and protocols for tensors."""
