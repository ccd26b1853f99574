// The begin of each chain's body: the variant's definitions, the operands, and the functions that
// an iteration calls. It has no include guard, because it is included once per variant.
#ifndef CHAIN
#define CHAIN chain_functor
#endif
#ifndef TYPES
#define TYPES f32, f32
#endif
#ifndef NUMBERS
#define NUMBERS 1
#endif
#ifndef CHAINS
#define CHAINS 1
#endif
#ifndef ROW_OPERANDS
#define ROW_OPERANDS 0
#endif
#include "defaults.cuh"
#include "pointwise/operand_defines.cuh"

// Functor F with the numbers of call P. Its values are unconverted.
template <class F, class P> struct chain_body {
  const P& p;
  template <int J, class T> DEVICE T read(T x) const { return x; }
  template <int J, class G = F> DEVICE auto drawn(u64 block, int lane) const {
    return G::template drawn<J>(p.value, block, lane);
  }
  template <class... X> DEVICE auto of(X... x) const { return F::of(p.value, x...); }
};
