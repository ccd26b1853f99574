// The steps of one layer of an LSTM, a GRU or an RNN in one direction, and their gradients. The
// products with the input are computed before and after, for all steps at once.  family: recurrent
//
// Calls    steps(gates, weight, bias or None, output, hy, cy or None, cells or None, sizes; kind,
//          reverse)
//          slopes(gates, cells or None, weight, output, hx, cx or None, grad or None, dh,
//          dc or None, slopes, of_hidden or None, previous or None, sizes; kind, reverse)
// Shapes   sizes (steps): the rows of each step, which are the sequences that have not ended. All
//          `rows` rows are stored step by step. gates (rows, G h), weight (G h, h), bias (G h),
//          output, cells, previous, grad (rows, h), states (n, h). All are dense, of one dtype.
// States   hy and cy contain the first states and are overwritten by the last states. dh and dc
//          contain the gradients of the last states and are overwritten by the gradients of the
//          first states.
// Keeps    gates: the contributions of the input, overwritten by the gates; for an RNN `gates` is
//          `output`. cells: for an LSTM the cell states, for a GRU the contribution of the hidden
//          state to the new gate.
// Threads  rows are divided among threads, because each row is independent in all steps. If there
//          are few rows, the units of each step are divided. The bits depend on neither: see
//          recurrent_products.h.
#include "recurrent_cells.h"
#include "recurrent_products.h"
#include "team.h"

namespace CAPABILITY {

namespace {

constexpr i64 UNITS = 64;  // gates computed at a time
constexpr i64 ROWS_AT_ONCE = 32, FEW_ROWS = 8;
// number of products of a step from which on threads share its units
constexpr i64 TEAM_WORK = 1 << 16;

// Where the rows of each step begin, in the order of computation.
struct Steps {
  const i64* size;
  i64* first;
  i64 count;
  bool reverse;

  i64 time(i64 step) const { return reverse ? count - 1 - step : step; }
  i64 rows(i64 step, i64 low, i64 most) const {
    return larger(0, smaller(size[time(step)] - low, most));
  }
};

template <class T> struct Layer {
  Steps steps;
  int kind;
  i64 h, depth, batch, gates_of;  // gates_of: G h
  const T *weight, *bias;
  T *gates, *output, *cells;
  // Forward.
  T *hy, *cy;
  // Backward.
  const T *hx, *cx, *grad;
  T *dh, *dc, *slopes, *of_hidden, *previous;

  // The row for the step before row `n` of a step, in `of`, which has the rows of all steps; for
  // the first step `begun`.
  const T* before(i64 step, i64 n, const T* of, const T* begun) const {
    if (step && n < steps.size[steps.time(step - 1)])
      return of + (steps.first[steps.time(step - 1)] + n) * h;
    return begun + n * h;
  }
};

// Some rows of a batch. state: two buffers of states, or a gradient.
template <class T> struct Rows {
  i64 low, count;
  T *state[2], *sums;
};

template <class T>
void make_units(const Layer<T>& of, const Rows<T>& rows, T* sums, i64 step, i64 unit) {
  const i64 h = of.h, n = smaller(UNITS, h - unit);
  const i64 active = of.steps.rows(step, rows.low, rows.count);
  const T* before = rows.state[step % 2];
  T* after = rows.state[(step + 1) % 2];
  const i64 G = of.gates_of / h, row = of.steps.first[of.steps.time(step)] + rows.low;
  for (i64 g = 0; g < G; ++g)
    dots_of(of.weight + (g * h + unit) * of.depth, n, before, active, of.depth, sums + g * UNITS,
            G * UNITS);
  for (i64 k = 0; k < active; ++k) {
    T* gates = of.gates + (row + k) * of.gates_of + unit;
    const T *sum = sums + k * G * UNITS, *old = before + k * of.depth + unit;
    T *cell = of.cells ? of.cells + (row + k) * h + unit : nullptr;
    T* made = after + k * of.depth + unit;
    T* state = of.cy ? of.cy + (rows.low + k) * h + unit : nullptr;
    if (of.kind == LSTM) {
      lstm_step(gates, h, sum, UNITS, state, made, n);
      if (cell) memcpy(cell, state, n * sizeof(T));
    } else if (of.kind == GRU) {
      T spare[UNITS];
      gru_step(gates, h, sum, UNITS, of.bias + unit, h, cell ? cell : spare, old, made, n);
    } else if (of.kind == RNN_TANH) {
      tanh_step(gates, sum, made, n);
    } else {
      relu_step(gates, sum, made, n);
    }
    memcpy(of.output + (row + k) * h + unit, made, n * sizeof(T));
    memcpy(of.hy + (rows.low + k) * h + unit, made, n * sizeof(T));
  }
}

template <class T>
void slope_units(const Layer<T>& of, const Rows<T>& rows, i64 step, i64 unit) {
  static const T none[UNITS] = {};
  const i64 h = of.h, n = smaller(UNITS, h - unit);
  const i64 active = of.steps.rows(step, rows.low, rows.count);
  const i64 row = of.steps.first[of.steps.time(step)] + rows.low;
  for (i64 k = 0; k < active; ++k) {
    const i64 at = (row + k) * h + unit, gate = (row + k) * of.gates_of + unit;
    const T *more = of.grad ? of.grad + at : none;
    const T* old = of.before(step, rows.low + k, of.output, of.hx) + unit;
    T* grad = rows.state[0] + k * of.depth + unit;
    if (of.kind == LSTM) {
      const T* cell = of.before(step, rows.low + k, of.cells, of.cx) + unit;
      lstm_slopes(of.gates + gate, h, of.cells + at, cell, more, grad,
                  of.dc + (rows.low + k) * h + unit, of.slopes + gate, n);
    } else if (of.kind == GRU) {
      gru_slopes(of.gates + gate, h, of.cells + at, old, more, grad, of.slopes + gate,
                 of.of_hidden + gate, n);
    } else if (of.kind == RNN_TANH) {
      tanh_slopes(of.output + at, more, grad, of.slopes + gate, n);
    } else {
      relu_slopes(of.output + at, more, grad, of.slopes + gate, n);
    }
    if (of.previous) memcpy(of.previous + at, old, n * sizeof(T));
  }
}

// Add the contributions of a step's slopes to the gradients of the states before it.
template <class T>
void pull_units(const Layer<T>& of, const Rows<T>& rows, i64 step, i64 unit) {
  const i64 row = of.steps.first[of.steps.time(step)] + rows.low;
  const T* slopes = (of.kind == GRU ? of.of_hidden : of.slopes) + row * of.gates_of;
  columns_of(slopes, of.gates_of, of.steps.rows(step, rows.low, rows.count), of.gates_of,
             of.weight + unit, smaller(UNITS, of.h - unit), of.depth, rows.state[0] + unit);
}

// --- rows and threads ----------------------------------------------------------------------------

// Memory of `count` rows. sums: for how many pieces at the same time.
template <class T> i64 room_of(const Layer<T>& of, i64 count, i64 sums) {
  return Room::bytes_of<T>(2 * count * of.depth) +
         Room::bytes_of<T>(sums * count * of.gates_of / of.h * UNITS);
}

template <class T>
Rows<T> rows_in(Room& room, const Layer<T>& of, i64 low, i64 count, i64 sums, const T* from) {
  Rows<T> rows = {low, count};
  T* states = room.take<T>(2 * count * of.depth);
  rows.sums = room.take<T>(sums * count * of.gates_of / of.h * UNITS);
  memset(states, 0, 2 * count * of.depth * sizeof(T));
  for (int k = 0; k < 2; ++k) {
    rows.state[k] = states + k * count * of.depth;
    for (i64 n = 0; n < count; ++n)
      memcpy(rows.state[k] + n * of.depth, from + (low + n) * of.h, of.h * sizeof(T));
  }
  return rows;
}

// One stage of some units of some rows. In the backward pass, a stage finishes the step after its
// own, and begins its own step.
template <class T, bool BACKWARD>
void do_stage(const Layer<T>& of, const Rows<T>& rows, T* sums, i64 stage, i64 low, i64 high) {
  const i64 step = of.steps.count - 1 - stage;
  for (i64 unit = low; unit < high; unit += UNITS) {
    if constexpr (BACKWARD) {
      if (stage) pull_units(of, rows, step + 1, unit);
      if (step >= 0) slope_units(of, rows, step, unit);
    } else {
      make_units(of, rows, sums, stage, unit);
    }
  }
}

template <class T> void put_gradient(const Layer<T>& of, const Rows<T>& rows) {
  for (i64 n = 0; n < rows.count; ++n)
    memcpy(of.dh + (rows.low + n) * of.h, rows.state[0] + n * of.depth, of.h * sizeof(T));
}

template <class T, bool BACKWARD> i64 all_stages(const Call& call, const Layer<T>& of) {
  const i64 stages = of.steps.count + BACKWARD, blocks = (of.h + UNITS - 1) / UNITS;
  const T* from = BACKWARD ? of.dh : of.hy;
  if (of.batch < FEW_ROWS && call.threads > 1 && blocks > 1 &&
      of.batch * of.gates_of * of.h >= TEAM_WORK) {
    const int pieces = (int)smaller(smaller(blocks, 2 * call.threads), MOST_PIECES);
    const i64 each = of.batch * of.gates_of / of.h * UNITS;  // sums of a piece
    Room room(room_of(of, of.batch, pieces));
    if (!room) return NO_MEMORY;
    const Rows<T> rows = rows_in(room, of, 0, of.batch, pieces, from);
    const auto body = [&](i64 stage, int piece) {
      do_stage<T, BACKWARD>(of, rows, rows.sums + piece * each, stage,
                            blocks * piece / pieces * UNITS,
                            smaller(of.h, blocks * (piece + 1) / pieces * UNITS));
    };
    Team<decltype(body)>::run(call, stages, pieces, body);
    if (BACKWARD) put_gradient(of, rows);
    return 0;
  }
  i64 answer = 0;
  const i64 share = (of.batch + call.threads - 1) / call.threads;
  const i64 most = smaller(ROWS_AT_ONCE, (share + SIDE<T> - 1) / SIDE<T> * SIDE<T>);
  over(call, true, (of.batch + most - 1) / most, most * of.gates_of * of.h * of.steps.count / 8,
       [&](i64 first, i64 last) {
         for (i64 part = first; part < last; ++part) {
           Room own(room_of(of, most, 1));
           if (!own) return note(&answer, NO_MEMORY);
           const i64 low = part * most;
           const Rows<T> rows = rows_in(own, of, low, smaller(most, of.batch - low), 1, from);
           for (i64 stage = 0; stage < stages; ++stage)
             do_stage<T, BACKWARD>(of, rows, rows.sums, stage, 0, of.h);
           if (BACKWARD) put_gradient(of, rows);
         }
       });
  return answer;
}

// The weights in place, or with rows padded to DEPTH.
template <class T> void ready_weights(Layer<T>& of, T* room) {
  if (of.depth == of.h) return;
  for (i64 j = 0; j < of.gates_of; ++j) {
    memcpy(room + j * of.depth, of.weight + j * of.h, of.h * sizeof(T));
    memset(room + j * of.depth + of.h, 0, (of.depth - of.h) * sizeof(T));
  }
  of.weight = room;
}

template <class T, bool BACKWARD>
i64 run_layer(const Call& call, Layer<T>& of, const Array& weight, const Array& sizes, i64 batch) {
  const int n_arrays = call.n_arrays;
  for (int k = 0; k < n_arrays - 1; ++k)
    if (call.array[k].data && call.array[k].dtype != code_of<T>) return 1;
  of.kind = (int)call.integer[0];
  of.h = weight.shape[1], of.gates_of = weight.shape[0], of.batch = batch;
  of.depth = (of.h + DEPTH<T> - 1) / DEPTH<T> * DEPTH<T>;
  of.weight = (const T*)weight.data;
  const i64 steps = sizes.shape[0];
  const bool fills = of.depth != of.h, has_bias = of.bias;
  Room room(Room::bytes_of<i64>(steps) + Room::bytes_of<T>(of.gates_of) +
            Room::bytes_of<T>(fills ? of.gates_of * of.depth : 0));
  if (!room) return NO_MEMORY;
  i64* first = room.take<i64>(steps);
  T* zeros = room.take<T>(of.gates_of);
  if (!has_bias) memset(zeros, 0, of.gates_of * sizeof(T)), of.bias = zeros;
  ready_weights(of, room.take<T>(fills ? of.gates_of * of.depth : 0));
  of.steps = {(const i64*)sizes.data, first, steps, call.integer[1] != 0};
  for (i64 t = 0, row = 0; t < steps; row += of.steps.size[t++]) first[t] = row;
  return all_stages<T, BACKWARD>(call, of);
}

template <class T> T* of(const Array& array) { return (T*)array.data; }

template <class T> i64 steps(const Call& call) {
  const Array* a = call.array;
  Layer<T> layer = {};
  layer.gates = of<T>(a[0]), layer.bias = of<T>(a[2]), layer.output = of<T>(a[3]);
  layer.hy = of<T>(a[4]), layer.cy = of<T>(a[5]), layer.cells = of<T>(a[6]);
  return run_layer<T, false>(call, layer, a[1], a[7], a[4].shape[0]);
}

template <class T> i64 slopes(const Call& call) {
  const Array* a = call.array;
  Layer<T> layer = {};
  layer.gates = of<T>(a[0]), layer.cells = of<T>(a[1]), layer.output = of<T>(a[3]);
  layer.hx = of<T>(a[4]), layer.cx = of<T>(a[5]), layer.grad = of<T>(a[6]);
  layer.dh = of<T>(a[7]), layer.dc = of<T>(a[8]), layer.slopes = of<T>(a[9]);
  layer.of_hidden = of<T>(a[10]), layer.previous = of<T>(a[11]);
  return run_layer<T, true>(call, layer, a[2], a[12], a[7].shape[0]);
}

}  // namespace

static const abi::FunctionEntry functions[] = {
    {"steps f32", steps<f32>, true},
    {"steps f64", steps<f64>, true},
    {"slopes f32", slopes<f32>, true},
    {"slopes f64", slopes<f64>, true},
};
extern const abi::Family recurrent = {"recurrent", functions};

}  // namespace CAPABILITY
