"""The operands of the rows' samples. Authors of devices need them too, so the package has them."""

from gputensor.op_tests.operands import LAYOUTS, Built, T, array_of, build, strides_of, values

__all__ = ["LAYOUTS", "Built", "T", "array_of", "build", "strides_of", "values"]
