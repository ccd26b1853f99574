// cooperative_groups::reduce on the emulator, over a tile or the threads of a coalesced group.
#pragma once
#include <cooperative_groups.h>

namespace cooperative_groups {

#define GPUTENSOR_FUNCTOR(name, expression)                \
  template <class T = void>                                \
  struct name {                                            \
    T operator()(T a, T b) const { return (expression); }  \
  };                                                       \
  template <>                                              \
  struct name<void> {                                      \
    template <class T>                                     \
    T operator()(T a, T b) const { return (expression); }  \
  };
GPUTENSOR_FUNCTOR(plus, a + b)
GPUTENSOR_FUNCTOR(less, b < a ? b : a)
GPUTENSOR_FUNCTOR(greater, a < b ? b : a)
GPUTENSOR_FUNCTOR(bit_and, a & b)
GPUTENSOR_FUNCTOR(bit_or, a | b)
GPUTENSOR_FUNCTOR(bit_xor, a ^ b)

// All lanes get the same result: pairs at distance 1, then 2, then 4 …; a lane without a partner
// keeps its value.
template <class Group, class T, class Op>
T reduce(const Group& group, T value, Op op, GPUTENSOR_HERE) {
  const gputensor_lanes& lanes = group;
  const unsigned n = lanes.gputensor_lanes::size(), rank = lanes.gputensor_lanes::thread_rank();
  for (unsigned by = 1; by < n; by *= 2) {
    const T other = lanes.shfl_down(value, by, file, line);
    if (rank + by < n) value = op(value, other);
  }
  return lanes.shfl(value, 0, file, line);
}

}  // namespace cooperative_groups
