"""Loops of NumPy, one module per family, over ndarrays and Python numbers, never a Tensor.

`bind(op, inputs, common, out)` of a pointwise family returns the loop of one plan, so choices by
dtype are made once. In `inputs` a dtype means an array and a Python type (bool, int, float,
complex) a number. Loops do not check sizes, dtypes or overlap, and are called through `quiet`. A
family's loops are imported with its operators.
"""
