// out[b] = the sum, the mean or the maximum of the table's rows at the indices of bag b.
//                                                                            family: embedding_bag
//
// Calls    sum(table, indices, offsets, weights or null, out, of, sizes, is_mean, padding)
//          max(table, indices, offsets, out, of, sizes, places, padding)
//          of: the bag of each index; sizes: the number of indices of each bag other than
//          `padding`; places: the index of the row of each maximum, 0 in an empty bag.
// Types    table, weights and out f32 or f64; indices and offsets i64 or i32; of, sizes and places
//          i64.
// Order    the rows of a bag are added or compared one after the other, by one thread. A maximum is
//          the first of equal elements; NaN is larger than all numbers.
// Returns  1 for an invalid index, or if offsets do not ascend from 0; `out` is then undefined.
#include "rows.h"

namespace CAPABILITY {

namespace {

constexpr i64 EACH = 1 << 14;  // elements per thread
constexpr i64 AHEAD = 4, LINE = 64, MOST_BYTES = 1 << 11;  // a prefetched row, and its bytes

struct Integers {
  const char* data;
  i64 step;
  bool is_long;
  i64 operator[](i64 i) const {
    return is_long ? *(const i64*)(data + i * step) : *(const i32*)(data + i * step);
  }
};

struct Bags {
  Integers indices, offsets;
  const char *table, *weights;
  char *out, *of, *sizes, *places;
  i64 row, weight, out_row, n, count, width, padding;
  bool is_mean;
  i64 end(i64 bag) const { return bag + 1 < count ? offsets[bag + 1] : n; }
};

template <class T> void add_row(T* to, const T* x, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] += x[k];
}

template <class T> void add_scaled(T* to, const T* x, T by, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] += x[k] * by;
}

inline void fetch(const char* row, i64 nbytes) {
  for (i64 k = 0; k < nbytes; k += LINE) __builtin_prefetch(row + k);
}

// The sum of rows [first, last) of a bag in the columns from `column` on. It stays in registers.
constexpr int VECTORS = 8;
template <class T, bool IS_SCALED>
void add_columns(const Bags& bags, i64 first, i64 last, T* to, i64 column) {
  vector<T> sum[VECTORS] = {};
  for (i64 i = first; i < last; ++i) {
    const i64 index = bags.indices[i];
    const char* columns = bags.table + column * sizeof(T);
    if (i + AHEAD < bags.n) fetch(columns + bags.indices[i + AHEAD] * bags.row, sizeof sum);
    if (index == bags.padding) continue;
    const T* x = (const T*)(columns + index * bags.row);
    const T by = IS_SCALED ? *(const T*)(bags.weights + i * bags.weight) : 1;
#pragma GCC unroll 8
    for (int k = 0; k < VECTORS; ++k) {
      const vector<T> more = vector_at(x + k * WIDTH<T>);
      sum[k] += IS_SCALED ? more * by : more;
    }
  }
  memcpy(to + column, sum, sizeof sum);
}

// The same for the last columns, which do not fill the registers.
template <class T> void add_last(const Bags& bags, i64 first, i64 last, T* to, i64 column) {
  const i64 n = bags.width - column, nbytes = n * sizeof(T);
  const char* columns = bags.table + column * sizeof(T);
  memset(to + column, 0, nbytes);
  for (i64 i = first; i < last; ++i) {
    const i64 index = bags.indices[i];
    if (i + AHEAD < bags.n) fetch(columns + bags.indices[i + AHEAD] * bags.row, nbytes);
    if (index == bags.padding) continue;
    const T* x = (const T*)(columns + index * bags.row);
    if (bags.weights) {
      add_scaled(to + column, x, *(const T*)(bags.weights + i * bags.weight), n);
    } else {
      add_row(to + column, x, n);
    }
  }
}

template <class T> void add_bags(const Bags& bags, i64 first, i64 last) {
  constexpr i64 COLUMNS = VECTORS * WIDTH<T>;
  for (i64 bag = first; bag < last; ++bag) {
    T* to = (T*)(bags.out + bag * bags.out_row);
    const i64 begin = bags.offsets[bag], end = bags.end(bag);
    i64 size = 0, column = 0;
    for (i64 i = begin; i < end; ++i) {
      ((i64*)bags.of)[i] = bag;
      size += bags.indices[i] != bags.padding;
    }
    for (; column + COLUMNS <= bags.width; column += COLUMNS)
      bags.weights ? add_columns<T, true>(bags, begin, end, to, column)
                   : add_columns<T, false>(bags, begin, end, to, column);
    if (column < bags.width) add_last(bags, begin, end, to, column);
    ((i64*)bags.sizes)[bag] = size;
    if (!bags.is_mean || !size) continue;
    for (i64 k = 0; k < bags.width; ++k) to[k] /= (T)size;
  }
}

template <class T> void take_larger(T* to, i64* places, const T* x, i64 index, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    const bool is = (x[k] > to[k]) | ((x[k] != x[k]) & (to[k] == to[k]));
    to[k] = is ? x[k] : to[k];
    places[k] = is ? index : places[k];
  }
}

template <class T> void compare_bags(const Bags& bags, i64 first, i64 last) {
  const i64 width = bags.width;
  for (i64 bag = first; bag < last; ++bag) {
    T* to = (T*)(bags.out + bag * bags.out_row);
    i64* places = (i64*)bags.places + bag * width;
    const i64 end = bags.end(bag);
    i64 size = 0;
    for (i64 i = bags.offsets[bag]; i < end; ++i) {
      const i64 index = bags.indices[i];
      ((i64*)bags.of)[i] = bag;
      if (i + AHEAD < bags.n)
        fetch(bags.table + bags.indices[i + AHEAD] * bags.row,
              width * sizeof(T) < MOST_BYTES ? width * sizeof(T) : MOST_BYTES);
      if (index == bags.padding) continue;
      const T* x = (const T*)(bags.table + index * bags.row);
      if (size++) {
        take_larger(to, places, x, index, width);
        continue;
      }
      memcpy(to, x, width * sizeof(T));
      for (i64 k = 0; k < width; ++k) places[k] = index;
    }
    ((i64*)bags.sizes)[bag] = size;
    if (size) continue;
    memset(to, 0, width * sizeof(T));
    memset(places, 0, width * sizeof(i64));
  }
}

bool read(Integers& to, const abi::Array& x) {
  to = {x.data, x.stride[0], x.dtype == abi::i64_};
  return x.ndim == 1 && (to.is_long || x.dtype == abi::i32);
}

// The arguments common to both calls; `out` is followed by `of` and `sizes`.
bool lay_out(Bags& bags, const Call& call, const abi::Array* out) {
  const abi::Array& table = call.array[0];
  if (!read(bags.indices, call.array[1]) || !read(bags.offsets, call.array[2])) return false;
  if (table.dtype != abi::f64 && table.dtype != abi::f32) return false;
  if (table.ndim != 2 || out->dtype != table.dtype) return false;
  bags.n = call.array[1].size, bags.count = out->shape[0], bags.width = table.shape[1];
  if (bags.width > 1 && table.stride[1] != table.itemsize) return false;
  bags.table = table.data, bags.row = table.stride[0];
  bags.out = out->data, bags.out_row = out->stride[0];
  bags.of = out[1].data, bags.sizes = out[2].data;
  if (!bags.count || bags.offsets[0]) return false;
  for (i64 b = 0; b < bags.count; ++b)
    if (bags.offsets[b] > bags.end(b)) return false;
  bool is_bad = false;
  for (i64 i = 0; i < bags.n; ++i) is_bad |= (u64)bags.indices[i] >= (u64)table.shape[0];
  return !is_bad;
}

template <auto OF_F32, auto OF_F64> void share(const Call& call, Bags& bags) {
  const i64 each = EACH / (bags.width * (bags.n / bags.count + 1) + 1);
  call.share(call.array[0].dtype == abi::f32 ? as_body(OF_F32) : as_body(OF_F64), &bags, bags.count,
             each < 1 ? 1 : each);
}

i64 sum(const Call& call) {
  const abi::Array& weights = call.array[3];
  Bags bags;
  if (!lay_out(bags, call, call.array + 4)) return 1;
  if (weights.data && (weights.dtype != call.array[0].dtype || weights.ndim != 1)) return 1;
  bags.weights = weights.data, bags.weight = weights.data ? weights.stride[0] : 0;
  bags.is_mean = call.integer[0], bags.padding = call.integer[1];
  share<add_bags<f32>, add_bags<f64>>(call, bags);
  return 0;
}

i64 max(const Call& call) {
  Bags bags;
  if (!lay_out(bags, call, call.array + 3)) return 1;
  bags.places = call.array[6].data, bags.padding = call.integer[0];
  share<compare_bags<f32>, compare_bags<f64>>(call, bags);
  return 0;
}

const abi::FunctionEntry functions[] = {{"sum", sum}, {"max", max}};

}  // namespace

extern const abi::Family embedding_bag = {"embedding_bag", functions};
}  // namespace CAPABILITY
