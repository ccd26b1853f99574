"""Tools of all benchmarks: timing, the other libraries, arrays, the state of a GPU."""
