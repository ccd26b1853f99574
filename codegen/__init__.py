"""native_functions.yaml to gputensor/_generated: `python -m codegen`, --check, --stats, `where OP`.

It never imports gputensor: the schema parser is loaded by path, so that codegen works while the
package is broken.
"""
