// Pointwise operators with one to five inputs and any number of scalars. The functor declares both
// numbers:
//
//   struct leaky_relu : takes<1, 1> {
//     template <class T> static DEVICE T of(T x, T slope) { return x > 0 ? x : x * slope; }
//   };
//
// An input is a tensor or a number. The scalars of a call follow the inputs. All values have the
// arithmetic type. A result of this type is stored in the common dtype, a bool as a bool.
#ifndef GPUTENSOR_COMPUTED
#define GPUTENSOR_COMPUTED

#include "pointwise/contiguous.cuh"
#include "launch.cuh"
#include "pointwise/rows.cuh"
#include "pointwise/turned.cuh"

// The number of values of a call. variants.py reads it.
template <int INPUTS, int SCALARS> struct takes {
  static constexpr int inputs = INPUTS, scalars = SCALARS, values = INPUTS + SCALARS;
};

#ifndef GPUTENSOR_LOOPS  // the CPU's loops need only the functors

template <class F> using contiguous_call_of = contiguous_params<F::inputs + 1, F::values>;
template <class F, int MAX_DIMS> using strided_call_of =
    strided_params<F::inputs + 1, F::values, MAX_DIMS>;
// The result of a functor; values: the inputs first.
template <class F, class T> DEVICE auto made_of(const T (&v)[F::values]) {
  constexpr int N = F::values;
  static_assert(N <= 6, "a functor takes up to six values");
  if constexpr (N == 1) {
    return F::of(v[0]);
  } else if constexpr (N == 2) {
    return F::of(v[0], v[1]);
  } else if constexpr (N == 3) {
    return F::of(v[0], v[1], v[2]);
  } else if constexpr (N == 4) {
    return F::of(v[0], v[1], v[2], v[3]);
  } else if constexpr (N == 5) {
    return F::of(v[0], v[1], v[2], v[3], v[4]);
  } else {
    return F::of(v[0], v[1], v[2], v[3], v[4], v[5]);
  }
}

// A result in the common dtype; a bool in its own.
template <class scalar_t, class R> DEVICE auto stored(R made) {
  if constexpr (same<R, bool>) {
    return b8{(u8)made};
  } else {
    return cast<scalar_t>(made);
  }
}

// A single input is a tensor; the inputs of other operators may be numbers.
template <class F, class scalar_t> DEVICE void compute_contiguous(const contiguous_call_of<F>& p) {
  typedef typename acc_of<scalar_t>::type acc_t;
  constexpr int N = F::inputs, PACK = 16 / sizeof(scalar_t);
  constexpr int PACKS = N == 1 ? UNARY_PACKS : BINARY_PACKS;
  const u32 tile = blockDim.x * PACK * PACKS, first = blockIdx.x * tile;
  const auto is_number = [&](int j) { return N > 1 && p.numbers >> j & 1; };
  acc_t given[F::values], v[F::values];
  typedef decltype(stored<scalar_t>(made_of<F>(v))) out_t;
#pragma unroll
  for (int j = 0; j < F::values; ++j) v[j] = given[j] = number<acc_t>(p.value[j]);
  if (first + tile <= p.numel && all_aligned(p.data)) {
    pack<scalar_t, PACK> x[N][PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      const u32 at = first + (k * blockDim.x + threadIdx.x) * PACK;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        x[j][k] = load_or_repeat<scalar_t, PACK>(p.data[j + 1], at, is_number(j), given[j]);
      }
    }
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
      pack<out_t, PACK> result;
#pragma unroll
      for (int e = 0; e < PACK; ++e) {
#pragma unroll
        for (int j = 0; j < N; ++j) v[j] = element_or_number(x[j][k].at[e], is_number(j), given[j]);
        result.at[e] = stored<scalar_t>(made_of<F>(v));
      }
      store_pack<out_t, PACK>(p.data[0], first + (k * blockDim.x + threadIdx.x) * PACK, result);
    }
  } else {
    const u32 end = first + tile < p.numel ? first + tile : p.numel;
    for (u32 i = first + threadIdx.x; i < end; i += blockDim.x) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (!is_number(j)) v[j] = cast<acc_t>(load_one<scalar_t>(p.data[j + 1], i));
      }
      store_one(p.data[0], i, stored<scalar_t>(made_of<F>(v)));
    }
  }
}

template <class F, class acc_t, int MAX_DIMS>
DEVICE void compute_strided(const strided_call_of<F, MAX_DIMS>& p) {
  constexpr int N = F::inputs;
  const u32 first = first_element();
  if (first >= p.numel) return;
  i64 offset[N + 1][STRIDED_UNROLL];
  locate(p, first, blockDim.x, offset);
  acc_t x[N][STRIDED_UNROLL], v[F::values];
  typedef decltype(made_of<F>(v)) result_t;
  result_t result[STRIDED_UNROLL];
#pragma unroll
  for (int j = 0; j < N; ++j) read_input(p, j + 1, j, offset[j + 1], x[j]);
#pragma unroll
  for (int j = N; j < F::values; ++j) v[j] = number<acc_t>(p.value[j]);
#pragma unroll
  for (int k = 0; k < STRIDED_UNROLL; ++k) {
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] = x[j][k];
    result[k] = made_of<F>(v);
  }
  if constexpr (same<result_t, bool>) {
    store(p.data[0], offset[0], elements_left(first, p.numel), p.code[0], result);
  } else {
    write_common(p, offset[0], elements_left(first, p.numel), result);
  }
}

// For walk_rows and walk_tiles.
template <class F, class scalar_t, class P> struct computed_body : computed_inputs<scalar_t, P> {
  typedef typename acc_of<scalar_t>::type acc_t;

  template <class... X> DEVICE auto of(X... x) const {
    acc_t v[F::values] = {x...};
#pragma unroll
    for (int j = F::inputs; j < F::values; ++j) v[j] = number<acc_t>(this->p.value[j]);
    return stored<scalar_t>(made_of<F>(v));
  }
};

#endif

#endif
