// out[r, c] = op over x[r, 0 .. c] along one axis.                                   family: scan
//
// Calls    cumsum(x, out, axis) of one dtype; cummax(x, values, places, axis). Any strides.
// Types    f16 and bf16 are accumulated in f32, f32 in f64, c64 in c128, as in PyTorch on the CPU;
//          integers wrap around.
// Numbers  cummax and cummin return the last of equal elements, and NaN from the first NaN on. Sums
//          begin at 0.0, so a row of -0.0 gives 0.0.
// Order    a row is serial; rows are transposed, some elements at a time, to run in parallel lanes.
#include "matrices.h"
#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

// A Scan is the state of some adjacent rows of elements S. `line` processes the next element of
// each row and writes the results; `place` is its index along the rows. RESULTS: the number of
// results of a line.
struct cumsum_op {
  static constexpr int start = 0;
  template <class A> static DEVICE A of(A sum, A x) {
    if constexpr (is_pair<A>) {
      return A{sum.re + x.re, sum.im + x.im};
    } else {
      return (A)(sum + x);
    }
  }
};

struct cumprod_op {
  static constexpr int start = 1;
  template <class A> static DEVICE A of(A a, A b) {
    if constexpr (is_pair<A>) {  // Note [Sums of products]
      return A{a.re * b.re + -a.im * b.im, a.re * b.im + a.im * b.re};
    } else {
      return (A)(a * b);
    }
  }
};

template <class To, class From> static DEVICE To converted(From x) {
  if constexpr (is_pair<To>) {
    return To{(part<To>)x.re, (part<To>)x.im};
  } else {
    return (To)x;
  }
}

// Elements S are accumulated as A.
template <class Op, class S, class A, int COLUMNS> struct running {
  typedef S element;
  static constexpr int RESULTS = 1;
  A so_far[COLUMNS];

  DEVICE void begin(i64 columns, u64) {
    A first = {};
    *(part<A>*)&first = Op::start;
    for (i64 k = 0; k < columns; ++k) so_far[k] = first;
  }
  DEVICE void line(S* out, i64*, const S* x, i64, i64 columns) {
#pragma GCC ivdep
    for (i64 k = 0; k < columns; ++k) {
      so_far[k] = Op::of(so_far[k], converted<A>(x[k]));
      out[k] = converted<S>(so_far[k]);
    }
  }
};

// The running maximum, and the sum of exp(x - maximum). So no element waits for a logarithm.
template <class S, class A, int COLUMNS> struct log_of_sums {
  typedef S element;
  static constexpr int RESULTS = 1;
  A most[COLUMNS], sum[COLUMNS];

  DEVICE void begin(i64 columns, u64) {
    for (i64 k = 0; k < columns; ++k) most[k] = -(A)__builtin_inff(), sum[k] = 0;
  }
  DEVICE void line(S* out, i64*, const S* x, i64, i64 columns) {
#pragma GCC ivdep
    for (i64 k = 0; k < columns; ++k) {
      const A now = (A)x[k], before = most[k];
      const A share = elementary::exp_below_zero(now == before ? (A)0 : -math_abs(now - before));
      most[k] = now > before ? now : before;
      sum[k] = now > before ? sum[k] * share + 1 : sum[k] + share;
      out[k] = (S)(most[k] + math_log(sum[k]));
    }
  }
};

// The running maximum and its index. Elements are compared after an exclusive-or with `mask`. This
// maps unsigned integers to signed integers in the same order, or reverses the order.
template <class S, int COLUMNS> struct selecting {
  typedef S element;
  typedef typename word_of<sizeof(S)>::type word;
  static constexpr int RESULTS = 2;
  S so_far[COLUMNS];
  i64 found[COLUMNS];
  word mask;

  DEVICE S in_order(S x) const { return bits_as<S>((word)(bits_as<word>(x) ^ mask)); }
  DEVICE void begin(i64, word wanted) { mask = wanted; }
  DEVICE void line(S* out, i64* places, const S* x, i64 place, i64 columns) {
    if (!place) {
      for (i64 k = 0; k < columns; ++k) so_far[k] = in_order(x[k]), found[k] = 0;
    }
#pragma GCC ivdep
    for (i64 k = 0; k < columns; ++k) {
      const S now = in_order(x[k]);
      const bool is_new = (now >= so_far[k]) | (now != now);
      so_far[k] = is_new ? now : so_far[k];
      found[k] = is_new ? place : found[k];
      out[k] = in_order(so_far[k]), places[k] = found[k];
    }
  }
};

// Constructs a scan when the number of rows is known.
template <class Op, class S, class A> struct run_by {
  typedef S element;
  template <int COLUMNS> using of = running<Op, S, A, COLUMNS>;
};
template <class S, class A> struct log_by {
  typedef S element;
  template <int COLUMNS> using of = log_of_sums<S, A, COLUMNS>;
};
template <class S> struct select_by {
  typedef S element;
  template <int COLUMNS> using of = selecting<S, COLUMNS>;
};

constexpr int COLUMNS = 512;  // largest block, if rows are adjacent in memory
constexpr i64 TURNED = 64;    // elements of a row that are transposed at a time
constexpr i64 BLOCK = 64;     // rows
// As many rows as fill a vector are transposed together. Fewer rows run one by one.
template <class S> constexpr int SIDE = 32 / sizeof(S);

struct Work {
  Rows rows;
  i64 columns, blocks;  // rows per block, and blocks of dimension 0
  bool are_beside;
  u64 mask;
};

enum { X, OUT, PLACES };

// Rows that are adjacent in memory.
template <class Scan>
static void scan_columns(const Work& work, char* const* at, i64 columns) {
  const Rows& rows = work.rows;
  typedef typename Scan::element S;
  typename Scan::template of<COLUMNS> scan;
  constexpr bool HAS_PLACES = scan.RESULTS > 1;
  alignas(64) S room[COLUMNS], kept[COLUMNS];
  const i64 *along = rows.along, size = rows.stride[X][0];
  scan.begin(columns, work.mask);
  for (i64 i = 0; i < rows.length; ++i) {
    char* to = at[OUT] + i * along[OUT];
    S* out = writable(rows.dtype, to, size, kept);
    i64* places = HAS_PLACES ? (i64*)(at[PLACES] + i * along[PLACES]) : nullptr;
    scan.line(out, places, widened(rows.dtype, at[X] + i * along[X], size, columns, room), i,
              columns);
    narrowed(rows.dtype, to, out, size, columns);
  }
}

// Copy n elements of each of SIDE rows from memory to a tile, or back.
template <class S, int SIDE, bool IS_BACK>
static void turn_tile(S (*tile)[SIDE], int dtype, char* at, i64 next, i64 along, i64 n) {
  constexpr i64 STEP = SIDE * sizeof(S);
  if (is_at_hand<S>(dtype, along))
    return IS_BACK ? turn<S>(at, next, (const char*)tile, STEP, n, SIDE)
                   : turn<S>((char*)tile, STEP, at, next, SIDE, n);
  alignas(64) S room[SIDE][TURNED];
  constexpr i64 ROOM_STEP = sizeof room[0];
  if (IS_BACK) turn<S>((char*)room, ROOM_STEP, (const char*)tile, STEP, n, SIDE);
  for (i64 r = 0; r < SIDE; ++r)
    IS_BACK ? narrow(at + r * next, dtype, room[r], along, n)
            : widen(room[r], dtype, at + r * next, along, n);
  if (!IS_BACK) turn<S>((char*)tile, STEP, (const char*)room, ROOM_STEP, SIDE, n);
}

template <class Scan> static void scan_turned(const Work& work, char* const* at) {
  const Rows& rows = work.rows;
  typedef typename Scan::element S;
  constexpr int R = SIDE<S>;
  typename Scan::template of<R> scan;
  constexpr bool HAS_PLACES = scan.RESULTS > 1;
  alignas(64) S tile[TURNED][R];
  alignas(64) i64 places[HAS_PLACES ? TURNED : 1][R];
  scan.begin(R, work.mask);
  for (i64 i = 0; i < rows.length; i += TURNED) {
    const i64 n = rows.length - i < TURNED ? rows.length - i : TURNED, *along = rows.along;
    turn_tile<S, R, false>(tile, rows.dtype, at[X] + i * along[X], rows.stride[X][0], along[X], n);
    auto now = scan;  // its address is not taken, so that it stays in registers
    for (i64 e = 0; e < n; ++e) now.line(tile[e], places[HAS_PLACES ? e : 0], tile[e], i + e, R);
    scan = now;
    turn_tile<S, R, true>(tile, rows.dtype, at[OUT] + i * along[OUT], rows.stride[OUT][0],
                          along[OUT], n);
    if constexpr (HAS_PLACES)
      turn_tile<i64, R, true>(places, abi::i64_, at[PLACES] + i * along[PLACES],
                              rows.stride[PLACES][0], along[PLACES], n);
  }
}

template <class Scan> static void scan_row(const Work& work, char* const* at) {
  const Rows& rows = work.rows;
  typedef typename Scan::element S;
  typename Scan::template of<1> scan;
  constexpr bool HAS_PLACES = scan.RESULTS > 1;
  alignas(64) S room[PIECE], kept[PIECE];
  scan.begin(1, work.mask);
  for (i64 i = 0; i < rows.length; i += PIECE) {
    const i64 n = rows.length - i < PIECE ? rows.length - i : PIECE, *along = rows.along;
    char* to = at[OUT] + i * along[OUT];
    S* out = writable(rows.dtype, to, along[OUT], kept);
    const S* x = widened(rows.dtype, at[X] + i * along[X], along[X], n, room);
    char* place = HAS_PLACES ? at[PLACES] + i * along[PLACES] : nullptr;
    auto now = scan;
    for (i64 e = 0; e < n; ++e)
      now.line(out + e, HAS_PLACES ? (i64*)(place + e * along[PLACES]) : nullptr, x + e, i + e, 1);
    scan = now;
    narrowed(rows.dtype, to, out, along[OUT], n);
  }
}

template <class Scan> static void scan_blocks(const Work& work, i64 first, i64 last) {
  const Rows& rows = work.rows;
  typedef typename Scan::element S;
  constexpr int R = SIDE<S>, OPERANDS = 1 + Scan::template of<1>::RESULTS;
  const i64 beside = rows.ndim ? rows.size[0] : 1;
  for (i64 block = first; block < last; ++block) {
    const i64 begin = block % work.blocks * work.columns, left = beside - begin;
    const i64 columns = left < work.columns ? left : work.columns;
    char *at[MOST_OPERANDS], *here[MOST_OPERANDS];
    find_row(rows, block / work.blocks * beside + begin, at);
    if (work.are_beside) {
      scan_columns<Scan>(work, at, columns);
      continue;
    }
    for (i64 r = 0; r < columns; r += columns < R ? 1 : R) {
      if (columns >= R && r > columns - R) r = columns - R;  // the last rows again
      for (int k = 0; k < OPERANDS; ++k) here[k] = at[k] + (rows.ndim ? r * rows.stride[k][0] : 0);
      columns < R ? scan_row<Scan>(work, here) : scan_turned<Scan>(work, here);
    }
  }
}

template <class Scan> static i64 run(const Call& call, u64 mask = 0) {
  constexpr int OPERANDS = 1 + Scan::template of<1>::RESULTS;
  Work work;
  work.mask = mask;
  Rows& rows = work.rows;
  lay_out_rows(rows, call, OPERANDS, (int)call.integer[0]);
  if (!rows.length || !rows.count) return 0;
  const i64 beside = rows.ndim ? rows.size[0] : 1;
  work.are_beside = beside >= 8;
  bool are_dense = true;
  for (int k = 0; k < OPERANDS; ++k) {
    work.are_beside = work.are_beside && rows.stride[k][0] == call.array[k].itemsize;
    are_dense = are_dense && rows.along[k] == call.array[k].itemsize;
  }
  work.are_beside = work.are_beside && !are_dense;
  work.columns = work.are_beside ? COLUMNS : BLOCK;
  work.blocks = (beside + work.columns - 1) / work.columns;
  const i64 size = (beside < work.columns ? beside : work.columns) * rows.length;
  call.share(as_body(scan_blocks<Scan>), &work, rows.count / beside * work.blocks,
             size < GRAIN ? GRAIN / size : 1);
  return 0;
}

template <class Op> static i64 running_call(const Call& call) {
  if (call.array[1].dtype != call.array[0].dtype) return -1;
  switch (call.array[0].dtype) {
    case abi::u8: case abi::i8: return run<run_by<Op, u8, u8>>(call);
    case abi::u16: case abi::i16: return run<run_by<Op, u16, u16>>(call);
    case abi::u32: case abi::i32: return run<run_by<Op, u32, u32>>(call);
    case abi::u64_: case abi::i64_: return run<run_by<Op, u64, u64>>(call);
    case abi::f16: case abi::bf16: return run<run_by<Op, f32, f32>>(call);
    case abi::f32: return run<run_by<Op, f32, f64>>(call);
    case abi::f64: return run<run_by<Op, f64, f64>>(call);
    case abi::c64: return run<run_by<Op, z64, z128>>(call);
    case abi::c128: return run<run_by<Op, z128, z128>>(call);
  }
  return -1;
}

static i64 logcumsumexp_call(const Call& call) {
  if (call.array[1].dtype != call.array[0].dtype) return -1;
  switch (call.array[0].dtype) {
    case abi::f16: case abi::bf16: return run<log_by<f32, f32>>(call);
    case abi::f32: return run<log_by<f32, f64>>(call);
    case abi::f64: return run<log_by<f64, f64>>(call);
  }
  return -1;
}

template <bool IS_LEAST> static i64 selecting_call(const Call& call) {
  const abi::Array& x = call.array[0];
  if (call.array[1].dtype != x.dtype || call.array[2].dtype != abi::i64_) return -1;
  const u64 sign = 1ull << (8 * x.itemsize - 1), all = IS_LEAST ? ~0ull : 0;
  switch (x.dtype) {
    case abi::b8: case abi::u8: return run<select_by<i8>>(call, all ^ sign);
    case abi::i8: return run<select_by<i8>>(call, all);
    case abi::u16: return run<select_by<i16>>(call, all ^ sign);
    case abi::i16: return run<select_by<i16>>(call, all);
    case abi::u32: return run<select_by<i32>>(call, all ^ sign);
    case abi::i32: return run<select_by<i32>>(call, all);
    case abi::u64_: return run<select_by<i64>>(call, all ^ sign);
    case abi::i64_: return run<select_by<i64>>(call, all);
    case abi::f16:
    case abi::bf16:
    case abi::f32:
      return run<select_by<f32>>(call, IS_LEAST ? 1u << 31 : 0);
    case abi::f64: return run<select_by<f64>>(call, IS_LEAST ? sign : 0);
  }
  return -1;
}

static const abi::FunctionEntry functions[] = {
    {"cumsum", running_call<cumsum_op>},
    {"cumprod", running_call<cumprod_op>},
    {"logcumsumexp", logcumsumexp_call},
    {"cummax", selecting_call<false>},
    {"cummin", selecting_call<true>},
};
extern const abi::Family scan = {"scan", functions};

}  // namespace CAPABILITY
