"""CPU loops that are compiled ahead of time from the functors in `kernels/cuda/`.

`engine/` iterates over operands and divides work among threads: `engine/chain/` runs fused chains,
and `engine/python/` takes Python's calls. `loops/` has the loops of each family. They are built
once for each capability (AVX2, AVX512, NEON). `library.py` loads them.
`kernels/stub.py` chooses between them and NumPy's loops in `kernels/cpu/`; no other code depends on
this choice.
"""
