"""Benchmarks. Each result is the time of another library divided by ours, or the reverse. One
process measures both libraries alternately.

`benchmarks.py` lists them and finds their modules, which are in this folder and in `copies`,
`host`, `operators` and `models`. `measurement` has the code for timing, `records` the code that
writes, reads and shows results. `accuracy` measures errors instead of times.
"""
