// The loss over all alignments of a text with time steps, and its gradient.  family: ctc
//
// Calls    forward(logs, targets, spans, texts, loss, alpha, blank)
//          backward(grad, logs, targets, spans, texts, loss, alpha, out, blank, zero_infinity)
// Shapes   logs (steps, samples, classes), any strides; targets i64, (samples, longest), or all
//          texts concatenated; spans, texts i64, (samples,): the number of steps and of labels;
//          loss and grad (samples,); alpha (samples, steps, states); out like logs. All except
//          logs are dense. Labels are classes; the caller has checked them.
// Types    f32 and f64.
// Order    one thread computes a sample; the states of a step are vector lanes. alpha is -inf after
//          the last step and state of a sample, and the gradient there is 0.
#include "matrices.h"
#include "rows.h"

namespace CAPABILITY {
#include "math/arithmetic.cuh"

namespace {

#define LOOP __attribute__((noinline)) void

template <class A> constexpr A LEAST = -(A)__builtin_inff();

struct Texts {
  abi::Array logs, targets;
  const i64 *spans, *lengths;
  const char* grad;
  char *loss, *alpha, *out;
  i64 blank, states;  // of a row of alpha
  bool zero_infinity;
  i64 answer;
};

// The data for a sample's steps. On each side, the states of x have two neighbours of probability
// 0.
template <class T> struct Sample {
  i64 *labels, count, span;
  T *skips, *x, *made, *emitted, *row;

  static i64 bytes(i64 states, i64 classes) {
    return Room::bytes_of<i64>(states) + 4 * Room::bytes_of<T>(states + 4) +
           Room::bytes_of<T>(classes);
  }
  Sample(Room& room, i64 states, i64 classes)
      : labels(room.take<i64>(states)), skips(room.take<T>(states + 4)),
        x(room.take<T>(states + 4) + 2), made(room.take<T>(states + 4)),
        emitted(room.take<T>(states + 4)), row(room.take<T>(classes)) {}

  // skips[s]: 1 if state s may follow the state before the previous one.
  void read(const Texts& texts, i64 n) {
    const i64* target = (const i64*)texts.targets.data;
    if (texts.targets.ndim == 2) {
      target += n * texts.targets.shape[1];
    } else {
      for (i64 k = 0; k < n; ++k) target += texts.lengths[k];
    }
    count = 2 * texts.lengths[n] + 1, span = texts.spans[n];
    for (i64 s = 0; s < count; ++s) {
      labels[s] = s % 2 ? target[s / 2] : texts.blank;
      skips[s] = s % 2 && s > 2 && labels[s] != labels[s - 2];
    }
    skips[count] = skips[count + 1] = 0;
    for (i64 s = -2; s < count + 2; ++s) x[s] = LEAST<T>;
  }

  void emit(const Texts& texts, i64 t, i64 n) {
    const abi::Array& logs = texts.logs;
    const char* row = logs.data + t * logs.stride[0] + n * logs.stride[1];
    for (i64 s = 0; s < count; ++s) emitted[s] = *(const T*)(row + labels[s] * logs.stride[2]);
  }
};

// The logarithm of a sum of exponentials.
template <class T> DEVICE T added(T a, T b, T c) {
  const T larger = a > b ? a : b, most = c > larger ? c : larger;
  const T base = most == LEAST<T> ? 0 : most;
  const T sum = math_exp(a - base) + math_exp(b - base) + math_exp(c - base);
  return math_log(sum) + base;
}

template <class T> LOOP step(T* to, const T* x, const T* skips, const T* emitted, i64 n) {
#pragma GCC ivdep
  for (i64 s = 0; s < n; ++s)
    to[s] = added(x[s], x[s - 1], skips[s] != 0 ? x[s - 2] : LEAST<T>) + emitted[s];
}

template <class T> LOOP step_back(T* to, const T* x, const T* skips, i64 n) {
#pragma GCC ivdep
  for (i64 s = 0; s < n; ++s)
    to[s] = added(x[s], x[s + 1], skips[s + 2] != 0 ? x[s + 2] : LEAST<T>);
}

// The probability of each state, over all alignments.
template <class T> LOOP shares_of(T* to, const T* alpha, const T* beta, T loss, i64 n) {
#pragma GCC ivdep
  for (i64 s = 0; s < n; ++s) {
    const T both = alpha[s] + beta[s];
    const bool is_likely = both > LEAST<T>;
    const T share = math_exp((is_likely ? both : 0) + loss);
    to[s] = is_likely ? share : 0;
  }
}

template <class T> LOOP add_emitted(T* to, const T* x, const T* emitted, i64 n) {
#pragma GCC ivdep
  for (i64 s = 0; s < n; ++s) to[s] = x[s] + emitted[s];
}

template <class T> LOOP exponentials(T* to, const T* x, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) to[k] = math_exp(x[k]);
}

template <class T> T loss_of(const T* last, i64 count, i64 span) {
  if (!span) return count == 1 ? 0 : -LEAST<T>;
  const T a = last[count - 1], b = count > 1 ? last[count - 2] : LEAST<T>;
  return -added(b, a, LEAST<T>);
}

template <class T> void align(const Texts& texts, i64 n, Sample<T>& sample) {
  const i64 steps = texts.logs.shape[0], states = texts.states;
  T* alpha = (T*)texts.alpha + n * steps * states;
  sample.read(texts, n);
  const i64 count = sample.count, span = sample.span;
  for (i64 t = 0; t < span; ++t, alpha += states) {
    sample.emit(texts, t, n);
    if (t) {
      step(alpha, sample.x, sample.skips, sample.emitted, count);
    } else {
      for (i64 s = 0; s < count; ++s) alpha[s] = s < 2 ? sample.emitted[s] : LEAST<T>;
    }
    memcpy(sample.x, alpha, count * sizeof(T));
    for (i64 s = count; s < states; ++s) alpha[s] = LEAST<T>;
  }
  for (i64 k = 0; k < (steps - span) * states; ++k) alpha[k] = LEAST<T>;
  ((T*)texts.loss)[n] = loss_of(sample.x, count, span);
}

// One step of a sample's gradient, from the states' probabilities in sample.made.
template <class T> void descend(const Texts& texts, i64 t, i64 n, const Sample<T>& sample) {
  const abi::Array& logs = texts.logs;
  const i64 classes = logs.shape[2];
  T* to = (T*)texts.out + (t * logs.shape[1] + n) * classes;
  const char* from = logs.data + t * logs.stride[0] + n * logs.stride[1];
  const T loss = ((const T*)texts.loss)[n], grad = ((const T*)texts.grad)[n];
  if (loss == -LEAST<T>) {
    for (i64 c = 0; c < classes; ++c) to[c] = texts.zero_infinity ? 0 : (T)__builtin_nanf("");
    return;
  }
  const T* row = (const T*)from;
  if (logs.stride[2] != sizeof(T)) {
    for (i64 c = 0; c < classes; ++c) sample.row[c] = *(const T*)(from + c * logs.stride[2]);
    row = sample.row;
  }
  exponentials(to, row, classes);
  for (i64 s = 0; s < sample.count; ++s) to[sample.labels[s]] -= sample.made[s];
  for (i64 c = 0; c < classes; ++c) to[c] *= grad;
}

template <class T> void align_back(const Texts& texts, i64 n, Sample<T>& sample) {
  const i64 steps = texts.logs.shape[0], classes = texts.logs.shape[2];
  const T *alpha = (const T*)texts.alpha + n * steps * texts.states;
  const T loss = ((const T*)texts.loss)[n];
  sample.read(texts, n);
  const i64 count = sample.count, span = sample.span;
  T *x = sample.x, *beta = sample.made;
  for (i64 t = span - 1; t >= 0; --t) {
    if (t == span - 1) {
      for (i64 s = 0; s < count; ++s) beta[s] = s + 2 < count ? LEAST<T> : 0;
    } else {
      step_back(beta, x, sample.skips, count);
    }
    sample.emit(texts, t, n);
    add_emitted(x, beta, sample.emitted, count);
    shares_of(beta, alpha + t * texts.states, beta, loss, count);
    descend(texts, t, n, sample);
  }
  for (i64 t = span; t < steps; ++t)
    memset((T*)texts.out + (t * texts.logs.shape[1] + n) * classes, 0, classes * sizeof(T));
}

template <class T, void (*OF)(const Texts&, i64, Sample<T>&)>
void each(Texts& texts, i64 first, i64 last) {
  const i64 classes = texts.logs.shape[2];
  Room room(Sample<T>::bytes(texts.states, classes));
  if (!room) return note(&texts.answer, NO_MEMORY);
  Sample<T> sample(room, texts.states, classes);
  for (i64 n = first; n < last; ++n) OF(texts, n, sample);
}

// The arrays from `at` on are logs, targets, spans, texts, loss and alpha.
bool read(const Call& call, int at, Texts& texts) {
  const abi::Array* array = call.array + at;
  texts.logs = array[0], texts.targets = array[1];
  texts.spans = (const i64*)array[2].data, texts.lengths = (const i64*)array[3].data;
  texts.loss = array[4].data, texts.alpha = array[5].data, texts.states = array[5].shape[2];
  texts.blank = call.integer[0], texts.answer = 0;
  for (int k = 1; k < 4; ++k)
    if (array[k].dtype != abi::i64_) return false;
  const int dtype = array[0].dtype;
  return dtype == array[4].dtype && dtype == array[5].dtype &&
         (dtype == abi::f32 || dtype == abi::f64);
}

template <auto OF_F32, auto OF_F64> i64 share(const Call& call, Texts& texts) {
  const i64 operations = texts.logs.shape[0] * (texts.states + texts.logs.shape[2] / 4 + 1);
  const i64 each = GRAIN / (8 * operations) + 1;
  call.share(texts.logs.dtype == abi::f32 ? as_body(OF_F32) : as_body(OF_F64), &texts,
             texts.logs.shape[1], each);
  return texts.answer;
}

i64 forward(const Call& call) {
  Texts texts;
  if (!read(call, 0, texts)) return 1;
  return share<each<f32, align<f32>>, each<f64, align<f64>>>(call, texts);
}

i64 backward(const Call& call) {
  Texts texts;
  const abi::Array &grad = call.array[0], &out = call.array[7];
  if (!read(call, 1, texts) || grad.dtype != texts.logs.dtype || out.dtype != grad.dtype) return 1;
  texts.grad = grad.data, texts.out = out.data, texts.zero_infinity = call.integer[1];
  return share<each<f32, align_back<f32>>, each<f64, align_back<f64>>>(call, texts);
}

const abi::FunctionEntry functions[] = {{"forward", forward}, {"backward", backward}};

}  // namespace

extern const abi::Family ctc = {"ctc", functions};

}  // namespace CAPABILITY
