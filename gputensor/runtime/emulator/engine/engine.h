// The interface between a compiled kernel and the engine. It contains only plain data and function
// pointers and includes nothing, because every kernel text compiles it.
#pragma once

namespace gputensor {

constexpr unsigned MAX_SHARED = 227 * 1024;  // bytes per block

struct index3 {
  unsigned x, y, z;
};

// Collective operations of the threads of a warp or a block. The engine executes them.
enum collective : int {
  SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, MATCH_ANY, MATCH_ALL, REDUCE_ADD,
  REDUCE_MIN, REDUCE_MAX, REDUCE_MIN_SIGNED, REDUCE_MAX_SIGNED, REDUCE_AND, REDUCE_OR, REDUCE_XOR,
  ACTIVE_MASK, SYNC_WARP, SYNC_BLOCK, SYNC_COUNT, SYNC_AND, SYNC_OR
};

// The place of a parameter in the bytes of a launch.
struct parameter_place {
  unsigned offset, size;
};

// One `__global__` function of one variant. `block` runs all threads of a block in a plain loop
// (kernels without barriers). `thread` runs one thread (in a fiber). The bounds of static shared
// memory are null for a variant without it.
struct entry {
  const char* name;
  int variant;
  int has_collectives;
  unsigned max_threads;
  unsigned params_size;
  void (*thread)(const void* params);
  void (*block)(const void* params);
  unsigned char* shared_begin;
  unsigned char* shared_end;
  entry* next;
  const parameter_place* places;
  unsigned place_count;
};

// A __constant__ or __device__ variable of a `.cu` text.
struct symbol {
  const char* name;
  void* address;
  unsigned long long nbytes;
  symbol* next;
};

// The kinds of memory access of an instrumented kernel.
enum access_kind : int { READ, WRITE, ATOMIC };

// Ranges in which accesses were checked before and need no further check: the thread's stack, the
// ranges that the kernel touched last and, for reads only, the kernel's own variables. Unused if a
// check needs every access.
struct known_range {
  const unsigned char* begin;
  unsigned long long nbytes;
};
enum : int { OWN_STACK = 3, READABLE = 4, KNOWN_RANGES = 5 };

// The engine's functions and data for a kernel. `fail` does not return.
struct engine {
  unsigned long long (*meet)(collective what, unsigned mask, unsigned long long value, int argument,
                             int width, const char* file, unsigned line);
  void (*fail)(const char* what, const char* file, unsigned line);
  void (*access)(const void* address, unsigned long long size, access_kind kind, void* pc);
  void (*fence)(int is_of_block);
  unsigned long long (*clock)();
  void (*print)(const char* text, unsigned long long size);
  const known_range* known;  // KNOWN_RANGES entries
  unsigned char* dynamic_shared;
};

// The data of a kernel's shared object for the engine.
struct module {
  index3* thread_index;
  index3* block_index;
  index3* block_dim;
  index3* grid_dim;
  unsigned char* dynamic_shared;
  unsigned dynamic_shared_size;
  entry* first;
  symbol* first_symbol;
  void* (*shared_anchor)();  // an address in the thread-local storage that contains shared memory
  // bounds of instrumented.h's code; null in other builds
  const unsigned char *hooks_begin, *hooks_end;
};

}  // namespace gputensor
