// Block programs: a list of (loop, operand slots) that runs over the elements of some arrays.
//
// The elements are processed in blocks. In a block each slot is dense or has one value. Other
// operands are packed into temporaries that stay in the first-level cache. An eager operator is a
// program with one step, and with casts before and after it if dtypes differ.
#ifndef GPUTENSOR_PROGRAM
#define GPUTENSOR_PROGRAM

#include "machine.h"

namespace engine {

using abi::byte;
using abi::i64;

constexpr int MOST_REALS = 2;  // of one function
// Two inner dimensions are combined if the inner one is smaller than this. Single values are then
// repeated for each element, which decides the result for two NaN operands.
constexpr i64 SHORT = 256;
constexpr int MOST_STEPS = 128, MOST_SLOTS = 192, MOST_ARRAYS = 24;

// A function of a family over one row, such as a reduction. slot: of each array; -1: no array.
// first_scalar: the first of `n_params` numbers of the call. They are doubles and follow `real`.
struct RowCall {
  abi::Function function;
  int n_arrays, n_ints, n_floats, n_params, first_scalar;
  short slot[abi::MOST_OPERANDS];
  i64 integer[2];
  double real[MOST_REALS];
};

// An instruction, whose places are slots. Without `go` it is a call of a step's loop or cast; the
// steps are counted from the first step of its run. next: the index after the next "end" or call.
// stream: the instruction that stores past the caches, if this one is a store.
struct Coded {
  void (*go)();
  void (*stream)();
  short place[3], step, next;
};

// A loop over slots. Without a loop it is a cast from slot[1] to slot[0]. call: the number of a
// function instead, counted from 1. in_registers: the number of steps, from this one on, that are
// computed by the instructions from `code` on; the steps' loops process the elements after a
// block's last group. n_code: the number of instructions. has_calls: some steps run as loops or
// casts. reduction: of slot[1], with the state in slot[2].
struct Step {
  abi::Loop loop;
  abi::Cast cast;
  byte n_slots, slot[abi::MOST_OPERANDS];  // outputs first
  byte first_scalar, in_registers, item;  // item: bytes of an element in each slot
  byte call;
  short code, n_code;
  bool has_calls, by_rows;
  const abi::TileReduction* reduction;
};

// Slots are the operands, outputs first, then numbers, then temporaries.
struct Program {
  int n_outputs, n_operands, n_numbers, n_slots, n_steps;
  byte itemsize[MOST_SLOTS], dtype[MOST_SLOTS];
  bool is_wide[MOST_SLOTS];  // a number, in the type of the computation
  bool is_local[MOST_SLOTS];  // a temporary of one run in registers
  bool is_state[MOST_SLOTS];  // of a reduction in registers
  bool is_row[MOST_SLOTS];   // one value for each row
  // If not 0, a block is a row: this many elements of dimension 0, or the remaining ones. If rows
  // are short (has_groups), a block is some rows.
  i64 row;
  bool has_groups;
  const RowCall* call;
  Step step[MOST_STEPS];
  const Coded* code;  // null if no step runs in registers
  bool has_calls;     // of one or more runs
  const abi::Capability* capability;
};

// The elements to process. stride[k][d]: in bytes, of operand k. Dimension 0 is the fastest.
struct Walk {
  int ndim;
  i64 numel;
  i64 size[abi::MOST_DIMS];
  char* data[MOST_ARRAYS];
  i64 stride[MOST_ARRAYS][abi::MOST_DIMS];
};

// End the use of wide vector registers. Every call from Python does this after its loops. While the
// upper halves of the registers hold values, the SSE instructions of other code (libm, SciPy) wait
// for them and take up to ten times as long. g++ adds this instruction to most functions, but not
// to those that end with a call or pass vectors.
inline void clear_upper_halves() {
#ifdef __x86_64__
  __asm__ volatile("vzeroupper");  // each capability of this machine has AVX
#endif
}

// Sort the dimensions by the operands' strides, outputs first. Drop dimensions of one element, and
// merge dimensions that are contiguous in every operand.
void coalesce(Walk& walk, int n_operands);

// Run over all elements. If there are enough elements and `may_share` is true, use the library's
// threads. Returns false if a function of rows declines.
bool run(const Program& program, const Walk& walk, const abi::Scalar* scalars,
         const abi::Scalar* numbers = nullptr, bool may_share = true);

}  // namespace engine

#endif
