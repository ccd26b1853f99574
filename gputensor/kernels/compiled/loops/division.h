// Quotients and remainders in loops that the compiler vectorises: functors of family binary.
//
// Integers are divided in floating point, which is exact. If the quotient of two integers a and b
// is not an integer, its distance from the next integer is at least |a / b| / |a|. For 16-bit
// elements this is more than half an ulp of f32, and for elements below 2^51 more than half an ulp
// of f64. The remainder by a fused product is also exact. The functors of kernels/cuda/binary.cu
// divide larger elements.
#ifndef GPUTENSOR_DIVISION
#define GPUTENSOR_DIVISION

#include "elementwise.h"

namespace CAPABILITY {

// --- integers -----------------------------------------------------------------------------------

template <class T, int SIZE = sizeof(T)> struct quotient_of_type { typedef f64 type; };
template <class T> struct quotient_of_type<T, 1> { typedef f32 type; };
template <class T> struct quotient_of_type<T, 2> { typedef f32 type; };
template <class T> using quotient_type = typename quotient_of_type<T>::type;

// Conversions to and from the type of the division. AVX2 has no vector conversion between u32, u64
// or i64 and f64. So these numbers are written to the lowest bits of an f64.
template <class T> constexpr bool BY_BITS = sizeof(T) == 8 || same<T, u32>;
template <class T> DEVICE quotient_type<T> as_quotient(T x) {
  typedef elementary::form<f64> form;
  if constexpr (BY_BITS<T>) {
    return bits_as<f64>((u64)x + bits_as<u64>(form::magic)) - form::magic;
  } else {
    return (quotient_type<T>)x;
  }
}
template <class T> DEVICE T from_quotient(quotient_type<T> x) {
  typedef elementary::form<f64> form;
  if constexpr (BY_BITS<T>) {
    return (T)(bits_as<u64>(x + form::magic) - bits_as<u64>(form::magic));
  } else {
    return (T)(i32)x;
  }
}

// Division by 0 gives 0. The smallest integer divided by -1 gives itself.
template <class T> DEVICE T divisor_of(T b) { return b == 0 ? 1 : b; }
template <class T> DEVICE bool wraps(T b) { return is_signed_integer<T> && b == (T)-1; }

template <bool FLOORS> struct whole_quotient {
  template <class T> static DEVICE T of(T a, T b) {
    typedef quotient_type<T> Q;
    const T by = wraps(b) ? (T)1 : divisor_of(b);
    const Q quotient = as_quotient(a) / as_quotient(by);
    const T made = from_quotient<T>(FLOORS ? math_floor(quotient) : math_trunc(quotient));
    return b == 0 ? (T)0 : wraps(b) ? negative(a) : made;
  }
};

template <bool FLOORS> struct whole_remainder {
  template <class T> static DEVICE T of(T a, T b) {
    typedef quotient_type<T> Q;
    const Q x = as_quotient(a), y = as_quotient(divisor_of(b)), quotient = x / y;
    const Q whole = FLOORS ? math_floor(quotient) : math_trunc(quotient);
    return b == 0 ? (T)0 : from_quotient<T>(elementary::fma(-whole, y, x));
  }
};

template <class F> struct division_of;
template <> struct division_of<op::div_floor> { typedef whole_quotient<true> type; };
template <> struct division_of<op::div_trunc> { typedef whole_quotient<false> type; };
template <> struct division_of<op::remainder> { typedef whole_remainder<true> type; };
template <> struct division_of<op::fmod> { typedef whole_remainder<false> type; };

// True if all n elements are below 2^51.
template <class T> static bool are_exact(const T* x, i64 n) {
  u64 all = 0;
  for (i64 i = 0; i < n; ++i) all |= (u64)(x[i] ^ (is_signed_integer<T> ? x[i] >> 63 : 0));
  return all < 1ull << 51;
}

// The functor's third argument is the operator's scalar, which most functors ignore.
template <class F> struct of_two {
  template <class T> static DEVICE auto of(T a, T b) { return F::of(a, b, T{}); }
};

template <class F, class T>
static void integer_division(char* const* data, const i64* step, i64 n, const Scalar* s) {
  if constexpr (sizeof(T) == 8) {
    for (int k = 1; k <= 2; ++k)
      if (!are_exact((const T*)data[k], step[k] ? n : 1))
        return loop<of_two<F>, 0, T, 2>(data, step, n, s);
  }
  loop<typename division_of<F>::type, 0, T, 2>(data, step, n, s);
}

template <class T> static bool has_no_zero(const char* data, i64 n) {
  const T* x = (const T*)data;
  int found = 0;
  for (i64 i = 0; i < n; ++i) found |= x[i] == 0;
  return !found;
}

// --- floating numbers ---------------------------------------------------------------------------

// If a quotient is too large, the C library computes the remainder.
template <class F> struct floating_division : of_two<F> {
  template <class T> static DEVICE bool is_rare(T a, T b) {
    return elementary::is_far_quotient(a, b);
  }
  template <class T> static DEVICE T rare(T a, T b) { return F::of(a, b, T{}); }
};

struct floating_fmod : floating_division<op::fmod> {
  template <class T> static DEVICE T of(T a, T b) { return elementary::fmod(a, b); }
};

struct floating_remainder : floating_division<op::remainder> {
  template <class T> static DEVICE T of(T a, T b) {
    const T rest = elementary::fmod(a, b);
    const T other = (rest != 0) & ((b < 0) != (rest < 0)) ? rest + b : rest;
    return math_copysign(other, b);
  }
};

struct floating_div_floor : floating_division<op::div_floor> {
  template <class T> static DEVICE T of(T a, T b) {
    const T quotient = a / b, rest = elementary::fmod(a, b), first = (a - rest) / b;
    const T whole = (rest != 0) & ((b < 0) != (rest < 0)) ? first - 1 : first;
    const T down = math_floor(whole), made = whole - down > (T)0.5 ? down + 1 : down;
    const T found = whole == 0 ? math_copysign((T)0, quotient) : made;
    return (b == 0) | (a - a != 0) | (b - b != 0) ? quotient : found;
  }
};

template <class F> struct floating_of;
template <> struct floating_of<op::div_floor> { typedef floating_div_floor type; };
template <> struct floating_of<op::remainder> { typedef floating_remainder type; };
template <> struct floating_of<op::fmod> { typedef floating_fmod type; };

}  // namespace CAPABILITY

#endif
