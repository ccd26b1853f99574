"""Implementation of `bench/gpu_check.sh`: tests and benchmarks on a GPU, in steps with limits.

`steps` lists the steps, `run` runs them and packs their results, `verdicts` makes the table.
`suite`, `fuzz` and `sanitizer` implement steps that are more than one command.
"""
