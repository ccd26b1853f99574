// __half and __half2. See half_types.h and half_functions.h.
#pragma once
#include "half_functions.h"

GPUTENSOR_HALF_TYPE(__half, __half2, __half_raw, f16_of, float_of_f16, __float2half, __half2float,
                    __double2half, make_half2, __low2half, __high2half, __floats2half2_rn,
                    __float2half2_rn, __float22half2_rn, __half22float2, __half2half2,
                    __halves2half2)
typedef __half half;
typedef __half2 half2;
GPUTENSOR_HALF_FUNCTIONS(__half, __half2, __half_raw, half, f16_of, float_of_f16)
GPUTENSOR_HALF_FUNCTION unsigned short __half_as_ushort(__half v) { return v.__x; }
GPUTENSOR_HALF_FUNCTION short __half_as_short(__half v) { return (short)v.__x; }
GPUTENSOR_HALF_FUNCTION __half __ushort_as_half(unsigned short v) { return __half(__half_raw{v}); }
GPUTENSOR_HALF_FUNCTION __half __short_as_half(short v) {
  return __half(__half_raw{(unsigned short)v});
}
GPUTENSOR_HALF_FUNCTION __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
GPUTENSOR_HALF_FUNCTION __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
GPUTENSOR_HALF_FUNCTION __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
GPUTENSOR_HALF_FUNCTION __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
