// dst = src if a run of either side needs several dimensions                          family: copy
// Shapes   any. A tile is a box whose elements are runs of `run_in` in src and of `run_out` in dst.
//          A run has whole dimensions, except for a chunk of its last dimension.
// Types    SRC to DST, cast on the way; equal types move words.
// Launch   a block copies `per_block` tiles, one after another, so that offsets are computed once.
//          shared = two tiles, padded, dynamic; it first contains tables of offsets.
// Design   a tile in shared memory has src's order. Accesses of LOAD elements fill it; accesses of
//          STORE elements gather from it, at offsets in registers. The next tile's loads are in
//          flight while a tile is stored: two buffers, one barrier per tile. The order of a tile in
//          src: (in run_in, in rows_in); in dst: (in run_out, in rows_out). The missing elements of
//          a chunk at an end are a suffix in each of the four.
// Source   Hynninen and Lyakh, cuTT (2017), for tiles of several dimensions.
#include "copying.cuh"

// A dimension inside a tile: the increments of one step.
struct inner_dim {
  divider by;
  u32 offset;    // in src or dst, bytes
  u32 position;  // in the tile, elements
};

// full, or shorter at the last chunk of dst's or src's run
struct limit {
  u32 full, per_dst_chunk, per_src_chunk;

  DEVICE u32 of(u32 dst_chunk, u32 src_chunk) const {
    return full + per_dst_chunk * dst_chunk + per_src_chunk * src_chunk;
  }
};

constexpr int INNER_DIMS = 8;

template <int MAX_DIMS> struct pack_params {
  char* data[2];
  u32 tiles, per_block;
  u32 volume, buffer_bytes;     // elements of a tile, at most EACH * BLOCK; the same with padding
  divider run_in, run_out;
  u32 rows_in, rows_out;
  u32 run_table;  // entries of the table for a run of dst; 0 if the table does not fit
  u32 src_bias;                 // added to offsets in src, so that they are not negative
  u32 pad_shift, pad;           // every 2^pad_shift elements of a tile are followed by `pad` more
  u32 extent[2], chunk[2];  // the cut dimensions: the last dimension of dst's run and of src's run
  limit in_run, in_rows, out_run, out_rows;
  i32 n_rows_in, n_run_out, n_rows_out, unused;
  inner_dim rows_in_dim[INNER_DIMS], run_out_dim[INNER_DIMS], rows_out_dim[INNER_DIMS];
  outer_dims<2, MAX_DIMS> outer;  // the first two are the cut dimensions
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
#ifndef EACH
#define EACH 8  // elements of a thread
#endif
#ifndef BLOCK
#define BLOCK 256
#endif
#ifndef DIMS
#define DIMS 6
#endif
#ifndef EDGES
#define EDGES 1
#endif
typedef SRC src_t;
typedef DST dst_t;
typedef pack_params<DIMS> pack_call;
typedef vec<src_t, LOAD> loaded_t;
typedef vec<dst_t, STORE> stored_t;

constexpr u32 S = sizeof(src_t), D = sizeof(dst_t);
constexpr int LOADS = EACH / LOAD, STORES = EACH / STORE;

// The tables of offsets. They use the memory of the first tiles.
struct tables {
  u32* rows_in;    // byte offset in src
  u32* rows_out;   // byte offset in dst
  u32* placed_out; // position of a row of dst in the tile
  u32* placed_run; // and of an element of a run of dst

  DEVICE tables(const pack_call& p, char* shared) {
    rows_in = (u32*)shared;
    rows_out = rows_in + p.rows_in;
    placed_out = rows_out + p.rows_out;
    placed_run = placed_out + p.rows_out;
  }
};

struct step {
  u32 offset;
  u32 position;
};

DEVICE step step_to(const inner_dim (&dims)[INNER_DIMS], i32 ndim, u32 index) {
  step sum = {0, 0};
#pragma unroll 1
  for (i32 d = 0; d < ndim; ++d) {
    const u32 rest = d + 1 < ndim ? quotient_of(index, dims[d].by) : 0;
    const u32 coordinate = index - rest * dims[d].by.size;
    sum.offset += coordinate * dims[d].offset;
    sum.position += coordinate * dims[d].position;
    index = rest;
  }
  return sum;
}

DEVICE void fill_tables(const pack_call& p, const tables& to) {
  for (u32 i = threadIdx.x; i < p.rows_in; i += BLOCK) {
    to.rows_in[i] = p.src_bias + step_to(p.rows_in_dim, p.n_rows_in, i).offset;
  }
  for (u32 i = threadIdx.x; i < p.rows_out; i += BLOCK) {
    const step found = step_to(p.rows_out_dim, p.n_rows_out, i);
    to.rows_out[i] = found.offset, to.placed_out[i] = found.position;
  }
  for (u32 i = threadIdx.x; i < p.run_table; i += BLOCK) {
    to.placed_run[i] = step_to(p.run_out_dim, p.n_run_out, i).position;
  }
}

DEVICE u32 padded(const pack_call& p, u32 element) {
  return element + (element >> p.pad_shift) * p.pad;
}

// The position of a tile, and its size.
struct place {
  const char* src;
  char* dst;
  u32 in_run, in_rows, out_run, out_rows;
  bool is_whole;
};

DEVICE place place_of(const pack_call& p, u32 tile) {
  place at;
  i64 offset[2] = {};
  u32 left[2];
#pragma unroll
  for (int d = 0; d < 2; ++d) {
    const u32 rest = quotient_of(tile, p.outer.dim[d].by);
    const u32 coordinate = tile - rest * p.outer.dim[d].by.size;
    offset[0] += coordinate * p.outer.dim[d].stride_bytes[0];
    offset[1] += coordinate * p.outer.dim[d].stride_bytes[1];
    left[d] = p.extent[d] - coordinate * p.chunk[d];
    left[d] = left[d] < p.chunk[d] ? left[d] : p.chunk[d];
    tile = rest;
  }
#pragma unroll
  for (int d = 2; d < DIMS; ++d) {
    if (d >= p.outer.ndim) break;
    u32 coordinate = tile;
    if (d + 1 < p.outer.ndim) {
      tile = quotient_of(coordinate, p.outer.dim[d].by);
      coordinate -= tile * p.outer.dim[d].by.size;
    }
    offset[0] += coordinate * p.outer.dim[d].stride_bytes[0];
    offset[1] += coordinate * p.outer.dim[d].stride_bytes[1];
  }
  at.dst = p.data[0] + offset[0];
  at.src = p.data[1] + offset[1];
  at.is_whole = INSIDE(left[0] == p.chunk[0] && left[1] == p.chunk[1]);
  at.in_run = p.in_run.of(left[0], left[1]), at.in_rows = p.in_rows.of(left[0], left[1]);
  at.out_run = p.out_run.of(left[0], left[1]), at.out_rows = p.out_rows.of(left[0], left[1]);
  return at;
}

DEVICE void load_tile(const pack_call& p, const place& at, const u32 (&offset)[LOADS],
                      loaded_t (&loaded)[LOADS]) {
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    bool exists = true;
    if (!at.is_whole) {
      const u32 e = (threadIdx.x + i * BLOCK) * LOAD, row = quotient_of(e, p.run_in);
      exists = row < at.in_rows && e - row * p.run_in.size < at.in_run;
    }
    loaded[i] = loaded_t{};
    if (exists) loaded[i] = load_source<loaded_t>(at.src + offset[i]);
  }
}

DEVICE void store_tile(const pack_call& p, const place& at, const char* tile,
                       const u32 (&offset)[STORES], const u32 (&from)[EACH]) {
#pragma unroll
  for (int i = 0; i < STORES; ++i) {
    const u32 f = (threadIdx.x + i * BLOCK) * STORE;
    bool exists = f < p.volume;
    if (!at.is_whole) {
      const u32 row = quotient_of(f, p.run_out);
      exists = exists && row < at.out_rows && f - row * p.run_out.size < at.out_run;
    }
    if (!exists) continue;
    vec<dst_t, 1> one[STORE];
#pragma unroll
    for (int j = 0; j < STORE; ++j) one[j] = load_vector<vec<dst_t, 1>>(tile + from[i * STORE + j]);
    store_vector(at.dst + offset[i], assembled<dst_t, STORE>([&](int j) { return one[j].at(0); }));
  }
}

extern "C" __global__ void __launch_bounds__(BLOCK) copy_pack(const __grid_constant__ pack_call p) {
  extern __shared__ uint4 shared[];
  char* tile = (char*)shared;
  const tables of(p, tile);
  fill_tables(p, of);
  __syncthreads();
  u32 src_offset[LOADS], dst_offset[STORES];
  u32 from[EACH];
#pragma unroll
  for (int i = 0; i < LOADS; ++i) {
    // Excess accesses of a thread repeat the tile's first vector.
    const u32 at = (threadIdx.x + i * BLOCK) * LOAD, e = at < p.volume ? at : 0;
    const u32 row = quotient_of(e, p.run_in);
    src_offset[i] = of.rows_in[row] + (e - row * p.run_in.size) * S;
  }
#pragma unroll
  for (int i = 0; i < STORES; ++i) {
    const u32 at = (threadIdx.x + i * BLOCK) * STORE, f = at < p.volume ? at : 0;
    const u32 row = quotient_of(f, p.run_out), along = f - row * p.run_out.size;
    dst_offset[i] = of.rows_out[row] + along * D;
#pragma unroll
    for (int j = 0; j < STORE; ++j) {
      const u32 placed = INSIDE(p.run_table) ? of.placed_run[along + j]
                                     : step_to(p.run_out_dim, p.n_run_out, along + j).position;
      from[i * STORE + j] = padded(p, of.placed_out[row] + placed) * D;
    }
  }
  const u32 to = padded(p, threadIdx.x * LOAD) * D, to_step = padded(p, BLOCK * LOAD) * D;
  __syncthreads();

  u32 number = blockIdx.x * p.per_block;
  const u32 end = number + p.per_block < p.tiles ? number + p.per_block : p.tiles;
  place at = place_of(p, number);
  loaded_t loaded[LOADS];
  load_tile(p, at, src_offset, loaded);
  u32 buffer = 0;
#pragma unroll 1
  for (;;) {
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
      store_vector(tile + buffer + to + i * to_step, converted<dst_t>(loaded[i]));
    }
    const place here = at;
    const bool is_more = ++number < end;
    if (is_more) {
      at = place_of(p, number);
      load_tile(p, at, src_offset, loaded);
    }
    __syncthreads();
    store_tile(p, here, tile + buffer, dst_offset, from);
    if (!is_more) break;
    buffer = p.buffer_bytes - buffer;
  }
}
