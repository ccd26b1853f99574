// Products of few rows and a matrix of weights, which is read in place.
//
// Order    in `dots`, a sum has DEPTH lanes, each computed from the first element on by fused
//          multiply-adds. Lane l is then added to lane l + DEPTH / 2, and so on. `columns` adds
//          from the first row on, by fused multiply-adds. The bits are equal for every capability
//          and depend neither on the other rows nor on threads.
#ifndef GPUTENSOR_RECURRENT_PRODUCTS
#define GPUTENSOR_RECURRENT_PRODUCTS

#include "matrices.h"
#include "wide.h"

namespace CAPABILITY {

// rows are padded with zeros to a multiple of this
template <class T> constexpr i64 DEPTH = 64 / sizeof(T);
template <class T> constexpr int LANES_OF = wide<T>::LANES;
template <class T> constexpr int PARTS = DEPTH<T> / LANES_OF<T>;
// The number of rows on each side of a tile of sums.
template <class T> constexpr int SIDE = LANES_OF<T> * sizeof(T) == 64 ? 4 : 2;

// to[s] = the sum of the lanes of sum s.
template <class T, int SUMS>
static inline void add_lanes(const typename wide<T>::type (&sums)[SUMS][PARTS<T>], T* to) {
  alignas(64) T lane[SUMS][DEPTH<T>];
  for (int s = 0; s < SUMS; ++s)
    for (int p = 0; p < PARTS<T>; ++p) wide<T>::store(lane[s] + p * LANES_OF<T>, sums[s][p]);
#pragma GCC unroll 4
  for (int half = DEPTH<T> / 2; half; half /= 2)
    for (int s = 0; s < SUMS; ++s)
      for (int l = 0; l < half; ++l) lane[s][l] += lane[s][l + half];
  for (int s = 0; s < SUMS; ++s) to[s] = lane[s][0];
}

#if defined(__AVX512F__)
// The same sums, for sixteen registers at a time. Each step halves the lanes and the number of
// registers.
template <>
inline void add_lanes<f32, 16>(const __m512 (&sums)[16][1], f32* to) {
  __m512 by_8[8], by_4[4], by_2[2];
#pragma GCC unroll 8
  for (int s = 0; s < 8; ++s) {  // lanes 0 to 7 of sum s, then of sum s + 8
    const __m512 a = sums[s][0], b = sums[s + 8][0];
    by_8[s] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
  }
#pragma GCC unroll 4
  for (int s = 0; s < 4; ++s) {  // groups of four lanes of sums s, s + 8, s + 4, s + 12
    const __m512 a = by_8[s], b = by_8[s + 4];
    by_4[s] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  }
#pragma GCC unroll 2
  for (int s = 0; s < 2; ++s) {  // in each group of four: two lanes of s, two lanes of s + 2
    const __m512 a = by_4[s], b = by_4[s + 2];
    by_2[s] = _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
  }
  const __m512 made = _mm512_add_ps(_mm512_shuffle_ps(by_2[0], by_2[1], 0x88),
                                    _mm512_shuffle_ps(by_2[0], by_2[1], 0xdd));
  // in each group of four: sums f, f + 2, f + 1, f + 3, for f = 0, 8, 4, 12
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  _mm512_storeu_ps(to, _mm512_permutexvar_ps(order, made));
}
#endif

// out[n, j] = the sum over k of weight[j, k] * x[n, k], for W weights and N rows.
template <class T, int W, int N>
static inline void dots(const T* weight, const T* x, i64 depth, T* out, i64 apart) {
  typedef wide<T> V;
  typename V::type sums[N * W][PARTS<T>];
#pragma GCC unroll 16
  for (int s = 0; s < N * W; ++s)
#pragma GCC unroll 4
    for (int p = 0; p < PARTS<T>; ++p) sums[s][p] = V::zero();
  for (i64 k = 0; k < depth; k += DEPTH<T>)
#pragma GCC unroll 4
    for (int p = 0; p < PARTS<T>; ++p) {
      const i64 at = k + p * LANES_OF<T>;
      typename V::type right[N];
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) right[n] = V::load(x + n * depth + at);
#pragma GCC unroll 16
      for (int j = 0; j < W; ++j) {
        const typename V::type left = V::load(weight + j * depth + at);
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) sums[n * W + j][p] = V::fma(left, right[n], sums[n * W + j][p]);
      }
    }
  T made[N * W];
  add_lanes<T, N * W>(sums, made);
  for (int n = 0; n < N; ++n)
    for (int j = 0; j < W; ++j) out[n * apart + j] = made[n * W + j];
}

// For `units` weights and `rows` rows of x.
template <class T>
static void dots_of(const T* weight, i64 units, const T* x, i64 rows, i64 depth, T* out,
                    i64 apart) {
  constexpr int S = SIDE<T>;
  i64 j = 0;
  for (; rows >= S && j + S <= units; j += S) {
    i64 n = 0;
    for (; n + S <= rows; n += S)
      dots<T, S, S>(weight + j * depth, x + n * depth, depth, out + n * apart + j, apart);
    for (; n < rows; ++n)
      dots<T, S, 1>(weight + j * depth, x + n * depth, depth, out + n * apart + j, apart);
  }
  for (; j < units;) {
    const int step = units - j >= S * S ? S * S : units - j >= S ? S : 1;
    for (i64 n = 0; n < rows; ++n) {
      const T *left = weight + j * depth, *right = x + n * depth;
      T* to = out + n * apart + j;
      if (step == S * S) {
        dots<T, S * S, 1>(left, right, depth, to, apart);
      } else if (step == S) {
        dots<T, S, 1>(left, right, depth, to, apart);
      } else {
        dots<T, 1, 1>(left, right, depth, to, apart);
      }
    }
    j += step;
  }
}

// to[n, c] += the sum over j of x[n, j] * weight[j, c], for N rows and C registers of columns.
template <class T, int N, int C>
static inline void columns(const T* x, i64 x_row, i64 count, const T* weight, i64 depth, T* to) {
  typedef wide<T> V;
  typename V::type sums[N][C];
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) sums[n][c] = V::load(to + n * depth + c * LANES_OF<T>);
  for (i64 j = 0; j < count; ++j) {
    typename V::type right[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) right[c] = V::load(weight + j * depth + c * LANES_OF<T>);
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) {
      const typename V::type left = V::all(x[n * x_row + j]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) sums[n][c] = V::fma(left, right[c], sums[n][c]);
    }
  }
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) V::store(to + n * depth + c * LANES_OF<T>, sums[n][c]);
}

template <class T, int C>
static void columns_of_rows(const T* x, i64 x_row, i64 rows, i64 count, const T* weight, i64 depth,
                            T* to) {
  i64 n = 0;
  for (; n + SIDE<T> <= rows; n += SIDE<T>)
    columns<T, SIDE<T>, C>(x + n * x_row, x_row, count, weight, depth, to + n * depth);
  for (; n < rows; ++n) {
    columns<T, 1, C>(x + n * x_row, x_row, count, weight, depth, to + n * depth);
  }
}

// For `rows` rows of x and `units` columns, which are padded to DEPTH.
template <class T>
static void columns_of(const T* x, i64 x_row, i64 rows, i64 count, const T* weight, i64 units,
                       i64 depth, T* to) {
  constexpr i64 L = LANES_OF<T>;
  i64 c = 0;
  for (; c + 4 * L <= units; c += 4 * L)
    columns_of_rows<T, 4>(x, x_row, rows, count, weight + c, depth, to + c);
  for (; c < units; c += L)
    columns_of_rows<T, 1>(x, x_row, rows, count, weight + c, depth, to + c);
}

}  // namespace CAPABILITY

#endif
