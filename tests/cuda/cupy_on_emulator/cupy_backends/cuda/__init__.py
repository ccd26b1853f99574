"""What CuPy has of CUDA's libraries."""
