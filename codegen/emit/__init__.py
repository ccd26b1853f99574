"""Text of the generated files: each module here makes the text of the files that the module's
docstring names."""
