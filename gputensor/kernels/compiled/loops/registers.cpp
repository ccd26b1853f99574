// Instructions over a tile in registers: see engine/machine.h.
//
// The accumulator is the first eight arguments, which both calling conventions pass in vector
// registers. An instruction ends with a jump to the next one. The bits equal those of the loops,
// because the arithmetic is IEEE's.
#include "../engine/machine.h"
#include "leaves.h"

namespace CAPABILITY {
namespace {

using abi::Instruction;
using abi::Place;

#if defined(__AVX512F__)
constexpr int WIDTH = 64;
#elif defined(__AVX2__)
constexpr int WIDTH = 32;
#else
constexpr int WIDTH = 16;
#endif
constexpr int VECTORS = 8;

template <class T> struct tile {
  typedef T V __attribute__((vector_size(WIDTH)));
  typedef T At __attribute__((vector_size(WIDTH), aligned(alignof(T)), may_alias));
};

#define TILE V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7
#define ARGUMENTS TILE, const Instruction *now, const Place *places, i64 at
#define PLACE(K) ((At*)(places[now->place[K]].data + (at & places[now->place[K]].mask)))
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define NEXT return ((Go)now[1].go)(a0, a1, a2, a3, a4, a5, a6, a7, now + 1, places, at)

template <class T> struct instructions {
  typedef typename tile<T>::V V;
  typedef typename tile<T>::At At;
  typedef void (*Go)(ARGUMENTS);

  static void end(ARGUMENTS) {}
  static void load(ARGUMENTS) {
    const At* x = PLACE(0);
#define X(K) a##K = x[K];
    EACH(X)
#undef X
    NEXT;
  }
  static void store(ARGUMENTS) {
    At* to = PLACE(0);
#define X(K) to[K] = a##K;
    EACH(X)
#undef X
    NEXT;
  }
  template <class F> static void of_one(ARGUMENTS) {
#define X(K) a##K = F::of(a##K);
    EACH(X)
#undef X
    NEXT;
  }
  template <class F> static void of_one_place(ARGUMENTS) {
    const At* x = PLACE(0);
#define X(K) a##K = F::of((V)x[K]);
    EACH(X)
#undef X
    NEXT;
  }
  // ONE: the place is one number, of which one vector is read.
  template <class F, bool ONE = false> static void first(ARGUMENTS) {
    const At* y = PLACE(0);
    const V one = y[0];
#define X(K) a##K = F::of(a##K, ONE ? one : (V)y[K]);
    EACH(X)
#undef X
    NEXT;
  }
  template <class F, bool ONE = false> static void second(ARGUMENTS) {
    const At* x = PLACE(0);
    const V one = x[0];
#define X(K) a##K = F::of(ONE ? one : (V)x[K], a##K);
    EACH(X)
#undef X
    NEXT;
  }
  template <class F> static void twice(ARGUMENTS) {
#define X(K) a##K = F::of(a##K, a##K);
    EACH(X)
#undef X
    NEXT;
  }
  template <class F> static void place_twice(ARGUMENTS) {
    const At* x = PLACE(0);
#define X(K) { const V x##K = x[K]; a##K = F::of(x##K, x##K); }
    EACH(X)
#undef X
    NEXT;
  }
  template <class F, bool FIRST_IS_ONE = false, bool SECOND_IS_ONE = false>
  static void both(ARGUMENTS) {
    const At *x = PLACE(0), *y = PLACE(1);
    const V one_x = x[0], one_y = y[0];
#define X(K) a##K = F::of(FIRST_IS_ONE ? one_x : (V)x[K], SECOND_IS_ONE ? one_y : (V)y[K]);
    EACH(X)
#undef X
    NEXT;
  }
  template <int INPUTS> static void call(ARGUMENTS) {
    char* data[INPUTS + 1];
    i64 step[INPUTS + 1];
    for (int k = 0; k <= INPUTS; ++k) data[k] = (char*)PLACE(k), step[k] = sizeof(T);
    const Scalar* scalars = (const Scalar*)places[abi::SCALARS].data;
    now->loop(data, step, WIDTH * VECTORS / sizeof(T), scalars + now->first_scalar);
    const At* x = (const At*)data[0];
#define X(K) a##K = x[K];
    EACH(X)
#undef X
    NEXT;
  }
  // The condition is the accumulator.
  static void where(ARGUMENTS) {
    typedef decltype(a0 == a0) Truths;
    const At *x = PLACE(0), *y = PLACE(1);
#define X(K) a##K = ((Truths)a##K != 0) ? (V)x[K] : (V)y[K];
    EACH(X)
#undef X
    NEXT;
  }

  // These instructions end tiles of both types, because their arguments have one size.
  static void run(const Instruction* code, const Place* places, i64 n) {
    const V none = {};
    for (i64 k = 0; k < n; ++k)
      ((Go)code->go)(none, none, none, none, none, none, none, none, code, places,
                     k * WIDTH * VECTORS);
  }
};

// --- what they compute: as the functors of kernels/cuda, of vectors ------------------------------

// Sums and products of two NaN: the loops have the second operand first, so its NaN is the result.
struct add { template <class V> static V of(V a, V b) { return ordered_sum(b, a); } };
struct mul { template <class V> static V of(V a, V b) { return ordered_product(b, a); } };

#define OF_TWO(NAME, EXPRESSION) \
  struct NAME { template <class V> static V of(V a, V b) { return EXPRESSION; } };
OF_TWO(sub, a - b)
OF_TWO(div, a / b)
OF_TWO(maximum, ((a > b) | (a != a)) ? a : b)
OF_TWO(minimum, ((a < b) | (a != a)) ? a : b)
OF_TWO(eq, (V)(a == b))
OF_TWO(ne, (V)(a != b))
OF_TWO(lt, (V)(a < b))
OF_TWO(le, (V)(a <= b))
OF_TWO(gt, (V)(a > b))
OF_TWO(ge, (V)(a >= b))
#undef OF_TWO

template <class V> static V root_of(V x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(x[0]) == 4) return (V)_mm512_sqrt_ps((__m512)x);
  else return (V)_mm512_sqrt_pd((__m512d)x);
#elif defined(__AVX2__)
  if constexpr (sizeof(x[0]) == 4) return (V)_mm256_sqrt_ps((__m256)x);
  else return (V)_mm256_sqrt_pd((__m256d)x);
#elif defined(__aarch64__)
  if constexpr (sizeof(x[0]) == 4) return (V)vsqrtq_f32((float32x4_t)x);
  else return (V)vsqrtq_f64((float64x2_t)x);
#endif
}

#define OF_ONE(NAME, EXPRESSION) \
  struct NAME { template <class V> static V of(V x) { return EXPRESSION; } };
OF_ONE(neg, -x)
OF_ONE(size, (V)((decltype(x == x))x & ~(decltype(x == x))-V{}))  // without the sign bit
OF_ONE(relu, ((x > 0) | (x != x)) ? x : V{})
OF_ONE(reciprocal, 1 / x)
OF_ONE(root, root_of(x))
OF_ONE(rsqrt, 1 / root_of(x))
#undef OF_ONE

// --- reductions ---------------------------------------------------------------------------------

// Tiles are joined with eight lanes in the order of leaf_of<OP, T>::of_row.
template <class OP, class T, bool IS_MEAN = false> struct tiles_of {
  typedef typename tile<T>::V V;
  typedef typename tile<T>::At At;
  typedef void (*Go)(ARGUMENTS);
  typedef leaf_of<OP, T> Leaf;
  static constexpr i64 TILE_BYTES = WIDTH * VECTORS, LANES = Leaf::GROUP * sizeof(T),
                       BLOCK = Leaf::BLOCK * sizeof(T);
  static constexpr int N = LANES / WIDTH;
  static_assert(TILE_BYTES % LANES == 0, "a tile has whole groups of lanes");
  struct State {
    alignas(64) char lanes[LANES];
    typename Leaf::template Blocks<10> blocks;
  };
  static_assert(sizeof(State) <= abi::STATE_BYTES, "");

  // The block with the element before this offset has ended.
  __attribute__((noinline)) static void close(State& state, i64 at) {
    const i64 number = (at - 1) / BLOCK;
    if (!number) state.blocks.depth = 0;
    state.blocks.add(number, (const typename Leaf::vector*)state.lanes);
  }
  __attribute__((noinline)) static void close_and_go(ARGUMENTS) {
    close(*(State*)places[now->place[0]].data, at + TILE_BYTES);
    NEXT;
  }
  static void go(ARGUMENTS) {
    V* lanes = (V*)((State*)places[now->place[0]].data)->lanes;
    const V x[] = {a0, a1, a2, a3, a4, a5, a6, a7};
    V made[N];
    if (at % BLOCK) {
#pragma GCC unroll 8
      for (int k = 0; k < N; ++k) made[k] = OP::join(lanes[k], OP::map(x[k], T{}));
    } else {
#pragma GCC unroll 8
      for (int k = 0; k < N; ++k) made[k] = OP::map(x[k], T{});
    }
#pragma GCC unroll 8
    for (int k = N; k < VECTORS; ++k) made[k % N] = OP::join(made[k % N], OP::map(x[k], T{}));
#pragma GCC unroll 8
    for (int k = 0; k < N; ++k) lanes[k] = made[k];
    if ((at + TILE_BYTES) % BLOCK == 0)
      return close_and_go(a0, a1, a2, a3, a4, a5, a6, a7, now, places, at);
    NEXT;
  }

  static void add_group(State& state, const char* x, i64 at) {
    typedef typename Leaf::vector vector;
    vector* lane = (vector*)state.lanes;
    for (int k = 0; k < 8; ++k) {
      const vector made = OP::map(Leaf::V::load((const T*)x + k * Leaf::WIDTH), T{});
      lane[k] = at % BLOCK ? OP::join(lane[k], made) : made;
    }
    if ((at + LANES) % BLOCK == 0) close(state, at + LANES);
  }
  static void add(char* state, const char* x, i64 at) {
    for (i64 k = 0; k < TILE_BYTES; k += LANES) add_group(*(State*)state, x + k, at + k);
  }
  static T ended(State& state, const char* last, i64 n, i64 all) {
    i64 at = (all - n) * sizeof(T);
    if (!at) return Leaf::of_row((const T*)last, n, T{});
    for (; n >= Leaf::GROUP; n -= Leaf::GROUP, last += LANES, at += LANES)
      add_group(state, last, at);
    if (at % BLOCK) close(state, at);
    alignas(32) T rest[Leaf::WIDTH + Leaf::GROUP] = {};
    memcpy(rest + Leaf::WIDTH, last, n * sizeof(T));
    return Leaf::ended(state.blocks.all(), rest + Leaf::WIDTH, n, T{});
  }
  static void end(char* result, char* state, const char* last, i64 n, i64 all) {
    const T found = ended(*(State*)state, last, n, all);
    *(T*)result = IS_MEAN ? found / (T)all : found;
  }
};

using abi::FIRST;
using abi::NOTHING;
using abi::SECOND;
using abi::TWICE;
typedef void (*Any)();

#define COMMA ,
#define ROW(FAMILY, NAME, T, INPUTS, HELD, F) \
  {FAMILY, NAME, code_of<T>, INPUTS, HELD, (Any)instructions<T>::F, {}},
// Where registers are narrower, a tile is half of a group of lanes.
#if defined(__aarch64__)
#define REDUCTION(NAME, T, ...)
#else
#define REDUCTION(NAME, T, ...)                                                           \
  {"reduce", NAME " " #T, code_of<T>, 1, FIRST, (Any)tiles_of<__VA_ARGS__>::go,           \
   {tiles_of<__VA_ARGS__>::add, tiles_of<__VA_ARGS__>::end}},
#endif
#define ONE(NAME, F, T)                                 \
  ROW("unary", NAME, T, 1, FIRST, template of_one<F>)   \
  ROW("unary", NAME, T, 1, NOTHING, template of_one_place<F>)
#define TWO(FAMILY, NAME, F, T)                        \
  ROW(FAMILY, NAME, T, 2, FIRST, template first<F>)    \
  ROW(FAMILY, NAME, T, 2, SECOND, template second<F>)  \
  ROW(FAMILY, NAME, T, 2, TWICE, template twice<F>)    \
  ROW(FAMILY, NAME, T, 2, abi::PLACE_TWICE, template place_twice<F>)   \
  ROW(FAMILY, NAME, T, 2, NOTHING, template both<F>)   \
  ROW(FAMILY, NAME, T, 2, abi::FIRST_AND_ONE, template first<F COMMA true>)         \
  ROW(FAMILY, NAME, T, 2, abi::SECOND_AND_ONE, template second<F COMMA true>)       \
  ROW(FAMILY, NAME, T, 2, abi::ONE_AND_PLACE, template both<F COMMA true>)          \
  ROW(FAMILY, NAME, T, 2, abi::PLACE_AND_ONE, template both<F COMMA false COMMA true>)
#define ALL(T)                                                                            \
  ROW("", "end", T, 0, FIRST, end)                                                        \
  ROW("", "call", T, 1, NOTHING, template call<1>)                                        \
  ROW("", "call", T, 2, NOTHING, template call<2>)                                        \
  ROW("", "call", T, 3, NOTHING, template call<3>)                                        \
  ROW("", "load", T, 1, NOTHING, load)                                                    \
  ROW("", "store", T, 1, FIRST, store)                                                    \
  ROW("where", "where", T, 3, FIRST, where)                                               \
  ONE("neg", neg, T) ONE("abs", size, T) ONE("relu", relu, T)                             \
  ONE("reciprocal", reciprocal, T) ONE("sqrt", root, T) ONE("rsqrt", rsqrt, T)            \
  TWO("binary", "add", add, T) TWO("binary", "sub", sub, T) TWO("binary", "mul", mul, T)  \
  TWO("binary", "div", div, T)                                                            \
  TWO("binary", "maximum", maximum, T) TWO("binary", "minimum", minimum, T)               \
  TWO("ternary", "clamp_max", minimum, T) TWO("ternary", "clamp_min", maximum, T)         \
  TWO("comparison", "eq", eq, T) TWO("comparison", "ne", ne, T)                           \
  TWO("comparison", "lt", lt, T) TWO("comparison", "le", le, T)                           \
  TWO("comparison", "gt", gt, T) TWO("comparison", "ge", ge, T)                           \
  REDUCTION("sum", T, CAPABILITY::add, T) REDUCTION("mean", T, CAPABILITY::add, T, true)  \
  REDUCTION("nansum", T, add_known, T)                                                    \
  REDUCTION("amax", T, extreme<true>, T) REDUCTION("amin", T, extreme<false>, T)

const abi::InstructionEntry entries[] = {ALL(f32) ALL(f64)};

}  // namespace

extern const abi::Machine machine;
extern const abi::Machine machine = {
    WIDTH * VECTORS, entries, sizeof entries / sizeof *entries, instructions<f32>::run};

}  // namespace CAPABILITY
