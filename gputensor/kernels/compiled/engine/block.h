// A block of a program: some elements of each operand, and the steps that run over them.
#ifndef GPUTENSOR_BLOCK
#define GPUTENSOR_BLOCK

#include <cstring>

#include "program.h"
#include "threads.h"

namespace engine {
namespace {

using abi::MOST_OPERANDS;
using abi::Scalar;

constexpr i64 LINE = 64;

// A run in registers prefetches a part of the next block after each of these many bytes.
constexpr i64 SOME = 4096;

// Prefetches the bytes of contiguous operands in the next block while this block is computed, a
// part of them before each step and within runs. The CPU's own prefetcher starts again in each
// block. Not used if all steps are one run, which reads its operands steadily; nor without runs or
// for near operands, where it would take up to a third of a chain's time.
struct Ahead {
  int n = 0;
  i64 part = 0, parts;
  const char* at[MOST_ARRAYS];
  i64 lines[MOST_ARRAYS];

  void go() {
    for (int k = 0; k < n; k++) {
      const i64 last = lines[k] * (part + 1) / parts;
      for (i64 line = lines[k] * part / parts; line < last; line++)
        __builtin_prefetch(at[k] + line * LINE, 0, 2);
    }
    part++;
  }
};

constexpr int log2_of(int size) {
  return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
}

// The layout of an operand in a block.
enum Layout : byte { DENSE, ONE, PACKED };

struct Plan {
  const Program* program;
  const Walk* walk;
  const Scalar *scalars, *numbers;
  i64 columns, rows;              // largest block: elements; rows of dimension 0
  i64 blocks, blocks_inner;       // in total, and along the dimension that is divided into blocks
  int outer;                      // the first dimension that is longer than a block
  bool has_rows;
  bool is_turned;                 // blocks advance along dimension 1 first, then along dimension 0
  i64 capacity;                   // elements of a temporary
  Layout layout[MOST_ARRAYS];
  bool stays[MOST_ARRAYS];      // packed once: the same for every block
  bool streams[MOST_ARRAYS];    // an output that is written past the caches
  bool has_streams;
  bool is_near;                 // see NEAR
  mutable bool has_failed;      // a function declined
};

i64 rounded(i64 bytes) { return (bytes + LINE - 1) & ~(LINE - 1); }

// The bytes of a temporary with one value for each row of a block.
i64 of_rows(const Plan& plan, int k) {
  const Program& program = *plan.program;
  return k < program.n_operands ? 0 : rounded(plan.rows * program.itemsize[k]);
}

// The slots of one thread's block. tile: for an operand or number with one value, a tile that
// repeats the value, or null. shown: the value in that tile. step: as in loops.
struct Block {
  const Plan& plan;
  const Program& program;
  i64 m, rows;  // elements; rows, 1 if the block is a part of a row
  char *slot[MOST_SLOTS], *tile[MOST_SLOTS], *shown[MOST_SLOTS];
  i64 step[MOST_SLOTS];
  bool is_nan[MOST_SLOTS];
  int nans = 0;  // of the tiles

  // The arrays stay uninitialised: clearing them takes as long as a small program.
  explicit Block(const Plan& plan) : plan(plan), program(*plan.program) {}

  void repeat(int k) {
    if (!tile[k] || shown[k] == slot[k]) return;
    const int item = program.dtype[k] == abi::f64 ? 8 : 4;
    const double value = item == 8 ? *(const double*)slot[k] : *(const float*)slot[k];
    nans -= is_nan[k], is_nan[k] = value != value, nans += is_nan[k];
    const i64 n = abi::GROUP_BYTES / item;
    program.capability->pack[log2_of(item)](tile[k], slot[k], n, 0, 1, 0);
    shown[k] = slot[k];
  }

  // Called when values with one element per row have been written.
  void end_row(int k) { step[k] = 0, shown[k] = nullptr; }

  void run_cast(const Step& now) {
    const int to = now.slot[0], from = now.slot[1], item = program.itemsize[to];
    if (program.is_row[to] && rows > 1 && !program.is_row[from]) {
      repeat_cast(now, slot[to], rows);
      end_row(to);
    } else if (program.is_row[to]) {
      now.cast(slot[to], slot[from], rows);
      end_row(to);
    } else if (program.is_row[from] && plan.has_rows) {  // a step that spreads
      program.capability->pack[log2_of(item)](slot[to], slot[from], m / rows, 0, rows, item);
      step[to] = item;
    } else if (step[from] || (to >= program.n_operands && !program.code)) {
      step[to] = step[from] ? item : 0;
      now.cast(slot[to], slot[from], step[from] ? m : 1);
    } else {  // a single value for a whole output, or for a value that the machine may read
      step[to] = item;
      repeat_cast(now, slot[to], m);
    }
  }

  // Cast a single value to n elements at `made`.
  void repeat_cast(const Step& now, char* made, i64 n) {
    Scalar one;
    now.cast((char*)&one, slot[now.slot[1]], 1);
    const int log2 = log2_of(program.itemsize[now.slot[0]]);
    program.capability->pack[log2](made, (char*)&one, n, 0, 1, 0);
  }

  // Execute a loop that reads rows' values and writes whole rows.
  void run_rows(const Step& now) {
    const i64 columns = m / rows;
    char* before[MOST_OPERANDS];
    for (int j = 0; j < now.n_slots; j++) before[j] = slot[now.slot[j]];
    for (i64 row = 0; row < rows; row++) {
      for (int j = 0; j < now.n_slots; j++) {
        const int k = now.slot[j];
        slot[k] = before[j] + row * (program.is_row[k] ? program.itemsize[k] : columns * step[k]);
      }
      run_loop(now, 0, columns);
    }
    for (int j = 0; j < now.n_slots; j++) slot[now.slot[j]] = before[j];
  }

  // Execute a run over n elements from `first` on.
  void run_loop(const Step& now, i64 first, i64 n) {
    char* data[MOST_OPERANDS];
    i64 steps[MOST_OPERANDS];
    Scalar wide[MOST_OPERANDS];
    const int to = now.slot[0];
    const bool is_row = program.is_row[to];
    step[to] = program.itemsize[to];
    for (int j = 0; j < now.n_slots; j++) {
      const int k = now.slot[j];
      const bool is_of_row = program.is_row[k] || (!plan.has_rows && !program.is_wide[k]);
      steps[j] = is_row && is_of_row ? program.itemsize[k] : step[k];
      data[j] = slot[k] + (program.is_local[k] ? 0 : first * step[k]);
      if (j && !steps[j] && !program.is_wide[k]) {
        program.capability->widen[program.dtype[k]]((char*)&wide[j], slot[k], 1);
        data[j] = (char*)&wide[j];
      }
    }
    now.loop(data, steps, is_row ? rows : n, plan.scalars + now.first_scalar);
    if (is_row) end_row(to);
  }

  // A block is an array of rows. A value with one element per row has one dimension.
  void run_call(const RowCall& now) {
    abi::Array array[MOST_OPERANDS];
    for (int j = 0; j < now.n_arrays; j++) {
      const int k = now.slot[j], item = k < 0 ? 0 : program.itemsize[k];
      abi::Array& x = array[j];  // a multiple of a KiB, uninitialised
      if (k < 0) {
        x.data = nullptr, x.size = 0, x.ndim = 2;
        x.shape[0] = x.shape[1] = 1, x.stride[0] = x.stride[1] = 0;
        continue;
      }
      const i64 columns = program.is_row[k] ? 1 : m / rows;
      const bool is_shared = k < program.n_operands && plan.stays[k];  // all rows are equal
      x.data = slot[k], x.dtype = program.dtype[k], x.itemsize = item;
      x.ndim = program.is_row[k] ? 1 : 2, x.shape[0] = is_shared ? 1 : rows, x.shape[1] = columns;
      x.size = x.shape[0] * columns, x.stride[0] = columns * item, x.stride[1] = step[k];
    }
    double real[MOST_REALS];
    memcpy(real, now.real, now.n_floats * sizeof *real);
    for (int p = 0; p < now.n_params; p++)
      memcpy(real + now.n_floats + p, plan.scalars + now.first_scalar + p, sizeof *real);
    const int n_floats = now.n_floats + now.n_params;
    const abi::Call call = {now.n_arrays, now.n_ints, n_floats, array, now.integer, real,
                            run_whole, 1};
    if (now.function(call)) plan.has_failed = true;
    for (int j = 0; j < now.n_arrays; j++)
      if (now.slot[j] >= 0 && program.is_row[now.slot[j]]) end_row(now.slot[j]);
  }

  // For two NaN operands, loops return the operand that is shared by all elements, instructions
  // return the second.
  void run_in_registers(const Step* steps, Ahead& ahead) {
    const i64 of_group = abi::GROUP_BYTES / steps->item, whole = m / of_group * of_group;
    const Coded* code = program.code + steps->code;
    for (int n = 0; program.row && n < steps->n_code; n++)
      for (int k : code[n].place)
        if (k >= 0 && program.is_row[k] && step[k] == 0) repeat(k);
    if (!nans) run_tiles(steps, whole * steps->item, ahead);
    run_loops(steps, nans ? 0 : whole, of_group);
    for (int s = 0; s < steps->in_registers; s++) {
      const Step& now = steps[s];
      if (!now.reduction)
        step[now.slot[0]] = program.itemsize[now.slot[0]];
      else if (m == whole)
        end_reduction(now, nullptr, 0);
    }
  }

  void run_tiles(const Step* steps, i64 bytes, Ahead& ahead) {
    const Coded* code = program.code + steps->code;
    abi::Instruction made[MOST_STEPS * 6];
    const i64 of_local = steps->has_calls ? abi::LOCAL_BYTES - 1 : 0;
    for (int n = 0; n < steps->n_code; n++) {
      const int to = code[n].place[0];
      const bool streams = code[n].stream && to < program.n_operands && plan.streams[to] &&
                           (i64)slot[to] % LINE == 0;
      made[n].go = streams ? code[n].stream : code[n].go;
      for (int j = 0; j < 3; j++) {
        const int k = code[n].place[j];
        if (k < 0) continue;
        if (tile[k]) made[n].place[j] = {tile[k], 0};
        else made[n].place[j] = {slot[k], program.is_state[k] ? 0
                                          : program.is_local[k] ? of_local : -1};
      }
    }
    const i64 most = steps->has_calls ? abi::LOCAL_BYTES : ahead.n ? SOME : bytes,
              item = steps->item;
    for (i64 at = 0; at < bytes; at += most) {
      if (at % SOME == 0) ahead.go();
      const i64 end = bytes - at < most ? bytes : at + most;
      for (int n = 0; n < steps->n_code; n = code[n].next)
        code[n].go ? program.capability->machine->run(made + n, at, end)
                   : run_some(steps[code[n].step], at / item, (end - at) / item);
    }
  }

  void run_loops(const Step* steps, i64 first, i64 of_group) {
    for (; first < m; first += of_group)
      for (int s = 0; s < steps->in_registers; s++) {
        const i64 n = m - first < of_group ? m - first : of_group;
        run_some(steps[s], first, n);
      }
  }

  // Execute a loop, a cast or a reduction over n elements from `first` on.
  void run_some(const Step& now, i64 first, i64 n) {
    if (now.loop) return run_loop(now, first, n);
    if (now.reduction) return reduce(now, first, n);
    const int to = now.slot[0], from = now.slot[1], item = program.itemsize[to];
    char* made = slot[to] + (program.is_local[to] ? 0 : first * item);
    if (step[from])
      return now.cast(made, slot[from] + (program.is_local[from] ? 0 : first * step[from]), n);
    repeat_cast(now, made, n);
  }

  // n: whole groups, or the last elements of a row.
  void reduce(const Step& now, i64 first, i64 n) {
    const int k = now.slot[1];
    const i64 at = first * now.item, bytes = n * now.item;
    char* x = slot[k] + (program.is_local[k] ? 0 : first * step[k]);
    if (bytes % abi::GROUP_BYTES) end_reduction(now, x, n);
    else now.reduction->add(slot[now.slot[2]], x, at, at + bytes);
  }

  void end_reduction(const Step& now, const char* last, i64 n) {
    const int to = now.slot[0];
    now.reduction->end(slot[to], slot[now.slot[2]], last, n, m);
    end_row(to);
  }

  void run_steps(Ahead& ahead) {
    for (int s = 0; s < program.n_steps;) {
      const Step& now = program.step[s];
      if (now.in_registers) {
        run_in_registers(&now, ahead);
        s += now.in_registers;
        continue;
      }
      ahead.go();
      now.call ? run_call(program.call[now.call - 1])
      : now.by_rows ? run_rows(now) : now.loop ? run_loop(now, 0, m) : run_cast(now);
      s++;
    }
  }

  // True if the steps are more than one loop or one run.
  bool has_stages() const {
    const int first = program.step[0].in_registers;
    return program.n_steps > (first ? first : 1);
  }

  // The number of times that run_steps calls Ahead::go.
  i64 parts() const {
    i64 found = 0;
    for (int s = 0; s < program.n_steps;) {
      const Step& now = program.step[s];
      found += now.in_registers ? (m * now.item + SOME - 1) / SOME : 1;
      s += now.in_registers ? now.in_registers : 1;
    }
    return found;
  }
};

}  // namespace
}  // namespace engine

#endif
