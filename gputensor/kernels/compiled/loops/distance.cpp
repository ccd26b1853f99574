// Distances of rows to rows, and their gradients.                                 family: distance
//
// Calls    distances(x (b, n, m), y (b, k, m), out, p): out is (b, n, k); or, with x = y and b = 1,
//          (n (n - 1) / 2): the distances of each row to later rows; products_to_distances(x, y,
//          out (b, n, k)): out contains the products of rows, and receives distances with p = 2;
//          distance_slopes(grad, x, y, distances, out (b, n, m), p): the gradient of x.
// Returns  0; -1 if operators must do it, as for p other than 0, 1, 2 and inf.
// Shapes   x, y and the gradient of x row-major; other arrays of any strides.
// Types    f32 and f64, the same for all arrays.
// Order    of a distance: as in rows.h. Of a gradient: rows of y from the first one on.
// Numbers  if a distance or a difference is 0, its gradient is 0.
// Threads  each thread computes some rows of x.
#include "matrices.h"
#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

namespace {

#define LOOP __attribute__((noinline)) static void

enum Kind { COUNT, SUM, ROOT, MOST };  // p: 0, 1, 2, inf

template <class T> struct Pairs {
  const T *x, *y;
  const Array *distances, *grad;
  T* out;
  i64 rows, others, width;
  bool is_condensed;
};

// The address of the number for a pair. i and j differ if each pair is stored once.
template <class T>
static char* of_pair(const Pairs<T>& s, const Array& a, i64 batch, i64 i, i64 j) {
  if (!s.is_condensed) return a.data + batch * a.stride[0] + i * a.stride[1] + j * a.stride[2];
  const i64 low = smaller(i, j), high = larger(i, j);
  return a.data + (low * (2 * s.rows - low - 1) / 2 + high - low - 1) * a.stride[0];
}

template <class T> static inline vector<T> size_of(vector<T> x) { return x < 0 ? -x : x; }

template <class T, Kind KIND> static inline vector<T> term(vector<T> apart) {
  if (KIND == COUNT) return apart == 0 ? vector<T>{} : vector<T>{} + 1;
  return KIND == ROOT ? apart * apart : size_of<T>(apart);
}

// The sum of `of(vectors)` over rows of n elements.
template <class T, class Of, class... X> static inline T sum_of_row(i64 n, Of of, const X*... x) {
  T sum = 0;
  for (i64 k = 0; k < n; k += PIECE) sum += sum_of_piece<T>(smaller(PIECE, n - k), of, x + k...);
  return sum;
}

template <class T> static inline T largest_term(const T* x, const T* y, i64 n) {
  T most = 0;
  for (i64 k = 0; k < n; ++k) {
    const T size = math_abs(x[k] - y[k]);
    most = size > most || size != size ? size : most;
  }
  return most;
}

template <class T, Kind KIND> static T length(const T* x, const T* y, i64 n) {
  if constexpr (KIND == MOST) {
    return largest_term(x, y, n);
  } else {
    const T sum = sum_of_row<T>(
        n, [](vector<T> a, vector<T> b) { return term<T, KIND>(a - b); }, x, y);
    return KIND == ROOT ? math_sqrt(sum) : sum;
  }
}

template <class T, Kind KIND> static void distances_of(const Pairs<T>& s, i64 first, i64 last) {
  for (i64 unit = first; unit < last; ++unit) {
    const i64 batch = unit / s.rows, i = unit % s.rows;
    const T *x = s.x + unit * s.width, *y = s.y + batch * s.others * s.width;
    for (i64 j = s.is_condensed ? i + 1 : 0; j < s.others; ++j)
      *(T*)of_pair(s, *s.distances, batch, i, j) =
          length<T, KIND>(x, y + j * s.width, s.width);
  }
}

template <class T> static inline T sign_of(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x; }

// Add the contribution of one distance. by: its gradient, divided by the factors common to all
// elements.
template <class T, Kind KIND>
LOOP add_slope(T* to, const T* x, const T* y, T by, T size, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    const T apart = x[k] - y[k], away = math_abs(apart);
    T slope = apart;
    if (KIND == SUM) slope = sign_of(apart);
    if (KIND == MOST) slope = away == size ? sign_of(apart) : (T)0;
    if (KIND == COUNT) slope = 0;
    to[k] += slope * by;
  }
}

template <class T, Kind KIND> static void slopes_of(const Pairs<T>& s, i64 first, i64 last) {
  for (i64 unit = first; unit < last; ++unit) {
    const i64 batch = unit / s.rows, i = unit % s.rows;
    const T *x = s.x + unit * s.width, *y = s.y + batch * s.others * s.width;
    T* to = s.out + unit * s.width;
    memset(to, 0, s.width * sizeof(T));
    for (i64 j = 0; j < s.others; ++j) {
      if (s.is_condensed && i == j) continue;
      const T size = *(const T*)of_pair(s, *s.distances, batch, i, j);
      T by = *(const T*)of_pair(s, *s.grad, batch, i, j);
      if (KIND == ROOT) by = size == 0 ? (T)0 : by / size;
      add_slope<T, KIND>(to, x, y + j * s.width, by, size, s.width);
    }
  }
}

// --- distances from products ---------------------------------------------------------------------

template <class T> struct Products {
  const T *x, *y;
  T *out, *squares;  // squares: the sums of squares of the rows of y
  i64 rows, others, width;
};

template <class T> static inline T square_of(const T* x, i64 n) {
  return sum_of_row<T>(n, [](vector<T> a) { return a * a; }, x);
}

template <class T> static void squares_of(const Products<T>& s, i64 first, i64 last) {
  for (i64 unit = first; unit < last; ++unit)
    s.squares[unit] = square_of(s.y + unit * s.width, s.width);
}

template <class T> LOOP end_row(T* out, T own, const T* squares, i64 n) {
  for (i64 j = 0; j < n; ++j) {
    const T square = out[j] * -2 + own + squares[j];
    out[j] = math_sqrt(square < 0 ? (T)0 : square);
  }
}

template <class T> static void rows_from_products(const Products<T>& s, i64 first, i64 last) {
  for (i64 unit = first; unit < last; ++unit)
    end_row(s.out + unit * s.others, square_of(s.x + unit * s.width, s.width),
            s.squares + unit / s.rows * s.others, s.others);
}

// --- calls --------------------------------------------------------------------------------------

template <class T>
static bool begin(Pairs<T>& s, const Array& x, const Array& y, const Array& distances) {
  if (x.dtype != code_of<T> || y.dtype != code_of<T> || distances.dtype != code_of<T>) return false;
  s.x = (const T*)x.data, s.y = (const T*)y.data, s.distances = &distances;
  s.rows = x.shape[1], s.others = y.shape[1], s.width = x.shape[2];
  s.is_condensed = distances.ndim == 1;
  return true;
}

template <class T, template <class, Kind> class Body>
static i64 share(const Call& call, Pairs<T>& s, i64 units) {
  const double p = call.real[0], inf = __builtin_inf();
  if (p != 0 && p != 1 && p != 2 && p != inf) return -1;
  const auto run = p == 0   ? Body<T, COUNT>::run
                   : p == 1 ? Body<T, SUM>::run
                   : p == 2 ? Body<T, ROOT>::run
                            : Body<T, MOST>::run;
  call.share(as_body(run), &s, units, larger(1, GRAIN / larger(1, s.others * s.width)));
  return 0;
}

template <class T, Kind KIND> struct Distances {
  static constexpr auto run = distances_of<T, KIND>;
};
template <class T, Kind KIND> struct Slopes {
  static constexpr auto run = slopes_of<T, KIND>;
};

template <class T> static i64 distances(const Call& call) {
  Pairs<T> s = {};
  const Array& x = call.array[0];
  if (!begin(s, x, call.array[1], call.array[2])) return -1;
  return share<T, Distances>(call, s, x.shape[0] * s.rows);
}

template <class T> static i64 distance_slopes(const Call& call) {
  Pairs<T> s = {};
  const Array& x = call.array[1];
  if (!begin(s, x, call.array[2], call.array[3])) return -1;
  s.grad = call.array, s.out = (T*)call.array[4].data;
  if (s.grad->dtype != code_of<T>) return -1;
  return share<T, Slopes>(call, s, x.shape[0] * s.rows);
}

template <class T> static i64 from_products(const Call& call) {
  const Array &x = call.array[0], &y = call.array[1], &out = call.array[2];
  if (y.dtype != code_of<T> || out.dtype != code_of<T>) return -1;
  const i64 batch = x.shape[0], width = x.shape[2];
  Products<T> s = {(const T*)x.data, (const T*)y.data, (T*)out.data, nullptr,
                   x.shape[1],       y.shape[1],       width};
  Room room(Room::bytes_of<T>(batch * s.others));
  if (!room) return -1;
  s.squares = room.take<T>(batch * s.others);
  call.share(as_body(squares_of<T>), &s, batch * s.others, larger(1, GRAIN / larger(1, width)));
  call.share(as_body(rows_from_products<T>), &s, batch * s.rows,
             larger(1, GRAIN / larger(1, width + s.others)));
  return 0;
}

const abi::FunctionEntry functions[] = {
    {"distances", by_dtype<distances<f32>, distances<f64>>, true},
    {"products_to_distances", by_dtype<from_products<f32>, from_products<f64>>, true},
    {"distance_slopes", by_dtype<distance_slopes<f32>, distance_slopes<f64>>, true},
};

}  // namespace

extern const abi::Family distance = {"distance", functions};

}  // namespace CAPABILITY
