// Images sampled at the points of a grid, and the gradients of image and grid.    family: sampling
//
// Calls    grid_sample(x (N, C, H, W), grid (N, h, w, 2), out (N, C, h, w), mode, padding, true if
//          corners are aligned), or with depths before H and h and 3 coordinates;
//          grid_sample_backward(grad (N, C, points), x, grid, of_x or None, of_grid or None, the
//          same numbers), which adds to of_x. Modes: 0 bilinear, 1 nearest, 2 bicubic. Paddings: 0
//          zeros, 1 border, 2 reflection.
// Returns  0; -1 if NumPy or operators must do it.
// Shapes   x, grad, grid and of_x of any strides; out and of_grid row-major.
// Types    f32 and f64.
// Order    of a sum: z, then y, then x; along each the lower element first.
// Numbers  the bits equal those of native/sampling.py; elements outside count as 0.
// Threads  each thread computes some points of a sample; for gradients see sampling_backward.h.
#include "sampling_backward.h"

namespace CAPABILITY {

namespace {

template <class T> struct Work {
  Places<T> of;
  const T* x;
  T* out;
  i64 step[2];  // strides of x: sample, channel; in elements
};

// --- results ------------------------------------------------------------------------------------

template <class T, int TAPS, int CHANNELS>
LOOP sample_channels(T* const* out, const T* const* x, const Spots<T>& spots) {
  for (i64 i = 0; i < spots.n; ++i) {
    T sum[CHANNELS];
    const bool is_whole = spots.is_whole[i];
#pragma GCC unroll 4
    for (int k = 0; k < TAPS; ++k) {
      const i64 at = spots.at[k][i];
      const T by = spots.by[k][i];
      const bool is_ok = is_whole || spots.ok[k][i];
#pragma GCC unroll 4
      for (int c = 0; c < CHANNELS; ++c) {
        const T value = !is_ok ? (T)0 : TAPS == 1 ? x[c][at] : x[c][at] * by;
        sum[c] = k ? sum[c] + value : value;
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < CHANNELS; ++c) out[c][i] = sum[c];
  }
}

template <class T, int CHANNELS>
static void sample_any(T* const* out, const T* const* x, const Spots<T>& spots, int taps) {
  switch (taps) {
    case 1: return sample_channels<T, 1, CHANNELS>(out, x, spots);
    case 4: return sample_channels<T, 4, CHANNELS>(out, x, spots);
    case 8: return sample_channels<T, 8, CHANNELS>(out, x, spots);
    case 16: return sample_channels<T, 16, CHANNELS>(out, x, spots);
  }
}

template <class T> LOOP put_pixel(T* to, const T* x, T by, i64 n) {
#pragma GCC ivdep
  for (i64 c = 0; c < n; ++c) to[c] = x[c] * by;
}
template <class T> LOOP add_pixel(T* to, const T* x, T by, i64 n) {
#pragma GCC ivdep
  for (i64 c = 0; c < n; ++c) to[c] += x[c] * by;
}

// The channels are adjacent in x, so one point is computed at a time.
template <class T>
static void sample_pixels(T* out, i64 apart, const T* x, const Spots<T>& spots, int n_taps,
                          i64 channels) {
  constexpr i64 SOME = 16, MOST = 64;
  alignas(64) T room[SOME][MOST];
  for (i64 first = 0; first < channels; first += MOST) {
    const i64 n = channels - first < MOST ? channels - first : MOST;
    for (i64 i = 0; i < spots.n; i += SOME) {
      const i64 count = spots.n - i < SOME ? spots.n - i : SOME;
      for (i64 e = 0; e < count; ++e) {
        bool is_first = true;
        for (int k = 0; k < n_taps; ++k) {
          if (!spots.ok[k][i + e]) continue;
          const T* from = x + spots.at[k][i + e] + first;
          const T by = n_taps == 1 ? (T)1 : spots.by[k][i + e];
          is_first ? put_pixel(room[e], from, by, n) : add_pixel(room[e], from, by, n);
          is_first = false;
        }
        for (i64 c = 0; is_first && c < n; ++c) room[e][c] = 0;
      }
      for (i64 c = 0; c < n; ++c)
        for (i64 e = 0; e < count; ++e) out[(first + c) * apart + i + e] = room[e][c];
    }
  }
}

template <class T>
static void sample_images(const Work<T>& work, T* out, const T* image, const Spots<T>& spots) {
  const Places<T>& of = work.of;
  const int taps = of.taps();
  for (i64 channel = 0; channel < of.channels; channel += TOGETHER) {
    T* to[TOGETHER];
    const T* from[TOGETHER];
    const i64 count = smaller(TOGETHER, of.channels - channel);
    for (i64 c = 0; c < count; ++c) {
      to[c] = out + (channel + c) * of.places;
      from[c] = image + (channel + c) * work.step[1];
    }
    of_count(count, [&](auto n) { sample_any<T, n.value>(to, from, spots, taps); });
  }
}

template <class T> static void sample_blocks(const Work<T>& work, i64 first, i64 last) {
  const Places<T>& of = work.of;
  Taps<T> taps[3];
  Spots<T> spots;
  for (i64 block = first; block < last; ++block) {
    const i64 sample = block / of.blocks, begin = block % of.blocks * BLOCK;
    const i64 n = smaller(BLOCK, of.places - begin);
    taps_of<T, false>(of, sample, begin, n, taps);
    combine(spots, of, taps, n);
    const T* image = work.x + sample * work.step[0];
    T* out = work.out + sample * of.channels * of.places + begin;
    if (work.step[1] == 1 && of.channels > 1) {
      sample_pixels(out, of.places, image, spots, of.taps(), of.channels);
      continue;
    }
    sample_images(work, out, image, spots);
  }
}

// --- calls --------------------------------------------------------------------------------------

template <class T> static i64 sample(const Call& call) {
  const Array &x = call.array[0], &grid = call.array[1];
  Work<T> work = {{}, (const T*)x.data, (T*)call.array[2].data};
  if (!begin(work.of, x, grid, call.integer) || !steps_of<T>(work.step, x, 0, 2)) return -1;
  const i64 each = BLOCK * work.of.channels * work.of.taps() / 4;
  call.share(as_body(sample_blocks<T>), &work, work.of.samples * work.of.blocks,
             each < WORTH ? WORTH / (each + 1) + 1 : 1);
  return 0;
}

const abi::FunctionEntry functions[] = {
    {"grid_sample", by_dtype<sample<f32>, sample<f64>>},
    {"grid_sample_backward", by_dtype<sample_backward<f32>, sample_backward<f64>>},
};

}  // namespace

extern const abi::Family sampling = {"sampling", functions};

}  // namespace CAPABILITY
