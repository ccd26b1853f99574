// Instructions over a tile in registers: see engine/machine.h.
//
// The banks are the first eight arguments, which both calling conventions pass in vector registers.
// An instruction ends with a jump to the next one. The bits equal those of the loops, because both
// use IEEE arithmetic.
#include "../engine/machine.h"
#include "leaves.h"

namespace CAPABILITY {
namespace {

using abi::BANK_A;
using abi::BANK_B;
using abi::Instruction;
using abi::ONE;
using abi::PLACE;
using abi::Source;

#if defined(__AVX512F__)
constexpr int WIDTH = 64;
#elif defined(__AVX2__)
constexpr int WIDTH = 32;
#else
constexpr int WIDTH = 16;
#endif
constexpr int VECTORS = 4;
constexpr i64 TILE_BYTES = WIDTH * VECTORS;
static_assert(abi::GROUP_BYTES % TILE_BYTES == 0, "a group has whole tiles");

template <class T> struct tile {
  typedef T V __attribute__((vector_size(WIDTH)));
  typedef T At __attribute__((vector_size(WIDTH), aligned(alignof(T)), may_alias));
};

#define ARGUMENTS \
  V a0, V a1, V a2, V a3, V b0, V b1, V b2, V b3, const Instruction *now, i64 at
#define EACH(X) X(0) X(1) X(2) X(3)
#define AT(K) ((At*)(now->place[K].data + (at & now->place[K].mask)))
#define GO(...) return ((Go)now[1].go)(__VA_ARGS__, now + 1, at)
#define NEXT GO(a0, a1, a2, a3, b0, b1, b2, b3)
// The next instruction, with the vectors m0 to m3 in bank TO.
#define NEXT_WITH(TO)              \
  if constexpr (TO == BANK_A)      \
    GO(m0, m1, m2, m3, b0, b1, b2, b3); \
  else                             \
    GO(a0, a1, a2, a3, m0, m1, m2, m3)

template <class T> struct instructions {
  typedef typename tile<T>::V V;
  typedef typename tile<T>::At At;
  typedef void (*Go)(ARGUMENTS);

  template <Source S> static inline V taken(V a, V b, const At* x, int k) {
    return S == BANK_A ? a : S == BANK_B ? b : S == ONE ? (V)x[0] : (V)x[k];
  }

  static void end(ARGUMENTS) {}
  template <Source TO> static void load(ARGUMENTS) {
    const At* x = AT(0);
#define X(K) const V m##K = x[K];
    EACH(X)
#undef X
    NEXT_WITH(TO);
  }
  template <Source FROM> static void store(ARGUMENTS) {
    At* to = AT(0);
#define X(K) to[K] = FROM == BANK_A ? a##K : b##K;
    EACH(X)
#undef X
    NEXT;
  }
  // Past the caches, to an aligned place that nothing reads soon.
  template <Source FROM> static void stream(ARGUMENTS) {
    At* to = AT(0);
#define X(K) past_the_caches((V*)(to + K), FROM == BANK_A ? a##K : b##K);
    EACH(X)
#undef X
    NEXT;
  }
  static inline void past_the_caches(V* to, V x) {
#if defined(__AVX512F__)
    _mm512_stream_si512((__m512i*)to, (__m512i)x);
#elif defined(__AVX2__)
    _mm256_stream_si256((__m256i*)to, (__m256i)x);
#else
    *to = x;
#endif
  }
  template <class F, Source TO, Source S> static void one(ARGUMENTS) {
    const At* x = AT(0);
#define X(K) const V m##K = F::of(taken<S>(a##K, b##K, x, K));
    EACH(X)
#undef X
    NEXT_WITH(TO);
  }
  template <class F, Source TO, Source S, Source R> static void two(ARGUMENTS) {
    const At *x = AT(0), *y = AT(1);
#define X(K) const V m##K = F::of(taken<S>(a##K, b##K, x, K), taken<R>(a##K, b##K, y, K));
    EACH(X)
#undef X
    NEXT_WITH(TO);
  }
  template <Source TO, Source S, Source R> static void where(ARGUMENTS) {
    typedef decltype(a0 == a0) Truths;
    const At *x = AT(1), *y = AT(2);
#define X(K)                                                                     \
  const V m##K = ((Truths)(TO == BANK_A ? a##K : b##K) != 0) ? taken<S>(a##K, b##K, x, K) \
                                                             : taken<R>(a##K, b##K, y, K);
    EACH(X)
#undef X
    NEXT_WITH(TO);
  }
  // Both bounds are places.
  template <Source TO, Source S> static void clamp(ARGUMENTS) {
    const At *x = AT(0), *low = AT(1), *high = AT(2);
#define X(K) const V m##K = clamped(taken<S>(a##K, b##K, x, K), (V)low[K], (V)high[K]);
    EACH(X)
#undef X
    NEXT_WITH(TO);
  }
  static inline V clamped(V x, V low, V high) {
    const V raised = x < low ? low : x, found = high < raised ? high : raised;
    const V bounded = high != high ? high : found;
    return low != low ? low : bounded;
  }

  // These instructions end tiles of both types, because their arguments have the same size.
  static void run(const Instruction* code, i64 from, i64 to) {
    const V none = {};
    for (i64 at = from; at < to; at += TILE_BYTES)
      ((Go)code->go)(none, none, none, none, none, none, none, none, code, at);
  }
};

// --- the functions: as the functors of kernels/cuda, for vectors
// ----------------------------------

// Sums and products of two NaN: the loops use the second operand first, so its NaN is the result.
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

// A group is combined with eight lanes in the order of leaf_of<OP, T>::of_row.
template <class OP, class T, bool IS_MEAN = false> struct groups_of {
  typedef typename tile<T>::V V;
  typedef typename tile<T>::At At;
  typedef void (*Go)(ARGUMENTS);
  typedef leaf_of<OP, T> Leaf;
  static constexpr i64 BLOCK = Leaf::BLOCK * sizeof(T);
  static_assert(Leaf::GROUP * sizeof(T) == abi::GROUP_BYTES, "");
  struct State {
    alignas(64) char lanes[abi::GROUP_BYTES];
    typename Leaf::template Blocks<10> blocks;
  };
  static_assert(sizeof(State) <= abi::STATE_BYTES, "");

  // The block that contains the element before this offset has ended.
  __attribute__((noinline)) static void close(State& state, i64 at) {
    const i64 number = (at - 1) / BLOCK;
    if (!number) state.blocks.depth = 0;
    state.blocks.add(number, (const typename Leaf::vector*)state.lanes);
  }
  __attribute__((noinline)) static void close_and_go(ARGUMENTS) {
    close(*(State*)now->place[1].data, at + TILE_BYTES);
    NEXT;
  }
  template <Source S> static void go(ARGUMENTS) {
    const At* x = AT(0);
    At* lanes = (At*)(now->place[1].data + at % abi::GROUP_BYTES);
#define X(K)                                                                             \
  const V m##K = OP::map(instructions<T>::template taken<S>(a##K, b##K, x, K), T{});     \
  lanes[K] = at % BLOCK < abi::GROUP_BYTES ? m##K : OP::join((V)lanes[K], m##K);
    EACH(X)
#undef X
    if ((at + TILE_BYTES) % BLOCK == 0)
      return close_and_go(a0, a1, a2, a3, b0, b1, b2, b3, now, at);
    NEXT;
  }

  static void add(char* to, const char* x, i64 from, i64 end) {
    typedef typename Leaf::vector vector;
    State& state = *(State*)to;
    vector lane[8];
    const auto of_group = [&](int k) {
      return OP::map(Leaf::V::load((const T*)x + k * Leaf::WIDTH), T{});
    };
    for (i64 at = from; at < end;) {
      if (at % BLOCK) {
        memcpy(lane, state.lanes, sizeof lane);
      } else {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) lane[k] = of_group(k);
        at += abi::GROUP_BYTES, x += abi::GROUP_BYTES;
      }
      const i64 next = (at + BLOCK - 1) / BLOCK * BLOCK, last = next < end ? next : end;
      for (; at < last; at += abi::GROUP_BYTES, x += abi::GROUP_BYTES) {
#pragma GCC unroll 8
        for (int k = 0; k < 8; ++k) lane[k] = OP::join(lane[k], of_group(k));
      }
      memcpy(state.lanes, lane, sizeof lane);
      if (at % BLOCK == 0) close(state, at);
    }
  }
  // n: fewer than in a group
  static T ended(State& state, const char* last, i64 n, i64 all) {
    const i64 at = (all - n) * sizeof(T);
    if (!at) return Leaf::of_row((const T*)last, n, T{});
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

// --- the table ----------------------------------------------------------------------------------

typedef void (*Any)();

// The forms of an instruction: F(bank of the result, source, source).
#define SECONDS(F, TO, S) {F(TO, S, BANK_A), F(TO, S, BANK_B), F(TO, S, PLACE), F(TO, S, ONE)}
#define FIRSTS(F, TO) \
  {SECONDS(F, TO, BANK_A), SECONDS(F, TO, BANK_B), SECONDS(F, TO, PLACE), SECONDS(F, TO, ONE)}
#define FORMS(F) {FIRSTS(F, BANK_A), FIRSTS(F, BANK_B)}
// For instructions with one source.
#define OF_FIRSTS(F, TO) {{F(TO, BANK_A)}, {F(TO, BANK_B)}, {F(TO, PLACE)}, {}}
#define FORMS_OF_FIRST(F) {OF_FIRSTS(F, BANK_A), OF_FIRSTS(F, BANK_B)}

#define FORM(TO, S) (Any)instructions<T>::template one<F, TO, S>
template <class T, class F> const abi::Forms forms_of_one = FORMS_OF_FIRST(FORM);
#undef FORM
#define FORM(TO, S, R) (Any)instructions<T>::template two<F, TO, S, R>
template <class T, class F> const abi::Forms forms_of_two = FORMS(FORM);
#undef FORM
#define FORM(TO, S, R) (Any)instructions<T>::template where<TO, S, R>
template <class T> const abi::Forms forms_of_where = FORMS(FORM);
#undef FORM
#define FORM(TO, S) (Any)instructions<T>::template clamp<TO, S>
template <class T> const abi::Forms forms_of_clamp = FORMS_OF_FIRST(FORM);
#undef FORM
#define FORM(TO) {{}, {}, {(Any)instructions<T>::template load<TO>}, {}}
template <class T> const abi::Forms forms_of_load = {FORM(BANK_A), FORM(BANK_B)};
#undef FORM
#define FORM(S) {(Any)instructions<T>::template store<S>}
template <class T> const abi::Forms forms_of_store = {{FORM(BANK_A), FORM(BANK_B)}};
#undef FORM
#define FORM(S) {(Any)instructions<T>::template stream<S>}
template <class T> const abi::Forms forms_of_stream = {{FORM(BANK_A), FORM(BANK_B)}};
#undef FORM
#define FORM(S) {(Any)G::template go<S>}
template <class G> const abi::Forms forms_of_reduction = {
    {FORM(BANK_A), FORM(BANK_B), FORM(PLACE)}};
#undef FORM
template <class T> const abi::Forms forms_of_end = {{{(Any)instructions<T>::end}}};

#define ROW(FAMILY, NAME, T, INPUTS, ...) {FAMILY, NAME, code_of<T>, INPUTS, &__VA_ARGS__, {}}
#define ONE_OF(T, NAME, F) ROW("unary", NAME, T, 1, forms_of_one<T, F>)
#define TWO_OF(T, FAMILY, NAME, F) ROW(FAMILY, NAME, T, 2, forms_of_two<T, F>)
#define REDUCTION(T, NAME, ...)                                                  \
  {"reduce", NAME " " #T, code_of<T>, 1, &forms_of_reduction<groups_of<__VA_ARGS__>>, \
   {groups_of<__VA_ARGS__>::add, groups_of<__VA_ARGS__>::end}}
#define ALL(T)                                                                             \
  ROW("", "end", T, 0, forms_of_end<T>), ROW("", "load", T, 1, forms_of_load<T>),          \
      ROW("", "store", T, 1, forms_of_store<T>), ROW("", "stream", T, 1, forms_of_stream<T>), \
      ROW("where", "where", T, 3, forms_of_where<T>),                                      \
      ROW("ternary", "clamp", T, 3, forms_of_clamp<T>), ONE_OF(T, "neg", neg),             \
      ONE_OF(T, "abs", size), ONE_OF(T, "relu", relu), ONE_OF(T, "sqrt", root),            \
      ONE_OF(T, "reciprocal", reciprocal), ONE_OF(T, "rsqrt", rsqrt),                      \
      TWO_OF(T, "binary", "add", add), TWO_OF(T, "binary", "sub", sub),                    \
      TWO_OF(T, "binary", "mul", mul), TWO_OF(T, "binary", "div", div),                    \
      TWO_OF(T, "binary", "maximum", maximum), TWO_OF(T, "binary", "minimum", minimum),    \
      TWO_OF(T, "ternary", "clamp_max", minimum), TWO_OF(T, "ternary", "clamp_min", maximum), \
      TWO_OF(T, "comparison", "eq", eq), TWO_OF(T, "comparison", "ne", ne),                \
      TWO_OF(T, "comparison", "lt", lt), TWO_OF(T, "comparison", "le", le),                \
      TWO_OF(T, "comparison", "gt", gt), TWO_OF(T, "comparison", "ge", ge),                \
      REDUCTION(T, "sum", CAPABILITY::add, T), REDUCTION(T, "mean", CAPABILITY::add, T, true), \
      REDUCTION(T, "nansum", add_known, T), REDUCTION(T, "amax", extreme<true>, T),        \
      REDUCTION(T, "amin", extreme<false>, T)

const abi::InstructionEntry entries[] = {ALL(f32), ALL(f64)};

}  // namespace

extern const abi::Machine machine;
extern const abi::Machine machine = {entries, sizeof entries / sizeof *entries,
                                     instructions<f32>::run};

}  // namespace CAPABILITY
