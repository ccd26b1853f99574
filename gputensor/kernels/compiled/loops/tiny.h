// LU, its solutions and Cholesky for real matrices of up to TINY rows. As many matrices are
// processed together as a vector has lanes: element (i, j) of all of them is one vector.
//
// Order    rows are eliminated from the first column on; each element is updated once per column.
//          Quotients are computed by divisions. The pivot is the first of the largest elements, as
//          in LAPACK.
#ifndef GPUTENSOR_TINY
#define GPUTENSOR_TINY

#include "matrices.h"

namespace CAPABILITY {

constexpr int TINY = 8, TINY_COLUMNS = 16;  // columns of a right-hand side

template <class T> struct lanes_of;
template <> struct lanes_of<f32> {
  typedef f32 type __attribute__((vector_size(32)));
  typedef i32 whole __attribute__((vector_size(32)));
};
template <> struct lanes_of<f64> {
  typedef f64 type __attribute__((vector_size(32)));
  typedef i64 whole __attribute__((vector_size(32)));
};
template <class T> constexpr int LANES = 32 / sizeof(T);

template <class T> struct Tiny {
  typedef typename lanes_of<T>::type lanes;
  typedef typename lanes_of<T>::whole whole;

  int n, columns;
  lanes a[TINY][TINY], x[TINY][TINY_COLUMNS];
  whole pivot[TINY], info;  // both count from 1, as in LAPACK

  static lanes size_of(lanes value) { return value < 0 ? -value : value; }
  static bool is_any(whole mask) {
    bool any = false;
    for (int lane = 0; lane < LANES<T>; ++lane) any |= mask[lane] != 0;
    return any;
  }

  static void swap_where(whole mask, lanes& a, lanes& b) {
    const lanes first = mask ? b : a;
    b = mask ? a : b;
    a = first;
  }

  void factorise() {
    info = whole{};
    for (int k = 0; k < n; ++k) {
      lanes most = size_of(a[k][k]);
      whole row = whole{} + k;
      for (int i = k + 1; i < n; ++i) {
        const lanes size = size_of(a[i][k]);
        row = size > most ? whole{} + i : row;
        most = size > most ? size : most;
      }
      pivot[k] = row + 1;
      for (int i = k + 1; i < n; ++i) {
        const whole is_it = row == i;
        if (!is_any(is_it)) continue;
        for (int j = 0; j < n; ++j) swap_where(is_it, a[k][j], a[i][j]);
      }
      const whole is_zero = a[k][k] == 0;
      info = (is_zero & (info == 0)) ? whole{} + k + 1 : info;
      const lanes divisor = is_zero ? lanes{} + 1 : a[k][k];
      for (int i = k + 1; i < n; ++i) {
        const lanes factor = a[i][k] / divisor;
        a[i][k] = factor;
        for (int j = k + 1; j < n; ++j) a[i][j] -= factor * a[k][j];
      }
    }
  }

  void solve() {
    for (int k = 0; k < n; ++k)
      for (int i = k + 1; i < n; ++i) {
        const whole is_it = pivot[k] == i + 1;
        if (!is_any(is_it)) continue;
        for (int j = 0; j < columns; ++j) swap_where(is_it, x[k][j], x[i][j]);
      }
    for (int k = 0; k < n; ++k)
      for (int i = k + 1; i < n; ++i)
        for (int j = 0; j < columns; ++j) x[i][j] -= a[i][k] * x[k][j];
    for (int k = n - 1; k >= 0; --k) {
      for (int j = 0; j < columns; ++j) x[k][j] /= a[k][k];
      for (int i = 0; i < k; ++i)
        for (int j = 0; j < columns; ++j) x[i][j] -= a[i][k] * x[k][j];
    }
  }

  // The lower factor, in the lower triangle. Other elements are not read. A lane stops at a pivot
  // that is not positive.
  void factorise_definite() {
    info = whole{};
    for (int k = 0; k < n; ++k) {
      const whole is_bad = ~(a[k][k] > 0) & (info == 0);
      info = is_bad ? whole{} + k + 1 : info;
      const whole goes_on = info == 0;
      lanes root = a[k][k];
      for (int lane = 0; lane < LANES<T>; ++lane)
        if (goes_on[lane]) root[lane] = sqrt(root[lane]);
      a[k][k] = root;
      for (int i = k + 1; i < n; ++i) a[i][k] = goes_on ? a[i][k] / root : a[i][k];
      for (int j = k + 1; j < n; ++j)
        for (int i = j; i < n; ++i) a[i][j] -= goes_on ? a[i][k] * a[j][k] : lanes{};
    }
  }

  // Copy the lower triangle to the upper one, or the upper one to the lower one.
  void mirror(bool is_upper) {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) is_upper ? a[i][j] = a[j][i] : a[j][i] = a[i][j];
  }

  void clear(bool is_upper) {
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < i; ++j) is_upper ? a[j][i] = lanes{} : a[i][j] = lanes{};
  }

  // Copy matrix `unit` of a batch to one lane.
  template <int WIDTH> void load(lanes (*to)[WIDTH], int lane, const Array& from, i64 unit) {
    const char* at = item(from, 2, unit);
    const i64 down = from.stride[from.ndim - 2], across = from.stride[from.ndim - 1];
    const int wide = (int)columns_of(from);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < wide; ++j)
        ((T*)&to[i][j])[lane] = *(const T*)(at + i * down + j * across);
  }

  // Copy one lane to dense columns.
  template <int WIDTH> void store(T* to, lanes (*from)[WIDTH], int lane, int wide) {
    for (int j = 0; j < wide; ++j)
      for (int i = 0; i < n; ++i) to[j * n + i] = ((const T*)&from[i][j])[lane];
  }
};

// Like lu_factor of lapack.cpp.
template <class T>
static void factorise_tiny(const Array& a, T* lu, int* pivots, int* info, i64 first, i64 last) {
  Tiny<T> tiny;
  const int n = tiny.n = (int)rows_of(a);
  for (i64 unit = first; unit < last; unit += LANES<T>) {
    // Lanes after the last matrix repeat the last matrix.
    for (int lane = 0; lane < LANES<T>; ++lane)
      tiny.load(tiny.a, lane, a, smaller(unit + lane, last - 1));
    tiny.factorise();
    for (int lane = 0; lane < LANES<T> && unit + lane < last; ++lane) {
      const i64 to = unit + lane;
      tiny.store(lu + to * n * n, tiny.a, lane, n);
      for (int k = 0; k < n; ++k) pivots[to * n + k] = (int)tiny.pivot[k][lane];
      info[to] = (int)tiny.info[lane];
    }
  }
}

// Like cholesky of lapack.cpp.
template <class T>
static void cholesky_tiny(const Array& a, bool is_upper, T* factor, int* info, i64 first,
                          i64 last) {
  Tiny<T> tiny;
  const int n = tiny.n = (int)rows_of(a);
  for (i64 unit = first; unit < last; unit += LANES<T>) {
    for (int lane = 0; lane < LANES<T>; ++lane)
      tiny.load(tiny.a, lane, a, smaller(unit + lane, last - 1));
    if (is_upper) tiny.mirror(true);
    tiny.factorise_definite();
    if (is_upper) tiny.mirror(false);
    tiny.clear(!is_upper);
    for (int lane = 0; lane < LANES<T> && unit + lane < last; ++lane) {
      tiny.store(factor + (unit + lane) * n * n, tiny.a, lane, n);
      info[unit + lane] = (int)tiny.info[lane];
    }
  }
}

// Like lu_solve of lapack.cpp, for A X = B.
template <class T>
static void solve_tiny(const Array& lu, const Array& pivots, const Array& b, T* x, i64 columns,
                       i64 first, i64 last) {
  Tiny<T> tiny;
  const int n = tiny.n = (int)rows_of(lu);
  tiny.columns = (int)columns;
  for (i64 unit = first; unit < last; unit += LANES<T>) {
    if (!b.data)
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) tiny.x[i][j] = typename Tiny<T>::lanes{} + (T)(i == j);
    for (int lane = 0; lane < LANES<T>; ++lane) {
      const i64 from = smaller(unit + lane, last - 1);
      tiny.load(tiny.a, lane, lu, from);
      if (b.data) tiny.load(tiny.x, lane, b, from);
      const int* pivot = (const int*)item(pivots, 1, from);
      for (int k = 0; k < n; ++k) tiny.pivot[k][lane] = pivot[k];
    }
    tiny.solve();
    for (int lane = 0; lane < LANES<T> && unit + lane < last; ++lane)
      tiny.store(x + (unit + lane) * n * columns, tiny.x, lane, tiny.columns);
  }
}

}  // namespace CAPABILITY

#endif
