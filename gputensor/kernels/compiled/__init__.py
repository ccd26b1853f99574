"""CPU loops, compiled ahead of time from the functors of `kernels/cuda/`.

`engine/` walks operands and shares work over threads; `loops/` has the loops of each family, built
once for each capability (AVX2, AVX512, NEON). `library.py` loads them. `kernels/stub.py` chooses
between them and NumPy's loops in `kernels/cpu/`; no other code knows which of the two runs.
"""
