// Code shared by the loops of attention: blocks of queries and keys, their products, and scores.
//
// Order    a sum of products is computed from its first element on by fused multiply-adds, so its
//          bits are equal for every capability and any number of threads.
#ifndef GPUTENSOR_ATTENTION_H
#define GPUTENSOR_ATTENTION_H

#include "matrices.h"
#include "philox_words.h"
#include "rows.h"
#include "wide.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

#define LOOP __attribute__((noinline)) static void

template <class T> constexpr T LEAST = -(T)__builtin_inff();

// The numbers of queries and keys of a tile of scores. All data of a tile stays in a second-level
// cache of 1 MiB. KEYS is a multiple of the panel width of every capability.
constexpr i64 QUERIES = 64, KEYS = 240;

template <class T> constexpr int HEIGHT = wide<T>::ROWS;
template <class T> constexpr i64 PANEL = wide<T>::LANES * wide<T>::COLUMNS;

static inline i64 rounded(i64 n, i64 to) { return (n + to - 1) / to * to; }

// --- products ------------------------------------------------------------------------------------

// ROWS rows and COLUMNS registers of out = a @ b, added to the content of out if `adds`. Rows of b
// and out are dense. IS_TURNED: columns of `a` are dense, and `a_step` apart; otherwise rows are.
template <class T, int ROWS, int COLUMNS, bool IS_TURNED>
LOOP corner(const T* a, i64 a_step, const T* b, i64 b_row, i64 k, T* out, i64 out_row, bool adds) {
  typedef wide<T> V;
  typename V::type sum[ROWS][COLUMNS];
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j)
      sum[i][j] = adds ? V::load(out + i * out_row + j * V::LANES) : V::zero();
  for (; k; --k, a += IS_TURNED ? a_step : 1, b += b_row) {
    typename V::type right[COLUMNS];
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) right[j] = V::load(b + j * V::LANES);
#pragma GCC unroll 8
    for (int i = 0; i < ROWS; ++i) {
      const typename V::type left = V::all(a[IS_TURNED ? i : i * a_step]);
#pragma GCC unroll 3
      for (int j = 0; j < COLUMNS; ++j) sum[i][j] = V::fma(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < ROWS; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) V::store(out + i * out_row + j * V::LANES, sum[i][j]);
}

// A matrix of k rows, stored as panels of columns. Each panel begins `apart` elements per column
// after the first one.
template <class T> struct Right {
  const T* data;
  i64 row, apart;
};

// out (m, n) = a (m, k) @ b (k, n), ROWS rows at a time. `a` and out have memory for a multiple of
// ROWS rows, b and out for a multiple of a register's columns. The values in the excess memory have
// no meaning.
template <bool IS_TURNED, class T, int ROWS = HEIGHT<T>>
static void multiply(const T* a, i64 a_step, Right<T> b, i64 m, i64 n, i64 k, T* out, i64 out_row,
                     bool adds) {
  for (i64 j = 0; j < n; j += PANEL<T>) {
    const i64 registers = (smaller(n - j, PANEL<T>) + wide<T>::LANES - 1) / wide<T>::LANES;
    const T* right = b.data + j * b.apart;
    const auto made = registers == 1   ? corner<T, ROWS, 1, IS_TURNED>
                      : registers == 2 ? corner<T, ROWS, 2, IS_TURNED>
                                       : corner<T, ROWS, 3, IS_TURNED>;
    for (i64 i = 0; i < m; i += ROWS)
      made(a + i * (IS_TURNED ? 1 : a_step), a_step, right, b.row, k, out + i * out_row + j,
           out_row, adds);
  }
}

// to[k] = the sum of a[e] * rows[k][e] over `width` elements.
template <class T> LOOP dots(const T* a, Right<T> rows, i64 n, i64 width, T* to) {
  for (i64 k = 0; k < n; ++k) {
    to[k] = 0;
    for (i64 e = 0; e < width; e += PIECE)
      to[k] += sum_of_piece<T>(
          smaller(PIECE, width - e), [](vector<T> x, vector<T> y) { return x * y; }, a + e,
          rows.data + k * rows.row + e);
  }
}

// --- blocks of rows ------------------------------------------------------------------------------

// The rows of one head of an array (samples, heads, length, width).
struct Head {
  const Array* of;
  char* data;

  Head(const Array& of, i64 sample, i64 head)
      : of(&of), data(of.data + sample * of.stride[0] + head * of.stride[1]) {}
  char* row(i64 number) const { return data + number * of->stride[2]; }
};

// Copy n rows from `first` on, multiplied by `by`, to rows of `width` elements, padded with zeros.
template <class T> LOOP load_rows(T* to, i64 width, const Head& x, i64 first, i64 n, T by) {
  const i64 size = x.of->shape[3];
  for (i64 i = 0; i < n; ++i, to += width) {
    widen(to, x.of->dtype, x.row(first + i), x.of->stride[3], size);
    if (by != 1)
      for (i64 k = 0; k < size; ++k) to[k] *= by;
    for (i64 k = size; k < width; ++k) to[k] = 0;
  }
}

template <class T> LOOP store_rows(const Head& x, i64 first, i64 n, const T* from, i64 width) {
  for (i64 i = 0; i < n; ++i)
    narrow(x.row(first + i), x.of->dtype, from + i * width, x.of->stride[3], x.of->shape[3]);
}

// Return n rows from `first` on: in place, or copied to `room`.
template <class T>
static Right<T> rows_of(const Head& x, i64 first, i64 n, i64 width, T* room) {
  const Array& of = *x.of;
  const i64 size = sizeof(T);
  if (is_at_hand<T>(of.dtype, of.stride[3]) && of.shape[3] == width && of.stride[2] % size == 0)
    return {(const T*)x.row(first), of.stride[2] / size, 1};
  load_rows(room, width, x, first, n, (T)1);
  return {room, width, 1};
}

// Copy n rows as columns, in panels.
template <class T> static Right<T> turned_rows(Right<T> from, i64 n, i64 width, T* room) {
  for (i64 j = 0; j < n; j += PANEL<T>) {
    T* panel = room + j * width;
    const i64 count = smaller(n - j, PANEL<T>);
    if (count < PANEL<T>) memset(panel, 0, width * PANEL<T> * sizeof(T));
    turn<T>((char*)panel, PANEL<T> * sizeof(T), (const char*)(from.data + j * from.row),
            from.row * sizeof(T), count, width);
  }
  return {room, PANEL<T>, width};
}

// --- scores --------------------------------------------------------------------------------------

template <class T> LOOP select_scores(T* scores, const char* mask, i64 step, i64 n) {
  if (step == 1) {
#pragma GCC ivdep
    for (i64 k = 0; k < n; ++k) scores[k] = mask[k] ? scores[k] : LEAST<T>;
    return;
  }
  for (i64 k = 0; k < n; ++k) scores[k] = mask[k * step] ? scores[k] : LEAST<T>;
}

template <class T> LOOP add_scores(T* scores, const T* more, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) scores[k] += more[k];
}

// The scores of n keys from `key` on for one query, with the query's row of the mask (samples,
// heads, queries, keys), if there is one.
template <class T>
static void apply_mask(T* scores, const Array& mask, const Head& of, i64 query, i64 key, i64 n) {
  if (!mask.data) return;
  const i64 step = mask.stride[3];
  const char* from = of.row(query) + key * step;
  alignas(64) T room[KEYS];
  if (mask.dtype == abi::b8) return select_scores(scores, from, step, n);
  add_scores(scores, widened(mask.dtype, from, step, n, room), n);
}

// exp(scores - shift) of n scores, then zeros up to `all` elements, a multiple of a register's
// size.
template <class T> LOOP exponentials(T* scores, T shift, i64 n, i64 all) {
  const i64 whole = rounded(n, wide<T>::LANES);
#pragma GCC ivdep
  for (i64 k = 0; k < whole; ++k) scores[k] = elementary::exp_below_zero(scores[k] - shift);
  for (i64 k = n; k < all; ++k) scores[k] = 0;
}

// --- dropout -------------------------------------------------------------------------------------

// Weight i of a call, row-major over (samples, heads, queries, keys), is kept if the upper 53 bits
// of word i are below the limit. A kept weight is multiplied by `grown`.
struct Dropout {
  bool is_on;
  u64 seed, base, limit;
  i64 queries, keys;
  double grown;

  // Read from five integers and a float of a call, and the shapes of query and key.
  Dropout(const i64* of, double grown, const Array& query, const Array& key)
      : is_on(of[0] != 0),
        seed(of[1]),
        base(of[2]),
        limit(of[3]),
        queries(query.shape[2]),
        keys(key.shape[2]),
        grown(grown) {}
  // head: counted over all samples.
  i64 number(i64 head, i64 query, i64 key) const { return (head * queries + query) * keys + key; }
};

// by[k] = `grown` if the weight `first` + k is kept, otherwise 0; n is at most KEYS.
template <class T> LOOP draw_factors(const Dropout& d, i64 first, i64 n, T* by) {
  constexpr i64 MOST = (KEYS + 3 + 63) / 64 * 64;  // draw_words is fastest for 64 words at a time
  alignas(64) u64 words[MOST];
  const i64 lead = first % 4, blocks = rounded(lead + n, 64) / 4;
  draw_words(words, d.seed, d.base + first / 4, blocks);
  const u64 limit = d.limit;
  const T grown = (T)d.grown;
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) by[k] = words[lead + k] >> 11 < limit ? grown : (T)0;
}

template <class T> LOOP multiply_by(T* x, const T* by, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) x[k] *= by[k];
}

}  // namespace CAPABILITY

#endif
