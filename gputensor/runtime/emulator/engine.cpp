// The machine under an emulated CUDA device: device memory with guards, and blocks of threads.
//
// A kernel without barriers runs its threads in a plain loop. One with barriers, shuffles or votes
// gets a fiber per thread: each runs until it meets the others, and the meeting is resolved here,
// so that who is missing can be named. A wrong access ends the launch with a sentence, never the
// process. One launch at a time: the caller holds a lock. Streams and events live above, in Python.

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"

using namespace gputensor;

#define EXPORT extern "C" __attribute__((visibility("default")))

// Present where libasan is in the process.
extern "C" {
void __asan_unpoison_memory_region(void const volatile*, size_t) __attribute__((weak));
void __asan_poison_memory_region(void const volatile*, size_t) __attribute__((weak));
void __asan_set_error_report_callback(void (*)(const char*)) __attribute__((weak));
void __sanitizer_set_report_fd(void*) __attribute__((weak));
void __sanitizer_start_switch_fiber(void**, const void*, size_t) __attribute__((weak));
void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) __attribute__((weak));
}

// --- device memory -------------------------------------------------------------------------------

namespace {

constexpr size_t ALIGNMENT = 512;        // as cudaMalloc
constexpr size_t GUARD = 512;            // bytes watched on either side
constexpr size_t NEAR = 64;              // of which these are looked at after every launch
constexpr size_t QUARANTINE = 32 << 20;  // bytes of freed memory kept to catch late writes
constexpr unsigned char FRESH = 0xff, GUARDED = 0xbd, FREED = 0xdd;

enum state : int { LIVE, DROPPED };  // dropped: no tensor holds it, queued work may still use it

struct allocation {
  unsigned char* begin;
  size_t nbytes;
  unsigned char* raw;
  int device;
  int state;
};

// Sorted by address.
allocation* table;
size_t table_size, table_room;

allocation* quarantine;
size_t quarantine_first, quarantine_end, quarantine_room, quarantine_bytes;

bool checks = true;    // guards, poison and quarantine
bool sanitized = false;

size_t position(const void* p) {  // the first allocation that begins after p
  size_t low = 0, high = table_size;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle].begin <= (const unsigned char*)p) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The allocation whose bytes p points into; one past the end counts for an empty range only.
allocation* find(const void* p) {
  size_t at = position(p);
  if (at == 0) return nullptr;
  allocation* a = &table[at - 1];
  return (const unsigned char*)p < a->begin + a->nbytes ? a : nullptr;
}

bool filled(const unsigned char* p, size_t n, unsigned char value) {
  if (n == 0) return true;
  return p[0] == value && memcmp(p, p + 1, n - 1) == 0;
}

// Writes a sentence about a guard that was written to; false if both are whole.
bool guard_broken(const allocation& a, size_t width, char* error, size_t room) {
  const unsigned char* end = a.begin + a.nbytes;
  if (!filled(end, width, GUARDED)) {
    size_t i = 0;
    while (end[i] == GUARDED) ++i;
    snprintf(error, room, "wrote out of bounds: %zu bytes past the end of an allocation of %zu bytes at %p "
             "on device %d", i, a.nbytes, (void*)a.begin, a.device);
    memset((void*)end, GUARDED, width);
    return true;
  }
  if (!filled(a.begin - width, width, GUARDED)) {
    const unsigned char* p = a.begin - 1;
    while (*p == GUARDED) --p;
    const size_t i = (size_t)(a.begin - p);
    snprintf(error, room, "wrote out of bounds: %zu bytes before the begin of an allocation of %zu bytes at "
             "%p on device %d", i, a.nbytes, (void*)a.begin, a.device);
    memset(a.begin - width, GUARDED, width);
    return true;
  }
  return false;
}

template <class T>
void make_room(T*& items, size_t used, size_t& room) {
  if (used < room) return;
  room = room ? room * 2 : 256;
  items = (T*)realloc((void*)items, room * sizeof(T));
}

}  // namespace

EXPORT void engine_configure(int with_checks) {
  sanitized = __asan_unpoison_memory_region != nullptr;
  checks = with_checks && !sanitized;
}

EXPORT void* engine_allocate(size_t nbytes, int device) {
  void* raw;
  const size_t guard = sanitized ? 0 : GUARD;  // libasan has red zones of its own
  if (posix_memalign(&raw, ALIGNMENT, nbytes + 2 * guard)) return nullptr;
  allocation a = {(unsigned char*)raw + guard, nbytes, (unsigned char*)raw, device, LIVE};
  if (!sanitized) {
    memset(raw, GUARDED, guard);
    memset(a.begin + nbytes, GUARDED, guard);
  }
  if (checks || sanitized) memset(a.begin, FRESH, nbytes);
  make_room(table, table_size, table_room);
  size_t at = position(a.begin);
  memmove(table + at + 1, table + at, (table_size - at) * sizeof(allocation));
  table[at] = a;
  ++table_size;
  return a.begin;
}

EXPORT void engine_drop(void* p) {
  if (allocation* a = find(p)) a->state = DROPPED;
}

// Frees memory whose queued work has run. 1: `error` tells of a broken guard, or of a late write
// to memory that was freed before.
EXPORT int engine_free(void* p, char* error, size_t room) {
  size_t at = position(p) - 1;
  allocation a = table[at];
  int wrong = checks && guard_broken(a, GUARD, error, room);
  memmove(table + at, table + at + 1, (table_size - at - 1) * sizeof(allocation));
  --table_size;
  if (!checks) {
    free(a.raw);
    return 0;
  }
  memset(a.begin, FREED, a.nbytes);
  if (quarantine_first > 256 && quarantine_first * 2 > quarantine_end) {
    memmove(quarantine, quarantine + quarantine_first,
            (quarantine_end - quarantine_first) * sizeof(allocation));
    quarantine_end -= quarantine_first;
    quarantine_first = 0;
  }
  make_room(quarantine, quarantine_end, quarantine_room);
  quarantine[quarantine_end++] = a;
  quarantine_bytes += a.nbytes;
  while (quarantine_bytes > QUARANTINE) {
    allocation old = quarantine[quarantine_first++];
    quarantine_bytes -= old.nbytes;
    if (!wrong && !filled(old.begin, old.nbytes, FREED)) {
      snprintf(error, room, "memory of %zu bytes at %p on device %d was written to after it was "
               "freed; a stream used it without record_stream", old.nbytes, (void*)old.begin, old.device);
      wrong = 1;
    }
    free(old.raw);
  }
  return wrong;
}

// Looks at the guards of all memory. 1: `error` tells of the first broken one.
EXPORT int engine_check(char* error, size_t room) {
  if (checks)
    for (size_t i = 0; i < table_size; ++i)
      if (guard_broken(table[i], NEAR, error, room)) return 1;
  return 0;
}

// Looks at freed memory that is still kept. 1: `error` tells of a late write.
EXPORT int engine_check_freed(char* error, size_t room) {
  for (size_t i = quarantine_first; checks && i < quarantine_end; ++i)
    if (!filled(quarantine[i].begin, quarantine[i].nbytes, FREED)) {
      snprintf(error, room, "memory of %zu bytes at %p on device %d was written to after it was "
               "freed; a stream used it without record_stream", quarantine[i].nbytes,
               (void*)quarantine[i].begin, quarantine[i].device);
      memset(quarantine[i].begin, FREED, quarantine[i].nbytes);
      return 1;
    }
  return 0;
}

struct found {
  void* begin;
  size_t nbytes;
  int device;
  int state;
};

EXPORT int engine_find(const void* p, found* result) {
  allocation* a = find(p);
  if (!a) return 0;
  *result = {a->begin, a->nbytes, a->device, a->state};
  return 1;
}

// Looks for words in a parameter struct that point into memory which a kernel on `device` may not
// use: `reachable` has a bit per device with peer access. 0, or 1 + the byte offset of the word.
EXPORT int engine_scan(const void* params, size_t size, int device, unsigned reachable, found* result) {
  for (size_t at = 0; at + 8 <= size; at += 8) {
    void* p;
    memcpy(&p, (const char*)params + at, 8);
    if (table_size == 0 || p < table[0].begin) continue;
    allocation* a = find(p);
    if (!a || a->device < 0) continue;  // pinned host memory is mapped into every device
    if ((a->device == device || reachable >> a->device & 1) && a->state == LIVE) continue;
    *result = {a->begin, a->nbytes, a->device, a->state};
    return 1 + (int)at;
  }
  return 0;
}

// --- fibers --------------------------------------------------------------------------------------

namespace {

struct context {
#if defined(__x86_64__)
  void* sp;
#else
  ucontext_t state;
#endif
};

#if defined(__x86_64__)
extern "C" void gputensor_switch(void** save, void* load);
asm(R"(
.text
.local gputensor_switch
.type gputensor_switch,@function
gputensor_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size gputensor_switch,.-gputensor_switch
)");
#endif

void switch_context(context& from, context& to) {
#if defined(__x86_64__)
  gputensor_switch(&from.sp, to.sp);
#else
  swapcontext(&from.state, &to.state);
#endif
}

void begin_context(context& c, unsigned char* stack, size_t size, void (*function)()) {
#if defined(__x86_64__)
  void** top = (void**)(stack + size);
  *--top = nullptr;  // stands where the caller's address would: a function begins 8 off 16 bytes
  *--top = (void*)function;
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.sp = top;
#else
  getcontext(&c.state);
  c.state.uc_stack.ss_sp = stack;
  c.state.uc_stack.ss_size = size;
  c.state.uc_link = nullptr;
  makecontext(&c.state, function, 0);
#endif
}

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
volatile sig_atomic_t inside;

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
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(self->fake_stack, nullptr, nullptr);
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
    __sanitizer_start_switch_fiber(&scheduler_fake_stack, stacks + (&f - fibers) * stack_size, stack_size);
  switch_context(scheduler, f.c);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
  running = nullptr;
}

const char* name_of(collective what) {
  static const char* const names[] = {"__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync",
                                      "a vote", "__match_any_sync", "__syncwarp", "__syncthreads",
                                      "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"};
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
      if (lanes[i].where == AT_WARP && lanes[i].mask == mask && same_call(lanes[i], lanes[l])) here |= 1u << i;
      else if (lanes[i].where != DONE) missing |= 1u << i;
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
          snprintf(what, sizeof what, "%s reads lane %d, which %s", name_of(f.what), from,
                   mask >> from & 1 ? "has left the kernel or does not exist" : "is not in the mask");
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
    fibers[i].result = what == SYNC_AND ? count == thread_count : what == SYNC_OR ? count != 0 : count;
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

// --- signals -------------------------------------------------------------------------------------

struct sigaction old_actions[3];
const int watched[3] = {SIGSEGV, SIGBUS, SIGFPE};

#if defined(__x86_64__)
// CUDA's integer division by zero has an unspecified result and does not trap; neither does the
// most negative number by -1. Gives the dividend as quotient, 0 as remainder, and steps over.
bool skip_division(ucontext_t* u) {
  greg_t* r = u->uc_mcontext.gregs;
  const unsigned char* p = (const unsigned char*)r[REG_RIP];
  bool wide = false, narrow = false;
  for (;; ++p) {
    if ((*p & 0xf0) == 0x40) wide = *p & 8;
    else if (*p == 0x66) narrow = true;
    else break;
  }
  const unsigned char opcode = *p++;
  if (opcode != 0xf6 && opcode != 0xf7) return false;
  const unsigned char modrm = *p++, mode = modrm >> 6, rm = modrm & 7;
  if ((modrm >> 3 & 7) < 6) return false;
  if (mode != 3) {
    if (rm == 4) {
      const unsigned char sib = *p++;
      if (mode == 0 && (sib & 7) == 5) p += 4;
    } else if (mode == 0 && rm == 5) {
      p += 4;
    }
    p += mode == 1 ? 1 : mode == 2 ? 4 : 0;
  }
  if (opcode == 0xf6) r[REG_RAX] &= ~0xff00ll;
  else if (narrow) r[REG_RDX] &= ~0xffffll;
  else r[REG_RDX] = 0;
  if (opcode == 0xf7 && !narrow && !wide) r[REG_RAX] &= 0xffffffffll;
  r[REG_RIP] = (greg_t)p;
  return true;
}
#endif

void on_signal(int number, siginfo_t* info, void* raw) {
  if (!inside) {  // not ours: let the previous handler see the fault when it happens again
    sigaction(number, &old_actions[number == SIGSEGV ? 0 : number == SIGBUS ? 1 : 2], nullptr);
    return;
  }
#if defined(__x86_64__)
  if (number == SIGFPE && skip_division((ucontext_t*)raw)) return;
#endif
  char what[128];
  if (number == SIGFPE) snprintf(what, sizeof what, "arithmetic trap");
  else snprintf(what, sizeof what, "illegal address %p (or the 64 KiB stack of a thread is full)", info->si_addr);
  write_report(what, nullptr, 0, *now.m->thread_index);
  siglongjmp(escape, 1);
}

alignas(64) unsigned char signal_stack[64 << 10];
stack_t old_signal_stack;

void watch_signals() {
  stack_t own = {};
  own.ss_sp = signal_stack;
  own.ss_size = sizeof signal_stack;
  sigaltstack(&own, &old_signal_stack);
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (int i = 0; i < 3; ++i)
    if (!sanitized || watched[i] == SIGFPE) sigaction(watched[i], &action, &old_actions[i]);
  inside = 1;
}

void unwatch_signals() {
  inside = 0;
  for (int i = 0; i < 3; ++i)
    if (!sanitized || watched[i] == SIGFPE) sigaction(watched[i], &old_actions[i], nullptr);
  sigaltstack(&old_signal_stack, nullptr);
}

// Copies what stands between `from` (behind it) and `to` into text; returns its length.
size_t cut(const char* report_text, const char* from, const char* to, char* text, size_t room) {
  const char* begin = strstr(report_text, from);
  if (!begin) return text[0] = 0;
  begin += strlen(from);
  const char* end = strstr(begin, to);
  const size_t n = end ? (size_t)(end - begin) : strlen(begin);
  return (size_t)snprintf(text, room, "%.*s", (int)(n < room ? n : room - 1), begin);
}

// A report of libasan, cut to what happened and the kernel's line:
//   ==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x… at pc …
//   WRITE of size 4 at 0x… thread T0
//       #0 0x… in (anonymous namespace)::v0::name((anonymous namespace)::v0::P) name.cu:12
void on_sanitizer_report(const char* text) {
  if (!inside || report[0]) return;
  char error[64], size[16], frame[512], what[768];
  cut(text, "AddressSanitizer: ", " on ", error, sizeof error);
  const bool writes = cut(text, "WRITE of size ", " ", size, sizeof size) != 0;
  if (!writes) cut(text, "READ of size ", " ", size, sizeof size);
  cut(text, "    #0 ", "\n", frame, sizeof frame);
  const char* line = strrchr(frame, ' ');
  snprintf(what, sizeof what, "%s, %s of %s bytes at %s", error, writes ? "write" : "read", size,
           line ? line + 1 : "an unknown line");
  write_report(what, nullptr, 0, *now.m->thread_index);
  // every further thread of the block may report the same; the first full report is enough to read
  static const int nowhere = open("/dev/null", O_WRONLY);
  __sanitizer_set_report_fd((void*)(intptr_t)nowhere);
}

// Static and dynamic shared memory start as garbage on a GPU; here as NaN and as -1. The bytes are
// set one by one since libasan watches memset, and red zones lie between the variables.
void poison_shared() {
  volatile unsigned char* p = now.e->shared_begin;
  if (p && !sanitized) memset((void*)p, FRESH, (size_t)(now.e->shared_end - now.e->shared_begin));
  else if (p)
    for (; p < now.e->shared_end; ++p) *p = FRESH;
  if (now.shared_bytes) memset(now.m->dynamic_shared, FRESH, now.shared_bytes);
  if (checks) memset(now.m->dynamic_shared + now.shared_bytes, GUARDED, NEAR);
}

bool shared_overrun() {
  const unsigned char* end = now.m->dynamic_shared + now.shared_bytes;
  if (!checks || filled(end, NEAR, GUARDED)) return false;
  snprintf(report, sizeof report, "wrote past the %u bytes of dynamic shared memory of its launch, "
           "block (%u,%u,%u)", now.shared_bytes, now.m->block_index->x, now.m->block_index->y,
           now.m->block_index->z);
  return true;
}

void run_grid(const index3& grid) {
  index3& b = *now.m->block_index;
  for (b.z = 0; b.z < grid.z; ++b.z)
    for (b.y = 0; b.y < grid.y; ++b.y)
      for (b.x = 0; b.x < grid.x; ++b.x) {
        poison_shared();
        if (now.e->has_collectives) run_block_in_fibers();
        else now.e->block(now.params);
        if (report[0] || shared_overrun()) return;
      }
}

}  // namespace

EXPORT const engine* engine_table() { return &the_engine; }

// Runs a whole launch. 1: `error` says what went wrong, with block and thread.
EXPORT int engine_launch(const gputensor::module* m, const entry* e, const void* params,
                         const index3* grid, const index3* block, unsigned shared_bytes, char* error,
                         size_t room) {
  now = {e->name, e, m, params, shared_bytes};
  *m->grid_dim = *grid;
  *m->block_dim = *block;
  *m->thread_index = {0, 0, 0};
  thread_count = block->x * block->y * block->z;
  aborted = false;
  report[0] = 0;
  running = nullptr;
  if (e->has_collectives && !get_stacks()) {
    snprintf(error, room, "no memory for the stacks of its threads");
    return 1;
  }
  if (sanitized) {
    __asan_set_error_report_callback(on_sanitizer_report);
    __sanitizer_set_report_fd((void*)(intptr_t)2);
    __asan_poison_memory_region(m->dynamic_shared + shared_bytes, m->dynamic_shared_size - shared_bytes);
  }
  watch_signals();
  if (!sigsetjmp(escape, 1)) run_grid(*grid);
  unwatch_signals();
  running = nullptr;
  if (sanitized) __asan_unpoison_memory_region(m->dynamic_shared, m->dynamic_shared_size);
  if (!report[0]) return 0;
  snprintf(error, room, "%s", report);
  return 1;
}
