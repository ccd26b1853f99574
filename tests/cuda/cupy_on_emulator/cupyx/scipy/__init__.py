"""Parts of SciPy with results on the device."""
