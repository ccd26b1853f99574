"""Exchange of data: other libraries' arrays, Python data, files."""
