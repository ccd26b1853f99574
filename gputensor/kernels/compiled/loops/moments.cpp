// Reductions in two passes, and norms: out[r] = op over the reduced dimensions of x.
//
// var, std   sum of (x - mean)² / over, and its root; also the mean.
// logsumexp  top + log of the sum of exp(x - top); top: the largest element if finite, else 0.
// norm       the root of the sum of squares, the sum of absolute values, the largest or the
//            smallest absolute value.
// Types    f16 and bf16 in f32. Complex numbers are two elements, only for the root of squares.
// Order    as for sums, see reduce.cpp. logsumexp adds up 256 elements of a run at a time, and
//          rows one after the other.
#include "leaves.h"

#include <stdlib.h>

namespace CAPABILITY {
#include "math/functions.cuh"

namespace {

struct add_squares : add {
  template <class X, class T> static X map(X x, T) { return x * x; }
};
struct add_distances : add {
  template <class X, class T> static X map(X x, T mean) {
    const X rest = x - mean;
    return rest * rest;
  }
};

// -0.0 is treated as 0.0.
template <class X> X size_of_number(X x) { return x < 0 ? -x : x + 0; }

struct add_sizes : add {
  template <class X, class T> static X map(X x, T) { return size_of_number(x); }
};
template <bool IS_MOST> struct extreme_size : extreme<IS_MOST> {
  template <class X, class T> static X map(X x, T) { return size_of_number(x); }
};

template <class T> struct root {
  static void finish(char* acc, i64 n, double, const char*) {
    for (i64 j = 0; j < n; ++j) ((T*)acc)[j] = math_sqrt(((T*)acc)[j]);
  }
};
template <class T> struct root_divided {
  static void finish(char* acc, i64 n, double number, const char*) {
    for (i64 j = 0; j < n; ++j) ((T*)acc)[j] = math_sqrt(((T*)acc)[j] / (T)number);
  }
};
template <class T> struct finite_or_zero {
  static void finish(char* acc, i64 n, double, const char*) {
    T* x = (T*)acc;
    for (i64 j = 0; j < n; ++j) x[j] = x[j] - x[j] == 0 ? x[j] : 0;
  }
};

template <class T> struct powers {
  typedef leaf_of<add, T> sums;
  static constexpr i64 SOME = 256;

  static T of_row(const T* x, i64 n, T top) {
    T level[48];
    int depth = 0;
    for (u64 blocks = 0; n > 0; ++blocks, x += SOME, n -= SOME) {
      alignas(64) T some[SOME];
      const i64 count = n < SOME ? n : SOME;
      for (i64 i = 0; i < count; ++i) some[i] = math_exp(x[i] - top);
      T made = sums::of_row(some, count, T{});
      for (u64 bits = blocks; bits & 1; bits >>= 1) made = level[--depth] + made;
      level[depth++] = made;
    }
    T found = depth ? level[--depth] : (T)0;
    while (depth) found = level[--depth] + found;
    return found;
  }
  static void rows(char* acc, const char* x, i64 n, i64 row_step, i64 rows, const char* top) {
    for (i64 r = 0; r < rows; ++r)
      ((T*)acc)[r] = of_row((const T*)(x + r * row_step), n, ((const T*)top)[r]);
  }
  static void columns(char* acc, const char* const* x, int count, i64 n, const char* top) {
    T* to = (T*)acc;
    const T* p = (const T*)top;
    for (int k = 0; k < count; ++k) {
      const T* row = (const T*)x[k];
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) to[j] += math_exp(row[j] - p[j]);
    }
  }
  static void finish(char* acc, i64 n, double, const char* top) {
    for (i64 j = 0; j < n; ++j) ((T*)acc)[j] = math_log(((T*)acc)[j]) + ((const T*)top)[j];
  }
};
template <class T>
constexpr Leaf power_leaf = {code_of<T>,         code_of<T>,
                             sizeof(T),          sizeof(T),
                             powers<T>::rows,    powers<T>::columns,
                             leaf_of<add, T>::merge, leaf_of<add, T>::clear,
                             powers<T>::finish};

// Arrays: x, out, and the result of the first pass or null. Integers: a mask of the reduced
// dimensions.
i64 in_two_passes(const Call& call, const Leaf& first, const Leaf& second, double number) {
  const Array &x = call.array[0], &out = call.array[1];
  const u64 dims = (u64)call.integer[0];
  Array between = call.array[2];
  char* memory = nullptr;
  if (!between.data) {
    between = out;
    i64 step = between.itemsize = first.acc_size;
    between.dtype = first.acc;
    for (int d = out.ndim - 1; d >= 0; d--) between.stride[d] = step, step *= out.shape[d];
    between.data = memory = (char*)malloc(step);
    if (!memory) return 1;
  }
  i64 answer = run_reduction({&first, AS_IT_IS, COUNT, nullptr}, x, between, dims, call.share);
  if (!answer)
    answer = run_reduction({&second, AS_IT_IS, number, &between}, x, out, dims, call.share);
  free(memory);
  return answer;
}

// Floats: the divisor of the sum of squares.
template <class T, template <class> class END> i64 spread(const Call& call) {
  return in_two_passes(call, leaf<add, T, divided>, leaf<add_distances, T, END>, call.real[0]);
}

template <class T> i64 logsumexp(const Call& call) {
  return in_two_passes(call, leaf<extreme<true>, T, finite_or_zero>, power_leaf<T>, COUNT);
}

const abi::FunctionEntry functions[] = {
#define X(T)                                                                \
  {"var " #T, spread<T, divided>}, {"std " #T, spread<T, root_divided>},    \
  {"logsumexp " #T, logsumexp<T>},                                          \
  {"norm2 " #T, reduced<leaf<add_squares, T, root>, PARTS_REDUCED>},        \
  {"norm1 " #T, reduced<leaf<add_sizes, T>, AS_IT_IS>},                     \
  {"norm_most " #T, reduced<leaf<extreme_size<true>, T>, AS_IT_IS>},        \
  {"norm_least " #T, reduced<leaf<extreme_size<false>, T>, AS_IT_IS>},
    X(f32) X(f64)
#undef X
};

}  // namespace

extern const abi::Family moments = {"moments", functions};
}  // namespace CAPABILITY
