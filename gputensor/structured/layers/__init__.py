"""Code that families of network layers share: windows, normalisation, and the precision of sums."""
