// Decompositions with orthogonal factors, of batches: QR, Hermitian eigenvalues, singular values,
// and least squares by QR.                                                     family: orthogonal
//
// Calls    as in lapack.cpp. Each returns 0, NO_MEMORY, or 1 + the number of a matrix for which
//          LAPACK found no eigenvalues or singular values.
// Shapes   operands have any strides, and their batches broadcast; results are dense batches of
//          column-major matrices.
// Types    f32, f64, c64, c128; singular values and eigenvalues are real.
#include "matrices.h"

namespace CAPABILITY {

template <class T>
using Geqrf = void(int* m, int* n, T* a, int* lda, T* tau, T* work, int* size, int* info);
template <class T>
using Orgqr = void(int* m, int* n, int* k, T* a, int* lda, T* tau, T* work, int* size, int* info);
template <class T>
using Syevd = void(char* jobz, char* uplo, int* n, T* a, int* lda, T* w, T* work, int* size,
                   int* iwork, int* isize, int* info);
template <class T>
using Heevd = void(char* jobz, char* uplo, int* n, T* a, int* lda, part<T>* w, T* work, int* size,
                   part<T>* rwork, int* rsize, int* iwork, int* isize, int* info);
template <class T>
using Gesdd = void(char* jobz, int* m, int* n, T* a, int* lda, T* s, T* u, int* ldu, T* vh,
                   int* ldvh, T* work, int* size, int* iwork, int* info);
template <class T>
using GesddComplex = void(char* jobz, int* m, int* n, T* a, int* lda, part<T>* s, T* u, int* ldu,
                          T* vh, int* ldvh, T* work, int* size, part<T>* rwork, int* iwork,
                          int* info);
template <class T>
using Gelsy = void(int* m, int* n, int* columns, T* a, int* lda, T* b, int* ldb, int* pivots,
                   T* rcond, int* rank, T* work, int* size, int* info);
template <class T>
using GelsyComplex = void(int* m, int* n, int* columns, T* a, int* lda, T* b, int* ldb, int* pivots,
                          part<T>* rcond, int* rank, T* work, int* size, part<T>* rwork, int* info);

// The size of a workspace, which LAPACK writes to `work` if the given size is -1.
template <class T> static int wanted(const T& first) {
  const part<T> size = *(const part<T>*)&first;
  return (int)larger(1, (i64)size);
}

// --- QR ------------------------------------------------------------------------------------------

// (geqrf, shares; a, reflectors, tau)
template <class T> static i64 geqrf(const Call& call) {
  const auto factorise = (Geqrf<T>*)call.integer[0];
  const Array &a = call.array[0], &factor = call.array[1], &taus = call.array[2];
  const i64 m = rows_of(a), n = columns_of(a), k = smaller(m, n);
  int rows = (int)m, columns = (int)n, query = -1, info = 0;
  T first;
  factorise(&rows, &columns, (T*)factor.data, &rows, (T*)taus.data, &first, &query, &info);
  int size = wanted(first);
  i64 answer = 0;
  over(call, call.integer[1], items(a, 2), m * n * k, [&](i64 begin, i64 end) {
    Room room(Room::bytes_of<T>(size));
    if (!room) return note(&answer, NO_MEMORY);
    T* work = room.take<T>(size);
    for (i64 unit = begin; unit < end; ++unit) {
      T* to = (T*)factor.data + unit * m * n;
      int rows = (int)m, columns = (int)n, lwork = size, info = 0;
      by_columns(to, a, unit);
      factorise(&rows, &columns, to, &rows, (T*)taus.data + unit * k, work, &lwork, &info);
    }
  });
  return answer;
}

// (geqrf, orgqr, shares; a, q or None, r)
//
// a is factorised in the memory of q, or in the memory of r if r has the size of a.
template <class T> static i64 qr(const Call& call) {
  const auto factorise = (Geqrf<T>*)call.integer[0];
  const auto generate = (Orgqr<T>*)call.integer[1];
  const Array &a = call.array[0], &q = call.array[1], &r = call.array[2];
  const i64 m = rows_of(a), n = columns_of(a), k = smaller(m, n), kept = rows_of(r);
  const bool in_q = q.data && kept >= n, in_r = !in_q && kept == m;
  int rows = (int)m, columns = (int)n, count = (int)k, wide = (int)kept, query = -1, info = 0;
  T of_factor, of_q = {}, none;
  factorise(&rows, &columns, &none, &rows, &none, &of_factor, &query, &info);
  if (q.data) generate(&rows, &wide, &count, &none, &rows, &none, &of_q, &query, &info);
  int size = (int)larger(wanted(of_factor), wanted(of_q));
  i64 answer = 0;
  over(call, call.integer[2], items(a, 2), m * n * k * 2, [&](i64 begin, i64 end) {
    const i64 apart = in_q || in_r ? 0 : m * n;
    Room room(Room::bytes_of<T>(size) + Room::bytes_of<T>(k) + Room::bytes_of<T>(apart));
    if (!room) return note(&answer, NO_MEMORY);
    T *work = room.take<T>(size), *tau = room.take<T>(k), *elsewhere = room.take<T>(apart);
    for (i64 unit = begin; unit < end; ++unit) {
      T *to_q = (T*)q.data + unit * m * kept, *to_r = (T*)r.data + unit * kept * n;
      T* factor = in_q ? to_q : in_r ? to_r : elsewhere;
      int rows = (int)m, columns = (int)n, count = (int)k, wide = (int)kept, lwork = size, info = 0;
      by_columns(factor, a, unit);
      factorise(&rows, &columns, factor, &rows, tau, work, &lwork, &info);
      if (q.data && !in_q) memcpy((void*)to_q, factor, m * k * sizeof(T));
      for (i64 j = 0; j < n; ++j) {
        const i64 upper = smaller(j + 1, kept);
        if (!in_r) memcpy((void*)(to_r + j * kept), factor + j * m, upper * sizeof(T));
        memset((void*)(to_r + j * kept + upper), 0, (kept - upper) * sizeof(T));
      }
      if (q.data) generate(&rows, &wide, &count, to_q, &rows, tau, work, &lwork, &info);
    }
  });
  return answer;
}

// --- eigenvalues ---------------------------------------------------------------------------------

template <class T> struct Eigen {
  void* address;
  char jobz, uplo;
  int n, size, rsize, isize;

  int run(T* a, part<T>* w, T* work, part<T>* rwork, int* iwork) {
    int info = 0;
    if constexpr (is_pair<T>) {
      ((Heevd<T>*)address)(&jobz, &uplo, &n, a, &n, w, work, &size, rwork, &rsize, iwork, &isize,
                           &info);
    } else {
      ((Syevd<T>*)address)(&jobz, &uplo, &n, a, &n, w, work, &size, iwork, &isize, &info);
    }
    return info;
  }
};

// (syevd or heevd, shares, is_upper; a, w, vectors or None)
template <class T> static i64 eigh(const Call& call) {
  typedef part<T> R;
  const Array &a = call.array[0], &w = call.array[1], &vectors = call.array[2];
  const i64 n = rows_of(a);
  const bool has_vectors = vectors.data;
  Eigen<T> asked = {(void*)call.integer[0],
                    has_vectors ? 'V' : 'N',
                    call.integer[2] ? 'U' : 'L',
                    (int)n,
                    -1,
                    -1,
                    -1};
  T none, first;
  R real, rfirst = 1;
  int whole;
  asked.run(&none, &real, &first, &rfirst, &whole);
  asked.size = wanted(first), asked.rsize = wanted(rfirst), asked.isize = (int)larger(1, whole);
  i64 answer = 0;
  over(call, call.integer[1], items(a, 2), n * n * n * 8, [&](i64 begin, i64 end) {
    const i64 apart = has_vectors ? 0 : n * n;
    Room room(Room::bytes_of<T>(asked.size) + Room::bytes_of<R>(asked.rsize) +
              Room::bytes_of<int>(asked.isize) + Room::bytes_of<T>(apart));
    if (!room) return note(&answer, NO_MEMORY);
    T *work = room.take<T>(asked.size), *elsewhere = room.take<T>(apart);
    R* rwork = room.take<R>(asked.rsize);
    int* iwork = room.take<int>(asked.isize);
    Eigen<T> mine = asked;
    for (i64 unit = begin; unit < end; ++unit) {
      T* to = has_vectors ? (T*)vectors.data + unit * n * n : elsewhere;
      by_columns(to, a, unit);
      if (mine.run(to, (R*)w.data + unit * n, work, rwork, iwork)) note(&answer, unit + 1);
    }
  });
  return answer;
}

// --- singular values -----------------------------------------------------------------------------

template <class T> struct Singular {
  void* address;
  char jobz;
  int m, n, ldvh, size;

  int run(T* a, part<T>* s, T* u, T* vh, T* work, part<T>* rwork, int* iwork) {
    int info = 0;
    if constexpr (is_pair<T>) {
      ((GesddComplex<T>*)address)(&jobz, &m, &n, a, &m, s, u, &m, vh, &ldvh, work, &size, rwork,
                                  iwork, &info);
    } else {
      ((Gesdd<T>*)address)(&jobz, &m, &n, a, &m, s, u, &m, vh, &ldvh, work, &size, iwork, &info);
    }
    return info;
  }
};

// (gesdd, shares, is_full; a, u or None, s, vh or None)
template <class T> static i64 svd(const Call& call) {
  typedef part<T> R;
  const Array &a = call.array[0], &u = call.array[1], &s = call.array[2], &vh = call.array[3];
  const i64 m = rows_of(a), n = columns_of(a), k = smaller(m, n), most = larger(m, n);
  const bool has_vectors = u.data, is_full = call.integer[2];
  const i64 of_u = has_vectors ? m * columns_of(u) : 0, of_vh = has_vectors ? n * rows_of(vh) : 0;
  Singular<T> asked = {(void*)call.integer[0],
                       !has_vectors ? 'N'
                       : is_full    ? 'A'
                                    : 'S',
                       (int)m,
                       (int)n,
                       (int)(is_full ? n : k),
                       -1};
  T none, first;
  R real;
  int whole;
  asked.run(&none, &real, &none, &none, &first, &real, &whole);
  asked.size = wanted(first);
  // Source: the bounds in LAPACK's zgesdd
  const i64 of_vectors = larger(5 * k * k + 5 * k, 2 * most * k + 2 * k * k + k);
  const i64 rsize = !is_pair<T> ? 1 : has_vectors ? of_vectors : 7 * k;
  i64 answer = 0;
  over(call, call.integer[1], items(a, 2), m * n * k * 16, [&](i64 begin, i64 end) {
    Room room(Room::bytes_of<T>(asked.size) + Room::bytes_of<T>(m * n) + Room::bytes_of<R>(rsize) +
              Room::bytes_of<int>(8 * k));
    if (!room) return note(&answer, NO_MEMORY);
    T *work = room.take<T>(asked.size), *copied = room.take<T>(m * n);
    R* rwork = room.take<R>(rsize);
    int* iwork = room.take<int>(8 * k);
    Singular<T> mine = asked;
    for (i64 unit = begin; unit < end; ++unit) {
      by_columns(copied, a, unit);
      T *to_u = (T*)u.data + unit * of_u, *to_vh = (T*)vh.data + unit * of_vh;
      if (mine.run(copied, (R*)s.data + unit * k, to_u, to_vh, work, rwork, iwork))
        note(&answer, unit + 1);
    }
  });
  return answer;
}

// --- least squares -------------------------------------------------------------------------------

template <class T> struct Squares {
  void* address;
  int m, n, columns, ldb, size;
  part<T> rcond;

  int run(T* a, T* b, int* pivots, int* rank, T* work, part<T>* rwork) {
    int info = 0;
    if constexpr (is_pair<T>) {
      ((GelsyComplex<T>*)address)(&m, &n, &columns, a, &m, b, &ldb, pivots, &rcond, rank, work,
                                  &size, rwork, &info);
    } else {
      ((Gelsy<T>*)address)(&m, &n, &columns, a, &m, b, &ldb, pivots, &rcond, rank, work, &size,
                           &info);
    }
    return info;
  }
};

// (gelsy, shares, rcond; a, b, rows of the solution and of the rest, rank)
template <class T> static i64 gelsy(const Call& call) {
  typedef part<T> R;
  const Array &a = call.array[0], &b = call.array[1], &x = call.array[2], &ranks = call.array[3];
  const i64 m = rows_of(a), n = columns_of(a), columns = columns_of(b), high = rows_of(x);
  Squares<T> asked = {(void*)call.integer[0], (int)m, (int)n, (int)columns, (int)high, -1,
                      (R)call.real[0]};
  T none, first;
  R real;
  int whole = 0;
  asked.run(&none, &none, &whole, &whole, &first, &real);
  asked.size = wanted(first);
  i64 answer = 0;
  over(call, call.integer[1], items(a, 2), m * n * (n + columns), [&](i64 begin, i64 end) {
    Room room(Room::bytes_of<T>(asked.size) + Room::bytes_of<T>(m * n) +
              Room::bytes_of<T>(m * columns) + Room::bytes_of<R>(2 * n) + Room::bytes_of<int>(n));
    if (!room) return note(&answer, NO_MEMORY);
    T *work = room.take<T>(asked.size), *copied = room.take<T>(m * n),
      *given = room.take<T>(m * columns);
    R* rwork = room.take<R>(2 * n);
    int* pivots = room.take<int>(n);
    Squares<T> mine = asked;
    for (i64 unit = begin; unit < end; ++unit) {
      T* to = (T*)x.data + unit * high * columns;
      by_columns(copied, a, unit);
      by_columns(given, b, unit);
      for (i64 j = 0; j < columns; ++j) {
        memcpy((void*)(to + j * high), given + j * m, m * sizeof(T));
        memset((void*)(to + j * high + m), 0, (high - m) * sizeof(T));
      }
      memset(pivots, 0, n * sizeof(int));
      int rank = 0;
      mine.run(copied, to, pivots, &rank, work, rwork);
      ((i64*)ranks.data)[unit] = rank;
    }
  });
  return answer;
}

static const abi::FunctionEntry functions[] = {
#define X(OP)                                                                            \
  {#OP " f32", OP<f32>, true}, {#OP " f64", OP<f64>, true}, {#OP " c64", OP<z64>, true}, \
      {#OP " c128", OP<z128>, true},
    X(geqrf) X(qr) X(eigh) X(svd) X(gelsy)
#undef X
};
extern const abi::Family orthogonal = {"orthogonal", functions};

}  // namespace CAPABILITY
