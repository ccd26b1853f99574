// out[u] = exp(a[u]) of batches of square matrices.                            family: exponential
//
// Calls    matrix_exp(address of BLAS's gemm, true if its integers have 64 bits, shares; a, out).
// Shapes   a of any strides; out dense, by columns.
// Types    f32, f64, c64, c128.
// Method   a Taylor polynomial of degree 1, 2, 4, 8, 12 or 18, chosen by the 1-norm; for larger
//          norms, the exponential of a / 2^s, squared s times. A matrix that is not finite gives
//          NaN.
// Source   Bader, Blanes, Casas: Computing the matrix exponential with an optimized Taylor
//          polynomial approximation, 2019; bounds as in PyTorch,
//          aten/src/ATen/native/LinearAlgebra.cpp.
#include "products.h"

namespace CAPABILITY {

constexpr int DEGREES = 6;
template <class R> struct bounds;
template <> struct bounds<f32> {
  static constexpr f32 of[] = {1.192092800768788e-07f, 5.978858893805233e-04f,
                               5.116619363445086e-02f, 5.800524627688768e-01f,
                               1.461661507209034e+00f, 3.010066362817634e+00f};
};
template <> struct bounds<f64> {
  static constexpr f64 of[] = {2.220446049250313e-16, 2.580956802971767e-08, 3.397168839976962e-04,
                               4.991228871115323e-02, 2.996158913811580e-01, 1.090863719290036e+00};
};

// The most rows of matrices that are multiplied by our own loops.
constexpr i64 OURS = 32;
constexpr int MATRICES = 9;  // number of matrices in a thread's memory

template <class T> static bool is_finite(T x) {
  if constexpr (is_pair<T>) {
    return is_finite(x.re) && is_finite(x.im);
  } else {
    return x - x == 0;
  }
}

template <class T> struct Exponential {
  typedef part<T> R;
  static constexpr int PARTS = sizeof(T) / sizeof(R);

  BlasProduct<T> blas;
  i64 n;
  T *a, *a2, *a3, *a6, *sum[4], *spare;  // `a` contains the matrix

  Exponential(BlasProduct<T> blas, i64 n, Room& room) : blas(blas), n(n) {
    T** all[] = {&a, &a2, &a3, &a6, &sum[0], &sum[1], &sum[2], &sum[3], &spare};
    for (T** one : all) *one = room.take<T>(n * n);
  }

  // Rows and columns may be exchanged: exp(a^T) = exp(a)^T.
  void multiply(const T* x, const T* y, T* out) const {
    if constexpr (!is_pair<T>)
      if (n <= OURS) return small_product<T>({x, n, 1}, y, n, out, n, n, n, n);
    blas({x, n, 1}, {y, n, 1}, out, n, n, n, n);
  }

  // out = c[0] + c[1] a + c[2] a2 + c[3] a3 + c[4] a6, with the first `count` terms
  void combine(T* out, const f64* c, int count) const {
    const R* from[] = {(const R*)a, (const R*)a2, (const R*)a3, (const R*)a6};
    R* to = (R*)out;
    const i64 length = n * n * PARTS;
    for (i64 i = 0; i < length; ++i) to[i] = 0;
    for (int term = 1; term < count; ++term) {
      const R* x = from[term - 1];
      const R factor = (R)c[term];
      if (factor != 0)
        for (i64 i = 0; i < length; ++i) to[i] += factor * x[i];
    }
    for (i64 i = 0; i < n; ++i) to[i * (n + 1) * PARTS] += (R)c[0];
  }

  void add(T* to, const T* x) const {
    for (i64 i = 0; i < n * n * PARTS; ++i) ((R*)to)[i] += ((const R*)x)[i];
  }

  R norm() const {
    R most = 0;
    for (i64 j = 0; j < n; ++j) {
      R total = 0;
      for (i64 i = 0; i < n; ++i) {
        const T x = a[j * n + i];
        if constexpr (is_pair<T>) {
          total += hypot(x.re, x.im);
        } else {
          total += fabs(x);
        }
      }
      most = most < total ? total : most;
    }
    return most;
  }

  void of_degree_4(T* out) {
    static constexpr f64 c[] = {0.5, 1.0 / 6, 1.0 / 24}, ones[] = {1, 1};
    combine(sum[0], c, 3);
    multiply(a2, sum[0], out);
    combine(sum[0], ones, 2);
    add(out, sum[0]);
  }

  void of_degree_8(T* out) {
    static constexpr f64 root = 13.304134695650071, x3 = 2.0 / 3;  // of 177
    static constexpr f64 first[] = {0, x3 * (1 + root) / 88, x3 * (1 + root) / 352};
    static constexpr f64 second[] = {
        (-271 + 29 * root) / (315 * x3), (-11 + 11 * root) / (1260 * x3),
        (-99 + 11 * root) / (5040 * x3), (89 - root) / (5040 * x3 * x3)};
    static constexpr f64 third[] = {0, 0, x3, 1}, last[] = {1, 1, (857 - 58 * root) / 630};
    combine(sum[0], first, 3);
    multiply(a2, sum[0], a3);  // a3 contains the fourth power
    combine(sum[0], third, 4);
    combine(sum[1], second, 4);
    multiply(sum[0], sum[1], out);
    combine(sum[0], last, 3);
    add(out, sum[0]);
  }

  void of_degree_12(T* out) {
    static constexpr f64 c[4][4] = {
        {9.0198e-16, 0.46932117595418237389, -0.20099424927047284052, -0.04623946134063071740},
        {5.31597895759871264183, 1.19926790417132231573, 0.01179296240992997031,
         0.01108844528519167989},
        {0.18188869982170434744, 0.05502798439925399070, 0.09351590770535414968,
         0.00610700528898058230},
        {-2.0861320e-13, -0.13181061013830184015, -0.02027855540589259079,
         -0.00675951846863086359}};
    multiply(a2, a, a3);
    for (int k = 0; k < 4; ++k) combine(sum[k], c[k], 4);
    multiply(sum[3], sum[3], spare);
    add(sum[2], spare);
    add(sum[1], sum[2]);
    multiply(sum[1], sum[2], out);
    add(out, sum[0]);
  }

  void of_degree_18(T* out) {
    static constexpr f64 c[5][5] = {
        {0, -1.00365581030144618291e-01, -8.02924648241156932449e-03, -8.92138498045729985177e-04,
         0},
        {0, 3.97849749499645077844e-01, 1.36783778460411720168e+00, 4.98289622525382669416e-01,
         -6.37898194594723280150e-04},
        {-1.09676396052962061844e+01, 1.68015813878906206114e+00, 5.71779846478865511061e-02,
         -6.98210122488052056106e-03, 3.34975017086070470649e-05},
        {-9.04316832390810593223e-02, -6.76404519071381882256e-02, 6.75961301770459654925e-02,
         2.95552570429315521194e-02, -1.39180257516060693404e-05},
        {0, 0, -9.23364619367118555360e-02, -1.69364939002081722752e-02,
         -1.40086798182036094347e-05}};
    multiply(a2, a, a3);
    multiply(a3, a3, a6);
    combine(sum[0], c[0], 5);
    combine(sum[1], c[4], 5);
    multiply(sum[0], sum[1], spare);
    combine(sum[0], c[3], 5);
    add(spare, sum[0]);
    combine(sum[0], c[2], 5);
    add(sum[0], spare);
    multiply(sum[0], spare, out);
    combine(sum[1], c[1], 5);
    add(out, sum[1]);
  }

  void of_matrix(T* out) {
    bool all_finite = true;
    for (i64 i = 0; i < n * n; ++i) all_finite &= is_finite(a[i]);
    const R size = norm();
    if (!all_finite || !is_finite(size)) {
      for (i64 i = 0; i < n * n * PARTS; ++i) ((R*)out)[i] = (R)__builtin_nan("");
      return;
    }
    static constexpr f64 ones[] = {1, 1, 0.5};
    const R* bound = bounds<R>::of;
    int squarings = 0;
    if (size > bound[DEGREES - 1]) {
      squarings = (int)ceil(log2((f64)size / bound[DEGREES - 1]));
      const R scale = (R)ldexp(1.0, -squarings);
      for (i64 i = 0; i < n * n * PARTS; ++i) ((R*)a)[i] *= scale;
    }
    if (size <= bound[0]) return combine(out, ones, 2);
    multiply(a, a, a2);
    if (size <= bound[1]) return combine(out, ones, 3);
    if (size <= bound[2]) return of_degree_4(out);
    if (size <= bound[3]) return of_degree_8(out);
    if (size <= bound[4]) return of_degree_12(out);
    of_degree_18(out);
    T* other = spare;
    for (int k = 0; k < squarings; ++k) {
      multiply(out, out, other);
      memcpy((void*)out, other, n * n * sizeof(T));
    }
  }
};

template <class T> static i64 matrix_exp(const Call& call) {
  const BlasProduct<T> blas = {(void*)call.integer[0], call.integer[1] != 0};
  const Array &a = call.array[0], &out = call.array[1];
  const i64 n = rows_of(a);
  i64 answer = 0;
  over(call, call.integer[2], items(a, 2), n * n * n * 8, [&](i64 first, i64 last) {
    Room room(MATRICES * Room::bytes_of<T>(n * n));
    if (!room) return note(&answer, NO_MEMORY);
    Exponential<T> exponential(blas, n, room);
    for (i64 unit = first; unit < last; ++unit) {
      by_columns(exponential.a, a, unit);
      exponential.of_matrix((T*)out.data + unit * n * n);
    }
  });
  return answer;
}

static const abi::FunctionEntry functions[] = {
    {"matrix_exp f32", matrix_exp<f32>, true},
    {"matrix_exp f64", matrix_exp<f64>, true},
    {"matrix_exp c64", matrix_exp<z64>, true},
    {"matrix_exp c128", matrix_exp<z128>, true},
};
extern const abi::Family exponential = {"exponential", functions};

}  // namespace CAPABILITY
