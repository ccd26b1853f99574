"""TensorIterator: broadcasting and promotion of operands, and the walk over their memory."""
