// Products of bf16 by the AVX512-BF16 instructions for pairs of products, added in f32. On other
// CPUs the operands are widened, and BLAS computes the product.
//
// Order    a sum is over pairs of k from the first on, in the order of the instruction. The result
//          is rounded once. So the bits depend only on k.
// Numbers  products are exact. Denormals of operands and of sums, below 2^-126, count as 0.
#ifndef GPUTENSOR_PRODUCTS_BF16
#define GPUTENSOR_PRODUCTS_BF16

#include "matrices.h"
#include "turn.h"

namespace CAPABILITY {

#if defined(__AVX512F__)
#define BF16_TARGET __attribute__((target("avx512bf16")))

// rows and columns of a tile
constexpr i64 PAIR_ROWS = 8, PAIR_LANES = 16, PAIR_COLUMNS = 3 * PAIR_LANES;

static inline u32 pair_of(const char* first, const char* second) {
  u16 low, high = 0;
  memcpy(&low, first, 2);
  if (second) memcpy(&high, second, 2);
  return low | (u32)high << 16;
}

// to[p * wide + i] = elements 2 p and 2 p + 1 of line i, of `lines` lines; zeros after the end.
static void pack_pairs(const char* from, i64 apart, i64 step, i64 lines, i64 wide, i64 k, u32* to) {
  const i64 pairs = k / 2;
  if (step == 2) {
    turn<u32>((char*)to, wide * sizeof(u32), from, apart, lines, pairs);
  } else {
    for (i64 p = 0; p < pairs; ++p) {
      const char *low = from + 2 * p * step, *high = low + step;
      i64 i = 0;
      for (; apart == 2 && i + PAIR_LANES <= lines; i += PAIR_LANES) {
        const __m256i a = _mm256_loadu_si256((const __m256i*)(low + 2 * i));
        const __m256i b = _mm256_loadu_si256((const __m256i*)(high + 2 * i));
        _mm512_storeu_si512(to + p * wide + i,
                            _mm512_or_si512(_mm512_cvtepu16_epi32(a),
                                            _mm512_slli_epi32(_mm512_cvtepu16_epi32(b), 16)));
      }
      for (; i < lines; ++i) to[p * wide + i] = pair_of(low + i * apart, high + i * apart);
    }
  }
  if (k % 2)
    for (i64 i = 0; i < lines; ++i)
      to[pairs * wide + i] = pair_of(from + i * apart + (k - 1) * step, nullptr);
  for (i64 p = 0; p < (k + 1) / 2; ++p)
    for (i64 i = lines; i < wide; ++i) to[p * wide + i] = 0;
}

template <int R, int C>
BF16_TARGET static void pair_tile(const u32* a, const u32* b, i64 pairs, f32* out) {
  __m512 sum[R][C];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j) sum[i][j] = _mm512_setzero_ps();
  for (i64 p = 0; p < pairs; ++p, a += PAIR_ROWS, b += PAIR_COLUMNS) {
    __m512i right[C];
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j) right[j] = _mm512_loadu_si512(b + j * PAIR_LANES);
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      const __m512i left = _mm512_set1_epi32((int)a[i]);
#pragma GCC unroll 3
      for (int j = 0; j < C; ++j)
        sum[i][j] = _mm512_dpbf16_ps(sum[i][j], (__m512bh)left, (__m512bh)right[j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < C; ++j)
      _mm512_storeu_ps(out + i * PAIR_COLUMNS + j * PAIR_LANES, sum[i][j]);
}

template <int R>
static void pair_tile_of(i64 columns, const u32* a, const u32* b, i64 pairs, f32* out) {
  if (columns <= PAIR_LANES) return pair_tile<R, 1>(a, b, pairs, out);
  if (columns <= 2 * PAIR_LANES) return pair_tile<R, 2>(a, b, pairs, out);
  pair_tile<R, 3>(a, b, pairs, out);
}

// out (u, m, n) = a (u, m, k) @ b (u, k, n), of f32 or bf16; rows of out are dense.
struct PairProducts {
  const Array &a, &b, &out;
  i64 m, n, k, pairs, tiles, panels, parts;  // parts: number of parts of the tiles of rows
  u32* packed;                               // the rows of a, of all units
  i64 answer;

  void write(i64 unit, i64 row, i64 rows, i64 column, i64 columns, const f32* sums) const {
    char* to = out.data + unit * out.stride[0] + row * out.stride[1];
    for (i64 i = 0; i < rows; ++i, to += out.stride[1], sums += PAIR_COLUMNS) {
      if (out.itemsize == 4) {
        memcpy((f32*)to + column, sums, columns * sizeof(f32));
      } else {
        narrow_some((bf16*)to + column, sums, columns);
      }
    }
  }

  void some(i64 first, i64 last) {
    Room room(Room::bytes_of<u32>(pairs * PAIR_COLUMNS));
    if (!room) return note(&answer, NO_MEMORY);
    u32* panel = room.take<u32>(pairs * PAIR_COLUMNS);
    f32 sums[PAIR_ROWS * PAIR_COLUMNS];
    for (i64 at = first, held = -1; at < last; ++at) {
      const i64 part = at % parts, column = at / parts % panels * PAIR_COLUMNS;
      const i64 unit = at / parts / panels, columns = smaller(PAIR_COLUMNS, n - column);
      if (at / parts != held)
        pack_pairs(b.data + unit * b.stride[0] + column * b.stride[2], b.stride[2], b.stride[1],
                   columns, PAIR_COLUMNS, k, panel);
      held = at / parts;
      for (i64 tile = tiles * part / parts; tile < tiles * (part + 1) / parts; ++tile) {
        const i64 row = tile * PAIR_ROWS, rows = smaller(PAIR_ROWS, m - row);
        const u32* left = packed + (unit * tiles + tile) * pairs * PAIR_ROWS;
        rows > PAIR_ROWS / 2 ? pair_tile_of<PAIR_ROWS>(columns, left, panel, pairs, sums)
                             : pair_tile_of<PAIR_ROWS / 2>(columns, left, panel, pairs, sums);
        write(unit, row, rows, column, columns, sums);
      }
    }
  }
};

static i64 product_of_pairs(const Call& call) {
  const Array &a = call.array[0], &b = call.array[1], &out = call.array[2];
  if (!__builtin_cpu_supports("avx512bf16") || out.stride[2] != out.itemsize) return 1;
  const i64 m = out.shape[1], n = out.shape[2], k = a.shape[2], units = out.shape[0];
  const i64 tiles = (m + PAIR_ROWS - 1) / PAIR_ROWS, panels = (n + PAIR_COLUMNS - 1) / PAIR_COLUMNS;
  const i64 pairs = (k + 1) / 2, wanted = 2 * call.threads;
  const i64 parts = units * panels >= wanted ? 1 : smaller(tiles, (wanted - 1) / panels + 1);
  Room room(Room::bytes_of<u32>(units * tiles * pairs * PAIR_ROWS));
  if (!room) return NO_MEMORY;
  PairProducts of = {a, b, out, m, n, k, pairs, tiles, panels, parts,
                     room.take<u32>(units * tiles * pairs * PAIR_ROWS), 0};
  over(call, true, units * tiles, k * PAIR_ROWS, [&](i64 first, i64 last) {
    for (i64 at = first; at < last; ++at) {
      const i64 row = at % tiles * PAIR_ROWS;
      pack_pairs(a.data + at / tiles * a.stride[0] + row * a.stride[1], a.stride[1], a.stride[2],
                 smaller(PAIR_ROWS, m - row), PAIR_ROWS, k, of.packed + at * pairs * PAIR_ROWS);
    }
  });
  over(call, true, units * panels * parts, m * PAIR_COLUMNS * k / parts / 32,
       [&](i64 first, i64 last) { of.some(first, last); });
  return of.answer;
}

#undef BF16_TARGET
#else
static i64 product_of_pairs(const Call&) { return 1; }
#endif

}  // namespace CAPABILITY

#endif
