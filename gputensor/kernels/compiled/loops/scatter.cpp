// x[the position given by the indices for i] = OP(x there, value[i])               family: scatter
// See indexed.h, and kernels/cuda/scatter.cu for the functors.
// Types    scatter: words of the elements' size; other operators: types of 32 bits or more.
// Order    for each position the order of the indices, so the bits do not depend on the number of
//          threads.
// Threads  divide a dimension along which positions differ, or each writes to its own range.
#include "indexed.h"

namespace CAPABILITY {
#include "heads/scatter.h"

struct latest {
  template <class T> static inline T of(T, T b) { return b; }
};

constexpr i64 ALONE = 1 << 15;    // up to this number of elements, one thread scatters
// bytes of a row from which on each thread can afford to read all indices
constexpr i64 LONG_ROW = 64;
constexpr i64 PER_THREAD = 4;     // number of parts that is divided among threads

template <class F, class T>
static inline void put_row(char* x, i64 x_step, const char* value, i64 value_step, i64 n) {
  if (x_step == sizeof(T) && value_step == sizeof(T)) {
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) ((T*)x)[i] = F::of(((T*)x)[i], ((const T*)value)[i]);
  } else {
    for (i64 i = 0; i < n; ++i) {
      T& to = *(T*)(x + i * x_step);
      to = F::of(to, *(const T*)(value + i * value_step));
    }
  }
}

template <class F, class T>
static void scatter_rows(const Walk& walk, char* x, char* value, const char* const* index, i64 rows,
                         const Dim& outer, const Dim& inner) {
  if (!has_index(walk, inner)) {
    for (i64 r = 0; r < rows; ++r) {
      i64 first = *(const i64*)(index[0] + r * outer.index[0]);
      first += first >> 63 & walk.bound[0];
      if (first < walk.first || first >= walk.last) continue;
      put_row<F, T>(x + r * outer.x + place(walk, index, outer, r), inner.x,
                    value + r * outer.value, inner.value, inner.size);
    }
    return;
  }
  const bool is_simple = walk.n_indices == 1 && !walk.has_negative;
  i64 at[PLACES];
  const char* moved[MOST_INDICES];
  for (i64 r = 0; r < rows; ++r) {
    for (int k = 0; k < walk.n_indices; ++k) moved[k] = index[k] + r * outer.index[k];
    char* to = x + r * outer.x;
    const char* from = value + r * outer.value;
    const i64 from_step = inner.value;
    if (is_simple) {
      const char* own = moved[0];
      const i64 own_step = inner.index[0], step = walk.step[0], along = inner.x;
      if (own_step == sizeof(i64) && step == sizeof(T) && from_step == sizeof(T) && !along) {
        for (i64 i = 0; i < inner.size; ++i) {
          T& put = ((T*)to)[((const i64*)own)[i]];
          put = F::of(put, ((const T*)from)[i]);
        }
        continue;
      }
      for (i64 i = 0; i < inner.size; ++i) {
        T& put = *(T*)(to + i * along + *(const i64*)(own + i * own_step) * step);
        put = F::of(put, *(const T*)(from + i * from_step));
      }
      continue;
    }
    for (i64 first = 0; first < inner.size; first += PLACES) {
      const i64 n = inner.size - first < PLACES ? inner.size - first : PLACES;
      places(at, walk, moved, inner, first, n);
      for (i64 i = 0; i < n; ++i) {
        T& put = *(T*)(to + at[i]);
        put = F::of(put, *(const T*)(from + (first + i) * from_step));
      }
    }
  }
}

static i64 scatter_words(const Call& call, Rows move) {
  Walk walk;
  read(walk, call);
  const i64 bad = check(walk, call);
  if (bad) return bad;
  coalesce(walk);
  const i64 numel = numel_of(walk);
  if (!numel) return 0;
  int shared = -1;  // the dimension
  const Dim& inner = walk.dim[walk.ndim - 1];
  const bool has_rows = !has_index(walk, inner);
  for (int d = 0; d < walk.ndim - has_rows; ++d) {
    const Dim& dim = walk.dim[d];
    if (dim.is_free && (shared < 0 || dim.size > walk.dim[shared].size)) shared = d;
  }
  if (numel <= ALONE || call.threads < 2) {
    walk_rows(walk, move, 0, rows_of(walk));
  } else if (shared >= 0 && walk.dim[shared].size >= call.threads) {
    const i64 size = walk.dim[shared].size;
    in_parts(call, size, size / (PER_THREAD * call.threads) + 1, [&](i64 first, i64 last) {
      Walk part = walk;
      narrow(part, shared, first, last - first);
      walk_rows(part, move, 0, rows_of(part));
    });
  } else if (has_rows && inner.size * call.array[0].itemsize >= LONG_ROW) {
    // Each thread writes the elements whose positions are in its ranges.
    in_parts(call, call.threads, 1, [&](i64 first, i64 last) {
      Walk part = walk;
      part.first = part.bound[0] * first / call.threads;
      part.last = part.bound[0] * last / call.threads;
      walk_rows(part, move, 0, rows_of(part));
    });
  } else {
    walk_rows(walk, move, 0, rows_of(walk));
  }
  return 0;
}

template <class F, class T> static i64 scatter_of(const Call& call) {
  return scatter_words(call, scatter_rows<F, T>);
}

static const abi::FunctionEntry functions[] = {
    {"scatter 1", scatter_of<latest, u8>},   {"scatter 2", scatter_of<latest, u16>},
    {"scatter 4", scatter_of<latest, u32>},  {"scatter 8", scatter_of<latest, u64>},
    {"scatter 16", scatter_of<latest, w128>},
#define X(OP, NAME, T) {#OP " " NAME, scatter_of<op::OP, T>},
#define SUMS(OP) \
  X(OP, "i32", u32) X(OP, "u32", u32) X(OP, "i64", u64) X(OP, "u64", u64) X(OP, "f32", f32) \
  X(OP, "f64", f64) X(OP, "c64", c64) X(OP, "c128", c128)
#define EXTREMES(OP) \
  X(OP, "i32", i32) X(OP, "u32", u32) X(OP, "i64", i64) X(OP, "u64", u64) X(OP, "f32", f32) \
  X(OP, "f64", f64)
    SUMS(scatter_add) SUMS(scatter_multiply) EXTREMES(scatter_amax) EXTREMES(scatter_amin)
#undef X
#undef SUMS
#undef EXTREMES
};
extern const abi::Family scatter = {"scatter", functions};

}  // namespace CAPABILITY
