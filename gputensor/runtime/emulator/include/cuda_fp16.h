// __half and __half2. See half_types.h.
#pragma once
#include "half_types.h"

GPUTENSOR_HALF_TYPE(__half, __half2, __half_raw, f16_of, float_of_f16, __float2half, __half2float,
                    __double2half, make_half2, __low2half, __high2half, __floats2half2_rn,
                    __float2half2_rn, __float22half2_rn, __half22float2, __half2half2,
                    __halves2half2)
typedef __half half;
typedef __half2 half2;
GPUTENSOR_HALF_FUNCTION __half __int2half_rn(int v) { return __half(v); }
GPUTENSOR_HALF_FUNCTION __half __uint2half_rn(unsigned v) { return __half(v); }
GPUTENSOR_HALF_FUNCTION int __half2int_rn(__half v) { return __float2int_rn((float)v); }
GPUTENSOR_HALF_FUNCTION int __half2int_rz(__half v) { return __float2int_rz((float)v); }
GPUTENSOR_HALF_FUNCTION unsigned short __half_as_ushort(__half v) { return v.__x; }
GPUTENSOR_HALF_FUNCTION short __half_as_short(__half v) { return (short)v.__x; }
GPUTENSOR_HALF_FUNCTION __half __ushort_as_half(unsigned short v) { return __half(__half_raw{v}); }
GPUTENSOR_HALF_FUNCTION __half __short_as_half(short v) {
  return __half(__half_raw{(unsigned short)v});
}
