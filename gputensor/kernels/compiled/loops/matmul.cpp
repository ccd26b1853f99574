// out = a @ b of matrices and of batches of matrices.                                family: matmul
//
// Calls    gemm(a, b, out) and gemm(a, b, out, self): self + a @ b; self may be out (gemm.h).
//          small(a, b, out): the same as gemm, faster for small matrices.
//          mm(address of BLAS's gemm, true if its integers have 64 bits; a, b, out) by BLAS, and
//          mm(the same integers; a, b, out, self).
//          product(a, b, out): bf16 by the CPU's own instructions; returns 1 if the CPU has none.
// Shapes   a (u, m, k), b (u, k, n) and out (u, m, n), or all three without u. a, b and self have
//          any strides; out has any strides in gemm, otherwise its rows are dense. self broadcasts
//          to out; if its address is that of out, it is out. k = 0 gives zeros in small and mm; in
//          gemm, k is not 0.
// Types    f32 and f64 in gemm and small; c64 and c128 in mm. For product, a and b are bf16, and
//          out is bf16 or f32.
// Threads  one thread computes a product of a batch, or a block of a large product; BLAS must use
//          one thread meanwhile. The tiles of product(a, b, out) are divided among threads.
#include "gemm.h"
#include "products.h"
#include "products_bf16.h"

namespace CAPABILITY {

// The strides of all matrices of a batch.
template <class T> struct Layout {
  i64 rows, columns, down, across;

  explicit Layout(const Array& of)
      : rows(rows_of(of)),
        columns(columns_of(of)),
        down(of.stride[of.ndim - 2]),
        across(of.stride[of.ndim - 1]) {}

  // BLAS requires rows or columns that are dense and do not overlap.
  static bool are_lines(i64 lines, i64 apart, i64 length, i64 beside) {
    const i64 size = sizeof(T);
    return (length == 1 || beside == size) && (lines == 1 || apart >= length * size);
  }
  bool has_rows() const { return are_lines(rows, down, columns, across); }
  bool has_columns() const { return are_lines(columns, across, rows, down); }
};

// Some rows and columns of a matrix: in place, or a copy with dense rows if `room` is not null.
template <class T>
static Matrix<const T> ready(const Layout<T>& of, const char* from, i64 rows, i64 columns,
                             T* room) {
  const i64 size = sizeof(T);
  if (!room) {
    if (of.has_rows()) return {(const T*)from, of.rows == 1 ? of.columns : of.down / size, 1};
    return {(const T*)from, 1, of.columns == 1 ? of.rows : of.across / size};
  }
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      room[i * columns + j] = *(const T*)(from + i * of.down + j * of.across);
  return {room, columns, 1};
}

// A matrix of a batch that is added to a product, broadcast to its shape.
template <class T> struct Added {
  const char* data;  // null if nothing is added
  i64 batch, down, across;  // bytes

  explicit Added(const Call& call) : data(nullptr), batch(0), down(0), across(0) {
    if (call.n_arrays < 4) return;
    const Array& of = call.array[3];
    const auto step = [&](int back) {
      const int d = of.ndim - back;
      return d < 0 || of.shape[d] == 1 ? 0 : of.stride[d];
    };
    data = of.data, batch = step(3), down = step(2), across = step(1);
  }

  // Write m rows from i on and n columns from j on to the rows of `to`.
  void write_rows(i64 unit, i64 i, i64 j, T* to, i64 row, i64 m, i64 n) const {
    write(data + unit * batch + i * down + j * across, down, across, to, row, m, n);
  }

 private:
  static void write(const char* from, i64 down, i64 across, T* to, i64 row, i64 m, i64 n) {
    for (i64 i = 0; i < m; ++i) {
      const char* const line = from + i * down;
      if (across == (i64)sizeof(T)) {
        memcpy(to + i * row, line, n * sizeof(T));
      } else if (across == 0) {
        const T value = *(const T*)line;
        for (i64 j = 0; j < n; ++j) to[i * row + j] = value;
      } else {
        for (i64 j = 0; j < n; ++j) to[i * row + j] = *(const T*)(line + j * across);
      }
    }
  }
};

// Blocks of a result, which are computed one by one.
struct Blocks {
  i64 height, width, down, across;  // elements; the number of blocks

  // count: the number of blocks of a result that are wanted; 0 for the whole result.
  Blocks(i64 m, i64 n, i64 count) : height(m), width(n), down(1), across(1) {
    if (!count || !m || !n) return;
    // BLAS has full speed for multiples of these. Each block reads its rows of a and its columns
    // of b, whose sum is smallest for square blocks.
    constexpr i64 ROWS = 16, COLUMNS = 64;
    i64 best = -1;
    for (i64 lines = 1; lines <= count; ++lines) {
      if (count % lines) continue;
      const i64 rows = up(m, lines, ROWS), columns = up(n, count / lines, COLUMNS);
      if (best < 0 || rows + columns < best) best = rows + columns, height = rows, width = columns;
    }
    height = smaller(height, MOST_ROWS);
    down = (m + height - 1) / height, across = (n + width - 1) / width;
  }

 private:
  // BLAS packs all columns of its first operand, which are our rows, a few hundred lines at a time,
  // and keeps the memory.
  static constexpr i64 MOST_ROWS = 1 << 14;

  static i64 up(i64 length, i64 parts, i64 unit) {
    return smaller(length, ((length + parts - 1) / parts + unit - 1) / unit * unit);
  }
};

template <class T> static i64 mm(const Call& call) {
  const BlasProduct<T> blas = {(void*)call.integer[0], call.integer[1] != 0};
  const Array &a = call.array[0], &b = call.array[1], &out = call.array[2];
  const Layout<T> of_a(a), of_b(b), of_out(out);
  const i64 m = of_out.rows, n = of_out.columns, k = of_a.columns, count = items(out, 2);
  const i64 row = m == 1 ? n : of_out.down / (i64)sizeof(T);
  const Added<T> added(call);
  const bool is_in_place = added.data == out.data, adds = added.data;
  // Blocks of fewer multiplications than LEAST cost more than they save. A thread has two blocks if
  // they are large, so that other threads can do its second one if the thread is interrupted.
  constexpr i64 LEAST = 1 << 20;
  const i64 most = count * m * n * k / LEAST, threads = call.threads;
  const i64 parts = most < 8 * threads ? smaller(most, threads) : 2 * threads;
  const Blocks blocks(m, n, count ? larger((parts + count - 1) / count, 1) : 0);
  const i64 each = blocks.down * blocks.across;
  const bool copies_a = !of_a.has_rows() && !of_a.has_columns();
  const bool copies_b = !of_b.has_rows() && !of_b.has_columns();
  const i64 size_a = copies_a ? Room::bytes_of<T>(blocks.height * k) : 0;
  const i64 size_b = copies_b ? Room::bytes_of<T>(k * blocks.width) : 0;
  i64 answer = 0;
  over(call, true, count * each, blocks.height * blocks.width * k / 4, [&](i64 first, i64 last) {
    Room room(size_a + size_b + 1);
    if (!room) return note(&answer, NO_MEMORY);
    T* const room_a = copies_a ? room.take<T>(blocks.height * k) : nullptr;
    T* const room_b = copies_b ? room.take<T>(k * blocks.width) : nullptr;
    for (i64 at = first; at < last; ++at) {
      const i64 unit = at / each;
      const i64 i = at % each / blocks.across * blocks.height;
      const i64 j = at % blocks.across * blocks.width;
      const i64 height = smaller(blocks.height, m - i), width = smaller(blocks.width, n - j);
      T* const to = (T*)item(out, 2, unit) + i * row + j;
      const char* const from_a = item(a, 2, unit) + i * of_a.down;
      const char* const from_b = item(b, 2, unit) + j * of_b.across;
      const Matrix<const T> left = ready(of_a, from_a, height, k, room_a);
      const Matrix<const T> right = ready(of_b, from_b, k, width, room_b);
      if (adds && !is_in_place) added.write_rows(unit, i, j, to, row, height, width);
      blas(left, right, to, row, height, width, k, adds);
    }
  });
  return answer;
}

template <class T> static i64 small(const Call& call) {
  const Array &a = call.array[0], &b = call.array[1], &out = call.array[2];
  const Layout<T> of_a(a), of_b(b), of_out(out);
  const i64 m = of_out.rows, n = of_out.columns, k = of_a.columns, size = sizeof(T);
  const i64 copied = of_b.has_rows() ? 0 : k * n;
  i64 answer = 0;
  over(call, true, items(out, 2), m * n * k / 4, [&](i64 first, i64 last) {
    Room room(Room::bytes_of<T>(copied));
    if (!room) return note(&answer, NO_MEMORY);
    T* const room_b = copied ? room.take<T>(copied) : nullptr;
    for (i64 unit = first; unit < last; ++unit) {
      const Matrix<const T> left = {(const T*)item(a, 2, unit), of_a.down / size,
                                    of_a.across / size};
      const Matrix<const T> right = ready(of_b, item(b, 2, unit), k, n, room_b);
      small_product(left, right.data, right.row, (T*)item(out, 2, unit), of_out.down / size, m, n,
                    k);
    }
  });
  return answer;
}

static const abi::FunctionEntry functions[] = {
    {"gemm f32", gemm<f32>},
    {"gemm f64", gemm<f64>},
    {"small f32", small<f32>},
    {"small f64", small<f64>},
    {"mm c64", mm<z64>},
    {"mm c128", mm<z128>},
    {"product bf16", product_of_pairs, true},
};
extern const abi::Family matmul = {"matmul", functions};

}  // namespace CAPABILITY
