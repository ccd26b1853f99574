// Loops of family binary: kernels/cuda/binary.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/binary.h"
#include "loops.h"

// The functors' third argument is the operator's scalar, which most of them ignore.
template <class F> struct of_two {
  template <class T> static DEVICE auto of(T a, T b) { return F::of(a, b, T{}); }
};
struct sub_alpha {
  template <class T> static DEVICE T of(T a, T b, T alpha) {
    return op::add_alpha::of(a, b, negative(alpha));
  }
};

// Exponents that are no call of `pow`: twice the number, which is whole.
template <int TWICE> struct raised {
  template <class T> static DEVICE T of(T x) { return op::pow_number::of(x, (T)TWICE / 2, x); }
};

// The exponent is one value in nearly every call: it is looked at once, not for each element.
template <class T>
static void pow_number(char* const* data, const i64* step, i64 n, const Scalar* s) {
  const acc<T> twice = step[2] ? 0 : 2 * *(const acc<T>*)data[2];
  if (twice == 4) return loop<raised<4>, 0, T, 1>(data, step, n, s);
  if (twice == 6) return loop<raised<6>, 0, T, 1>(data, step, n, s);
  if (twice == 1) return loop<raised<1>, 0, T, 1>(data, step, n, s);
  if (twice == -1) return loop<raised<-1>, 0, T, 1>(data, step, n, s);
  if (twice == -2) return loop<raised<-2>, 0, T, 1>(data, step, n, s);
  if (twice == -4) return loop<raised<-4>, 0, T, 1>(data, step, n, s);
  if (!step[2]) return loop<of_two<op::pow>, 0, T, 2>(data, step, n, s);
  loop<of_two<op::pow_number>, 0, T, 2>(data, step, n, s);
}

// Integer quotients by division in f64, which vectorises. Of numbers below 2^50 they are exact: a
// quotient a / b that is no integer lies 1 / b or more off the next one, and is rounded by less.
// Larger ones are divided one by one.
struct in_f64 {
  static constexpr f64 SHIFT = 6755399441055744.0;  // 1.5 * 2^52: its last bit counts ones
  static constexpr i64 BITS = 0x4338000000000000;

  template <class T> static DEVICE f64 load(T x) {
    if constexpr (sizeof(T) < 8) return (f64)x;
    const i64 bits = (i64)((u64)x + (u64)BITS);
    f64 shifted;
    memcpy(&shifted, &bits, sizeof bits);
    return shifted - SHIFT;
  }
  template <class T> static DEVICE T store(f64 x) {
    const f64 shifted = x + SHIFT;
    u64 bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (T)(bits - (u64)BITS);
  }
  template <class T> static bool fits(const T* x, i64 n) {
    u64 beyond = 0;
    for (i64 i = 0; i < n; ++i) {
      const u64 up = is_signed_integer<T> ? (u64)x[i] + ((u64)1 << 50) : (u64)x[i];
      beyond |= up >> (is_signed_integer<T> ? 51 : 50);
    }
    return !beyond;
  }
};

template <class F, class T> static void divided(T* out, const T* a, const T* b, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const f64 x = in_f64::load(a[i]), y = in_f64::load(b[i]), by = y == 0 ? 1 : y;
    constexpr bool IS_DOWN = same<F, op::div_floor> || same<F, op::remainder>;
    const f64 exact = x / by, whole = IS_DOWN ? __builtin_floor(exact) : __builtin_trunc(exact);
    constexpr bool IS_REST = same<F, op::remainder> || same<F, op::fmod>;
    const f64 found = IS_REST ? x - whole * by : whole;
    out[i] = in_f64::store<T>(y == 0 ? 0 : found);
  }
}

template <class F, class T>
static void division(char* const* data, const i64* step, i64 n, const Scalar* s) {
  constexpr i64 SOME = 256;
  alignas(64) T one[2][SOME];
  for (int k = 0; k < 2; ++k)
    for (i64 i = 0; !step[k + 1] && i < (n < SOME ? n : SOME); ++i) one[k][i] = (T) * (const acc<T>*)data[k + 1];
  for (i64 i = 0; i < n; i += SOME) {
    const i64 left = n - i < SOME ? n - i : SOME;
    char* at[3] = {data[0] + i * sizeof(T)};
    for (int k = 0; k < 2; ++k)
      at[k + 1] = step[k + 1] ? data[k + 1] + i * sizeof(T) : (char*)one[k];
    const T *a = (const T*)at[1], *b = (const T*)at[2];
    if (sizeof(T) < 8 || (in_f64::fits(a, left) && in_f64::fits(b, left))) {
      divided<F>((T*)at[0], a, b, left);
    } else {
      dense_loop<of_two<F>, 0, T, 2, 0>(at, left, (const acc<T>*)nullptr);
    }
  }
}

// By zero they give 0: kernels/compiled/binary.py looks for zeros first.
template <class F, class T> constexpr abi::LoopEntry division_entry(const char* name) {
  return {name, {code_of<T>, code_of<T>}, code_of<T>, code_of<T>, 2, 0, division<F, T>};
}

template <class F, class T> constexpr abi::LoopEntry binary_entry(const char* name) {
  if constexpr (same<F, op::nextafter> && is_half<T>) {
    return {""};  // the next f32 rounds to the number itself: NumPy has loops of f16 and bf16
  } else if constexpr (same<F, op::pow_number> && (is_real<T> || is_half<T>)) {
    return {name, {code_of<T>, code_of<T>}, code_of<T>, code_of<T>, 2, 0, pow_number<T>};
  } else if constexpr (same<F, op::add_alpha> || same<F, op::threshold_backward>) {
    return entry<F, 2, 1, T>(name);
  } else {
    return entry<of_two<F>, 2, 0, T>(name);
  }
}

static const abi::LoopEntry loops[] = {
#define X(OP, T) binary_entry<op::OP, T>(#OP),
    BINARY_LOOPS(X)
#undef X
#define X(T) entry<sub_alpha, 2, 1, T>("sub_alpha"),
        X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f16) X(bf16) X(f32) X(f64) X(c64)
            X(c128)
#undef X
#define X(T) \
  division_entry<op::div_floor, T>("div_floor_unchecked"), \
      division_entry<op::div_trunc, T>("div_trunc_unchecked"), \
      division_entry<op::fmod, T>("fmod_unchecked"), \
      division_entry<op::remainder, T>("remainder_unchecked"),
                X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
};
extern const abi::Family binary = {"binary", loops, sizeof loops / sizeof *loops, nullptr, 0};
}  // namespace CAPABILITY
