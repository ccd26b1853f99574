// Products of small matrices by our own loops, and of other matrices by BLAS.
//
// Order    an element of the result is one sum over ascending k; its bits depend on nothing else.
#ifndef GPUTENSOR_PRODUCTS
#define GPUTENSOR_PRODUCTS

#include <sched.h>
#include <sys/mman.h>

#include <atomic>

#include "matrices.h"

namespace CAPABILITY {

// A matrix in memory; steps count elements.
template <class T> struct Matrix {
  T* data;
  i64 row, column;
};

template <class T, int BYTES> struct vector_of;
#define X(T, BYTES)                                     \
  template <> struct vector_of<T, BYTES> {              \
    typedef T type __attribute__((vector_size(BYTES))); \
  };
X(f32, 32)
X(f32, 16) X(f64, 32) X(f64, 16)
#undef X
    template <class T>
    struct vector_of<T, sizeof(T)> {
  typedef T type;
};

// ROWS x (VECTORS vectors of BYTES) of out = a @ b, with sums in registers. Rows of b and out are
// dense.
template <class T, int BYTES, int VECTORS, int ROWS>
static inline void block(const T* a, i64 a_row, i64 a_column, const T* b, i64 b_row, T* out,
                         i64 out_row, i64 k) {
  typedef typename vector_of<T, BYTES>::type vector;
  constexpr int LANES = BYTES / sizeof(T);
  vector sum[ROWS][VECTORS] = {};
  for (i64 j = 0; j < k; ++j) {
    vector right[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) memcpy(&right[v], b + j * b_row + v * LANES, BYTES);
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      const T left = a[r * a_row + j * a_column];
#pragma GCC unroll 2
      for (int v = 0; v < VECTORS; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; ++v) memcpy(out + r * out_row + v * LANES, &sum[r][v], BYTES);
}

template <class T, int BYTES, int VECTORS>
static inline void column_block(Matrix<const T> a, const T* b, i64 b_row, T* out, i64 out_row,
                                i64 m, i64 k) {
  i64 i = 0;
  for (; i + 4 <= m; i += 4)
    block<T, BYTES, VECTORS, 4>(a.data + i * a.row, a.row, a.column, b, b_row, out + i * out_row,
                                out_row, k);
  for (; i < m; ++i)
    block<T, BYTES, VECTORS, 1>(a.data + i * a.row, a.row, a.column, b, b_row, out + i * out_row,
                                out_row, k);
}

// out (m, n) = a (m, k) @ b (k, n)
template <class T>
static void small_product(Matrix<const T> a, const T* b, i64 b_row, T* out, i64 out_row, i64 m,
                          i64 n, i64 k) {
  constexpr i64 LONG = 32 / sizeof(T), SHORT = 16 / sizeof(T);
  i64 j = 0;
  for (; j + 2 * LONG <= n; j += 2 * LONG)
    column_block<T, 32, 2>(a, b + j, b_row, out + j, out_row, m, k);
  for (; j + LONG <= n; j += LONG) column_block<T, 32, 1>(a, b + j, b_row, out + j, out_row, m, k);
  for (; j + SHORT <= n; j += SHORT)
    column_block<T, 16, 1>(a, b + j, b_row, out + j, out_row, m, k);
  for (; j < n; ++j) column_block<T, sizeof(T), 1>(a, b + j, b_row, out + j, out_row, m, k);
}

// The permission of a thread to call BLAS. OpenBLAS ends the process if it cannot allocate a buffer
// for a call, and keeps its buffers. So more threads than before may call it only if the address
// space has room for another buffer; otherwise a thread waits for another one to finish. The first
// call has the buffer that Python made BLAS allocate (runtime/blas.py).
class BlasCall {
 public:
  BlasCall() {
    for (int now = inside.load();;) {
      if (now >= most.load() && now != 0 && !has_room()) {
        sched_yield();
        now = inside.load();
      } else if (inside.compare_exchange_weak(now, now + 1)) {
        for (int had = most.load(); had <= now && !most.compare_exchange_weak(had, now + 1);) {
        }
        return;
      }
    }
  }
  ~BlasCall() { --inside; }
  BlasCall(const BlasCall&) = delete;

 private:
  static bool has_room() {
    constexpr size_t BUFFER = 64 << 20;
    void* const room = mmap(nullptr, BUFFER, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, BUFFER) == 0;
  }

  static inline std::atomic<int> inside{0}, most{1};
};

// The function of BLAS, with the integer type of its library.
template <class T, class I>
using Gemm = void(char* trans_a, char* trans_b, I* m, I* n, I* k, T* alpha, T* a, I* lda, T* b,
                  I* ldb, T* beta, T* c, I* ldc);

// out (m, n) = a (m, k) @ b (k, n), rows of out dense; rows or columns of a and b are dense. If
// `adds`, the product is added to out.
template <class T> struct BlasProduct {
  void* address;
  bool has_wide_integers;

  void operator()(Matrix<const T> a, Matrix<const T> b, T* out, i64 out_row, i64 m, i64 n, i64 k,
                  bool adds = false) const {
    if (has_wide_integers) {
      call<i64>(a, b, out, out_row, m, n, k, adds);
    } else {
      call<i32>(a, b, out, out_row, m, n, k, adds);
    }
  }

 private:
  // BLAS is column-major. Dense rows are the columns of the transpose, so it computes out^T = b^T @
  // a^T.
  template <class I>
  void call(Matrix<const T> a, Matrix<const T> b, T* out, i64 out_row, i64 m, i64 n, i64 k,
            bool adds) const {
    const BlasCall call;
    T one = {}, beta = {};
    *(part<T>*)&one = 1;
    *(part<T>*)&beta = adds;
    const bool is_a_turned = a.column != 1 && k != 1, is_b_turned = b.column != 1 && n != 1;
    char trans_a = is_a_turned ? 'T' : 'N', trans_b = is_b_turned ? 'T' : 'N';
    I high = (I)m, wide = (I)n, inner = (I)k, ldc = (I)out_row;
    I lda = (I)larger(is_a_turned ? a.column : a.row, is_a_turned ? m : k);
    I ldb = (I)larger(is_b_turned ? b.column : b.row, is_b_turned ? k : n);
    ((Gemm<T, I>*)address)(&trans_b, &trans_a, &wide, &high, &inner, &one, (T*)b.data, &ldb,
                           (T*)a.data, &lda, &beta, out, &ldc);
  }
};

}  // namespace CAPABILITY

#endif
