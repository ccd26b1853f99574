"""What a tensor is, and its face: storage, indexing, printing, pickling."""
