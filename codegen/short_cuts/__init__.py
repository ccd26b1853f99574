"""Text of the functions of short cuts. The functions consist of common parts, and forms.py joins
all functions to one module."""
