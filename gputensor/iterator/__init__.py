"""TensorIterator: how operands of one operator meet, and how their memory is walked."""
