"""The generator of gputensor/_generated from native_functions.yaml: `python -m codegen`, with
--check, --stats or `where OP`.

`load.py` reads the YAML into a `model.Model`; the modules of `emit/` and `short_cuts/` make the
texts of the files, and `generate.py` lists the files.

It never imports gputensor. It loads the schema parser by its path, so that it works while the
package is broken.
"""
