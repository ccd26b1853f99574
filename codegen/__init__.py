"""The generator of gputensor/_generated from native_functions.yaml: `python -m codegen`, with
--check, --stats or `where OP`.

It never imports gputensor. It loads the schema parser by its path, so that it works while the
package is broken.
"""
