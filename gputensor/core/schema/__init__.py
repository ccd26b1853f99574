"""The one parser of operator schemas: PyTorch's grammar to values, and back to the same text.

It knows no operator and no Tensor, and imports only the standard library and the error messages
beside it, so that codegen can load it by path while the package is broken. `parse` reads whatever
PyTorch's own registry prints; `FunctionSchema.check_kind` adds the rules for our YAML.

Source: torch/csrc/jit/frontend/function_schema_parser.cpp, torchgen/model.py.
"""

from .. import errors  # codegen has it from here: it loads this package by path
from .parser import MAX_ARGUMENTS, parse, parse_type
from .values import Alias, Argument, FunctionSchema, Name, OperatorName, Return, Type, fits

__all__ = [
    "MAX_ARGUMENTS", "Alias", "Argument", "FunctionSchema", "Name", "OperatorName", "Return",
    "Type", "errors", "fits", "parse", "parse_type",
]  # fmt: skip
