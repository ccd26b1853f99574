// Rows of a chain: reductions of values that op::CHAIN computes from the inputs and the results of
// earlier reductions, and the outputs that it computes from these.
// Shapes   outputs and inputs of any strides, up to DIMS kept dimensions; rows run along one
//          dimension. Outputs with one element per row come last.
// Types    TYPES: outputs, then inputs; each operator computes in its own type.
// Launch   one-dimensional, 256 threads; 2^lane_bits of them share a row. Each reduction, and the
//          computation of outputs, reads the row again, from the cache if it is short.
// Order    as rows in reduce.cu, or as softmax.cu, so the bits equal those of the operators run one
//          by one: UNIT elements of a run and CHAINS accumulators for each of them.
// Design   rows_source.py writes op::CHAIN. This file is composed with the part of reduce.cu before
//          its body, which contains the reductions.
#include "pointwise/chain.cuh"

// The function `of` of a pass. It computes a value from an element's inputs.
struct pass_of_chain {
  template <int J, class T> DEVICE T read(T x) const { return x; }
};

// The results of softmax.cu for a row, and its result for an element.
template <class acc> struct softmax_found { acc top, total; };

template <class F, class acc, class T> DEVICE T softmax_element(T x, acc top, acc total) {
  const acc one[1] = {cast<acc>(x)};
  return cast<T>(F::template result<acc>(one, top, total));
}

// ---- body ----
#include "pointwise/chain_head.cuh"

// rows_chain_launch.py packs this struct. inner_bytes: from one element of a row to the next.
struct rows_chain_params {
  static constexpr int all = operands::count + ROW_OPERANDS;
  char* data[all];
  value_slot value[NUMBERS];
  u32 rows, count, lane_bits, slot_bits, ndim, unused;
  i64 inner_bytes[operands::count];
  dimension<all> dim[DIMS];
};

// A thread's part of a row.
struct rows_walk {
  const rows_chain_params& p;
  uint4* shared;
  u32 lane, row;
  char* at[rows_chain_params::all];

  DEVICE rows_walk(const rows_chain_params& params, uint4* memory) : p(params), shared(memory) {
    lane = threadIdx.x & ((1u << p.lane_bits) - 1);
    row = (blockIdx.x << p.slot_bits) + (threadIdx.x >> p.lane_bits);
#pragma unroll
    for (int j = 0; j < rows_chain_params::all; ++j) at[j] = p.data[j];
    add_offsets(p.dim, p.ndim, row < p.rows ? row : 0, at);
  }

  DEVICE u32 units() const {
    return row < p.rows ? (p.count + operands::unit - 1) / operands::unit : 0;
  }

  template <int V> DEVICE all_inputs<operands, V, 1> loaded(u32 element) const {
    all_inputs<operands, V, 1> inputs;
    inputs.load(0, [&](int j) { return at[j] + element * p.inner_bytes[j]; }, p.inner_bytes);
    return inputs;
  }

  // The result of reduction F over the row, in all lanes. S: the type of its operand. T: the type
  // of the result.
  template <class F, class S, class T, class B> DEVICE T reduced(const B& body) const {
    typedef typename F::template types<S>::acc acc;
    constexpr int V = operands::unit;
    acc x[CHAINS * V];
#pragma unroll
    for (int e = 0; e < CHAINS * V; ++e) x[e] = F::template identity<acc>();
    const u32 lanes = 1u << p.lane_bits, end = units();
#pragma unroll 1
    for (u32 first = lane; first < end; first += lanes * 4) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const u32 element = (first + k * lanes) * V;
        if (first + k * lanes >= end) continue;
        acc* into = x + k % CHAINS * V;
        if (element + V <= p.count) {
          const auto inputs = loaded<V>(element);
#pragma unroll
          for (int e = 0; e < V; ++e) {
            into[e] = F::combine(into[e], taken_as<F, S, acc>(inputs.made(body, 0, e)));
          }
        } else {
#pragma unroll
          for (int e = 0; e < V; ++e) {
            if (element + e >= p.count) continue;
            const auto made = loaded<1>(element + e).made(body, 0, 0);
            into[e] = F::combine(into[e], taken_as<F, S, acc>(made));
          }
        }
      }
    }
    acc total = fold<F, CHAINS * V>(x);
    acc* parts = (acc*)shared;
    const u32 t = threadIdx.x;
    for (u32 half = lanes >> 1; half > 0; half >>= 1) {
      parts[t] = total;
      __syncthreads();
      if (lane < half) total = F::combine(total, parts[t + half]);
      __syncthreads();
    }
    parts[t] = total;
    __syncthreads();
    total = parts[t - lane];
    __syncthreads();
    return cast<T>(F::finish(total, (u64)p.count));
  }

  // Call take(x) with the body's value for each element of this lane, in ascending order.
  template <class acc, class B, class G> DEVICE void each(const B& body, const G& take) const {
    constexpr int V = operands::unit;
    const u32 lanes = 1u << p.lane_bits, end = units();
#pragma unroll 1
    for (u32 k = lane; k < end; k += lanes) {
      if (k * V + V <= p.count) {
        const auto inputs = loaded<V>(k * V);
#pragma unroll
        for (int e = 0; e < V; ++e) take(cast<acc>(inputs.made(body, 0, e)));
      } else {
#pragma unroll 1
        for (u32 element = k * V; element < p.count; ++element) {
          take(cast<acc>(loaded<1>(element).made(body, 0, 0)));
        }
      }
    }
  }

#ifdef HAS_SOFTMAX
  // The order and the lanes are those of softmax.cu's rows.
  template <class F, class acc, class B> DEVICE softmax_found<acc> softmax_of(const B& body) const {
    acc top = negative_infinity<acc>(), total = 0;
    each<acc>(body, [&](acc x) { top = larger(top, x); });
    const auto max_of = [](acc a, acc b) { return larger(a, b); };
    const auto sum_of = [](acc a, acc b) { return total_of(a, b); };
    top = across_lanes(top, p.lane_bits, (acc*)shared, max_of);
    each<acc>(body, [&](acc x) {
      const acc one[1] = {x};
      total += F::template term<acc>(one, top);
    });
    total = across_lanes(total, p.lane_bits, (acc*)shared, sum_of);
    __syncthreads();  // before the next pass writes to shared
    return {top, F::template prepare<acc>(total)};
  }
#endif

  template <class F, class S, class acc, class T> static DEVICE acc taken_as(T x) {
    if constexpr (sizeof(T) == sizeof(S)) {
      return F::template take<acc>(bits_as<S>(x), 0);
    } else {
      return F::template take<acc>(cast<S>(x), 0);
    }
  }

  // Store the outputs with the elements of the rows.
  template <class B> DEVICE void store(const B& body) const {
    constexpr int V = operands::unit;
    const u32 lanes = 1u << p.lane_bits, end = units();
#pragma unroll 1
    for (u32 k = lane; k < end; k += lanes) {
      if (k * V + V <= p.count) {
        const auto inputs = loaded<V>(k * V);
        store_outputs<operands, V>(
            [&](int j, int) { return at[j] + k * V * p.inner_bytes[j]; },
            [&](int e) { return inputs.made(body, 0, e); });
      } else {
#pragma unroll 1
        for (u32 element = k * V; element < p.count; ++element) {
          const auto inputs = loaded<1>(element);
          store_outputs<operands, 1>(
              [&](int j, int) { return at[j] + element * p.inner_bytes[j]; },
              [&](int) { return inputs.made(body, 0, 0); });
        }
      }
    }
  }

  // Store a value with one element per row, as output J of these.
  template <int J, class B> DEVICE void store_one(const B& body) const {
    if (lane || row >= p.rows) return;
    const auto x = loaded<1>(0).made(body, 0, 0);
    typedef typename without_const<decltype(x)>::type T;
    *(T*)at[operands::count + J] = x;
  }

  template <class T> struct without_const { typedef T type; };
  template <class T> struct without_const<const T> { typedef T type; };
};

extern "C" __global__ void __launch_bounds__(THREADS, 1)
rows_chain(const __grid_constant__ rows_chain_params p) {
  __shared__ uint4 shared[THREADS];
  op::CHAIN::run(rows_walk(p, shared));
}
