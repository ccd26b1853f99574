"""cuSOLVER by LAPACK, at the addresses of emulated memory."""

from tests.kernels.cusolver_stand_in import routines

cusolver = routines()
