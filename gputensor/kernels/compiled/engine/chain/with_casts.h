// The steps of a chain, in which each cast is a separate step. In blocks of several rows, so is
// each repetition of the rows' values along their rows.
#ifndef GPUTENSOR_WITH_CASTS
#define GPUTENSOR_WITH_CASTS

#include "chain.h"

namespace engine {

// All operands and results have the dtypes of the loops.
// value: the new number of each given value. is_row: true for values with one element per row.
struct WithCasts {
  Said said[MOST_STEPS];
  int n_inputs, n_steps = 0, dtype[MOST_VALUES], value[MOST_VALUES];
  bool is_row[MOST_VALUES];

  Said* add(int result_type, bool of_rows) {
    if (n_steps == MOST_STEPS) return nullptr;
    dtype[n_inputs + n_steps] = result_type, is_row[n_inputs + n_steps] = of_rows;
    return &said[n_steps++];
  }
  // Return the value converted to this dtype; -1 if there are too many steps.
  int cast(int from, int to, bool of_rows, bool spreads = false) {
    if (dtype[from] == to && !spreads) return from;
    for (int s = 0; s < n_steps; s++)
      if (said[s].is_cast() && said[s].operand[0] == from && said[s].out == to &&
          said[s].is_row == of_rows && said[s].spreads == spreads)
        return n_inputs + s;
    Said* made = add(to, of_rows);
    if (!made) return -1;
    *made = {};
    made->out = to, made->n_operands = 1, made->operand[0] = from;
    made->is_row = of_rows, made->spreads = spreads;
    return n_inputs + n_steps - 1;
  }

  // Return an operand of a step over the whole rows of a block, in this dtype. A value with one
  // element per row is repeated, or the step reads it row by row.
  int of_whole_rows(int from, int to, Said* step, bool spreads) {
    const bool of_rows = is_row[from];
    from = cast(from, to, of_rows);
    if (from < 0 || !of_rows) return from;
    if (spreads || step->is_cast()) return cast(from, to, false, true);
    step->by_rows = true;
    return from;
  }

  // rows: true for each input with one element per row. has_groups: blocks have several rows.
  // spreads: in these, values with one element per row are repeated.
  // Returns false if there are too many steps, or for an unknown value.
  bool read(const Said* given, int n, const int* inputs, const bool* rows, int count,
            bool has_groups, bool spreads) {
    n_inputs = count;
    for (int v = 0; v < count; v++) dtype[v] = inputs[v], value[v] = v, is_row[v] = rows[v];
    for (int s = 0; s < n; s++) {
      Said now = given[s];
      for (int j = 0; j < now.n_operands; j++) {
        int& v = now.operand[j];
        if (v >= count + s) return false;
        if (v < 0) continue;
        v = value[v];
        const int wanted = now.entry ? now.entry->input[j] : dtype[v];
        if (has_groups && !now.is_row && (now.entry || now.is_cast()))
          v = of_whole_rows(v, wanted, &now, spreads);
        else if (now.entry)
          v = cast(v, wanted, now.is_row);
        if (v < 0) return false;
      }
      const int out = now.out;
      if (now.entry) now.out = now.entry->result;
      Said* made = add(now.out, now.is_row);
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
