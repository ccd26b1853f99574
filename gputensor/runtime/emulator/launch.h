// The machine under an emulated CUDA device; this file is compiled, the others are parts of it.
//
// A kernel without barriers runs its threads in a plain loop, one with them in fibers. One launch
// at a time: the caller holds a lock. Streams and events live above, in Python.
#pragma once

#include "faults.h"

namespace {

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
                         const index3* grid, const index3* block, unsigned shared_bytes,
                         char* error, size_t room) {
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
    __asan_poison_memory_region(m->dynamic_shared + shared_bytes,
                                m->dynamic_shared_size - shared_bytes);
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
