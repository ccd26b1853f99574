// The threads of a block whose kernel has barriers, shuffles or votes: a fiber for each. A fiber
// runs until it meets others; the meeting is resolved here, so that who is missing can be named.
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
};

fiber fibers[MAX_THREADS];
unsigned char* stacks;
size_t stack_size;
context scheduler;
void* scheduler_fake_stack;
const void* scheduler_stack;
size_t scheduler_stack_size;
fiber* running;         // null in plain kernels
unsigned thread_count;
launch now;
bool aborted;
char report[1024];      // what went wrong, empty if nothing
sigjmp_buf escape;
thread_local volatile sig_atomic_t inside;  // this thread runs a kernel

void place(char* text, size_t room, index3 t) {
  index3 b = *now.m->block_index;
  snprintf(text, room, "block (%u,%u,%u), thread (%u,%u,%u)", b.x, b.y, b.z, t.x, t.y, t.z);
}

void write_report(const char* what, const char* file, unsigned line, index3 thread) {
  char where[128];
  if (report[0]) return;
  place(where, sizeof where, thread);
  if (file) snprintf(report, sizeof report, "%s at %s:%u, %s", what, file, line, where);
  else snprintf(report, sizeof report, "%s, %s", what, where);
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

unsigned long long meet(collective what, unsigned mask, unsigned long long value, int argument,
                        int width, const char* file, unsigned line) {
  fiber* self = running;
  if (!self) {
    const index3& d = *now.m->block_dim;
    if (what == SYNC_COUNT || what == SYNC_AND || what == SYNC_OR || what == BALLOT) {
      if (d.x * d.y * d.z == 1) return value;
    } else if (d.x * d.y * d.z == 1) return what == MATCH_ANY ? 1 : value;
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

unsigned active_mask() {
  if (!running) return 1;
  unsigned first = (unsigned)(running - fibers) & ~31u, mask = 0;
  for (unsigned i = 0; i < 32 && first + i < thread_count; ++i)
    if (fibers[first + i].where != DONE) mask |= 1u << i;
  return mask;
}

const engine the_engine = {meet, fail_here, active_mask};

void fiber_main() {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
  now.e->thread(now.params);
  running->where = DONE;
  to_scheduler();
}

void resume(fiber& f) {
  running = &f;
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
      "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "a vote",
      "__match_any_sync", "__syncwarp", "__syncthreads", "__syncthreads_count", "__syncthreads_and",
      "__syncthreads_or"};
  return names[what];
}

// Whether two threads stand at the same call. A barrier of a warp may be several calls.
bool same_call(const fiber& a, const fiber& b) {
  return a.what == b.what && (a.what == SYNC_WARP || (a.line == b.line && !strcmp(a.file, b.file)));
}

// The lane that a shuffle reads, as the programming guide says; its own where none is in range.
int source_lane(const fiber& f, int lane) {
  const int width = f.width, first = lane & ~(width - 1), within = lane & (width - 1);
  switch (f.what) {
    case SHUFFLE_INDEX: return first + (f.argument & (width - 1));
    case SHUFFLE_UP: return within - f.argument < 0 ? lane : lane - f.argument;
    case SHUFFLE_DOWN: return within + f.argument >= width ? lane : lane + f.argument;
    default: return (lane ^ f.argument) >= first + width ? lane : lane ^ f.argument;
  }
}

// Completes one meeting in a warp whose lanes all wait or are done. False: none can be completed.
bool resolve_warp(unsigned first, unsigned count) {
  fiber* lanes = fibers + first;
  for (unsigned l = 0; l < count; ++l) {
    if (lanes[l].where != AT_WARP) continue;
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
    for (unsigned i = 0; i < count; ++i)
      if (here >> i & 1) lanes[i].where = READY;
    return true;
  }
  return false;
}

void describe_waiting(const fiber& f, char* text, size_t room) {
  if (f.where == DONE) snprintf(text, room, "has left the kernel");
  else snprintf(text, room, "waits in %s at %s:%u", name_of(f.what), f.file, f.line);
}

// Nothing can run: says who waits where and who does not come.
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
  snprintf(what, sizeof what, "divergent %s: thread (%u,%u,%u) %s; waiting", name_of(waiting->what),
           other->index.x, other->index.y, other->index.z, where);
  write_report(what, waiting->file, waiting->line, waiting->index);
}

// All threads wait at the block's barrier: gives each the count that it asked for.
bool resolve_block() {
  unsigned long long count = 0;
  for (unsigned i = 0; i < thread_count; ++i) {
    if (fibers[i].where != AT_BLOCK || !same_call(fibers[i], fibers[0])) return false;
    count += fibers[i].value;
  }
  const collective what = fibers[0].what;
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
  stack_size = sanitized ? 256 << 10 : 64 << 10;
  void* p = mmap(nullptr, MAX_THREADS * stack_size, PROT_READ | PROT_WRITE,
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
    fiber& f = fibers[i];
    f.index = {i % d.x, i / d.x % d.y, i / d.x / d.y};
    f.where = READY;
    if (sanitized) __asan_unpoison_memory_region(stack + 4096, stack_size - 4096);
    begin_context(f.c, stack, stack_size, fiber_main);
  }
  for (;;) {
    unsigned done = 0;
    for (unsigned first = 0; first < thread_count; first += 32) {
      const unsigned count = thread_count - first < 32 ? thread_count - first : 32;
      do {
        for (unsigned i = first; i < first + count; ++i)
          if (fibers[i].where == READY) {
            resume(fibers[i]);
            if (aborted || report[0]) return;
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

}  // namespace
