// Scans of a group's values: each thread gets the result over the lower ranks.
#pragma once
#include <cooperative_groups/reduce.h>

namespace cooperative_groups {

template <class Group, class T, class Op>
T inclusive_scan(const Group& group, T value, Op op, GPUTENSOR_HERE) {
  const unsigned rank = group.thread_rank(), size = group.size();
  for (unsigned by = 1; by < size; by *= 2) {
    const T lower = group.shfl_up(value, by, file, line);
    if (rank >= by) value = op(lower, value);
  }
  return value;
}
template <class Group, class T>
T inclusive_scan(const Group& group, T value, GPUTENSOR_HERE) {
  return inclusive_scan(group, value, plus<T>(), file, line);
}

// The lowest rank gets T(), because CUDA defines the exclusive scan for sums.
template <class Group, class T, class Op>
T exclusive_scan(const Group& group, T value, Op op, GPUTENSOR_HERE) {
  const T lower = group.shfl_up(inclusive_scan(group, value, op, file, line), 1, file, line);
  return group.thread_rank() ? lower : T();
}
template <class Group, class T>
T exclusive_scan(const Group& group, T value, GPUTENSOR_HERE) {
  return exclusive_scan(group, value, plus<T>(), file, line);
}

}  // namespace cooperative_groups
