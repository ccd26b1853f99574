// Arithmetic on tiles in registers. engine/chain/registers.cpp makes the instructions from the
// steps of a program, and loops/registers.cpp runs them.
//
// A tile is four vectors. The machine has two banks of one tile each. An instruction computes with
// the banks and with tiles in memory (its places), and writes its result to a bank. Numbers, and
// operands with one value, are places that repeat the value. A bool is a vector lane as wide as the
// elements, with all bits set or none.
#ifndef GPUTENSOR_MACHINE
#define GPUTENSOR_MACHINE

#include "abi.h"

namespace abi {

// The tile at data + (at & mask). at: the byte offset in a block. mask: 0 if the place is one tile.
struct Place { char* data; i64 mask; };

struct Instruction {
  void (*go)();
  Place place[3];  // of each operand
};

// Where an operand is. A place in memory is place[j] for operand j. ONE: the place is a number, and
// only one vector is read.
enum Source : byte { BANK_A, BANK_B, PLACE, ONE };
constexpr int N_BANKS = 2, N_SOURCES = 4;

// A reduction of a row whose elements arrive tile by tile. An instruction combines its operand with
// a state, place[1]. `add` does this for groups in memory, between two byte offsets of the row.
// `end` combines the last n of all elements and writes the result.
struct TileReduction {
  void (*add)(char* state, const char* groups, i64 from, i64 to);
  void (*end)(char* result, char* state, const char* last, i64 n, i64 all);
};
constexpr int STATE_BYTES = 640;

// [bank of the result][source of the first operand][source of the second]; null if there is none.
// "where": the condition is in the bank of the result, and the two sources are of the second and
// third operand. Operands without a source are places. An instruction without a result has [0].
typedef void (*Forms[N_BANKS][N_SOURCES][N_SOURCES])();

struct InstructionEntry {
  const char *family, *name;  // of the loop, or of the reduction, that produces the same bits
  byte dtype, inputs;
  const Forms* forms;
  TileReduction reduction;
};

struct Machine {
  const InstructionEntry* entries;
  int n_entries;
  // Run the instructions, the last of which is "end", for each tile between two byte offsets.
  void (*run)(const Instruction* code, i64 from, i64 to);
};

// Bytes of a group, which is one or more tiles on each CPU. Bytes of the memory of a value that
// only one run of instructions reads: some groups, over which a loop without an instruction runs at
// once.
constexpr int GROUP_BYTES = 256, LOCAL_BYTES = 4096;

}  // namespace abi

#endif
