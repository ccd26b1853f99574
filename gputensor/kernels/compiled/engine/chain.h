// A chain of operators before it is a program: its steps, and those of them that run in registers.
#ifndef GPUTENSOR_CHAIN
#define GPUTENSOR_CHAIN

#include "machine.h"
#include "operands.h"

namespace engine {

constexpr int MOST_VALUES = MOST_ARRAYS + MOST_STEPS;

// A step as Python says it. entry: null for a cast. way: its instructions by what the accumulator
// holds, null where there is none.
struct Said {
  const abi::LoopEntry* entry;
  const abi::InstructionEntry* way[abi::N_HELD];
  int out, n_operands, n_params;
  int operand[MOST_INPUTS], param[abi::MOST_SCALARS];
  bool rounds;
  int common;
  // A function over rows instead of a loop, and whether the result is one value for each row.
  // is_part: it is a further result of the function that makes its operand, which writes it.
  RowCall call;
  bool is_row, is_part;
};

// The steps of a chain that run in registers. They are runs of steps of one dtype.
class Registers {
 public:
  // dtype: of each value; is_stored: whether it is an output.
  void find(const Said* said, int n_steps, int n_inputs, const int* dtype, const bool* is_stored);
  // How many steps the run that begins at this one has; 0 where none does.
  int begins(int step) const;
  // Whether a value is read in its own run alone, so that a place of one tile is enough for it.
  bool is_local(int value) const { return is_local_[value]; }
  // Write the instructions of the run that begins at this step; slot: of each value and, behind
  // operand j of step s, number[s][j] of each number; first_scalar: of each step. Returns how many
  // there are.
  int translate(int first, const int* slot, const int (*number)[MOST_INPUTS],
                const int* first_scalar, abi::Instruction* to) const;

 private:
  bool fits(int step) const;
  bool reads_in_registers(int step, int value) const;
  bool is_kept(int step) const;

  const Said* said_;
  int n_steps_, n_inputs_;
  int run_[MOST_STEPS];  // the first step of the run that it is in; -1: none
  bool is_local_[MOST_VALUES];
};

// Fill `way`: the machine's instructions with the bits of this loop.
void find_ways(Said* said, const char* family);

}  // namespace engine

#endif
