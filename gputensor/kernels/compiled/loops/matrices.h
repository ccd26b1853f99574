// Batches of matrices: the address of each matrix, column-major copies for BLAS and LAPACK, and the
// division of a batch among threads.
#ifndef GPUTENSOR_MATRICES
#define GPUTENSOR_MATRICES

#include <stdlib.h>

#include "capability.h"

namespace CAPABILITY {

using abi::Array;

// LAPACK's complex numbers. Memory of c64 and c128 is only aligned to the size of one part.
template <class R> struct complex_in_memory {
  R re, im;
};
typedef complex_in_memory<f32> z64;
typedef complex_in_memory<f64> z128;

template <class T> constexpr bool is_pair = same<T, z64> || same<T, z128>;
template <class T> struct part_of {
  typedef T type;
};
template <class R> struct part_of<complex_in_memory<R>> {
  typedef R type;
};
template <class T> using part = typename part_of<T>::type;

static inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
static inline i64 larger(i64 a, i64 b) { return a < b ? b : a; }

// The address of item `unit` of a batch. An item has the last `own` dimensions.
static inline char* item(const Array& a, int own, i64 unit) {
  i64 offset = 0;
  for (int d = a.ndim - own - 1; d > 0; --d) {
    offset += unit % a.shape[d] * a.stride[d];
    unit /= a.shape[d];
  }
  return a.data + offset + (a.ndim > own ? unit * a.stride[0] : 0);
}

static inline i64 items(const Array& a, int own) {
  i64 count = 1;
  for (int d = 0; d < a.ndim - own; ++d) count *= a.shape[d];
  return count;
}

static inline i64 rows_of(const Array& a) { return a.shape[a.ndim - 2]; }
static inline i64 columns_of(const Array& a) { return a.shape[a.ndim - 1]; }

// to[j * rows + i] = a[i, begin + j], for some columns of one matrix of a batch.
template <class T>
static void by_columns(T* to, const Array& a, i64 unit, i64 begin, i64 columns) {
  const i64 rows = rows_of(a);
  const i64 down = a.stride[a.ndim - 2], across = a.stride[a.ndim - 1];
  const char* from = item(a, 2, unit) + begin * across;
  if (down == (i64)sizeof(T)) {
    for (i64 j = 0; j < columns; ++j) memcpy(to + j * rows, from + j * across, rows * sizeof(T));
    return;
  }
  // number of rows whose cache lines stay in the cache while columns are read
  constexpr i64 TILE = 16;
  for (i64 first = 0; first < rows; first += TILE) {
    const i64 last = smaller(first + TILE, rows);
    for (i64 j = 0; j < columns; ++j)
      for (i64 i = first; i < last; ++i)
        to[j * rows + i] = *(const T*)(from + i * down + j * across);
  }
}

template <class T> static void by_columns(T* to, const Array& a, i64 unit) {
  by_columns(to, a, unit, 0, columns_of(a));
}

// The address of each dense column-major matrix.
template <class T> static bool are_by_columns(const Array& a) {
  const i64 rows = rows_of(a), columns = columns_of(a);
  return (rows == 1 || a.stride[a.ndim - 2] == (i64)sizeof(T)) &&
         (columns == 1 || a.stride[a.ndim - 1] == rows * (i64)sizeof(T));
}

// The number of operations that one thread runs at a time.
constexpr i64 SHARE = 1 << 14;

// Run body(first, last) over the units of a batch. If `shares`, the library's threads are used;
// BLAS must then have no threads of its own. operations: the approximate number per unit.
template <class F>
static void over(const Call& call, bool shares, i64 units, i64 operations, const F& body) {
  if (!shares) return body(0, units);
  in_parts(call, units, larger(1, SHARE / larger(1, operations)), body);
}

// The minimum number of columns of a part. Parts depend only on sizes, and so do the bits of the
// results.
constexpr i64 FEW_COLUMNS = 64;

// Run body(unit, begin, count) over parts of the columns of each matrix of a batch. If BLAS has
// threads of its own (not `shares`), a part is a whole matrix. operations: the approximate number
// per matrix.
template <class F>
static void over_columns(const Call& call, bool shares, i64 units, i64 columns, i64 operations,
                         const F& body) {
  const i64 parts = shares ? larger(1, columns / FEW_COLUMNS) : 1;
  over(call, shares, units * parts, operations / parts, [&](i64 first, i64 last) {
    for (i64 k = first; k < last; ++k) {
      const i64 part = k % parts, begin = columns * part / parts;
      body(k / parts, begin, columns * (part + 1) / parts - begin);
    }
  });
}

// Memory of one thread, divided into arrays that start at cache lines.
class Room {
 public:
  explicit Room(i64 bytes)
      : memory((char*)malloc(bytes + 63)), next((char*)(((u64)memory + 63) & ~63ull)) {}
  ~Room() { free(memory); }
  Room(const Room&) = delete;
  void operator=(const Room&) = delete;
  template <class T> T* take(i64 count) {
    T* taken = (T*)next;
    next += bytes_of<T>(count);
    return taken;
  }
  template <class T> static i64 bytes_of(i64 count) {
    return (count * (i64)sizeof(T) + 64) & ~63ll;
  }
  explicit operator bool() const { return memory; }

 private:
  char *memory, *next;
};

// Error results of a function; 1 + the number of a matrix that failed is positive.
constexpr i64 NO_MEMORY = -1;

static inline void note(i64* answer, i64 value) {
  __atomic_store_n(answer, value, __ATOMIC_RELAXED);
}

}  // namespace CAPABILITY

#endif
