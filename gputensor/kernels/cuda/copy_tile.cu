// dst = src if dst is dense along rows and src along columns                          family: copy
// Shapes   `rows` elements are dense in dst and `columns` elements in src (with any step if STORE
//          or LOAD is 1). Outer dimensions have any strides, including 0. Strides in bytes.
// Types    SRC to DST, cast on the way; equal types move words.
// Launch   one block per tile of TILE_ROWS x TILE_COLUMNS; shared = a tile of DST, static.
// Design   a thread loads R x LOAD squares, transposes them in registers and stores 16 bytes of
//          each column. A column's 16-byte chunks are in shared memory at chunk ^ (square & 7), so
//          there are no bank conflicts on either side and no padding
//          (tests/cuda/kernels/test_bank_conflicts.py). LOAD 0: rows of src begin at any byte; two
//          aligned words are read and shifted together. STORE 0: columns of dst begin at any byte.
//          A tile then stores whole sectors of each column, because memory reads a sector before a
//          part of it is written. So the tile reads one sector of rows more than it stores, and the
//          next tile reads these rows again, from L2.
// Source   pytorch#194310 for the target speed; cumo#415, CCCL tuning_transform.cuh for bytes in
//          flight.
#include "copying.cuh"

template <int OPERANDS, int MAX_DIMS> struct tile_params : copy_ends<OPERANDS == 3> {
  i64 dst_pitch, src_pitch;  // from one column of dst, or one row of src, to the next
  i64 dst_step, src_step;    // from one row of dst, or one column of src, to the next
  u64 src_end;               // bytes from data[1] that may be read
  u32 rows, columns, column_tiles, first_channel;
  divider tiles;       // of one batch
  divider group;       // of GROUP columns of tiles, one after another
  divider last_width;  // columns of tiles in the last group
  i64 channel_step;    // channels from one row or column to the next, if the copy scales
  outer_dims<OPERANDS, MAX_DIMS> outer;
};

// ---- body ----
#ifndef SRC
#define SRC u32
#endif
#ifndef DST
#define DST SRC
#endif
#ifndef LOAD
#define LOAD 4
#endif
#ifndef STORE
#define STORE 4
#endif
#ifndef TILE_ROWS
#define TILE_ROWS 64
#endif
#ifndef TILE_COLUMNS
#define TILE_COLUMNS 64
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef SCALED
#define SCALED UNSCALED
#endif
#ifndef DIMS
#define DIMS 6
#endif
#ifndef GROUP
#define GROUP 8
#endif
#ifndef EDGES
#define EDGES 1
#endif
typedef SRC src_t;
typedef DST dst_t;
typedef tile_params<SCALED ? 3 : 2, DIMS> tile_call;

constexpr int S = sizeof(src_t), D = sizeof(dst_t);
constexpr bool IS_SHIFTED = LOAD == 0, IS_FUNNELLED = STORE == 0;
constexpr int UNIT = 8, SECTOR = 32;  // bytes of a funnelled store, and of memory's sectors
constexpr int STEP_ROWS = TILE_ROWS - (IS_FUNNELLED ? SECTOR / D : 0);
constexpr int C = IS_SHIFTED ? 4 / S : LOAD;        // columns of a square
constexpr int R = D == 1 && C == 16 ? 8 : 16 / D;   // rows of a square: one chunk, or half of one
constexpr int SQUARES_X = TILE_COLUMNS / C, SQUARES_Y = TILE_ROWS / R;
constexpr int EACH = SQUARES_X * SQUARES_Y / BLOCK;
// Squares whose loads are in flight together: at most 32 registers.
constexpr int MOST_FLIGHT = at_most(EACH, at_least(1, 32 / (R * ((C * S + 3) / 4 + IS_SHIFTED))));
constexpr int CHUNKS = TILE_ROWS * D / 16;  // of a column
// The limit of registers. It is 64 for squares of 128 bytes and for stores of less than a word, so
// that 1024 threads fit on a multiprocessor. 0: ptxas decides.
constexpr int BLOCKS =
    IS_FUNNELLED || (D == 1 && STORE == 1 && LOAD == 4) || R * C * (S > D ? S : D) == 128
        ? 1024 / BLOCK : 0;
static_assert(SQUARES_X * SQUARES_Y % BLOCK == 0 && EACH % MOST_FLIGHT == 0 && CHUNKS >= 8, "");

typedef vec<src_t, C> loaded_t;
typedef vec<dst_t, C> row_t;
typedef vec<dst_t, R> column_t;
typedef vec<dst_t, at_least(STORE, 1)> stored_t;

struct place {
  const char* src;
  char* dst;
  u32 rows, columns;  // remaining rows or columns
  u32 channel;
  bool is_first;  // no tile is above
};

// square: column / C, which may be a compile-time constant although the column is not.
DEVICE u32 shared_at(u32 column, u32 square, u32 byte) {
  return column * (CHUNKS * 16) + (byte ^ (square & 7) * 16);
}

DEVICE loaded_t load_row(const char* address) {
  if constexpr (IS_SHIFTED) {
    // The second word may be outside of the source. `is_whole` means that it is inside.
    const u64 at = (u64)address;
    const char* word = (const char*)(at & ~(u64)3);
    const vec<u32, 1> low = load_source<vec<u32, 1>>(word);
    const vec<u32, 1> high = load_source<vec<u32, 1>>(word + 4);
    loaded_t shifted;
    shifted.word[0] = __funnelshift_r(low.word[0], high.word[0], (u32)at << 3);
    return shifted;
  } else {
    return load_source<loaded_t>(address);
  }
}

// The same, if one more byte might be outside of the source.
DEVICE loaded_t load_exactly(const char* address) {
  if constexpr (IS_SHIFTED) {
    return assembled<src_t, C>(
        [&](int i) { return load_source<vec<src_t, 1>>(address + i * S).at(0); });
  } else {
    return load_source<loaded_t>(address);
  }
}

template <int N> DEVICE vec<dst_t, N> result(const tile_call& p, const place& at,
                                             const vec<src_t, N>& x, u32 row, u32 column) {
#if SCALED
  const u32 channel = at.channel + (SCALED == BY_ROW ? row * (u32)p.channel_step : 0) +
                      (SCALED == BY_COLUMN ? column * (u32)p.channel_step : 0);
  const u32 step = SCALED == BY_COLUMN ? (u32)p.channel_step : 0;
  return assembled<dst_t, N>([&](int i) {
    const u32 c = channel + i * step;
    return part_of(scaled<dst_t>(value_of(x.at(i)), p.by.scale_of(c), p.by.bias_of(c)));
  });
#else
  return converted<dst_t>(x);
#endif
}

template <bool WHOLE> DEVICE void fill(const tile_call& p, const place& at, char* tile) {
  constexpr int FLIGHT = WHOLE ? MOST_FLIGHT : 1;  // an edge needs its own registers
  constexpr bool STAYS = BLOCK % SQUARES_X == 0;  // a thread's columns are the same in each square
  const u32 first_column = threadIdx.x % SQUARES_X * C, first_row = threadIdx.x / SQUARES_X * R;
  const char* begin = at.src + first_row * p.src_pitch +
                      (C == 1 ? first_column * p.src_step : first_column * S);
#pragma unroll(WHOLE ? (EDGES && C == 1 ? 2 : EACH) : 1)
  for (int batch = 0; batch < EACH; batch += FLIGHT) {
    loaded_t loaded[FLIGHT][R];
    u32 column[FLIGHT], row[FLIGHT];
#pragma unroll
    for (int k = 0; k < FLIGHT; ++k) {
      const u32 square = threadIdx.x + (batch + k) * BLOCK;
      column[k] = STAYS ? first_column : square % SQUARES_X * C;
      row[k] = STAYS ? first_row + (batch + k) * (BLOCK / SQUARES_X * R) : square / SQUARES_X * R;
      const char* from = begin;
      if (!STAYS) {
        from = at.src + row[k] * p.src_pitch + (C == 1 ? column[k] * p.src_step : column[k] * S);
      }
#pragma unroll
      for (int j = 0; j < R; ++j, from += p.src_pitch) {
        if (WHOLE) {
          loaded[k][j] = load_row(from);
        } else if (row[k] + j < at.rows && column[k] + C <= at.columns) {
          loaded[k][j] = load_exactly(from);
        } else {
          loaded[k][j] = loaded_t{};
        }
      }
      if (EACH > 1) begin += BLOCK / SQUARES_X * R * p.src_pitch;
    }
#pragma unroll
    for (int k = 0; k < FLIGHT; ++k) {
      row_t rows[R];
#pragma unroll
      for (int j = 0; j < R; ++j) rows[j] = result<C>(p, at, loaded[k][j], row[k] + j, column[k]);
      column_t columns[C];
      // The columns of a square have equal distances.
      char* to = tile + shared_at(column[k], column[k] / C, row[k] * D);
      transpose<dst_t, R, C>(rows, columns);
      if (WHOLE || column[k] + C <= at.columns) {
#pragma unroll
        for (int c = 0; c < C; ++c) store_vector(to + c * CHUNKS * 16, columns[c]);
      } else if (C > 1) {
        // The square at the end of the columns: one column at a time, all rows at once.
#pragma unroll 1
        for (u32 x = column[k]; x < at.columns; ++x) {
          vec<src_t, 1> one[R];
          const char* from = at.src + row[k] * p.src_pitch + (u64)x * S;
#pragma unroll
          for (u32 j = 0; j < R; ++j, from += p.src_pitch) {
            one[j] = vec<src_t, 1>{};
            if (row[k] + j < at.rows) one[j] = load_source<vec<src_t, 1>>(from);
          }
          const auto column_of = assembled<dst_t, R>(
              [&](u32 j) { return result<1>(p, at, one[j], row[k] + j, x).at(0); });
          store_vector(tile + shared_at(x, x / C, row[k] * D), column_of);
        }
      }
    }
  }
}

template <bool WHOLE> DEVICE void drain(const tile_call& p, const place& at, const char* tile) {
  constexpr int PARTS = TILE_ROWS / at_least(STORE, 1), ROUNDS = TILE_COLUMNS * PARTS / BLOCK;
  constexpr bool STAYS = BLOCK % PARTS == 0;  // a thread keeps its row and only changes its column
  constexpr int STEP = STAYS ? BLOCK / PARTS : 1;
  constexpr bool SHARES = STAYS && C % STEP == 0;  // all threads are in one column of squares
  const u32 first_row = threadIdx.x % PARTS * STORE, first_column = threadIdx.x / PARTS;
  char* begin = at.dst + first_column * p.dst_pitch +
                (STORE == 1 ? first_row * p.dst_step : first_row * D);
#pragma unroll(EDGES ? at_most(ROUNDS, 4) : ROUNDS)  // four squares need few registers
  for (int i = 0; i < ROUNDS; ++i, begin += STEP * p.dst_pitch) {
    const u32 o = threadIdx.x + i * BLOCK;
    const u32 column = STAYS ? first_column + i * STEP : o / PARTS;
    const u32 row = STAYS ? first_row : o % PARTS * STORE;
    char* to = begin;
    if (!STAYS) to = at.dst + column * p.dst_pitch + (STORE == 1 ? row * p.dst_step : row * D);
    const char* from = tile + shared_at(column, SHARES ? i * STEP / C : column / C, row * D);
    if (WHOLE || (column < at.columns && row + STORE <= at.rows)) {
      store_vector(to, load_vector<stored_t>(from));
    } else if (STORE > 1 && column < at.columns) {
#pragma unroll 1
      for (u32 k = 0; k < STORE; ++k) {
        if (row + k < at.rows) store_vector(to + k * D, load_vector<vec<dst_t, 1>>(from + k * D));
      }
    }
  }
}

// The square of column `first + i * STEP`; `first` is below STEP.
template <int STEP> DEVICE u32 square_of(u32 first, int i) {
  return C % STEP == 0 ? i * STEP / C : STEP % C == 0 ? first / C + i * (STEP / C)
                                                      : (first + i * STEP) / C;
}

// Columns of dst as whole sectors: a tile stores STEP_ROWS rows of a column, from the first row
// that begins a sector. The first tile also stores the bytes before it, and the last tile the
// remaining bytes.
struct span {
  i32 lead;        // bytes of the tile's column before the first sector
  i32 begin, end;  // stored bytes of the column
};

template <bool WHOLE> DEVICE span span_of(const place& at, const char* column) {
  span found;
  found.lead = -(u32)(u64)column % SECTOR;
  found.begin = WHOLE || !at.is_first ? found.lead : 0;
  found.end = found.lead + STEP_ROWS * D;
  if (!WHOLE && at.rows < TILE_ROWS) found.end = at_most(found.end, at.rows * D);
  return found;
}

template <bool WHOLE>
DEVICE void drain_sectors(const tile_call& p, const place& at, const char* tile) {
  constexpr int UNITS = TILE_ROWS * D / UNIT, STEP = BLOCK / UNITS, ROUNDS = TILE_COLUMNS / STEP;
  static_assert(BLOCK % UNITS == 0 && STEP <= TILE_COLUMNS, "");
  typedef vec<u32, UNIT / 4> unit_t;
  const u32 unit = threadIdx.x % UNITS, first = threadIdx.x / UNITS;
  if (unit * UNIT >= STEP_ROWS * D) return;
  char* to = at.dst + first * p.dst_pitch;
#pragma unroll(EDGES ? at_most(ROUNDS, 2) : ROUNDS)
  for (int i = 0; i < ROUNDS; ++i, to += STEP * p.dst_pitch) {
    const u32 column = first + i * STEP, square = square_of<STEP>(first, i);
    const span of = span_of<WHOLE>(at, to);
    const u32 byte = of.lead + unit * UNIT, at_low = byte / UNIT * UNIT;
    if (WHOLE || (column < at.columns && (i32)byte + UNIT <= of.end)) {
      const unit_t low = load_vector<unit_t>(tile + shared_at(column, square, at_low));
      const u32 at_high = at_low + UNIT < TILE_ROWS * D ? at_low + UNIT : at_low;
      const unit_t high = load_vector<unit_t>(tile + shared_at(column, square, at_high));
      store_vector(to + byte, funnelled(low, high, byte % UNIT));
    }
  }
}

// Stores the elements that `drain_sectors` skips in the columns of the first and the last tiles.
DEVICE void drain_edges(const tile_call& p, const place& at, const char* tile) {
  constexpr u32 EDGE = (SECTOR + UNIT) / D;  // elements of a column, at most
#pragma unroll 1
  for (u32 o = threadIdx.x; o < TILE_COLUMNS * EDGE; o += BLOCK) {
    const u32 column = o / EDGE;
    char* to = at.dst + column * p.dst_pitch;
    const span of = span_of<false>(at, to);
    const i32 units = of.end > of.lead ? (of.end - of.lead) / UNIT * UNIT : 0;
    i32 byte = o % EDGE * D;
    if (byte >= SECTOR) byte += of.lead + units - SECTOR;
    else if (byte >= of.lead) byte = of.end;
    if (column < at.columns && byte >= of.begin && byte < of.end) {
      const char* from = tile + shared_at(column, column / C, byte);
      store_vector(to + byte, load_vector<vec<dst_t, 1>>(from));
    }
  }
}

template <bool WHOLE> DEVICE void store(const tile_call& p, const place& at, const char* tile) {
  if constexpr (IS_FUNNELLED) {
    drain_sectors<WHOLE>(p, at, tile);
    if (!WHOLE) drain_edges(p, at, tile);
  } else {
    drain<WHOLE>(p, at, tile);
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS)
copy_tile(const __grid_constant__ tile_call p) {
  __shared__ uint4 shared[TILE_COLUMNS * CHUNKS];
  const u32 batch = quotient_of(blockIdx.x, p.tiles);
  u32 rest = blockIdx.x - batch * p.tiles.size;
  // Concurrent blocks cover a rectangle of tiles instead of a row, so that they use fewer pages.
  const u32 group = quotient_of(rest, p.group);
  rest -= group * p.group.size;
  const bool is_last = (group + 1) * GROUP > p.column_tiles;
  const u32 tile_row = is_last ? quotient_of(rest, p.last_width) : rest / GROUP;
  const u32 tile_column = group * GROUP + rest - tile_row * (is_last ? p.last_width.size : GROUP);
  const u32 row = tile_row * STEP_ROWS, column = tile_column * TILE_COLUMNS;

  i64 offset[SCALED ? 3 : 2] = {};
  add_outer(p.outer, batch, offset);
  place at;
  at.src = p.data[1] + offset[1] + row * p.src_pitch + column * p.src_step;
  at.dst = p.data[0] + offset[0] + column * p.dst_pitch + row * p.dst_step;
  at.rows = p.rows - row, at.columns = p.columns - column, at.is_first = tile_row == 0;
#if SCALED
  at.channel = p.first_channel + (u32)offset[2];
  if (SCALED == BY_ROW) at.channel += row * (u32)p.channel_step;
  if (SCALED == BY_COLUMN) at.channel += column * (u32)p.channel_step;
#endif
  bool is_whole = at.rows >= TILE_ROWS && at.columns >= TILE_COLUMNS;
  if (IS_FUNNELLED) is_whole = is_whole && !at.is_first;
  if (IS_SHIFTED) {
    const u64 last = (u64)at.src + (TILE_ROWS - 1) * p.src_pitch + TILE_COLUMNS * S;
    is_whole = is_whole && (last & ~(u64)3) + 4 <= (u64)p.data[1] + p.src_end;
  }
  char* tile = (char*)shared;
  if (INSIDE(is_whole)) {
    fill<true>(p, at, tile);
  } else {
    fill<false>(p, at, tile);
  }
  __syncthreads();
  if (INSIDE(is_whole)) {
    store<true>(p, at, tile);
  } else {
    store<false>(p, at, tile);
  }
}
