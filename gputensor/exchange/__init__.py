"""Exchange of data with other libraries' arrays, Python objects and files."""
