// out[j] = sum over t of by[t, j] * x[at[t, j]] along each of up to 3 dimensions.  family: resample
//
// Calls    resample(x, out, table, by or None, … of each dimension; taps of each): 0; -1 where
//          NumPy has to do it, and nothing is written.
// Shapes   x (planes, sizes…) and out (planes, sizes…), or both with dense lanes as last dimension.
//          out is dense; x has any strides, its last dimension is dense.
// Tables   i32. With `taps` above 0: at (taps, m). Else of each j where its taps begin (m + 1), and
//          at; by is as long as at, of the dtype of x; None is 1.
// Types    f32 and f64.
// Order    the last dimension first; a sum in the order of its taps.
// Threads  some rows of a plane are one thread's.
#include <stdlib.h>

#include "capability.h"

namespace CAPABILITY {
namespace {

template <class T> struct Line {
  i64 n, m, taps;
  const i32 *starts, *at;
  const T* by;

  i64 begin(i64 j) const { return starts[j]; }
  // [first, last) of x that results j to end are made of
  void reach(i64 j, i64 end, i64& first, i64& last) const {
    first = n, last = 0;
    const auto look = [&](i64 place) {
      first = place < first ? place : first, last = place >= last ? place + 1 : last;
    };
    for (; j < end; ++j) {
      if (taps) {
        for (i64 t = 0; t < taps; ++t) look(at[t * m + j]);
      } else {
        for (i64 k = begin(j); k < begin(j + 1); ++k) look(at[k]);
      }
    }
    if (first > last) first = last = 0;
  }
};

template <class T> struct Work {
  Line<T> line[3];
  int dims;
  i64 lanes, planes, rows, blocks;  // rows of a block; blocks of a plane
  const T* x;
  T* out;
  i64 plane, step[3];    // of x, in elements
  i64 room[2];           // elements of what is between two dimensions
};

#define LOOP __attribute__((noinline)) static void

// --- results of single elements -----------------------------------------------------------------

template <class T, int TAPS, bool HAS_WEIGHTS>
LOOP some_taps(T* out, const T* x, const Line<T>& line, i64 j, i64 end) {
  const i32* at = line.at;
  const T* by = line.by;
  const i64 m = line.m;
  const auto tap = [&](int t, i64 k) __attribute__((always_inline)) {
    const T value = x[at[t * m + k]];
    return HAS_WEIGHTS ? by[t * m + k] * value : value;
  };
#pragma GCC ivdep
  for (i64 k = j; k < end; ++k) {
    T sum = tap(0, k);
    if (TAPS > 1) sum += tap(1, k);
    if (TAPS > 2) sum += tap(2, k);
    if (TAPS > 3) sum += tap(3, k);
    out[k - j] = sum;
  }
}

template <class T> LOOP singles(T* out, const T* x, i64 step, const Line<T>& line, i64 j, i64 end) {
  if (step == 1 && line.by) {
    switch (line.taps) {
      case 2: return some_taps<T, 2, true>(out, x, line, j, end);
      case 4: return some_taps<T, 4, true>(out, x, line, j, end);
    }
  } else if (step == 1) {
    switch (line.taps) {
      case 1: return some_taps<T, 1, false>(out, x, line, j, end);
      case 2: return some_taps<T, 2, false>(out, x, line, j, end);
      case 3: return some_taps<T, 3, false>(out, x, line, j, end);
      case 4: return some_taps<T, 4, false>(out, x, line, j, end);
    }
  }
  for (i64 k = j; k < end; ++k) {
    T sum = 0;
    const i64 first = line.taps ? k : line.begin(k), last = line.taps ? 0 : line.begin(k + 1);
    if (line.taps) {
      for (i64 t = 0; t < line.taps; ++t) {
        const i64 p = t * line.m + k;
        sum += line.by ? line.by[p] * x[line.at[p] * step] : x[line.at[p] * step];
      }
    } else {
      for (i64 p = first; p < last; ++p)
        sum += line.by ? line.by[p] * x[line.at[p] * step] : x[line.at[p] * step];
    }
    out[k - j] = sum;
  }
}

// --- results of elements side by side -----------------------------------------------------------

template <class T> LOOP put_one(T* out, const T* a, T by, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] = by * a[i];
}
template <class T> LOOP put_two(T* out, const T* a, const T* b, T of_a, T of_b, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] = of_a * a[i] + of_b * b[i];
}
template <class T> LOOP add_one(T* out, const T* a, T by, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] += by * a[i];
}
template <class T> LOOP add_two(T* out, const T* a, const T* b, T of_a, T of_b, i64 n) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) out[i] = out[i] + of_a * a[i] + of_b * b[i];
}

// Elements of a row that are made at a time, so that they stay in the first-level cache.
constexpr i64 PART = 2048;

template <class T>
static void side_by_side(T* out, i64 out_step, const T* x, i64 step, const Line<T>& line, i64 j,
                         i64 end, i64 lanes) {
  for (i64 first = 0; first < lanes; first += PART) {
    const i64 n = lanes - first < PART ? lanes - first : PART;
    for (i64 k = j; k < end; ++k) {
      T* to = out + (k - j) * out_step + first;
      const i64 begin = line.taps ? k : line.begin(k), next = line.taps ? line.m : 1;
      const i64 count = line.taps ? line.taps : line.begin(k + 1) - begin;
      const auto from = [&](i64 t) { return x + line.at[begin + t * next] * step + first; };
      const auto by = [&](i64 t) { return line.by ? line.by[begin + t * next] : (T)1; };
      if (!count) {
        memset(to, 0, n * sizeof(T));
      } else if (count == 1 && !line.by) {
        memcpy(to, from(0), n * sizeof(T));
      } else if (count == 1) {
        put_one(to, from(0), by(0), n);
      } else {
        put_two(to, from(0), from(1), by(0), by(1), n);
      }
      i64 t = 2;
      for (; t + 2 <= count; t += 2) add_two(to, from(t), from(t + 1), by(t), by(t + 1), n);
      if (t < count) add_one(to, from(t), by(t), n);
    }
  }
}

// Results j to end of a dimension, each of `lanes` elements.
template <class T>
static void along(T* out, i64 out_step, const T* x, i64 step, const Line<T>& line, i64 j, i64 end,
                  i64 lanes) {
  if (lanes == 1) return singles(out, x, step, line, j, end);
  side_by_side(out, out_step, x, step, line, j, end, lanes);
}

template <class T> static void blocks_of_rows(void* context, i64 first, i64 last) {
  Work<T>& work = *(Work<T>*)context;
  const int dims = work.dims;
  const i64 lanes = work.lanes;
  const Line<T>* line = work.line;
  T* room = (T*)malloc((work.room[0] + work.room[1] + 1) * sizeof(T));
  i64 size[4] = {};  // of a row of results of dimensions from d on
  size[dims] = lanes;
  for (int d = dims - 1; d >= 0; --d) size[d] = size[d + 1] * line[d].m;
  for (i64 block = first; block < last && room; ++block) {
    const i64 plane = block / work.blocks, j = block % work.blocks * work.rows;
    const i64 end = j + work.rows < line[0].m ? j + work.rows : line[0].m;
    const T* x = work.x + plane * work.plane;
    T* out = work.out + plane * size[0] + j * size[1];
    i64 low = 0, high = 0;
    if (dims > 1) line[0].reach(j, end, low, high);
    const T* rows = x;
    i64 step = work.step[0];
    if (dims > 1) {
      T *made = room + work.room[1], *spare = room;
      for (i64 i = low; i < high; ++i) {
        T* row = made + (i - low) * size[1];
        const T* from = x + i * work.step[0];
        if (dims == 2) {
          along(row, lanes, from, work.step[1], line[1], 0, line[1].m, lanes);
          continue;
        }
        for (i64 k = 0; k < line[1].n; ++k)
          along(spare + k * size[2], lanes, from + k * work.step[1], work.step[2], line[2], 0,
                line[2].m, lanes);
        along(row, size[2], spare, size[2], line[1], 0, line[1].m, size[2]);
      }
      rows = made - low * size[1], step = size[1];
    }
    along(out, size[1], rows, step, line[0], j, end, size[1]);
  }
  if (!room) work.x = nullptr;
  free(room);
}

// Elements of out in a block.
constexpr i64 BLOCK = 1 << 15;

template <class T> static i64 resampled(const Call& call) {
  const abi::Array &x = call.array[0], &out = call.array[1];
  Work<T> work;
  work.dims = call.n_ints;
  const int dims = work.dims, last = x.ndim - 1;
  if (dims < 1 || dims > 3 || call.n_arrays != 2 + 2 * dims || x.dtype != code_of<T> ||
      out.dtype != code_of<T> || x.ndim != out.ndim || (last != dims && last != dims + 1))
    return -1;
  if (!out.size) return 0;
  work.lanes = last == dims ? 1 : x.shape[last];
  if (last != dims && work.lanes > 1 && x.stride[last] != (i64)sizeof(T)) return -1;
  i64 dense = sizeof(T);
  for (int d = last; d >= 0; dense *= out.shape[d--])
    if (out.shape[d] > 1 && out.stride[d] != dense) return -1;
  for (int d = 0; d < dims; ++d) {
    const abi::Array &table = call.array[2 + 2 * d], &by = call.array[3 + 2 * d];
    const i64 taps = call.integer[d], m = out.shape[d + 1];
    if (table.dtype != abi::i32 || (by.data && by.dtype != code_of<T>)) return -1;
    const i32* starts = (const i32*)table.data;
    work.line[d] = {x.shape[d + 1], m, taps, starts, taps ? starts : starts + m + 1,
                    (const T*)by.data};
    if (x.stride[d + 1] % (i64)sizeof(T)) return -1;
    work.step[d] = x.stride[d + 1] / (i64)sizeof(T);
  }
  if (x.stride[0] % (i64)sizeof(T)) return -1;
  work.x = (const T*)x.data, work.out = (T*)out.data, work.plane = x.stride[0] / (i64)sizeof(T);
  work.planes = x.shape[0];
  const Line<T>* line = work.line;
  i64 row = work.lanes;
  for (int d = 1; d < dims; ++d) row *= line[d].m;
  const i64 m = line[0].m;
  work.rows = BLOCK / row < 1 ? 1 : BLOCK / row;
  work.blocks = (m + work.rows - 1) / work.rows;
  work.rows = (m + work.blocks - 1) / work.blocks;
  i64 most = 0;
  for (i64 j = 0; dims > 1 && j < m; j += work.rows) {
    i64 low, high;
    line[0].reach(j, j + work.rows < m ? j + work.rows : m, low, high);
    most = high - low > most ? high - low : most;
  }
  work.room[0] = most * row;
  work.room[1] = dims == 3 ? line[1].n * line[2].m * work.lanes : 0;
  const i64 units = work.planes * work.blocks, each = work.rows * row;
  call.share(blocks_of_rows<T>, &work, units, each < BLOCK / 2 ? BLOCK / 2 / each : 1);
  return work.x ? 0 : -1;
}

const abi::FunctionEntry functions[] = {
    {"resample f32", resampled<f32>},
    {"resample f64", resampled<f64>},
};

}  // namespace

extern const abi::Family resample = {"resample", nullptr, 0, functions,
                                     sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
