"""cuBLAS by NumPy and cuSOLVER by LAPACK, on emulated memory."""

from tests.kernels import cublas_stand_in, cusolver_stand_in

cublas, cusolver = cublas_stand_in.routines(), cusolver_stand_in.routines()
