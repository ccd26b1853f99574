// Images sampled at the points of a grid. family: sampling
// Calls grid_sample(x (N, C, H, W), grid (N, h, w, 2), out (N, C, h, w), mode, padding, whether
//          corners are aligned): 0; -1 if NumPy must do it.
//          Modes: 0 bilinear, 1 nearest. Paddings: 0 zeros, 1 border, 2 reflection.
// Shapes   x and grid of any strides; out row-major.
// Types    f32 and f64.
// Order of a sum: along y before x, the lower element before the upper one.
// Numbers the bits of native/sampling.py: elements outside count as 0.
// Threads a thread computes some points of a sample.
#include "capability.h"

namespace CAPABILITY {
#include "arithmetic.cuh"

namespace {

constexpr int ZEROS = 0, BORDER = 1, REFLECTION = 2, NEAREST = 1;
constexpr i64 BLOCK = 256;  // points that are processed at a time

#define LOOP __attribute__((noinline)) static void

struct Axis {
  i64 size, stride;  // elements
  int padding;
  bool is_aligned, is_nearest;
};

// For one dimension and each point: two elements and their weights. ok is 0 for an element outside.
template <class T> struct Taps {
  i32 at[2][BLOCK], ok[2][BLOCK];
  T by[2][BLOCK];
};

template <class T> static inline T remainder_of_two(T turns) {
  return turns - 2 * math_floor(turns / 2);
}

template <class T, int PADDING, bool IS_NEAREST>
LOOP look_up(Taps<T>& taps, const T* place, i64 n, const Axis& axis) {
  i32 *at = taps.at[0], *ok = taps.ok[0];
  T* by = taps.by[0];
  const T scale = axis.is_aligned ? (T)((axis.size - 1) / 2.0) : (T)(axis.size / 2.0);
  const T shift = axis.is_aligned ? (T)0 : (T)0.5, last = (T)(axis.size - 1);
  const T first = axis.is_aligned ? (T)0 : (T)-0.5;
  const T span = (T)(axis.is_aligned ? axis.size - 1 : axis.size);
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    T x = (place[i] + 1) * scale - shift;
    if (PADDING == REFLECTION) {
      const T from_first = x - first, away = math_abs(from_first), turns = math_floor(away / span);
      const T rest = away - turns * span;
      const bool is_back = remainder_of_two(turns) == 1;
      const T turned = (is_back ? span - rest : rest) + first;
      x = span == 0 ? x * 0 : turned;
    }
    if (PADDING != ZEROS) {
      const bool is_inside = (x > 0) & (x < last);
      x = is_inside ? x : x >= last ? last : (T)0;
    }
    const T low = IS_NEAREST ? elementary::nearest(x) : math_floor(x), part = x - low;
    T high = low + 1;
    if (PADDING != ZEROS) high = high > last ? last : high;
    const bool has_low = (low >= 0) & (low <= last), has_high = (high >= 0) & (high <= last);
    ok[i] = has_low, ok[BLOCK + i] = has_high;
    at[i] = (i32)(has_low ? low : (T)0), at[BLOCK + i] = (i32)(has_high ? high : (T)0);
    by[i] = IS_NEAREST ? (T)1 : 1 - part, by[BLOCK + i] = part;
  }
}

template <class T>
static void look_up_any(Taps<T>& taps, const T* place, i64 n, const Axis& axis) {
  switch (axis.padding * 2 + axis.is_nearest) {
    case 2 * ZEROS: return look_up<T, ZEROS, false>(taps, place, n, axis);
    case 2 * ZEROS + 1: return look_up<T, ZEROS, true>(taps, place, n, axis);
    case 2 * BORDER: return look_up<T, BORDER, false>(taps, place, n, axis);
    case 2 * BORDER + 1: return look_up<T, BORDER, true>(taps, place, n, axis);
    case 2 * REFLECTION: return look_up<T, REFLECTION, false>(taps, place, n, axis);
    case 2 * REFLECTION + 1: return look_up<T, REFLECTION, true>(taps, place, n, axis);
  }
}

// All combinations of the taps of a block: indices in an image, and weights.
template <class T> struct Spots {
  i32 at[4][BLOCK], ok[4][BLOCK];
  T by[4][BLOCK];
  i64 n;
};

template <class T> struct Work {
  const T *x, *grid;
  T* out;
  i64 samples, channels, places, width;  // places: all points of a sample; width: of its rows
  i64 x_step[2], grid_step[4];  // sample, channel; …: elements
  Axis y_axis, x_axis;
  i64 blocks;
};

template <class T>
static void places_of(const Work<T>& work, i64 sample, i64 first, i64 n, Taps<T>& y, Taps<T>& x) {
  T at[2][BLOCK];
  for (i64 i = 0; i < n; ++i) {
    const i64 row = (first + i) / work.width, column = (first + i) % work.width;
    const T* from = work.grid + sample * work.grid_step[0] + row * work.grid_step[1] +
                    column * work.grid_step[2];
    at[0][i] = from[0], at[1][i] = from[work.grid_step[3]];
  }
  look_up_any(x, at[0], n, work.x_axis);
  look_up_any(y, at[1], n, work.y_axis);
}

template <class T>
static void combine(Spots<T>& spots, const Taps<T>& y, const Taps<T>& x, i64 n, const Axis& y_axis,
                    const Axis& x_axis) {
  spots.n = n;
  for (int k = 0; k < (x_axis.is_nearest ? 1 : 4); ++k) {
    const int a = k / 2, b = k % 2;
#pragma GCC ivdep
    for (i64 i = 0; i < n; ++i) {
      spots.at[k][i] = (i32)(y.at[a][i] * y_axis.stride + x.at[b][i] * x_axis.stride);
      spots.ok[k][i] = y.ok[a][i] & x.ok[b][i];
      spots.by[k][i] = y.by[a][i] * x.by[b][i];
    }
  }
}

// --- results ------------------------------------------------------------------------------------

template <class T, int TAPS> LOOP sample_channel(T* out, const T* x, const Spots<T>& spots) {
  const i32 *at = spots.at[0], *ok = spots.ok[0];
  const T* by = spots.by[0];
  const auto tap = [&](i64 k) __attribute__((always_inline)) {
    const T value = TAPS == 1 ? x[at[k]] : x[at[k]] * by[k];
    return ok[k] ? value : (T)0;
  };
  const i64 n = spots.n;
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    T sum = tap(i);
    if (TAPS > 1) sum += tap(BLOCK + i);
    if (TAPS > 1) sum += tap(2 * BLOCK + i);
    if (TAPS > 1) sum += tap(3 * BLOCK + i);
    out[i] = sum;
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

// Channels are adjacent in x: one point at a time.
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

template <class T> static void sample_blocks(void* context, i64 first, i64 last) {
  const Work<T>& work = *(const Work<T>*)context;
  const bool is_nearest = work.x_axis.is_nearest;
  Taps<T> y, x;
  Spots<T> spots;
  for (i64 block = first; block < last; ++block) {
    const i64 sample = block / work.blocks, begin = block % work.blocks * BLOCK;
    const i64 n = work.places - begin < BLOCK ? work.places - begin : BLOCK;
    places_of(work, sample, begin, n, y, x);
    combine(spots, y, x, n, work.y_axis, work.x_axis);
    const T* image = work.x + sample * work.x_step[0];
    T* out = work.out + sample * work.channels * work.places + begin;
    if (work.x_step[1] == 1 && work.channels > 1) {
      sample_pixels(out, work.places, image, spots, is_nearest ? 1 : 4, work.channels);
      continue;
    }
    for (i64 c = 0; c < work.channels; ++c) {
      const T* channel = image + c * work.x_step[1];
      T* to = out + c * work.places;
      is_nearest ? sample_channel<T, 1>(to, channel, spots)
                 : sample_channel<T, 4>(to, channel, spots);
    }
  }
}

// --- calls --------------------------------------------------------------------------------------

template <class T> static bool steps_of(i64* to, const abi::Array& x, int n) {
  for (int d = 0; d < n; ++d) {
    if (x.stride[d] % (i64)sizeof(T)) return false;
    to[d] = x.stride[d] / (i64)sizeof(T);
  }
  return true;
}

template <class T>
static bool begin(Work<T>& work, const Call& call, const abi::Array& x, const abi::Array& grid) {
  if (x.dtype != code_of<T> || grid.dtype != code_of<T> || x.ndim != 4 || grid.ndim != 4)
    return false;
  i64 step[4];
  if (!steps_of<T>(step, x, 4) || !steps_of<T>(work.grid_step, grid, 4)) return false;
  i64 reach = 0;  // elements of an image: indices are i32
  for (int d = 2; d < 4; ++d) reach += (x.shape[d] - 1) * (step[d] < 0 ? -step[d] : step[d]);
  if (reach >= 1ll << 31) return false;
  work.x = (const T*)x.data, work.grid = (const T*)grid.data;
  work.samples = x.shape[0], work.channels = x.shape[1];
  work.width = grid.shape[2], work.places = grid.shape[1] * grid.shape[2];
  work.x_step[0] = step[0], work.x_step[1] = step[1];
  const bool is_nearest = call.integer[0] == NEAREST, is_aligned = call.integer[2] != 0;
  const int padding = (int)call.integer[1];
  work.y_axis = {x.shape[2], step[2], padding, is_aligned, is_nearest};
  work.x_axis = {x.shape[3], step[3], padding, is_aligned, is_nearest};
  work.blocks = (work.places + BLOCK - 1) / BLOCK;
  return call.integer[0] == 0 || is_nearest;
}

template <class T> static i64 sample(const Call& call) {
  Work<T> work = {};
  if (!begin(work, call, call.array[0], call.array[1])) return -1;
  work.out = (T*)call.array[2].data;
  const i64 each = BLOCK * work.channels;
  call.share(sample_blocks<T>, &work, work.samples * work.blocks,
             each < 1 << 13 ? (1 << 13) / (each + 1) + 1 : 1);
  return 0;
}

static i64 grid_sample(const Call& call) {
  return call.array[0].dtype == abi::f64 ? sample<f64>(call) : sample<f32>(call);
}

const abi::FunctionEntry functions[] = {{"grid_sample", grid_sample}};

}  // namespace

extern const abi::Family sampling = {"sampling", nullptr, 0, functions,
                                     sizeof functions / sizeof *functions};

}  // namespace CAPABILITY
