// Samples of the Poisson and binomial distributions.                                family: counts
// out[places[i]] = a sample, for the parameters at places[i]
// Shapes   out and parameters dense; places and accepted (n), dense.
// Types    f64; places i64; accepted bool.
// Numbers  seed and counter of the first uniform number (u64, passed as int64 with the same bits);
//          element i uses the words that `rand` would give to element i.
// Order    as in native/counts.py, which has the sources of the methods.
#include "philox_words.h"

namespace CAPABILITY {
#include "draws.cuh"
#include "math/special.cuh"

constexpr i64 WORDS = 256, SHARED_CHUNKS = 8;  // words drawn at a time; such chunks per thread

struct Samples {
  f64* out;
  b8* accepted;
  const i64* places;
  const f64 *first, *second;  // parameters; second is null if there is only one
  i64 n, most;
  u64 seed, base[2];
};

// The probability of 0. The probability of k is (a + b / k) times the probability of k - 1.
struct Terms { f64 none, a, b; };

struct poisson {
  static Terms terms(f64 mean, f64) { return {math_exp(-mean), 0, mean}; }

  // Propose a sample of a mean of 10 or more. u is in (-1/2, 1/2], v in (0, 1].
  static bool propose(f64 mean, f64, f64 u, f64 v, f64& k) {
    const f64 b = 0.931 + 2.53 * math_sqrt(mean), a = 0.02483 * b - 0.059;
    const f64 side = 0.5 - math_abs(u);
    k = math_floor((2 * a / side + b) * u + mean + 0.43);
    if (side >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return true;
    if (!(k >= 0) || !is_finite(k)) return false;
    const f64 weight = v * (1.1239 + 1.1328 / (b - 3.4)) / (a / (side * side) + b);
    return math_log(weight) <= k * math_log(mean) - mean - log_gamma(k + 1);
  }
};

struct binomial {
  static Terms terms(f64 count, f64 p) {
    const f64 odds = p / (1 - p);
    return {math_exp(count * math_log1p(-p)), -odds, (count + 1) * odds};
  }

  static bool propose(f64 count, f64 p, f64 u, f64 v, f64& k) {
    const f64 spread = math_sqrt(count * p * (1 - p)), side = 0.5 - math_abs(u);
    const f64 b = 1.15 + 2.53 * spread, a = 0.0248 * b - 0.0873 + 0.01 * p;
    k = math_floor((2 * a / side + b) * u + count * p + 0.5);
    if (side >= 0.07 && v <= 0.92 - 4.2 / b) return true;
    if (!(k >= 0 && k <= count)) return false;
    const f64 weight = v * (2.83 + 5.1 / b) * spread / (a / (side * side) + b);
    const f64 mode = math_floor((count + 1) * p);
    const f64 to_mode = log_gamma(mode + 1) + log_gamma(count - mode + 1) - log_gamma(k + 1) -
                        log_gamma(count - k + 1);
    return math_log(weight) <= to_mode + (k - mode) * math_log(p / (1 - p));
  }
};

static inline f64 second_of(const Samples& s, i64 place) { return s.second ? s.second[place] : 0; }

// The parameters and the terms of WORDS samples, computed together so that they vectorise.
struct Chunk {
  f64 first[WORDS] = {}, second[WORDS] = {};
  Terms terms[WORDS];
};

template <class D> static void prepare(Chunk& c, const Samples& s, const i64* places, i64 n) {
  for (i64 i = 0; i < n; ++i) c.first[i] = s.first[places[i]];
  for (i64 i = 0; s.second && i < n; ++i) c.second[i] = s.second[places[i]];
  for (i64 i = 0; i < WORDS; ++i) c.terms[i] = D::terms(c.first[i], c.second[i]);
}

// Inversion: subtract probabilities from a uniform number until the difference is negative.
template <class D> static void draw_small(const Samples& s, i64 first, i64 last) {
  alignas(64) u64 words[WORDS];
  Chunk chunk;
  for (i64 begin = first * WORDS; begin < last * WORDS && begin < s.n; begin += WORDS) {
    const i64 n = s.n - begin < WORDS ? s.n - begin : WORDS;
    draw_words(words, s.seed, s.base[0] + begin / 4, (n + 3) / 4);
    prepare<D>(chunk, s, s.places + begin, n);
    for (i64 i = 0; i < n; ++i) {
      const Terms t = chunk.terms[i];
      f64 term = t.none, rest = unit_of<f64>(words[i]) - term, count = 0;
      for (i64 k = 1; k < s.most && rest >= 0; ++k) {
        term *= t.a + t.b / k;
        rest -= term, count = k;
      }
      s.out[s.places[begin + i]] = count;
    }
  }
}

// One round of rejection. accepted: true where a sample is written.
template <class D> static void draw_large(const Samples& s, i64 first, i64 last) {
  alignas(64) u64 u[WORDS], v[WORDS];
  for (i64 begin = first * WORDS; begin < last * WORDS && begin < s.n; begin += WORDS) {
    const i64 n = s.n - begin < WORDS ? s.n - begin : WORDS;
    draw_words(u, s.seed, s.base[0] + begin / 4, (n + 3) / 4);
    draw_words(v, s.seed, s.base[1] + begin / 4, (n + 3) / 4);
    for (i64 i = 0; i < n; ++i) {
      const i64 place = s.places[begin + i];
      const f64 x = 1 - unit_of<f64>(u[i]) - 0.5, y = 1 - unit_of<f64>(v[i]);
      f64 k;
      const bool is_accepted = D::propose(s.first[place], second_of(s, place), x, y, k);
      if (is_accepted) s.out[place] = k;
      s.accepted[begin + i] = b8{(u8)is_accepted};
    }
  }
}

// Arrays: out, places, the parameters. Numbers: the number of terms, seed, counter.
template <class D> static i64 small(const Call& call) {
  const abi::Array* a = call.array;
  Samples s = {(f64*)a[0].data, nullptr, (const i64*)a[1].data, (const f64*)a[2].data,
               call.n_arrays > 3 ? (const f64*)a[3].data : nullptr, a[1].size, call.integer[0],
               (u64)call.integer[1], {(u64)call.integer[2]}};
  call.share(as_body(draw_small<D>), &s, (s.n + WORDS - 1) / WORDS, SHARED_CHUNKS);
  return 0;
}

// Arrays: out, accepted, places, the parameters. Numbers: seed, counters of u and v.
template <class D> static i64 large(const Call& call) {
  const abi::Array* a = call.array;
  Samples s = {(f64*)a[0].data, (b8*)a[1].data, (const i64*)a[2].data, (const f64*)a[3].data,
               call.n_arrays > 4 ? (const f64*)a[4].data : nullptr, a[2].size, 0,
               (u64)call.integer[0], {(u64)call.integer[1], (u64)call.integer[2]}};
  call.share(as_body(draw_large<D>), &s, (s.n + WORDS - 1) / WORDS, SHARED_CHUNKS);
  return 0;
}

static const abi::FunctionEntry functions[] = {
    {"poisson small", small<poisson>}, {"poisson large", large<poisson>},
    {"binomial small", small<binomial>}, {"binomial large", large<binomial>},
};
extern const abi::Family counts = {"counts", functions};

}  // namespace CAPABILITY
