"""The operands of the rows' samples. Their code is in the package, because authors of devices need
it too."""

from gputensor.op_tests.operands import LAYOUTS, Built, T, array_of, build, strides_of, values

__all__ = ["LAYOUTS", "Built", "T", "array_of", "build", "strides_of", "values"]
