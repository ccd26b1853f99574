"""TensorIterator: broadcasting, type promotion, and the order of memory accesses."""
