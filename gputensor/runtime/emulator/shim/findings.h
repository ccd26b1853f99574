// Checks that g++ inserts into a kernel. Part of cuda_on_cpu.h.
//
// These are the entry points of -fsanitize=undefined. They replace libubsan, so that a finding
// contains block and thread. Each gets a record that begins with the place in the source.
#pragma once

namespace gputensor {
struct source_place {
  const char* file;
  unsigned line, column;
};
struct type_mismatch {
  source_place place;
  const void* type;
  unsigned char log2_alignment, kind;
};
}  // namespace gputensor
#define GPUTENSOR_HANDLER extern "C" __attribute__((visibility("hidden"), noreturn, used))
#define GPUTENSOR_FINDING(name, what, ...)                                                         \
  GPUTENSOR_HANDLER void                                                                           \
      __ubsan_handle_##name##_abort(const gputensor::source_place* at, ##__VA_ARGS__) {            \
    gputensor::fail(what, at->file, at->line);                                                     \
  }
GPUTENSOR_HANDLER void
__ubsan_handle_type_mismatch_v1_abort(const gputensor::type_mismatch* at,
                                      __UINTPTR_TYPE__ address) {
  gputensor::fail(address ? "misaligned address" : "null pointer", at->place.file, at->place.line);
}
GPUTENSOR_FINDING(out_of_bounds, "index out of the bounds of its array", __UINTPTR_TYPE__)
GPUTENSOR_FINDING(shift_out_of_bounds, "shift by more bits than the type has",
                  __UINTPTR_TYPE__, __UINTPTR_TYPE__)
GPUTENSOR_FINDING(float_cast_overflow,
                  "a floating-point value outside the range of the integer type that it is cast to",
                  __UINTPTR_TYPE__)
#ifdef GPUTENSOR_USERS
extern "C" int snprintf(char*, size_t, const char*, ...) noexcept;
namespace gputensor {
struct overflow {
  source_place place;
  const struct { unsigned short kind, info; char name[]; }* type;

  long long value(__UINTPTR_TYPE__ bits) const {
    const int unused = 64 - (1 << (type->info >> 1));
    return (long long)(bits << unused) >> unused;
  }
};
[[noreturn]] inline void fail_overflow(const overflow& at, const char* sign, __UINTPTR_TYPE__ a,
                                       __UINTPTR_TYPE__ b) {
  char what[160];
  snprintf(what, sizeof what, "%lld %s %lld does not fit in %s", at.value(a), sign, at.value(b),
           at.type->name);
  fail(what, at.place.file, at.place.line);
}
}  // namespace gputensor
#define GPUTENSOR_OVERFLOW(name, sign)                                                             \
  GPUTENSOR_HANDLER void __ubsan_handle_##name##_overflow_abort(                                   \
      const gputensor::overflow* at, __UINTPTR_TYPE__ a, __UINTPTR_TYPE__ b) {                     \
    gputensor::fail_overflow(*at, sign, a, b);                                                     \
  }
GPUTENSOR_OVERFLOW(add, "+")
GPUTENSOR_OVERFLOW(sub, "-")
GPUTENSOR_OVERFLOW(mul, "*")
GPUTENSOR_HANDLER void
__ubsan_handle_divrem_overflow_abort(const gputensor::overflow* at, __UINTPTR_TYPE__ a,
                                     __UINTPTR_TYPE__ b) {
  if (b == 0) gputensor::fail("integer division by zero", at->place.file, at->place.line);
  gputensor::fail_overflow(*at, "/", a, b);
}
GPUTENSOR_HANDLER void
__ubsan_handle_negate_overflow_abort(const gputensor::overflow* at, __UINTPTR_TYPE__ a) {
  gputensor::fail_overflow(*at, "-", 0, a);
}
#endif
GPUTENSOR_FINDING(pointer_overflow, "pointer arithmetic overflows",
                  __UINTPTR_TYPE__, __UINTPTR_TYPE__)
GPUTENSOR_FINDING(load_invalid_value, "load of a bool that is neither 0 nor 1", __UINTPTR_TYPE__)
GPUTENSOR_FINDING(vla_bound_not_positive, "array of no elements", __UINTPTR_TYPE__)
GPUTENSOR_HANDLER void
__ubsan_handle_missing_return(const gputensor::source_place* at) {
  gputensor::fail("end of a function that returns a value", at->file, at->line);
}
GPUTENSOR_HANDLER void
__ubsan_handle_builtin_unreachable(const gputensor::source_place* at) {
  gputensor::fail("__builtin_unreachable() was reached", at->file, at->line);
}
