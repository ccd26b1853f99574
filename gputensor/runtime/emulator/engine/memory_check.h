// Checks of every load and store of an instrumented kernel: whether the address is allowed, whether
// shared memory was written before, and whether two threads race for a word.
//
// A race is two accesses of one word by two threads, of which at least one is a write and at least
// one is not atomic, without an order between them. An order is a barrier of the block, a
// __syncwarp of both lanes, or a __threadfence and atomic operation of the first thread followed by
// an atomic operation of the second. Two writes of the same value are allowed. Of many readers of a
// word, the first and the last are stored.
//
// A kernel may use the memory that its parameters and its variables point to, directly or through
// pointers in that memory. The memory of other tensors is out of bounds.
#pragma once

#include "fibers.h"

namespace {

struct options {
  int device;
  unsigned reachable;   // a bit for each device whose memory may be used
  int order;            // of blocks, and of threads between barriers
  unsigned long long seed;
  unsigned long long limit_ms;  // 0: no time limit
  int check_writes, check_memory, check_fresh, check_races;
};
options chosen;

// The last access of a word. A stamp of 0 belongs to no launch.
struct touch {
  unsigned stamp, block, epoch, time, tick;
  unsigned thread : 16, bytes : 4, kind : 4;
  void* pc;
};
struct cell {
  touch write, reads[2];
};
struct cells {
  size_t nbytes;
  cell* first;
};

unsigned launch_stamp, tick;
unsigned epoch;                     // number of barriers that the running block has passed
unsigned clocks[MAX_THREADS];       // per thread: number of __syncwarp passed
// per thread and lane: the clock of the lane up to which its accesses are ordered before the thread
unsigned known[MAX_THREADS][32];
struct publication {
  unsigned fenced, published, acquired;
};
publication of_thread[MAX_THREADS];
publication* of_block;              // by linear index of the block in this launch
size_t of_block_bytes;
unsigned linear_block;
cells shared_cells[2];              // dynamic, static
unsigned char* fresh_bytes[2];      // 0 for bytes of shared memory that were not written
size_t fresh_room[2];
struct symbol_cells {
  const symbol* of;
  cells c;
};
symbol_cells of_symbols[64];
unsigned symbol_count;

const unsigned char *cached_begin, *cached_end;
cells* cached_cells;
const unsigned char* stack_top;  // of the thread that runs plain kernels, which has no fiber stack
unsigned oldest_known;              // index of the known range that is replaced next
bool traced;                        // the memory that this launch may reach has been marked

struct {
  bool active;
  finding what;
  const unsigned char* address;
  unsigned size;
  unsigned char before[16];
} pending;  // a second write, which is a race unless it writes the same value

void free_cells(cells& c) {
  if (c.first) munmap(c.first, (c.nbytes / 4 + 2) * sizeof(cell));
  c = {0, nullptr};
}

void make_cells(cells& c, size_t nbytes) {
  if (c.first && c.nbytes >= nbytes) return;
  free_cells(c);
  void* p = mmap(nullptr, (nbytes / 4 + 2) * sizeof(cell), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED) c = {nbytes, (cell*)p};
}

void free_shadow(const allocation& a) {
  if (!a.shadow) return;
  free_cells(*(cells*)a.shadow);
  free(a.shadow);
}

unsigned linear_thread() {
  if (running) return (unsigned)(running - fibers);
  const index3 &t = *now.m->thread_index, &d = *now.m->block_dim;
  return (t.z * d.y + t.y) * d.x + t.x;
}

index3 thread_at(unsigned i) {
  const index3& d = *now.m->block_dim;
  return {i % d.x, i / d.x % d.y, i / d.x / d.y};
}

index3 block_at(unsigned i) {
  const index3& g = *now.m->grid_dim;
  return {i % g.x, i / g.x % g.y, i / g.x / g.y};
}

[[noreturn]] void fail_access(const char* what, const void* address, unsigned long long size,
                              access_kind kind, void* pc) {
  write_report(what, nullptr, 0, *now.m->thread_index);
  fault.pc = pc;
  fault.address = address;
  fault.size = size;
  fault.kind = kind;
  leave();
}

bool is_ordered(const touch& before, unsigned thread, bool is_shared) {
  if (before.stamp != launch_stamp) return true;
  publication first, second;
  if (before.block != linear_block) {
    if (is_shared) return true;
    first = of_block[before.block];
    second = of_block[linear_block];
  } else {
    if (before.thread == thread || before.epoch != epoch) return true;
    if (before.thread / 32 == thread / 32 && known[thread][before.thread % 32] > before.time)
      return true;
    first = of_thread[before.thread];
    second = of_thread[thread];
  }
  return before.tick < first.fenced && first.published && second.acquired > first.published;
}

void settle_pending() {
  pending.active = false;
  if (memcmp(pending.before, pending.address, pending.size) == 0) return;
  fault = pending.what;
  leave();
}

void describe_race(const touch& first, unsigned long long address, unsigned size, access_kind kind,
                   void* pc) {
  fault = {};
  snprintf(fault.what, sizeof fault.what, "race");
  fault.block = *now.m->block_index;
  fault.thread = *now.m->thread_index;
  fault.address = (const void*)address;
  fault.size = size;
  fault.kind = kind;
  fault.pc = pc;
  fault.other_pc = first.pc;
  fault.other_kind = (int)first.kind;
  fault.other_block = block_at(first.block);
  fault.other_thread = thread_at(first.thread);
}

void check_race(cells& c, size_t offset, const unsigned char* address, unsigned long long size,
                access_kind kind, void* pc, bool is_shared) {
  const unsigned thread = linear_thread();
  for (unsigned long long done = 0; done < size;) {
    const size_t at = offset + done;
    const unsigned skip = at % 4;
    const unsigned here = size - done < 4 - skip ? (unsigned)(size - done) : 4 - skip;
    const unsigned bytes = ((1u << here) - 1) << skip;
    cell& word = c.first[at / 4];
    const touch* other = nullptr;
    if (word.write.bytes & bytes && !(kind == ATOMIC && word.write.kind == ATOMIC) &&
        !is_ordered(word.write, thread, is_shared))
      other = &word.write;
    for (int r = 0; r < 2 && kind != READ && !other; ++r)
      if (word.reads[r].bytes & bytes && !is_ordered(word.reads[r], thread, is_shared))
        other = &word.reads[r];
    if (other) {
      const finding kept = fault;
      describe_race(*other, (unsigned long long)address, (unsigned)size, kind, pc);
      if (!(kind == WRITE && other->kind == WRITE && size <= sizeof pending.before)) leave();
      pending.active = true;
      pending.what = fault;
      pending.address = address;
      pending.size = (unsigned)size;
      memcpy(pending.before, address, size);
      fault = kept;
    }
    const touch mine = {launch_stamp, linear_block, epoch, clocks[thread], tick,
                        thread, bytes, (unsigned)kind, pc};
    if (kind != READ) {
      // several threads may write parts of a word without a race
      const bool joins = word.write.stamp == launch_stamp && word.write.block == linear_block &&
                         word.write.epoch == epoch && word.write.thread == thread;
      const unsigned earlier = joins ? word.write.bytes : 0;
      word.write = mine;
      word.write.bytes = (bytes | earlier) & 15;
    } else if (word.reads[0].thread == thread || is_ordered(word.reads[0], thread, is_shared)) {
      word.reads[0] = mine;
    } else {
      word.reads[1] = mine;
    }
    done += here;
  }
}

// True if each access needs a check other than its address.
bool asks_each() { return chosen.check_races || chosen.check_fresh; }

size_t image_bytes() { return (size_t)(now.image_end - now.image_begin); }

void remember(const unsigned char* begin, size_t nbytes) {
  if (!asks_each()) known_ranges[oldest_known++ % OWN_STACK] = {begin, nbytes};
}

void forget_known() {
  for (known_range& range : known_ranges) range.nbytes = 0;
}

// Return the allocation that a kernel's pointer argument belongs to. The pointer may be one past
// the end, or shortly before the begin, as for an array with indices from 1.
allocation* meant(const void* raw) {
  const unsigned char* p = (const unsigned char*)raw;
  if (table_size == 0 || p + 64 < table[0].begin) return nullptr;
  const size_t after = position(p);
  if (after && p <= table[after - 1].begin + table[after - 1].nbytes) return &table[after - 1];
  if (after < table_size && table[after].begin - p <= 64) return &table[after];
  return nullptr;
}

// Mark the memory that words between two addresses point to. True if some was not marked before.
bool mark_from(const void* begin, size_t nbytes) {
  bool grew = false;
  for (size_t at = 0; at + 8 <= nbytes; at += 8) {
    void* p;
    memcpy(&p, (const char*)begin + at, 8);
    allocation* a = meant(p);
    if (!a || a->used == launch_stamp) continue;
    a->used = launch_stamp;
    grew = true;
  }
  return grew;
}

// True if an allocation is reachable from the launch's parameters or from the kernel's variables,
// directly or through other memory.
bool may_reach(const allocation& a) {
  if (a.used == launch_stamp) return true;
  if (traced) return false;
  traced = true;
  for (const symbol* s = now.m->first_symbol; s; s = s->next) mark_from(s->address, s->nbytes);
  unsigned char* seen = (unsigned char*)calloc(table_size, 1);
  for (bool grew = seen != nullptr; grew;) {
    grew = false;
    for (size_t i = 0; i < table_size; ++i) {
      if (table[i].used != launch_stamp || seen[i]) continue;
      seen[i] = 1;
      grew |= mark_from(table[i].begin, table[i].nbytes);
    }
  }
  if (!seen) return true;
  free(seen);
  return a.used == launch_stamp;
}

// Check an access of shared memory; `part` is 0 for dynamic, 1 for static.
void access_shared(int part, size_t offset, const unsigned char* address, unsigned long long size,
                   access_kind kind, void* pc) {
  if (chosen.check_fresh) {
    unsigned char* written = fresh_bytes[part] + offset;
    if (kind == WRITE) {
      memset(written, 1, size);
    } else {
      bool any = false;
      for (unsigned long long i = 0; i < size; ++i) any |= written[i];
      if (!any) fail_access("uninitialised shared memory", address, size, kind, pc);
    }
  }
  if (chosen.check_races && shared_cells[part].first)
    check_race(shared_cells[part], offset, address, size, kind, pc, true);
}

void note_atomic(publication& who) {
  who.acquired = tick;
  if (who.fenced) who.published = tick;
}

void access(const void* raw, unsigned long long size, access_kind kind, void* pc) {
  const unsigned char* p = (const unsigned char*)raw;
  if (stop_asked) stop_here(stop_asked, pc);
  // A kernel that was built with checks, launched after the checks were disabled.
  if (!chosen.check_writes && !chosen.check_memory && !asks_each()) return;
  if (pending.active) settle_pending();
  if (kind == ATOMIC) {
    const unsigned t = linear_thread();
    ++tick;
    note_atomic(of_thread[t]);
    if (of_block) note_atomic(of_block[linear_block]);
  }
  if (p >= cached_begin && p + size <= cached_end) {
    if (cached_cells)
      check_race(*cached_cells, (size_t)(p - cached_begin), p, size, kind, pc, false);
    return;
  }
  const unsigned char* dynamic = now.m->dynamic_shared;
  if (p >= dynamic && p < dynamic + now.m->dynamic_shared_size) {
    if (p + size > dynamic + now.shared_bytes) {
      char what[80];
      snprintf(what, sizeof what, "past the %u bytes of dynamic shared memory", now.shared_bytes);
      fail_access(what, raw, size, kind, pc);
    }
    access_shared(0, (size_t)(p - dynamic), p, size, kind, pc);
    remember(dynamic, now.shared_bytes);
    return;
  }
  if (p >= now.shared_begin && p + size <= now.shared_end) {
    access_shared(1, (size_t)(p - now.shared_begin), p, size, kind, pc);
    remember(now.shared_begin, (size_t)(now.shared_end - now.shared_begin));
    return;
  }
  if (running) {
    const unsigned char* low = stacks + (running - fibers) * stack_size;
    if (p >= low && p < low + stack_size) return;
    if (p >= stacks && p < stacks + MAX_THREADS * stack_size)
      fail_access("local memory of another thread", raw, size, kind, pc);
  } else if (grid_stack ? p >= grid_stack && p < grid_stack + GRID_STACK
                        : p >= (const unsigned char*)__builtin_frame_address(0) && p < stack_top) {
    return;
  }
  if (p >= now.image_begin && p < now.image_end) {
    for (const symbol* s = now.m->first_symbol; s; s = s->next) {
      const unsigned char* begin = (const unsigned char*)s->address;
      if (p < begin || p + size > begin + s->nbytes) continue;
      remember(begin, s->nbytes);
      for (unsigned i = 0; chosen.check_races && i < symbol_count; ++i)
        if (of_symbols[i].of == s && of_symbols[i].c.first)
          check_race(of_symbols[i].c, (size_t)(p - begin), p, size, kind, pc, false);
      return;
    }
    if (kind == READ) {
      if (!asks_each()) known_ranges[READABLE] = {now.image_begin, image_bytes()};
      return;
    }
    fail_access("past static shared memory", raw, size, kind, pc);
  }
  allocation* a = find(p);
  if (!a || p + size > a->begin + a->nbytes || !may_reach(*a))
    fail_access("out of bounds", raw, size, kind, pc);
  if (a->device >= 0 && a->device != chosen.device && !(chosen.reachable >> a->device & 1))
    fail_access("memory of another device", raw, size, kind, pc);
  remember(a->begin, a->nbytes);
  cached_begin = a->begin;
  cached_end = a->begin + a->nbytes;
  cached_cells = nullptr;
  if (chosen.check_races) {
    if (!a->shadow) a->shadow = calloc(1, sizeof(cells));
    make_cells(*(cells*)a->shadow, a->nbytes);
    if (((cells*)a->shadow)->first) cached_cells = (cells*)a->shadow;
    if (cached_cells) check_race(*cached_cells, (size_t)(p - a->begin), p, size, kind, pc, false);
  }
}

// __threadfence: a thread whose atomic operation reads a later atomic operation of this thread also
// sees its earlier writes. For __threadfence_block, only within the block.
void fence(int is_of_block) {
  ++tick;
  of_thread[linear_thread()].fenced = tick;
  if (of_block && !is_of_block) of_block[linear_block].fenced = tick;
}

// False if there is no memory for the requested checks.
bool begin_checked_launch(unsigned long long blocks) {
  forget_known();
  traced = false;
  if (grid_stack && !asks_each()) {
    known_ranges[OWN_STACK] = {grid_stack, now.e->has_collectives ? stack_size : GRID_STACK};
  }
  cached_begin = cached_end = nullptr;
  cached_cells = nullptr;
  pending.active = false;
  ++launch_stamp;
  tick = 0;
  if (chosen.check_writes || chosen.check_memory || asks_each())
    mark_from(now.params, now.e->params_size);
  if (of_block) munmap(of_block, of_block_bytes);
  of_block = nullptr;
  const size_t sizes[2] = {now.shared_bytes, (size_t)(now.shared_end - now.shared_begin)};
  for (int part = 0; part < 2; ++part)
    if (sizes[part] > fresh_room[part]) {
      fresh_bytes[part] = (unsigned char*)realloc(fresh_bytes[part], sizes[part]);
      fresh_room[part] = sizes[part];
    }
  if (!chosen.check_races) return true;
  // only touched pages take memory
  of_block_bytes = (size_t)blocks * sizeof(publication);
  void* room = blocks > ~0u ? MAP_FAILED
                            : mmap(nullptr, of_block_bytes, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  of_block = (publication*)room;
  for (int part = 0; part < 2; ++part)
    if (sizes[part]) make_cells(shared_cells[part], sizes[part]);
  for (unsigned i = 0; i < symbol_count; ++i) free_cells(of_symbols[i].c);
  symbol_count = 0;
  for (const symbol* s = now.m->first_symbol; s && symbol_count < 64; s = s->next) {
    of_symbols[symbol_count] = {s, {0, nullptr}};
    make_cells(of_symbols[symbol_count++].c, s->nbytes);
  }
  return true;
}

void begin_checked_block(unsigned number) {
  linear_block = number;
  epoch = 0;
  if (chosen.check_fresh) {
    if (now.shared_bytes) memset(fresh_bytes[0], 0, now.shared_bytes);
    if (now.shared_begin)
      memset(fresh_bytes[1], 0, (size_t)(now.shared_end - now.shared_begin));
  }
  if (!chosen.check_races) return;
  memset(clocks, 0, sizeof(unsigned) * thread_count);
  memset(known, 0, sizeof(known[0]) * thread_count);
  memset(of_thread, 0, sizeof(publication) * thread_count);
}

void pass_block_barrier() { ++epoch; }

// Called at the end of a block. False if the last write was a race.
bool pending_settled() {
  if (!pending.active) return true;
  pending.active = false;
  if (memcmp(pending.before, pending.address, pending.size) == 0) return true;
  fault = pending.what;
  return false;
}

// The lanes of `here` have passed one __syncwarp together.
void join_lanes(unsigned first, unsigned here) {
  if (!chosen.check_races) return;
  unsigned all[32] = {};
  for (unsigned i = 0; i < 32; ++i) {
    if (!(here >> i & 1)) continue;
    known[first + i][i] = ++clocks[first + i];
    for (unsigned j = 0; j < 32; ++j)
      if (known[first + i][j] > all[j]) all[j] = known[first + i][j];
  }
  for (unsigned i = 0; i < 32; ++i)
    if (here >> i & 1) memcpy(known[first + i], all, sizeof all);
}

}  // namespace
