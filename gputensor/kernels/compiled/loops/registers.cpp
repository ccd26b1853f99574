// Instructions over a tile in registers: see engine/machine.h.
//
// The accumulator is the first eight arguments, which both calling conventions pass in vector
// registers. An instruction ends with a jump to the next one. The bits equal those of the loops,
// because the arithmetic is IEEE's.
#include "../engine/machine.h"
#include "capability.h"

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

// Sums and products of two NaN: the instructions of the loops have the second operand first, so
// they return its NaN. The compiler may exchange operands that commute.
#if defined(__x86_64__)
#define IN_ORDER(NAME, SIGN, OP)                                                          \
  struct NAME {                                                                           \
    template <class V> static V of(V a, V b) {                                            \
      V made;                                                                             \
      if constexpr (sizeof(a[0]) == 4) asm(OP "ps %2, %1, %0" : "=v"(made) : "v"(b), "vm"(a)); \
      else asm(OP "pd %2, %1, %0" : "=v"(made) : "v"(b), "vm"(a));                        \
      return made;                                                                        \
    }                                                                                     \
  };
#else
#define IN_ORDER(NAME, SIGN, OP) \
  struct NAME { template <class V> static V of(V a, V b) { return b SIGN a; } };
#endif
IN_ORDER(add, +, "vadd")
IN_ORDER(mul, *, "vmul")
#undef IN_ORDER

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
OF_ONE(relu, ((x > 0) | (x != x)) ? x : V{})
OF_ONE(reciprocal, 1 / x)
OF_ONE(root, root_of(x))
OF_ONE(rsqrt, 1 / root_of(x))
#undef OF_ONE

using abi::FIRST;
using abi::NOTHING;
using abi::SECOND;
using abi::TWICE;
typedef void (*Any)();

#define COMMA ,
#define ROW(FAMILY, NAME, T, INPUTS, HELD, F) \
  {FAMILY, NAME, code_of<T>, INPUTS, HELD, (Any)instructions<T>::F},
#define ONE(NAME, F, T)                                 \
  ROW("unary", NAME, T, 1, FIRST, template of_one<F>)   \
  ROW("unary", NAME, T, 1, NOTHING, template of_one_place<F>)
#define TWO(FAMILY, NAME, F, T)                        \
  ROW(FAMILY, NAME, T, 2, FIRST, template first<F>)    \
  ROW(FAMILY, NAME, T, 2, SECOND, template second<F>)  \
  ROW(FAMILY, NAME, T, 2, TWICE, template twice<F>)    \
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
  ONE("neg", neg, T) ONE("relu", relu, T) ONE("reciprocal", reciprocal, T)                \
  ONE("sqrt", root, T) ONE("rsqrt", rsqrt, T)                                             \
  TWO("binary", "add", add, T) TWO("binary", "sub", sub, T) TWO("binary", "mul", mul, T)  \
  TWO("binary", "div", div, T)                                                            \
  TWO("binary", "maximum", maximum, T) TWO("binary", "minimum", minimum, T)               \
  TWO("ternary", "clamp_max", minimum, T) TWO("ternary", "clamp_min", maximum, T)         \
  TWO("comparison", "eq", eq, T) TWO("comparison", "ne", ne, T)                           \
  TWO("comparison", "lt", lt, T) TWO("comparison", "le", le, T)                           \
  TWO("comparison", "gt", gt, T) TWO("comparison", "ge", ge, T)

const abi::InstructionEntry entries[] = {ALL(f32) ALL(f64)};

}  // namespace

extern const abi::Machine machine;
extern const abi::Machine machine = {
    WIDTH * VECTORS, entries, sizeof entries / sizeof *entries, instructions<f32>::run};

}  // namespace CAPABILITY
