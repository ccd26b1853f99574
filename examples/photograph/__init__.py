"""Conversion of a photograph to a model's input and back: `make demo`, `gputensor demo`, or `python
examples/photograph [--help]`."""
