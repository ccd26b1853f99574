"""The only parser of operator schemas, in PyTorch's grammar. A parsed schema prints as the text it
was parsed from.

It depends only on the standard library and on the error messages, so that codegen can load it by
path while the package is broken. `parse` reads all schemas that PyTorch's registry prints;
`FunctionSchema.check_kind` adds the rules for our YAML.

Source: torch/csrc/jit/frontend/function_schema_parser.cpp, torchgen/model.py.
"""

from .. import errors  # exported for codegen, which loads this package by path
from .parser import MAX_ARGUMENTS, parse, parse_type
from .values import Alias, Argument, FunctionSchema, Name, OperatorName, Return, Type, fits

__all__ = [
    "MAX_ARGUMENTS", "Alias", "Argument", "FunctionSchema", "Name", "OperatorName", "Return",
    "Type", "errors", "fits", "parse", "parse_type",
]  # fmt: skip
