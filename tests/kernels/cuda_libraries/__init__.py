"""Calls of cuBLAS and cuSOLVER through CuPy, with replacements for the libraries."""
