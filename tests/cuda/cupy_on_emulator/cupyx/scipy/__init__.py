"""Parts of SciPy whose results lie on the device."""
