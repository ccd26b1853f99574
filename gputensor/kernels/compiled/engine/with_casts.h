// The steps of a chain, in which each cast is a separate step.
#ifndef GPUTENSOR_WITH_CASTS
#define GPUTENSOR_WITH_CASTS

#include "chain.h"

namespace engine {

// All operands and results have the dtypes of the loops.
// value: the new number of each given value.
struct WithCasts {
  Said said[MOST_STEPS];
  int n_inputs, n_steps = 0, dtype[MOST_VALUES], value[MOST_VALUES];

  Said* add(int result_type) {
    if (n_steps == MOST_STEPS) return nullptr;
    dtype[n_inputs + n_steps] = result_type;
    return &said[n_steps++];
  }
  // Return the value converted to this dtype; -1 if there are too many steps.
  int cast(int from, int to, bool is_row) {
    if (dtype[from] == to) return from;
    for (int s = 0; s < n_steps; s++)
      if (said[s].is_cast() && said[s].operand[0] == from && said[s].out == to &&
          said[s].is_row == is_row)
        return n_inputs + s;
    Said* made = add(to);
    if (!made) return -1;
    *made = {};
    made->out = to, made->n_operands = 1, made->operand[0] = from, made->is_row = is_row;
    return n_inputs + n_steps - 1;
  }

  // Returns false if there are too many steps, or for an unknown value.
  bool read(const Said* given, int n, const int* inputs, int count) {
    n_inputs = count;
    for (int v = 0; v < count; v++) dtype[v] = inputs[v], value[v] = v;
    for (int s = 0; s < n; s++) {
      Said now = given[s];
      for (int j = 0; j < now.n_operands; j++) {
        int& v = now.operand[j];
        if (v >= count + s) return false;
        if (v < 0) continue;
        v = value[v];
        if (now.entry && (v = cast(v, now.entry->input[j], now.is_row)) < 0) return false;
      }
      const int out = now.out;
      if (now.entry) now.out = now.entry->result;
      Said* made = add(now.out);
      if (!made) return false;
      *made = now;
      value[count + s] = cast(count + n_steps - 1, out, now.is_row);
      if (value[count + s] < 0) return false;
    }
    // the functions' further results
    for (int s = 0; s < n_steps; s++)
      for (int j = 0; said[s].call.function && j < said[s].call.n_arrays; j++) {
        short& which = said[s].call.slot[j];
        if (which < OF_VALUE) continue;
        if (which - OF_VALUE >= count + n) return false;
        which = (short)(OF_VALUE + value[which - OF_VALUE]);
      }
    return true;
  }
};

}  // namespace engine

#endif
