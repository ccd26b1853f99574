"""TensorIterator: broadcasting, promotion, and the order of memory accesses."""
