"""The tensor: its attributes, storage, indexing, printing and pickling."""
