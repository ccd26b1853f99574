"""What families of network layers share: windows, normalization and the precision of sums."""
