// The engine of an emulated CUDA device. This file is compiled; it includes the other parts.
//
// A kernel without barriers runs its threads in a plain loop, a kernel with barriers runs them in
// fibers. One launch runs at a time: the caller holds a lock. Streams and events are implemented in
// Python.
#pragma once

#include <link.h>
#include <time.h>

#include "faults.h"

namespace {

// Static and dynamic shared memory start with garbage on a GPU; here they start as NaN and -1. The
// bytes are set one by one, since libasan intercepts memset and red zones lie between the
// variables.
void poison_shared() {
  volatile unsigned char* p = now.shared_begin;
  if (p && !sanitized) memset((void*)p, FRESH, (size_t)(now.shared_end - now.shared_begin));
  else if (p)
    for (; p < now.shared_end; ++p) *p = FRESH;
  if (now.shared_bytes) memset(now.m->dynamic_shared, FRESH, now.shared_bytes);
  if (checks) memset(now.m->dynamic_shared + now.shared_bytes, GUARDED, NEAR);
}

bool shared_overrun() {
  const unsigned char* end = now.m->dynamic_shared + now.shared_bytes;
  if (!checks || filled(end, NEAR, GUARDED)) return false;
  char what[160];
  snprintf(what, sizeof what, "wrote past the %u bytes of dynamic shared memory of its launch",
           now.shared_bytes);
  write_report(what, nullptr, 0, {~0u, 0, 0});
  return true;
}

unsigned gcd(unsigned a, unsigned b) { return b ? gcd(b, a % b) : a; }

void run_grid(const index3& grid) {
  index3& b = *now.m->block_index;
  const unsigned long long total = 1ull * grid.x * grid.y * grid.z;
  // a random order: k -> k * step + start visits each block once
  unsigned long long step = 1, start = 0;
  if (thread_order == RANDOM && total > 2 && total < 1u << 31) {
    do step = 1 + draw((unsigned)total - 1);
    while (gcd((unsigned)step, (unsigned)total) != 1);
    start = draw((unsigned)total);
  }
  for (unsigned long long k = 0; k < total; ++k) {
    unsigned long long i = k;
    if (thread_order == REVERSED) i = total - 1 - k;
    else if (thread_order == RANDOM) i = (k * step + start) % total;
    b = {(unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y), (unsigned)(i / grid.x / grid.y)};
    if (stop_asked) stop_here(stop_asked, nullptr);
    poison_shared();
    begin_checked_block((unsigned)i);
    if (now.e->has_collectives) run_block_in_fibers();
    else if (thread_order == FORWARD) now.e->block(now.params);
    else run_block_permuted();
    if (fault.what[0] || shared_overrun() || !pending_settled()) return;
  }
}

unsigned long long clock_now() {
  if (stop_asked) stop_here(stop_asked, __builtin_return_address(0));
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec;
}

// The address range of the shared object that contains `inside_it`.
struct image {
  const unsigned char *inside_it, *begin, *end;
};
int find_image(dl_phdr_info* info, size_t, void* raw) {
  image& wanted = *(image*)raw;
  const unsigned char *begin = nullptr, *end = nullptr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const unsigned char* p = (const unsigned char*)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (!begin || p < begin) begin = p;
    if (p + info->dlpi_phdr[i].p_memsz > end) end = p + info->dlpi_phdr[i].p_memsz;
  }
  if (wanted.inside_it < begin || wanted.inside_it >= end) return 0;
  wanted.begin = begin;
  wanted.end = end;
  return 1;
}

// A user's static shared memory, in the thread-local storage of the kernel's shared object.
int find_shared(dl_phdr_info* info, size_t, void* raw) {
  const unsigned char* anchor = *(const unsigned char**)raw;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS || !info->dlpi_tls_data) continue;
    unsigned char* begin = (unsigned char*)info->dlpi_tls_data;
    if (anchor < begin || anchor >= begin + info->dlpi_phdr[i].p_memsz) continue;
    now.shared_begin = begin;
    now.shared_end = begin + info->dlpi_phdr[i].p_memsz;
    return 1;
  }
  return 0;
}

// The output of kernels. It is written when it becomes large and at the end of a launch.
char printed[1 << 14];
size_t printed_bytes;

void write_printed() {
  fwrite(printed, 1, printed_bytes, stdout);
  printed_bytes = 0;
  fflush(stdout);
}

void print(const char* text, unsigned long long size) {
  if (stop_asked) stop_here(stop_asked, __builtin_return_address(0));
  if (size > sizeof printed - printed_bytes) write_printed();
  memcpy(printed + printed_bytes, text, size);
  printed_bytes += size;
}

engine the_engine = {meet, fail_here, access, fence, clock_now, print, known_ranges, nullptr};

unsigned char* get_shared() {
  alignas(1024) static unsigned char own[MAX_SHARED + 1024];
  unsigned char* p = carve_far(256 * 1024);
  return p ? p : own;
}

void on_grid_stack() {
  run_grid(*now.m->grid_dim);
  switch_context(grid, caller);
}

// On a separate stack, so that a stack overflow or a wrong index into a local array does not damage
// the process's own stack.
void run_on_grid_stack() {
  begin_context(grid, grid_stack, GRID_STACK, on_grid_stack);
  switch_context(caller, grid);
}

void get_grid_stack() {
  if (grid_stack || sanitized) return;
  grid_stack = carve_far(GRID_STACK);
}

}  // namespace

EXPORT size_t engine_gap() {
  return GAP;
}

EXPORT size_t engine_reach() {
  return REACH;
}

EXPORT const engine* engine_table() {
  if (!the_engine.dynamic_shared) the_engine.dynamic_shared = get_shared();
  return &the_engine;
}

// End the running kernel, as Ctrl-C in another thread does.
EXPORT void engine_stop() {
  const pid_t thread = running_thread;
  if (!thread) return;
  stop_asked = SIGURG;
  syscall(SYS_tgkill, getpid(), thread, SIGURG);
}

// Bounds of a module's shared object, for engine_launch.
EXPORT void engine_image(const gputensor::module* m, const void** begin, const void** end) {
  image found = {(const unsigned char*)m, nullptr, nullptr};
  dl_iterate_phdr(find_image, &found);
  *begin = found.begin;
  *end = found.end;
}

// Return the shared object of an instruction and the offset in it, for addr2line. 0 if it is in
// none.
EXPORT size_t engine_offset(void* pc, char* object, size_t room) {
  Dl_info info;
  if (!pc || !dladdr(pc, &info) || !info.dli_fname) return 0;
  snprintf(object, room, "%s", info.dli_fname);
  return (size_t)((char*)pc - (char*)info.dli_fbase);
}

// Run a whole launch. Returns 1 if it failed; `result` has the reason.
EXPORT int engine_launch(const gputensor::module* m, const entry* e, const void* params,
                         const index3* grid, const index3* block, unsigned shared_bytes,
                         const options* with, const void* image_begin, const void* image_end,
                         finding* result) {
  now = {e->name, e, m, params, shared_bytes, (const unsigned char*)image_begin,
         (const unsigned char*)image_end, e->shared_begin, e->shared_end};
  if (m->shared_anchor) {
    void* anchor = m->shared_anchor();
    dl_iterate_phdr(find_shared, &anchor);
  }
  chosen = *with;
  thread_order = chosen.order;
  chance = chosen.seed * 2654435761ull + 88172645463325252ull;
  *m->grid_dim = *grid;
  *m->block_dim = *block;
  *m->thread_index = {0, 0, 0};
  thread_count = block->x * block->y * block->z;
  aborted = false;
  stop_asked = 0;
  fault = {};
  running = nullptr;
  stack_top = (const unsigned char*)__builtin_frame_address(0);
  *result = {};
  result->thread.x = ~0u;
  if (e->has_collectives && !get_stacks()) {
    snprintf(result->what, sizeof result->what, "no memory for the stacks of its threads");
    return 1;
  }
  if (sanitized) {
    __asan_set_error_report_callback(on_sanitizer_report);
    __sanitizer_set_report_fd((void*)(intptr_t)2);
    __asan_poison_memory_region(m->dynamic_shared + shared_bytes,
                                m->dynamic_shared_size - shared_bytes);
  }
  get_grid_stack();
  if (!begin_checked_launch(1ull * grid->x * grid->y * grid->z)) {
    snprintf(result->what, sizeof result->what,
             "the check 'race' has no memory for %llu blocks; a smaller grid, or another check",
             1ull * grid->x * grid->y * grid->z);
    return 1;
  }
  watch_signals();
  if (!sigsetjmp(escape, 1)) {
    if (grid_stack) run_on_grid_stack();
    else run_grid(*grid);
  }
  unwatch_signals();
  running = nullptr;
  if (sanitized) __asan_unpoison_memory_region(m->dynamic_shared, m->dynamic_shared_size);
  if (printed_bytes) write_printed();
  if (!fault.what[0]) return 0;
  *result = fault;
  return 1;
}
