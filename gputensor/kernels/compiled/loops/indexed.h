// The iteration over indexed elements of a tensor, for families gather and scatter.
//
// Arrays   x, the indexed tensor; the values to read or write; one to MOST_INDICES index arrays of
//          int64.
// Numbers  begin, wraps, and for each index the dimension of x that it indexes. In the iteration,
//          the dimensions of the indices replace the indexed dimensions, from dimension `begin` on.
//          If begin is -1, there is one index array with all dimensions of the iteration; in the
//          other dimensions, the position in x equals the position in the iteration.
// Bounds   all indices are checked before any element is written: `check` returns the first array
//          with an index out of range.
#ifndef GPUTENSOR_INDEXED_H
#define GPUTENSOR_INDEXED_H

#include "capability.h"

namespace CAPABILITY {

constexpr int MOST_INDICES = 6;

// A dimension of the iteration, with strides in bytes. is_free: its elements are different elements
// of x for any indices.
struct Dim {
  i64 size, x, value, index[MOST_INDICES];
  bool is_free;
};

struct Walk {
  int ndim, n_indices;
  char *x, *value;
  const char* index[MOST_INDICES];
  i64 bound[MOST_INDICES], step[MOST_INDICES];  // an indexed dimension: size, stride in bytes
  i64 first, last;  // for moving rows: only these indices of the first array are used
  bool wraps, has_negative;
  bool* bad;  // if given, indices are checked when they are used, and a bad index is reported here
  Dim dim[abi::MOST_DIMS];
};

// Move `rows` rows of inner.size elements. x, value and index: the begin of the first row.
typedef void (*Rows)(const Walk& walk, char* x, char* value, const char* const* index, i64 rows,
                     const Dim& outer, const Dim& inner);

static i64 numel_of(const Walk& walk) {
  i64 n = 1;
  for (int d = 0; d < walk.ndim; ++d) n *= walk.dim[d].size;
  return n;
}

static Dim& append(Walk& walk, i64 size, i64 stride, bool is_free) {
  Dim& dim = walk.dim[walk.ndim++];
  dim = {};
  dim.size = size, dim.x = stride, dim.is_free = is_free;
  return dim;
}

static void read(Walk& walk, const Call& call) {
  const abi::Array &x = call.array[0], &value = call.array[1], *index = call.array + 2;
  const i64 begin = call.integer[0], *led = call.integer + 2;
  walk.ndim = 0, walk.n_indices = call.n_arrays - 2;
  walk.x = x.data, walk.value = value.data;
  walk.wraps = call.integer[1], walk.has_negative = false, walk.bad = nullptr;
  int most = 0;
  for (int k = 0; k < walk.n_indices; ++k) {
    walk.index[k] = index[k].data;
    walk.bound[k] = x.shape[led[k]], walk.step[k] = x.stride[led[k]];
    if (index[k].ndim > most) most = index[k].ndim;
  }
  walk.first = 0, walk.last = walk.bound[0];
  for (int d = 0; d < begin; ++d) append(walk, x.shape[d], x.stride[d], true);
  for (int d = 0; d < most; ++d) {
    Dim& dim = append(walk, 1, 0, false);
    for (int k = 0; k < walk.n_indices; ++k) {
      const int own = d - most + index[k].ndim;
      if (own < 0 || index[k].shape[own] == 1) continue;
      dim.size = index[k].shape[own], dim.index[k] = index[k].stride[own];
    }
    if (begin < 0 && d != led[0]) dim.x = x.stride[d], dim.is_free = true;
  }
  for (int d = begin < 0 ? x.ndim : int(begin) + walk.n_indices; d < x.ndim; ++d)
    append(walk, x.shape[d], x.stride[d], true);
  for (int d = walk.ndim - value.ndim, own = 0; own < value.ndim; ++d, ++own)
    if (value.shape[own] != 1) walk.dim[d].value = value.stride[own];
}

static bool is_one_run(const Walk& walk, const Dim& outer, const Dim& inner) {
  bool is_one = outer.is_free == inner.is_free && outer.x == inner.x * inner.size &&
                outer.value == inner.value * inner.size;
  for (int k = 0; k < walk.n_indices; ++k)
    is_one = is_one && outer.index[k] == inner.index[k] * inner.size;
  return is_one;
}

// Drop dimensions of one element, and merge those that are contiguous in every operand. At least
// two remain.
static void coalesce(Walk& walk) {
  int kept = 0;
  for (int d = 0; d < walk.ndim; ++d) {
    const Dim dim = walk.dim[d];
    if (dim.size == 1) continue;
    if (kept && is_one_run(walk, walk.dim[kept - 1], dim)) {
      const i64 size = dim.size * walk.dim[kept - 1].size;
      walk.dim[kept - 1] = dim;
      walk.dim[kept - 1].size = size;
    } else {
      walk.dim[kept++] = dim;
    }
  }
  for (; kept < 2; ++kept) {
    for (int d = kept; d > 0; --d) walk.dim[d] = walk.dim[d - 1];
    walk.dim[0] = {};
    walk.dim[0].size = 1;
  }
  walk.ndim = kept;
}

// --- bounds -------------------------------------------------------------------------------------

// The sign bit is set if an index is negative, after the end, or before the begin.
struct Signs { i64 negative, beyond, before; };

struct Check {
  const char* data;
  int ndim;
  i64 size[abi::MOST_DIMS], stride[abi::MOST_DIMS], bound;
  Signs signs;
};

constexpr i64 CHECKED = 1 << 15;  // indices that a thread checks at a time

static void look_at(Signs& signs, const char* data, i64 n, i64 stride, i64 bound) {
  i64 negative = 0, beyond = 0, before = 0;
  if (stride == sizeof(i64)) {
    const i64* index = (const i64*)data;
    for (i64 i = 0; i < n; ++i)
      negative |= index[i], beyond |= bound - 1 - index[i], before |= index[i] + bound;
  } else {
    for (i64 i = 0; i < n; ++i) {
      const i64 index = *(const i64*)(data + i * stride);
      negative |= index, beyond |= bound - 1 - index, before |= index + bound;
    }
  }
  signs.negative |= negative, signs.beyond |= beyond, signs.before |= before;
}

// Rows first to last - 1 of an index array. If it has one row, these elements of that row.
static void check_some(Check& check, i64 first, i64 last) {
  Signs signs = {0, 0, 0};
  if (check.ndim == 1) {
    look_at(signs, check.data + first * check.stride[0], last - first, check.stride[0],
            check.bound);
  } else {
    const int inner = check.ndim - 1;
    for (i64 row = first; row < last; ++row) {
      const char* at = check.data;
      i64 rest = row;
      for (int d = inner - 1; d >= 0; --d) {
        at += rest % check.size[d] * check.stride[d];
        rest /= check.size[d];
      }
      look_at(signs, at, check.size[inner], check.stride[inner], check.bound);
    }
  }
  __atomic_fetch_or(&check.signs.negative, signs.negative, __ATOMIC_RELAXED);
  __atomic_fetch_or(&check.signs.beyond, signs.beyond, __ATOMIC_RELAXED);
  __atomic_fetch_or(&check.signs.before, signs.before, __ATOMIC_RELAXED);
}

// 0, or 1 + the number of the first index array with an index out of range.
static i64 check(Walk& walk, const Call& call) {
  for (int k = 0; k < walk.n_indices; ++k) {
    const abi::Array& index = call.array[2 + k];
    Check own;
    own.data = index.data, own.bound = walk.bound[k], own.ndim = 0, own.signs = {0, 0, 0};
    if (!index.size) continue;
    for (int d = 0; d < index.ndim; ++d) {
      if (index.shape[d] == 1 || !index.stride[d]) continue;
      const int before = own.ndim - 1;
      if (own.ndim && own.stride[before] == index.shape[d] * index.stride[d]) {
        own.size[before] *= index.shape[d], own.stride[before] = index.stride[d];
      } else {
        own.size[own.ndim] = index.shape[d], own.stride[own.ndim++] = index.stride[d];
      }
    }
    if (!own.ndim) own.ndim = 1, own.size[0] = 1, own.stride[0] = 0;
    i64 units = 1, step = CHECKED;
    if (own.ndim == 1) {
      units = own.size[0];
    } else {
      for (int d = 0; d < own.ndim - 1; ++d) units *= own.size[d];
      step = CHECKED / own.size[own.ndim - 1] + 1;
    }
    call.share(as_body(check_some), &own, units, step);
    const Signs& signs = own.signs;
    if (signs.beyond < 0 || (walk.wraps ? signs.before : signs.negative) < 0) return k + 1;
    walk.has_negative = walk.has_negative || signs.negative < 0;
  }
  return 0;
}

// --- places -------------------------------------------------------------------------------------

// The byte offset in x for the given indices.
static inline i64 place(const Walk& walk, const char* const* index, const Dim& dim, i64 i) {
  i64 found = 0;
  for (int k = 0; k < walk.n_indices; ++k) {
    const i64 given = *(const i64*)(index[k] + i * dim.index[k]);
    found += (given + (given >> 63 & walk.bound[k])) * walk.step[k];
  }
  return found;
}

constexpr i64 PLACES = 256;  // offsets computed at a time

// The offsets of n elements along a dimension, including x's own step.
static void places(i64* to, const Walk& walk, const char* const* index, const Dim& dim, i64 first,
                   i64 n) {
  for (i64 i = 0; i < n; ++i) to[i] = (first + i) * dim.x;
  for (int k = 0; k < walk.n_indices; ++k) {
    const char* at = index[k] + first * dim.index[k];
    const i64 stride = dim.index[k], step = walk.step[k], bound = walk.bound[k];
    for (i64 i = 0; i < n; ++i) {
      const i64 given = *(const i64*)(at + i * stride);
      to[i] += (given + (given >> 63 & bound)) * step;
    }
  }
}

static inline bool has_index(const Walk& walk, const Dim& dim) {
  bool found = false;
  for (int k = 0; k < walk.n_indices; ++k) found = found || dim.index[k];
  return found;
}

// --- walks --------------------------------------------------------------------------------------

// The rows `first` to `last - 1`; each has the whole innermost dimension.
static void walk_rows(const Walk& walk, Rows move, i64 first, i64 last) {
  const int outer = walk.ndim - 2;
  i64 at[abi::MOST_DIMS];
  i64 rest = first;
  char *x = walk.x, *value = walk.value;
  const char* index[MOST_INDICES];
  for (int k = 0; k < walk.n_indices; ++k) index[k] = walk.index[k];
  const auto step = [&](const Dim& dim, i64 by) {
    x += by * dim.x, value += by * dim.value;
    for (int k = 0; k < walk.n_indices; ++k) index[k] += by * dim.index[k];
  };
  for (int d = outer; d >= 0; --d) {
    at[d] = rest % walk.dim[d].size, rest /= walk.dim[d].size;
    step(walk.dim[d], at[d]);
  }
  for (i64 row = first; row < last;) {
    const Dim& dim = walk.dim[outer];
    i64 rows = dim.size - at[outer];
    if (rows > last - row) rows = last - row;
    move(walk, x, value, index, rows, dim, walk.dim[outer + 1]);
    row += rows;
    if (row == last) break;
    step(dim, -at[outer]);
    at[outer] = 0;
    int d = outer - 1;
    for (; at[d] + 1 == walk.dim[d].size; --d) {
      step(walk.dim[d], -at[d]);
      at[d] = 0;
    }
    ++at[d];
    step(walk.dim[d], 1);
  }
}

static i64 rows_of(const Walk& walk) { return numel_of(walk) / walk.dim[walk.ndim - 1].size; }

// A part of an iteration: `size` indices of a dimension, from `first` on.
static void narrow(Walk& walk, int d, i64 first, i64 size) {
  Dim& dim = walk.dim[d];
  walk.x += first * dim.x, walk.value += first * dim.value;
  for (int k = 0; k < walk.n_indices; ++k) walk.index[k] += first * dim.index[k];
  dim.size = size;
}

}  // namespace CAPABILITY

#endif
