// loss[r] = -w[t[r]] * x[r, t[r]], their sum, or their mean by weight; and its derivative.
//                                                                                     family: loss
//
// Calls    nll_loss(x, target, weight or null, loss, total, reduction, ignore_index)
//          nll_loss_backward(grad, target, weight or null, total, grad_x, reduction, ignore_index)
//          Classes are dimension 1 of x, or its only dimension. If a target is not a class, its
//          position is returned and no element is written.
// Types    floating x, weight and results; targets i64 or u8. Computed in f64, rounded once.
// Order    of sums: the rows of a chain (CHAIN rows), the chains of a part (PART rows or more) and
//          the parts are each added one after the other.
#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

enum { NONE, MEAN };
constexpr i64 CHAIN = 256, PART = 4096, MOST_PARTS = 256;

template <class T> static inline f64 number_at(const char* at) { return cast<f64>(*(const T*)at); }

template <class T> static inline void put_number(char* at, f64 x) {
  *(T*)at = same<T, bf16> ? cast<T>(f32_rounded_to_odd(x)) : cast<T>(x);
}

enum { X, TARGET, EACH };  // rows of x or of its gradient, their targets, and the rows' other array

struct Work {
  Rows rows;
  int reduction;
  bool is_byte;  // targets
  i64 classes, class_step, ignored, step;  // rows of a part
  const char* weight;
  i64 weight_step;
  f64 total;
  f64 loss[MOST_PARTS], weights[MOST_PARTS];
  i64 bad[MOST_PARTS];  // the first row of a part with a bad target, plus one
};

// Call take(row, address of its x, its target, address in the other array) for some rows.
template <class Take>
static inline void each_row(const Work& work, i64 first, i64 last, Take take) {
  const Rows& rows = work.rows;
  while (first < last) {
    const i64 inner = rows.ndim ? rows.size[0] : 1, left = inner - first % inner;
    const i64 n = last - first < left ? last - first : left;
    char* at[MOST_OPERANDS];
    find_row(rows, first, at);
    i64 step[MOST_OPERANDS];
    for (int k = 0; k < 3; ++k) step[k] = rows.ndim ? rows.stride[k][0] : 0;
    char *x = at[X], *target = at[TARGET], *each = at[EACH];
    for (i64 i = 0; i < n; ++i, x += step[X], target += step[TARGET], each += step[EACH])
      take(first + i, x, work.is_byte ? (i64) * (const u8*)target : *(const i64*)target, each);
    first += n;
  }
}

template <class T> static inline f64 weight_of(const Work& work, i64 target) {
  return work.weight ? number_at<T>(work.weight + target * work.weight_step) : 1.0;
}

static void look_for_bad(Work& work, i64 first, i64 last) {
  const i64 classes = work.classes, ignored = work.ignored;
  for (i64 begin = first; begin < last; begin += work.step) {
    const i64 end = last - begin < work.step ? last : begin + work.step;
    i64 bad = 0;
    each_row(work, begin, end, [&](i64 row, char*, i64 target, char*) {
      if ((u64)target >= (u64)classes && target != ignored && !bad) bad = row + 1;
    });
    work.bad[begin / work.step] = bad;
  }
}

template <class T> static void forward(Work& work, i64 first, i64 last) {
  const i64 class_step = work.class_step, ignored = work.ignored;
  const bool has_each = work.reduction == NONE;
  for (i64 begin = first; begin < last; begin += work.step) {
    const i64 end = last - begin < work.step ? last : begin + work.step;
    f64 loss = 0, weights = 0;
    for (i64 chain = begin; chain < end; chain += CHAIN) {
      f64 loss_of_chain = 0, weights_of_chain = 0;
      each_row(work, chain, end - chain < CHAIN ? end : chain + CHAIN,
               [&](i64, char* x, i64 target, char* each) {
                 const f64 weight = target == ignored ? 0 : weight_of<T>(work, target);
                 const f64 made =
                     target == ignored ? 0 : -number_at<T>(x + target * class_step) * weight;
                 if (has_each) put_number<T>(each, made);
                 loss_of_chain += made, weights_of_chain += weight;
               });
      loss += loss_of_chain, weights += weights_of_chain;
    }
    work.loss[begin / work.step] = loss, work.weights[begin / work.step] = weights;
  }
}

template <class T> static void backward(const Work& work, i64 first, i64 last) {
  each_row(work, first, last, [&](i64, char* x, i64 target, char* each) {
    if (target == work.ignored) return;
    f64 made = -number_at<T>(each);
    if (work.reduction == MEAN) made /= work.total;
    put_number<T>(x + target * work.class_step, made * weight_of<T>(work, target));
  });
}

static void fill_zeros(void* context, i64 first, i64 last) {
  memset((char*)context + first, 0, last - first);
}

template <class T> static void fill_rows(const Work& work, i64 first, i64 last) {
  each_row(work, first, last, [&](i64, char* x, i64, char*) {
    for (i64 c = 0; c < work.classes; ++c) put_number<T>(x + c * work.class_step, 0);
  });
}

// x or its gradient; the targets; and an array with one element for each row, or a single element.
static bool lay_out(Work& work, const abi::Array& x, const abi::Array& target,
                    const abi::Array& weight, const abi::Array& each) {
  const int axis = x.ndim > 1 ? 1 : 0;
  if (each.dtype != x.dtype || (weight.data && weight.dtype != x.dtype)) return false;
  if (target.dtype != abi::i64_ && target.dtype != abi::u8) return false;
  abi::Array alike[] = {x, x, x};
  const abi::Array* beside[] = {&target, &each};
  for (int k = 0; k < 2; ++k) {
    abi::Array& to = alike[k + 1];
    to.data = beside[k]->data, to.itemsize = beside[k]->itemsize;
    for (int d = 0; d < x.ndim; ++d) {
      const int from = d < axis ? d : d - 1;
      to.stride[d] = d == axis || beside[k]->ndim != x.ndim - 1 ? 0 : beside[k]->stride[from];
    }
  }
  Call call = {};
  call.array = alike;
  lay_out_rows(work.rows, call, 3, axis);
  work.is_byte = target.dtype == abi::u8;
  work.classes = x.shape[axis], work.class_step = x.stride[axis];
  work.weight = weight.data, work.weight_step = weight.ndim ? weight.stride[0] : 0;
  const i64 least = (work.rows.count + MOST_PARTS - 1) / MOST_PARTS;
  work.step = least < PART ? PART : least;
  return true;
}

static i64 first_bad(Work& work, const Call& call) {
  call.share(as_body(look_for_bad), &work, work.rows.count, work.step);
  for (i64 part = 0; part * work.step < work.rows.count; ++part)
    if (work.bad[part]) return work.bad[part];
  return 0;
}

template <class T> static i64 nll_loss(const Call& call) {
  Work work;
  const abi::Array &loss = call.array[3], &total = call.array[4];
  if (!lay_out(work, call.array[0], call.array[1], call.array[2], loss)) return -1;
  work.reduction = (int)call.integer[0], work.ignored = call.integer[1];
  if (const i64 bad = first_bad(work, call)) return bad;
  call.share(as_body(forward<T>), &work, work.rows.count, work.step);
  f64 sum = 0, weights = 0;
  for (i64 part = 0; part * work.step < work.rows.count; ++part)
    sum += work.loss[part], weights += work.weights[part];
  if (work.reduction != NONE)
    put_number<T>(loss.data, work.reduction == MEAN ? sum / weights : sum);
  put_number<T>(total.data, work.reduction == NONE ? 0 : weights);
  return 0;
}

template <class T> static i64 nll_loss_backward(const Call& call) {
  Work work;
  const abi::Array &x = call.array[4], &total = call.array[3];
  if (!lay_out(work, x, call.array[1], call.array[2], call.array[0])) return -1;
  work.reduction = (int)call.integer[0], work.ignored = call.integer[1];
  if (const i64 bad = first_bad(work, call)) return bad;
  work.total = number_at<T>(total.data);
  i64 dense = x.itemsize;
  bool is_dense = true;
  for (int d = x.ndim - 1; d >= 0; dense *= x.shape[d--])
    is_dense = is_dense && (x.stride[d] == dense || x.shape[d] == 1);
  if (is_dense) {
    call.share(fill_zeros, x.data, dense, 1 << 16);
  } else {
    call.share(as_body(fill_rows<T>), &work, work.rows.count, work.step);
  }
  call.share(as_body(backward<T>), &work, work.rows.count, work.step);
  return 0;
}

#define OF_FLOATS(NAME)                        \
  static i64 NAME##_call(const Call& call) {   \
    switch (call.array[0].dtype) {             \
      case abi::f16: return NAME<f16>(call);   \
      case abi::bf16: return NAME<bf16>(call); \
      case abi::f32: return NAME<f32>(call);   \
      case abi::f64: return NAME<f64>(call);   \
    }                                          \
    return -1;                                 \
  }
OF_FLOATS(nll_loss)
OF_FLOATS(nll_loss_backward)

static const abi::FunctionEntry functions[] = {
    {"nll_loss", nll_loss_call},
    {"nll_loss_backward", nll_loss_backward_call},
};
extern const abi::Family loss = {"loss", functions};

}  // namespace CAPABILITY
