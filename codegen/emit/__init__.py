"""Text of the generated files: each module returns the text of the files that its docstring
names."""
