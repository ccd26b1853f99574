// Transposition of rows to columns, one square of vectors at a time.
#ifndef GPUTENSOR_TURN_H
#define GPUTENSOR_TURN_H

#include "capability.h"

namespace CAPABILITY {

// to[i][r] = from[r][i], for `rows` rows of n elements. Steps are distances of rows in bytes.
template <class A>
static inline void turn_one_by_one(char* to, i64 to_step, const char* from, i64 from_step, i64 rows,
                                   i64 n) {
  for (i64 r = 0; r < rows; ++r)
    for (i64 i = 0; i < n; ++i)
      *(A*)(to + i * to_step + r * sizeof(A)) = *(const A*)(from + r * from_step + i * sizeof(A));
}

#ifdef __AVX2__
static inline void turn_square(char* to, i64 to_step, const char* from, i64 from_step, u32) {
  typedef i32 mask __attribute__((vector_size(32)));
  typedef f32 V __attribute__((vector_size(32), aligned(4), may_alias));
  V a[8], b[8];
#pragma GCC unroll 8
  for (int k = 0; k < 8; ++k) a[k] = *(const V*)(from + k * from_step);
#pragma GCC unroll 8
  for (int k = 0; k < 8; k += 2) {
    b[k] = __builtin_shuffle(a[k], a[k + 1], mask{0, 8, 1, 9, 4, 12, 5, 13});
    b[k + 1] = __builtin_shuffle(a[k], a[k + 1], mask{2, 10, 3, 11, 6, 14, 7, 15});
  }
#pragma GCC unroll 8
  for (int k = 0; k < 8; k += 4) {
#pragma GCC unroll 8
    for (int e = 0; e < 2; ++e) {
      a[k + 2 * e] = __builtin_shuffle(b[k + e], b[k + e + 2], mask{0, 1, 8, 9, 4, 5, 12, 13});
      a[k + 2 * e + 1] =
          __builtin_shuffle(b[k + e], b[k + e + 2], mask{2, 3, 10, 11, 6, 7, 14, 15});
    }
  }
#pragma GCC unroll 8
  for (int k = 0; k < 4; ++k) {
    *(V*)(to + k * to_step) = __builtin_shuffle(a[k], a[k + 4], mask{0, 1, 2, 3, 8, 9, 10, 11});
    *(V*)(to + (k + 4) * to_step) =
        __builtin_shuffle(a[k], a[k + 4], mask{4, 5, 6, 7, 12, 13, 14, 15});
  }
}

static inline void turn_square(char* to, i64 to_step, const char* from, i64 from_step, u64) {
  typedef i64 mask __attribute__((vector_size(32)));
  typedef f64 V __attribute__((vector_size(32), aligned(8), may_alias));
  V a[4], b[4];
#pragma GCC unroll 8
  for (int k = 0; k < 4; ++k) a[k] = *(const V*)(from + k * from_step);
#pragma GCC unroll 8
  for (int k = 0; k < 4; k += 2) {
    b[k] = __builtin_shuffle(a[k], a[k + 1], mask{0, 4, 2, 6});
    b[k + 1] = __builtin_shuffle(a[k], a[k + 1], mask{1, 5, 3, 7});
  }
#pragma GCC unroll 8
  for (int k = 0; k < 2; ++k) {
    *(V*)(to + k * to_step) = __builtin_shuffle(b[k], b[k + 2], mask{0, 1, 4, 5});
    *(V*)(to + (k + 2) * to_step) = __builtin_shuffle(b[k], b[k + 2], mask{2, 3, 6, 7});
  }
}

template <class W> static inline void turn_square(char*, i64, const char*, i64, W) {}
constexpr bool HAS_SQUARES = true;
#else
template <class W> static inline void turn_square(char*, i64, const char*, i64, W) {}
constexpr bool HAS_SQUARES = false;
#endif

template <class W>
__attribute__((noinline)) static void turn_words(char* to, i64 to_step, const char* from,
                                                 i64 from_step, i64 rows, i64 n) {
  constexpr i64 SIDE = 32 / sizeof(W);
  if (!HAS_SQUARES || sizeof(W) < 4 || sizeof(W) > 8 || rows < SIDE || n < SIDE)
    return turn_one_by_one<W>(to, to_step, from, from_step, rows, n);
  const auto square = [&](i64 r, i64 i) {  // the last square overlaps the previous one
    r = r > rows - SIDE ? rows - SIDE : r, i = i > n - SIDE ? n - SIDE : i;
    turn_square(to + i * to_step + r * sizeof(W), to_step, from + r * from_step + i * sizeof(W),
                from_step, W{});
  };
  if (from_step < to_step) {  // only a few cache lines of the side with the large stride at a time
    for (i64 i = 0; i < n; i += SIDE)
      for (i64 r = 0; r < rows; r += SIDE) square(r, i);
  } else {
    for (i64 r = 0; r < rows; r += SIDE)
      for (i64 i = 0; i < n; i += SIDE) square(r, i);
  }
}

struct two_words { u64 low, high; };  // a c128, which is only aligned to the size of one part

template <int SIZE> struct word_of;
template <> struct word_of<1> { typedef u8 type; };
template <> struct word_of<2> { typedef u16 type; };
template <> struct word_of<4> { typedef u32 type; };
template <> struct word_of<8> { typedef u64 type; };
template <> struct word_of<16> { typedef two_words type; };

template <class A>
static inline void turn(char* to, i64 to_step, const char* from, i64 from_step, i64 rows, i64 n) {
  turn_words<typename word_of<sizeof(A)>::type>(to, to_step, from, from_step, rows, n);
}

}  // namespace CAPABILITY

#endif
