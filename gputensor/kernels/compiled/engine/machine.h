// Arithmetic on tiles in registers: the instructions that engine/registers.cpp makes from the steps
// of a program and that loops/registers.cpp runs.
//
// A tile is eight vectors. The machine has one accumulator of one tile. An instruction computes
// with the accumulator and with tiles in memory (its places), and writes its result to the
// accumulator. Numbers, and operands with one value, are places that repeat it. A bool is a vector
// lane as wide as the elements, with all bits set or none.
#ifndef GPUTENSOR_MACHINE
#define GPUTENSOR_MACHINE

#include "abi.h"

namespace abi {

// A tile at data + (at & mask). at: the byte offset in a block. mask: 0 if all tiles are one tile.
struct Place { char* data; i64 mask; };

struct Instruction {
  void (*go)();
  Loop loop;  // for "call", which runs this loop from place[1] on to place[0]
  short place[4], first_scalar;
};

// the place of the loops' scalars
constexpr int SCALARS = 128;

// The content of the accumulator when an instruction begins: its first operand, its second, both,
// or neither. Other operands are places, in order. ONE: the place named is a number, of which one
// vector is read.
enum Held : byte {
  FIRST,
  SECOND,
  TWICE,
  NOTHING,
  FIRST_AND_ONE,
  SECOND_AND_ONE,
  ONE_AND_PLACE,
  PLACE_AND_ONE
};
constexpr int N_HELD = 8;

struct InstructionEntry {
  const char *family, *name;  // of the loop that gives these bits
  byte dtype, inputs;
  Held held;
  void (*go)();
};

struct Machine {
  int tile;  // bytes
  const InstructionEntry* entries;
  int n_entries;
  // Run the instructions for each of n tiles; the last instruction is "end".
  void (*run)(const Instruction* code, const Place* places, i64 n);
};

}  // namespace abi

#endif
