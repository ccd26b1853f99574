// Rows and channels with mean 0 and variance 1, scaled and shifted; gradients.       family: norm
//
// Calls    normalized(x (R, B) or (R, A, B), scale, shift, out, mean (R), rstd, eps): over A and B
//          normalized_backward(grad (R, n), x, mean, rstd, weight (n), of_x, of_weight, of_bias)
//          grouped_backward(grad (N, G, D, S), x, mean (N, G), rstd, weight (G D), of_x, …)
//          channels_normalized(x (N, C, S), scale (C), shift, out, mean, variance, rstd, eps)
//          channels_scaled(x (N, C, S), mean (C), variance, scale, shift, out, eps)
//          channels_backward(grad (N, C, S), x, mean (C), rstd, weight, of_x, of_weight, of_bias,
//                            whether mean and rstd are those of x)
//          Scale and shift of rows broadcast with x. A gradient that is not requested is None;
//          parameters of channels may be None. The mean of rows may be None: rows are then divided
//          by their root mean square. Returns -1 for other dtypes, and for layouts that
//          `dense_rows` and `lay_out_channels` reject.
// Types    x, grad, out and of_x have one floating dtype. All others are f64 if it is f64,
//          otherwise f32.
// Order    of sums: PIECE elements in lanes, as in rows.h, then pieces one after the other in f64.
//          For adjacent channels: CHAIN rows one after the other, then chains in f64, then parts of
//          the rows.
#include "channels.h"
#include "normal.h"

namespace CAPABILITY {

// --- rows --------------------------------------------------------------------------------------

// (R, B) or (R, A, B); a step of 0 stands for a single value that is used for all elements.
struct Blocks {
  char* data;
  int dtype;
  i64 step[3];
};

static Blocks blocks_of(const abi::Array& x) {
  Blocks made = {x.data, x.dtype, {}};
  for (int d = 0; d < 3; ++d) {
    const int from = x.ndim == 3 || !d ? d : d - 1;
    if (x.shape[from] != 1 && (x.ndim == 3 || d != 1)) made.step[d] = x.stride[from];
  }
  return made;
}

// Replaces a missing scale or shift, in pieces of a row.
template <class A> struct Constant {
  A at[ROOM];
  constexpr Constant(A value) : at{} {
    for (A& x : at) x = value;
  }
};
template <class A> static constexpr Constant<A> ones{1};
template <class A> static constexpr Constant<A> zeros{0};

struct Normalize {
  const Call* call;
  Blocks x, scale, shift, out;
  i64 inner, columns;
};

template <class A>
static void normalize_rows(const Normalize& me, i64 first, i64 last) {
  const abi::Array *array = me.call->array, &mean = array[4], &one_by = array[5];
  const i64 columns = me.columns, n = me.inner * columns, itemsize = array[0].itemsize;
  const f64 eps = me.call->real[0];
  const Blocks &scale = me.scale, &shift = me.shift, &out = me.out;
  const bool has_each = scale.step[2] || shift.step[2];
  alignas(64) A room[ROOM], kept[ROOM];
  for (i64 r = first; r < last; ++r) {
    const Row<A> row = {me.x.data + r * me.x.step[0], n, itemsize, me.x.dtype, room};
    const A middle = mean.data ? mean_of(row) : 0;
    if (r + 1 < last && n * itemsize <= AHEAD)  // prefetched while this row is computed
      for (i64 b = 0; b < n * itemsize; b += 64) __builtin_prefetch(row.at + me.x.step[0] + b);
    f64 squares = 0;
    in_pieces<A>(
        n, [&](i64 i, i64 count) { squares += squares_of(row.piece(i, count), count, middle); });
    const A rstd = root_of<A>(squares, n, eps);
    if (mean.data) *(A*)(mean.data + r * mean.stride[0]) = middle;
    *(A*)(one_by.data + r * one_by.stride[0]) = rstd;
    for (i64 a = 0; a < me.inner; ++a) {
      const char* by = scale.data + r * scale.step[0] + a * scale.step[1];
      const char* more = shift.data + r * shift.step[0] + a * shift.step[1];
      in_pieces<A>(columns, [&](i64 i, i64 count) {
        const i64 at = a * columns + i;
        char* to = out.data + r * out.step[0] + at * itemsize;
        A* made = writable(out.dtype, to, itemsize, kept);
        const A* by_each = scale.data ? (const A*)by + i : ones<A>.at;
        const A* more_each = shift.data ? (const A*)more + i : zeros<A>.at;
        if (has_each) {
          scaled_by_each(made, row.piece(at, count), middle, rstd, by_each, more_each, count);
        } else {
          scaled_by_one(made, row.piece(at, count), middle, rstd, scale.data ? *(const A*)by : 1,
                        shift.data ? *(const A*)more : 0, count);
        }
        narrowed(out.dtype, to, made, itemsize, count);
      });
    }
  }
}

template <class A>
static i64 normalized(const Call& call) {
  const abi::Array *array = call.array, &x = array[0];
  if (!dense_rows(x, 1) || !dense_rows(array[3], 1)) return -1;
  Normalize me = {&call, blocks_of(x), blocks_of(array[1]), blocks_of(array[2]),
                  blocks_of(array[3])};
  me.inner = x.ndim == 3 ? x.shape[1] : 1, me.columns = x.shape[x.ndim - 1];
  const i64 n = me.inner * me.columns;
  call.share(as_body(normalize_rows<A>), &me, x.shape[0], n < GRAIN ? GRAIN / n : 1);
  return 0;
}

// out = (grad * weight - its mean - (x - middle) * slope) * rstd. Also adds the row's contributions
// to the gradients of weight and bias, if requested.
template <bool HAS_OUT, bool HAS_SUMS, class A>
LOOP through_row(A* out, A* of_weight, A* of_bias, const A* grad, const A* x, const A* weight,
                 A middle, A rstd, A mean, A slope, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    const A dy = grad[k], centered = x[k] - middle;
    if (HAS_OUT) out[k] = (dy * weight[k] - mean - centered * slope) * rstd;
    if (HAS_SUMS) of_weight[k] += dy * (centered * rstd);
    if (HAS_SUMS) of_bias[k] += dy;
  }
}
template <class A>
static void through_rows(const Parts& parts, i64 first, i64 last) {
  const abi::Array *array = parts.call->array, &grad = array[0], &x = array[1], &of_x = array[5];
  const i64 n = x.shape[1], itemsize = x.itemsize;
  const A* weight = (const A*)array[4].data;
  const bool has_sums = parts.n > 0;
  alignas(64) A room[2][ROOM], kept[ROOM];
  for (i64 r = first; r < last; ++r) {
    const char* mean_at = array[2].data;  // null if rows were divided by their root mean square
    const A middle = mean_at ? *(const A*)(mean_at + r * array[2].stride[0]) : 0;
    const A rstd = *(const A*)(array[3].data + r * array[3].stride[0]);
    const Row<A> g = {grad.data + r * grad.stride[0], n, itemsize, grad.dtype, room[0]};
    const Row<A> row = {x.data + r * x.stride[0], n, itemsize, x.dtype, room[1]};
    f64* sums = parts.of<A>(r / parts.step);
    A* chain = (A*)(sums + 2 * n);
    f64 sum = 0, products = 0;
    for (i64 i = 0; of_x.data && i < n; i += PIECE) {
      const i64 count = n - i < PIECE ? n - i : PIECE;
      const auto both = [middle](vector<A> g, vector<A> w, vector<A> x) {
        const vector<A> scaled = g * w;
        return two<vector<A>>{scaled, scaled * (x - middle)};
      };
      const two<A> made =
          two_sums_of_piece<A>(count, both, g.piece(i, count), weight + i, row.piece(i, count));
      sum += made.first, products += made.second;
    }
    const A mean = mean_at ? (A)(sum / n) : 0, slope = (A)(products / n * rstd * rstd);
    in_pieces<A>(n, [&](i64 i, i64 count) {
      const A *dy = g.piece(i, count), *at = row.piece(i, count), *w = weight + i;
      A *of_weight = chain + i, *of_bias = chain + n + i;
      char* to = of_x.data + r * of_x.stride[0] + i * itemsize;
      A* made = of_x.data ? writable(of_x.dtype, to, itemsize, kept) : kept;
      if (!of_x.data) {
        through_row<false, true>(made, of_weight, of_bias, dy, at, w, middle, rstd, mean, slope,
                                 count);
      } else if (has_sums) {
        through_row<true, true>(made, of_weight, of_bias, dy, at, w, middle, rstd, mean, slope,
                                count);
      } else {
        through_row<true, false>(made, of_weight, of_bias, dy, at, w, middle, rstd, mean, slope,
                                 count);
      }
      if (of_x.data) narrowed(of_x.dtype, to, made, itemsize, count);
    });
    const i64 in_part = r % parts.step;
    if (has_sums &&
        (in_part % CHAIN == CHAIN - 1 || in_part == parts.step - 1 || r == parts.rows - 1))
      add_chain(sums, chain, 2 * n);
  }
}

template <class A>
static void put_sums(const abi::Array& to, const f64* from, i64 n) {
  for (i64 k = 0; to.data && k < n; ++k) ((A*)to.data)[k] = (A)from[k];
}

template <class A>
static i64 normalized_backward(const Call& call) {
  const abi::Array *array = call.array, &x = array[1];
  for (int k = 0; k < 8; ++k)
    if (array[k].data && !dense_rows(array[k], k == 2 || k == 3 || k > 5 ? 0 : array[k].ndim - 1))
      return -1;
  const i64 n = x.shape[1];
  Parts parts;
  if (!parts.begin<A>(call, x.shape[0], n, array[6].data || array[7].data ? n : 0)) return -1;
  call.share(as_body(through_rows<A>), &parts, parts.rows, parts.step);
  const f64* total = parts.total<A>();
  put_sums<A>(array[6], total, n);
  put_sums<A>(array[7], total + n, n);
  free(parts.sums);
  return 0;
}

// --- groups of channels ------------------------------------------------------------------------

struct Groups {
  const Call* call;
  f64* sums;  // sums for each channel of each sample: of grad, and of grad * (x - middle)
};

template <class A>
static void through_groups(const Groups& groups, i64 first, i64 last) {
  const abi::Array *array = groups.call->array, &grad = array[0], &x = array[1], &of_x = array[5];
  const i64 in_group = x.shape[2], run = x.shape[3], itemsize = x.itemsize, n = in_group * run;
  const A *means = (const A*)array[2].data, *rstds = (const A*)array[3].data;
  alignas(64) A room[2][ROOM], kept[ROOM];
  for (i64 r = first; r < last; ++r) {
    const A middle = means[r], rstd = rstds[r],
            *weight = (const A*)array[4].data + r % x.shape[1] * in_group;
    const Row<A> g = {grad.data + r * n * itemsize, n, itemsize, grad.dtype, room[0]};
    const Row<A> row = {x.data + r * n * itemsize, n, itemsize, x.dtype, room[1]};
    f64 sum = 0, products = 0;
    for (i64 d = 0; d < in_group; ++d) {
      two<f64> own = {};
      in_pieces<A>(run, [&](i64 i, i64 count) {
        add_products_of(own, g.piece(d * run + i, count), row.piece(d * run + i, count), count,
                        middle);
      });
      f64* to = groups.sums + 2 * (r * in_group + d);
      to[0] = own.first, to[1] = own.second * rstd;
      sum += own.first * weight[d], products += own.second * weight[d];
    }
    if (!of_x.data) continue;
    const A more = (A)(-sum / n * rstd), slope = (A)(-products / n * rstd * rstd * rstd);
    for (i64 d = 0; d < in_group; ++d) {
      const A by = weight[d] * rstd;
      in_pieces<A>(run, [&](i64 i, i64 count) {
        char* to = of_x.data + (r * n + d * run + i) * itemsize;
        A* made = writable(of_x.dtype, to, itemsize, kept);
        through_run(made, g.piece(d * run + i, count), row.piece(d * run + i, count), by, middle,
                    slope, more, count);
        narrowed(of_x.dtype, to, made, itemsize, count);
      });
    }
  }
}

template <class A>
static i64 grouped_backward(const Call& call) {
  const abi::Array *array = call.array, &x = array[1];
  for (int k = 0; k < 8; ++k)
    if (array[k].data && !dense_rows(array[k], 0)) return -1;
  const i64 samples = x.shape[0], channels = x.shape[1] * x.shape[2], n = x.shape[2] * x.shape[3];
  Groups groups = {&call, (f64*)malloc(samples * channels * 2 * sizeof(f64))};
  if (!groups.sums) return -1;
  call.share(as_body(through_groups<A>), &groups, samples * x.shape[1], n < GRAIN ? GRAIN / n : 1);
  for (i64 c = 0; c < channels; ++c) {
    f64 of_weight = 0, of_bias = 0;
    for (i64 s = 0; s < samples; ++s) {
      const f64* from = groups.sums + 2 * (s * channels + c);
      of_bias += from[0], of_weight += from[1];
    }
    if (array[6].data) ((A*)array[6].data)[c] = (A)of_weight;
    if (array[7].data) ((A*)array[7].data)[c] = (A)of_bias;
  }
  free(groups.sums);
  return 0;
}

// --- calls -------------------------------------------------------------------------------------

// of: a letter for each array. x: the dtype of the first array; a: the dtype of the computation.
static bool are_of(const Call& call, const char* of) {
  const int x = call.array[0].dtype, computed = x == abi::f64 ? abi::f64 : abi::f32;
  for (int k = 0; k < call.n_arrays; ++k) {
    const abi::Array& array = call.array[k];
    if (array.data && array.dtype != (of[k] == 'x' ? x : computed)) return false;
  }
  return call.n_arrays == (int)strlen(of);
}

#define OF_DTYPES(NAME, OF)                  \
  static i64 NAME##_call(const Call& call) { \
    if (!are_of(call, OF)) return -1;        \
    switch (call.array[0].dtype) {           \
      case abi::f16:                         \
      case abi::bf16:                        \
      case abi::f32: return NAME<f32>(call); \
      case abi::f64: return NAME<f64>(call); \
    }                                        \
    return -1;                               \
  }
OF_DTYPES(normalized, "xaaxaa")
OF_DTYPES(normalized_backward, "xxaaaxaa")
OF_DTYPES(grouped_backward, "xxaaaxaa")
OF_DTYPES(channels_normalized, "xaaxaaa")
OF_DTYPES(channels_scaled, "xaaaax")
OF_DTYPES(channels_backward, "xxaaaxaa")

static const abi::FunctionEntry functions[] = {
    {"normalized", normalized_call},
    {"normalized_backward", normalized_backward_call},
    {"grouped_backward", grouped_backward_call},
    {"channels_normalized", channels_normalized_call},
    {"channels_scaled", channels_scaled_call},
    {"channels_backward", channels_backward_call},
};
extern const abi::Family norm = {"norm", functions};

}  // namespace CAPABILITY
