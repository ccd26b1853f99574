// The dimensions of the arrays of a program. See program.h.
#include "program.h"

namespace engine {

static i64 size_of(i64 x) { return x < 0 ? -x : x; }

void coalesce(Walk& walk, int n_operands) {
  int kept = 0;
  for (int d = 0; d < walk.ndim; d++) {
    if (walk.size[d] == 1) continue;
    walk.size[kept] = walk.size[d];
    for (int k = 0; k < n_operands; k++) walk.stride[k][kept] = walk.stride[k][d];
    kept++;
  }
  walk.ndim = kept;
  // Insertion sort, stable for equal strides. Source: TensorIterator.cpp, reorder_dimensions.
  for (int d = 1; d < walk.ndim; d++) {
    for (int e = d; e > 0; e--) {
      int order = 0;
      for (int k = 0; k < n_operands && !order; k++) {
        const i64 a = size_of(walk.stride[k][e - 1]), b = size_of(walk.stride[k][e]);
        if (a && b) order = a > b ? 1 : a < b ? -1 : 0;
      }
      if (order <= 0) break;
      i64 swap = walk.size[e];
      walk.size[e] = walk.size[e - 1], walk.size[e - 1] = swap;
      for (int k = 0; k < n_operands; k++) {
        swap = walk.stride[k][e];
        walk.stride[k][e] = walk.stride[k][e - 1], walk.stride[k][e - 1] = swap;
      }
    }
  }
  int last = 0;
  for (int d = 1; d < walk.ndim; d++) {
    bool joins = true;
    for (int k = 0; k < n_operands; k++)
      joins = joins && walk.stride[k][last] * walk.size[last] == walk.stride[k][d];
    if (joins) {
      walk.size[last] *= walk.size[d];
    } else {
      last++;
      walk.size[last] = walk.size[d];
      for (int k = 0; k < n_operands; k++) walk.stride[k][last] = walk.stride[k][d];
    }
  }
  if (walk.ndim) walk.ndim = last + 1;
}

}  // namespace engine
