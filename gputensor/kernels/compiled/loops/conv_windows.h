// The windows of a convolution, and lines of elements that are copied.
#ifndef GPUTENSOR_CONV_WINDOWS
#define GPUTENSOR_CONV_WINDOWS

#include "matrices.h"
#include "turn.h"
#include "wide.h"

namespace CAPABILITY {

// --- windows -------------------------------------------------------------------------------------

// One dimension of windows. For tap t of `taps`, window j of `count` reads element j * step +
// offset[t], if that is inside [0, size), and element kernel[t] of the weights. Its result is
// element first + j * apart.
struct Axis {
  i64 size, count, step, first, apart, taps;
  const i64 *offset, *kernel;
};

struct Windows {
  Axis along[3];  // d, h, w
  i64 samples;

  i64 places() const { return along[0].count * along[1].count * along[2].count; }
  i64 taps() const { return along[0].taps * along[1].taps * along[2].taps; }
  i64 columns() const { return samples * places(); }
};

// The windows [low, high) of `count` that read an element inside; the first one reads `at`.
static inline void inside(const Axis& axis, i64 at, i64 count, i64* low, i64* high) {
  const i64 step = axis.step, left = axis.size - at;
  *low = smaller(at < 0 ? (-at + step - 1) / step : 0, count);
  *high = larger(*low, left <= 0 ? 0 : smaller((left + step - 1) / step, count));
}

// The distance of the furthest tap from the lowest one, which is at *low.
static inline i64 span_of(const Axis& axis, i64* low) {
  i64 high = *low = axis.offset[0];
  for (i64 t = 1; t < axis.taps; ++t)
    *low = smaller(*low, axis.offset[t]), high = larger(high, axis.offset[t]);
  return high - *low;
}

// The offset of a tap's weight from the first weight.
static inline i64 weight_of(const Axis* along, const i64* stride, i64 a, i64 b, i64 c) {
  return along[0].kernel[a] * stride[0] + along[1].kernel[b] * stride[1] +
         along[2].kernel[c] * stride[2];
}

// Consecutive windows along w: windows [column, column + length) of a tile or a unit.
struct Run { i64 column, length, sample, at[3]; };

// --- lines ---------------------------------------------------------------------------------------

template <class T> constexpr T ZEROS[wide<T>::LANES] = {};

// Fewer than 2 * MOST elements, moved as two vectors that overlap.
template <class T, i64 MOST> static inline void copy_few(T* to, const T* from, i64 n) {
  if constexpr (MOST > 0) {
    if (n < MOST) return copy_few<T, MOST / 2>(to, from, n);
    memcpy(to, from, MOST * sizeof(T));
    memcpy(to + n - MOST, from + n - MOST, MOST * sizeof(T));
  }
}

// Lines are short, so a call of memcpy or memset takes longer than the copy. The empty statement
// prevents the compiler from replacing the loop by a call.
template <class T> static inline void copy_line(T* to, const T* from, i64 n) {
  typedef wide<T> V;
  if (n < V::LANES) return copy_few<T, V::LANES / 2>(to, from, n);
  for (i64 k = 0; k + V::LANES <= n; k += V::LANES) {
    V::store(to + k, V::load(from + k));
    __asm__ volatile("");
  }
  V::store(to + n - V::LANES, V::load(from + n - V::LANES));
}

template <class T> static inline void clear_line(T* to, i64 n) {
  typedef wide<T> V;
  if (n < V::LANES) return copy_few<T, V::LANES / 2>(to, ZEROS<T>, n);
  for (i64 k = 0; k + V::LANES <= n; k += V::LANES) {
    V::store(to + k, V::zero());
    __asm__ volatile("");
  }
  V::store(to + n - V::LANES, V::zero());
}

// Elements 0, 2, 4, …, 14 for f32. No element after the last one is read.
static inline void take_second(f32* to, const f32* from) {
  typedef f32 V __attribute__((vector_size(32), aligned(4), may_alias));
  typedef i32 places __attribute__((vector_size(32)));
  const V *x = (const V*)from, *y = (const V*)(from + 7);
  *(V*)to = __builtin_shuffle(*x, *y, places{0, 2, 4, 6, 9, 11, 13, 15});
}
static inline void take_second(f64* to, const f64* from) {
  typedef f64 V __attribute__((vector_size(32), aligned(8), may_alias));
  typedef i64 places __attribute__((vector_size(32)));
  const V *x = (const V*)from, *y = (const V*)(from + 3);
  *(V*)to = __builtin_shuffle(*x, *y, places{0, 2, 5, 7});
}

// to[k] = from[2 * k]. No element after from[2 * n - 2] is read.
template <class T> static inline void spread_by_two(T* to, const T* from, i64 n) {
  constexpr i64 W = 32 / sizeof(T);
  if (n < W) {
    for (i64 k = 0; k < n; ++k) to[k] = from[2 * k];
    return;
  }
  for (i64 k = 0; k + W < n; k += W) take_second(to + k, from + 2 * k);
  take_second(to + n - W, from + 2 * (n - W));
}

// to[0], …, to[n - 1] = the elements from `from` on, `step` bytes apart.
template <class T> static inline void spread(T* to, const char* from, i64 step, i64 n) {
  if (step == (i64)sizeof(T)) return copy_line(to, (const T*)from, n);
  if (step == 2 * (i64)sizeof(T)) return spread_by_two(to, (const T*)from, n);
  for (i64 k = 0; k < n; ++k) to[k] = *(const T*)(from + k * step);
}

}  // namespace CAPABILITY

#endif
