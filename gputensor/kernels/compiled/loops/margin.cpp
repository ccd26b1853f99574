// Losses of margins between the targets of a row and its other classes, and the gradient.
// family: margin
//
// Calls    multilabel(x, target, losses, is_target)
//          multilabel_backward(grad, x, target, out, rows of a mean or 0)
//          x, target, is_target and out are dense, (rows, classes); losses (rows,); grad has one
//          element or one for each row. A row's targets end at the first -1.
//          multi(x, target, weight or None, losses, p, margin)
//          multi_backward(grad, x, target, weight or None, out, p, margin, rows of a mean or 0)
//          with one target for each row, target (rows,), and weight (classes,); p is 1 or 2.
// Types    f32 and f64; targets i64.
// Order    the terms of one target are added as in rows.h, then the targets one after the other.
// Returns  1 for a target that is not a class; the results are then undefined.
#include "matrices.h"
#include "rows.h"

namespace CAPABILITY {

namespace {

struct Margins {
  const char *x, *target, *grad;
  char *made, *is_target;
  i64 classes, grad_step, mean_of;
  i64 answer;
  const char* weight;
  double margin;
  bool is_square;
};

// The other classes of a row, in order, and the number of its targets.
template <class T> struct Others {
  T *x, *hits;
  u8* is_target;
  i64 count, targets;

  static i64 bytes(i64 classes) {
    return 2 * Room::bytes_of<T>(classes) + Room::bytes_of<u8>(classes);
  }
  Others(Room& room, i64 classes)
      : x(room.take<T>(classes)), hits(room.take<T>(classes)), is_target(room.take<u8>(classes)) {}

  // Returns false if a target is not a class.
  bool read(const T* row, const i64* target, i64 classes) {
    bool is_bad = false;
    for (i64 k = 0; k < classes; ++k) is_bad |= (u64)target[k] + 1 > (u64)classes;
    if (is_bad) return false;
    memset(is_target, 0, classes);
    for (targets = 0; targets < classes && target[targets] >= 0; ++targets)
      is_target[target[targets]] = 1;
    count = 0;
    for (i64 c = 0; c < classes; ++c) x[count] = row[c], count += !is_target[c];
    return true;
  }

  // The sum of `of(element)` over the other classes.
  template <class Of> T sum(Of of) const {
    T total = 0;
    for (i64 i = 0; i < count; i += PIECE)
      total += sum_of_piece<T>(count - i < PIECE ? count - i : PIECE, of, x + i);
    return total;
  }
};

template <class T, class Each> void each_row(Margins& m, i64 first, i64 last, const Each& each) {
  Room room(Others<T>::bytes(m.classes));
  if (!room) return note(&m.answer, NO_MEMORY);
  Others<T> others(room, m.classes);
  for (i64 row = first; row < last; ++row) {
    const T* x = (const T*)m.x + row * m.classes;
    const i64* target = (const i64*)m.target + row * m.classes;
    if (!others.read(x, target, m.classes)) return note(&m.answer, 1);
    each(m, row, x, target, others);
  }
}

template <class T> void losses(Margins& m, i64 first, i64 last) {
  each_row<T>(m, first, last, [](const Margins& m, i64 row, const T* x, const i64* target,
                                 const Others<T>& others) {
    T total = 0;
    for (i64 t = 0; t < others.targets; ++t) {
      const T apart = 1 - x[target[t]];
      total += others.sum([apart](vector<T> y) {
        const vector<T> lacking = apart + y;
        return lacking > vector<T>{} ? lacking : vector<T>{};
      });
    }
    ((T*)m.made)[row] = total / (T)m.classes;
    T* is_target = (T*)m.is_target + row * m.classes;
    for (i64 c = 0; c < m.classes; ++c) is_target[c] = (T)others.is_target[c];
  });
}

template <class T> __attribute__((noinline)) void add_hits(T* hits, const T* x, T apart, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) hits[k] += apart + x[k] > 0 ? (T)1 : (T)0;
}

template <class T> void gradients(Margins& m, i64 first, i64 last) {
  each_row<T>(m, first, last, [](const Margins& m, i64 row, const T* x, const i64* target,
                                 const Others<T>& others) {
    T* made = (T*)m.made + row * m.classes;
    T share = *(const T*)(m.grad + row * m.grad_step);
    if (m.mean_of) share /= (T)m.mean_of;
    share /= (T)m.classes;
    for (i64 k = 0; k < others.count; ++k) others.hits[k] = 0;
    for (i64 c = 0; c < m.classes; ++c) made[c] = 0;
    for (i64 t = 0; t < others.targets; ++t) {
      const T apart = 1 - x[target[t]];
      add_hits(others.hits, others.x, apart, others.count);
      made[target[t]] -= others.sum([apart](vector<T> y) {
        return apart + y > vector<T>{} ? vector<T>{} + 1 : vector<T>{};
      });
    }
    for (i64 c = 0, k = 0; c < m.classes; ++c) {
      if (!others.is_target[c]) made[c] = others.hits[k++];
      made[c] *= share;
    }
  });
}

// --- one target per row -------------------------------------------------------------------------

// A class's violation raised to p, or its slope: the derivative without the row's factor.
template <class T> vector<T> violation(vector<T> x, T apart, bool is_square) {
  const vector<T> lacking = apart + x, kept = lacking > vector<T>{} ? lacking : vector<T>{};
  return is_square ? kept * kept : kept;
}
template <class T> T slope_of(T x, T apart, bool is_square) {
  const T lacking = apart + x;
  return lacking > 0 ? is_square ? 2 * lacking : (T)1 : (T)0;
}

template <class T> bool has_class(const Margins& m, i64 row, T* apart, T* weight) {
  const i64 target = ((const i64*)m.target)[row];
  if ((u64)target >= (u64)m.classes) return false;
  *apart = (T)m.margin - ((const T*)m.x)[row * m.classes + target];
  *weight = m.weight ? ((const T*)m.weight)[target] : (T)1;
  return true;
}

template <class T> void multi_losses(Margins& m, i64 first, i64 last) {
  for (i64 row = first; row < last; ++row) {
    T apart, weight;
    if (!has_class(m, row, &apart, &weight)) return note(&m.answer, 1);
    const bool is_square = m.is_square;
    const T* x = (const T*)m.x + row * m.classes;
    const i64 target = ((const i64*)m.target)[row];
    T total = 0;
    // the classes before the target and after it
    for (i64 i = 0; i < m.classes;) {
      const i64 end = i <= target ? target : m.classes;
      for (; i < end; i += PIECE)
        total += sum_of_piece<T>(
            end - i < PIECE ? end - i : PIECE,
            [=](vector<T> y) { return violation<T>(y, apart, is_square); }, x + i);
      i = end == target ? target + 1 : end;
    }
    ((T*)m.made)[row] = total * weight / (T)m.classes;
  }
}

template <class T> void multi_gradients(Margins& m, i64 first, i64 last) {
  for (i64 row = first; row < last; ++row) {
    T apart, weight;
    if (!has_class(m, row, &apart, &weight)) return note(&m.answer, 1);
    T share = *(const T*)(m.grad + row * m.grad_step);
    if (m.mean_of) share /= (T)m.mean_of;
    share = share / (T)m.classes * weight;
    const T* x = (const T*)m.x + row * m.classes;
    T *made = (T*)m.made + row * m.classes, total = 0;
    const i64 target = ((const i64*)m.target)[row];
    for (i64 c = 0; c < m.classes; ++c) {
      made[c] = c == target ? (T)0 : slope_of(x[c], apart, m.is_square) * share;
      total += made[c];
    }
    made[target] = -total;
  }
}

template <auto OF_F32, auto OF_F64>
i64 run(const Call& call, const abi::Array& x, const abi::Array& target, Margins& m) {
  if (x.ndim != 2 || (x.dtype != abi::f32 && x.dtype != abi::f64)) return 1;
  if (target.dtype != abi::i64_) return 1;
  m.x = x.data, m.target = target.data, m.classes = x.shape[1], m.answer = 0;
  const i64 each = GRAIN / (4 * m.classes + 1) + 1;
  call.share(x.dtype == abi::f32 ? as_body(OF_F32) : as_body(OF_F64), &m, x.shape[0], each);
  return m.answer;
}

i64 multilabel(const Call& call) {
  Margins m = {};
  m.made = call.array[2].data, m.is_target = call.array[3].data;
  if (call.array[2].dtype != call.array[0].dtype) return 1;
  return run<losses<f32>, losses<f64>>(call, call.array[0], call.array[1], m);
}

i64 multilabel_backward(const Call& call) {
  const abi::Array& grad = call.array[0];
  Margins m = {};
  if (grad.dtype != call.array[1].dtype) return 1;
  m.grad = grad.data, m.grad_step = grad.size > 1 ? grad.itemsize : 0;
  m.made = call.array[3].data, m.mean_of = call.integer[0];
  return run<gradients<f32>, gradients<f64>>(call, call.array[1], call.array[2], m);
}

// weight: null, or of x's dtype.
void set_multi(Margins& m, const Call& call, const abi::Array& weight) {
  m.weight = weight.data, m.is_square = call.integer[0] == 2, m.margin = call.real[0];
}

i64 multi(const Call& call) {
  Margins m = {};
  m.made = call.array[3].data;
  if (call.array[3].dtype != call.array[0].dtype) return 1;
  set_multi(m, call, call.array[2]);
  return run<multi_losses<f32>, multi_losses<f64>>(call, call.array[0], call.array[1], m);
}

i64 multi_backward(const Call& call) {
  const abi::Array& grad = call.array[0];
  Margins m = {};
  if (grad.dtype != call.array[1].dtype) return 1;
  m.grad = grad.data, m.grad_step = grad.size > 1 ? grad.itemsize : 0;
  m.made = call.array[4].data, m.mean_of = call.integer[1];
  set_multi(m, call, call.array[3]);
  return run<multi_gradients<f32>, multi_gradients<f64>>(call, call.array[1], call.array[2], m);
}

const abi::FunctionEntry functions[] = {{"multilabel", multilabel},
                                        {"multilabel_backward", multilabel_backward},
                                        {"multi", multi},
                                        {"multi_backward", multi_backward}};

}  // namespace

extern const abi::Family margin = {"margin", functions};

}  // namespace CAPABILITY
