"""What `bench/gpu_check.sh` does: steps on a GPU, each kept in bounds, each result kept.

`steps` lists them, `run` runs them and packs what they leave, `verdicts` makes the table of it all;
`suite`, `fuzz` and `sanitizer` are steps that a command line does not say.
"""
