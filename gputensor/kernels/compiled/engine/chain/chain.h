// The steps of a chain of operators, and its runs of steps in registers. A program is made from
// them.
#ifndef GPUTENSOR_CHAIN
#define GPUTENSOR_CHAIN

#include "../machine.h"
#include "../python/operands.h"

namespace engine {

constexpr int MOST_VALUES = MOST_ARRAYS + MOST_STEPS;

// Special entries among the arrays of a function: none, and OF_VALUE + v for value v, a further
// result.
constexpr int NONE = -100, OF_VALUE = 100;

// A step. entry: null for a cast. by: its instruction, or null.
struct Said {
  const abi::LoopEntry* entry;
  const abi::InstructionEntry* by;
  int out, n_operands, n_params;
  int operand[MOST_INPUTS], param[abi::MOST_SCALARS];
  bool rounds;
  int common;
  // For a function over rows instead of a loop; and true if the result has one value for each row.
  // is_part: a further result of the operand's function, which writes it. reduces: the function is
  // a reduction with an instruction. spreads: repeats each row's value along its row. by_rows:
  // reads such a value for each row of a block.
  RowCall call;
  bool is_row, is_part, reduces, spreads, by_rows;

  bool is_cast() const { return !entry && !call.function && !is_part; }
};

constexpr int MOST_NUMBERS = 64;
// The most instructions of a step: the step itself, a load, three stores and an end.
constexpr int MOST_INSTRUCTIONS = 6 * MOST_STEPS;

// A number of a call, in the form that one or more steps take.
struct Entered {
  int index, common;
  bool rounds;
};

// The end of a reduction to one element. The program's rows are the runs that the reduction's
// function adds up separately. merge: the function that merges the results of runs in pairs, or
// null for another output. over: the divisor of a mean, or 0. dtype: of the output.
struct Whole {
  abi::Function merge;
  double over;
  int dtype;
};

// A chain as a program, and how its calls are read.
struct Chain {
  Program program;
  int dtype[MOST_ARRAYS];  // of the operands, in the program
  int n_scalars;
  Entered number[MOST_NUMBERS], scalar[MOST_NUMBERS];
  // For each output, a mask of the inputs that are read after the output was written.
  unsigned read_later[MOST_ARRAYS];
  // The layout of a call by rows: sizes in the order of Walk, in all and of each array.
  int ndim;
  i64 size[2], shape[MOST_ARRAYS][2];
  Whole whole[MOST_ARRAYS];  // of each output
  RowCall call[MOST_STEPS];
  Coded code[MOST_INSTRUCTIONS];
};

// The runs of a chain: consecutive steps that are computed in registers. The steps of a run have
// one dtype.
class Registers {
 public:
  // dtype: of each value. is_stored: true for each value that is an output.
  void find(const Said* said, int n_steps, int n_inputs, const int* dtype, const bool* is_stored);
  bool runs(int step) const { return run_[step] >= 0; }
  // The dtype in which a step's run computes.
  int type_of(int step) const;
  // The number of steps of the run that begins at this step; 0 if none begins here.
  int begins(int step) const;
  // True if a value is read only in its own run, so that memory for one tile is enough.
  bool is_local(int value) const { return is_local_[value]; }
  // Write the instructions of the run that begins at this step. Returns their number. slot: the
  // slot of each value. number[s][j]: the slot of a number that is operand j of step s. state: the
  // slot of the state of each step that reduces.
  int translate(int first, const int* slot, const int (*number)[MOST_INPUTS], const int* state,
                Coded* to) const;
  // True if the run that begins at this step calls loops.
  bool has_calls(int first) const;

 private:
  bool may_run(int step) const;
  bool may_join(int step, int first) const;
  bool fits(int step) const;

  const Said* said_;
  const int* dtype_;
  int n_steps_, n_inputs_;
  int run_[MOST_STEPS];  // the first step of its run, or -1
  bool is_local_[MOST_VALUES];
};

// Find the machine's instruction that produces the same bits as this loop, or as this function of
// family "reduce".
void find_instruction(Said* said, const char* family);
void find_reduction(Said* said, const char* name);

// The method of a program's capsule: (*outputs, *inputs, numbers, may_share) -> True if it is done.
extern PyMethodDef call_method;

}  // namespace engine

#endif
