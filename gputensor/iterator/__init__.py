"""TensorIterator: broadcast and promote operands, and plan the order of memory accesses."""
