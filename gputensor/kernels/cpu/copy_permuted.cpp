// dst[i] = src[i] between two orders of dimensions, for words of 1 to 16 bytes.      family: copy
//
// Shapes   a walk of copy_permuted.py: (size, bytes in dst, bytes in src) of each dimension, the
//          two that a unit of work covers first.
// Order    units first to last - 1; threads take ranges of them.
// Source   transposing by unpacking is the classic network of log2(n) equal stages.
//
// A tile is a cache line of dst by a cache line of src. Each is touched once, as a whole: a pitch
// of a power of two, whose lines share few sets of the cache, costs no more than another.

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#ifndef WORD  // w1, w2, w4, w8 or w16
#define WORD w4
#endif

namespace {

#define INLINE __attribute__((always_inline)) inline

typedef long long length;
typedef unsigned char byte;

namespace scalar {  // at any address: 16 bytes may be two f64
#define ANYWHERE __attribute__((aligned(1)))
typedef uint8_t w1;
typedef uint16_t w2 ANYWHERE;
typedef uint32_t w4 ANYWHERE;
typedef uint64_t w8 ANYWHERE;
typedef unsigned __int128 w16 ANYWHERE;
}  // namespace scalar

namespace vector {
#define OF_16 __attribute__((vector_size(16)))
typedef uint8_t w1 OF_16;
typedef uint16_t w2 OF_16;
typedef uint32_t w4 OF_16;
typedef uint64_t w8 OF_16;
typedef unsigned __int128 w16;
}  // namespace vector

typedef scalar::WORD word;
typedef vector::WORD words;
// N words in a vector, L in a cache line.
constexpr int ITEM = sizeof(word), N = 16 / ITEM, L = 64 / ITEM;

using vector::w1;
using vector::w16;
using vector::w2;
using vector::w4;
using vector::w8;

INLINE w1 low(w1 a, w1 b) {
  return __builtin_shuffle(a, b, (w1){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
}
INLINE w1 high(w1 a, w1 b) {
  const w1 order = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return __builtin_shuffle(a, b, order);
}
INLINE w2 low(w2 a, w2 b) { return __builtin_shuffle(a, b, (w2){0, 8, 1, 9, 2, 10, 3, 11}); }
INLINE w2 high(w2 a, w2 b) { return __builtin_shuffle(a, b, (w2){4, 12, 5, 13, 6, 14, 7, 15}); }
INLINE w4 low(w4 a, w4 b) { return __builtin_shuffle(a, b, (w4){0, 4, 1, 5}); }
INLINE w4 high(w4 a, w4 b) { return __builtin_shuffle(a, b, (w4){2, 6, 3, 7}); }
INLINE w8 low(w8 a, w8 b) { return __builtin_shuffle(a, b, (w8){0, 2}); }
INLINE w8 high(w8 a, w8 b) { return __builtin_shuffle(a, b, (w8){1, 3}); }
INLINE w16 low(w16 a, w16) { return a; }
INLINE w16 high(w16 a, w16) { return a; }

INLINE void transpose(words* v) {
  words w[N];
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

INLINE length least(length a, length b) { return a < b ? a : b; }

// --- tiles ------------------------------------------------------------------------------------

typedef byte Line[64];

// N by N words at row r and column c.
INLINE void square(byte* dst, const byte* src, length r, length c, length dst_x, length src_0) {
  words v[N];
#pragma GCC unroll 16
  for (int k = 0; k < N; k++) memcpy(&v[k], src + (r + k) * src_0 + c * ITEM, 16);
  transpose(v);
#pragma GCC unroll 16
  for (int k = 0; k < N; k++) memcpy(dst + (c + k) * dst_x + r * ITEM, &v[k], 16);
}

INLINE void whole_line(byte* dst, const byte* line, bool past_the_cache) {
#if defined(__SSE2__)
  if (past_the_cache) {
    for (int k = 0; k < 64; k += 16)
      _mm_stream_si128((__m128i*)(dst + k), _mm_loadu_si128((const __m128i*)(line + k)));
    return;
  }
#endif
  memcpy(dst, line, 64);
}

INLINE void end_of_lines() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <bool STREAM>
INLINE void whole_tile(byte* dst, const byte* src, length dst_x, length src_0) {
  alignas(64) Line lines[L];
  for (int r = 0; r < L; r += N)
    for (int c = 0; c < L; c += N) square(lines[0], src, r, c, sizeof(Line), src_0);
  for (int c = 0; c < L; c++) whole_line(dst + c * dst_x, lines[c], STREAM);
}

// The last vectors of a row or column are moved back to where they are whole.
INLINE void part_of_tile(byte* dst, const byte* src, length n0, length nx, length dst_x,
                         length src_0) {
  if (n0 < N || nx < N) {
    for (length c = 0; c < nx; c++)
      for (length r = 0; r < n0; r++)
        memcpy(dst + c * dst_x + r * ITEM, src + r * src_0 + c * ITEM, ITEM);
    return;
  }
  for (length r = 0; r < n0; r += N)
    for (length c = 0; c < nx; c += N)
      square(dst, src, least(r, n0 - N), least(c, nx - N), dst_x, src_0);
}

struct Place {
  byte* to;
  const byte* from;
};

// The lines of a tile to come, while this one is turned. Rows that begin within a line may end in
// the next one.
template <bool STREAM>
INLINE void prefetch(Place at, length rows, length columns, length dst_x, length src_0) {
  const length last = columns * ITEM - 1;
  for (length r = 0; r < rows; r++) {
    __builtin_prefetch(at.from + r * src_0);
    if (src_0 % 64) __builtin_prefetch(at.from + r * src_0 + last);
  }
  if (!STREAM)
    for (length c = 0; c < columns; c++) __builtin_prefetch(at.to + c * dst_x, 1);
}

template <bool STREAM>
INLINE void block(Place at, length n0, length nx, length dst_x, length src_0, bool aligned,
                  Place next) {
  for (length c = 0; c < nx; c += L)
    for (length r = 0, step; r < n0; r += step) {
      step = aligned ? L - (uintptr_t(at.to) / ITEM + r) % L : L;  // to the end of dst's line
      const length rows = least(n0 - r, step), columns = least(nx - c, L);
      byte* to = at.to + r * ITEM + c * dst_x;
      const byte* from = at.from + r * src_0 + c * ITEM;
      if (r + step < n0)
        prefetch<STREAM>({to + step * ITEM, from + step * src_0}, least(n0 - r - step, L), columns,
                         dst_x, src_0);
      else if (c + L < nx)
        prefetch<STREAM>({at.to + (c + L) * dst_x, at.from + (c + L) * ITEM}, least(n0, L),
                         least(nx - c - L, L), dst_x, src_0);
      else
        prefetch<STREAM>(next, least(n0, L), least(nx, L), dst_x, src_0);
      if (rows == L && columns == L)
        whole_tile<STREAM>(to, from, dst_x, src_0);
      else
        part_of_tile(to, from, rows, columns, dst_x, src_0);
    }
}

// --- lanes: C planes to pixels of C words, or back -----------------------------------------------

template <int C>
INLINE void into_pixels(byte* dst, const byte* src, length n, length plane) {
  word* __restrict to = (word*)dst;
  const word* __restrict a = (const word*)src;
  const word* __restrict b = (const word*)(src + plane);
  const word* __restrict c = (const word*)(src + (C > 2 ? 2 : 0) * plane);
  const word* __restrict d = (const word*)(src + (C > 3 ? 3 : 0) * plane);
  for (length i = 0; i < n; i++) {
    to[C * i] = a[i];
    to[C * i + 1] = b[i];
    if (C > 2) to[C * i + 2] = c[i];
    if (C > 3) to[C * i + 3] = d[i];
  }
}

template <int C>
INLINE void from_pixels(byte* dst, const byte* src, length n, length plane) {
  const word* __restrict from = (const word*)src;
  word* __restrict a = (word*)dst;
  word* __restrict b = (word*)(dst + plane);
  word* __restrict c = (word*)(dst + (C > 2 ? 2 : 0) * plane);
  word* __restrict d = (word*)(dst + (C > 3 ? 3 : 0) * plane);
  for (length i = 0; i < n; i++) {
    a[i] = from[C * i];
    b[i] = from[C * i + 1];
    if (C > 2) c[i] = from[C * i + 2];
    if (C > 3) d[i] = from[C * i + 3];
  }
}

// --- one word n times ----------------------------------------------------------------------------

INLINE void repeat(byte* dst, const byte* src, length n) {
  word one;
  memcpy(&one, src, ITEM);
  if (n < N) {
    for (length i = 0; i < n; i++) memcpy(dst + i * ITEM, &one, ITEM);
    return;
  }
  word filled[N];
  for (int i = 0; i < N; i++) filled[i] = one;
  const length last = n * ITEM - 16;
  for (length at = 0; at < last + 16; at += 16) memcpy(dst + least(at, last), filled, 16);
}

// --- a walk -------------------------------------------------------------------------------------

// Bytes ahead of where a row is read that are asked for: rows lie one after another in src.
constexpr length AHEAD = 512;

struct Dimension {
  length size, dst, src;
};

struct Walk {
  length dimensions, part0, part1, is_aligned, streams;  // parts: sizes of a unit of work
  Dimension of[];
};

// `work(place, n0, n1, place of the next one)` of each unit.
template <class Work>
INLINE void each(byte* dst, const byte* src, const Walk& w, length first, length last, Work work) {
  const Dimension d0 = w.of[0], d1 = w.of[1];
  const length parts0 = (d0.size + w.part0 - 1) / w.part0;
  const length parts1 = (d1.size + w.part1 - 1) / w.part1;
  const auto place = [&](length unit, length* i0, length* i1) {
    *i0 = unit % parts0 * w.part0;
    unit /= parts0;
    *i1 = unit % parts1 * w.part1;
    unit /= parts1;
    Place at = {dst + *i0 * d0.dst + *i1 * d1.dst, src + *i0 * d0.src + *i1 * d1.src};
    for (length d = 2; d < w.dimensions; d++) {
      const length index = unit % w.of[d].size;
      unit /= w.of[d].size;
      at.to += index * w.of[d].dst;
      at.from += index * w.of[d].src;
    }
    return at;
  };
  length i0, i1, next0 = 0, next1 = 0;
  Place at = place(first, &i0, &i1);
  for (length unit = first; unit < last; unit++) {
    const Place next = unit + 1 < last ? place(unit + 1, &next0, &next1) : at;
    work(at, least(d0.size - i0, w.part0), least(d1.size - i1, w.part1), next);
    at = next, i0 = next0, i1 = next1;
  }
}

}  // namespace

#define ENTRY extern "C" __attribute__((visibility("default")))

ENTRY void tiles(byte* dst, const byte* src, const Walk* w, length first, length last) {
  const length dst_x = w->of[1].dst, src_0 = w->of[0].src;
  const bool aligned = w->is_aligned;
  if (w->streams) {
    each(dst, src, *w, first, last, [=](Place at, length n0, length nx, Place next) {
      block<true>(at, n0, nx, dst_x, src_0, true, next);
    });
    end_of_lines();
  } else {
    each(dst, src, *w, first, last, [=](Place at, length n0, length nx, Place next) {
      block<false>(at, n0, nx, dst_x, src_0, aligned, next);
    });
  }
}

// The first dimension is the lane, the second runs along both sides.
ENTRY void lanes(byte* dst, const byte* src, const Walk* w, length first, length last) {
  const bool into = w->of[0].dst == ITEM;
  const length plane = into ? w->of[0].src : w->of[0].dst, count = w->of[0].size;
  each(dst, src, *w, first, last, [=](Place at, length, length n, Place) {
    byte* to = at.to;
    const byte* from = at.from;
    if (count == 2) into ? into_pixels<2>(to, from, n, plane) : from_pixels<2>(to, from, n, plane);
    if (count == 3) into ? into_pixels<3>(to, from, n, plane) : from_pixels<3>(to, from, n, plane);
    if (count == 4) into ? into_pixels<4>(to, from, n, plane) : from_pixels<4>(to, from, n, plane);
  });
}

// The first dimension lies dense on both sides.
ENTRY void rows(byte* dst, const byte* src, const Walk* w, length first, length last) {
  const length to_next = w->of[1].dst, from_next = w->of[1].src;
  const bool past_the_cache = w->streams;
  each(dst, src, *w, first, last, [=](Place at, length n0, length n1, Place) {
    const length nbytes = n0 * ITEM;
    for (length i = 0; i < n1; i++) {
      byte* to = at.to + i * to_next;
      const byte* from = at.from + i * from_next;
      if (past_the_cache)  // whole lines, then
        for (length k = 0; k < nbytes; k += 64) {
          __builtin_prefetch(from + k + AHEAD);
          whole_line(to + k, from + k, true);
        }
      else
        memcpy(to, from, nbytes);
    }
  });
  end_of_lines();
}

// The first dimension is one word of src, dense in dst.
ENTRY void repeats(byte* dst, const byte* src, const Walk* w, length first, length last) {
  const length to_next = w->of[1].dst, from_next = w->of[1].src;
  each(dst, src, *w, first, last, [=](Place at, length n0, length n1, Place) {
    for (length i = 0; i < n1; i++) repeat(at.to + i * to_next, at.from + i * from_next, n0);
  });
}
