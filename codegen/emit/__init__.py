"""Texts of the generated files, by kind: each module writes the files that its docstring names."""
