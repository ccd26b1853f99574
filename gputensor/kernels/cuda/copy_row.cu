// dst = src if both are dense along one dimension                                     family: copy
// Shapes   rows of `elements`, dense in dst; in src dense (STEP 1), dense backwards (-1) or one
//          repeated element (0). Outer dimensions have any strides; one with src stride 0 may be
//          the dimension `repeats`. Strides in bytes.
// Types    SRC to DST, cast on the way; equal types move words.
// Launch   LONG: one block per piece of a row; otherwise threads are numbered over the units of all
//          rows. A unit has VECTOR elements; a thread has UNROLL units, blockDim.x apart.
// Design   all loads of a thread come before its first store. REPEAT: a unit is loaded once and
//          stored `per_block` times. SHIFTED: dst and src are misaligned to each other, and
//          elements are bytes. A unit is then 16 aligned bytes of dst, extracted from the two
//          aligned words of src that contain them. Such a row has one unit more than its bytes
//          fill, because its first and last units may be partial.
#include "copying.cuh"

template <int OPERANDS, int MAX_DIMS> struct row_params : copy_ends<OPERANDS == 3> {
  i64 src_begin, src_end;  // the bytes that may be read, from data[1] on
  u32 elements;            // of a row
  u32 units;               // of all rows
  divider row_units;       // units of one row, or of a piece of it if LONG
  u32 repeats, per_block;  // number of repeats, and of repeats stored by one block
  divider repeated;        // number of blocks that store the same repeats
  i64 repeat_stride;
  // channels from one element of a row to the next, if the copy scales
  u32 channel_step, first_channel;
  outer_dims<OPERANDS, MAX_DIMS> outer;
};

// ---- body ----
#ifndef SRC
#define SRC u32
#endif
#ifndef DST
#define DST SRC
#endif
#ifndef VECTOR
#define VECTOR 4
#endif
#ifndef STEP
#define STEP 1
#endif
#ifndef LONG
#define LONG 0
#endif
#ifndef SHIFTED
#define SHIFTED 0
#endif
#ifndef REPEAT
#define REPEAT 0
#endif
#ifndef SCALED
#define SCALED UNSCALED
#endif
#ifndef DIMS
#define DIMS 4
#endif
#ifndef EDGES
#define EDGES 1
#endif
typedef SRC src_t;
typedef DST dst_t;
typedef row_params<SCALED ? 3 : 2, DIMS> row_call;

constexpr int S = sizeof(src_t), D = sizeof(dst_t), V = VECTOR;
constexpr int UNROLL = STEP != 0 && V * S >= 16 ? 4 : 8;
constexpr u32 BLOCK = 256;
typedef vec<src_t, STEP ? V : 1> loaded_t;
typedef vec<dst_t, V> stored_t;

// One unit: its position and its size.
struct unit {
  const char* src;
  char* dst;
  u32 left;  // elements from here to the end of the row, if the unit exists
  bool exists;
  u32 channel;
};

DEVICE unit unit_at(const row_call& p, u32 row, u32 column) {
  i64 offset[SCALED ? 3 : 2] = {};
  add_outer(p.outer, row, offset);
  unit at;
  at.dst = p.data[0] + offset[0] + (u64)column * (V * D);
  at.src = p.data[1] + offset[1] + (i64)column * (V * S * STEP);
  at.left = p.elements - column * V, at.exists = true;
#if SCALED
  at.channel = p.first_channel + (u32)offset[2] + column * V * p.channel_step;
#endif
  return at;
}

template <int N> DEVICE vec<dst_t, N> result(const row_call& p, const unit& at,
                                             const vec<src_t, N>& x, u32 first) {
#if SCALED
  return assembled<dst_t, N>([&](int i) {
    const u32 c = at.channel + (SCALED == BY_ROW ? (first + i) * p.channel_step : 0);
    return part_of(scaled<dst_t>(value_of(x.at(i)), p.by.scale_of(c), p.by.bias_of(c)));
  });
#else
  return converted<dst_t>(x);
#endif
}

DEVICE loaded_t load_unit(const unit& at) {
#if STEP == -1
  const loaded_t backwards = load_source<loaded_t>(at.src - (V - 1) * S);
  return assembled<src_t, V>([&](int i) { return backwards.at(V - 1 - i); });
#else
  return load_source<loaded_t>(at.src);
#endif
}

DEVICE stored_t result_of(const row_call& p, const unit& at, const loaded_t& x) {
#if STEP == 0 && SCALED != BY_ROW
  const vec<dst_t, 1> one = result<1>(p, at, x, 0);
  return assembled<dst_t, V>([&](int) { return one.at(0); });
#elif STEP == 0
  return result<V>(p, at, assembled<src_t, V>([&](int) { return x.at(0); }), 0);
#else
  return result<V>(p, at, x, 0);
#endif
}

// A unit of this thread: number `u` of a row if LONG, otherwise of all rows.
DEVICE unit find_unit(const row_call& p, u32 row, u32 u) {
  const bool exists = u < p.units;
  if (!LONG) row = quotient_of(exists ? u : 0, p.row_units);
  unit at = unit_at(p, row, LONG ? u : exists ? u - row * p.row_units.size : 0);
  at.exists = exists;
  return at;
}

// This thread's first unit. The next units follow at distances of blockDim.x. row: for LONG.
DEVICE u32 first_unit(const row_call& p, u32 block, u32& row) {
  row = LONG ? quotient_of(block, p.row_units) : 0;
  return (block - row * p.row_units.size * LONG) * blockDim.x * UNROLL + threadIdx.x;
}

DEVICE void find_units(const row_call& p, u32 block, unit (&at)[UNROLL]) {
  u32 row;
  const u32 first = first_unit(p, block, row);
  at[0] = find_unit(p, row, first);
#pragma unroll
  for (int k = 1; k < UNROLL; ++k) {
    const u32 column = k * blockDim.x;
    if (LONG) {
      at[k].src = at[0].src + (i64)column * (V * S * STEP);
      at[k].dst = at[0].dst + column * (V * D);
      at[k].left = at[0].left - column * V, at[k].exists = first + column < p.units;
#if SCALED
      at[k].channel = at[0].channel + column * V * p.channel_step;
#endif
    } else {
      at[k] = find_unit(p, row, first + column);
    }
  }
}

#if SHIFTED
// Store bytes [begin, end) of sixteen, because dst has no others. Whole words are stored as words.
DEVICE void store_some(char* dst, const stored_t& x, i32 begin, i32 end) {
#pragma unroll
  for (i32 w = 0; w < 16; w += 4) {
    if (begin <= w && w + 4 <= end) {
      store_vector(dst + w, vec<u32, 1>{{x.word[w / 4]}});
    } else {
#pragma unroll
      for (i32 b = w; b < w + 4; ++b) {
        const auto one = assembled<u8, 1>([&](int) { return x.at(b); });
        if (begin <= b && b < end) store_vector(dst + b, one);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) copy_row(const __grid_constant__ row_call p) {
  unit at[UNROLL];
  find_units(p, blockIdx.x, at);
  const u64 first = (u64)(p.data[1] + p.src_begin), last = (u64)(p.data[1] + p.src_end) - 16;
  stored_t low[UNROLL], high[UNROLL];
  i32 begin[UNROLL], end[UNROLL];  // the part of the 16 bytes that is in the row
  bool is_readable[UNROLL];
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    const i32 skew = (u64)at[k].dst & 15, left = (i32)at[k].left + skew;
    begin[k] = at[k].left == p.elements ? skew : 0;
    end[k] = !at[k].exists ? 0 : left < 16 ? left : 16;
    at[k].dst -= skew, at[k].src -= skew;
    const char* from = at[k].src - ((u64)at[k].src & 15);
    const char* to = at[k].src + (-(u64)at[k].src & 15);
    is_readable[k] = begin[k] < end[k] && (u64)from >= first && (u64)to <= last;
    low[k] = high[k] = stored_t{};
    if (INSIDE(is_readable[k])) {
      low[k] = load_vector<stored_t>(from);
      high[k] = load_vector<stored_t>(to);
    }
  }
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    if (EDGES && begin[k] >= end[k]) continue;
    stored_t made;
    if (INSIDE(is_readable[k])) {
      made = funnelled(low[k], high[k], (u64)at[k].src & 15);
    } else {
      // At the ends of src: bytes of aligned words that are outside of src are not read.
      made = assembled<u8, 16>([&](int i) {
        const i32 b = at_most(at_least(i, begin[k]), end[k] - 1);
        return load_source<vec<u8, 1>>(at[k].src + b).at(0);
      });
    }
    if (INSIDE(end[k] - begin[k] == 16)) {
      store_vector(at[k].dst, made);
    } else {
      store_some(at[k].dst, made, begin[k], end[k]);
    }
  }
}
#else
// The end of a row whose length is not a multiple of VECTOR: four loads at a time, then their
// stores.
DEVICE void copy_end(const row_call& p, const unit& at, u32 repeat, u32 repeats) {
#pragma unroll 1
  for (u32 i = 0; i < at.left; i += 4) {
    vec<dst_t, 1> stored[4];
#pragma unroll
    for (u32 e = 0; e < 4; ++e) {
      const u32 wanted = i + e < at.left ? i + e : i;
      const char* from = at.src + (i64)wanted * (S * STEP);
      stored[e] = result<1>(p, at, load_source<vec<src_t, 1>>(from), wanted);
    }
    char* to = at.dst + repeat * p.repeat_stride + i * D;
#pragma unroll 1
    for (u32 r = 0; r < repeats; ++r, to += p.repeat_stride) {
#pragma unroll
      for (u32 e = 0; e < 4; ++e) {
        if (i + e < at.left) store_vector(to + e * D, stored[e]);
      }
    }
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) copy_row(const __grid_constant__ row_call p) {
  u32 block = blockIdx.x, repeat = 0, repeats = 1;
#if REPEAT
  const u32 part = quotient_of(block, p.repeated);
  block -= part * p.repeated.size;
  repeat = part * p.per_block;
  repeats = p.repeats - repeat < p.per_block ? p.repeats - repeat : p.per_block;
#endif
  unit at[UNROLL];
  find_units(p, block, at);
  loaded_t loaded[UNROLL];
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    loaded[k] = loaded_t{};
    if (INSIDE(at[k].exists && at[k].left >= V)) loaded[k] = load_unit(at[k]);
  }
  bool has_end = false;
#pragma unroll
  for (int k = 0; k < UNROLL; ++k) {
    if (!INSIDE(at[k].exists)) continue;
    if (INSIDE(at[k].left >= V)) {
      const stored_t stored = result_of(p, at[k], loaded[k]);
      char* to = at[k].dst + repeat * p.repeat_stride;
#pragma unroll 1
      for (u32 r = 0; r < repeats; ++r, to += p.repeat_stride) store_vector(to, stored);
    } else {
      has_end = true;
    }
  }
  if (!EDGES || V == 1 || !has_end) return;
  u32 row, number = first_unit(p, block, row);
#pragma unroll 1
  for (u32 k = 0; k < UNROLL; ++k, number += blockDim.x) {
    const unit end = find_unit(p, row, number);
    if (end.exists && end.left < V) copy_end(p, end, repeat, repeats);
  }
}
#endif
