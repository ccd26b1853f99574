"""The op tests that authors of devices run: our rows' samples, called on the CPU and on the device.

`samples.json` holds what to call; it is frozen from tests/rows by `python -m tests.freeze_samples`.
`check.py` calls it, `gputensor backend check NAME` reports. The CPU is the reference here: it is
compared with NumPy by the rows themselves.
"""
