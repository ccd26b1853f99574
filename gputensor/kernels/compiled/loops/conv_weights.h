// Products of weights and windows: sets of taps, and packed weights.
#ifndef GPUTENSOR_CONV_WEIGHTS
#define GPUTENSOR_CONV_WEIGHTS

#include "conv_windows.h"

namespace CAPABILITY {

namespace {

// The sets of taps along one dimension. A plain convolution has one set. A transposed convolution
// has `step` sets; the results of one set are `step` elements apart.
void axes_of(Axis* axes, i64 number, i64* room, i64 size, i64 out, i64 kernel, i64 step, i64 pad,
             i64 gap, bool transposed) {
  Axis& axis = *axes;
  i64 *offset = room, *index = room + kernel, taps = 0;
  for (i64 k = 0; k < kernel; ++k) {
    const i64 at = transposed ? number + pad - k * gap : k * gap - pad;
    if (transposed && at % step) continue;
    offset[taps] = transposed ? at / step : at, index[taps++] = k;
  }
  if (transposed) {
    axis = {size, out > number ? (out - number + step - 1) / step : 0, 1, number, step, taps};
  } else {
    axis = {size, out, step, 0, 1, taps};
  }
  axis.offset = offset, axis.kernel = index;
}

// Weights (o, c, d, h, w) of one group, ordered by tap; strides in bytes.
struct Weights {
  const char* data;
  i64 made, read;  // from one channel of the result to the next, and of the input
  i64 tap[3];
};

// True if the weights of a channel of the result are contiguous in memory, in the order of
// (channel, tap).
template <class T> bool are_dense(const Weights& w, const Axis* along) {
  i64 step = sizeof(T);
  for (int d = 2; d >= 0; step *= along[d--].taps) {
    if (along[d].taps > 1 && w.tap[d] != step) return false;
    for (i64 k = 0; k < along[d].taps; ++k)
      if (along[d].kernel[k] != k) return false;
  }
  return w.read == step;
}

constexpr i64 LINES = 64;  // rows of packed weights that are written together
constexpr i64 NEXT = 16;   // the same for adjacent channels

// to[k][W]: the weights of a block of W channels of the result, in the order of (channel, tap), for
// channels [first, last) of the input. The last block may have fewer channels.
template <class T, int W>
void pack_weights(const Weights& w, const Windows& of, i64 outer, i64 block, i64 first, i64 last,
                  T* to) {
  const Axis* along = of.along;
  const i64 rows = smaller(W, outer - block * W), taps = of.taps();
  const char* data = w.data + block * W * w.made + first * w.read;
  if (rows < W) memset(to, 0, (last - first) * taps * W * sizeof(T));
  if (are_dense<T>(w, along)) {
    const i64 n = (last - first) * taps;
    for (i64 k = 0; k < n; k += LINES, data += LINES * sizeof(T), to += LINES * W)
      turn<T>((char*)to, W * sizeof(T), data, w.made, rows, smaller(LINES, n - k));
    return;
  }
  const bool is_beside = w.read == (i64)sizeof(T);  // the channels of the input
  const i64 step = is_beside ? NEXT : last - first;
  for (i64 low = 0; low < last - first; low += step, to += step * taps * W) {
    const i64 n = smaller(step, last - first - low);
    T* tap = to;
    for (i64 a = 0; a < along[0].taps; ++a)
      for (i64 b = 0; b < along[1].taps; ++b)
        for (i64 c = 0; c < along[2].taps; ++c, tap += W) {
          const char* from = data + low * w.read + weight_of(along, w.tap, a, b, c);
          if (is_beside) {
            turn<T>((char*)tap, taps * W * sizeof(T), from, w.made, rows, n);
            continue;
          }
          for (i64 ch = 0; ch < n; ++ch, from += w.read)
            for (i64 i = 0; i < rows; ++i) tap[ch * taps * W + i] = *(const T*)(from + i * w.made);
        }
  }
}

template <class T> struct Products {
  Windows of;
  const Array *x, *out;
  Weights source;       // of the first group
  i64 group_step;       // from one group's weights to the next, in bytes
  const T* weights;     // packed, of all groups; null if each unit of work packs its own
  const char* bias;
  i64 bias_step, outer, inner, groups;
  i64 blocks;  // of channels of the result
  i64 answer;

  Weights of_group(i64 group) const {
    Weights own = source;
    own.data += group * group_step;
    return own;
  }
  // The element of the result for the first window of a run.
  char* result_of(const Run& run, i64 channel) const {
    char* to = out->data + run.sample * out->stride[0] + channel * out->stride[1];
    for (int d = 0; d < 3; ++d)
      to += (of.along[d].first + run.at[d] * of.along[d].apart) * out->stride[d + 2];
    return to;
  }
};

}  // namespace

}  // namespace CAPABILITY

#endif
