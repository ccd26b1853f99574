// Loops over elements from functors of kernels/cuda/*.cu.
//
// A functor has one loop for each set of inputs that have a single value for all elements. Other
// inputs are dense, because the engine packs strided inputs. f16 and bf16 use the loop of f32.
#ifndef GPUTENSOR_ELEMENTWISE_H
#define GPUTENSOR_ELEMENTWISE_H

#include "capability.h"

namespace CAPABILITY {

template <class T> using acc = typename acc_of<T>::type;

// The type of a functor's result for elements of T: bool, the type of the real part, or T.
template <class R, class T> struct result_of { typedef T type; };
template <class T> struct result_of<bool, T> { typedef b8 type; };
template <> struct result_of<f32, c64> { typedef f32 type; };
template <> struct result_of<f64, c128> { typedef f64 type; };

template <class To, class R> DEVICE To stored_as(R value) {
  if constexpr (same<R, bool>) {
    return b8{(u8)value};
  } else {
    return cast<To>(value);
  }
}

// F of one element of each input, followed by the scalars of the call.
template <class F, int SCALARS, class A, class... X> DEVICE auto call(const A* s, X... x) {
  if constexpr (SCALARS == 0) {
    return F::of(x...);
  } else if constexpr (SCALARS == 1) {
    return F::of(x..., s[0]);
  } else if constexpr (SCALARS == 2) {
    return F::of(x..., s[0], s[1]);
  } else if constexpr (SCALARS == 3) {
    return F::of(x..., s[0], s[1], s[2]);
  } else {
    return F::of(x..., s[0], s[1], s[2], s[3]);
  }
}

// places_to<N>() is a places<0, 1, …, N - 1>.
template <int... K> struct places {};
template <int N, int... K> struct places_up_to : places_up_to<N - 1, N - 1, K...> {};
template <int... K> struct places_up_to<0, K...> { typedef places<K...> type; };
template <int N> using places_to = typename places_up_to<N>::type;

template <class F, int SCALARS, class A, int... K> auto called_with(places<K...>) {
  const A *s = nullptr, x{};
  return call<F, SCALARS>(s, ((void)K, x)...);
}

template <class F, int SCALARS, int INPUTS, class A> auto called() {
  return called_with<F, SCALARS, A>(places_to<INPUTS>());
}

// Functors with a slow form for rare elements: see Note [Rare elements] in elementary.cuh.
template <class F, class = void> constexpr bool has_slow_form = false;
template <class F>
constexpr bool has_slow_form<F, decltype((void)&F::template is_rare<f32>)> = true;
// Functors whose loops do not vectorise if an input is a single value, because conditions on this
// value become branches. The value is repeated instead.
template <class F> constexpr bool repeats_values = false;
// Functors whose inputs may be exchanged if the first one is a single value.
template <class F> constexpr bool commutes = false;

// MASK: bit k is set if input k is a single value, of type A.
template <class F, int SCALARS, class T, int INPUTS, int MASK>
static void dense_loop(char* const* data, i64 n, const acc<T>* s) {
  typedef acc<T> A;
  constexpr bool IS_ONE[] = {bool(MASK & 1), bool(MASK & 2), bool(MASK & 4)};
  constexpr int SECOND = INPUTS > 1 ? 2 : 1, THIRD = INPUTS > 2 ? 3 : 1;
  const T *a = (const T*)data[1], *b = (const T*)data[SECOND], *c = (const T*)data[THIRD];
  const A one_x = IS_ONE[0] ? *(const A*)a : A{}, one_y = IS_ONE[1] ? *(const A*)b : A{},
          one_z = IS_ONE[2] ? *(const A*)c : A{};
  const auto x = [&](i64 i)
                     __attribute__((always_inline)) { return IS_ONE[0] ? one_x : cast<A>(a[i]); };
  const auto y = [&](i64 i)
                     __attribute__((always_inline)) { return IS_ONE[1] ? one_y : cast<A>(b[i]); };
  const auto z = [&](i64 i)
                     __attribute__((always_inline)) { return IS_ONE[2] ? one_z : cast<A>(c[i]); };
  typedef decltype(called<F, SCALARS, INPUTS, A>()) R;
  typedef typename result_of<R, T>::type To;
  To* out = (To*)data[0];
  if constexpr (is_real<A> && has_slow_form<F> && INPUTS == 1) {
    int found = 0;
    for (i64 i = 0; i < n; ++i) found |= F::is_rare(x(i));
    // All elements of a part are computed as if none were rare. The output may be the input, so
    // the rare elements are computed again from a copy.
    constexpr i64 PART = 256;
    A kept[PART];
    for (i64 begin = 0; found && begin < n; begin += PART) {
      const i64 part = n - begin < PART ? n - begin : PART;
      for (i64 i = 0; i < part; ++i) kept[i] = x(begin + i);
#pragma GCC ivdep
      for (i64 i = 0; i < part; ++i) out[begin + i] = stored_as<To>(F::of(kept[i]));
      for (i64 i = 0; i < part; ++i)
        if (F::is_rare(kept[i])) out[begin + i] = stored_as<To>(F::rare(kept[i]));
    }
    if (found) return;
  }
  if constexpr (is_real<A> && has_slow_form<F> && INPUTS == 2) {
    int found = 0;
    for (i64 i = 0; i < n; ++i) found |= F::is_rare(x(i), y(i));
    for (i64 i = 0; found && i < n; ++i)
      out[i] = stored_as<To>(F::is_rare(x(i), y(i)) ? F::rare(x(i), y(i)) : F::of(x(i), y(i)));
    if (found) return;
  }
  // An output may be exactly an input; other overlaps are not allowed.
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i) {
    if constexpr (INPUTS == 1) {
      out[i] = stored_as<To>(call<F, SCALARS>(s, x(i)));
    } else if constexpr (INPUTS == 2) {
      out[i] = stored_as<To>(call<F, SCALARS>(s, x(i), y(i)));
    } else {
      out[i] = stored_as<To>(call<F, SCALARS>(s, x(i), y(i), z(i)));
    }
  }
}

// The loop of a functor with more than three inputs.
template <class F, int SCALARS, class T, int MASK, int... K>
static void many_loop(char* const* data, i64 n, const acc<T>* s, places<K...>) {
  typedef acc<T> A;
  const T* const in[] = {(const T*)data[K + 1]...};
  const A one[] = {MASK >> K & 1 ? *(const A*)data[K + 1] : A{}...};
  typedef decltype(called<F, SCALARS, sizeof...(K), A>()) R;
  typename result_of<R, T>::type* out = (typename result_of<R, T>::type*)data[0];
#pragma GCC ivdep
  for (i64 i = 0; i < n; ++i)
    out[i] = cast<T>(call<F, SCALARS>(s, (MASK >> K & 1 ? one[K] : cast<A>(in[K][i]))...));
}

template <class F, int SCALARS, class T, int INPUTS, int MASK>
static void loop_of(char* const* data, i64 n, const acc<T>* s) {
  if constexpr (INPUTS > 3) {
    many_loop<F, SCALARS, T, MASK>(data, n, s, places_to<INPUTS>());
  } else {
    dense_loop<F, SCALARS, T, INPUTS, MASK>(data, n, s);
  }
}

// f16 and bf16 through the loop of f32, some elements at a time, which stay in the first-level
// cache.
template <class T, bool GIVES_BOOL>
static void half_loop(abi::Loop of_floats, int inputs, char* const* data, const i64* step, i64 n,
                      const Scalar* scalars) {
  constexpr i64 SOME = 256;
  alignas(64) f32 wide[6][SOME];
  char* at[6];
  i64 steps[6] = {GIVES_BOOL ? 1 : 4};
  for (int k = 1; k <= inputs; ++k) {  // a single value is already f32
    at[k] = step[k] ? (char*)wide[k] : data[k];
    steps[k] = step[k] ? 4 : 0;
  }
  for (i64 i = 0; i < n; i += SOME) {
    const i64 left = n - i < SOME ? n - i : SOME;
    for (int k = 1; k <= inputs; ++k)
      if (step[k]) widen_some(wide[k], (const T*)data[k] + i, left);
    at[0] = GIVES_BOOL ? data[0] + i : (char*)wide[0];
    of_floats(at, steps, left, scalars);
    if (!GIVES_BOOL) narrow_some((T*)data[0] + i, wide[0], left);
  }
}

// Functors of two inputs that also take vectors of sixteen numbers. f16 and bf16 stay in registers,
// because the arithmetic takes less time than the memory access.
template <class F> constexpr bool takes_vectors = false;
typedef f32 floats __attribute__((vector_size(64)));
typedef u32 words __attribute__((vector_size(64)));
typedef u16 halves __attribute__((vector_size(32)));
constexpr i64 LANES = 16;

template <class T> static inline floats widened(const T* from) {
  if constexpr (same<T, f16>) {
#if defined(__AVX512F__)
    return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
#elif defined(__F16C__)
    __m256 made[] = {_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(from + 8)))};
    return *(floats*)made;
#else
    floats made;
    for (int k = 0; k < LANES; ++k) made[k] = to_float(from[k]);
    return made;
#endif
  } else {
    halves bits;
    memcpy(&bits, from, sizeof bits);
    return (floats)(__builtin_convertvector(bits, words) << 16);
  }
}

template <class T> static inline void narrowed(T* to, floats x) {
  if constexpr (same<T, f16>) {
#if defined(__AVX512F__)
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    const __m256* halves_of = (const __m256*)&x;
    for (int k = 0; k < 2; ++k)
      _mm_storeu_si128((__m128i*)(to + 8 * k),
                       _mm256_cvtps_ph(halves_of[k], _MM_FROUND_TO_NEAREST_INT));
#else
    for (int k = 0; k < LANES; ++k) to[k] = cast<T>(x[k]);
#endif
  } else {  // as bf16_from_float
    const words bits = (words)x;
    const words found = x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1);
    const halves made = __builtin_convertvector(found >> 16, halves);
    memcpy(to, &made, sizeof made);
  }
}

template <class F, class T, bool IS_ONE>
static i64 in_registers(T* out, const T* a, const T* b, f32 one, i64 n) {
  i64 i = 0;
  const floats all = one - floats{};
  for (; i + LANES <= n; i += LANES)
    narrowed(out + i, F::template of<floats>(widened(a + i), IS_ONE ? all : widened(b + i)));
  return i;
}

// One loop for any steps, for elements of the type of the computation: for functors so long that
// more loops would not make them faster.
template <class F, int SCALARS, class T, int INPUTS>
static void any_loop(char* const* data, const i64* step, i64 n, const T* s) {
  typedef decltype(called<F, SCALARS, INPUTS, T>()) R;
  typedef typename result_of<R, T>::type To;
  for (i64 i = 0; i < n; ++i) {
    const auto x = [&](int k) { return *(const T*)(data[k + 1] + i * step[k + 1]); };
    To* out = (To*)data[0] + i;
    if constexpr (INPUTS == 1) {
      *out = stored_as<To>(call<F, SCALARS>(s, x(0)));
    } else if constexpr (INPUTS == 2) {
      *out = stored_as<To>(call<F, SCALARS>(s, x(0), x(1)));
    } else {
      *out = stored_as<To>(call<F, SCALARS>(s, x(0), x(1), x(2)));
    }
  }
}

// For sets of inputs without a loop: inputs with a single value are repeated, some elements at a
// time.
template <class F, int SCALARS, class T, int INPUTS>
static void repeating_loop(char* const* data, const i64* step, i64 n, const acc<T>* s) {
  constexpr int SOME = 512;
  alignas(64) T repeated[INPUTS][SOME];
  for (int k = 0; k < INPUTS; ++k) {
    if (step[k + 1]) continue;
    const T value = cast<T>(*(const acc<T>*)data[k + 1]);
    for (i64 e = 0; e < (n < SOME ? n : SOME); ++e) repeated[k][e] = value;
  }
  char* at[INPUTS + 1];
  typedef decltype(called<F, SCALARS, INPUTS, acc<T>>()) R;
  for (i64 i = 0; i < n; i += SOME) {
    at[0] = data[0] + i * sizeof(typename result_of<R, T>::type);
    for (int k = 1; k <= INPUTS; ++k)
      at[k] = step[k] ? data[k] + i * sizeof(T) : (char*)repeated[k - 1];
    loop_of<F, SCALARS, T, INPUTS, 0>(at, n - i < SOME ? n - i : SOME, s);
  }
}

template <class F, int SCALARS, class T, int INPUTS>
static void loop(char* const* data, const i64* step, i64 n, const Scalar* scalars) {
  if constexpr (is_half<T>) {
    typedef decltype(called<F, SCALARS, INPUTS, f32>()) R;
    if constexpr (INPUTS == 2 && takes_vectors<F>) {
      if (step[1] && n >= LANES) {
        T *out = (T*)data[0], *a = (T*)data[1], *b = (T*)data[2];
        const i64 done =
            step[2] ? in_registers<F, T, false>(out, a, b, 0, n)
                    : in_registers<F, T, true>(out, a, nullptr, *(const f32*)data[2], n);
        if (done == n) return;
        char* const rest[] = {(char*)(out + done), (char*)(a + done),
                              step[2] ? (char*)(b + done) : data[2]};
        return half_loop<T, false>(loop<F, SCALARS, f32, INPUTS>, INPUTS, rest, step, n - done,
                                   scalars);
      }
    }
    return half_loop<T, same<R, bool>>(loop<F, SCALARS, f32, INPUTS>, INPUTS, data, step, n,
                                       scalars);
  }
  acc<T> s[SCALARS + 1];
  for (int k = 0; k < SCALARS; ++k) memcpy(&s[k], &scalars[k], sizeof(acc<T>));
  if constexpr (is_complex<T>) {
    any_loop<F, SCALARS, T, INPUTS>(data, step, n, s);
  } else if constexpr (!is_half<T>) {
    int mask = 0;
    for (int k = 0; k < INPUTS; ++k) mask |= step[k + 1] ? 0 : 1 << k;
    if (mask == 0) return loop_of<F, SCALARS, T, INPUTS, 0>(data, n, s);
    if constexpr (INPUTS == 2 && !repeats_values<F>) {
      if (mask == 2) return dense_loop<F, SCALARS, T, INPUTS, 2>(data, n, s);
      if (commutes<F> && mask == 1) {
        char* const swapped[] = {data[0], data[2], data[1]};
        return dense_loop<F, SCALARS, T, INPUTS, 2>(swapped, n, s);
      }
    } else if constexpr (INPUTS == 3) {
      if (mask == 4) return dense_loop<F, SCALARS, T, INPUTS, 4>(data, n, s);
      if (mask == 6) return dense_loop<F, SCALARS, T, INPUTS, 6>(data, n, s);
    } else if constexpr (INPUTS > 3) {  // the last two inputs, weights, are numbers
      constexpr int WEIGHTS = 3 << (INPUTS - 2), AND_FIRST = WEIGHTS | 1;
      if (mask == WEIGHTS) return loop_of<F, SCALARS, T, INPUTS, WEIGHTS>(data, n, s);
      if (mask == AND_FIRST) return loop_of<F, SCALARS, T, INPUTS, AND_FIRST>(data, n, s);
    }
    repeating_loop<F, SCALARS, T, INPUTS>(data, step, n, s);
  }
}

template <class F, int INPUTS, int SCALARS, class T>
constexpr abi::LoopEntry entry(const char* name) {
  typedef decltype(called<F, SCALARS, INPUTS, acc<T>>()) R;
  typedef typename result_of<R, T>::type To;
  constexpr abi::byte of = code_of<T>;
  return {name, {of, of, of, of, of}, code_of<To>, code_of<T>, INPUTS, SCALARS,
          loop<F, SCALARS, T, INPUTS>};
}

}  // namespace CAPABILITY

#endif
