// out[..., i, ...] = op over one axis: softmax, its logarithm, and their derivatives.
//                                                                                  family: softmax
//
// Calls    softmax(x, out, axis), softmax_backward(grad, output, out, axis); any strides.
// Types    f32 and f64; f16 and bf16 in f32, rounded once.
// Numbers  the largest element is subtracted first, so no exponential overflows. A row of -inf, or
//          with NaN or inf, gives NaN.
// Threads  one thread computes a row or a block of adjacent rows.
#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

// HAS_MOST: the row's largest element is needed. KEEPS: the result is computed from the terms.
// term: the summand; total: a function of the sum; made: the result.
struct softmax_op {
  static constexpr int INPUTS = 1;
  static constexpr bool HAS_MOST = true, KEEPS = true;
  template <class A>
  static DEVICE A term(A x, A, A most) {
    return elementary::exp_below_zero(x - most);
  }
  template <class A> static DEVICE A total(A sum) { return sum; }
  template <class A> static DEVICE A made(A term, A, A, A total) { return term / total; }
};

struct log_softmax_op {
  static constexpr int INPUTS = 1;
  static constexpr bool HAS_MOST = true, KEEPS = false;
  template <class A>
  static DEVICE A term(A x, A, A most) {
    return elementary::exp_below_zero(x - most);
  }
  template <class A> static DEVICE A total(A sum) { return math_log(sum); }
  template <class A> static DEVICE A made(A x, A, A most, A total) { return (x - most) - total; }
};

struct softmax_backward_op {
  static constexpr int INPUTS = 2;
  static constexpr bool HAS_MOST = false, KEEPS = false;
  template <class A> static DEVICE A term(A grad, A output, A) { return grad * output; }
  template <class A> static DEVICE A total(A sum) { return sum; }
  template <class A>
  static DEVICE A made(A grad, A output, A, A total) {
    return output * (grad - total);
  }
};

struct log_softmax_backward_op {
  static constexpr int INPUTS = 2;
  static constexpr bool HAS_MOST = false, KEEPS = false;
  template <class A> static DEVICE A term(A grad, A, A) { return grad; }
  template <class A> static DEVICE A total(A sum) { return sum; }
  template <class A>
  static DEVICE A made(A grad, A output, A, A total) {
    return grad - math_exp(output) * total;
  }
};

// The maximum length, in elements, of a row whose terms are kept. For a longer row, terms are
// computed twice if the result has another type than the computation.
constexpr i64 KEPT = 4 * PIECE;
// A thread processes adjacent rows together if they have this number of elements.
constexpr i64 FEWEST_COLUMNS = 128, MOST_COLUMNS = 1024, ELEMENTS = 1 << 14;
// Fewer rows are processed one by one.
constexpr i64 FEW = 8;
// Rows of at most this length are transposed, this many at a time, into adjacent lanes.
template <class Op> constexpr i64 SHORT = Op::HAS_MOST ? 64 : 32;
constexpr i64 TURNED = 64;
// The number of terms of a row that are added one after the other, if rows are adjacent.
constexpr i64 CHAIN = 128;

template <class A> constexpr A LEAST = -(A)__builtin_inff();

struct Work {
  Rows rows;
  i64 columns, blocks;  // the number of adjacent rows in a block
};

// --- one row ------------------------------------------------------------------------------------

#define LOOP __attribute__((noinline)) static void

template <class Op, class A> LOOP terms_of(A* to, const A* x, const A* y, A most, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] = Op::term(x[k], y[k], most);
}

template <class Op, class A> LOOP made_of(A* to, const A* x, const A* y, A most, A total, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] = Op::made(x[k], y[k], most, total);
}

template <class Op, class A> static void by_rows(void* context, i64 first, i64 last) {
  const Rows& rows = ((const Work*)context)->rows;
  constexpr int OUT = Op::INPUTS;
  const int dtype = rows.dtype;
  const i64 n = rows.length, *along = rows.along;
  const bool keeps = Op::KEEPS && n <= KEPT;
  alignas(64) A room[2][PIECE], kept[Op::KEEPS ? KEPT : PIECE];
  for (i64 r = first; r < last; ++r) {
    char* at[MOST_OPERANDS];
    find_row(rows, r, at);
    const auto input = [&](int k, i64 i, i64 count) {
      return widened(dtype, at[k] + i * along[k], along[k], count, room[k]);
    };
    A most = LEAST<A>, total = 0;
    for (i64 i = 0; Op::HAS_MOST && i < n; i += PIECE) {
      const i64 count = n - i < PIECE ? n - i : PIECE;
      most = largest_of(input(0, i, count), count, most);
    }
    const auto terms = [&](i64 i, i64 count) {
      A* term = keeps ? kept + i : kept;
      if (Op::KEEPS) term = writable(dtype, at[OUT] + i * along[OUT], along[OUT], term);
      const A* x = input(0, i, count);
      terms_of<Op>(term, x, OUT > 1 ? input(OUT - 1, i, count) : x, most, count);
      return (const A*)term;
    };
    for (i64 i = 0; i < n; i += PIECE) {
      const i64 count = n - i < PIECE ? n - i : PIECE;
      total += sum_of_piece<A>(count, [](vector<A> x) { return x; }, terms(i, count));
    }
    total = Op::total(total);
    for (i64 i = 0; i < n; i += PIECE) {
      const i64 count = n - i < PIECE ? n - i : PIECE;
      char* to = at[OUT] + i * along[OUT];
      A* out = writable(dtype, to, along[OUT], keeps ? kept + i : kept);
      const A* x = out;
      if (!Op::KEEPS) {
        x = input(0, i, count);
      } else if (!keeps && out == kept) {
        terms(i, count);
      }
      made_of<Op>(out, x, OUT > 1 ? input(OUT - 1, i, count) : x, most, total, count);
      narrowed(dtype, to, out, along[OUT], count);
    }
  }
}

// --- rows side by side --------------------------------------------------------------------------

template <class A> LOOP take_larger(A* most, const A* x, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) most[k] = x[k] > most[k] ? x[k] : most[k];
}

template <class Op, class A>
LOOP add_terms(A* sum, A* to, const A* x, const A* y, const A* most, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    const A term = Op::term(x[k], y[k], most[k]);
    if (Op::KEEPS) to[k] = term;
    sum[k] += term;
  }
}

template <class Op, class A>
LOOP made_side_by_side(A* to, const A* x, const A* y, const A* most, const A* total, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] = Op::made(x[k], y[k], most[k], total[k]);
}

// `columns` rows of n elements. Elements with the same index are adjacent; `along` is the distance
// of indices.
template <class Op, class A>
static void side_by_side(int dtype, char* const* at, const i64* along, i64 itemsize, i64 n,
                         i64 columns) {
  constexpr int OUT = Op::INPUTS;
  alignas(64) A room[2][MOST_COLUMNS], kept[MOST_COLUMNS], most[MOST_COLUMNS];
  alignas(64) A sum[MOST_COLUMNS], total[MOST_COLUMNS];
  const auto input = [&](int k, i64 i) {
    return widened(dtype, at[k] + i * along[k], itemsize, columns, room[k]);
  };
  for (i64 k = 0; k < columns; ++k) most[k] = LEAST<A>, total[k] = 0;
  for (i64 i = 0; Op::HAS_MOST && i < n; ++i) take_larger(most, input(0, i), columns);
  for (i64 i = 0; i < n; i += CHAIN) {
    for (i64 k = 0; k < columns; ++k) sum[k] = 0;
    for (i64 e = i; e < n && e < i + CHAIN; ++e) {
      const A* x = input(0, e);
      add_terms<Op>(sum, writable(dtype, at[OUT] + e * along[OUT], itemsize, kept), x,
                    OUT > 1 ? input(OUT - 1, e) : x, most, columns);
    }
    for (i64 k = 0; k < columns; ++k) total[k] += sum[k];
  }
  for (i64 k = 0; k < columns; ++k) total[k] = Op::total(total[k]);
  for (i64 i = 0; i < n; ++i) {
    char* to = at[OUT] + i * along[OUT];
    A* out = writable(dtype, to, itemsize, kept);
    const A *x = Op::KEEPS && out != kept ? out : input(0, i), *y = OUT > 1 ? input(OUT - 1, i) : x;
    if (Op::KEEPS && out == kept) {
      add_terms<Op>(sum, kept, x, y, most, columns);
      x = y = kept;
    }
    made_side_by_side<Op>(out, x, y, most, total, columns);
    narrowed(dtype, to, out, itemsize, columns);
  }
}

template <class Op, class A> static void by_columns(const Work& work, i64 first, i64 last) {
  const Rows& rows = work.rows;
  for (i64 block = first; block < last; ++block) {
    const i64 begin = block % work.blocks * work.columns, left = rows.size[0] - begin;
    char* at[MOST_OPERANDS];
    find_row(rows, block / work.blocks * rows.size[0] + begin, at);
    side_by_side<Op, A>(rows.dtype, at, rows.along, rows.stride[0][0], rows.length,
                        left < work.columns ? left : work.columns);
  }
}

template <class Op, class A> static void by_turned_rows(const Work& work, i64 first, i64 last) {
  const Rows& rows = work.rows;
  constexpr int OUT = Op::INPUTS;
  constexpr i64 STEP = TURNED * sizeof(A);
  const int dtype = rows.dtype;
  const i64 n = rows.length;
  alignas(64) A tile[OUT][SHORT<Op>][TURNED], room[SHORT<Op>];
  for (i64 block = first; block < last; ++block) {
    const i64 begin = block % work.blocks * TURNED, left = rows.ndim ? rows.size[0] - begin : 1;
    const i64 columns = left < TURNED ? left : TURNED;
    char *at[MOST_OPERANDS], *in_tile[OUT + 1];
    i64 along[OUT + 1];
    find_row(rows, rows.ndim ? block / work.blocks * rows.size[0] + begin : 0, at);
    for (int k = 0; k <= OUT; ++k) in_tile[k] = (char*)tile[k % OUT], along[k] = STEP;
    for (int k = 0; k < OUT; ++k) {
      const i64 next = rows.ndim ? rows.stride[k][0] : 0;
      if (is_at_hand<A>(dtype, rows.along[k])) {
        turn<A>(in_tile[k], STEP, at[k], next, columns, n);
        continue;
      }
      for (i64 r = 0; r < columns; ++r) {
        widen(room, dtype, at[k] + r * next, rows.along[k], n);
        for (i64 i = 0; i < n; ++i) tile[k][i][r] = room[i];
      }
    }
    side_by_side<Op, A>(code_of<A>, in_tile, along, sizeof(A), n, columns);
    const i64 next = rows.ndim ? rows.stride[OUT][0] : 0;
    if (is_at_hand<A>(dtype, rows.along[OUT])) {
      turn<A>(at[OUT], next, in_tile[0], STEP, n, columns);
      continue;
    }
    for (i64 r = 0; r < columns; ++r) {
      for (i64 i = 0; i < n; ++i) room[i] = tile[0][i][r];
      narrow(at[OUT] + r * next, dtype, room, rows.along[OUT], n);
    }
  }
}

// --- calls --------------------------------------------------------------------------------------

template <class Op, class A> static i64 run(const Call& call, int axis) {
  Work work;
  Rows& rows = work.rows;
  lay_out_rows(rows, call, Op::INPUTS + 1, axis);
  if (!rows.length || !rows.count) return 0;
  const i64 n = rows.length, itemsize = call.array[0].itemsize;
  const i64 beside = rows.ndim ? rows.size[0] : 1;
  bool are_beside = beside >= FEW, are_dense = true;
  for (int k = 0; k <= Op::INPUTS; ++k) {
    are_beside = are_beside && rows.stride[k][0] == itemsize;
    are_dense = are_dense && rows.along[k] == itemsize;
  }
  abi::Body body = by_rows<Op, A>;
  i64 units = rows.count, size = n;
  if ((are_beside && !are_dense) || n <= SHORT<Op>) {
    i64 columns = TURNED;
    body = as_body(by_turned_rows<Op, A>);
    if (are_beside && !are_dense) {
      body = as_body(by_columns<Op, A>);
      columns = ELEMENTS / n;
      columns = columns < FEWEST_COLUMNS ? FEWEST_COLUMNS
                : columns > MOST_COLUMNS ? MOST_COLUMNS
                                         : columns;
    }
    work.columns = columns, work.blocks = (beside + columns - 1) / columns;
    units = rows.count / beside * work.blocks;
    size = n * (beside < columns ? beside : columns);
  }
  call.share(body, &work, units, size < GRAIN ? GRAIN / size : 1);
  return 0;
}

template <class Op> static i64 softmax_call(const Call& call) {
  const int axis = (int)call.integer[0], dtype = call.array[0].dtype;
  for (int k = 1; k <= Op::INPUTS; ++k)
    if (call.array[k].dtype != dtype) return -1;
  if (dtype == abi::f64) return run<Op, f64>(call, axis);
  if (dtype != abi::f32 && dtype != abi::f16 && dtype != abi::bf16) return -1;
  return run<Op, f32>(call, axis);
}

static const abi::FunctionEntry functions[] = {
    {"softmax", softmax_call<softmax_op>},
    {"log_softmax", softmax_call<log_softmax_op>},
    {"softmax_backward", softmax_call<softmax_backward_op>},
    {"log_softmax_backward", softmax_call<log_softmax_backward_op>},
};
extern const abi::Family softmax = {"softmax", functions};

}  // namespace CAPABILITY
