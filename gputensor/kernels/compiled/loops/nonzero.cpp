// Indices of nonzero elements, and elements under a mask: nonzero, masked_select, masked_scatter.
//                                                                                 family: nonzero
// Shapes   x and masks are dense and are processed in blocks of PER_BLOCK elements. counts has the
//          number of marks before each block, and the total as the last entry.
// Types    marks are true elements of a mask, or elements that are not zero (-0.0 is zero, NaN is
//          not). Masked elements are copied as words of their size.
#include "capability.h"

namespace CAPABILITY {

constexpr i64 PER_BLOCK = 4096,
              AT_ONCE = 8;  // in elements; kernels/compiled/nonzero.py has the first number too

template <class T> static inline bool is_marked(T x) {
  if constexpr (is_half<T>) {
    return x.bits & 0x7fff;
  } else if constexpr (same<T, b8>) {
    return x.bits;
  } else if constexpr (is_complex<T>) {
    return x.re != 0 || x.im != 0;
  } else {
    return x != 0;
  }
}

// True if there may be marks among AT_ONCE elements. Unmarked runs of a mask are skipped.
template <class T> static inline bool may_have_marks(const T* x) {
  if constexpr (sizeof(T) == 1) {
    u64 word;
    memcpy(&word, x, sizeof word);
    return word;
  } else {
    return true;
  }
}

struct Masking {
  const char* x;
  i64 n, *counts;
  char* out;
  const char* from;
  int ndim;
  const i64* sizes;
};

static inline i64 end_of(const Masking& m, i64 block) {
  const i64 end = (block + 1) * PER_BLOCK;
  return end < m.n ? end : m.n;
}

template <class T> static void count_blocks(const Masking& m, i64 first, i64 last) {
  for (i64 block = first; block < last; ++block) {
    u32 count = 0;
    const i64 end = end_of(m, block);
    for (i64 i = block * PER_BLOCK; i < end; ++i) count += is_marked(((const T*)m.x)[i]);
    m.counts[block + 1] = count;
  }
}

// Write the number of marks before each block to counts. Returns their total.
template <class T> static i64 count_all(const Call& call, Masking& m) {
  const i64 blocks = (m.n + PER_BLOCK - 1) / PER_BLOCK;
  m.counts[0] = 0;
  call.share(as_body(count_blocks<T>), &m, blocks, 4);
  for (i64 b = 0; b < blocks; ++b) m.counts[b + 1] += m.counts[b];
  return m.counts[blocks];
}

// Arrays: x, counts.
template <class T> static i64 count_marks(const Call& call) {
  Masking m = {call.array[0].data, call.array[0].size, (i64*)call.array[1].data};
  count_all<T>(call, m);
  return 0;
}

// Write the coordinates of ascending indices to the columns from number `to` on, one row of x at a
// time.
static void unravel(const Masking& m, const u32* places, i64 base, i64 count, i64 to) {
  const i64 all = m.counts[(m.n + PER_BLOCK - 1) / PER_BLOCK], inner = m.sizes[m.ndim - 1];
  i64* out = (i64*)m.out + to;
  i64* innermost = out + (m.ndim - 1) * all;
  i64 begin = base / inner * inner, outer[abi::MOST_DIMS], rest = base / inner;
  for (int d = m.ndim - 2; d >= 0; --d) outer[d] = rest % m.sizes[d], rest /= m.sizes[d];
  for (i64 i = 0; i < count;) {
    i64 rows = (base + places[i] - begin) >= inner;
    if (base + places[i] - begin >= 2 * inner) rows = (base + places[i] - begin) / inner;
    begin += rows * inner;
    for (int d = m.ndim - 2; rows; --d) {
      outer[d] += rows, rows = 0;
      if (outer[d] >= m.sizes[d]) rows = outer[d] / m.sizes[d], outer[d] -= rows * m.sizes[d];
    }
    const i64 first = i, end = begin + inner - base;
    for (; i < count && places[i] < end; ++i) innermost[i] = base + places[i] - begin;
    for (int d = 0; d < m.ndim - 1; ++d)
      for (i64 k = first; k < i; ++k) out[d * all + k] = outer[d];
  }
}

template <class T> static void find_blocks(const Masking& m, i64 first, i64 last) {
  u32 places[PER_BLOCK + 1];
  for (i64 block = first; block < last; ++block) {
    const i64 base = block * PER_BLOCK, n = end_of(m, block) - base, to = m.counts[block];
    if (m.counts[block + 1] == to) continue;
    const T* x = (const T*)m.x + base;
    i64 count = 0;
    for (i64 i = 0; i < n;) {
      if (i + AT_ONCE > n) {
        places[count] = (u32)i, count += is_marked(x[i]), ++i;
        continue;
      }
      if (may_have_marks(x + i)) {
#pragma GCC unroll 8
        for (i64 k = 0; k < AT_ONCE; ++k)
          places[count] = (u32)(i + k), count += is_marked(x[i + k]);
      }
      i += AT_ONCE;
    }
    // another thread has changed x
    if (count > m.counts[block + 1] - to) count = m.counts[block + 1] - to;
    if (m.ndim == 1) {
      for (i64 i = 0; i < count; ++i) ((i64*)m.out)[to + i] = base + places[i];
    } else {
      unravel(m, places, base, count, to);
    }
  }
}

// Arrays: out, with one row per dimension; x; counts. Numbers: the sizes of x.
template <class T> static i64 find_marks(const Call& call) {
  Masking m = {call.array[1].data, call.array[1].size, (i64*)call.array[2].data,
               call.array[0].data, nullptr, call.n_ints, call.integer};
  if (m.ndim) call.share(as_body(find_blocks<T>), &m, (m.n + PER_BLOCK - 1) / PER_BLOCK, 4);
  return 0;
}

// --- elements selected by masks
// --------------------------------------------------------------------

template <class W> static void select_blocks(const Masking& m, i64 first, i64 last) {
  W* out = (W*)m.out;
  const W* from = (const W*)m.from;
  for (i64 block = first; block < last; ++block) {
    i64 i = block * PER_BLOCK, to = m.counts[block];
    const i64 end = end_of(m, block), last_to = m.counts[block + 1];
    const b8* mask = (const b8*)m.x;
    for (; to + AT_ONCE <= last_to && i + AT_ONCE <= end; i += AT_ONCE) {
      if (!may_have_marks(mask + i)) continue;
#pragma GCC unroll 8
      for (i64 k = 0; k < AT_ONCE; ++k) out[to] = from[i + k], to += is_marked(mask[i + k]);
    }
    for (; to < last_to && i < end; ++i)
      if (is_marked(mask[i])) out[to++] = from[i];
  }
}

// Arrays: out, x, mask, counts.
template <class W> static i64 select_words(const Call& call) {
  Masking m = {call.array[2].data, call.array[2].size, (i64*)call.array[3].data,
               call.array[0].data, call.array[1].data};
  call.share(as_body(select_blocks<W>), &m, (m.n + PER_BLOCK - 1) / PER_BLOCK, 4);
  return 0;
}

// Without a branch, because half of the predictions would be wrong.
template <class W> static inline W either(bool is_first, W a, W b) {
  if constexpr (sizeof(W) > 8) {
    return W{either(is_first, a.low, b.low), either(is_first, a.high, b.high)};
  } else {
    const W mask = (W)-(W)is_first;
    return (W)((a & mask) | (b & (W)~mask));
  }
}

template <class W> static void put_blocks(const Masking& m, i64 first, i64 last) {
  W* out = (W*)m.out;
  const W* from = (const W*)m.from;
  const b8* mask = (const b8*)m.x;
  for (i64 block = first; block < last; ++block) {
    i64 i = block * PER_BLOCK, at = m.counts[block];
    const i64 end = end_of(m, block), last_at = m.counts[block + 1];
    for (; at + AT_ONCE <= last_at && i + AT_ONCE <= end; i += AT_ONCE) {
      if (!may_have_marks(mask + i)) continue;
#pragma GCC unroll 8
      for (i64 k = 0; k < AT_ONCE; ++k) {
        const bool is = is_marked(mask[i + k]);
        out[i + k] = either(is, from[at], out[i + k]), at += is;
      }
    }
    for (; at < last_at && i < end; ++i)
      if (is_marked(mask[i])) out[i] = from[at++];
  }
}

// Arrays: x, which is written to; mask; the values; counts, which is written to. All are dense.
// Returns the number of marks if there are fewer values. Then nothing is written to x.
template <class W> static i64 put_words(const Call& call) {
  Masking m = {call.array[1].data, call.array[1].size, (i64*)call.array[3].data,
               call.array[0].data, call.array[2].data};
  const i64 count = count_all<b8>(call, m);
  if (count > call.array[2].size) return count;
  call.share(as_body(put_blocks<W>), &m, (m.n + PER_BLOCK - 1) / PER_BLOCK, 4);
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define X(NAME, T) {"count " NAME, count_marks<T>}, {"find " NAME, find_marks<T>},
    X("bool", b8) X("u8", u8) X("i8", u8) X("u16", u16) X("i16", u16) X("u32", u32) X("i32", u32)
    X("u64", u64) X("i64", u64) X("f16", f16) X("bf16", bf16) X("f32", f32) X("f64", f64)
    X("c64", c64) X("c128", c128)
#undef X
#define X(BYTES, W) {"select " BYTES, select_words<W>}, {"put " BYTES, put_words<W>},
    X("1", u8) X("2", u16) X("4", u32) X("8", u64) X("16", w128)
#undef X
};
extern const abi::Family nonzero = {"nonzero", functions};

}  // namespace CAPABILITY
