// out[i] = op::OP(self[i], other[i]) ? 1 : 0                             family: comparison
// Shapes and launch are those of pointwise/computed_body.cuh.
// Types    contiguous: scalar_t inputs, bool out; rows, turned: TYPES, compared as scalar_t is;
//          strided: any dtypes by code, compared in scalar_t.
#include "math/arithmetic.cuh"
#include "pointwise/computed.cuh"

namespace op {

struct eq {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return equal(a, b); }
};

struct ge {
  template <class T> static DEVICE bool of(T a, T b) { return a >= b; }
};

struct gt {
  template <class T> static DEVICE bool of(T a, T b) { return a > b; }
};

struct le {
  template <class T> static DEVICE bool of(T a, T b) { return a <= b; }
};

struct logical_and {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) && nonzero(b); }
};

struct logical_or {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) || nonzero(b); }
};

struct logical_xor {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return nonzero(a) != nonzero(b); }
};

struct lt {
  template <class T> static DEVICE bool of(T a, T b) { return a < b; }
};

struct ne {  // signless
  template <class T> static DEVICE bool of(T a, T b) { return !equal(a, b); }
};

}  // namespace op

// ---- body ----
#ifndef OP
#define OP eq
#define TYPES b8, scalar_t, scalar_t
#endif
struct functor : takes<2, 0> {
  template <class T> static DEVICE bool of(T a, T b) { return op::OP::of(a, b); }
};
#include "pointwise/computed_body.cuh"
