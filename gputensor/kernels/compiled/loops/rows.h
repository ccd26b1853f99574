// Loops over rows: the addresses of rows of a function's arrays, their elements in the type of the
// computation, and their sums and extremes.
//
// Order    of a sum: element i of each piece of PIECE elements is added to lane i % LANES. Then the
//          halves of the lanes are added repeatedly, and the pieces one after the other. So the
//          bits depend only on the length, not on threads or the width of vectors.
#ifndef GPUTENSOR_ROWS_H
#define GPUTENSOR_ROWS_H

#include "turn.h"

namespace CAPABILITY {

// Vector types of GCC. They are lowered to the CPU's vectors and are always added lane by lane.
template <class A> struct vector_of;
template <>
struct vector_of<f32> {
  typedef f32 type __attribute__((vector_size(32), aligned(4), may_alias));
};
template <>
struct vector_of<f64> {
  typedef f64 type __attribute__((vector_size(32), aligned(8), may_alias));
};
template <class A> using vector = typename vector_of<A>::type;
template <class A> constexpr int WIDTH = 32 / sizeof(A);
template <class A> constexpr int LANES = 4 * WIDTH<A>;
constexpr i64 PIECE = 1024;

// The minimum number of elements per thread.
constexpr i64 GRAIN = 8192;

template <class A> static inline vector<A> vector_at(const A* x) { return *(const vector<A>*)x; }

// Reduce the lanes to one element by combining the halves repeatedly.
template <class Two> static inline f32 folded(vector<f32> v, Two two) {
  typedef i32 mask __attribute__((vector_size(32)));
  v = two(v, __builtin_shuffle(v, mask{4, 5, 6, 7, 4, 5, 6, 7}));
  v = two(v, __builtin_shuffle(v, mask{2, 3, 2, 3, 2, 3, 2, 3}));
  return two(v, __builtin_shuffle(v, mask{1, 1, 1, 1, 1, 1, 1, 1}))[0];
}
template <class Two> static inline f64 folded(vector<f64> v, Two two) {
  typedef i64 mask __attribute__((vector_size(32)));
  v = two(v, __builtin_shuffle(v, mask{2, 3, 2, 3}));
  return two(v, __builtin_shuffle(v, mask{1, 1, 1, 1}))[0];
}

// The first elements as a vector, followed by zeros; and writing the first elements of a vector.
static inline vector<f32> first_of(const f32* x, i64 some) {
#ifdef __AVX2__
  typedef i32 mask __attribute__((vector_size(32)));
  const mask place = {0, 1, 2, 3, 4, 5, 6, 7};
  return (vector<f32>)_mm256_maskload_ps(x, (__m256i)(place < (i32)some));
#else
  vector<f32> made = {};
  for (i64 e = 0; e < some; ++e) made[e] = x[e];
  return made;
#endif
}
static inline vector<f64> first_of(const f64* x, i64 some) {
#ifdef __AVX2__
  typedef i64 mask __attribute__((vector_size(32)));
  const mask place = {0, 1, 2, 3};
  return (vector<f64>)_mm256_maskload_pd(x, (__m256i)(place < some));
#else
  vector<f64> made = {};
  for (i64 e = 0; e < some; ++e) made[e] = x[e];
  return made;
#endif
}
static inline vector<f32> first_of(vector<f32> x, i64 some) {
  typedef i32 mask __attribute__((vector_size(32)));
  const mask place = {0, 1, 2, 3, 4, 5, 6, 7};
  return place < (i32)some ? x : vector<f32>{};
}
static inline vector<f64> first_of(vector<f64> x, i64 some) {
  typedef i64 mask __attribute__((vector_size(32)));
  const mask place = {0, 1, 2, 3};
  return place < some ? x : vector<f64>{};
}

// Two sums at the same time.
template <class A> struct two { A first, second; };

// The sum of `of(vector...)` over n <= PIECE elements of each operand.
template <class A, class Of, class... X> static inline A sum_of_piece(i64 n, Of of, const X*... x) {
  constexpr int W = WIDTH<A>;
  vector<A> a = {}, b = {}, c = {}, d = {};
  i64 i = 0;
  for (; i + LANES<A> <= n; i += LANES<A>) {
    a += of(vector_at(x + i)...);
    b += of(vector_at(x + i + W)...);
    c += of(vector_at(x + i + 2 * W)...);
    d += of(vector_at(x + i + 3 * W)...);
  }
  const auto last = [&](i64 at) {
    const i64 left = n - at;
    return left >= W ? of(vector_at(x + at)...) : first_of(of(first_of(x + at, left)...), left);
  };
  if (i < n) a += last(i);
  if (i + W < n) b += last(i + W);
  if (i + 2 * W < n) c += last(i + 2 * W);
  if (i + 3 * W < n) d += last(i + 3 * W);
  return folded((a + c) + (b + d), [](vector<A> x, vector<A> y) { return x + y; });
}

// Two sums at the same time, each in its own order. `of` returns a two<vector>.
template <class A, class Of, class... X>
static inline two<A> two_sums_of_piece(i64 n, Of of, const X*... x) {
  constexpr int W = WIDTH<A>;
  typedef two<vector<A>> T;
  T a = {}, b = {}, c = {}, d = {};
  const auto add = [](T& to, T more) { to.first += more.first, to.second += more.second; };
  i64 i = 0;
  for (; i + LANES<A> <= n; i += LANES<A>) {
    add(a, of(vector_at(x + i)...));
    add(b, of(vector_at(x + i + W)...));
    add(c, of(vector_at(x + i + 2 * W)...));
    add(d, of(vector_at(x + i + 3 * W)...));
  }
  const auto last = [&](i64 at) {
    if (n - at >= W) return of(vector_at(x + at)...);
    const T made = of(first_of(x + at, n - at)...);
    return T{first_of(made.first, n - at), first_of(made.second, n - at)};
  };
  if (i < n) add(a, last(i));
  if (i + W < n) add(b, last(i + W));
  if (i + 2 * W < n) add(c, last(i + 2 * W));
  if (i + 3 * W < n) add(d, last(i + 3 * W));
  const auto plus = [](vector<A> x, vector<A> y) { return x + y; };
  return {folded((a.first + c.first) + (b.first + d.first), plus),
          folded((a.second + c.second) + (b.second + d.second), plus)};
}

template <class A> static inline A largest_of(const A* x, i64 n, A most) {
  constexpr int W = WIDTH<A>;
  i64 i = 0;
  if (n >= LANES<A>) {
    vector<A> a = {};
    a += most;
    vector<A> b = a, c = a, d = a;
    for (; i + LANES<A> <= n; i += LANES<A>) {
      const vector<A> p = vector_at(x + i), q = vector_at(x + i + W);
      const vector<A> r = vector_at(x + i + 2 * W), s = vector_at(x + i + 3 * W);
      a = p > a ? p : a, b = q > b ? q : b, c = r > c ? r : c, d = s > d ? s : d;
    }
    a = b > a ? b : a, c = d > c ? d : c, a = c > a ? c : a;
    most = folded(a, [](vector<A> x, vector<A> y) { return y > x ? y : x; });
  }
  for (; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

// --- rows of arrays ------------------------------------------------------------------------------

constexpr int MOST_OPERANDS = 4;

// Arrays of one shape as rows along one dimension. Dimension 0 of `size` is the innermost of the
// other dimensions. With `columns`, rows are adjacent along it in every operand.
struct Rows {
  int operands, ndim, dtype;
  i64 length, count;  // number of elements of a row; number of rows
  i64 size[abi::MOST_DIMS];
  i64 stride[MOST_OPERANDS][abi::MOST_DIMS], along[MOST_OPERANDS];  // bytes
  char* data[MOST_OPERANDS];
};

// The first `operands` arrays of a call; they have one shape.
static inline void lay_out_rows(Rows& rows, const Call& call, int operands, int axis) {
  const abi::Array& first = call.array[0];
  rows.operands = operands, rows.ndim = 0, rows.count = 1, rows.dtype = first.dtype;
  rows.length = first.ndim ? first.shape[axis] : 1;
  for (int k = 0; k < operands; ++k) {
    rows.data[k] = call.array[k].data;
    rows.along[k] =
        first.ndim && first.shape[axis] > 1 ? call.array[k].stride[axis] : call.array[k].itemsize;
  }
  for (int d = first.ndim - 1; d >= 0; --d) {
    const i64 size = first.shape[d];
    if (d == axis || size == 1) continue;
    rows.count *= size;
    const int last = rows.ndim - 1;
    bool joins = last >= 0;
    for (int k = 0; k < operands && joins; ++k)
      joins = call.array[k].stride[d] == rows.stride[k][last] * rows.size[last];
    if (joins) {
      rows.size[last] *= size;
      continue;
    }
    rows.size[rows.ndim] = size;
    for (int k = 0; k < operands; ++k) rows.stride[k][rows.ndim] = call.array[k].stride[d];
    rows.ndim++;
  }
}

// The begin of row `index` in each operand.
static inline void find_row(const Rows& rows, i64 index, char** at) {
  for (int k = 0; k < rows.operands; ++k) at[k] = rows.data[k];
  for (int d = 0; d < rows.ndim; ++d) {
    const i64 here = d + 1 < rows.ndim ? index % rows.size[d] : index;
    if (d + 1 < rows.ndim) index /= rows.size[d];
    for (int k = 0; k < rows.operands; ++k) at[k] += here * rows.stride[k][d];
  }
}

// --- elements in the type of the computation ----------------------------------------------------

// f16 and bf16 are computed in f32. Other elements have type A, or are integers of its size.
template <class A> static inline bool is_narrow(int dtype) {
  return same<A, f32> && (dtype == abi::f16 || dtype == abi::bf16);
}

// Convert n elements of `dtype`, `step` bytes apart, to dense A.
template <class A>
__attribute__((noinline)) static void widen(A* to, int dtype, const char* from, i64 step, i64 n) {
  if (!is_narrow<A>(dtype)) {
    if (step == sizeof(A)) return (void)memcpy(to, from, n * sizeof(A));
    for (i64 i = 0; i < n; ++i) to[i] = *(const A*)(from + i * step);
    return;
  }
  if constexpr (same<A, f32>) {
    u16 some[HALVES];
    for (i64 i = 0; i < n; i += HALVES) {
      const i64 left = n - i < HALVES ? n - i : HALVES;
      const u16* x = (const u16*)from + i;
      if (step != sizeof(u16)) {
        for (i64 k = 0; k < left; ++k) some[k] = *(const u16*)(from + (i + k) * step);
        x = some;
      }
      alignas(32) f32 last[HALVES];
      f32* into = left < HALVES ? last : to + i;
      dtype == abi::f16 ? widen_some(into, (const f16*)x, left)
                        : widen_some(into, (const bf16*)x, left);
      if (left < HALVES) memcpy(to + i, last, left * sizeof(f32));
    }
  }
}

template <class A>
__attribute__((noinline)) static void narrow(char* to, int dtype, const A* from, i64 step, i64 n) {
  if (!is_narrow<A>(dtype)) {
    if (step == sizeof(A)) return (void)memcpy(to, from, n * sizeof(A));
    for (i64 i = 0; i < n; ++i) *(A*)(to + i * step) = from[i];
    return;
  }
  if constexpr (same<A, f32>) {
    u16 some[HALVES];
    for (i64 i = 0; i < n; i += HALVES) {
      const i64 left = n - i < HALVES ? n - i : HALVES;
      u16* x = step == sizeof(u16) ? (u16*)to + i : some;
      alignas(32) f32 last[HALVES];
      if (left < HALVES) memcpy(last, from + i, left * sizeof(f32));
      const f32* given = left < HALVES ? last : from + i;
      dtype == abi::f16 ? narrow_some((f16*)x, given, left) : narrow_some((bf16*)x, given, left);
      for (i64 k = 0; x == some && k < left; ++k) *(u16*)(to + (i + k) * step) = some[k];
    }
  }
}

template <class A> static inline bool is_at_hand(int dtype, i64 step) {
  return !is_narrow<A>(dtype) && step == sizeof(A);
}

// Return elements in place, or converted in `room`.
template <class A>
static inline const A* widened(int dtype, const char* from, i64 step, i64 n, A* room) {
  if (is_at_hand<A>(dtype, step)) return (const A*)from;
  widen(room, dtype, from, step, n);
  return room;
}

// The address for results: `to`, or `room`, from which `narrowed` converts them.
template <class A> static inline A* writable(int dtype, char* to, i64 step, A* room) {
  return is_at_hand<A>(dtype, step) ? (A*)to : room;
}
template <class A>
static inline void narrowed(int dtype, char* to, const A* from, i64 step, i64 n) {
  if ((const char*)from != to) narrow(to, dtype, from, step, n);
}

}  // namespace CAPABILITY

#endif
