// out = a @ b + added, of matrices of f32 and f64, by tiles of sums in registers.
//
// A unit of work is a block of rows and a part of the columns of one result. It goes through k in
// parts of DEPTH terms. A tile broadcasts the elements of some rows of a, and multiplies them with
// up to MOST_VECTORS registers of b. The sums of a unit stay in memory that the second-level cache
// holds.
//
// Packing  b is packed to panels of a tile's columns: by each unit for itself if all rows are in
//          one block, otherwise once for all. Rows of a are read in place if they are dense.
//          Either matrix may be the one that is broadcast: out^T = b^T @ a^T.
// Order    each DEPTH terms of a sum are added from the first one on, by fused multiply-adds. These
//          sums are added in order, and `added` is added last. So the bits of an element depend
//          only on its row of a, its column of b and the element that is added.
#ifndef GPUTENSOR_GEMM
#define GPUTENSOR_GEMM

#include "matrices.h"
#include "turn.h"
#include "wide.h"

namespace CAPABILITY {

constexpr i64 DEPTH = 256;      // terms that are added without interruption
constexpr i64 MOST_ROWS = 384;  // of a unit
constexpr i64 LEAST_ROWS = 24;  // of a unit, if rows are divided among threads
constexpr i64 MOST_PANELS = 8;  // of a unit
constexpr i64 MOST_PACKED = 32 << 20;    // bytes of b that are packed for all units
constexpr i64 LEAST_PRODUCTS = 1 << 20;  // of a unit, if a product is divided among threads
template <class T> constexpr int LANES = wide<T>::LANES;
template <class T> constexpr int SUMS = wide<T>::ROWS * wide<T>::COLUMNS;  // registers of a tile
template <class T> constexpr int MOST_VECTORS = SUMS<T> == 12 ? 2 : 4;
// The most rows of a tile with V registers of columns.
template <class T, int V> constexpr int TALLEST = V == 1 ? 12 : SUMS<T> / V;

// A matrix with any strides, in bytes.
struct Operand {
  const char* data;
  i64 down, across;

  Operand at(i64 i, i64 j) const { return {data + i * down + j * across, down, across}; }
  Operand turned() const { return {data, across, down}; }
};

static inline Operand matrix_of(const Array& of, i64 unit, bool is_turned) {
  const Operand x = {item(of, 2, unit), of.stride[of.ndim - 2], of.stride[of.ndim - 1]};
  return is_turned ? x.turned() : x;
}

// to[i * row + j] = x[i, j]
template <class T> static void copy_matrix(T* to, i64 row, Operand x, i64 m, i64 n) {
  const i64 size = sizeof(T);
  if (x.across == size) {
    for (i64 i = 0; i < m; ++i) memcpy(to + i * row, x.data + i * x.down, n * size);
  } else if (x.down == size) {
    turn<T>((char*)to, row * size, x.data, x.across, n, m);
  } else {
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) to[i * row + j] = *(const T*)(x.data + i * x.down + j * x.across);
  }
}

// Rows of V registers.
template <class T> struct Rows {
  T* data;
  i64 row;  // elements
};

// Elements that are broadcast; steps count elements.
template <class T> struct Terms {
  const T* data;
  i64 row, step;  // from one row to the next, and from one term to the next
};

// to[i] = the sums over t < n of a[i][t] * b[t], plus before[i] if it is not null, for P rows of V
// registers.
template <class T, int P, int V>
static void tile(Terms<T> a, Rows<const T> b, i64 n, Rows<const T> before, Rows<T> to) {
  typedef wide<T> R;
  constexpr int L = R::LANES;
  typename R::type sum[P][V];
#pragma GCC unroll 12
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      sum[i][j] = R::zero();
      __builtin_prefetch(to.data + i * to.row + j * L, 1);
    }
  for (i64 t = 0; t < n; ++t, a.data += a.step, b.data += b.row) {
    typename R::type right[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) right[j] = R::load(b.data + j * L);
#pragma GCC unroll 12
    for (int i = 0; i < P; ++i) {
      const typename R::type left = R::all(a.data[i * a.row]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] = R::fma(left, right[j], sum[i][j]);
    }
  }
  if (before.data) {
    const typename R::type one = R::all(1);
#pragma GCC unroll 12
    for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j)
        sum[i][j] = R::fma(R::load(before.data + i * before.row + j * L), one, sum[i][j]);
  }
#pragma GCC unroll 12
  for (int i = 0; i < P; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) R::store(to.data + i * to.row + j * L, sum[i][j]);
}

template <class T>
using Tile = void (*)(Terms<T> a, Rows<const T> b, i64 n, Rows<const T> before, Rows<T> to);

// The tile of `rows` rows, at most P, and V registers.
template <class T, int V, int P = TALLEST<T, V>> static Tile<T> tile_of_rows(i64 rows) {
  if constexpr (P > 1)
    if (rows < P) return tile_of_rows<T, V, P - 1>(rows);
  return tile<T, P, V>;
}

template <class T, int V = MOST_VECTORS<T>> static Tile<T> tile_of(i64 vectors, i64 rows) {
  if constexpr (V > 1)
    if (vectors < V) return tile_of<T, V - 1>(vectors, rows);
  return tile_of_rows<T, V>(rows);
}

template <class T, int V = MOST_VECTORS<T>> static i64 tallest(i64 vectors) {
  if constexpr (V > 1)
    if (vectors < V) return tallest<T, V - 1>(vectors);
  return TALLEST<T, V>;
}

static inline i64 parts_of(i64 n, i64 most) { return (n + most - 1) / most; }

// Columns of the result that a tile computes together. The last panel may have fewer columns than
// its registers.
struct Panel { i64 first, registers, width, columns; };

// All products of a call; k is not 0.
template <class T> struct MatrixProducts {
  const Array *a, *b, *out, *added;  // added: null if nothing is added
  bool is_turned;                    // the result is computed as its transpose
  i64 count, m, n, k;
  i64 vectors, panels;               // registers of all columns, and panels of them
  i64 heights, parts;                // blocks of rows, and parts of the panels
  const T* packed;                   // parts of all products from `first_packed` on, or null
  i64 first_packed;
  i64 answer;

  Operand left(i64 unit) const {
    return is_turned ? matrix_of(*b, unit, true) : matrix_of(*a, unit, false);
  }
  Operand right(i64 unit) const {
    return is_turned ? matrix_of(*a, unit, true) : matrix_of(*b, unit, false);
  }

  Panel panel(i64 number) const {
    const i64 low = vectors * number / panels, registers = vectors * (number + 1) / panels - low;
    const i64 first = low * LANES<T>, width = registers * LANES<T>;
    return {first, registers, width, smaller(width, n - first)};
  }
  // The first panel of a part, and the first row of a block of rows.
  i64 panel_of(i64 part) const { return panels * part / parts; }
  i64 row_of(i64 height) const { return m * height / heights; }
  // The most columns of a part.
  i64 width_of_parts() const { return parts_of(panels, parts) * MOST_VECTORS<T> * LANES<T>; }

  // The matrix that is added to a product, broadcast to its shape.
  Operand addition(i64 unit) const {
    const auto step = [&](int back) {
      const int d = added->ndim - back;
      return d < 0 || added->shape[d] == 1 ? 0 : added->stride[d];
    };
    const Operand x = {added->data + unit * step(3), step(2), step(1)};
    return is_turned ? x.turned() : x;
  }

  // Pack terms [first, first + depth) of a panel: to[t][width].
  static void pack(Operand b, const Panel& panel, i64 first, i64 depth, T* to) {
    typedef wide<T> R;
    const Operand x = b.at(first, panel.first);
    if (panel.columns == panel.width && x.across == (i64)sizeof(T)) {
      for (i64 t = 0; t < depth; ++t, to += panel.width)
        for (i64 j = 0; j < panel.width; j += R::LANES)
          R::store(to + j, R::load((const T*)(x.data + t * x.down) + j));
      return;
    }
    for (i64 t = 0; panel.columns < panel.width && t < depth; ++t)
      for (i64 j = panel.columns; j < panel.width; ++j) to[t * panel.width + j] = 0;
    copy_matrix(to, panel.width, x, depth, panel.columns);
  }

  // sums[i][columns] += the elements that are added to them.
  void add(i64 unit, i64 row, i64 rows, i64 column, i64 columns, Rows<T> sums) const {
    const Operand x = addition(unit).at(row, column);
    for (i64 i = 0; i < rows; ++i) {
      const char* from = x.data + i * x.down;
      T* to = sums.data + i * sums.row;
      if (x.across == (i64)sizeof(T))
        for (i64 j = 0; j < columns; ++j) to[j] += ((const T*)from)[j];
      else
        for (i64 j = 0; j < columns; ++j) to[j] += *(const T*)(from + j * x.across);
    }
  }

  // Write the sums of a panel to `rows` rows of the result.
  static void write(Operand to, i64 rows, i64 columns, Rows<T> sums) {
    const i64 size = sizeof(T);
    char* data = (char*)to.data;
    if (to.across == size) {
      for (i64 i = 0; i < rows; ++i)
        memcpy(data + i * to.down, sums.data + i * sums.row, columns * size);
    } else if (to.down == size) {
      turn<T>(data, to.across, (const char*)sums.data, sums.row * size, rows, columns);
    } else {
      for (i64 i = 0; i < rows; ++i)
        for (i64 j = 0; j < columns; ++j)
          *(T*)(data + i * to.down + j * to.across) = sums.data[i * sums.row + j];
    }
  }

  // Some terms of some rows: in place, or copied to `room` if that is not null.
  static Terms<T> terms_of(Operand x, i64 rows, i64 depth, T* room) {
    const i64 size = sizeof(T);
    if (!room) return {(const T*)x.data, x.down / size, 1};
    if (x.down == size) {
      copy_matrix(room, rows, x.turned(), depth, rows);
      return {room, 1, rows};
    }
    copy_matrix(room, DEPTH, x, rows, depth);
    return {room, DEPTH, 1};
  }

  // Multiply terms [first, first + depth) of some rows and a panel. `held` has the sums of the
  // terms before; `a` and `b` begin at the first term.
  void multiply_panel(i64 unit, i64 row, i64 rows, const Panel& panel, i64 first, i64 depth,
                      Terms<T> a, const T* b, T* held) const {
    const Operand to = matrix_of(*out, unit, is_turned).at(row, panel.first);
    const bool is_last = first + depth == k, adds = added && is_last;
    const bool directly = is_last && panel.columns == panel.width && to.across == (i64)sizeof(T) &&
                          !(adds && added->data == out->data);
    const Rows<T> sums = {held, panel.width};
    const Rows<T> target = directly ? Rows<T>{(T*)to.data, to.down / (i64)sizeof(T)} : sums;
    const i64 tiles = parts_of(rows, tallest<T>(panel.registers));
    for (i64 t = 0; t < tiles; ++t) {
      const i64 i = rows * t / tiles, some = rows * (t + 1) / tiles - i;
      const Rows<T> into = {target.data + i * target.row, target.row};
      const Rows<const T> before = {first ? held + i * panel.width : nullptr, panel.width};
      tile_of<T>(panel.registers, some)({a.data + i * a.row, a.row, a.step}, {b, panel.width},
                                        depth, before, into);
      if (adds) add(unit, row + i, some, panel.first, panel.columns, into);
    }
    if (is_last && !directly) write(to, rows, panel.columns, sums);
  }

  // A unit: the rows of a block and the panels of a part.
  void multiply(i64 unit, i64 part, i64 height, T* sums, T* rows_of_a, T* panel_of_b) const {
    const i64 row = row_of(height), rows = row_of(height + 1) - row;
    const i64 low = panel_of(part), high = panel_of(part + 1), start = panel(low).first;
    const i64 place = (unit * parts + part - first_packed) * width_of_parts() - start;
    for (i64 first = 0; first < k; first += DEPTH) {
      const i64 depth = smaller(DEPTH, k - first);
      const Terms<T> terms = terms_of(left(unit).at(row, first), rows, depth, rows_of_a);
      for (i64 number = low; number < high; ++number) {
        const Panel of = panel(number);
        if (!packed) pack(right(unit), of, first, depth, panel_of_b);
        const T* const b =
            packed ? packed + (place + of.first) * k + first * of.width : panel_of_b;
        multiply_panel(unit, row, rows, of, first, depth, terms, b,
                       sums + (of.first - start) * rows);
      }
    }
  }

  void some(i64 first, i64 last) {
    const i64 rows = parts_of(m, heights);
    const bool copies_a = left(0).across != (i64)sizeof(T);
    const i64 in_a = copies_a ? rows * DEPTH : 0;
    const i64 in_b = packed ? 0 : DEPTH * MOST_VECTORS<T> * LANES<T>;
    Room room(Room::bytes_of<T>(rows * width_of_parts()) + Room::bytes_of<T>(in_a) +
              Room::bytes_of<T>(in_b));
    if (!room) return note(&answer, NO_MEMORY);
    T* const sums = room.take<T>(rows * width_of_parts());
    T* const rows_of_a = room.take<T>(in_a);
    T* const panel_of_b = room.take<T>(in_b);
    for (i64 at = first; at < last; ++at) {
      const i64 part = first_packed + at / heights;
      multiply(part / parts, part % parts, at % heights, sums, copies_a ? rows_of_a : nullptr,
               panel_of_b);
    }
  }

  // Choose the matrix that is broadcast, by the time in cycles of a core.
  void choose_roles() {
    const i64 size = sizeof(T);
    const auto time = [&](bool turned) {
      const Array &x = turned ? *b : *a, &y = turned ? *a : *b;
      const Operand left = matrix_of(x, 0, turned), right = matrix_of(y, 0, turned);
      const double rows = turned ? n : m, columns = turned ? m : n;
      const Operand to = matrix_of(*out, 0, turned);
      const double wide = parts_of((i64)columns, LANES<T>) * LANES<T>;
      return rows * wide * k / LANES<T> / 2 +
             k * columns * (right.across == size ? 0.25 : 0.5) +
             k * rows * (left.across == size ? 0 : left.down == size ? 0.25 : 0.5) +
             rows * columns * (to.across == size ? 0.25 : 0.5);
    };
    is_turned = time(true) < time(false);
    if (is_turned) {
      const i64 rows = m;
      m = n, n = rows;
    }
  }

  void divide(i64 threads) {
    vectors = parts_of(n, LANES<T>), panels = parts_of(vectors, MOST_VECTORS<T>);
    heights = parts_of(m, MOST_ROWS), parts = parts_of(panels, MOST_PANELS);
    const i64 most = count * m * n * k / LEAST_PRODUCTS;
    const i64 wanted = most < 8 * threads ? smaller(most, threads) : 2 * threads;
    // b is packed once for all only if there are several blocks of rows.
    const i64 most_parts = larger(panels, vectors / 2);
    while (count * heights * parts < wanted) {
      if (parts < most_parts && (heights == 1 || n / parts >= m / heights)) {
        panels = larger(panels, ++parts);
      } else if (m / heights >= 2 * LEAST_ROWS) {
        ++heights;
      } else {
        break;
      }
    }
  }

  i64 run(const Call& call) {
    choose_roles();
    divide(call.threads);
    const i64 each = m * n * k / heights / parts;
    if (heights == 1) {
      over(call, true, count * parts, each / 8, [&](i64 first, i64 last) { some(first, last); });
      return answer;
    }
    const i64 bytes = width_of_parts() * k * sizeof(T);
    const i64 together = smaller(count * parts, larger(1, MOST_PACKED / larger(1, bytes)));
    Room room(Room::bytes_of<T>(together * width_of_parts() * k));
    if (!room) return NO_MEMORY;
    T* const all = room.take<T>(together * width_of_parts() * k);
    for (; first_packed < count * parts; first_packed += together) {
      const i64 here = smaller(together, count * parts - first_packed);
      const i64 most = parts_of(panels, parts);
      over(call, true, here * most, k * MOST_VECTORS<T> * LANES<T>, [&](i64 from, i64 to) {
        for (i64 at = from; at < to; ++at) {
          const i64 part = first_packed + at / most, unit = part / parts;
          const i64 low = panel_of(part % parts), number = low + at % most;
          if (number >= panel_of(part % parts + 1)) continue;
          const Panel of = panel(number);
          pack(right(unit), of, 0, k,
               all + (at / most * width_of_parts() + of.first - panel(low).first) * k);
        }
      });
      packed = all;
      over(call, true, here * heights, each / 8, [&](i64 from, i64 to) { some(from, to); });
      if (answer) break;
    }
    return answer;
  }
};

// out = a @ b, plus the fourth array.
template <class T> static i64 gemm(const Call& call) {
  const Array &a = call.array[0], &b = call.array[1], &out = call.array[2];
  MatrixProducts<T> of = {};
  of.a = &a, of.b = &b, of.out = &out, of.added = call.n_arrays > 3 ? &call.array[3] : nullptr;
  of.count = items(out, 2), of.m = rows_of(out), of.n = columns_of(out), of.k = columns_of(a);
  return of.count && of.m && of.n ? of.run(call) : 0;
}

}  // namespace CAPABILITY

#endif
