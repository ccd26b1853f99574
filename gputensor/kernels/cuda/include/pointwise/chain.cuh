// Functions that the source of a chain calls: see chain_source.py.
//
// The functors of a chain's operators are in the files of their families. A value of a chain has
// the type in which the operator alone would store it. The next operator converts it as it would
// after a load.
#ifndef GPUTENSOR_CHAIN
#define GPUTENSOR_CHAIN

#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "pointwise/rows.cuh"
#include "pointwise/turned.cuh"

// Convert a value to the input of an operator with common dtype S. See Note [Common dtype].
template <class S, class T> DEVICE typename acc_of<S>::type taken(T x) {
  return cast<typename acc_of<S>::type>(cast<S>(x));
}

// A number of the call. It is not rounded to S if the type of the computation is wider.
template <class S> DEVICE typename acc_of<S>::type given(value_slot slot) {
  return number<typename acc_of<S>::type>(slot);
}

// Hides a result from g++ on the emulator. g++ would compute -x + y as y - x, which gives a NaN the
// other sign than the operators one by one.
template <class T> DEVICE T apart(T x) {
#if !defined(__CUDA_ARCH__) && defined(__x86_64__)
  if constexpr (is_real<T>) asm("" : "+x"(x));
  if constexpr (same<T, c64> || same<T, c128>) asm("" : "+x"(x.re), "+x"(x.im));
#endif
  return x;
}

// The result of functor F with common dtype S, in the result's type.
template <class F, class S, class T, class... A> DEVICE T made(A... a) {
  return apart(cast<T>(cast<S>(F::of(a...))));
}

template <bool IS, class T> struct taken_if {};
template <class T> struct taken_if<true, T> { typedef T type; };
template <bool IS, class T> using take_if = typename taken_if<IS, T>::type;

template <class T> DEVICE bool is_true(T condition) { return bits_as<u8>(condition) != 0; }

// Operands of known types with any strides, four elements per thread.
template <int OPERANDS, int VALUES, int MAX_DIMS> struct chain_params {
  static constexpr int dims = MAX_DIMS;
  char* data[OPERANDS];
  value_slot value[VALUES];
  u32 numel;
  i32 ndim;
  dimension<OPERANDS> dim[MAX_DIMS];
};

template <class O, class P, class B> DEVICE void walk_strided(const P& p, const B& body) {
  constexpr int N = O::count, U = STRIDED_UNROLL;
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[N][U], inner[N] = {};
  locate(p, first, blockDim.x, offset);
  all_inputs<O, 1, U> inputs;
#pragma unroll
  for (int k = 0; k < U; ++k) {
    inputs.load(k, [&](int j) { return p.data[j] + offset[j][k]; }, inner);
  }
  const int count = elements_left(first, p.numel);
#pragma unroll
  for (int k = 0; k < U; ++k) {
    if (k < count) {
      store_outputs<O, 1>([&](int j, int) { return p.data[j] + offset[j][k]; },
                          [&](int) { return inputs.made(body, k, 0); });
    }
  }
}

// The list whose blocks contain this one; first: the first block of each of `count` lists.
template <int N> DEVICE u32 list_of(const u32 (&first)[N], u32 count) {
  u32 found = 0;
  while (count - found > 1) {
    const u32 middle = (found + count) / 2;
    if (first[middle] <= blockIdx.x) {
      found = middle;
    } else {
      count = middle;
    }
  }
  return found;
}

// Dense tensors of one dtype in tuples of operands; an operand that stays has one element. data:
// the addresses of a tuple. numel: the elements of its other operands. first: its first block.
template <int PLACES, int VALUES, int TUPLES> struct lists_params {
  value_slot value[VALUES];
  char* data[TUPLES][PLACES];
  u64 numel[TUPLES];
  u32 first[TUPLES];
  u32 count, unused[3];
};

// address: for each operand, its place among the addresses of a tuple; several operands may share
// one.
template <class O, class P, class B>
DEVICE void walk_lists(const P& p, const B& body, const int (&address)[O::count]) {
  constexpr int N = O::count, V = O::unit, U = O::unroll;
  constexpr i64 size = sizeof(typename O::template type<0>);
  const u32 tuple = list_of(p.first, p.count);
  const u64 numel = p.numel[tuple], tile = blockIdx.x - p.first[tuple];
  const u64 first = (tile * (THREADS * U) + threadIdx.x) * V;
  if (first >= numel) return;
  char* at[N];
  i64 inner[N], step[N];
  u64 bits = 0;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const bool stays = O::kind(j) == STAYS;
    inner[j] = stays ? 0 : size, step[j] = inner[j] * THREADS * V;
    at[j] = p.data[tuple][address[j]];
    bits |= stays ? 0 : (u64)at[j];
    at[j] += first * inner[j];
  }
  u32 exists = 0, whole = 0;
#pragma unroll
  for (int k = 0; k < U; ++k) {
    const u64 begin = first + k * THREADS * V;
    exists |= (u32)(begin < numel) << k, whole |= (u32)(begin + V <= numel) << k;
  }
  if ((bits & 15) == 0 && whole == (1u << U) - 1) {
    compute_units<O, V, true>(body, at, step, inner, whole);
    return;
  }
  // Unaligned, or the end of a tensor: the i-th element of each unit that has it.
#pragma unroll 1
  for (u32 i = 0; i < V; ++i) {
    u32 here = 0;
#pragma unroll
    for (int k = 0; k < U; ++k) here |= (u32)(first + k * THREADS * V + i < numel) << k;
    compute_units<O, 1, false>(body, at, step, inner, here);
#pragma unroll
    for (int j = 0; j < N; ++j) at[j] += inner[j];
  }
}

#endif
