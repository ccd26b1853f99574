// Loops of family binary: kernels/cuda/binary.cu.
#include "elementwise.h"

namespace CAPABILITY {
#include "heads/binary.h"
#include "loops.h"
}  // namespace CAPABILITY

#include "division.h"

namespace CAPABILITY {

template <> constexpr bool repeats_values<of_two<op::pow>> = true;
template <> constexpr bool takes_vectors<of_two<op::add>> = true;
template <> constexpr bool takes_vectors<of_two<op::mul>> = true;
template <> constexpr bool takes_vectors<of_two<op::sub>> = true;
template <> constexpr bool commutes<of_two<op::add>> = true;
template <> constexpr bool commutes<of_two<op::mul>> = true;

struct sub_alpha {
  template <class T> static DEVICE T of(T a, T b, T alpha) {
    return op::add_alpha::of(a, b, negative(alpha));
  }
};

// Return twice the exponent if it needs no call of `pow`; this is an integer.
template <int TWICE> struct raised {
  template <class T> static DEVICE T of(T x) { return op::pow_number::of(x, (T)TWICE / 2, x); }
};

// In most calls the exponent is a single value, so it is tested once and not for each element.
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

// These loops decline a divisor of 0, for which NumPy's loop raises an error.
template <class F, class T> constexpr abi::LoopEntry integer_entry(const char* name) {
  const abi::byte of = code_of<T>;
  return {name, {of, of}, of, of, 2, 0, integer_division<F, T>, has_no_zero<T>};
}

template <class F> constexpr bool DIVIDES =
    same<F, op::div_floor> || same<F, op::remainder> || same<F, op::fmod>;

template <class F, class T> constexpr abi::LoopEntry binary_entry(const char* name) {
  if constexpr (same<F, op::nextafter> && is_half<T>) {
    return {""};  // the next f32 would round to the number itself; NumPy has loops for f16 and bf16
  } else if constexpr (same<F, op::pow_number> && (is_real<T> || is_half<T>)) {
    return {name, {code_of<T>, code_of<T>}, code_of<T>, code_of<T>, 2, 0, pow_number<T>};
  } else if constexpr (DIVIDES<F>) {
    return entry<typename floating_of<F>::type, 2, 0, T>(name);
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
#define X(T)                                                                            \
  integer_entry<op::div_floor, T>("div_floor"),                                         \
      integer_entry<op::div_trunc, T>("div_trunc"), integer_entry<op::fmod, T>("fmod"), \
      integer_entry<op::remainder, T>("remainder"),
                X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64)
#undef X
};
extern const abi::Family binary = {"binary", loops};
}  // namespace CAPABILITY
