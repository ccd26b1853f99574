// out[r] = the index of the extreme of row r along one dimension; optionally also the extreme.
//
// Numbers  the first of equal elements, and the first NaN if there is one.
// Order    none: the index does not depend on how the work is divided.
//
// A run is searched in two steps: first for its extreme, which vectorises, then for the first
// element that equals it. If the fastest dimension is kept, each of its columns has a current
// extreme and its index.
#include "leaves.h"
#include "reduction.h"

#include <stdlib.h>

namespace CAPABILITY {

namespace {

constexpr i64 BLOCK = 1024;        // elements searched at a time
constexpr i64 COLUMNS = 256;       // of a block
constexpr i64 FEWEST_COLUMNS = 16; // a shorter row is not a run of its own
constexpr i64 ROWS = 4;
constexpr i64 GRAIN = 1 << 15, PIECE = 1 << 16;

struct Search {
  byte type;
  int size;
  // Return the index of the extreme in a run of n elements. The element is written to `found`.
  i64 (*row)(const char* x, i64 n, char* found);
  bool (*is_better)(const char* x, const char* than);
  // Process ROWS rows, or one. The first has number `first`.
  void (*columns)(char* value, i64* place, const char* const* x, i64 rows, i64 n, i64 first);
};

template <class T, bool IS_MOST> struct search {
  static bool better(T x, T than) {
    if constexpr (is_real<T>) {
      return ((IS_MOST ? x > than : x < than) & (than == than)) | ((x != x) & (than == than));
    } else {
      return IS_MOST ? x > than : x < than;
    }
  }
  static bool is_better(const char* x, const char* than) {
    return better(*(const T*)x, *(const T*)than);
  }

  static i64 first_of(const T* x, i64 n, T wanted) {
    typedef lanes<T> V;
    const bool is_nan = wanted != wanted;
    i64 i = 0;
    for (; n - i >= 4 * V::WIDTH; i += 4 * V::WIDTH) {
      auto same = V::load(x + i) == wanted;
      if (is_nan) same = V::load(x + i) != V::load(x + i);
#pragma GCC unroll 3
      for (int k = 1; k < 4; ++k) {
        const auto y = V::load(x + i + k * V::WIDTH);
        same |= is_nan ? y != y : y == wanted;
      }
      u64 bits[4];
      memcpy(bits, &same, sizeof bits);
      if (bits[0] | bits[1] | bits[2] | bits[3]) break;
    }
    for (; i < n && !(is_nan ? x[i] != x[i] : x[i] == wanted);) ++i;
    return i;
  }

  static i64 row(const char* at, i64 n, char* found) {
    typedef leaf_of<extreme<IS_MOST>, T> extremes;
    const T* x = (const T*)at;
    T& best = *(T*)found;
    if (n < 2 * lanes<T>::WIDTH) {
      i64 place = 0;
      best = x[0];
      for (i64 i = 1; i < n; ++i) {
        if (!better(x[i], best)) continue;
        best = x[i], place = i;
      }
      return place;
    }
    i64 block = 0;
    best = extremes::of_row(x, least(n, BLOCK), T{});
    for (i64 i = BLOCK; i < n && best == best; i += BLOCK) {
      const T next = extremes::of_row(x + i, least(n - i, BLOCK), T{});
      if (better(next, best)) best = next, block = i;
    }
    return block + first_of(x + block, least(n - block, BLOCK), best);
  }

  static void columns(char* values, i64* places, const char* const* x, i64 rows, i64 n, i64 first) {
    T* value = (T*)values;
    const T* a = (const T*)x[0];
    if (rows == ROWS) {
      const T *b = (const T*)x[1], *c = (const T*)x[2], *d = (const T*)x[3];
#pragma GCC ivdep
      for (i64 j = 0; j < n; ++j) {
        // For four rows, the index is a small integer as wide as an element.
        typedef typename lanes<T>::number N;
        const T so_far = value[j];
        T best = a[j];
        N place = 0;
        bool is = better(b[j], best);
        best = is ? b[j] : best, place = is ? (N)1 : place;
        is = better(c[j], best);
        best = is ? c[j] : best, place = is ? (N)2 : place;
        is = better(d[j], best);
        best = is ? d[j] : best, place = is ? (N)3 : place;
        is = better(best, so_far);
        value[j] = is ? best : so_far;
        places[j] = is ? first + place : places[j];
      }
      return;
    }
#pragma GCC ivdep
    for (i64 j = 0; j < n; ++j) {
      const bool is = better(a[j], value[j]);
      value[j] = is ? a[j] : value[j];
      places[j] = is ? first : places[j];
    }
  }
};

// --- the walk -----------------------------------------------------------------------------------

struct Plan {
  const Search* search;
  const char* x;
  char *out, *values;  // values: null if not requested
  int item;
  abi::Cast cast;
  abi::Move pack;
  i64 n, step;  // along the searched dimension
  int n_kept;
  Dim kept[abi::MOST_DIMS];
  i64 outputs, blocks, parts, part;  // parts of an output, or of a block of columns
  i64* found;  // for all parts: an index and the bits of the element for each column
};

// beside: where the extreme is written.
Place place_of(const Plan& plan, i64 number, int from) {
  return place_of({plan.x, plan.out, plan.values}, plan.kept, plan.n_kept, from, number);
}

void store(const Plan& plan, const Place& at, i64 place) {
  *(i64*)at.out = place;
  if (plan.values) memcpy(at.beside, at.x + place * plan.step, plan.item);
}

// The index of the extreme in [first, last) of a run, and its element.
i64 search_run(const Plan& plan, const char* x, i64 first, i64 last, char* found) {
  const Search& search = *plan.search;
  x += first * plan.step;
  if (plan.step == plan.item && !plan.cast) return first + search.row(x, last - first, found);
  alignas(64) char buffer[2][BLOCK * 8], next[8];
  i64 best = 0;
  for (i64 i = first; i < last; i += BLOCK, x += BLOCK * plan.step) {
    const i64 n = least(BLOCK, last - i);
    const char* dense = x;
    if (plan.step != plan.item)
      plan.pack(buffer[0], (char*)x, n, plan.step, 1, 0), dense = buffer[0];
    if (plan.cast) plan.cast(buffer[1], dense, n), dense = buffer[1];
    const i64 place = i + search.row(dense, n, next);
    if (i > first && !search.is_better(next, found)) continue;
    memcpy(found, next, search.size), best = place;
  }
  return best;
}

void runs(const Plan& plan, i64 first, i64 last) {
  alignas(8) char found[8];
  for (i64 k = first; k < last; k++) {
    const Place at = place_of(plan, k, 0);
    store(plan, at, search_run(plan, at.x, 0, plan.n, found));
  }
}

void parts_of_runs(const Plan& plan, i64 first, i64 last) {
  for (i64 k = first; k < last; k++) {
    const Place at = place_of(plan, k / plan.parts, 0);
    const i64 begin = k % plan.parts * plan.part, end = least(begin + plan.part, plan.n);
    plan.found[2 * k] = search_run(plan, at.x, begin, end, (char*)&plan.found[2 * k + 1]);
  }
}

// Columns, and the first of them.
i64 block_of(const Plan& plan, i64 number, Place& at) {
  const Dim& along = plan.kept[0];
  const i64 across = parts_of(along.size, COLUMNS), first = number % across * COLUMNS;
  at = place_of(plan, number / across, 1);
  at.x += first * along.x, at.out += first * along.out, at.beside += first * along.beside;
  return least(COLUMNS, along.size - first);
}

struct Columns {
  alignas(64) char value[COLUMNS * 8];
  alignas(64) char rows[ROWS][COLUMNS * 8];
  alignas(64) char strided[COLUMNS * 8];
  alignas(64) i64 place[COLUMNS];
};

void search_columns(const Plan& plan, const char* x, i64 n, i64 first, i64 last, Columns& memory) {
  const Search& search = *plan.search;
  const i64 step = plan.kept[0].x;
  const auto row = [&](i64 number, char* buffer) {
    const char* from = x + number * plan.step;
    if (step != plan.item) {
      char* to = plan.cast ? memory.strided : buffer;
      plan.pack(to, (char*)from, n, step, 1, 0);
      from = to;
    }
    if (plan.cast) plan.cast(buffer, from, n), from = buffer;
    return from;
  };
  memcpy(memory.value, row(first, memory.rows[0]), n * search.size);
  for (i64 j = 0; j < n; j++) memory.place[j] = first;
  for (i64 r = first + 1; r < last;) {
    const i64 rows = last - r < ROWS ? 1 : ROWS;
    const char* some[ROWS];
    for (i64 k = 0; k < rows; k++) some[k] = row(r + k, memory.rows[k]);
    search.columns(memory.value, memory.place, some, rows, n, r);
    r += rows;
  }
}

void store_columns(const Plan& plan, Place at, i64 n, const i64* places) {
  const Dim& along = plan.kept[0];
  for (i64 j = 0; j < n; j++) {
    store(plan, at, places[j]);
    at.x += along.x, at.out += along.out, at.beside += along.beside;
  }
}

void blocks(const Plan& plan, i64 first, i64 last) {
  Columns memory;
  for (i64 k = first; k < last; k++) {
    Place at;
    const i64 n = block_of(plan, k, at);
    search_columns(plan, at.x, n, 0, plan.n, memory);
    store_columns(plan, at, n, memory.place);
  }
}

void parts_of_blocks(const Plan& plan, i64 first, i64 last) {
  Columns memory;
  const int size = plan.search->size;
  for (i64 k = first; k < last; k++) {
    Place at;
    const i64 n = block_of(plan, k / plan.parts, at);
    const i64 begin = k % plan.parts * plan.part, end = least(begin + plan.part, plan.n);
    search_columns(plan, at.x, n, begin, end, memory);
    i64* to = plan.found + 2 * k * COLUMNS;
    for (i64 j = 0; j < n; j++) {
      to[2 * j] = memory.place[j];
      memcpy(&to[2 * j + 1], memory.value + j * size, size);
    }
  }
}

// Combine the parts of output or column `number`. `across` of these are adjacent.
i64 best_of(const Plan& plan, i64 number, i64 across) {
  const i64* found = plan.found + 2 * (number / across * plan.parts * across + number % across);
  const i64* best = found;
  for (i64 part = 1; part < plan.parts; part++) {
    found += 2 * across;
    if (plan.search->is_better((const char*)(found + 1), (const char*)(best + 1))) best = found;
  }
  return *best;
}

void end_runs(const Plan& plan) {
  for (i64 k = 0; k < plan.outputs; k++) store(plan, place_of(plan, k, 0), best_of(plan, k, 1));
}

void end_blocks(const Plan& plan) {
  for (i64 k = 0; k < plan.blocks; k++) {
    Place at;
    i64 places[COLUMNS];
    const i64 n = block_of(plan, k, at);
    for (i64 j = 0; j < n; j++) places[j] = best_of(plan, k * COLUMNS + j, COLUMNS);
    store_columns(plan, at, n, places);
  }
}

// Arrays: x, values if requested, out. Integers: the dimension.
i64 run(const Call& call, const Search& search) {
  const bool has_values = call.n_arrays == 3;
  const Array &x = call.array[0], &out = call.array[has_values ? 2 : 1];
  const Array& values = call.array[1];  // out again if values are not requested
  const i64 axis = call.integer[0];
  Plan plan;
  plan.search = &search, plan.x = x.data, plan.out = out.data;
  plan.values = has_values ? values.data : nullptr;
  plan.item = x.itemsize;
  plan.cast = x.dtype == search.type || x.dtype == abi::b8 ? nullptr : casts[x.dtype][search.type];
  plan.pack = packs[log2_of(plan.item)];
  plan.n = x.ndim ? x.shape[axis] : 1, plan.step = x.ndim ? x.stride[axis] : plan.item;
  plan.outputs = 1, plan.n_kept = 0;
  const bool keeps_dims = out.ndim == x.ndim;
  for (int d = 0; d < x.ndim; d++) {
    if (d == axis) continue;
    plan.outputs *= x.shape[d];
    const int at = keeps_dims || d < axis ? d : d - 1;
    if (x.shape[d] == 1) continue;
    plan.kept[plan.n_kept++] = {x.shape[d], x.stride[d], out.stride[at],
                                has_values ? values.stride[at] : 0};
  }
  if (!plan.outputs) return 0;
  if (plan.n == 1) plan.step = plan.item;
  if (plan.n_kept > 1) plan.n_kept = coalesce(plan.kept, plan.n_kept);
  const i64 size = plan.outputs * plan.n;
  bool has_columns = plan.n_kept && plan.kept[0].size >= FEWEST_COLUMNS && plan.kept[0].x;
  if (has_columns) has_columns = size_of(plan.kept[0].x) < size_of(plan.step);
  i64 units = plan.outputs, across = 1;
  if (has_columns) {
    plan.blocks = plan.outputs / plan.kept[0].size * parts_of(plan.kept[0].size, COLUMNS);
    units = plan.blocks, across = COLUMNS;
  }
  const abi::Body body = has_columns ? as_body(blocks) : as_body(runs);
  if (size < 2 * GRAIN) {
    body(&plan, 0, units);
    return 0;
  }
  const i64 each = size / units;
  if (units >= 16 || each < 2 * PIECE) {
    call.share(body, &plan, units, parts_of(GRAIN / 2, each));
    return 0;
  }
  plan.part = parts_of(PIECE, each / plan.n);
  plan.parts = parts_of(plan.n, plan.part);
  plan.found = (i64*)malloc(2 * units * plan.parts * across * sizeof(i64));
  if (!plan.found) {
    body(&plan, 0, units);
    return 0;
  }
  const abi::Body in_parts = has_columns ? as_body(parts_of_blocks) : as_body(parts_of_runs);
  call.share(in_parts, &plan, units * plan.parts, 1);
  if (has_columns) {
    end_blocks(plan);
  } else {
    end_runs(plan);
  }
  free(plan.found);
  return 0;
}

template <class T, bool IS_MOST> i64 search_as(const Call& call) {
  typedef search<T, IS_MOST> of;
  static constexpr Search how = {code_of<T>, sizeof(T), of::row, of::is_better, of::columns};
  return run(call, how);
}

template <bool IS_MOST> i64 searched(const Call& call) {
  switch (call.array[0].dtype) {
    case abi::b8: return search_as<u8, IS_MOST>(call);
    case abi::f16: case abi::bf16: return search_as<f32, IS_MOST>(call);
#define X(T) case code_of<T>: return search_as<T, IS_MOST>(call);
    X(u8) X(i8) X(u16) X(i16) X(u32) X(i32) X(u64) X(i64) X(f32) X(f64)
#undef X
  }
  return -1;
}

const abi::FunctionEntry functions[] = {
    {"argmax", searched<true>}, {"argmin", searched<false>},
    {"max", searched<true>}, {"min", searched<false>},
};

}  // namespace

extern const abi::Family argreduce = {"argreduce", functions};
}  // namespace CAPABILITY
