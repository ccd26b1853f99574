// Functions that the source of a chain calls: see chain_source.py.
//
// The functors of a chain's operators are in the files of their families. A value of a chain has
// the type in which the operator alone would store it. The next operator converts it as it would
// after a load.
#ifndef GPUTENSOR_CHAIN
#define GPUTENSOR_CHAIN

#include "arithmetic.cuh"
#include "launch.cuh"
#include "rows.cuh"
#include "turned.cuh"

// Convert a value to the input of an operator with common dtype S. See Note [Common dtype].
template <class S, class T> DEVICE typename acc_of<S>::type taken(T x) {
  return cast<typename acc_of<S>::type>(cast<S>(x));
}

// A number of the call. It is not rounded to S if the type of the computation is wider.
template <class S> DEVICE typename acc_of<S>::type given(value_slot slot) {
  return number<typename acc_of<S>::type>(slot);
}

// The result of functor F with common dtype S, in the result's type.
template <class F, class S, class T, class... A> DEVICE T made(A... a) {
  return cast<T>(cast<S>(F::of(a...)));
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

#endif
