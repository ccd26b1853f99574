// Block programs: a list of (loop, operand slots) over the elements of some arrays.
//
// The elements are walked in blocks that are dense, or one value, in every slot: operands that are
// neither are packed into temporaries, which stay in the first-level cache. An eager operator is a
// program of one step, with casts before and behind it where dtypes differ.
#ifndef GPUTENSOR_PROGRAM
#define GPUTENSOR_PROGRAM

#include "machine.h"

namespace engine {

using abi::byte;
using abi::i64;

constexpr int MOST_REALS = 2;  // of one function
constexpr int MOST_STEPS = 64, MOST_SLOTS = 128, MOST_ARRAYS = 24;

// A function of a family over one row: a reduction of it, say. slot: of each array, -1 of none.
// first_scalar: of `n_params` numbers of the call, doubles, which come behind `real`.
struct RowCall {
  abi::Function function;
  int n_arrays, n_ints, n_floats, n_params, first_scalar;
  short slot[abi::MOST_OPERANDS];
  i64 integer[2];
  double real[MOST_REALS];
};

// A loop over slots, or a cast from slot[1] to slot[0] where there is no loop. call: number of a
// function instead, from 1 on. in_registers: so many
// steps from this one on are the instructions from `code` on; their loops do what is left of a
// block behind its last tile.
struct Step {
  abi::Loop loop;
  abi::Cast cast;
  byte n_slots, slot[abi::MOST_OPERANDS];  // outputs first
  byte first_scalar, in_registers, item;  // item: bytes of an element there
  byte call;
  short code;
};

// Slots: the operands, outputs first, then numbers, then temporaries.
struct Program {
  int n_outputs, n_operands, n_numbers, n_slots, n_steps;
  byte itemsize[MOST_SLOTS], dtype[MOST_SLOTS];
  bool is_wide[MOST_SLOTS];  // a number, in the type that is computed in
  bool is_tile[MOST_SLOTS];  // a temporary that is one tile of the machine
  bool is_row[MOST_SLOTS];   // an output or a temporary with one value for each block
  // Where it is not 0, a block is a row: so many elements of dimension 0, or what is left of it.
  i64 row;
  const RowCall* call;
  Step step[MOST_STEPS];
  const abi::Instruction* code;  // null: no step runs in registers. Places are slots.
  const abi::Capability* capability;
};

// The elements to walk. stride[k][d]: bytes, of operand k, dimension 0 the fastest.
struct Walk {
  int ndim;
  i64 numel;
  i64 size[abi::MOST_DIMS];
  char* data[MOST_ARRAYS];
  i64 stride[MOST_ARRAYS][abi::MOST_DIMS];
};

// Sort the dimensions by the operands' strides, outputs first, drop those of one element and join
// those that are one run in every operand.
void coalesce(Walk& walk, int n_operands);

// Run over all elements, on the library's threads where that pays and `may_share`. False where a
// function of rows cannot do it.
bool run(const Program& program, const Walk& walk, const abi::Scalar* scalars,
         const abi::Scalar* numbers = nullptr, bool may_share = true);

}  // namespace engine

#endif
