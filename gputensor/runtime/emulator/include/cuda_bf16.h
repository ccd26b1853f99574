// __nv_bfloat16 and __nv_bfloat162. See half_types.h and half_functions.h.
#pragma once
#include "half_functions.h"

GPUTENSOR_HALF_TYPE(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, bf16_of, float_of_bf16,
                    __float2bfloat16, __bfloat162float, __double2bfloat16, make_bfloat162,
                    __low2bfloat16, __high2bfloat16, __floats2bfloat162_rn, __float2bfloat162_rn,
                    __float22bfloat162_rn, __bfloat1622float2, __bfloat162bfloat162,
                    __halves2bfloat162)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
GPUTENSOR_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, bfloat16, bf16_of,
                         float_of_bf16)
GPUTENSOR_HALF_FUNCTION unsigned short __bfloat16_as_ushort(__nv_bfloat16 v) { return v.__x; }
GPUTENSOR_HALF_FUNCTION __nv_bfloat16 __ushort_as_bfloat16(unsigned short v) {
  return __nv_bfloat16(__nv_bfloat16_raw{v});
}
GPUTENSOR_HALF_FUNCTION short __bfloat16_as_short(__nv_bfloat16 v) { return (short)v.__x; }
GPUTENSOR_HALF_FUNCTION __nv_bfloat16 __short_as_bfloat16(short v) {
  return __nv_bfloat16(__nv_bfloat16_raw{(unsigned short)v});
}
GPUTENSOR_HALF_FUNCTION __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
GPUTENSOR_HALF_FUNCTION __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
GPUTENSOR_HALF_FUNCTION __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {a.x, b.x};
}
GPUTENSOR_HALF_FUNCTION __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) {
  return {a.y, b.y};
}
