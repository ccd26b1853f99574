// dst = cast(src * scale[c] + bias[c]), and casts between f32, f16 and bf16.         family: pack
//
// Shapes   any strides, which count bytes; `_rows` takes dense rows and a factor per element.
// Types    u8, f16, bf16, f32 on either side; computed in f32, each step rounded.
// Order    each element by itself, so the bits are those of NumPy's loops (copy_pack.py, cast.py).
// Source   the roundings: IEEE 754 and Note [Numeric casts], on bits, since a compiler's own differ
//          for NaN. f16 takes the CPU's own conversions where it has them.

#include <cstdint>
#include <cstring>

#ifdef __F16C__
#include <immintrin.h>
#endif

#ifndef DST  // u8, f16, bf16 or f32, as SRC
#define DST f32
#define SRC u8
#endif

namespace {

#define INLINE __attribute__((always_inline)) inline

typedef long long length;
typedef unsigned char byte;

enum half : uint16_t {};  // numbers for overloads and for the vectoriser, which takes no struct
enum bfloat : uint16_t {};

namespace type {
typedef uint8_t u8;
typedef half f16;
typedef bfloat bf16;
typedef float f32;
}  // namespace type

typedef type::DST dst_t;
typedef type::SRC src_t;

INLINE uint32_t bits_of(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
INLINE float float_of(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }

// A choice without a branch, which the compiler would move the work behind and not vectorise.
INLINE uint32_t chosen(bool first, uint32_t a, uint32_t b) {
  const uint32_t mask = -uint32_t(first);
  return (a & mask) | (b & ~mask);
}

INLINE float load(uint8_t x) { return x; }
INLINE float load(float x) { return x; }
INLINE float load(bfloat x) { return float_of(uint32_t(x) << 16); }

INLINE float load(half x) {
  const uint32_t sign = uint32_t(x & 0x8000) << 16;
  const int32_t rest = int32_t(x & 0x7fff) << 13;
  const float scaled = float_of(rest) * 0x1p112f;  // exact, of subnormal numbers too
  return float_of(sign | chosen(rest >= 0x0f800000, rest | 0x7f800000, bits_of(scaled)));
}

INLINE void store(float* to, float x) { *to = x; }

INLINE void store(bfloat* to, float x) {
  const uint32_t bits = bits_of(x), rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const int32_t rest = bits & 0x7fffffff;
  *to = bfloat(chosen(rest > 0x7f800000, (bits >> 16 & 0x8000) | 0x7fc0, rounded));
}

INLINE void store(half* to, float x) {
  const uint32_t bits = bits_of(x);
  const int32_t rest = bits & 0x7fffffff, bound = rest < 0x47800000 ? rest : 0x47800000;
  const uint32_t normal = (bound - 0x38000000 + 0xfff + ((bound >> 13) & 1)) >> 13;
  const uint32_t subnormal = bits_of(float_of(rest) + 0.5f) - 0x3f000000;  // the sum rounds
  const uint32_t payload = rest >> 13, nan = payload | (payload == 0x7f800000 >> 13);
  const uint32_t number = chosen(rest < 0x38800000, subnormal, normal);
  *to = half(chosen(rest > 0x7f800000, nan & 0x7fff, number) | (bits >> 16 & 0x8000));
}

INLINE void store(uint8_t* to, float x) {
  x = x > 0 ? x : 0;  // and NaN
  x = x < 255 ? x : 255;
  *to = uint8_t(bits_of(x + 0x1p23f));  // the sum rounds to nearest even
}

// --- f16, eight at a time ------------------------------------------------------------------------
//
// The CPU's own conversions give the bits above but for a signalling NaN, which they quieten.

INLINE void widen(float* __restrict to, const half* __restrict from, length n) {
  length i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + i)));
    _mm256_storeu_ps(to + i, x);
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)), 0))
      for (int k = 0; k < 8; k++) to[i + k] = load(from[i + k]);
  }
#endif
  for (; i < n; i++) to[i] = load(from[i]);
}

INLINE void narrow(half* __restrict to, const float* __restrict from, length n) {
  length i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(from + i);
    _mm_storeu_si128((__m128i*)(to + i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    if (__builtin_expect(_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)), 0))
      for (int k = 0; k < 8; k++) store(to + i + k, from[i + k]);
  }
#endif
  for (; i < n; i++) store(to + i, from[i]);
}

constexpr length NUMBERS = 512;  // of a block: four of them stay in the L1 cache

template <class T>
struct Side {  // of what is computed: the memory itself, or of f16 a block of f32
  typedef T type;
  static constexpr bool is_block = false;
  INLINE length pitch(length plane) { return plane; }
  INLINE const byte* read(const byte* from, length, int, length) { return from; }
  INLINE byte* begin(byte* to) { return to; }
  INLINE void end(byte*, length, int, length) {}
};

template <>
struct Side<half> {
  typedef float type;
  static constexpr bool is_block = true;
  alignas(64) float numbers[4 * NUMBERS];
  INLINE length pitch(length) { return sizeof(float) * NUMBERS; }
  INLINE const byte* read(const byte* from, length n, int runs, length plane) {
    for (int k = 0; k < runs; k++)
      widen(numbers + k * NUMBERS, (const half*)(from + k * plane), n);
    return (const byte*)numbers;
  }
  INLINE byte* begin(byte*) { return (byte*)numbers; }
  INLINE void end(byte* to, length n, int runs, length plane) {
    for (int k = 0; k < runs; k++)
      narrow((half*)(to + k * plane), numbers + k * NUMBERS, n);
  }
};

struct Runs {  // of pixels: how many, numbers of a pixel in each, bytes from one to the next
  int count, width;
  length plane;
};

// `work(to, from, first, n, plane of to, plane of from)` of each block.
template <class D, class S, class Work>
INLINE void blocks(byte* dst, Runs to, const byte* src, Runs from, length n, Work work) {
  Side<D> out;
  Side<S> in;
  const length most = out.is_block || in.is_block ? NUMBERS : n;
  for (length first = 0; first < n; first += most) {
    const length m = n - first < most ? n - first : most;
    byte* d = dst + first * to.width * sizeof(D);
    const byte* s = src + first * from.width * sizeof(S);
    s = in.read(s, m * from.width, from.count, from.plane);
    work(out.begin(d), s, first, m, out.pitch(to.plane), in.pitch(from.plane));
    out.end(d, m * to.width, to.count, to.plane);
  }
}

// --- one channel, or a few that lie side by side -------------------------------------------------

template <class T>
using near = typename Side<T>::type;

template <class D, class S>
INLINE void dense(byte* dst, const byte* src, length n, float by, float plus) {
  const Runs one = {1, 1, 0};
  blocks<D, S>(dst, one, src, one, n, [=](byte* d, const byte* s, length, length m, ...) {
    near<D>* __restrict to = (near<D>*)d;
    const near<S>* __restrict from = (const near<S>*)s;
    for (length i = 0; i < m; i++) store(to + i, load(from[i]) * by + plus);
  });
}

template <int C, class D, class S>
INLINE void split(byte* dst, const byte* src, length n, length plane, const float* by,
                      const float* plus) {
  const S* __restrict from = (const S*)src;
  D* __restrict a = (D*)dst;
  D* __restrict b = (D*)(dst + plane);
  D* __restrict c = (D*)(dst + 2 * plane);
  D* __restrict d = (D*)(dst + (C - 1) * plane);
  const float by0 = by[0], by1 = by[1], by2 = by[2], by3 = by[C - 1];
  const float plus0 = plus[0], plus1 = plus[1], plus2 = plus[2], plus3 = plus[C - 1];
  for (length i = 0; i < n; i++) {
    store(a + i, load(from[C * i]) * by0 + plus0);
    store(b + i, load(from[C * i + 1]) * by1 + plus1);
    store(c + i, load(from[C * i + 2]) * by2 + plus2);
    if (C == 4) store(d + i, load(from[C * i + 3]) * by3 + plus3);
  }
}

template <int C, class D, class S>
INLINE void join(byte* dst, const byte* src, length n, length plane, const float* by,
                      const float* plus) {
  D* __restrict to = (D*)dst;
  const S* __restrict a = (const S*)src;
  const S* __restrict b = (const S*)(src + plane);
  const S* __restrict c = (const S*)(src + 2 * plane);
  const S* __restrict d = (const S*)(src + (C - 1) * plane);
  const float by0 = by[0], by1 = by[1], by2 = by[2], by3 = by[C - 1];
  const float plus0 = plus[0], plus1 = plus[1], plus2 = plus[2], plus3 = plus[C - 1];
  for (length i = 0; i < n; i++) {
    store(to + C * i, load(a[i]) * by0 + plus0);
    store(to + C * i + 1, load(b[i]) * by1 + plus1);
    store(to + C * i + 2, load(c[i]) * by2 + plus2);
    if (C == 4) store(to + C * i + 3, load(d[i]) * by3 + plus3);
  }
}

template <int C, class D, class S>
INLINE void to_planes(byte* dst, const byte* src, length n, length plane, const float* by,
                      const float* plus) {
  blocks<D, S>(dst, {C, 1, plane}, src, {1, C, 0}, n,
               [=](byte* to, const byte* from, length, length m, length pitch, length) {
                 split<C, near<D>, near<S>>(to, from, m, pitch, by, plus);
               });
}

template <int C, class D, class S>
INLINE void to_pixels(byte* dst, const byte* src, length n, length plane, const float* by,
                      const float* plus) {
  blocks<D, S>(dst, {1, C, 0}, src, {C, 1, plane}, n,
               [=](byte* to, const byte* from, length, length m, length, length pitch) {
                 join<C, near<D>, near<S>>(to, from, m, pitch, by, plus);
               });
}

struct Walk {  // sizes, and bytes from one to the next on either side
  length images, dst_image, src_image, rows, dst_row, src_row, pixels, dst_pixel, src_pixel,
      channels, dst_channel, src_channel;
};

// Pixels of a channel before the next channel of the same ones, which the cache still has.
constexpr length BLOCK = 512;

template <class D, class S>
INLINE void row(byte* dst, const byte* src, const Walk& w, const float* by, const float* plus) {
  const length d = sizeof(D), s = sizeof(S);
  const bool dst_dense = w.dst_pixel == d, src_dense = w.src_pixel == s;
  const bool from_pixels = dst_dense && w.src_channel == s && w.src_pixel == s * w.channels;
  const bool into_pixels = src_dense && w.dst_channel == d && w.dst_pixel == d * w.channels;
  if (from_pixels && w.channels == 3)
    return to_planes<3, D, S>(dst, src, w.pixels, w.dst_channel, by, plus);
  if (from_pixels && w.channels == 4)
    return to_planes<4, D, S>(dst, src, w.pixels, w.dst_channel, by, plus);
  if (into_pixels && w.channels == 3)
    return to_pixels<3, D, S>(dst, src, w.pixels, w.src_channel, by, plus);
  if (into_pixels && w.channels == 4)
    return to_pixels<4, D, S>(dst, src, w.pixels, w.src_channel, by, plus);
  const length block = dst_dense && src_dense ? w.pixels : BLOCK;
  for (length first = 0; first < w.pixels; first += block) {
    const length n = w.pixels - first < block ? w.pixels - first : block;
    for (length c = 0; c < w.channels; c++) {
      byte* to = dst + first * w.dst_pixel + c * w.dst_channel;
      const byte* from = src + first * w.src_pixel + c * w.src_channel;
      if (dst_dense && src_dense)
        dense<D, S>(to, from, n, by[c], plus[c]);
      else
        for (length i = 0; i < n; i++) {
          const float x = load(*(const S*)(from + i * w.src_pixel));
          store((D*)(to + i * w.dst_pixel), x * by[c] + plus[c]);
        }
    }
  }
}

template <class D, class S>
INLINE void walk(byte* dst, const byte* src, const Walk& w, const float* by, const float* plus) {
  for (length image = 0; image < w.images; image++)
    for (length r = 0; r < w.rows; r++)
      row<D, S>(dst + image * w.dst_image + r * w.dst_row,
                src + image * w.src_image + r * w.src_row, w, by, plus);
}

template <class D, class S>
INLINE void rows(byte* dst, const byte* src, length count, length dst_row, length src_row,
                 length n, const float* by, const float* plus) {
  const Runs one = {1, 1, 0};
  for (length r = 0; r < count; r++)
    blocks<D, S>(dst + r * dst_row, one, src + r * src_row, one, n,
                 [=](byte* d, const byte* s, length first, length m, ...) {
                   near<D>* __restrict to = (near<D>*)d;
                   const near<S>* __restrict from = (const near<S>*)s;
                   const float* __restrict x = by + first;
                   const float* __restrict y = plus + first;
                   for (length i = 0; i < m; i++) store(to + i, load(from[i]) * x[i] + y[i]);
                 });
}

template <class D, class S>
INLINE void convert(D* __restrict to, const S* __restrict from, length n) {
  for (length i = 0; i < n; i++) store(to + i, load(from[i]));
}

INLINE void convert(float* to, const half* from, length n) { widen(to, from, n); }
INLINE void convert(half* to, const float* from, length n) { narrow(to, from, n); }

}  // namespace

#define ENTRY extern "C" __attribute__((visibility("default")))

ENTRY void pack(byte* dst, const byte* src, const Walk* w, const float* by, const float* plus) {
  walk<dst_t, src_t>(dst, src, *w, by, plus);
}

ENTRY void pack_rows(byte* dst, const byte* src, length count, length dst_row, length src_row,
                     length n, const float* by, const float* plus) {
  rows<dst_t, src_t>(dst, src, count, dst_row, src_row, n, by, plus);
}

ENTRY void cast(dst_t* dst, const src_t* src, length n) { convert(dst, src, n); }
