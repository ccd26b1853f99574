"""Code shared by families of network layers: windows, normalization and the precision of sums."""
