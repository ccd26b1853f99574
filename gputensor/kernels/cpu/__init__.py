"""Loops of NumPy, one module per family. They take ndarrays and Python numbers, never a Tensor.

For a pointwise family, `bind(op, inputs, common, out)` returns the loop of one plan, so that
choices by dtype are made once. In `inputs`, a dtype stands for an array and a Python type (bool,
int, float, complex) stands for a number. Loops do not check sizes, dtypes or overlap. They are
called through `quiet`. A family's loops are imported together with its operators.
"""
