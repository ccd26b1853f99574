// dst[i] = a random number from Philox4x64-10                                       family: random
// Shapes   dst dense.
// Types    integers, bernoulli, geometric: all dtypes except complex; other distributions:
//          floating.
// Numbers  seed and counter of the first element (u64, passed as int64 with the same bits), then
//          the two parameters of an integer distribution in the same form; other distributions have
//          two floats.
// Order    see kernels/cpu/random.py; the numbers equal those of include/draws.cuh.
#include "philox_words.h"

namespace CAPABILITY {
#include "draws.cuh"

constexpr i64 WORDS = 256;         // numbers drawn at a time
constexpr i64 SHARED_BLOCKS = 1 << 11;  // blocks of Philox that a thread computes at a time

struct Draw;
// WORDS numbers of the distribution, in the type of the computation.
typedef void (*Make)(const Draw& draw, const u64* words, void* made);
// Write the first n of these numbers to dst.
typedef void (*Put)(char* dst, const void* made, i64 n);

struct Draw {
  char* dst;
  i64 numel, itemsize;
  u64 seed, base;
  u64 low, count, magic, shift;  // of an integer distribution
  f64 first, second;
  Make make;
  Put put;
};

template <class T> static void put(char* dst, const void* given, i64 n) {
  T* to = (T*)dst;
  if constexpr (is_half<T>) {
    const f32* made = (const f32*)given;
    for (i64 i = 0; i < n; i += HALVES) narrow_some(to + i, made + i, n - i);
  } else {
    memcpy(to, given, n * sizeof(T));
  }
}

// 64-bit integers, cast as in from_integer.
template <class T> static void put_whole(char* dst, const void* given, i64 n) {
  const u64* made = (const u64*)given;
  if constexpr (same<T, b8>) {
    for (i64 i = 0; i < n; ++i) ((b8*)dst)[i] = b8{(u8)(made[i] != 0)};
  } else {
    for (i64 i = 0; i < n; ++i) ((T*)dst)[i] = from_integer<T>(made[i]);
  }
}

}  // namespace CAPABILITY

#include "permutation.h"

namespace CAPABILITY {

// --- distributions ------------------------------------------------------------------------------

template <class T> static void uniform(const Draw& d, const u64* words, void* to) {
  typedef wide<T> W;
  W* made = (W*)to;
  const W width = (W)(d.second - d.first), low = (W)d.first;
  for (i64 i = 0; i < WORDS; ++i) made[i] = unit_of<T>(words[i]) * width + low;
}

template <class W> static void normal(const Draw& d, const u64* words, void* to) {
  W* made = (W*)to;
  alignas(64) W size[WORDS / 2], angle[WORDS / 2], cos[WORDS / 2], sin[WORDS / 2];
  const W mean = (W)d.first, std = (W)d.second;
  for (i64 i = 0; i < WORDS / 2; ++i) size[i] = normal_size<W>(words[2 * i]) * std;
  for (i64 i = 0; i < WORDS / 2; ++i) angle[i] = normal_angle<W>(words[2 * i + 1]);
  for (i64 i = 0; i < WORDS / 2; ++i) cos[i] = size[i] * near_cos(angle[i]) + mean;
  for (i64 i = 0; i < WORDS / 2; ++i) sin[i] = size[i] * near_sin(angle[i]) + mean;
  for (i64 i = 0; i < WORDS / 2; ++i) made[2 * i] = cos[i], made[2 * i + 1] = sin[i];
}

template <class W> static void log_normal(const Draw& d, const u64* words, void* to) {
  W* made = (W*)to;
  normal<W>(d, words, to);
  for (i64 i = 0; i < WORDS; ++i) made[i] = math_exp(made[i]);
}

template <class W> static void exponential(const Draw& d, const u64* words, void* to) {
  W* made = (W*)to;
  const W scale = (W)(-1 / d.first);
  for (i64 i = 0; i < WORDS; ++i) made[i] = math_log(inside<W>(words[i])) * scale;
}

template <class W> static void cauchy(const Draw& d, const u64* words, void* to) {
  W* made = (W*)to;
  const W median = (W)d.first, sigma = (W)d.second;
  for (i64 i = 0; i < WORDS; ++i) made[i] = cauchy_unit<W>(words[i]) * sigma + median;
}

template <class W> static void geometric(const Draw& d, const u64* words, void* to) {
  W* made = (W*)to;
  const W scale = (W)(1 / log1p(-d.first));
  for (i64 i = 0; i < WORDS; ++i) made[i] = tries_of(words[i], scale);
}

// For integers too; the number of tries is computed in f64.
static void geometric_whole(const Draw& d, const u64* words, void* to) {
  alignas(64) f64 made[WORDS];
  geometric<f64>(d, words, made);
  for (i64 i = 0; i < WORDS; ++i) ((i64*)to)[i] = (i64)made[i];
}

static void bernoulli(const Draw& d, const u64* words, void* to) {
  for (i64 i = 0; i < WORDS; ++i) ((u64*)to)[i] = words[i] >> 11 < d.low;
}

// low + word mod count; a count of 0 means 2^64. The quotient is computed by a product: T. Granlund
// and P. Montgomery, Division by invariant integers using multiplication (1994).
static void integers(const Draw& d, const u64* words, void* to) {
  u64* made = (u64*)to;
  if (!(d.count & (d.count - 1))) {
    for (i64 i = 0; i < WORDS; ++i) made[i] = d.low + (words[i] & (d.count - 1));
    return;
  }
  for (i64 i = 0; i < WORDS; ++i) {
    const u64 high = multiply_high(words[i], d.magic);
    const u64 quotient = (((words[i] - high) >> 1) + high) >> d.shift;
    made[i] = d.low + (words[i] - quotient * d.count);
  }
}

static void prepare_division(Draw& d) {
  if (!(d.count & (d.count - 1))) return;
  d.shift = 63 - __builtin_clzll(d.count);
  const unsigned __int128 power = (unsigned __int128)1 << (64 + d.shift);
  const u64 quotient = (u64)(power / d.count), rest = (u64)(power % d.count), twice = rest + rest;
  d.magic = 2 * quotient + (twice >= d.count || twice < rest) + 1;
}

// --- calls --------------------------------------------------------------------------------------

static void draw_blocks(const Draw& d, i64 first, i64 last) {
  alignas(64) u64 words[WORDS];
  alignas(64) u64 made[WORDS];
  for (i64 block = first; block < last; block += WORDS / 4) {
    const i64 left = d.numel - 4 * block, n = left < WORDS ? left : WORDS;
    const i64 wanted = (n + 3) / 4;
    draw_words(words, d.seed, d.base + block, wanted);
    for (i64 i = 4 * wanted; i < WORDS; ++i) words[i] = 0;
    d.make(d, words, made);
    d.put(d.dst + 4 * block * d.itemsize, made, n);
  }
}

template <Make make, Put put> static i64 draw(const Call& call) {
  Draw d = {};
  d.dst = call.array[0].data, d.numel = call.array[0].size, d.itemsize = call.array[0].itemsize;
  d.seed = (u64)call.integer[0], d.base = (u64)call.integer[1];
  d.make = make, d.put = put;
  if (call.n_ints > 2) {
    d.low = (u64)call.integer[2], d.count = (u64)call.integer[3];
    prepare_division(d);
  } else {
    d.first = call.real[0], d.second = call.real[1];
  }
  call.share(as_body(draw_blocks), &d, (d.numel + 3) / 4, SHARED_BLOCKS);
  return 0;
}

static const abi::FunctionEntry functions[] = {
#define FLOATS(OP) \
  {#OP " f16", draw<OP<f32>, put<f16>>}, {#OP " bf16", draw<OP<f32>, put<bf16>>}, \
  {#OP " f32", draw<OP<f32>, put<f32>>}, {#OP " f64", draw<OP<f64>, put<f64>>},
#define WHOLE(OP, MAKE) \
  {#OP " bool", draw<MAKE, put_whole<b8>>}, {#OP " u8", draw<MAKE, put_whole<u8>>}, \
  {#OP " i8", draw<MAKE, put_whole<u8>>}, {#OP " u16", draw<MAKE, put_whole<u16>>}, \
  {#OP " i16", draw<MAKE, put_whole<u16>>}, {#OP " u32", draw<MAKE, put_whole<u32>>}, \
  {#OP " i32", draw<MAKE, put_whole<u32>>}, {#OP " u64", draw<MAKE, put_whole<u64>>}, \
  {#OP " i64", draw<MAKE, put_whole<u64>>},
#define WHOLE_FLOATS(OP) \
  {#OP " f16", draw<OP, put_whole<f16>>}, {#OP " bf16", draw<OP, put_whole<bf16>>}, \
  {#OP " f32", draw<OP, put_whole<f32>>}, {#OP " f64", draw<OP, put_whole<f64>>},
    {"uniform f16", draw<uniform<f16>, put<f16>>},
    {"uniform bf16", draw<uniform<bf16>, put<bf16>>},
    {"uniform f32", draw<uniform<f32>, put<f32>>},
    {"uniform f64", draw<uniform<f64>, put<f64>>},
    FLOATS(normal) FLOATS(log_normal) FLOATS(exponential) FLOATS(cauchy) FLOATS(geometric)
    WHOLE(geometric, geometric_whole)
    WHOLE(integers, integers) WHOLE_FLOATS(integers)
    WHOLE(bernoulli, bernoulli) WHOLE_FLOATS(bernoulli)
    {"permutation", permute},
};
extern const abi::Family random = {"random", functions};

}  // namespace CAPABILITY
