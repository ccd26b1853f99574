"""The generator of gputensor/_generated from native_functions.yaml: `python -m codegen`, --check,
--stats, `where OP`.

It never imports gputensor. It loads the schema parser by path, so that it works while the package
is broken.
"""
