// out[b] = the sum or the mean of the table's rows at the indices of bag b. family: embedding_bag
//
// Calls sum(table, indices, offsets, weights or null, out, of, sizes, is_mean, padding) of: the bag
//          of each index. sizes: the number of indices of each bag that are not `padding`. Types
//          table, weights and out f32 or f64; indices and offsets i64 or i32; of and sizes i64.
//          Order the rows of a bag are added one after the other, by one thread. Returns 1 for an
//          invalid index, or if offsets do not ascend from 0; `out` is then undefined.
#include "capability.h"

namespace CAPABILITY {

namespace {

constexpr i64 GRAIN = 1 << 14;  // elements per thread
constexpr i64 AHEAD = 4, LINE = 64, MOST_BYTES = 1 << 11;  // prefetched rows and bytes

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
  char *out, *of, *sizes;
  i64 row, weight, out_row, n, count, width, padding;
  bool is_mean;
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

template <class T> void add_bags(void* context, i64 first, i64 last) {
  const Bags& bags = *(const Bags*)context;
  const i64 nbytes = bags.width * sizeof(T), ahead = nbytes <= MOST_BYTES ? AHEAD : bags.n;
  for (i64 bag = first; bag < last; ++bag) {
    T* to = (T*)(bags.out + bag * bags.out_row);
    const i64 end = bag + 1 < bags.count ? bags.offsets[bag + 1] : bags.n;
    i64 size = 0;
    memset(to, 0, bags.width * sizeof(T));
    for (i64 i = bags.offsets[bag]; i < end; ++i) {
      const i64 index = bags.indices[i];
      ((i64*)bags.of)[i] = bag;
      if (i + ahead < bags.n) fetch(bags.table + bags.indices[i + ahead] * bags.row, nbytes);
      if (index == bags.padding) continue;
      const T* x = (const T*)(bags.table + index * bags.row);
      if (bags.weights) {
        add_scaled(to, x, *(const T*)(bags.weights + i * bags.weight), bags.width);
      } else {
        add_row(to, x, bags.width);
      }
      ++size;
    }
    ((i64*)bags.sizes)[bag] = size;
    if (!bags.is_mean || !size) continue;
    for (i64 k = 0; k < bags.width; ++k) to[k] /= (T)size;
  }
}

bool read(Integers& to, const abi::Array& x) {
  to = {x.data, x.stride[0], x.dtype == abi::i64_};
  return x.ndim == 1 && (to.is_long || x.dtype == abi::i32);
}

i64 sum(const Call& call) {
  const abi::Array &table = call.array[0], &weights = call.array[3], &out = call.array[4];
  Bags bags;
  if (!read(bags.indices, call.array[1]) || !read(bags.offsets, call.array[2])) return 1;
  if (table.ndim != 2 || out.dtype != table.dtype) return 1;
  if (weights.data && (weights.dtype != table.dtype || weights.ndim != 1)) return 1;
  bags.n = call.array[1].size, bags.count = out.shape[0], bags.width = table.shape[1];
  if (bags.width > 1 && table.stride[1] != table.itemsize) return 1;
  bags.table = table.data, bags.row = table.stride[0], bags.weights = weights.data;
  bags.weight = weights.data ? weights.stride[0] : 0;
  bags.out = out.data, bags.out_row = out.stride[0];
  bags.of = call.array[5].data, bags.sizes = call.array[6].data;
  bags.is_mean = call.integer[0], bags.padding = call.integer[1];
  if (!bags.count || bags.offsets[0]) return 1;
  for (i64 b = 0; b < bags.count; ++b)
    if (bags.offsets[b] > (b + 1 < bags.count ? bags.offsets[b + 1] : bags.n)) return 1;
  bool is_bad = false;
  for (i64 i = 0; i < bags.n; ++i) is_bad |= (u64)bags.indices[i] >= (u64)table.shape[0];
  if (is_bad) return 1;
  const i64 each = GRAIN / (bags.width * (bags.n / bags.count + 1) + 1);
  const abi::Body body = table.dtype == abi::f64 ? add_bags<f64> : add_bags<f32>;
  if (table.dtype != abi::f64 && table.dtype != abi::f32) return 1;
  call.share(body, &bags, bags.count, each < 1 ? 1 : each);
  return 0;
}

const abi::FunctionEntry functions[] = {{"sum", sum}};

}  // namespace

extern const abi::Family embedding_bag;
extern const abi::Family embedding_bag = {"embedding_bag", nullptr, 0, functions,
                                          sizeof functions / sizeof *functions};
}  // namespace CAPABILITY
