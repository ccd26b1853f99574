// Convolutions whose groups have one input channel, so that they are not matrix products. Rows of
// windows, or adjacent channels, are summed tap by tap.
#ifndef GPUTENSOR_CONV_DEPTHWISE
#define GPUTENSOR_CONV_DEPTHWISE

#include "conv_windows.h"

namespace CAPABILITY {

constexpr i64 LINE = 2048;     // windows of a strip: two lines fit into the first-level cache
constexpr i64 LANES = 256;     // channels whose sums are taken at a time
constexpr i64 BESIDE = 32;     // channels whose gradients are added at a time
// The number of partial sums of a line, which are combined at its end. It is equal for all
// capabilities.
constexpr i64 SOME_SUMS = 16;

template <class T> struct Depthwise {
  Windows of;
  const Array *x, *w, *bias, *out;
  i64 outer;        // result channels per input channel
  bool transposed;
  const T* packed;  // for adjacent channels: [tap][channel]
  i64 answer;
};

static inline const char* weight_at(const Array& w, i64 channel, i64 outer, bool transposed) {
  return transposed ? w.data + channel / outer * w.stride[0] + channel % outer * w.stride[1]
                    : w.data + channel * w.stride[0];
}

// --- strips of rows ------------------------------------------------------------------------------

// A strip of windows of one plane of a channel is treated as one line: row after row, with `pitch`
// elements from one row to the next. The elements that a tap reads are also a line. That line is in
// a copy with padding, in which elements of windows that are one step apart are adjacent. So no
// loop is as short as a row, and no loop tests for padding.
struct Strips {
  // for h and w: first offset, extent to the last one, number of copies
  i64 low[2], reach[2], phases[2];
  i64 rows, columns;                // maximum number of windows of a strip
  i64 down, across;                 // strips per plane
  i64 pitch, plane;                 // elements of a row and of a copy
};

// Extra elements after a line, because lines are read in whole registers.
template <class T> constexpr i64 SLACK = 4 * wide<T>::LANES;

static Strips strips_of(const Windows& of) {
  Strips s;
  for (int k = 0; k < 2; ++k) {
    const Axis& axis = of.along[k + 1];
    i64 low = axis.taps ? axis.offset[0] : 0, high = low;
    for (i64 t = 1; t < axis.taps; ++t) {
      low = smaller(low, axis.offset[t]);
      high = larger(high, axis.offset[t]);
    }
    s.low[k] = low, s.reach[k] = high - low, s.phases[k] = smaller(axis.step, high - low + 1);
  }
  const Axis &h = of.along[1], &w = of.along[2];
  s.columns = smaller(w.count, LINE);
  s.pitch = s.columns + s.reach[1] / w.step;
  s.rows = smaller(h.count, larger(1, LINE / s.pitch));
  s.down = (h.count + s.rows - 1) / s.rows, s.across = (w.count + s.columns - 1) / s.columns;
  s.plane = (s.rows + s.reach[0] / h.step) * s.pitch;
  return s;
}

// True if a strip fits. With padding, taps may be far apart.
static inline bool fits(const Strips& s) {
  constexpr i64 MOST = 1 << 20;
  return s.reach[0] < MOST && s.reach[1] < MOST && s.phases[0] * s.phases[1] * s.plane < 16 * MOST;
}

// A strip: windows [row, row + rows) x [column, column + columns) of a plane.
struct Strip { i64 row, column, rows, columns; };

static inline Strip strip_at(const Windows& of, const Strips& s, i64 number) {
  const i64 row = number / s.across * s.rows, column = number % s.across * s.columns;
  return {row, column, smaller(s.rows, of.along[1].count - row),
          smaller(s.columns, of.along[2].count - column)};
}

// Copy the elements of a plane that a strip's windows read, with zeros around them.
template <class T>
static void fill(const Windows& of, const Strips& s, const Strip& strip, const Array& x,
                 const char* plane, T* to) {
  const Axis &h = of.along[1], &w = of.along[2];
  for (i64 a = 0; a < s.phases[0]; ++a)
    for (i64 b = 0; b < s.phases[1]; ++b, to += s.plane) {
      const i64 rows = strip.rows + (s.reach[0] - a) / h.step;
      const i64 columns = strip.columns + (s.reach[1] - b) / w.step;
      const i64 begin = strip.column * w.step + s.low[1] + b;
      i64 low, high;
      inside(w, begin, columns, &low, &high);
      for (i64 j = 0; j < rows; ++j) {
        const i64 row = (strip.row + j) * h.step + s.low[0] + a;
        T* line = to + j * s.pitch;
        if (row < 0 || row >= h.size || low == high) {
          for (i64 k = 0; k < s.pitch; ++k) line[k] = 0;
          continue;
        }
        for (i64 k = 0; k < low; ++k) line[k] = 0;
        spread(line + low, plane + row * x.stride[3] + (begin + low * w.step) * x.stride[4],
               w.step * x.stride[4], high - low);
        for (i64 k = high; k < s.pitch; ++k) line[k] = 0;
      }
    }
}

// The begin of a tap's line in the copies.
static inline i64 line_of(const Windows& of, const Strips& s, i64 b, i64 c) {
  const Axis &h = of.along[1], &w = of.along[2];
  const i64 down = h.offset[b] - s.low[0], across = w.offset[c] - s.low[1];
  return (down % h.step * s.phases[1] + across % w.step) * s.plane + down / h.step * s.pitch +
         across / w.step;
}

// to[k] += the sum over taps of weight[t] * line[t][k], for n elements and some after them.
template <class T>
static void add_lines(T* to, const T* const* line, const T* weight, i64 taps, i64 n) {
  typedef wide<T> V;
  for (i64 k = 0; k < n; k += 4 * V::LANES) {
    typename V::type sum[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sum[j] = V::load(to + k + j * V::LANES);
    for (i64 t = 0; t < taps; ++t) {
      const typename V::type by = V::all(weight[t]);
      const T* from = line[t] + k;
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) sum[j] = V::fma(by, V::load(from + j * V::LANES), sum[j]);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) V::store(to + k + j * V::LANES, sum[j]);
  }
}

template <class T> void strips_of_windows(Depthwise<T>& p, i64 first, i64 last) {
  const Axis &d = p.of.along[0], &h = p.of.along[1], &w = p.of.along[2];
  const Array &x = *p.x, &out = *p.out;
  const Strips s = strips_of(p.of);
  const i64 channels = out.shape[1], taps = h.taps * w.taps, strips = s.down * s.across;
  const i64 copies = s.phases[0] * s.phases[1] * s.plane + SLACK<T>;
  const i64 sums = s.rows * s.pitch + SLACK<T>;
  Room room(Room::bytes_of<T>(copies) + Room::bytes_of<T>(sums) + Room::bytes_of<T>(taps) +
            Room::bytes_of<const T*>(taps));
  if (!room) return note(&p.answer, NO_MEMORY);
  T *copy = room.take<T>(copies), *sum = room.take<T>(sums), *weight = room.take<T>(taps);
  const T** line = room.take<const T*>(taps);
  memset(copy, 0, copies * sizeof(T));
  for (i64 b = 0; b < h.taps; ++b)
    for (i64 c = 0; c < w.taps; ++c) line[b * w.taps + c] = copy + line_of(p.of, s, b, c);
  for (i64 unit = first; unit < last; ++unit) {
    const Strip strip = strip_at(p.of, s, unit % strips);
    const i64 i = unit / strips % d.count, rest = unit / strips / d.count;
    const i64 channel = rest % channels, sample = rest / channels;
    const char* from = x.data + sample * x.stride[0] + channel / p.outer * x.stride[1];
    const char* weights = weight_at(*p.w, channel, p.outer, p.transposed);
    const T begin = p.bias->data ? *(const T*)(p.bias->data + channel * p.bias->stride[0]) : (T)0;
    const i64 n = (strip.rows - 1) * s.pitch + strip.columns;
    for (i64 k = 0; k < n; ++k) sum[k] = begin;
    for (i64 a = 0; a < d.taps; ++a) {
      const i64 depth = i * d.step + d.offset[a];
      if (depth < 0 || depth >= d.size || !taps) continue;
      fill(p.of, s, strip, x, from + depth * x.stride[2], copy);
      for (i64 b = 0; b < h.taps; ++b)
        for (i64 c = 0; c < w.taps; ++c)
          weight[b * w.taps + c] =
              *(const T*)(weights + weight_of(p.of.along, p.w->stride + 2, a, b, c));
      add_lines(sum, line, weight, taps, n);
    }
    char* to = out.data + sample * out.stride[0] + channel * out.stride[1] +
               (d.first + i * d.apart) * out.stride[2] +
               (h.first + strip.row * h.apart) * out.stride[3] +
               (w.first + strip.column * w.apart) * out.stride[4];
    const i64 step = w.apart * out.stride[4];
    for (i64 j = 0; j < strip.rows; ++j, to += h.apart * out.stride[3]) {
      const T* row = sum + j * s.pitch;
      if (step == (i64)sizeof(T)) {
        memcpy(to, row, strip.columns * sizeof(T));
      } else {
        for (i64 k = 0; k < strip.columns; ++k) *(T*)(to + k * step) = row[k];
      }
    }
  }
}

// --- channels side by side -----------------------------------------------------------------------

// All channels of one window, which are adjacent.
template <class T> void channels_of_windows(const Depthwise<T>& p, i64 first, i64 last) {
  const Axis* along = p.of.along;
  const Array &x = *p.x, &out = *p.out;
  const i64 channels = out.shape[1];
  T sum[LANES];
  for (i64 unit = first; unit < last; ++unit) {
    i64 rest = unit, at[3];
    for (int k = 2; k >= 0; --k) at[k] = rest % along[k].count, rest /= along[k].count;
    const char* from = x.data + rest * x.stride[0];
    char* to = out.data + rest * out.stride[0];
    for (int k = 0; k < 3; ++k) to += (along[k].first + at[k] * along[k].apart) * out.stride[k + 2];
    for (i64 block = 0; block < channels; block += LANES) {
      const i64 n = smaller(LANES, channels - block);
      for (i64 k = 0; k < n; ++k)
        sum[k] = p.bias->data ? *(const T*)(p.bias->data + (block + k) * p.bias->stride[0]) : (T)0;
      i64 tap = 0;
      for (i64 a = 0; a < along[0].taps; ++a)
        for (i64 b = 0; b < along[1].taps; ++b)
          for (i64 c = 0; c < along[2].taps; ++c, ++tap) {
            const i64 place[3] = {at[0] * along[0].step + along[0].offset[a],
                                  at[1] * along[1].step + along[1].offset[b],
                                  at[2] * along[2].step + along[2].offset[c]};
            bool is_inside = true;
            const char* read = from + block * sizeof(T);
            for (int k = 0; k < 3; ++k) {
              is_inside &= place[k] >= 0 && place[k] < along[k].size;
              read += place[k] * x.stride[k + 2];
            }
            if (!is_inside) continue;
            const T *values = (const T*)read, *weights = p.packed + tap * channels + block;
#pragma GCC ivdep
            for (i64 k = 0; k < n; ++k) sum[k] += weights[k] * values[k];
          }
      memcpy(to + block * sizeof(T), sum, n * sizeof(T));
    }
  }
}

static inline bool are_side_by_side(const Array& x) {
  return x.shape[1] > 1 && x.stride[1] == x.itemsize &&
         (x.shape[4] == 1 || x.stride[4] != x.itemsize);
}

template <class T>
i64 each_channel(const Call& call, const Windows& of, const Array& x, const Array& w,
                 const Array& bias, const Array& out, bool transposed, i64 outer) {
  const i64 channels = out.shape[1], taps = of.taps();
  const bool has_lanes = outer == 1 && are_side_by_side(x) && are_side_by_side(out);
  Room room(Room::bytes_of<T>(has_lanes ? larger(1, taps) * channels : 1));
  if (!room) return NO_MEMORY;
  T* packed = room.take<T>(has_lanes ? larger(1, taps) * channels : 1);
  Depthwise<T> p = {of, &x, &w, &bias, &out, outer, transposed, packed, 0};
  if (!has_lanes) {
    const Strips s = strips_of(of);
    if (!fits(s)) return 1;
    const i64 strips = of.samples * channels * of.along[0].count * s.down * s.across;
    call.share(as_body(strips_of_windows<T>), &p, strips,
               larger(1, SHARE / larger(1, s.rows * s.pitch * taps / 4)));
    return p.answer;
  }
  const Axis* along = of.along;
  for (i64 channel = 0; channel < channels; ++channel) {
    const char* from = weight_at(w, channel, outer, transposed);
    T* to = packed + channel;
    for (i64 a = 0; a < along[0].taps; ++a)
      for (i64 b = 0; b < along[1].taps; ++b)
        for (i64 c = 0; c < along[2].taps; ++c, to += channels)
          *to = *(const T*)(from + weight_of(along, w.stride + 2, a, b, c));
  }
  call.share(as_body(channels_of_windows<T>), &p, of.columns(),
             larger(1, SHARE / larger(1, channels * taps)));
  return 0;
}

// --- the gradient of weights ---------------------------------------------------------------------

// The sum of products of two lines of n elements, as partial sums that are combined in a fixed
// order.
template <class T> static T dot(const T* a, const T* b, i64 n) {
  T sum[SOME_SUMS] = {};
  i64 k = 0;
  for (; k + SOME_SUMS <= n; k += SOME_SUMS)
    for (i64 j = 0; j < SOME_SUMS; ++j) sum[j] += a[k + j] * b[k + j];
  for (i64 j = 0; k + j < n; ++j) sum[j] += a[k + j] * b[k + j];
  for (i64 half = SOME_SUMS / 2; half; half /= 2)
    for (i64 j = 0; j < half; ++j) sum[j] += sum[j + half];
  return sum[0];
}

// Add the gradients of all taps of one channel to `sums`, in f64. copy, line: memory for a strip.
template <class T>
void gradient_of_channel(const Windows& of, const Strips& s, const Array& x, const Array& grad,
                         i64 channel, i64 outer, T* copy, T* line, f64* sums) {
  const Axis &d = of.along[0], &h = of.along[1], &w = of.along[2];
  const i64 strips = s.down * s.across;
  for (i64 unit = 0; unit < of.samples * d.count * strips; ++unit) {
    const Strip strip = strip_at(of, s, unit % strips);
    const i64 i = unit / strips % d.count, sample = unit / strips / d.count;
    const char* from = x.data + sample * x.stride[0] + channel / outer * x.stride[1];
    const char* grads = grad.data + sample * grad.stride[0] + channel * grad.stride[1] +
                        i * grad.stride[2] + strip.row * grad.stride[3] +
                        strip.column * grad.stride[4];
    for (i64 j = 0; j < strip.rows; ++j) {
      T* row = line + j * s.pitch;
      spread(row, grads + j * grad.stride[3], grad.stride[4], strip.columns);
      for (i64 k = strip.columns; k < s.pitch; ++k) row[k] = 0;
    }
    const i64 n = (strip.rows - 1) * s.pitch + strip.columns;
    for (i64 a = 0; a < d.taps; ++a) {
      const i64 depth = i * d.step + d.offset[a];
      if (depth < 0 || depth >= d.size) continue;
      fill(of, s, strip, x, from + depth * x.stride[2], copy);
      for (i64 b = 0; b < h.taps; ++b)
        for (i64 c = 0; c < w.taps; ++c)
          sums[(a * h.taps + b) * w.taps + c] += dot(copy + line_of(of, s, b, c), line, n);
    }
  }
}

// The gradients of some adjacent channels. sums: [tap][lane], in f64. The terms of a row of windows
// are added first.
template <class T>
void gradient_of_lanes(const Windows& of, const Array& x, const Array& grad, i64 channel, i64 lanes,
                       f64* sums) {
  const Axis &d = of.along[0], &h = of.along[1], &w = of.along[2];
  T sum[BESIDE];
  for (i64 row = 0; row < of.samples * d.count * h.count; ++row) {
    const i64 j = row % h.count, i = row / h.count % d.count, sample = row / h.count / d.count;
    const char* grads = grad.data + sample * grad.stride[0] + i * grad.stride[2] +
                        j * grad.stride[3] + channel * sizeof(T);
    const char* from = x.data + sample * x.stride[0] + channel * sizeof(T);
    for (i64 tap = 0; tap < of.taps(); ++tap) {
      const i64 c = tap % w.taps, b = tap / w.taps % h.taps, a = tap / w.taps / h.taps;
      const i64 depth = i * d.step + d.offset[a], height = j * h.step + h.offset[b];
      if (depth < 0 || depth >= d.size || height < 0 || height >= h.size) continue;
      const char* values = from + depth * x.stride[2] + height * x.stride[3];
      i64 low, high;
      inside(w, w.offset[c], w.count, &low, &high);
      for (i64 k = 0; k < lanes; ++k) sum[k] = 0;
      for (i64 window = low; window < high; ++window) {
        const T* value = (const T*)(values + (window * w.step + w.offset[c]) * x.stride[4]);
        const T* by = (const T*)(grads + window * grad.stride[4]);
        if (lanes == BESIDE) {
#pragma GCC ivdep
          for (i64 k = 0; k < BESIDE; ++k) sum[k] += value[k] * by[k];
        } else {
          for (i64 k = 0; k < lanes; ++k) sum[k] += value[k] * by[k];
        }
      }
      for (i64 k = 0; k < lanes; ++k) sums[tap * lanes + k] += sum[k];
    }
  }
}

template <class T>
i64 each_gradient(const Call& call, const Windows& of, const Array& x, const Array& grad,
                  const Array& out, i64 outer) {
  const i64 channels = grad.shape[1], taps = of.taps();
  const bool has_lanes = outer == 1 && are_side_by_side(x) && are_side_by_side(grad);
  const i64 lanes = has_lanes ? BESIDE : 1, units = (channels + lanes - 1) / lanes;
  const Axis* along = of.along;
  const Strips s = strips_of(of);
  if (!has_lanes && !fits(s)) return 1;
  i64 answer = 0;
  over(call, true, units, of.columns() * taps * lanes, [&](i64 first, i64 last) {
    const i64 copies = has_lanes ? 1 : s.phases[0] * s.phases[1] * s.plane + SLACK<T>;
    const i64 length = has_lanes ? 1 : s.rows * s.pitch;
    Room room(Room::bytes_of<f64>(taps * lanes) + Room::bytes_of<T>(copies) +
              Room::bytes_of<T>(length));
    if (!room) return note(&answer, NO_MEMORY);
    f64* sums = room.take<f64>(taps * lanes);
    T *copy = room.take<T>(copies), *line = room.take<T>(length);
    for (i64 unit = first; unit < last; ++unit) {
      const i64 channel = unit * lanes, count = smaller(lanes, channels - channel);
      memset(sums, 0, taps * count * sizeof(f64));
      if (has_lanes) {
        gradient_of_lanes<T>(of, x, grad, channel, count, sums);
      } else {
        gradient_of_channel<T>(of, s, x, grad, channel, outer, copy, line, sums);
      }
      for (i64 tap = 0; tap < taps; ++tap) {
        const i64 c = tap % along[2].taps, b = tap / along[2].taps % along[1].taps;
        char* to = out.data + tap / along[2].taps / along[1].taps * out.stride[2] +
                   b * out.stride[3] + c * out.stride[4];
        for (i64 k = 0; k < count; ++k)
          *(T*)(to + (channel + k) * out.stride[0]) = (T)sums[tap * count + k];
      }
    }
  });
  return answer;
}

}  // namespace CAPABILITY

#endif
