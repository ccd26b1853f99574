// Arithmetic on tiles that stay in registers: what engine/registers.cpp translates steps of a
// program to, and loops/registers.cpp runs.
//
// A tile is eight vectors. The machine has one accumulator of a tile; an instruction takes it, and
// tiles of its places, and leaves its result in it. Numbers, and operands that are one value, are
// places that repeat it. A truth is a vector of numbers as wide as the elements, with all bits or
// none.
#ifndef GPUTENSOR_MACHINE
#define GPUTENSOR_MACHINE

#include "abi.h"

namespace abi {

// A tile at data + (at & mask), where `at` are the bytes from the beginning of a block. mask: 0
// where all tiles are one.
struct Place { char* data; i64 mask; };

struct Instruction {
  void (*go)();
  Loop loop;  // of "call", which runs it from place[1] on to place[0]
  short place[4], first_scalar;
};

// The place of the scalars of loops.
constexpr int SCALARS = 128;

// What the accumulator holds when an instruction begins: its first operand, its second, both, or
// none. Further operands are places, in their order. ONE: the only place, the first one or the
// second one is a number, of which one vector is read. PLACE_TWICE: one place is both operands.
enum Held : byte {
  FIRST,
  SECOND,
  TWICE,
  NOTHING,
  FIRST_AND_ONE,
  SECOND_AND_ONE,
  ONE_AND_PLACE,
  PLACE_AND_ONE,
  PLACE_TWICE
};
constexpr int N_HELD = 9;

struct InstructionEntry {
  const char *family, *name;  // of the loop with the same bits
  byte dtype, inputs;
  Held held;
  void (*go)();
};

struct Machine {
  int tile;  // bytes
  const InstructionEntry* entries;
  int n_entries;
  // Run the instructions over each of n tiles; the last one is "end".
  void (*run)(const Instruction* code, const Place* places, i64 n);
};

}  // namespace abi

#endif
