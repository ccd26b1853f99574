"""The device-independent implementation of each operator: one module per family.

A kernel in this folder finds the iterator's plan, makes or checks the output, and runs the loop
that `kernels/stub.py` bound. Kernels take (key_set, *arguments), all of them by position.
"""
