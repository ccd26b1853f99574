"""Tests for authors of devices: operators are called with the samples of tests/rows, on the CPU and
on the device.

`samples.json` has the calls; `python -m tests.freeze_samples` writes it from tests/rows. `check.py`
runs them, and `gputensor backend check NAME` reports. The CPU's results are the reference; our own
tests compare them with NumPy.
"""
