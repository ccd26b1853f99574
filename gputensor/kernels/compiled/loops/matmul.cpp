// out[u] = a[u] @ b[u] of batches of matrices.                                      family: matmul
//
// Calls    bmm(address of BLAS's gemm, true if its integers have 64 bits; a, b, out). With the
//          address 0 our own loops run, which are faster for small matrices of f32 and f64.
//          product(a, b, out): bf16 by the CPU's own instructions; returns 1 if the CPU has none.
// Shapes   a (u, m, k) and b (u, k, n) of any strides; rows of out are dense. k = 0 gives zeros.
// Types    f32, f64, c64, c128. For product, a and b are bf16, and out is bf16 or f32.
// Threads  one thread computes a product of a batch; BLAS must use one thread meanwhile. The tiles
//          of product(a, b, out) are divided among threads.
#include "products.h"
#include "products_bf16.h"

namespace CAPABILITY {

// A matrix of a batch: in place, or a copy with dense rows.
template <class T>
static Matrix<const T> ready(const Array& of, i64 unit, T* room, bool takes_columns) {
  const i64 rows = of.shape[1], columns = of.shape[2], size = sizeof(T);
  const T* from = (const T*)(of.data + unit * of.stride[0]);
  const i64 down = of.stride[1], across = of.stride[2];
  // BLAS requires rows or columns that are dense and do not overlap.
  const auto are_lines = [&](i64 lines, i64 apart, i64 length, i64 beside) {
    return (length == 1 || beside == size) && (lines == 1 || apart >= length * size);
  };
  if (are_lines(rows, down, columns, across)) return {from, rows == 1 ? columns : down / size, 1};
  if (takes_columns && are_lines(columns, across, rows, down))
    return {from, 1, columns == 1 ? rows : across / size};
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      room[i * columns + j] = *(const T*)((const char*)from + i * down + j * across);
  return {room, columns, 1};
}

template <class T> static i64 bmm(const Call& call) {
  const BlasProduct<T> blas = {(void*)call.integer[0], call.integer[1] != 0};
  const Array &a = call.array[0], &b = call.array[1], &out = call.array[2];
  const i64 m = out.shape[1], n = out.shape[2], k = a.shape[2], size = sizeof(T);
  const i64 row = m == 1 ? n : out.stride[1] / size;
  i64 answer = 0;
  over(call, true, out.shape[0], m * n * k / 4, [&](i64 first, i64 last) {
    Room room(Room::bytes_of<T>(m * k) + Room::bytes_of<T>(k * n));
    if (!room) return note(&answer, NO_MEMORY);
    T *of_a = room.take<T>(m * k), *of_b = room.take<T>(k * n);
    for (i64 unit = first; unit < last; ++unit) {
      T* to = (T*)(out.data + unit * out.stride[0]);
      const Matrix<const T> right = ready(b, unit, of_b, blas.address != nullptr);
      if constexpr (!is_pair<T>)
        if (!blas.address) {
          const Matrix<const T> left = {(const T*)(a.data + unit * a.stride[0]), a.stride[1] / size,
                                        a.stride[2] / size};
          small_product(left, right.data, right.row, to, row, m, n, k);
          continue;
        }
      blas(ready(a, unit, of_a, true), right, to, row, m, n, k);
    }
  });
  return answer;
}

static const abi::FunctionEntry functions[] = {
    {"bmm f32", bmm<f32>},
    {"bmm f64", bmm<f64>},
    {"bmm c64", bmm<z64>},
    {"bmm c128", bmm<z128>},
    {"product bf16", product_of_pairs, true},
};
extern const abi::Family matmul = {"matmul", nullptr, 0, functions,
                                   sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
