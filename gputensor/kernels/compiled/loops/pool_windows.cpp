// out[n, c, window] = the maximum of a window and its index, or the mean; weighted sums of
// elements.                                                                           family: pool
// Calls    max_pool(x, values, places, windows, spatial dimensions)
//          avg_pool(x, out, windows, spatial dimensions, include_pad, divisor or 0)
//          adaptive_avg_pool(x, out), adaptive_max_pool(x, out, places): one window of x for each
//          element of out
//          max_pool_backward(grad, places, out): dense planes of grad, and of out
//          line(x, out, at, by, has_gaps): lines of an image resampled to another length
//          Other arrays of pools are (n, c, d, h, w), of any strides; windows: the kernel, the
//          step, the padding and the dilation of d, h and w.
// Types    maxima: integers, f32 and f64; means and gradients: f32 and f64.
// Numbers  the first of equal elements; the last NaN.
// Order    a window's elements are added in row-major order. One thread computes a row of windows,
//          or the adjacent channels of a window. adaptive_avg_pool first adds up each column, then
//          the columns, SHORT at a time. Gradients are added to an element in the order of its
//          windows.
#include "matrices.h"
#include "turn.h"
#include "volume.h"

namespace CAPABILITY {

namespace {

constexpr i64 SOME = 256, TAPS = 1 << 15;  // adjacent lanes; elements per thread

struct Window { i64 size, out, kernel, step, pad, gap, stride, to; };  // strides in bytes

struct Pool {
  const char* x;
  char *out, *places;
  Window along[3];  // d, h, w
  i64 channels, channel, channel_to, channel_place;  // bytes from one window to the next
  i64 sample, sample_to, sample_place, place[3];
  bool has_lanes;  // true if strides are of channels, not of windows along w
  bool counts_pad;
  i64 divisor;
  i32* columns;  // the number of counted elements of a row, for each window along w
};

// The taps of window i that are inside the image: [first, last).
inline void taps_of(const Window& w, i64 i, i64& first, i64& last) {
  const i64 begin = i * w.step - w.pad;
  first = begin < 0 ? (-begin + w.gap - 1) / w.gap : 0;
  const i64 left = w.size - begin;
  last = left <= 0 ? 0 : (left + w.gap - 1) / w.gap;
  if (last > w.kernel) last = w.kernel;
}

// The windows in [from, to) whose tap k is inside the image.
inline void windows_of(const Window& w, i64 k, i64 from, i64 to, i64& first, i64& last) {
  const i64 at = k * w.gap - w.pad;  // of window 0
  first = at < 0 ? (-at + w.step - 1) / w.step : 0;
  last = at >= w.size ? 0 : (w.size - 1 - at) / w.step + 1;
  if (first < from) first = from;
  if (last > to) last = to;
}

inline i64 counted(const Window& w, i64 i, bool with_pad) {
  i64 begin = i * w.step - w.pad, end = begin + w.kernel;
  if (end > w.size + w.pad) end = w.size + w.pad;
  if (!with_pad) begin = begin < 0 ? 0 : begin, end = end > w.size ? w.size : end;
  return end - begin;
}

template <class T> constexpr T least_of() {
  if constexpr (is_real<T>) return -(T)__builtin_inff();
  return is_signed_integer<T> ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0;
}

template <class T> struct maximum {
  static constexpr bool HAS_PLACES = true;
  T best[SOME];
  i32 at[SOME];

  void begin(i64 n) {
    for (i64 k = 0; k < n; ++k) best[k] = least_of<T>();
  }
  template <i64 STEP>
  __attribute__((always_inline)) inline void with(i64 i, i64 n, const char* x, i64 step, i32 place,
                                                  i32 place_step) {
    T* b = best + i;
    i32* a = at + i;
#pragma GCC ivdep
    for (i64 k = 0; k < n; ++k) {
      const T y = *(const T*)(x + k * (STEP ? STEP * (i64)sizeof(T) : step)), so_far = b[k];
      const bool is = (y > so_far) | (y != y);
      b[k] = is ? y : so_far;
      a[k] = is ? place + (i32)k * place_step : a[k];
    }
  }
  const T* made(i64, i64, const i32*) const { return best; }
};

template <class T> struct average {
  static constexpr bool HAS_PLACES = false;
  T sum[SOME];

  void begin(i64 n) {
    for (i64 k = 0; k < n; ++k) sum[k] = 0;
  }
  template <i64 STEP>
  __attribute__((always_inline)) inline void with(i64 i, i64 n, const char* x, i64 step, i32,
                                                  i32) {
    T* s = sum + i;
#pragma GCC ivdep
    for (i64 k = 0; k < n; ++k) s[k] += *(const T*)(x + k * (STEP ? STEP * (i64)sizeof(T) : step));
  }
  // by: the number of counted elements. If `columns` is given: of the counted elements in a column
  // of a window.
  const T* made(i64 n, i64 by, const i32* columns) {
    if (columns) {
      for (i64 k = 0; k < n; ++k) sum[k] /= (T)by * (T)columns[k];
    } else {
      for (i64 k = 0; k < n; ++k) sum[k] /= (T)by;
    }
    return sum;
  }
};

template <class Of, class T>
inline void take(Of& of, i64 i, i64 n, const char* x, i64 step, i32 place, i32 place_step) {
  if (n <= 0) return;
  if (step == sizeof(T)) return of.template with<1>(i, n, x, step, place, place_step);
  if (step == 2 * sizeof(T)) return of.template with<2>(i, n, x, step, place, place_step);
  of.template with<0>(i, n, x, step, place, place_step);
}

// A row of windows along w, or the channels of one window.
template <class Of, class T> void units(const Pool& p, i64 first, i64 last) {
  const Window &d = p.along[0], &h = p.along[1], &w = p.along[2];
  Of of;
  const i64 lanes = p.has_lanes ? p.channels : w.out, next = p.has_lanes ? p.channel_to : w.to;
  const i32* columns = p.columns;
  for (i64 unit = first; unit < last; ++unit) {
    i64 rest = unit, i[3] = {0, 0, 0};
    if (p.has_lanes) i[2] = rest % w.out, rest /= w.out;
    i[1] = rest % h.out, rest /= h.out;
    i[0] = rest % d.out, rest /= d.out;
    const i64 channel = p.has_lanes ? 0 : rest % p.channels;
    if (!p.has_lanes) rest /= p.channels;
    const char* x = p.x + rest * p.sample + channel * p.channel;
    char* out = p.out + rest * p.sample_to + channel * p.channel_to;
    char* places = Of::HAS_PLACES
                       ? p.places + rest * p.sample_place + channel * p.channel_place
                       : nullptr;
    i64 from[3], to[3];
    for (int k = 0; k < 3; ++k) {
      if (k == 2 && !p.has_lanes) {
        from[k] = 0, to[k] = w.kernel;
      } else {
        taps_of(p.along[k], i[k], from[k], to[k]);
        out += i[k] * p.along[k].to;
        if (Of::HAS_PLACES) places += i[k] * p.place[k];
      }
    }
    const auto at = [&](int k, i64 tap) {
      return i[k] * p.along[k].step - p.along[k].pad + tap * p.along[k].gap;
    };
    const i64 begin_of_row = (at(0, from[0]) * h.size + at(1, from[1])) * w.size;
    i64 by = p.divisor;
    if (!by) {
      by = counted(d, i[0], p.counts_pad) * counted(h, i[1], p.counts_pad);
      if (p.has_lanes) by *= counted(w, i[2], p.counts_pad);
    }
    for (i64 block = 0; block < lanes; block += SOME) {
      const i64 n = lanes - block < SOME ? lanes - block : SOME;
      of.begin(n);
      if constexpr (Of::HAS_PLACES) {
        for (i64 k = 0; k < n; ++k) of.at[k] = (i32)(begin_of_row + at(2, from[2]));
        for (i64 k = 0; k < n && !p.has_lanes; ++k) {
          i64 column = (block + k) * w.step - w.pad;
          if (column < 0) column += (-column + w.gap - 1) / w.gap * w.gap;
          of.at[k] = (i32)(begin_of_row + column);
        }
      }
      for (i64 a = from[0]; a < to[0]; ++a)
        for (i64 b = from[1]; b < to[1]; ++b) {
          const i64 row = at(0, a) * h.size + at(1, b);
          const char* of_row = x + at(0, a) * d.stride + at(1, b) * h.stride;
          for (i64 c = from[2]; c < to[2]; ++c) {
            if (p.has_lanes) {
              take<Of, T>(of, 0, n, of_row + at(2, c) * w.stride + block * p.channel, p.channel,
                          (i32)(row * w.size + at(2, c)), 0);
              continue;
            }
            i64 low, high;
            windows_of(w, c, block, block + n, low, high);
            const i64 column = low * w.step - w.pad + c * w.gap;
            take<Of, T>(of, low - block, high - low, of_row + column * w.stride, w.step * w.stride,
                        (i32)(row * w.size + column), (i32)w.step);
          }
        }
      const T* made = of.made(n, by, Of::HAS_PLACES || p.has_lanes || p.divisor ? nullptr
                                                                               : columns + block);
      if (next == sizeof(T)) {
        memcpy(out + block * next, made, n * sizeof(T));
      } else {
        for (i64 k = 0; k < n; ++k) *(T*)(out + (block + k) * next) = made[k];
      }
      if constexpr (Of::HAS_PLACES) {
        const i64 step = p.has_lanes ? p.channel_place : p.place[2];
        for (i64 k = 0; k < n; ++k) *(i64*)(places + (block + k) * step) = of.at[k];
      }
    }
  }
}

// Numbers: kernel, steps, pads and dilations of three dimensions; the number of spatial dimensions
// of the arrays; for averages, whether padding counts, and the divisor.
template <template <class> class Of, class T> i64 pooled(const Call& call) {
  const bool has_places = Of<T>::HAS_PLACES;
  const i64 spatial = call.integer[12];
  for (int k = 0; k < call.n_arrays; ++k)
    if (call.array[k].ndim < spatial || call.array[k].ndim > spatial + 2) return 1;
  const Volume x(call.array[0], spatial), out(call.array[1], spatial);
  const Volume places(call.array[has_places ? 2 : 1], spatial);
  if (out.dtype != x.dtype) return 1;
  if (has_places && places.dtype != abi::i64_) return 1;
  Pool p;
  p.x = x.data, p.out = out.data, p.places = places.data;
  i64 taps = 1, plane = 1;
  for (int k = 0; k < 3; ++k) {
    const i64* of = call.integer + k;
    p.along[k] = {x.shape[k + 2], out.shape[k + 2], of[0], of[3], of[6], of[9],
                  x.stride[k + 2], out.stride[k + 2]};
    p.place[k] = places.stride[k + 2];
    taps *= of[0], plane *= x.shape[k + 2];
  }
  if (plane >= (i64)1 << 31 || !out.size) return plane >= (i64)1 << 31;
  p.channels = x.shape[1];
  p.channel = x.stride[1], p.channel_to = out.stride[1], p.channel_place = places.stride[1];
  p.sample = x.stride[0], p.sample_to = out.stride[0], p.sample_place = places.stride[0];
  p.counts_pad = !has_places && call.integer[13];
  p.divisor = has_places ? 1 : call.integer[14];
  p.has_lanes = p.channels > 1 && p.channel == x.itemsize && p.along[2].stride != x.itemsize;
  const i64 lanes = p.has_lanes ? p.channels : p.along[2].out, count = out.size / lanes;
  const i64 each = TAPS / (lanes * taps);
  p.columns = has_places ? nullptr : (i32*)malloc(p.along[2].out * sizeof(i32));
  if (!has_places && !p.columns) return 1;
  for (i64 k = 0; p.columns && k < p.along[2].out; ++k)
    p.columns[k] = (i32)counted(p.along[2], k, p.counts_pad);
  call.share(as_body(units<Of<T>, T>), &p, count, each < 1 ? 1 : each);
  free(p.columns);
  return 0;
}

i64 max_pool(const Call& call) {
  switch (call.array[0].dtype) {
#define X(T) case code_of<T>: return pooled<maximum, T>(call);
    X(u8) X(i8) X(i16) X(i32) X(i64) X(f32) X(f64)
#undef X
  }
  return 1;
}

i64 avg_pool(const Call& call) {
  switch (call.array[0].dtype) {
    case abi::f32: return pooled<average, f32>(call);
    case abi::f64: return pooled<average, f64>(call);
  }
  return 1;
}

#include "adaptive_pool.h"

// --- gradients of maxima ------------------------------------------------------------------------

struct Maxima { const char *grad, *places; char* out; i64 windows, plane; i64 bad; };

template <class T> void gradients(Maxima& m, i64 first, i64 last) {
  for (i64 plane = first; plane < last; ++plane) {
    const T* grad = (const T*)m.grad + plane * m.windows;
    const i64* places = (const i64*)m.places + plane * m.windows;
    T* out = (T*)m.out + plane * m.plane;
    memset(out, 0, m.plane * sizeof(T));
    for (i64 i = 0; i < m.windows; ++i) {
      if ((u64)places[i] >= (u64)m.plane) return note(&m.bad, 1);
      out[places[i]] += grad[i];
    }
  }
}

// (planes, windows) twice, (planes, elements). Returns 1 for a place out of range.
i64 max_pool_backward(const Call& call) {
  const abi::Array &grad = call.array[0], &places = call.array[1], &out = call.array[2];
  if (places.dtype != abi::i64_ || out.dtype != grad.dtype) return 1;
  Maxima m = {grad.data, places.data, out.data, grad.shape[1], out.shape[1], 0};
  const i64 each = TAPS / (m.windows + m.plane + 1) + 1;
  switch (grad.dtype) {
    case abi::f32: call.share(as_body(gradients<f32>), &m, grad.shape[0], each); break;
    case abi::f64: call.share(as_body(gradients<f64>), &m, grad.shape[0], each); break;
    default: return 1;
  }
  return m.bad;
}

// --- lines of another length --------------------------------------------------------------------

// at, by: for each tap and result, the index of the element (negative if there is none) and the
// weight.
struct Line { i64 taps, results; const i32* at; bool has_gaps; };

template <class T> void of_elements(const Line& line, const T* by, const T* x, T* out) {
  const i64 m = line.results;
  const i32* at = line.at;
  if (line.has_gaps) {
    for (i64 j = 0; j < m; ++j) {
      T sum = 0;
      for (i64 t = 0; t < line.taps; ++t)
        if (at[t * m + j] >= 0) sum += x[at[t * m + j]] * by[t * m + j];
      out[j] = sum;
    }
    return;
  }
  if (line.taps == 2) {
#pragma GCC ivdep
    for (i64 j = 0; j < m; ++j) out[j] = x[at[j]] * by[j] + x[at[m + j]] * by[m + j];
    return;
  }
  for (i64 t = 0; t < line.taps; ++t) {
#pragma GCC ivdep
    for (i64 j = 0; j < m; ++j) {
      const T term = x[at[t * m + j]] * by[t * m + j];
      out[j] = t ? out[j] + term : term;
    }
  }
}

// Result j, a row of n elements, if it has all of TAPS terms. Returns false if not.
template <int TAPS, class T>
inline bool of_whole_row(const Line& line, const T* by, const T* x, T* out, i64 n, i64 j) {
  if (line.taps != TAPS) return false;
  const T* from[TAPS];
  T weight[TAPS];
  for (int t = 0; t < TAPS; ++t) {
    const i64 place = t * line.results + j;
    if (line.at[place] < 0) return false;
    from[t] = x + line.at[place] * n, weight[t] = by[place];
  }
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    T sum = from[0][k] * weight[0];
#pragma GCC unroll 4
    for (int t = 1; t < TAPS; ++t) sum += from[t][k] * weight[t];
    out[k] = sum;
  }
  return true;
}

// The results from number `first` on. x and out: the first element of a line and of the results.
template <class T>
void of_rows(const Line& line, const T* by, const T* x, T* out, i64 n, i64 first, i64 last) {
  const i64 m = line.results;
  out += first * n;
  for (i64 j = first; j < last; ++j, out += n) {
    const i32* at = line.at + j;
    if (of_whole_row<2>(line, by, x, out, n, j)) continue;
    if (of_whole_row<4>(line, by, x, out, n, j)) continue;
    bool is_begun = false;
    for (i64 t = 0; t < line.taps; ++t) {
      if (at[t * m] < 0) continue;
      const T *a = x + at[t * m] * n, weight = by[t * m + j];
      if (is_begun) {
#pragma GCC ivdep
        for (i64 k = 0; k < n; ++k) out[k] += a[k] * weight;
      } else {
#pragma GCC ivdep
        for (i64 k = 0; k < n; ++k) out[k] = a[k] * weight;
      }
      is_begun = true;
    }
    if (!is_begun) memset(out, 0, n * sizeof(T));
  }
}

// Like of_rows, for rows of one vector.
template <class T> void of_vectors(const Line& line, const T* by, const T* x, T* out) {
  typedef T V __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
  const V* from = (const V*)x;
  V* to = (V*)out;
  const i64 m = line.results;
  for (i64 j = 0; j < m; ++j) {
    const i32* at = line.at + j;
    if (line.taps == 2 && at[0] >= 0 && at[m] >= 0) {
      to[j] = from[at[0]] * by[j] + from[at[m]] * by[m + j];
      continue;
    }
    V sum = {};
    bool is_begun = false;
    for (i64 t = 0; t < line.taps; ++t) {
      if (at[t * m] < 0) continue;
      const V term = from[at[t * m]] * by[t * m + j];
      sum = is_begun ? sum + term : term, is_begun = true;
    }
    to[j] = sum;
  }
}

// Lines with adjacent elements. As many lines as a vector has lanes are transposed and computed
// together, which avoids gathers. Returns the number of computed lines.
template <class T>
i64 of_turned(const Line& line, const T* by, const T* x, i64 from, T* out, i64 lines) {
  constexpr i64 SIDE = 32 / sizeof(T), MOST_BYTES = 1 << 19;
  const i64 to = line.results, step = SIDE * sizeof(T);
  if (lines < SIDE || (from + to) * step > MOST_BYTES) return 0;
  T* room = (T*)malloc((from + to) * step);
  if (!room) return 0;
  T* made = room + from * SIDE;
  for (i64 a = 0; a < lines; a += SIDE) {
    const i64 first = a + SIDE < lines ? a : lines - SIDE;  // the last ones overlap others
    turn<T>((char*)room, step, (const char*)(x + first * from), from * sizeof(T), SIDE, from);
    of_vectors(line, by, room, made);
    turn<T>((char*)(out + first * to), to * sizeof(T), (const char*)made, step, to, SIDE);
  }
  free(room);
  return lines;
}

template <class T> struct Resizing {
  Line line;
  const T *by, *x;
  T* out;
  i64 n, from, to;  // elements of a row, of a line, and of a line's results
};

// Whole lines of adjacent elements.
template <class T> void resize_lines(const Resizing<T>& r, i64 first, i64 last) {
  i64 a = first + of_turned(r.line, r.by, r.x + first * r.from, r.from, r.out + first * r.to,
                            last - first);
  for (; a < last; ++a) of_elements(r.line, r.by, r.x + a * r.from, r.out + a * r.to);
}

// Rows of results, which are numbered over all lines.
template <class T> void resize_rows(const Resizing<T>& r, i64 first, i64 last) {
  const i64 m = r.line.results;
  while (first < last) {
    const i64 a = first / m, begin = first % m;
    const i64 end = last - a * m < m ? last - a * m : m;
    of_rows(r.line, r.by, r.x + a * r.from, r.out + a * r.to, r.n, begin, end);
    first = a * m + end;
  }
}

template <class T> i64 resized(const Call& call) {
  const abi::Array &x = call.array[0], &out = call.array[1], &at = call.array[2],
                   &by = call.array[3];
  const Line line = {at.shape[0], at.shape[1], (const i32*)at.data, (bool)call.integer[0]};
  const i64 n = x.shape[2], m = line.results, lines = x.shape[0];
  Resizing<T> r = {line, (const T*)by.data, (const T*)x.data, (T*)out.data, n, x.shape[1] * n,
                   m * n};
  // about 16,384 products at a time; lines in multiples of those that are computed together
  constexpr i64 SOME = 1 << 14, SIDE = 32 / sizeof(T);
  const i64 each = SOME / ((n == 1 ? m : n) * line.taps + 1) + 1;
  if (n == 1) {
    call.share(as_body(resize_lines<T>), &r, lines, (each + SIDE - 1) / SIDE * SIDE);
  } else {
    call.share(as_body(resize_rows<T>), &r, lines * m, each);
  }
  return 0;
}

// (x, out, at, by, true if there are gaps); dense arrays of sizes (a, n, b), (a, m, b), (taps, m),
// (taps, m).
i64 line(const Call& call) {
  const int dtype = call.array[0].dtype;
  if (call.array[1].dtype != dtype || call.array[3].dtype != dtype) return 1;
  if (call.array[2].dtype != abi::i32) return 1;
  if (dtype == abi::f32) return resized<f32>(call);
  return dtype == abi::f64 ? resized<f64>(call) : 1;
}

const abi::FunctionEntry functions[] = {
    {"max_pool", max_pool}, {"avg_pool", avg_pool}, {"adaptive_avg_pool", adaptive_avg_pool},
    {"adaptive_max_pool", adaptive_max_pool}, {"max_pool_backward", max_pool_backward},
    {"line", line}};

}  // namespace

extern const abi::Family pool_windows = {"pool_windows", functions};
}  // namespace CAPABILITY
