"""A `cupyx` beside the `cupy` of this folder."""
