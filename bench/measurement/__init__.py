"""What all benchmarks measure with: timing, the other libraries, arrays, the state of a GPU."""
