// value[i] = x[the position given by the indices for i]                             family: gather
// See indexed.h. Elements are copied as words of their size, in any order; each is written once.
#include "indexed.h"

namespace CAPABILITY {

constexpr i64 MOVED_BYTES = 1 << 16;  // elements that a thread copies at a time

template <class W>
static inline void copy_row(char* to, i64 to_step, const char* from, i64 from_step, i64 n) {
  if (to_step == sizeof(W) && from_step == sizeof(W)) {
    if (n * (i64)sizeof(W) > 128) {
      memcpy(to, from, n * sizeof(W));
    } else {
#pragma GCC ivdep
      for (i64 i = 0; i < n; ++i) ((W*)to)[i] = ((const W*)from)[i];
    }
  } else {
    for (i64 i = 0; i < n; ++i) *(W*)(to + i * to_step) = *(const W*)(from + i * from_step);
  }
}

// True if all indices of the next row are in range. has_negative: true if one is negative.
static bool are_fine(const Walk& walk, const char* const* index, const Dim& dim, i64 n,
                     bool& has_negative) {
  Signs signs = {0, 0, 0};
  i64 bad = 0;
  for (int k = 0; k < walk.n_indices; ++k) {
    look_at(signs, index[k], dim.index[k] ? n : 1, dim.index[k], walk.bound[k]);
    bad |= signs.beyond | (walk.wraps ? signs.before : signs.negative);
  }
  if (bad < 0) __atomic_store_n(walk.bad, true, __ATOMIC_RELAXED);
  has_negative = signs.negative < 0;
  return bad >= 0;
}

constexpr i64 AHEAD = 4, LINES = 8;  // number of prefetched rows; bytes of each

template <class W>
static void gather_rows(const Walk& walk, char* x, char* value, const char* const* index, i64 rows,
                        const Dim& outer, const Dim& inner) {
  if (!has_index(walk, inner)) {
    const i64 bytes = inner.x == sizeof(W) ? inner.size * sizeof(W) : 0;
    for (i64 r = 0; r < rows; ++r) {
      if (bytes > 64 && r + AHEAD < rows) {
        const char* next = x + (r + AHEAD) * outer.x + place(walk, index, outer, r + AHEAD);
        for (i64 at = 0; at < bytes && at < 64 * LINES; at += 64) __builtin_prefetch(next + at);
      }
      copy_row<W>(value + r * outer.value, inner.value,
                  x + r * outer.x + place(walk, index, outer, r), inner.x, inner.size);
    }
    return;
  }
  i64 at[PLACES];
  const char* moved[MOST_INDICES];
  bool has_negative = walk.has_negative;
  for (i64 r = 0; r < rows; ++r) {
    for (int k = 0; k < walk.n_indices; ++k) moved[k] = index[k] + r * outer.index[k];
    const char* from = x + r * outer.x;
    char* to = value + r * outer.value;
    if (walk.bad && !are_fine(walk, moved, inner, inner.size, has_negative)) return;
    if (walk.n_indices == 1 && !has_negative && inner.index[0] == sizeof(i64) &&
        inner.value == sizeof(W)) {
      const i64 *own = (const i64*)moved[0], step = walk.step[0], along = inner.x;
      if (step == sizeof(W) && !along) {
#pragma GCC unroll 4
        for (i64 i = 0; i < inner.size; ++i) ((W*)to)[i] = ((const W*)from)[own[i]];
      } else {
#pragma GCC unroll 4
        for (i64 i = 0; i < inner.size; ++i)
          ((W*)to)[i] = *(const W*)(from + i * along + own[i] * step);
      }
      continue;
    }
    for (i64 first = 0; first < inner.size; first += PLACES) {
      const i64 n = inner.size - first < PLACES ? inner.size - first : PLACES;
      places(at, walk, moved, inner, first, n);
      for (i64 i = 0; i < n; ++i)
        *(W*)(to + (first + i) * inner.value) = *(const W*)(from + at[i]);
    }
  }
}

template <class W> static i64 gather_words(const Call& call) {
  Walk walk;
  read(walk, call);
  // The order of the values' memory. A row is their innermost dimension.
  for (int d = 1; d < walk.ndim; ++d) {
    const Dim dim = walk.dim[d];
    int e = d;
    for (; e && walk.dim[e - 1].value < dim.value; --e) walk.dim[e] = walk.dim[e - 1];
    walk.dim[e] = dim;
  }
  // the order of the other dimensions too
  for (int d = 0; d < walk.ndim; ++d) walk.dim[d].is_free = false;
  coalesce(walk);
  const i64 numel = numel_of(walk);
  i64 indices = 0;
  for (int k = 0; k < walk.n_indices; ++k) indices += call.array[2 + k].size;
  bool is_bad = false;
  // Indices that are read only once are checked at that time.
  if (numel && has_index(walk, walk.dim[walk.ndim - 1]) && 2 * indices >= walk.n_indices * numel) {
    walk.bad = &is_bad;
  } else if (const i64 bad = check(walk, call)) {
    return bad;
  }
  if (!numel) return 0;
  const i64 rows = rows_of(walk), n = walk.dim[walk.ndim - 1].size,
            at_once = MOVED_BYTES / sizeof(W);
  if (rows == 1) {
    in_parts(call, n, at_once, [&](i64 first, i64 last) {
      Walk part = walk;
      narrow(part, part.ndim - 1, first, last - first);
      walk_rows(part, gather_rows<W>, 0, 1);
    });
  } else {
    in_parts(call, rows, at_once / n + 1,
             [&](i64 first, i64 last) { walk_rows(walk, gather_rows<W>, first, last); });
  }
  return is_bad ? check(walk, call) : 0;
}

static const abi::FunctionEntry functions[] = {
    {"gather 1", gather_words<u8>},    {"gather 2", gather_words<u16>},
    {"gather 4", gather_words<u32>},   {"gather 8", gather_words<u64>},
    {"gather 16", gather_words<w128>},
};
extern const abi::Family gather = {"gather", functions};

}  // namespace CAPABILITY
