// Threads of a block whose kernel has barriers, shuffles or votes. Each thread is a fiber. A fiber
// runs until it reaches a collective operation. This file completes the operation, or reports which
// threads are missing.
#pragma once

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "context.h"
#include "engine.h"
#include "memory.h"

using namespace gputensor;

namespace {

constexpr unsigned MAX_THREADS = 1024;
// Stacks of one size would begin in the same cache lines; these bytes spread them.
constexpr size_t STACK_COLOUR = 192, COLOURED = 4096;

enum progress : int { READY, AT_WARP, AT_BLOCK, DONE };

struct fiber {
  context c;
  index3 index;
  progress where;
  collective what;
  unsigned mask;
  unsigned long long value, result;
  int argument, width;
  const char* file;
  unsigned line;
  void* fake_stack;
};

struct launch {
  const char* name;
  const entry* e;
  const gputensor::module* m;
  const void* params;
  unsigned shared_bytes;
  const unsigned char *image_begin, *image_end;  // of the kernel's shared object in memory
  unsigned char *shared_begin, *shared_end;      // static shared memory
};

// A fault and its place. The place is file and line, or an instruction address for addr2line.
struct finding {
  char what[600];  // empty if there is no fault
  char file[200];
  unsigned line;
  void* pc;
  index3 block, thread;
  const void* address;  // of an access of `size` bytes; size is 0 without an access
  unsigned long long size;
  int kind;
  void* other_pc;       // the earlier access of a race
  index3 other_block, other_thread;
  int other_kind;
};

fiber fibers[MAX_THREADS];
unsigned char* stacks;
size_t stack_size;
context scheduler;
context caller, grid;       // of a launch: the C library's stack, and the stack of its kernel
unsigned char *grid_stack;
constexpr size_t GRID_STACK = 1 << 20;
void* scheduler_fake_stack;
const void* scheduler_stack;
size_t scheduler_stack_size;
fiber* running;         // null in plain kernels
unsigned thread_count;
launch now;
bool aborted;
finding fault;
sigjmp_buf escape;
thread_local volatile sig_atomic_t inside;  // this thread runs a kernel
known_range known_ranges[KNOWN_RANGES];

void write_report(const char* what, const char* file, unsigned line, index3 thread) {
  if (fault.what[0]) return;
  fault = {};
  snprintf(fault.what, sizeof fault.what, "%s", what);
  if (file) snprintf(fault.file, sizeof fault.file, "%s", file);
  fault.line = line;
  fault.block = *now.m->block_index;
  fault.thread = thread;
}

// A signal that requests the kernel to stop; 0 for none. Set if the signal came while the engine
// ran, which must not be interrupted.
volatile sig_atomic_t stop_asked;

// memory_check.h
void join_lanes(unsigned first, unsigned here);
void pass_block_barrier();
bool pending_settled();

// --- the order of threads between barriers -------------------------------------------------------

enum order : int { FORWARD, REVERSED, RANDOM };
int thread_order;
unsigned long long chance;

unsigned draw(unsigned n) {  // xorshift64*
  chance ^= chance >> 12;
  chance ^= chance << 25;
  chance ^= chance >> 27;
  return (unsigned)((chance * 0x2545f4914f6cdd1dull >> 32) * n >> 32);
}

// Fill in 0 … n-1 in the selected order.
void permute(unsigned* items, unsigned n) {
  for (unsigned i = 0; i < n; ++i) items[i] = thread_order == REVERSED ? n - 1 - i : i;
  for (unsigned i = n; thread_order == RANDOM && i > 1; --i) {
    const unsigned j = draw(i), kept = items[i - 1];
    items[i - 1] = items[j];
    items[j] = kept;
  }
}

void to_scheduler() {
  fiber* self = running;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&self->fake_stack, scheduler_stack, scheduler_stack_size);
  switch_context(self->c, scheduler);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(self->fake_stack, nullptr, nullptr);
}

[[noreturn]] void leave() {
  if (!running) siglongjmp(escape, 1);
  aborted = true;
  running->where = DONE;
  to_scheduler();
  __builtin_unreachable();
}

void fail_here(const char* what, const char* file, unsigned line) {
  write_report(what, file, line, *now.m->thread_index);
  leave();
}

// Stands for a signal when the time limit has passed.
constexpr int OUT_OF_TIME = -1;

[[noreturn]] void stop_here(int number, void* pc, const char* file = nullptr, unsigned line = 0) {
  stop_asked = 0;
  write_report("interrupted", file, line, *now.m->thread_index);
  fault.pc = pc;
  fault.kind = number;
  siglongjmp(escape, 1);
}

unsigned long long meet(collective what, unsigned mask, unsigned long long value, int argument,
                        int width, const char* file, unsigned line) {
  fiber* self = running;
  if (stop_asked) stop_here(stop_asked, nullptr, file, line);
  if (!self) {
    const index3& d = *now.m->block_dim;
    const bool wants_mask = what == MATCH_ANY || what == MATCH_ALL || what == ACTIVE_MASK;
    if (d.x * d.y * d.z == 1) return wants_mask ? 1 : value;
    fail_here("a barrier or shuffle in a kernel that was taken for one without", file, line);
  }
  const bool block_wide = what >= SYNC_BLOCK;
  const unsigned lane = (unsigned)(self - fibers) % 32;
  if (!block_wide && !(mask >> lane & 1))
    fail_here("the calling lane is not in its own mask", file, line);
  self->what = what;
  self->mask = mask;
  self->value = value;
  self->argument = argument;
  self->width = width;
  self->file = file;
  self->line = line;
  self->where = block_wide ? AT_BLOCK : AT_WARP;
  to_scheduler();
  return self->result;
}

void fiber_main() {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
  now.e->thread(now.params);
  running->where = DONE;
  to_scheduler();
}

void resume(fiber& f) {
  running = &f;
  known_ranges[OWN_STACK].begin = stacks + (&f - fibers) * stack_size;
  *now.m->thread_index = f.index;
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, stacks + (&f - fibers) * stack_size,
                                   stack_size);
  switch_context(scheduler, f.c);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
  running = nullptr;
}

const char* name_of(collective what) {
  static const char* const names[] = {
      "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
      "__ballot_sync or another vote",
      "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync",
      "__reduce_max_sync", "__reduce_min_sync", "__reduce_max_sync", "__reduce_and_sync",
      "__reduce_or_sync", "__reduce_xor_sync", "__activemask", "__syncwarp",
      "__syncthreads", "__syncthreads_count", "__syncthreads_and",
      "__syncthreads_or"};
  return names[what];
}

// True if two threads are at the same call. A barrier of a warp may be several calls.
bool same_call(const fiber& a, const fiber& b) {
  if (a.what != b.what) return false;
  if (a.what == SYNC_WARP) return true;
  return a.line == b.line && (a.file == b.file || !strcmp(a.file, b.file));
}

// Return the lane that a shuffle reads, as in the programming guide; its own lane if none is in
// range.
int source_lane(const fiber& f, int lane) {
  const int width = f.width, first = lane & ~(width - 1), within = lane & (width - 1);
  switch (f.what) {
    case SHUFFLE_INDEX: return first + (f.argument & (width - 1));
    case SHUFFLE_UP: return within - f.argument < 0 ? lane : lane - f.argument;
    case SHUFFLE_DOWN: return within + f.argument >= width ? lane : lane + f.argument;
    default: return (lane ^ f.argument) >= first + width ? lane : lane ^ f.argument;
  }
}

unsigned reduced(collective what, const fiber* lanes, unsigned here) {
  const unsigned first = (unsigned)__builtin_ctz(here);
  unsigned r = (unsigned)lanes[first].value;
  for (unsigned i = first + 1; i < 32; ++i) {
    if (!(here >> i & 1)) continue;
    const unsigned v = (unsigned)lanes[i].value;
    switch (what) {
      case REDUCE_ADD: r += v; break;
      case REDUCE_MIN: r = v < r ? v : r; break;
      case REDUCE_MAX: r = v > r ? v : r; break;
      case REDUCE_MIN_SIGNED: r = (int)v < (int)r ? v : r; break;
      case REDUCE_MAX_SIGNED: r = (int)v > (int)r ? v : r; break;
      case REDUCE_AND: r &= v; break;
      case REDUCE_OR: r |= v; break;
      default: r ^= v;
    }
  }
  return r;
}

// Resume the lanes that wait in a call for the active lanes. Called once no other collective of the
// warp can be completed, because then no further lane can arrive.
bool resolve_active(unsigned first, unsigned count) {
  fiber* lanes = fibers + first;
  for (unsigned l = 0; l < count; ++l) {
    if (lanes[l].where != AT_WARP || lanes[l].what != ACTIVE_MASK) continue;
    unsigned here = 0;
    for (unsigned i = l; i < count; ++i)
      if (lanes[i].where == AT_WARP && same_call(lanes[i], lanes[l])) here |= 1u << i;
    for (unsigned i = l; i < count; ++i)
      if (here >> i & 1) {
        lanes[i].result = here;
        lanes[i].where = READY;
      }
    return true;
  }
  return false;
}

// Complete one collective in a warp whose lanes all wait or are done. False if none can be
// completed.
bool resolve_warp(unsigned first, unsigned count) {
  fiber* lanes = fibers + first;
  for (unsigned l = 0; l < count; ++l) {
    if (lanes[l].where != AT_WARP) continue;
    if (lanes[l].what == ACTIVE_MASK) continue;
    const unsigned mask = lanes[l].mask;
    unsigned here = 0, missing = 0;
    for (unsigned i = 0; i < count; ++i) {
      if (!(mask >> i & 1)) continue;
      const fiber& f = lanes[i];
      const bool came = f.where == AT_WARP && f.mask == mask && same_call(f, lanes[l]);
      if (came) here |= 1u << i;
      else if (f.where != DONE) missing |= 1u << i;
    }
    if (missing) continue;
    unsigned ballot = 0;
    for (unsigned i = 0; i < count; ++i)
      if (here >> i & 1 && lanes[i].value) ballot |= 1u << i;
    for (unsigned i = 0; i < count; ++i) {
      if (!(here >> i & 1)) continue;
      fiber& f = lanes[i];
      if (f.what == BALLOT) {
        f.result = ballot;
      } else if (f.what == MATCH_ANY) {
        f.result = 0;
        for (unsigned j = 0; j < count; ++j)
          if (here >> j & 1 && lanes[j].value == f.value) f.result |= 1u << j;
      } else if (f.what == MATCH_ALL) {
        f.result = here;
        for (unsigned j = 0; j < count; ++j)
          if (here >> j & 1 && lanes[j].value != f.value) f.result = 0;
      } else if (f.what >= REDUCE_ADD && f.what <= REDUCE_XOR) {
        f.result = reduced(f.what, lanes, here);
      } else if (f.what <= SHUFFLE_XOR) {
        const int from = source_lane(f, (int)i);
        if (!(here >> from & 1)) {
          char what[160];
          const bool named = mask >> from & 1;
          snprintf(what, sizeof what, "%s reads lane %d, which %s", name_of(f.what), from,
                   named ? "has left the kernel or does not exist" : "is not in the mask");
          write_report(what, f.file, f.line, f.index);
          aborted = true;
          return false;
        }
        f.result = lanes[from].value;
      }
    }
    if (lanes[l].what == SYNC_WARP) join_lanes(first, here);
    for (unsigned i = 0; i < count; ++i)
      if (here >> i & 1) lanes[i].where = READY;
    return true;
  }
  return resolve_active(first, count);
}

void describe_waiting(const fiber& f, char* text, size_t room) {
  if (f.where == DONE) snprintf(text, room, "has left the kernel");
  else snprintf(text, room, "waits in %s at %s:%u", name_of(f.what), f.file, f.line);
}

// No thread can run: report which thread waits where, and which thread is missing.
void report_stuck() {
  const fiber* waiting = nullptr;
  const fiber* other = nullptr;
  for (unsigned i = 0; i < thread_count && !waiting; ++i)
    if (fibers[i].where == AT_WARP) waiting = &fibers[i];
  if (waiting) {
    const unsigned first = (unsigned)(waiting - fibers) & ~31u;
    for (unsigned i = 0; i < 32 && first + i < thread_count && !other; ++i) {
      const fiber& f = fibers[first + i];
      const bool came = f.where == AT_WARP && f.mask == waiting->mask && same_call(f, *waiting);
      if (waiting->mask >> i & 1 && f.where != DONE && !came) other = &f;
    }
  } else {
    for (unsigned i = 0; i < thread_count && !waiting; ++i)
      if (fibers[i].where == AT_BLOCK) waiting = &fibers[i];
    for (unsigned i = 0; i < thread_count && !other; ++i)
      if (fibers[i].where == DONE || !same_call(fibers[i], *waiting)) other = &fibers[i];
  }
  char what[512], where[256];
  describe_waiting(*other, where, sizeof where);
  snprintf(what, sizeof what, "divergent %s: thread (%u,%u,%u) %s", name_of(waiting->what),
           other->index.x, other->index.y, other->index.z, where);
  write_report(what, waiting->file, waiting->line, waiting->index);
}

// All threads wait at the block's barrier: return to each thread the count that its call computes.
bool resolve_block() {
  unsigned long long count = 0;
  for (unsigned i = 0; i < thread_count; ++i) {
    if (fibers[i].where != AT_BLOCK || !same_call(fibers[i], fibers[0])) return false;
    count += fibers[i].value;
  }
  const collective what = fibers[0].what;
  pass_block_barrier();
  for (unsigned i = 0; i < thread_count; ++i) {
    fibers[i].result = what == SYNC_AND  ? count == thread_count
                       : what == SYNC_OR ? count != 0
                                         : count;
    fibers[i].where = READY;
  }
  return true;
}

bool get_stacks() {
  if (stacks) return true;
  const size_t guard = 4096;
  stack_size = sanitized ? 256 << 10 : (64 << 10) + COLOURED;
  void* p = carve_far(MAX_THREADS * stack_size);
  if (!p)
    p = mmap(nullptr, MAX_THREADS * stack_size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  stacks = (unsigned char*)p;
  for (unsigned i = 0; i < MAX_THREADS; ++i) mprotect(stacks + i * stack_size, guard, PROT_NONE);
  return true;
}

void run_block_in_fibers() {
  const index3 d = *now.m->block_dim;
  for (unsigned i = 0; i < thread_count; ++i) {
    unsigned char* stack = stacks + i * stack_size;
    const size_t colour = sanitized ? 0 : i * STACK_COLOUR % COLOURED;
    fiber& f = fibers[i];
    f.index = {i % d.x, i / d.x % d.y, i / d.x / d.y};
    f.where = READY;
    if (sanitized) __asan_unpoison_memory_region(stack + 4096, stack_size - 4096);
    begin_context(f.c, stack, stack_size - colour, fiber_main);
  }
  const unsigned warp_count = (thread_count + 31) / 32;
  unsigned warps[MAX_THREADS / 32], lanes[32];
  for (;;) {
    unsigned done = 0;
    permute(warps, warp_count);
    for (unsigned w = 0; w < warp_count; ++w) {
      const unsigned first = warps[w] * 32;
      const unsigned count = thread_count - first < 32 ? thread_count - first : 32;
      do {
        permute(lanes, count);
        for (unsigned i = 0; i < count; ++i)
          if (fibers[first + lanes[i]].where == READY) {
            resume(fibers[first + lanes[i]]);
            if (aborted || fault.what[0]) return;
          }
      } while (resolve_warp(first, count));
      if (aborted) return;
      for (unsigned i = first; i < first + count; ++i) done += fibers[i].where == DONE;
    }
    if (done == thread_count) return;
    if (!resolve_block()) {
      report_stuck();
      aborted = true;
      return;
    }
  }
}

// Run a kernel without barriers with its threads in another order than the plain loop.
void run_block_permuted() {
  unsigned threads[MAX_THREADS];
  permute(threads, thread_count);
  const index3 d = *now.m->block_dim;
  for (unsigned k = 0; k < thread_count; ++k) {
    const unsigned i = threads[k];
    *now.m->thread_index = {i % d.x, i / d.x % d.y, i / d.x / d.y};
    now.e->thread(now.params);
  }
}

}  // namespace
