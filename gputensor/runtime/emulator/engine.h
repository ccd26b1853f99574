// What a compiled kernel and the engine know of each other. Plain data and function pointers, no
// includes: every kernel text pays for what stands here.
#pragma once

namespace gputensor {

constexpr unsigned MAX_SHARED = 227 * 1024;  // bytes that a block may have

struct index3 {
  unsigned x, y, z;
};

// Operations that threads of a warp or a block do together; the engine resolves them.
enum collective : int {
  SHUFFLE_INDEX, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, MATCH_ANY, MATCH_ALL, REDUCE_ADD,
  REDUCE_MIN, REDUCE_MAX, REDUCE_MIN_SIGNED, REDUCE_MAX_SIGNED, REDUCE_AND, REDUCE_OR, REDUCE_XOR,
  ACTIVE_MASK, SYNC_WARP, SYNC_BLOCK, SYNC_COUNT, SYNC_AND, SYNC_OR
};

// Where a parameter lies in the bytes of a launch.
struct parameter_place {
  unsigned offset, size;
};

// One `__global__` function of one variant. `block` runs all threads of a block in a plain loop
// (kernels without barriers), `thread` runs one (in a fiber). The bounds of the variant's static
// shared memory are 0 where it has none.
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

// A variable of a `.cu` text that lives in a device's memory: __constant__ or __device__.
struct symbol {
  const char* name;
  void* address;
  unsigned long long nbytes;
  symbol* next;
};

// What an instrumented kernel does to memory.
enum access_kind : int { READ, WRITE, ATOMIC };

// Memory that was looked at before and may be used, where nothing but that is asked: the thread's
// stack, what the kernel touched last, and, for reads alone, the kernel's own variables.
struct known_range {
  const unsigned char* begin;
  unsigned long long nbytes;
};
enum : int { OWN_STACK = 3, READABLE = 4, KNOWN_RANGES = 5 };

// What the engine lends to a kernel. `fail` does not return.
struct engine {
  unsigned long long (*meet)(collective what, unsigned mask, unsigned long long value, int argument,
                             int width, const char* file, unsigned line);
  void (*fail)(const char* what, const char* file, unsigned line);
  void (*access)(const void* address, unsigned long long size, access_kind kind, void* pc);
  void (*fence)(int is_of_block);
  unsigned long long (*clock)();
  void (*print)(const char* text, unsigned long long size);
  const known_range* known;  // KNOWN_RANGES of them
  unsigned char* dynamic_shared;
};

// What a kernel's shared object lends to the engine.
struct module {
  index3* thread_index;
  index3* block_index;
  index3* block_dim;
  index3* grid_dim;
  unsigned char* dynamic_shared;
  unsigned dynamic_shared_size;
  entry* first;
  symbol* first_symbol;
  void* (*shared_anchor)();  // an address in the thread-local storage that shared memory lies in
  const unsigned char *hooks_begin, *hooks_end;  // instrumented.h's code; null in other builds
};

}  // namespace gputensor
