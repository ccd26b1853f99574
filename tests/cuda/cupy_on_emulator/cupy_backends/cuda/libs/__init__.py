"""cuSOLVER by LAPACK, on emulated memory."""

from tests.kernels.cusolver_stand_in import routines

cusolver = routines()
