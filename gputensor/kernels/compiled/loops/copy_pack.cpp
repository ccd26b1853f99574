// dst[n, c, …] = cast(src[n, c, …] * scale[c] + bias[c])                            family: pack
//
// Shapes   (N, C, …), any strides. scale and bias hold C numbers of f64.
// Types    computed in f32, or in f64 if either side is f64; each step is rounded. Integers are
//          rounded to nearest even and saturated; NaN gives 0. The bits equal those of
//          kernels/cpu/copy_pack.py.
// Order    elements are independent. A block of pixels of a few channels is split into planes in
//          the first-level cache, which are scaled, cast and written.
#include "copy_plan.h"

namespace CAPABILITY {
namespace copies {

// Of a block: its pixels, or its numbers if a pixel's channels stay adjacent.
constexpr i64 PIXELS = 1024, NUMBERS = 2048, MOST_CHANNELS = 4096;

struct Packing : Plan {
  i64 channels, to_channel, from_channel;  // count; distance in bytes
  double by[MOST_CHANNELS], plus[MOST_CHANNELS];  // rounded to f32
  int to_type, from_type;
  abi::Cast load;  // to numbers
  bool keeps_pixels;  // a pixel's channels are adjacent on both sides
  alignas(LINE) char row_by[NUMBERS * 8],
      row_plus[NUMBERS * 8];  // then, for a block of whole pixels
};

// --- elements to numbers and back ---------------------------------------------------------------

// Rounded to nearest even and saturated; NaN is 0.
template <class To, class T> INLINE To quantised(T x) {
  constexpr bool is_signed = (To)-1 < (To)0;
  constexpr u64 most = ~0ull >> (64 - 8 * sizeof(To) + is_signed);
  constexpr T above = (T)(most / 2 + 1) * 2, least = is_signed ? -above : 0;
  const T number = x == x ? x : 0;
  const auto rounded = [](T x) -> T {
    return same<T, f32> ? (T)__builtin_rintf((f32)x) : (T)__builtin_rint((f64)x);
  };
  if constexpr (sizeof(To) <= 2) {  // whose limits T holds
    const T low = number > least ? number : least;
    return (To)(i32)rounded(low < (T)most ? low : (T)most);
  } else {
    const T whole = rounded(number);
    return whole >= above  ? (To)most
           : whole < least ? (To)(is_signed ? most + 1 : 0)
                           : (To)whole;
  }
}

template <class To, class T> static void quantise(char* to, const T* x, i64 n) {
  for (i64 i = 0; i < n; ++i) ((To*)to)[i] = quantised<To>(x[i]);
}

template <class T> static void store(const Packing& p, char* to, const T* x, i64 n) {
  switch (p.to_type) {
    case abi::u8: return quantise<u8>(to, x, n);
    case abi::i8: return quantise<i8>(to, x, n);
    case abi::u16: return quantise<u16>(to, x, n);
    case abi::i16: return quantise<i16>(to, x, n);
    case abi::u32: return quantise<u32>(to, x, n);
    case abi::i32: return quantise<i32>(to, x, n);
    case abi::u64_: return quantise<u64>(to, x, n);
    case abi::i64_: return quantise<i64>(to, x, n);
    default: return casts[code_of<T>][p.to_type](to, (const char*)x, n);
  }
}

// One number for a whole run, or one for each element.
template <class T> INLINE T entry_of(T x, i64) { return x; }
template <class T> INLINE T entry_of(const T* x, i64 i) { return x[i]; }

template <class From, class To, class T, class Numbers>
static void scale_at_once(char* to, const char* from, i64 n, Numbers by, Numbers plus) {
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    const T made = (T)((const From*)from)[i] * entry_of(by, i) + entry_of(plus, i);
    if constexpr (same<To, T>) {
      ((To*)to)[i] = made;
    } else {
      ((To*)to)[i] = quantised<To>(made);
    }
  }
}

// n <= NUMBERS elements, dense on both sides. One pass is used if pixels are bytes or T. Otherwise
// the elements are converted to numbers in the first-level cache.
template <class T, class Numbers>
static void scale(const Packing& p, char* to, const char* from, i64 n, Numbers by, Numbers plus) {
  const bool is_number = p.to_type == code_of<T>;
  if (p.from_type == abi::u8 && is_number)
    return scale_at_once<u8, T, T>(to, from, n, by, plus);
  if (p.from_type == code_of<T> && p.to_type == abi::u8)
    return scale_at_once<T, u8, T>(to, from, n, by, plus);
  if (p.from_type == code_of<T> && is_number)
    return scale_at_once<T, T, T>(to, from, n, by, plus);
  alignas(LINE) T x[NUMBERS];
  T* made = is_number ? (T*)to : x;
  p.load((char*)x, from, n);
  for (i64 i = 0; i < n; ++i) made[i] = x[i] * entry_of(by, i) + entry_of(plus, i);
  if (!is_number) store(p, to, x, n);
}

// --- blocks -------------------------------------------------------------------------------------

#define BY_SIZE(ITEM, CALL) \
  switch (ITEM) {           \
    case 1: CALL(1);        \
    case 2: CALL(2);        \
    case 4: CALL(4);        \
    case 8: CALL(8);        \
  }

// n elements with constant steps on both sides.
static void at_any_steps(char* to, i64 to_step, const char* from, i64 from_step, i64 n, i64 item) {
#define MOVE(ITEM)                                                              \
  for (i64 i = 0; i < n; ++i)                                                   \
    *(word<ITEM>*)(to + i * to_step) = *(const word<ITEM>*)(from + i * from_step); \
  break
  BY_SIZE(item, MOVE)
#undef MOVE
}

static void lanes_of(bool into, char* to, const char* from, i64 n, i64 plane, i64 channels,
                     i64 item) {
  Table origin;
  origin.to[0] = origin.from[0] = 0;
  const Moves moves = {nullptr, &origin, item, plane, (int)channels, into, false, false};
  LANES[log2_of(item)](moves, {{to, from}, n, 1, {to, from}});
}

// A run of pixels whose channels are adjacent on both sides, with `entries` numbers in total.
template <class T>
static void scale_pixels(const Packing& p, char* to, const char* from, i64 entries) {
  const i64 block = NUMBERS / p.channels * p.channels;
  for (i64 first = 0; first < entries; first += block)
    scale<T>(p, to + first * p.walk.to_item, from + first * p.walk.from_item,
          least(entries - first, block), (const T*)p.row_by, (const T*)p.row_plus);
}

template <class T> static void fill_rows(Packing& p) {
  T *by = (T*)p.row_by, *plus = (T*)p.row_plus;
  for (i64 i = 0, c = 0; i < NUMBERS; ++i, c = c + 1 == p.channels ? 0 : c + 1)
    by[i] = (T)p.by[c], plus[i] = (T)p.plus[c];
}

template <class T> static void scale_block(const Plan& plan, const Unit& unit) {
  const Packing& p = (const Packing&)plan;
  const i64 n = unit.n, ti = p.walk.to_item, fi = p.walk.from_item;
  if (p.keeps_pixels) return scale_pixels<T>(p, unit.at.to, unit.at.from, n * p.channels);
  alignas(LINE) char read[4 * PIXELS * 8], written[4 * PIXELS * 8];
  const i64 to_pixel = p.walk.dim[0].to, from_pixel = p.walk.dim[0].from;
  const bool few = p.channels > 1 && p.channels <= 4;
  const bool from_lanes = few && p.from_channel == fi && from_pixel == fi * p.channels;
  const bool to_lanes = few && p.to_channel == ti && to_pixel == ti * p.channels;
  if (from_lanes) lanes_of(false, read, unit.at.from, n, PIXELS * fi, p.channels, fi);
  for (i64 c = 0; c < p.channels; ++c) {
    const i64 place = few ? c * PIXELS : 0;
    const char* from = unit.at.from + c * p.from_channel;
    char *to = unit.at.to + c * p.to_channel, *made = to_pixel == ti ? to : written + place * ti;
    if (from_lanes) {
      from = read + place * fi;
    } else if (from_pixel != fi) {
      at_any_steps(read, fi, from, from_pixel, n, fi);
      from = read;
    }
    scale<T>(p, made, from, n, (T)p.by[c], (T)p.plus[c]);
    if (made != to && !to_lanes) at_any_steps(to, to_pixel, made, ti, n, ti);
  }
  if (to_lanes) lanes_of(true, unit.at.to, written, n, PIXELS * ti, p.channels, ti);
}

static Array without(const Array& x, int dim) {
  Array found;
  found.data = x.data, found.size = x.size, found.dtype = x.dtype, found.itemsize = x.itemsize;
  found.ndim = 0;
  for (int d = 0; d < x.ndim; d++) {
    if (d == dim) continue;
    found.shape[found.ndim] = x.shape[d], found.stride[found.ndim] = x.stride[d];
    found.ndim++;
  }
  return found;
}

INLINE bool is_real_type(int dtype) { return dtype > abi::b8 && dtype <= abi::f64; }

// (dst, src, scale, bias) -> 0; or 1, with no element written, if NumPy must do it.
static i64 pack(const Call& call) {
  const Array &dst = call.array[0], &src = call.array[1], &scale = call.array[2],
              &bias = call.array[3];
  if (!is_real_type(dst.dtype) || !is_real_type(src.dtype) || dst.ndim < 2 || src.ndim != dst.ndim)
    return 1;
  if (!is_aligned(dst) || !is_aligned(src)) return 1;
  Packing p;
  p.channels = dst.shape[1], p.to_channel = dst.stride[1], p.from_channel = src.stride[1];
  if (src.shape[1] != p.channels || p.channels > MOST_CHANNELS) return 1;
  if (scale.dtype != abi::f64 || bias.dtype != abi::f64) return 1;
  if (!read(p.walk, without(dst, 1), without(src, 1))) return 1;
  if (!dst.size) return 0;
  for (i64 c = 0; c < p.channels; ++c) {
    p.by[c] = (f32) * (const double*)(scale.data + c * scale.stride[0]);
    p.plus[c] = (f32) * (const double*)(bias.data + c * bias.stride[0]);
  }
  p.to_type = dst.dtype, p.from_type = src.dtype, p.numel = dst.size;
  Walk& w = p.walk;
  if (!w.n) w.dim[w.n++] = {1, w.to_item * p.channels, w.from_item * p.channels};
  p.keeps_pixels = p.channels > 1 && p.channels <= NUMBERS && p.to_channel == w.to_item &&
                   p.from_channel == w.from_item && w.dim[0].to == w.to_item * p.channels &&
                   w.dim[0].from == w.from_item * p.channels;
  const bool is_wide = dst.dtype == abi::f64 || src.dtype == abi::f64;
  p.load = casts[src.dtype][is_wide ? abi::f64 : abi::f32];
  p.work = is_wide ? scale_block<f64> : scale_block<f32>;
  if (p.keeps_pixels) is_wide ? fill_rows<f64>(p) : fill_rows<f32>(p);
  p.moves.streams = false;
  int a[] = {0}, b[MOST_DIMS];
  const i64 pixels = p.keeps_pixels ? between(1, (1 << 14) / p.channels, 1 << 14) : PIXELS;
  cut(p, a, 1, pixels, 1, false, b, 0, 1, 1);
  share(call, p);
  return 0;
}

}  // namespace copies

static const abi::FunctionEntry functions[] = {{"pack", copies::pack}};
extern const abi::Family copy_pack = {"copy_pack", functions};

}  // namespace CAPABILITY
