// What the body of a chain is written in: see chain_source.py.
//
// The functors of a chain's operators are those of their families' own files. A value of a chain
// is of the type in which the operator alone would have stored it; the next one takes it from there
// as it would have loaded it.
#ifndef GPUTENSOR_CHAIN
#define GPUTENSOR_CHAIN

#include "arithmetic.cuh"
#include "launch.cuh"
#include "rows.cuh"
#include "turned.cuh"

// A value as an operator of common dtype S takes it. See Note [Common dtype].
template <class S, class T> DEVICE typename acc_of<S>::type taken(T x) {
  return cast<typename acc_of<S>::type>(cast<S>(x));
}

// A number of the call, not rounded to S where that is narrower than what it is computed in.
template <class S> DEVICE typename acc_of<S>::type given(value_slot slot) {
  return number<typename acc_of<S>::type>(slot);
}

// What functor F of common dtype S makes, in the type of the result.
template <class F, class S, class T, class... A> DEVICE T made(A... a) {
  return cast<T>(cast<S>(F::of(a...)));
}

template <bool IS, class T> struct taken_if {};
template <class T> struct taken_if<true, T> { typedef T type; };
template <bool IS, class T> using take_if = typename taken_if<IS, T>::type;

template <class T> DEVICE bool is_true(T condition) { return bits_as<u8>(condition) != 0; }

// Any strides of operands whose types are known, four elements a thread.
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

#endif
