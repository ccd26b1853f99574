// Operands of the pointwise kernels for large layouts: rows.cuh and turned.cuh.
//
// Note [Operand kinds]: three properties of each operand are -D, chosen by pointwise_plan.py: its
// type, its kind along the row of out that a thread processes, and the elements of one access. So
// no element needs a test. Outputs come first and always have the kind RUN. Operators have one
// output and up to five inputs; a chain has any number of both. A unit has as many elements as the
// widest operand has in 16 bytes, or fewer. Each operand is accessed at its own width, and
// unaligned operands by narrower accesses.
#ifndef GPUTENSOR_OPERANDS
#define GPUTENSOR_OPERANDS

#include "pointwise/contiguous.cuh"
#include "copying.cuh"

enum operand_kind {
  RUNS,   // neighbours along the row are neighbours in memory
  STAYS,  // one element for the whole row
  STEPS,  // any stride: element by element
  TURNS,  // dense across the rows: staged through shared memory
  GIVEN,  // a number, passed with the parameters
};

template <int J, class T, class... Rest> struct nth_type : nth_type<J - 1, Rest...> {};
template <class T, class... Rest> struct nth_type<0, T, Rest...> { typedef T type; };

template <class... T> struct type_list {
  static constexpr int count = sizeof...(T);
  template <int J> using at = typename nth_type<J, T...>::type;
};

template <class T, int N, int WIDTH> DEVICE vec<T, N> load_unit(const char* address) {
  if constexpr (WIDTH >= N) {
    return load_vector<vec<T, N>>(address);
  } else {
    vec<T, WIDTH> piece[N / WIDTH];
#pragma unroll
    for (int k = 0; k < N / WIDTH; ++k) {
      piece[k] = load_vector<vec<T, WIDTH>>(address + k * WIDTH * sizeof(T));
    }
    return assembled<T, N>([&](int i) { return piece[i / WIDTH].at(i % WIDTH); });
  }
}

template <int WIDTH, class T, int N> DEVICE void store_unit(char* address, const vec<T, N>& x) {
  if constexpr (WIDTH >= N) {
    store_vector(address, x);
  } else {
#pragma unroll
    for (int k = 0; k < N / WIDTH; ++k) {
      const auto piece = assembled<T, WIDTH>([&](int i) { return x.at(k * WIDTH + i); });
      store_vector(address + k * WIDTH * sizeof(T), piece);
    }
  }
}

// Input J of U units of V elements each, in registers.
template <class O, int J, int V, int U, bool IS_DRAWN = O::is_drawn(J)> struct input_units {
  typedef typename O::template type<J> T;
  static constexpr int kind = O::kind(J), elements = kind == STAYS ? 1 : V;
  static constexpr bool is_held = O::is_held(J);  // one element for all units of the thread
  vec<T, elements> x[is_held ? 1 : U];

  DEVICE void load(int k, const char* address, i64 stride_bytes) {
    if constexpr (kind == GIVEN) return;
    if (is_held && k > 0) return;
    if constexpr (kind == STEPS) {
      vec<T, 1> one[V];
#pragma unroll
      for (int i = 0; i < V; ++i) one[i] = load_vector<vec<T, 1>>(address + i * stride_bytes);
      x[k] = assembled<T, V>([&](int i) { return one[i].at(0); });
    } else {
      x[k] = load_unit<T, elements, O::width(J)>(address);
    }
  }

  template <class B> DEVICE auto get(const B& body, int k, int i) const {
    if constexpr (kind == GIVEN) {
      return body.template given<J>();
    } else {
      return body.template read<J>(value_of(x[is_held ? 0 : k].at(elements == 1 ? 0 : i)));
    }
  }
};

// Random numbers in place of a load. The address is the element's position in the stream, as if a
// tensor began at address 0.
template <class O, int J, int V, int U> struct input_units<O, J, V, U, true> {
  typedef typename O::template type<J> T;
  u64 place[U];
  i64 step;

  DEVICE void load(int k, const char* address, i64 stride_bytes) {
    place[k] = (u64)address / sizeof(T);
    step = O::kind(J) == RUNS ? 1 : stride_bytes / (i64)sizeof(T);
  }

  template <class B> DEVICE auto get(const B& body, int k, int i) const {
    if constexpr (V > 1 && O::kind(J) == RUNS && O::width(J) >= V) {
      // a unit begins at a multiple of V, so values common to its elements are computed once
      const u64 at = place[k];
      const int lane = V >= 4 ? i & 3 : (int)(at & 3) + i;
      return body.template drawn<J - O::outputs>((at >> 2) + (V >= 4 ? i >> 2 : 0), lane);
    } else {
      const u64 at = place[k] + (u64)(i * step);
      return body.template drawn<J - O::outputs>(at >> 2, (int)(at & 3));
    }
  }
};

// Load input J and the following ones. address(j): of operand j in unit k.
template <class O, int V, int U, int J = O::outputs, bool IS_THERE = (J < O::count)>
struct all_inputs {
  input_units<O, J, V, U> first;
  all_inputs<O, V, U, J + 1> rest;

  template <class A> DEVICE void load(int k, A address, const i64 (&inner)[O::count]) {
    first.load(k, address(J), inner[J]);
    rest.load(k, address, inner);
  }

  // The body's result for element i of unit k.
  template <class B, class... X> DEVICE auto made(const B& body, int k, int i, X... x) const {
    return rest.made(body, k, i, x..., first.get(body, k, i));
  }
};

template <class O, int V, int U, int J> struct all_inputs<O, V, U, J, false> {
  template <class A> DEVICE void load(int, A, const i64 (&)[O::count]) {}
  template <class B, class... X> DEVICE auto made(const B& body, int, int, X... x) const {
    return body.of(x...);
  }
};

// Output J of a body's result; the whole result if there is one output.
template <class O, int J, class R> DEVICE auto output_of(const R& made) {
  if constexpr (O::outputs == 1) {
    return cast<typename O::template type<0>>(made);
  } else {
    return cast<typename O::template type<J>>(made.template output<J>());
  }
}

// Store a unit of output J and of the following ones. made(i): the result for element i. address(j,
// size of an element): the address of a unit.
template <class O, int V, int J = 0, class A, class M>
DEVICE void store_each(A address, M made) {
  if constexpr (J < O::outputs) {
    typedef typename O::template type<J> T;
    const auto unit = assembled<T, V>([&](int i) { return part_of(output_of<O, J>(made(i))); });
    store_unit<O::width(J)>(address(J, (int)sizeof(T)), unit);
    store_each<O, V, J + 1>(address, made);
  }
}

template <class O, int V, class A, class M> DEVICE void store_outputs(A address, M made) {
  if constexpr (O::outputs == 1) {
    store_each<O, V>(address, made);
  } else {
    decltype(made(0)) once[V];
#pragma unroll
    for (int i = 0; i < V; ++i) once[i] = made(i);
    store_each<O, V>(address, [&](int i) { return once[i]; });
  }
}

// The result of an operator. Its inputs are narrowed to the common dtype and then converted to the
// arithmetic type. A number beside f16 or bf16 operands is not rounded to their type. See Note
// [Common dtype].
template <class scalar_t, class P> struct computed_inputs {
  typedef typename acc_of<scalar_t>::type acc_t;
  const P& p;

  template <int J, class T> DEVICE acc_t read(T x) const { return cast<acc_t>(cast<scalar_t>(x)); }
  template <int J> DEVICE acc_t given() const { return number<acc_t>(p.value[J - 1]); }
};

#endif
