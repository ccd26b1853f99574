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
// vector is read. PLACE_TWICE: one place is both operands.
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

// A reduction of a row whose elements come tile by tile. An instruction joins the accumulator with a
// state, its place, and leaves the accumulator as it is. `add` does this for a tile in memory; at:
// its byte offset in the row. `end` adds the last n of all elements and writes the result.
struct TileReduction {
  void (*add)(char* state, const char* tile, i64 at);
  void (*end)(char* result, char* state, const char* last, i64 n, i64 all);
};
constexpr int STATE_BYTES = 640;

struct InstructionEntry {
  const char *family, *name;  // of the loop, or of the reduction, that gives these bits
  byte dtype, inputs;
  Held held;
  void (*go)();
  TileReduction reduction;
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
