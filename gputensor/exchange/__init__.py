"""What goes in and out: other libraries' arrays, Python's data, files."""
