"""NumPy loops, one module per family; they see ndarrays and Python numbers, never a Tensor.

`bind(op, inputs, common, out)` of a pointwise family returns the loop of one plan, so what depends
on dtypes is decided once. In `inputs` a dtype stands for an array and a Python type (bool, int,
float, complex) for a number. Loops do not check sizes, dtypes or overlap, and are called through
`quiet`. Nothing is imported here: a family is loaded when an operator of it is.
"""
