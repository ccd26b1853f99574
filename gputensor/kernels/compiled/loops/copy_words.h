// Loops that copy words between two orders of dimensions. copy_plan.h chooses among them. A unit of
// work is a box: the entries of table A along dst's run, and the entries of table B across it.
//
// tiles    each side is dense along another dimension: vectors of rows are transposed in registers.
// lanes    2 to 4 planes become pixels, or pixels planes.
// rows     runs that are dense on both sides, moved whole.
// repeats  one word of src fills a run of dst.
// lines    a run of dst, words at equal steps of src: slices, flips.
// gathers  a run of dst, words anywhere in src.
// pieces   anything else: up to 64 bytes at a time.
//
// Order    units are independent and may run on any thread.
// Source   transposing by unpacking is the classic network of log2(n) equal stages.
#ifndef GPUTENSOR_COPY_WORDS
#define GPUTENSOR_COPY_WORDS

#include "capability.h"

namespace CAPABILITY {
namespace copies {

#define INLINE __attribute__((always_inline)) inline

constexpr int LINE = 64;          // bytes of a cache line
constexpr int MOST_ENTRIES = 1024;  // of a table

// Entries along one or more dimensions: offsets in bytes from the first entry.
struct Table {
  i64 to[MOST_ENTRIES], from[MOST_ENTRIES];
};

struct Place {
  char* to;
  const char* from;
};

struct Unit {
  Place at;
  i64 n, m;    // entries of A, of B
  Place next;  // the next unit, whose first tile is prefetched
};

struct Moves {  // the parameters of a loop, in addition to its unit
  const Table *a, *b;
  i64 item;     // bytes that a loop moves at a time; for runs, a whole run
  i64 step;     // lines: distance of src's words in bytes; lanes: distance of planes
  int lanes;    // 2 to 4; true if lanes become pixels, false for the opposite direction
  bool into_pixels;
  bool is_aligned, streams;  // dst is cut at ends of lines; dst is written past the cache
};

typedef void (*Loop)(const Moves& moves, const Unit& unit);

INLINE i64 least(i64 a, i64 b) { return a < b ? a : b; }

// --- words of 1 to 16 bytes, at any address -----------------------------------------------------

#define ANYWHERE __attribute__((aligned(1)))
typedef u16 u16_anywhere ANYWHERE;
typedef u32 u32_anywhere ANYWHERE;
typedef u64 u64_anywhere ANYWHERE;
typedef unsigned __int128 u128;
typedef u128 u128_anywhere ANYWHERE;
#undef ANYWHERE
struct u256 { u128_anywhere low, high; };

template <int ITEM> struct word_of;
template <> struct word_of<1> { typedef u8 type; };
template <> struct word_of<2> { typedef u16_anywhere type; };
template <> struct word_of<4> { typedef u32_anywhere type; };
template <> struct word_of<8> { typedef u64_anywhere type; };
template <> struct word_of<16> { typedef u128_anywhere type; };
template <> struct word_of<32> { typedef u256 type; };
template <int ITEM> using word = typename word_of<ITEM>::type;

#define OF_16 __attribute__((vector_size(16)))
typedef u8 v1 OF_16;
typedef u16 v2 OF_16;
typedef u32 v4 OF_16;
typedef u64 v8 OF_16;
#undef OF_16
template <int ITEM> struct vector_of;
template <> struct vector_of<1> { typedef v1 type; };
template <> struct vector_of<2> { typedef v2 type; };
template <> struct vector_of<4> { typedef v4 type; };
template <> struct vector_of<8> { typedef v8 type; };
template <> struct vector_of<16> { typedef u128 type; };
template <int ITEM> using vector = typename vector_of<ITEM>::type;

#if defined(__clang__)
#define SHUFFLE(T, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(T, ...) __builtin_shuffle(a, b, (T){__VA_ARGS__})
#endif
// Interleave the words of the first halves of a and b, and of their second halves.
INLINE v1 low(v1 a, v1 b) {
  return SHUFFLE(v1, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
INLINE v1 high(v1 a, v1 b) {
  return SHUFFLE(v1, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
INLINE v2 low(v2 a, v2 b) { return SHUFFLE(v2, 0, 8, 1, 9, 2, 10, 3, 11); }
INLINE v2 high(v2 a, v2 b) { return SHUFFLE(v2, 4, 12, 5, 13, 6, 14, 7, 15); }
INLINE v4 low(v4 a, v4 b) { return SHUFFLE(v4, 0, 4, 1, 5); }
INLINE v4 high(v4 a, v4 b) { return SHUFFLE(v4, 2, 6, 3, 7); }
INLINE v8 low(v8 a, v8 b) { return SHUFFLE(v8, 0, 2); }
INLINE v8 high(v8 a, v8 b) { return SHUFFLE(v8, 1, 3); }
INLINE u128 low(u128 a, u128) { return a; }
INLINE u128 high(u128 a, u128) { return a; }
#undef SHUFFLE

template <int N, class V> INLINE void transpose(V* v) {
  V w[N];
#pragma GCC unroll 4
  for (int stage = 1; stage < N; stage *= 2) {
#pragma GCC unroll 8
    for (int i = 0; i < N / 2; i++) {
      w[2 * i] = low(v[i], v[i + N / 2]);
      w[2 * i + 1] = high(v[i], v[i + N / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < N; i++) v[i] = w[i];
  }
}

// --- stores past the cache ----------------------------------------------------------------------

INLINE void whole_line(char* to, const char* line, bool past_the_cache) {
#if defined(__SSE2__)
  if (past_the_cache) {
    for (int k = 0; k < LINE; k += 16)
      _mm_stream_si128((__m128i*)(to + k), _mm_loadu_si128((const __m128i*)(line + k)));
    return;
  }
#endif
  memcpy(to, line, LINE);
}

INLINE void end_of_lines() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// --- tiles --------------------------------------------------------------------------------------
//
// A tile is a cache line of dst by a cache line of src. Each line is accessed only once, as a
// whole. So strides that are powers of two, whose lines share few sets of the cache, are as fast as
// others.

typedef char Line[LINE];

// 16 by 16 bytes: N rows of src are transposed to N rows of dst.
template <int ITEM>
INLINE void square(char* to, const i64* to_row, const char* from, const i64* from_row) {
  constexpr int N = 16 / ITEM;
  vector<ITEM> v[N];
#pragma GCC unroll 16
  for (int k = 0; k < N; k++) memcpy(&v[k], from + from_row[k], 16);
  transpose<N>(v);
#pragma GCC unroll 16
  for (int k = 0; k < N; k++) memcpy(to + to_row[k], &v[k], 16);
}

template <int ITEM, bool STREAM>
INLINE void whole_tile(char* to, const i64* to_row, const char* from, const i64* from_row) {
  constexpr int N = 16 / ITEM, L = LINE / ITEM;
  alignas(LINE) Line lines[L];
  for (int r = 0; r < L; r += N)
    for (int c = 0; c < L; c += N) {
      vector<ITEM> v[N];
#pragma GCC unroll 16
      for (int k = 0; k < N; k++) memcpy(&v[k], from + from_row[r + k] + c * ITEM, 16);
      transpose<N>(v);
#pragma GCC unroll 16
      for (int k = 0; k < N; k++) memcpy(lines[c + k] + r * ITEM, &v[k], 16);
    }
  for (int c = 0; c < L; c++) whole_line(to + to_row[c], lines[c], STREAM);
}

// The last vectors of a row or column overlap the previous ones, so that all vectors are whole.
template <int ITEM>
INLINE void part_of_tile(char* to, const i64* to_row, i64 columns, const char* from,
                         const i64* from_row, i64 rows) {
  constexpr int N = 16 / ITEM;
  if (rows < N || columns < N) {
    for (i64 c = 0; c < columns; c++)
      for (i64 r = 0; r < rows; r++)
        memcpy(to + to_row[c] + r * ITEM, from + from_row[r] + c * ITEM, ITEM);
    return;
  }
  for (i64 r = 0; r < rows; r += N)
    for (i64 c = 0; c < columns; c += N) {
      const i64 r0 = least(r, rows - N), c0 = least(c, columns - N);
      square<ITEM>(to + r0 * ITEM, to_row + c0, from + c0 * ITEM, from_row + r0);
    }
}

// Prefetch the lines of the next tile while this tile is transposed. A row that begins within a
// line may end in the next line.
template <bool STREAM>
INLINE void prefetch(char* to, const i64* to_row, i64 columns, const char* from,
                     const i64* from_row, i64 rows, i64 last) {
  for (i64 r = 0; r < rows; r++) {
    const char* at = from + from_row[r];
    __builtin_prefetch(at);
    if ((u64)at % LINE) __builtin_prefetch(at + last);
  }
  if (!STREAM)
    for (i64 c = 0; c < columns; c++) __builtin_prefetch(to + to_row[c], 1);
}

template <int ITEM, bool STREAM> INLINE void block(const Moves& moves, const Unit& unit) {
  constexpr int L = LINE / ITEM;
  const i64 *to_row = moves.b->to, *from_row = moves.a->from, n = unit.n, m = unit.m;
  char* to = unit.at.to;
  const char* from = unit.at.from;
  for (i64 c = 0; c < m; c += L)
    for (i64 r = 0, step; r < n; r += step) {
      step = moves.is_aligned ? L - ((u64)to / ITEM + r) % L : L;  // to the end of dst's line
      const i64 rows = least(n - r, step), columns = least(m - c, L);
      if (r + step < n) {
        const i64 r1 = r + step;
        prefetch<STREAM>(to + r1 * ITEM, to_row + c, columns, from + c * ITEM, from_row + r1,
                         least(n - r1, L), columns * ITEM - 1);
      } else if (c + L < m) {
        const i64 c1 = c + L, left = least(m - c1, L);
        prefetch<STREAM>(to, to_row + c1, left, from + c1 * ITEM, from_row, least(n, L),
                         left * ITEM - 1);
      } else {
        const i64 left = least(m, L);
        prefetch<STREAM>(unit.next.to, to_row, left, unit.next.from, from_row, least(n, L),
                         left * ITEM - 1);
      }
      if (rows == L && columns == L)
        whole_tile<ITEM, STREAM>(to + r * ITEM, to_row + c, from + c * ITEM, from_row + r);
      else
        part_of_tile<ITEM>(to + r * ITEM, to_row + c, columns, from + c * ITEM, from_row + r, rows);
    }
}

template <int ITEM> static void tiles(const Moves& moves, const Unit& unit) {
  moves.streams ? block<ITEM, true>(moves, unit) : block<ITEM, false>(moves, unit);
}

// --- lanes: planes to pixels, or back -----------------------------------------------------------

// Write n pixels of C words, one of each plane.
template <int ITEM, int C> INLINE void into_pixels(char* dst, const char* const* planes, i64 n) {
  word<ITEM>* __restrict to = (word<ITEM>*)dst;
  const word<ITEM>* __restrict a = (const word<ITEM>*)planes[0];
  const word<ITEM>* __restrict b = (const word<ITEM>*)planes[1];
  const word<ITEM>* __restrict c = (const word<ITEM>*)planes[C > 2 ? 2 : 0];
  const word<ITEM>* __restrict d = (const word<ITEM>*)planes[C > 3 ? 3 : 0];
  for (i64 i = 0; i < n; i++) {
    to[C * i] = a[i];
    to[C * i + 1] = b[i];
    if (C > 2) to[C * i + 2] = c[i];
    if (C > 3) to[C * i + 3] = d[i];
  }
}

template <int ITEM, int C> INLINE void from_pixels(char* dst, const char* src, i64 n, i64 plane) {
  const word<ITEM>* __restrict from = (const word<ITEM>*)src;
  word<ITEM>* __restrict a = (word<ITEM>*)dst;
  word<ITEM>* __restrict b = (word<ITEM>*)(dst + plane);
  word<ITEM>* __restrict c = (word<ITEM>*)(dst + (C > 2 ? 2 : 0) * plane);
  word<ITEM>* __restrict d = (word<ITEM>*)(dst + (C > 3 ? 3 : 0) * plane);
  for (i64 i = 0; i < n; i++) {
    a[i] = from[C * i];
    b[i] = from[C * i + 1];
    if (C > 2) c[i] = from[C * i + 2];
    if (C > 3) d[i] = from[C * i + 3];
  }
}

// A runs along both sides. B is the outer loop.
template <int ITEM> static void lanes(const Moves& moves, const Unit& unit) {
  const i64 n = unit.n, plane = moves.step;
  const bool into = moves.into_pixels;
  for (i64 k = 0; k < unit.m; k++) {
    char* to = unit.at.to + moves.b->to[k];
    const char* from = unit.at.from + moves.b->from[k];
    const char* const planes[] = {from, from + plane, from + 2 * plane, from + 3 * plane};
#define LANES(C) \
  into ? into_pixels<ITEM, C>(to, planes, n) : from_pixels<ITEM, C>(to, from, n, plane)
    if (moves.lanes == 2) LANES(2);
    else if (moves.lanes == 3) LANES(3);
    else LANES(4);
#undef LANES
  }
}

// --- runs of dst --------------------------------------------------------------------------------

// The distance of prefetches in bytes. Rows are consecutive in src.
constexpr i64 AHEAD = 512;

// A is one run of unit.n times moves.item bytes. B are the rows.
static void rows(const Moves& moves, const Unit& unit) {
  const i64 nbytes = unit.n * moves.item;
  for (i64 k = 0; k < unit.m; k++) {
    char* to = unit.at.to + moves.b->to[k];
    const char* from = unit.at.from + moves.b->from[k];
    if (!moves.streams) {
      memcpy(to, from, nbytes);
      continue;
    }
    for (i64 i = 0; i < nbytes; i += LINE) {
      __builtin_prefetch(from + i + AHEAD);
      whole_line(to + i, from + i, true);
    }
  }
}

template <int ITEM> INLINE void fill(char* to, const char* from, i64 n) {
  constexpr int N = 16 / ITEM;
  word<ITEM> one = *(const word<ITEM>*)from;
  if (n < N) {
    for (i64 i = 0; i < n; i++) ((word<ITEM>*)to)[i] = one;
    return;
  }
  const vector<ITEM> filled = vector<ITEM>{} + one;
  const i64 nbytes = n * ITEM;
  i64 at = 0;
#if defined(__AVX2__)
  __m128i half;
  memcpy(&half, &filled, 16);
  const __m256i wide = _mm256_set_m128i(half, half);
  for (; at + 128 <= nbytes; at += 128) {
    _mm256_storeu_si256((__m256i*)(to + at), wide);
    _mm256_storeu_si256((__m256i*)(to + at + 32), wide);
    _mm256_storeu_si256((__m256i*)(to + at + 64), wide);
    _mm256_storeu_si256((__m256i*)(to + at + 96), wide);
  }
#endif
  for (; at < nbytes - 16; at += 16) memcpy(to + at, &filled, 16);
  memcpy(to + nbytes - 16, &filled, 16);
}

template <int ITEM> static void repeats(const Moves& moves, const Unit& unit) {
  for (i64 k = 0; k < unit.m; k++)
    fill<ITEM>(unit.at.to + moves.b->to[k], unit.at.from + moves.b->from[k], unit.n);
}

template <int ITEM, int STEP> INLINE void at_steps(char* dst, const char* src, i64 n) {
  word<ITEM>* __restrict to = (word<ITEM>*)dst;
  const word<ITEM>* __restrict from = (const word<ITEM>*)src;
  for (i64 i = 0; i < n; i++) to[i] = from[STEP * i];
}

template <int ITEM> static void lines(const Moves& moves, const Unit& unit) {
  const i64 n = unit.n, step = moves.step;
  for (i64 k = 0; k < unit.m; k++) {
    char* to = unit.at.to + moves.b->to[k];
    const char* from = unit.at.from + moves.b->from[k];
    if (step == -ITEM) {
      at_steps<ITEM, -1>(to, from, n);
    } else if (step == 2 * ITEM) {
      at_steps<ITEM, 2>(to, from, n);
    } else if (step == 3 * ITEM) {
      at_steps<ITEM, 3>(to, from, n);
    } else if (step == 4 * ITEM) {
      at_steps<ITEM, 4>(to, from, n);
    } else {
      for (i64 i = 0; i < n; i++, from += step) ((word<ITEM>*)to)[i] = *(const word<ITEM>*)from;
    }
  }
}

template <int ITEM> static void gathers(const Moves& moves, const Unit& unit) {
  const i64 n = unit.n;
  for (i64 k = 0; k < unit.m; k++) {
    word<ITEM>* to = (word<ITEM>*)(unit.at.to + moves.b->to[k]);
    const char* from = unit.at.from + moves.b->from[k];
    const i64* place = moves.a->from;
#pragma GCC unroll 4
    for (i64 i = 0; i < n; i++) to[i] = *(const word<ITEM>*)(from + place[i]);
  }
}

// Words of ITEM bytes. A longer element is two words that overlap.
template <int ITEM, bool TWO> static void pieces(const Moves& moves, const Unit& unit) {
  const i64 second = moves.item - ITEM;
  for (i64 k = 0; k < unit.m; k++) {
    char* to = unit.at.to + moves.b->to[k];
    const char* from = unit.at.from + moves.b->from[k];
    for (i64 i = 0; i < unit.n; i++) {
      char* here = to + moves.a->to[i];
      const char* there = from + moves.a->from[i];
      const word<ITEM> one = *(const word<ITEM>*)there;
      if (TWO) {
        const word<ITEM> other = *(const word<ITEM>*)(there + second);
        *(word<ITEM>*)(here + second) = other;
      }
      *(word<ITEM>*)here = one;
    }
  }
}

}  // namespace copies
}  // namespace CAPABILITY

#endif
