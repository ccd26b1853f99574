// Parts of products with windows: tiles of sums in registers, and windows in panels.
//
// Order    a sum is over the rows of its panels, from the first one on, by fused multiply-adds. So
//          its bits depend neither on the capability nor on threads.
#ifndef GPUTENSOR_CONV_TILES
#define GPUTENSOR_CONV_TILES

#include "matrices.h"
#include "turn.h"
#include "wide.h"

namespace CAPABILITY {

template <class T> constexpr int ROWS = wide<T>::ROWS;                      // rows of a tile
template <class T> constexpr int WIDTH = wide<T>::LANES * wide<T>::COLUMNS;  // columns of a tile

// out[i, j] = the sum over k of a[k, i] * b[k, j], added to the elements of `out` if `adds`. Rows
// of a have ROWS elements, of which R are used; rows of b and out have WIDTH, of which COLUMNS
// registers are used.
template <class T, int R, int COLUMNS>
static void tile(const T* a, const T* b, i64 k, T* out, bool adds) {
  typedef wide<T> V;
  typename V::type sum[R][COLUMNS];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j)
      sum[i][j] = adds ? V::load(out + i * WIDTH<T> + j * V::LANES) : V::zero();
  for (; k; --k, a += ROWS<T>, b += WIDTH<T>) {
    typename V::type right[COLUMNS];
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) right[j] = V::load(b + j * V::LANES);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const typename V::type left = V::all(a[i]);
#pragma GCC unroll 3
      for (int j = 0; j < COLUMNS; ++j) sum[i][j] = V::fma(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) V::store(out + i * WIDTH<T> + j * V::LANES, sum[i][j]);
}

template <class T, int R>
static inline void tile_of(i64 columns, const T* a, const T* b, i64 k, T* out, bool adds) {
  const i64 registers = (columns + wide<T>::LANES - 1) / wide<T>::LANES;
  if (registers == 1) return tile<T, R, 1>(a, b, k, out, adds);
  if (registers == 2) return tile<T, R, 2>(a, b, k, out, adds);
  tile<T, R, 3>(a, b, k, out, adds);
}

// For the first rows and columns only. If there are few rows, half a tile is computed.
template <class T>
static inline void tile_of(i64 rows, i64 columns, const T* a, const T* b, i64 k, T* out,
                           bool adds) {
  rows > ROWS<T> / 2 ? tile_of<T, ROWS<T>>(columns, a, b, k, out, adds)
                     : tile_of<T, ROWS<T> / 2>(columns, a, b, k, out, adds);
}

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

// The offset of a tap's weight from the first weight.
static inline i64 weight_of(const Axis* along, const i64* stride, i64 a, i64 b, i64 c) {
  return along[0].kernel[a] * stride[0] + along[1].kernel[b] * stride[1] +
         along[2].kernel[c] * stride[2];
}

// Consecutive windows along w: columns [column, column + length) of a panel.
struct Run { i64 column, length, sample, at[3]; };

// The maximum number of runs of `columns` windows.
static inline i64 most_runs(const Windows& of, i64 columns) {
  return smaller(columns, columns / of.along[2].count + 2);
}

// Write the runs of windows [first, last). Returns their number.
static i64 runs_of(const Windows& of, i64 first, i64 last, Run* runs) {
  const Axis &d = of.along[0], &h = of.along[1], &w = of.along[2];
  i64 count = 0;
  for (i64 column = first; column < last;) {
    i64 rest = column;
    Run& run = runs[count++];
    run.column = column - first;
    run.at[2] = rest % w.count, rest /= w.count;
    run.at[1] = rest % h.count, rest /= h.count;
    run.at[0] = rest % d.count, run.sample = rest / d.count;
    run.length = smaller(w.count - run.at[2], last - column);
    column += run.length;
  }
  return count;
}

// The elements that one tap reads for one run: from `data` on, for the run's windows [low, high).
struct Piece { const char* data; i64 column, low, high, length; };

static void pieces_of(const Windows& of, const Array& x, const char* data, const Run* runs,
                      i64 n_runs, Piece* pieces) {
  const Axis* along = of.along;
  for (i64 a = 0; a < along[0].taps; ++a)
    for (i64 b = 0; b < along[1].taps; ++b)
      for (i64 c = 0; c < along[2].taps; ++c)
        for (i64 r = 0; r < n_runs; ++r) {
          const Run& run = runs[r];
          const i64 at[3] = {run.at[0] * along[0].step + along[0].offset[a],
                             run.at[1] * along[1].step + along[1].offset[b],
                             run.at[2] * along[2].step + along[2].offset[c]};
          Piece& piece = *pieces++;
          piece = {data, run.column, 0, 0, run.length};
          if (at[0] < 0 || at[0] >= along[0].size || at[1] < 0 || at[1] >= along[1].size) continue;
          inside(along[2], at[2], run.length, &piece.low, &piece.high);
          const i64 begin = at[2] + piece.low * along[2].step;
          piece.data += run.sample * x.stride[0] + at[0] * x.stride[2] + at[1] * x.stride[3] +
                        (piece.low < piece.high ? begin * x.stride[4] : 0);
        }
}

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

// Write the elements that one tap reads in one channel.
template <class T>
static inline void gather(const Piece* pieces, i64 n_pieces, i64 channel, i64 step, T* to) {
  for (i64 r = 0; r < n_pieces; ++r) {
    const Piece& piece = pieces[r];
    T* row = to + piece.column;
    if (piece.low) clear_line(row, piece.low);
    spread(row + piece.low, piece.data + channel, step, piece.high - piece.low);
    if (piece.high < piece.length) clear_line(row + piece.high, piece.length - piece.high);
  }
}

}  // namespace CAPABILITY

#endif
