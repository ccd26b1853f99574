"""native_functions.yaml to gputensor/_generated: `python -m codegen`, --check, --stats, `where OP`.

It never imports gputensor: it loads the schema parser by path, so that it works while the package
is broken.
"""
