// Runs of equal elements.                                                           family: unique
// Shapes   x dense, processed in blocks of PER_BLOCK elements. before has the number of runs that
//          begin before each block, and the total as the last entry.
// Types    real and bool. NaN equals nothing, so every NaN is a run of its own.
#include "capability.h"

namespace CAPABILITY {

constexpr i64 PER_BLOCK = 4096;  // kernels/compiled/unique.py has this number too

struct Runs {
  const char* x;
  i64 n, *before;
  char* values;
  i64 *numbers, *counts;  // null if not requested
};

template <class T> static inline bool differ(T a, T b) {
  if constexpr (is_half<T>) {
    return to_float(a) != to_float(b);
  } else {
    return a != b;
  }
}

static inline i64 end_of(const Runs& r, i64 block) {
  const i64 end = (block + 1) * PER_BLOCK;
  return end < r.n ? end : r.n;
}

template <class T> static void count_blocks(const Runs& r, i64 first, i64 last) {
  const T* x = (const T*)r.x;
  for (i64 block = first; block < last; ++block) {
    u32 count = !block;
    const i64 end = end_of(r, block);
    for (i64 i = block * PER_BLOCK + !block; i < end; ++i) count += differ(x[i], x[i - 1]);
    r.before[block + 1] = count;
  }
}

// Arrays: x, before.
template <class T> static i64 count_runs(const Call& call) {
  Runs r = {call.array[0].data, call.array[0].size, (i64*)call.array[1].data};
  const i64 blocks = (r.n + PER_BLOCK - 1) / PER_BLOCK;
  r.before[0] = 0;
  call.share(as_body(count_blocks<T>), &r, blocks, 4);
  for (i64 b = 0; b < blocks; ++b) r.before[b + 1] += r.before[b];
  return 0;
}

// Write the index of each run's first element to `starts`, and the numbers of all elements' runs if
// they are requested. x[-1] is read unless `is_first`. Returns the number of runs.
template <class T, bool NUMBERS>
static i64 starts_of(const T* x, i64 n, bool is_first, i64 before, u32* starts, i64* numbers) {
  starts[0] = 0;
  i64 count = is_first || differ(x[0], x[-1]);
  if (NUMBERS) numbers[0] = before + count - 1;
  for (i64 i = 1; i < n; ++i) {
    starts[count] = (u32)i;
    count += differ(x[i], x[i - 1]);
    if (NUMBERS) numbers[i] = before + count - 1;
  }
  return count;
}

template <class T> static void find_blocks(const Runs& r, i64 first, i64 last) {
  u32 starts[PER_BLOCK + 1];
  for (i64 block = first; block < last; ++block) {
    const i64 base = block * PER_BLOCK, n = end_of(r, block) - base, to = r.before[block];
    const i64 room = r.before[block + 1] - to;
    const T* x = (const T*)r.x + base;
    i64 count = r.numbers ? starts_of<T, true>(x, n, !block, to, starts, r.numbers + base)
                          : starts_of<T, false>(x, n, !block, to, starts, nullptr);
    if (count > room) count = room;  // another thread has changed x
    for (i64 k = 0; k < count; ++k) ((T*)r.values)[to + k] = x[starts[k]];
    for (i64 k = 0; r.counts && k < count; ++k) r.counts[to + k] = base + starts[k];
  }
}

// Arrays: values; the number of each element's run, or None; the sizes of the runs, or None; x;
// before.
template <class T> static i64 find_runs(const Call& call) {
  const abi::Array* a = call.array;
  Runs r = {a[3].data, a[3].size, (i64*)a[4].data, a[0].data, (i64*)a[1].data, (i64*)a[2].data};
  call.share(as_body(find_blocks<T>), &r, (r.n + PER_BLOCK - 1) / PER_BLOCK, 4);
  if (!r.counts) return 0;
  const i64 all = a[2].size;  // counts has the index of each run's first element
  for (i64 k = 0; k < all; ++k) r.counts[k] = (k + 1 < all ? r.counts[k + 1] : r.n) - r.counts[k];
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(NAME, T) {"count " NAME, count_runs<T>}, {"find " NAME, find_runs<T>},
    X("bool", u8) X("u8", u8) X("i8", u8) X("u16", u16) X("i16", u16) X("u32", u32) X("i32", u32)
    X("u64", u64) X("i64", u64) X("f16", f16) X("bf16", bf16) X("f32", f32) X("f64", f64)
#undef X
};
extern const abi::Family unique = {"unique", functions};

}  // namespace CAPABILITY
