// The image elements around each point of a grid, and their weights.
//
// Numbers  the bits equal those of native/sampling.py.
#ifndef GPUTENSOR_SAMPLING_TAPS_H
#define GPUTENSOR_SAMPLING_TAPS_H

#include "matrices.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

#define LOOP __attribute__((noinline)) static void

constexpr int ZEROS = 0, BORDER = 1, REFLECTION = 2;
constexpr int BILINEAR = 0, NEAREST = 1, BICUBIC = 2;
constexpr i64 BLOCK = 256;    // points looked up at a time
constexpr int MOST_TAPS = 16;  // taps of all dimensions together

struct Axis {
  i64 size, stride;  // elements
  int mode, padding;
  bool is_aligned;

  int taps() const { return mode == NEAREST ? 1 : mode == BILINEAR ? 2 : 4; }
};

// For one dimension and each point: elements, their weights, and the derivatives of the weights by
// the position. ok is 0 for elements outside the image.
template <class T> struct Taps {
  i32 at[4][BLOCK], ok[4][BLOCK];
  T by[4][BLOCK], slope[4][BLOCK];
};

template <class T> struct Edges {
  T scale, shift, first, last, span;

  explicit Edges(const Axis& axis)
      : scale(axis.is_aligned ? (T)((axis.size - 1) / 2.0) : (T)(axis.size / 2.0)),
        shift(axis.is_aligned ? (T)0 : (T)0.5),
        first(axis.is_aligned ? (T)0 : (T)-0.5),
        last((T)(axis.size - 1)),
        span((T)(axis.is_aligned ? axis.size - 1 : axis.size)) {}
};

template <class T> static inline T remainder_of_two(T turns) {
  return turns - 2 * math_floor(turns / 2);
}

// A position moved into the image by the padding, and its derivative.
template <class T, int PADDING>
static inline T inside(T x, const Edges<T>& e, T& change) {
  change = 1;
  if (PADDING == ZEROS) return x;
  if (PADDING == REFLECTION) {
    const T from_first = x - e.first, away = math_abs(from_first);
    const T turns = math_floor(away / e.span);
    const T rest = away - turns * e.span;
    const bool is_back = remainder_of_two(turns) == 1;
    const T turned = (is_back ? e.span - rest : rest) + e.first;
    change = e.span == 0 ? (T)0 : is_back != (from_first < 0) ? (T)-1 : (T)1;
    x = e.span == 0 ? x * 0 : turned;
  }
  const bool is_inside = (x > 0) & (x < e.last);
  change = is_inside ? change : (T)0;
  return is_inside ? x : x >= e.last ? e.last : (T)0;
}

// The weight of an element at a distance from 0 to 1, or from 1 to 2; and its derivative.
template <class T> static inline T near_weight(T x) { return ((T)1.25 * x - (T)2.25) * x * x + 1; }
template <class T> static inline T near_slope(T x) { return ((T)3.75 * x - (T)4.5) * x; }
template <class T> static inline T far_weight(T x) {
  return (((T)-0.75 * x + (T)3.75) * x - 6) * x + 3;
}
template <class T> static inline T far_slope(T x) { return ((T)-2.25 * x + (T)7.5) * x - 6; }

template <class T> static inline void cubic(T t, T* by, T* slope) {
  by[0] = far_weight(t + 1), slope[0] = far_slope(t + 1);
  by[1] = near_weight(t), slope[1] = near_slope(t);
  by[2] = near_weight(1 - t), slope[2] = -near_slope(1 - t);
  by[3] = far_weight(2 - t), slope[3] = -far_slope(2 - t);
}

template <class T, int PADDING, int MODE, bool HAS_SLOPES>
LOOP look_up(Taps<T>& taps, const T* place, i64 n, const Axis& axis) {
  constexpr int COUNT = MODE == NEAREST ? 1 : MODE == BILINEAR ? 2 : 4;
  const Edges<T> e(axis);
  i32 *at = taps.at[0], *ok = taps.ok[0];
  T *by = taps.by[0], *slope = taps.slope[0];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    T change = 1, element[COUNT], weight[4], steep[4];
    T x = (place[i] + 1) * e.scale - e.shift;
    if (MODE != BICUBIC) x = inside<T, PADDING>(x, e, change);
    const T low = MODE == NEAREST ? elementary::nearest(x) : math_floor(x), part = x - low;
    if (MODE == BICUBIC) {
      T none;
      cubic(part, weight, steep);
#pragma GCC unroll 4
      for (int k = 0; k < COUNT; ++k)
        element[k] = math_floor(inside<T, PADDING>(low + (T)(k - 1), e, none));
    } else {
      weight[0] = MODE == NEAREST ? (T)1 : 1 - part, weight[1] = part, steep[0] = -1, steep[1] = 1;
      element[0] = low;
      // A point on the last element has no next element.
      if (COUNT == 2) element[1] = PADDING != ZEROS && low + 1 > e.last ? e.last : low + 1;
    }
#pragma GCC unroll 4
    for (int k = 0; k < COUNT; ++k) {
      const bool is_within = (element[k] >= 0) & (element[k] <= e.last);
      ok[k * BLOCK + i] = is_within;
      at[k * BLOCK + i] = (i32)(is_within ? element[k] : (T)0);
      by[k * BLOCK + i] = weight[k];
      if (HAS_SLOPES) slope[k * BLOCK + i] = steep[k] * (change * e.scale);
    }
  }
}

template <class T, bool HAS_SLOPES>
static void look_up_any(Taps<T>& taps, const T* place, i64 n, const Axis& axis) {
#define CASE(PADDING, MODE) \
  case PADDING * 3 + MODE: return look_up<T, PADDING, MODE, HAS_SLOPES>(taps, place, n, axis);
  switch (axis.padding * 3 + axis.mode) {
    CASE(ZEROS, BILINEAR)
    CASE(ZEROS, NEAREST)
    CASE(ZEROS, BICUBIC)
    CASE(BORDER, BILINEAR)
    CASE(BORDER, NEAREST)
    CASE(BORDER, BICUBIC)
    CASE(REFLECTION, BILINEAR)
    CASE(REFLECTION, NEAREST)
    CASE(REFLECTION, BICUBIC)
  }
#undef CASE
}

// --- places of a grid ----------------------------------------------------------------------------

// A grid and the sizes of images (samples, channels, y, x), or with z before y.
template <class T> struct Places {
  const T* grid;
  int dims;
  i64 samples, channels, places;  // points: of one sample
  i64 size[3], step[5];           // strides of the grid: sample, …, coordinate; in elements
  Axis axis[3];
  i64 blocks;  // of a sample

  int taps() const {
    int count = 1;
    for (int d = 0; d < dims; ++d) count *= axis[d].taps();
    return count;
  }
};

template <class T> static bool steps_of(i64* to, const Array& x, int first, int last) {
  for (int d = first; d < last; ++d) {
    if (x.stride[d] % (i64)sizeof(T)) return false;
    to[d - first] = x.stride[d] / (i64)sizeof(T);
  }
  return true;
}

// Set the strides of the axes to the strides of x. False if an offset in an image exceeds an i32.
template <class T> static bool walk(Places<T>& of, const Array& x) {
  i64 step[3], reach = 0;
  if (!steps_of<T>(step, x, 2, 2 + of.dims)) return false;
  for (int d = 0; d < of.dims; ++d) {
    of.axis[d].stride = step[d];
    reach += (x.shape[2 + d] - 1) * (step[d] < 0 ? -step[d] : step[d]);
  }
  return reach < 1ll << 31;
}

// numbers: mode, padding, true if corners are aligned. False for arguments that the loops do not
// support.
template <class T>
static bool begin(Places<T>& of, const Array& x, const Array& grid, const i64* numbers) {
  const int dims = x.ndim - 2, mode = (int)numbers[0], padding = (int)numbers[1];
  if (x.dtype != code_of<T> || grid.dtype != code_of<T> || dims < 2 || dims > 3) return false;
  if (!steps_of<T>(of.step, grid, 0, dims + 2)) return false;
  of.grid = (const T*)grid.data, of.dims = dims;
  of.samples = x.shape[0], of.channels = x.shape[1], of.places = 1;
  for (int d = 0; d < dims; ++d) {
    of.size[d] = grid.shape[1 + d], of.places *= of.size[d];
    of.axis[d] = {x.shape[2 + d], 0, mode, padding, numbers[2] != 0};
  }
  of.blocks = (of.places + BLOCK - 1) / BLOCK;
  return walk(of, x);
}

// n elements `step` apart. STEP: the step if it is a constant.
template <class T, int STEP> LOOP take_steps(T* to, const T* from, i64 step, i64 n) {
  if (STEP) step = STEP;
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) to[i] = from[i * step];
}

// The grid's coordinates of points [first, first + n): to[d] for dimension d of the images.
template <class T>
static void coordinates(const Places<T>& of, i64 sample, i64 first, i64 n, T (*to)[BLOCK]) {
  const int dims = of.dims;
  const i64 step = of.step[dims], last = of.step[dims + 1], length = of.size[dims - 1];
  const auto take = step == 2 ? take_steps<T, 2> : step == 3 ? take_steps<T, 3> : take_steps<T, 0>;
  for (i64 i = 0; i < n;) {
    const i64 column = (first + i) % length, run = smaller(n - i, length - column);
    const T* from = of.grid + sample * of.step[0] + column * step;
    i64 rest = (first + i) / length;
    for (int d = dims - 2; d >= 0; --d) {
      from += rest % of.size[d] * of.step[d + 1];
      rest /= of.size[d];
    }
    for (int d = 0; d < dims; ++d) take(to[d] + i, from + (dims - 1 - d) * last, step, run);
    i += run;
  }
}

template <class T, bool HAS_SLOPES>
static void taps_of(const Places<T>& of, i64 sample, i64 first, i64 n, Taps<T>* taps) {
  T at[3][BLOCK];
  coordinates(of, sample, first, n, at);
  for (int d = 0; d < of.dims; ++d) look_up_any<T, HAS_SLOPES>(taps[d], at[d], n, of.axis[d]);
}

// Channels whose images are read or written together, at positions that are loaded once. One by
// one, because filling registers element by element or gathering elements takes as long.
constexpr int TOGETHER = 4;

template <int N> struct number {
  static constexpr int value = N;
};

// body(number<count>) for 1 to TOGETHER channels.
template <class F> static inline void of_count(i64 count, const F& body) {
  switch (count) {
    case 1: return body(number<1>());
    case 2: return body(number<2>());
    case 3: return body(number<3>());
    case 4: return body(number<4>());
  }
}

// All combinations of the taps of a block: positions in an image, and weights. is_whole: no tap of
// the point is outside.
template <class T> struct Spots {
  i32 at[MOST_TAPS][BLOCK], ok[MOST_TAPS][BLOCK], is_whole[BLOCK];
  T by[MOST_TAPS][BLOCK];
  i64 n;
};

// The tap of each dimension in combination k. The tap of the last dimension changes fastest.
template <class T> static inline void digits(const Places<T>& of, int k, int* digit) {
  for (int d = of.dims - 1; d >= 0; --d) {
    digit[d] = k % of.axis[d].taps();
    k /= of.axis[d].taps();
  }
}

template <class T>
LOOP take_first(i32* at, i32* ok, T* by, const Taps<T>& taps, int k, i64 stride, i64 n) {
  for (i64 i = 0; i < n; ++i)
    at[i] = (i32)(taps.at[k][i] * stride), ok[i] = taps.ok[k][i], by[i] = taps.by[k][i];
}

template <class T>
LOOP take_next(i32* at, i32* ok, T* by, const Taps<T>& taps, int k, i64 stride, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    at[i] += (i32)(taps.at[k][i] * stride), ok[i] &= taps.ok[k][i];
    by[i] *= taps.by[k][i];
  }
}

template <class T>
static void combine(Spots<T>& spots, const Places<T>& of, const Taps<T>* taps, i64 n) {
  spots.n = n;
  for (int k = 0; k < of.taps(); ++k) {
    int digit[3];
    digits(of, k, digit);
    take_first(spots.at[k], spots.ok[k], spots.by[k], taps[0], digit[0], of.axis[0].stride, n);
    for (int d = 1; d < of.dims; ++d)
      take_next(spots.at[k], spots.ok[k], spots.by[k], taps[d], digit[d], of.axis[d].stride, n);
    for (i64 i = 0; i < n; ++i)
      spots.is_whole[i] = spots.ok[k][i] & (k ? spots.is_whole[i] : 1);
  }
}

}  // namespace CAPABILITY

#endif
