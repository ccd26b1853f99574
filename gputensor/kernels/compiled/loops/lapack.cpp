// Systems of linear equations and determinants, of batches.                       family: lapack
//
// Calls    the first argument is the address of LAPACK's or BLAS's function, which Python looks up
//          in SciPy. The second is true if the matrices are divided among the library's threads
//          (see `over`). Flags follow.
// Shapes   operands have any strides, and their batches broadcast; results are dense batches of
//          column-major matrices.
// Types    f32, f64, c64, c128; pivots and info i32, as in LAPACK.
// Own      for real matrices of up to TINY rows (tiny.h), our own loops compute LU, solutions and
//          Cholesky; the address is 0.
#include "tiny.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

template <class T> using Getrf = void(int* m, int* n, T* a, int* lda, int* pivots, int* info);
template <class T>
using Getrs = void(char* trans, int* n, int* columns, T* a, int* lda, int* pivots, T* b, int* ldb,
                   int* info);
template <class T> using Potrf = void(char* uplo, int* n, T* a, int* lda, int* info);
template <class T>
using Trsm = void(char* side, char* uplo, char* trans, char* diagonal, int* m, int* n, T* alpha,
                  T* a, int* lda, T* b, int* ldb);

// --- LU ------------------------------------------------------------------------------------------

// (getrf, shares; a, lu, pivots, info)
template <class T> static i64 lu_factor(const Call& call) {
  const auto getrf = (Getrf<T>*)call.integer[0];
  const Array& a = call.array[0];
  T* lu = (T*)call.array[1].data;
  int *pivots = (int*)call.array[2].data, *info = (int*)call.array[3].data;
  const i64 m = rows_of(a), n = columns_of(a), k = smaller(m, n);
  over(call, call.integer[1], items(a, 2), m * n * k, [&](i64 first, i64 last) {
    if constexpr (!is_pair<T>)
      if (!getrf) return factorise_tiny(a, lu, pivots, info, first, last);
    for (i64 unit = first; unit < last; ++unit) {
      T* to = lu + unit * m * n;
      int rows = (int)m, columns = (int)n, found = 0;
      by_columns(to, a, unit);
      getrf(&rows, &columns, to, &rows, pivots + unit * k, &found);
      info[unit] = found > 0 ? found : 0;
    }
  });
  return 0;
}

// (getrs, shares, is_transposed; lu by columns, pivots, b or None for the identity, x)
template <class T> static i64 lu_solve(const Call& call) {
  const auto getrs = (Getrs<T>*)call.integer[0];
  const Array &lu = call.array[0], &pivots = call.array[1], &b = call.array[2], &x = call.array[3];
  const i64 n = rows_of(x), columns = columns_of(x);
  char trans = call.integer[2] ? 'T' : 'N';
  if constexpr (!is_pair<T>) {
    if (!getrs) {
      over(call, call.integer[1], items(x, 2), n * n * columns, [&](i64 first, i64 last) {
        solve_tiny(lu, pivots, b, (T*)x.data, columns, first, last);
      });
      return 0;
    }
  }
  const i64 operations = n * n * columns;
  over_columns(call, call.integer[1], items(x, 2), columns, operations, [&](i64 unit, i64 first,
                                                                            i64 count) {
    T* to = (T*)x.data + (unit * columns + first) * n;
    int size = (int)n, wide = (int)count, found = 0;
    if (b.data) {
      by_columns(to, b, unit, first, count);
    } else {
      memset((void*)to, 0, n * count * sizeof(T));
      for (i64 j = 0; j < count; ++j) *(part<T>*)(to + j * n + first + j) = 1;
    }
    getrs(&trans, &size, &wide, (T*)item(lu, 2, unit), &size, (int*)item(pivots, 1, unit), to,
          &size, &found);
  });
  return 0;
}

// --- determinants --------------------------------------------------------------------------------

template <class T> static inline T product(T a, T b) {
  if constexpr (is_pair<T>) {
    return T{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  } else {
    return a * b;
  }
}

template <class T> static inline T signed_one(const int* pivots, i64 n) {
  bool is_negative = false;
  for (i64 k = 0; k < n; ++k) is_negative ^= pivots[k] != k + 1;
  T one = {};
  *(part<T>*)&one = is_negative ? -1 : 1;
  return one;
}

// (column-major lu, pivots, determinant): the product of the diagonal elements, in order
template <class T> static i64 det(const Call& call) {
  const Array &lu = call.array[0], &pivots = call.array[1];
  const i64 n = rows_of(lu);
  over(call, true, items(lu, 2), n, [&](i64 first, i64 last) {
    for (i64 unit = first; unit < last; ++unit) {
      const T* a = (const T*)item(lu, 2, unit);
      T made = a[0];
      for (i64 k = 1; k < n; ++k) made = product(made, a[k * n + k]);
      const T sign = signed_one<T>((const int*)item(pivots, 1, unit), n);
      if constexpr (is_pair<T>) {
        made = product(made, sign);
      } else {
        made *= sign;
      }
      ((T*)call.array[2].data)[unit] = made;
    }
  });
  return 0;
}

static inline f32 size_of(f32 x) { return fabsf(x); }
static inline f64 size_of(f64 x) { return fabs(x); }
static inline f32 size_of(z64 x) { return hypotf(x.re, x.im); }
static inline f64 size_of(z128 x) { return hypot(x.re, x.im); }

constexpr int SUMS = 8;  // sums of logarithms, in lanes

template <class R>
__attribute__((noinline)) static void add_logarithms(R (&sums)[SUMS], const R* sizes) {
  for (int k = 0; k < SUMS; ++k) sums[k] += math_log(sizes[k]);
}

// (column-major lu, pivots, sign, logarithm of the absolute value)
template <class T> static i64 slogdet(const Call& call) {
  typedef part<T> R;
  const Array &lu = call.array[0], &pivots = call.array[1];
  const i64 n = rows_of(lu);
  over(call, true, items(lu, 2), 4 * n, [&](i64 first, i64 last) {
    for (i64 unit = first; unit < last; ++unit) {
      const T* a = (const T*)item(lu, 2, unit);
      T sign = signed_one<T>((const int*)item(pivots, 1, unit), n);
      R sums[SUMS] = {}, sizes[SUMS];
      for (i64 from = 0; from < n; from += SUMS) {
        for (i64 k = from; k < from + SUMS; ++k) {
          sizes[k - from] = 1;
          if (k >= n) continue;
          const T value = a[k * n + k];
          const R size = sizes[k - from] = size_of(value);
          T one = {};
          if (size != 0) {
            if constexpr (is_pair<T>) {
              one = T{value.re / size, value.im / size};
            } else {
              one = value / size;
            }
          }
          sign = product(sign, one);
        }
        add_logarithms(sums, sizes);
      }
      for (int half = SUMS / 2; half; half /= 2)
        for (int k = 0; k < half; ++k) sums[k] += sums[k + half];
      ((T*)call.array[2].data)[unit] = sign;
      ((R*)call.array[3].data)[unit] = sums[0];
    }
  });
  return 0;
}

// --- Cholesky, triangles -------------------------------------------------------------------------

// (potrf, shares, is_upper; a, factor, info)
template <class T> static i64 cholesky(const Call& call) {
  const auto potrf = (Potrf<T>*)call.integer[0];
  const bool is_upper = call.integer[2];
  const Array& a = call.array[0];
  T* factor = (T*)call.array[1].data;
  int* info = (int*)call.array[2].data;
  const i64 n = rows_of(a);
  over(call, call.integer[1], items(a, 2), n * n * n, [&](i64 first, i64 last) {
    if constexpr (!is_pair<T>)
      if (!potrf) return cholesky_tiny(a, is_upper, factor, info, first, last);
    for (i64 unit = first; unit < last; ++unit) {
      T* to = factor + unit * n * n;
      int size = (int)n, found = 0;
      char uplo = is_upper ? 'U' : 'L';
      by_columns(to, a, unit);
      potrf(&uplo, &size, to, &size, &found);
      for (i64 j = 0; j < n; ++j) {
        T* column = to + j * n;
        const i64 begin = is_upper ? j + 1 : 0, end = is_upper ? n : j;
        if (begin < end) memset((void*)(column + begin), 0, (end - begin) * sizeof(T));
        const part<T>* entry = (const part<T>*)(column + j);
        const bool is_nan = entry[0] != entry[0] || (is_pair<T> && entry[1] != entry[1]);
        if (is_nan && !found) found = (int)j + 1;  // OpenBLAS would continue with NaN
      }
      info[unit] = found;
    }
  });
  return 0;
}

// (trsm, shares, is_upper, is_left, is_unit; a, b, x)
template <class T> static i64 solve_triangular(const Call& call) {
  const auto trsm = (Trsm<T>*)call.integer[0];
  const Array &a = call.array[0], &b = call.array[1], &x = call.array[2];
  const i64 n = rows_of(a), m = rows_of(b), columns = columns_of(b);
  const i64 down = a.stride[a.ndim - 2], across = a.stride[a.ndim - 1], size = sizeof(T);
  // A matrix with dense rows is its transpose with dense columns.
  const bool is_ready = are_by_columns<T>(a);
  const bool is_turned = !is_ready && across == size && down == n * size;
  const bool is_upper = (call.integer[2] != 0) != is_turned, is_left = call.integer[3];
  i64 answer = 0;
  const auto solve = [&](i64 unit, i64 first, i64 count) {
    Room room(is_ready || is_turned ? 0 : Room::bytes_of<T>(n * n));
    T *to = (T*)x.data + (unit * columns + first) * m, *triangle = (T*)item(a, 2, unit);
    if (!is_ready && !is_turned) {
      if (!room) return note(&answer, NO_MEMORY);
      by_columns(triangle = room.take<T>(n * n), a, unit);
    }
    by_columns(to, b, unit, first, count);
    char side = is_left ? 'L' : 'R', uplo = is_upper ? 'U' : 'L', trans = is_turned ? 'T' : 'N';
    char diagonal = call.integer[4] ? 'U' : 'N';
    int high = (int)m, wide = (int)count, lda = (int)n;
    T one = {};
    *(part<T>*)&one = 1;
    trsm(&side, &uplo, &trans, &diagonal, &high, &wide, &one, triangle, &lda, to, &high);
  };
  // Columns of A X = B do not depend on each other; those of X A = B do.
  const i64 operations = m * columns * n;
  if (is_left) {
    over_columns(call, call.integer[1], items(x, 2), columns, operations, solve);
  } else {
    over(call, call.integer[1], items(x, 2), operations, [&](i64 first, i64 last) {
      for (i64 unit = first; unit < last; ++unit) solve(unit, 0, columns);
    });
  }
  return answer;
}

static const abi::FunctionEntry functions[] = {
#define X(OP)                                                                            \
  {#OP " f32", OP<f32>, true}, {#OP " f64", OP<f64>, true}, {#OP " c64", OP<z64>, true}, \
      {#OP " c128", OP<z128>, true},
    X(lu_factor) X(lu_solve) X(det) X(slogdet) X(cholesky) X(solve_triangular)
#undef X
};
extern const abi::Family lapack = {"lapack", functions};

}  // namespace CAPABILITY
