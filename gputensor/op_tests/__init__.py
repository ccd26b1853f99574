"""Tests for authors of device backends, which call each operator with the same samples on the CPU
and on the device.

`samples.json` contains the calls, which `python -m tests.freeze_samples` takes from tests/rows.
`check.py` runs them, and `gputensor backend check NAME` prints the results. The reference is the
CPU's result, which our own tests compare with NumPy.
"""
