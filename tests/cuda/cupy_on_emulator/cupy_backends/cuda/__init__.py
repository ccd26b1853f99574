"""CuPy's bindings of CUDA's libraries."""
