"""A `cupy_backends` beside the `cupy` of this folder."""
