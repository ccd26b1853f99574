"""cuBLAS by NumPy and cuSOLVER by LAPACK, on emulated memory."""

import types

import cupy

from tests.kernels.cuda_libraries import cublas_stand_in, cusolver_stand_in


def _in_order(function):
    """Return a function that runs after the earlier work of CuPy's current stream."""

    def run(*args):
        cupy.cuda.get_current_stream().synchronize()
        function(*args)

    return run


cublas = types.SimpleNamespace(
    **{name: _in_order(getattr(cublas_stand_in, name)) for name in cublas_stand_in.NAMES}
)
cusolver = cusolver_stand_in.routines()
