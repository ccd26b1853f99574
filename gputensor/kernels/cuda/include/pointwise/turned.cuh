// Pointwise kernels with an operand that is dense across the rows of out. It is staged through
// shared memory, so that it and out are accessed by whole sectors.
//
// A block processes a tile of 16 x 16 squares of `unit` x `unit` elements. out is dense along x,
// and staged operands along y. A thread loads a square of each staged operand and `unit` units of
// the other operands, all before the first use. It transposes the square in registers and stores
// its columns as 16-byte cells. Cell c of column y is stored at c ^ (y / unit & 7), so there are no
// bank conflicts on either side and no padding (tests/cuda/compile/test_pointwise_compile.py).
// Elements narrower than a cell's share of 16 bytes are widened.
#if !defined(GPUTENSOR_TURNED) && !defined(GPUTENSOR_LOOPS)
#define GPUTENSOR_TURNED

#include "pointwise/operands.cuh"

constexpr u32 SQUARES = 16;  // squares along each side of a tile: one for each of 256 threads

// pointwise_plan.py packs this struct. Strides are bytes.
template <int OPERANDS, int VALUES, int MAX_DIMS> struct turned_params {
  char* data[OPERANDS];
  value_slot value[VALUES];
  i64 x_stride[OPERANDS], y_stride[OPERANDS];
  u32 xs, ys;  // extents
  divider tiles_x, tiles;  // number of tiles side by side; number in one batch
  outer_dims<OPERANDS, MAX_DIMS> outer;
};

// The position of cell `cell` of column y, in cells.
template <int V> DEVICE u32 cell_at(u32 y, u32 cell) {
  return y * SQUARES + (cell ^ ((y / V) & 7));
}

// Convert an element to a word of a cell, and back.
template <class W, class T> DEVICE W boxed(T x) {
  const auto word = bits_as<typename word_of<sizeof(T)>::type>(x);
  if constexpr (sizeof(T) == sizeof(W)) {
    return word;
  } else if constexpr (sizeof(W) == 16) {
    return W{(u64)word, 0};
  } else {
    return (W)word;
  }
}

template <class T, class W> DEVICE T unboxed(W word) {
  typedef typename word_of<sizeof(T)>::type own;
  if constexpr (sizeof(T) == sizeof(W)) {
    return bits_as<T>(word);
  } else if constexpr (sizeof(W) == 16) {
    return bits_as<T>((own)word.low);
  } else {
    return bits_as<T>((own)word);
  }
}

// Load input J of a thread of a tile. put, staged: only for operands that turn.
template <class O, int J, bool TURNS_HERE = (O::kind(J) == TURNS)> struct tile_input {
  static constexpr int V = O::unit;
  input_units<O, J, V, V> units;
  template <class P> DEVICE void load(const P& p, const char* at) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const u32 o = threadIdx.x + k * SQUARES * SQUARES;
      units.load(k, at + o / SQUARES * p.y_stride[J] + (i64)(o % SQUARES * V) * p.x_stride[J],
                 p.x_stride[J]);
    }
  }
  DEVICE void put(uint4*) {}
  DEVICE void ready(int, const uint4*, u32) {}
  template <class B> DEVICE auto get(const B& body, int k, int i) const {
    return units.get(body, k, i);
  }
  template <class P> DEVICE void put_one(const P&, const char*, uint4*, u32, u32) {}
  // The element at (x, y) of the tile, for edges.
  template <class P, class B>
  DEVICE auto one(const P& p, const B& body, const char* at, const uint4*, u32 x, u32 y) {
    input_units<O, J, 1, 1> unit;
    unit.load(0, at + (i64)x * p.x_stride[J] + (i64)y * p.y_stride[J], 0);
    return unit.get(body, 0, 0);
  }
};

template <class O, int J> struct tile_input<O, J, true> {
  static constexpr int V = O::unit;
  typedef typename O::template type<J> T;
  typedef typename word_of<16 / V>::type word;
  vec<T, V> rows[V];
  vec<word, V> cell;

  template <class P> DEVICE void load(const P& p, const char* at) {
    const char* from = at + (i64)(threadIdx.x / SQUARES * V) * p.x_stride[J] +
                       threadIdx.x % SQUARES * (V * sizeof(T));
#pragma unroll
    for (int r = 0; r < V; ++r) {
      rows[r] = load_unit<T, V, O::width(J)>(from + r * p.x_stride[J]);
    }
  }
  DEVICE void put(uint4* shared) {
    vec<T, V> columns[V];
    transpose<T, V, V>(rows, columns);
#pragma unroll
    for (int c = 0; c < V; ++c) {
      const auto widened = assembled<word, V>(
          [&](int i) { return part_of(boxed<word>(value_of(columns[c].at(i)))); });
      const u32 y = threadIdx.x % SQUARES * V + c;
      store_vector((char*)(shared + cell_at<V>(y, threadIdx.x / SQUARES)), widened);
    }
  }
  DEVICE void ready(int, const uint4* shared, u32 o) {
    cell = load_vector<vec<word, V>>((const char*)(shared + cell_at<V>(o / SQUARES, o % SQUARES)));
  }
  template <class B> DEVICE auto get(const B& body, int, int i) const {
    return body.template read<J>(unboxed<T>(value_of(cell.at(i))));
  }
  template <class P> DEVICE void put_one(const P& p, const char* at, uint4* shared, u32 x, u32 y) {
    const auto found =
        load_vector<vec<T, 1>>(at + (i64)x * p.x_stride[J] + (i64)y * p.y_stride[J]);
    ((word*)(shared + cell_at<V>(y, x / V)))[x % V] = boxed<word>(value_of(found.at(0)));
  }
  template <class P, class B>
  DEVICE auto one(const P&, const B& body, const char*, const uint4* shared, u32 x, u32 y) {
    const word found = ((const word*)(shared + cell_at<V>(y, x / V)))[x % V];
    return body.template read<J>(unboxed<T>(found));
  }
};

// The number of staged operands before this one.
template <class O> DEVICE constexpr int staged_before(int j) {
  int found = 0;
  for (int k = O::outputs; k < j && k < O::count; ++k) found += O::kind(k) == TURNS;
  return found;
}

// Load input J and the following ones, staged one after another from `shared` on.
template <class O, int J = O::outputs, bool IS_THERE = (J < O::count)> struct tile_inputs {
  static constexpr int STAGE = staged_before<O>(J) * (int)(SQUARES * SQUARES) * O::unit;
  tile_input<O, J> first;
  tile_inputs<O, J + 1> rest;

  template <class P> DEVICE void load(const P& p, char* const (&at)[O::count]) {
    first.load(p, at[J]);
    rest.load(p, at);
  }
  DEVICE void put(uint4* shared) {
    first.put(shared + STAGE);
    rest.put(shared);
  }
  DEVICE void ready(int k, const uint4* shared, u32 o) {
    first.ready(k, shared + STAGE, o);
    rest.ready(k, shared, o);
  }
  template <class P>
  DEVICE void put_one(const P& p, char* const (&at)[O::count], uint4* shared, u32 x, u32 y) {
    first.put_one(p, at[J], shared + STAGE, x, y);
    rest.put_one(p, at, shared, x, y);
  }
  template <class B, class... X> DEVICE auto made(const B& body, int k, int i, X... x) const {
    return rest.made(body, k, i, x..., first.get(body, k, i));
  }
  template <class P, class B, class... X>
  DEVICE auto one(const P& p, const B& body, char* const (&at)[O::count], const uint4* shared,
                  u32 x, u32 y, X... before) {
    return rest.one(p, body, at, shared, x, y, before...,
                    first.one(p, body, at[J], shared + STAGE, x, y));
  }
};

template <class O, int J> struct tile_inputs<O, J, false> {
  template <class P> DEVICE void load(const P&, char* const (&)[O::count]) {}
  DEVICE void put(uint4*) {}
  DEVICE void ready(int, const uint4*, u32) {}
  template <class P>
  DEVICE void put_one(const P&, char* const (&)[O::count], uint4*, u32, u32) {}
  template <class B, class... X> DEVICE auto made(const B& body, int, int, X... x) const {
    return body.of(x...);
  }
  template <class P, class B, class... X>
  DEVICE auto one(const P&, const B& body, char* const (&)[O::count], const uint4*, u32, u32,
                  X... x) {
    return body.of(x...);
  }
};

template <class O, int J = 0, class P, class R>
DEVICE void store_one_of_each(const P& p, char* const (&at)[O::count], u32 x, u32 y,
                              const R& made) {
  if constexpr (J < O::outputs) {
    typedef typename O::template type<J> T;
    *(T*)(at[J] + y * p.y_stride[J] + x * sizeof(T)) = output_of<O, J>(made);
    store_one_of_each<O, J + 1>(p, at, x, y, made);
  }
}

// Shared memory of a block, in units of 16 bytes.
template <class O>
constexpr int TILE_CELLS =
    at_least(1, staged_before<O>(O::count)) * (int)(SQUARES * SQUARES) * O::unit;

template <class O, class P, class B>
DEVICE void walk_tiles(const P& p, const B& body, uint4* shared) {
  constexpr int N = O::count, V = O::unit;
  constexpr u32 TILE = SQUARES * V, THREADS_OF_TILE = SQUARES * SQUARES;

  const u32 batch = quotient_of(blockIdx.x, p.tiles);
  const u32 rest = blockIdx.x - batch * p.tiles.size;
  const u32 tile_y = quotient_of(rest, p.tiles_x);
  const u32 x0 = (rest - tile_y * p.tiles_x.size) * TILE, y0 = tile_y * TILE;
  i64 offset[N] = {};
  add_outer(p.outer, batch, offset);
  char* at[N];
#pragma unroll
  for (int j = 0; j < N; ++j) {
    at[j] = p.data[j] + offset[j] + x0 * p.x_stride[j] + y0 * p.y_stride[j];
  }
  const u32 xs = p.xs - x0, ys = p.ys - y0;
  const bool is_whole = !O::has_edges || (xs >= TILE && ys >= TILE);

  tile_inputs<O> inputs;
  if (is_whole) {
    inputs.load(p, at);
    __syncwarp();  // prevents ptxas from moving loads after the first store, which waits
    inputs.put(shared);
  } else {
#pragma unroll 4
    for (u32 e = threadIdx.x; e < TILE * TILE; e += THREADS_OF_TILE) {
      const u32 x = e / TILE, y = e % TILE;
      if (x < xs && y < ys) inputs.put_one(p, at, shared, x, y);
    }
  }
  __syncthreads();
  if (is_whole) {
#pragma unroll
    for (int k = 0; k < V; ++k) {
      const u32 o = threadIdx.x + k * THREADS_OF_TILE;
      inputs.ready(k, shared, o);
      const auto address = [&](int j, int size) {
        return at[j] + o / SQUARES * p.y_stride[j] + o % SQUARES * (V * size);
      };
      store_outputs<O, V>(address, [&](int i) { return inputs.made(body, k, i); });
    }
  } else {
#pragma unroll 4
    for (u32 e = threadIdx.x; e < TILE * TILE; e += THREADS_OF_TILE) {
      const u32 x = e % TILE, y = e / TILE;
      if (x < xs && y < ys) {
        store_one_of_each<O>(p, at, x, y, inputs.one(p, body, at, shared, x, y));
      }
    }
  }
}

#endif
