// The gradients of images that were sampled at the points of a grid, and of the grid.
//
// Order    of an image: points in the order of the grid, and for each point its elements. Of the
//          grid: channels, then elements.
// Threads  for images, each thread takes some channels of a sample; for the grid, some points of a
//          sample.
#ifndef GPUTENSOR_SAMPLING_BACKWARD_H
#define GPUTENSOR_SAMPLING_BACKWARD_H

#include "sampling_taps.h"

namespace CAPABILITY {

// The number of products that a thread computes at a time.
constexpr i64 WORTH = 1 << 13;
// The maximum number of channels of a thread. Their positions are looked up once.
constexpr i64 MOST_CHANNELS = 16;

template <class T> struct Slopes {
  Places<T> of;
  const Array *grad, *x, *of_x, *of_grid;  // grad: (samples, channels, points)
  i64 group, groups;                       // channels of a unit; number of units of a sample
};

// The gradients of n points of one channel: in place, or in `room`.
template <class T>
static const T* given(const Array& grad, i64 sample, i64 channel, i64 first, i64 n, T* room) {
  const i64 step = grad.stride[2];
  const char* from = grad.data + sample * grad.stride[0] + channel * grad.stride[1] + first * step;
  if (step == (i64)sizeof(T)) return (const T*)from;
  for (i64 i = 0; i < n; ++i) room[i] = *(const T*)(from + i * step);
  return room;
}

// Add the contributions of a block's points to CHANNELS images.
template <class T, int CHANNELS>
LOOP scatter(T* const* to, const T* const* grad, const Spots<T>& spots, int taps) {
  for (i64 i = 0; i < spots.n; ++i)
    for (int k = 0; k < taps; ++k) {
      if (!spots.is_whole[i] && !spots.ok[k][i]) continue;
      const i64 at = spots.at[k][i];
      const T by = spots.by[k][i];
#pragma GCC unroll 4
      for (int c = 0; c < CHANNELS; ++c) to[c][at] += grad[c][i] * by;
    }
}

template <class T>
static void scatter_block(const Slopes<T>& s, const Spots<T>& spots, i64 sample, i64 first,
                          i64 channel, i64 last) {
  T room[TOGETHER][BLOCK], *to[TOGETHER];
  const T* grad[TOGETHER];
  const Array& of_x = *s.of_x;
  const int taps = s.of.taps();
  for (; channel < last; channel += TOGETHER) {
    const i64 count = smaller(TOGETHER, last - channel);
    for (i64 c = 0; c < count; ++c) {
      to[c] = (T*)(of_x.data + sample * of_x.stride[0] + (channel + c) * of_x.stride[1]);
      grad[c] = given(*s.grad, sample, channel + c, first, spots.n, room[c]);
    }
    of_count(count, [&](auto n) { scatter<T, n.value>(to, grad, spots, taps); });
  }
}

template <class T> static void scatter_units(const Slopes<T>& s, i64 first, i64 last) {
  Taps<T> taps[3];
  Spots<T> spots;
  for (i64 unit = first; unit < last; ++unit) {
    const i64 sample = unit / s.groups, channel = unit % s.groups * s.group;
    const i64 stop = smaller(channel + s.group, s.of.channels);
    for (i64 at = 0; at < s.of.places; at += BLOCK) {
      const i64 n = smaller(BLOCK, s.of.places - at);
      taps_of<T, false>(s.of, sample, at, n, taps);
      combine(spots, s.of, taps, n);
      scatter_block(s, spots, sample, at, channel, stop);
    }
  }
}

// --- the grid's gradient -------------------------------------------------------------------------

template <class T, int CHANNELS>
LOOP add_products(T* sums, const T* const* grad, const T* const* x, const i32* at, i64 n) {
  for (i64 i = 0; i < n; ++i) {
    T sum = sums[i];
#pragma GCC unroll 4
    for (int c = 0; c < CHANNELS; ++c) sum += grad[c][i] * x[c][at[i]];
    sums[i] = sum;
  }
}

// Add to sums[k] the products of all channels' gradients and elements at the positions of
// combination k.
template <class T>
static void add_channels(const Slopes<T>& s, i64 sample, i64 first, const Spots<T>& spots,
                         T (*sums)[BLOCK]) {
  T room[TOGETHER][BLOCK];
  const T *grad[TOGETHER], *x[TOGETHER];
  const int taps = s.of.taps();
  for (i64 channel = 0; channel < s.of.channels; channel += TOGETHER) {
    const i64 count = smaller(TOGETHER, s.of.channels - channel);
    for (i64 c = 0; c < count; ++c) {
      grad[c] = given(*s.grad, sample, channel + c, first, spots.n, room[c]);
      x[c] = (const T*)(s.x->data + sample * s.x->stride[0] + (channel + c) * s.x->stride[1]);
    }
    for (int k = 0; k < taps; ++k)
      of_count(count, [&](auto n) {
        add_products<T, n.value>(sums[k], grad, x, spots.at[k], spots.n);
      });
  }
}

// Add the contribution of combination k: its sum times the weights, one of which is replaced by its
// derivative.
template <class T>
LOOP add_slopes(T* to, const T* sum, const i32* ok, const Taps<T>* taps, const int* digit, int dims,
                int changed, i64 n) {
  T weight[BLOCK];
  for (int d = 0; d < dims; ++d) {
    const T* by = d == changed ? taps[d].slope[digit[d]] : taps[d].by[digit[d]];
    for (i64 i = 0; i < n; ++i) weight[i] = d ? weight[i] * by[i] : by[i];
  }
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) to[i] += (ok[i] ? sum[i] : (T)0) * weight[i];
}

template <class T>
static void grid_block(const Slopes<T>& s, i64 sample, i64 first, i64 n, Taps<T>* taps,
                       Spots<T>& spots, T (*sum)[BLOCK]) {
  const Places<T>& of = s.of;
  const int count = of.taps();
  T room[BLOCK];
  taps_of<T, true>(of, sample, first, n, taps);
  combine(spots, of, taps, n);
  memset(sum, 0, count * sizeof *sum);
  add_channels(s, sample, first, spots, sum);
  T* to = (T*)s.of_grid->data + (sample * of.places + first) * of.dims;
  for (int d = 0; d < of.dims; ++d) {
    memset(room, 0, sizeof room);
    for (int k = 0; k < count; ++k) {
      int digit[3];
      digits(of, k, digit);
      add_slopes(room, sum[k], spots.ok[k], taps, digit, of.dims, d, n);
    }
    for (i64 i = 0; i < n; ++i) to[i * of.dims + of.dims - 1 - d] = room[i];
  }
}

template <class T> static void grid_blocks(const Slopes<T>& s, i64 first, i64 last) {
  Taps<T> taps[3];
  Spots<T> spots;
  T sum[MOST_TAPS][BLOCK];
  for (i64 unit = first; unit < last; ++unit) {
    const i64 at = unit % s.of.blocks * BLOCK, n = smaller(BLOCK, s.of.places - at);
    grid_block(s, unit / s.of.blocks, at, n, taps, spots, sum);
  }
}

template <class T> static i64 sample_backward(const Call& call) {
  const Array &grad = call.array[0], &x = call.array[1], &grid = call.array[2];
  Slopes<T> s = {{}, &grad, &x, call.array + 3, call.array + 4};
  if (grad.dtype != code_of<T> || !begin(s.of, x, grid, call.integer)) return -1;
  const i64 work = s.of.taps() * s.of.places;
  if (s.of_grid->data)
    call.share(as_body(grid_blocks<T>), &s, s.of.samples * s.of.blocks,
               larger(1, WORTH / (BLOCK * s.of.taps() * larger(1, s.of.channels))));
  if (!s.of_x->data) return 0;
  if (!walk(s.of, *s.of_x)) return -1;
  s.group = smaller(MOST_CHANNELS, larger(1, s.of.channels));
  const auto units = [&] { return s.of.samples * ((s.of.channels + s.group - 1) / s.group); };
  while (s.group > 1 && units() < 2 * call.threads) s.group = (s.group + 1) / 2;
  s.groups = (s.of.channels + s.group - 1) / s.group;
  call.share(as_body(scatter_units<T>), &s, units(), larger(1, WORTH / larger(1, work * s.group)));
  return 0;
}

}  // namespace CAPABILITY

#endif
