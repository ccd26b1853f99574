// Address ranges of device memory. Each allocation has its own pages in one reserved range, far
// from the next allocation. A wrong index in a kernel therefore reaches an inaccessible page, not
// the process's own memory. A 32-bit index never leaves the range.
#pragma once

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

constexpr size_t GAP = 1303 << 12;       // between allocations; not a stride of a usual array
constexpr size_t REACH = 16ull << 30;    // on both sides: 2^31 elements of 8 bytes
constexpr size_t RANGE = 1ull << 40;
constexpr unsigned MAX_SLOTS = 20000;  // each slot splits a mapping; Linux allows 65530 per process
// in pages; freed slots up to this size stay accessible while slots are not scarce
constexpr size_t SMALL = 16;

struct free_slots {
  unsigned char** items;
  size_t count, room;
};
free_slots ready[160], closed[160];  // by class: accessible, inaccessible
unsigned char *arena_begin, *arena_next, *arena_end;  // begin is null if no range was reserved
size_t page_size;
unsigned open_slots;  // accessible slots, in use or free

// Each page count up to SMALL is a class. Above it there are four classes for each power of two.
unsigned class_of(size_t pages) {
  if (pages <= SMALL) return (unsigned)pages;
  const unsigned log2 = 63 - (unsigned)__builtin_clzll(pages - 1);
  const size_t step = (size_t)1 << (log2 - 2);
  return (unsigned)(SMALL + (log2 - 4) * 4 + (pages - 1 - ((size_t)1 << log2)) / step + 1);
}

size_t pages_of(unsigned of_class) {
  if (of_class <= SMALL) return of_class;
  const unsigned log2 = (of_class - SMALL - 1) / 4 + 4, quarter = (of_class - SMALL - 1) % 4 + 1;
  return ((size_t)1 << log2) + ((size_t)quarter << (log2 - 2));
}

// The number of bytes that may be reserved: half of the process's limit (`ulimit -v`), if it has
// one.
size_t most_reserved() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return ~(size_t)0;
  return limit.rlim_cur / 2;
}

void reserve_arena() {
  page_size = (size_t)sysconf(_SC_PAGESIZE);
  const size_t most = most_reserved();
  for (size_t range = RANGE; range >= RANGE >> 8 && !arena_begin; range >>= 4) {
    if (range + 2 * REACH > most) continue;
    void* p = mmap(nullptr, range + 2 * REACH, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    madvise(p, range + 2 * REACH, MADV_DONTDUMP);
    arena_begin = (unsigned char*)p;
    arena_next = arena_begin + REACH;
    arena_end = arena_next + range;
  }
}

// Take addresses from the range. They stay inaccessible until mprotect. Null if none are left.
unsigned char* carve(size_t nbytes) {
  if (!arena_begin || nbytes + GAP > (size_t)(arena_end - arena_next)) return nullptr;
  unsigned char* p = arena_next;
  arena_next += (nbytes + GAP + page_size - 1) / page_size * page_size;
  return p;
}

// Accessible memory for the engine itself, at the far end of the range, which no index that leaves
// a tensor reaches. Null if there is none.
unsigned char* carve_far(size_t nbytes) {
  if (!arena_begin) return nullptr;  // under a sanitizer, which has its own memory
  const size_t room = (nbytes + GAP + page_size - 1) / page_size * page_size;
  if (room > (size_t)(arena_end - arena_next)) return nullptr;
  arena_end -= room;
  return mprotect(arena_end, nbytes, PROT_READ | PROT_WRITE) ? nullptr : arena_end;
}

void keep(free_slots& known, unsigned char* slot) {
  if (known.count == known.room) {
    known.room = known.room ? known.room * 2 : 16;
    known.items = (unsigned char**)realloc((void*)known.items, known.room * sizeof *known.items);
  }
  known.items[known.count++] = slot;
}

void close_slot(unsigned c, unsigned char* slot) {
  madvise(slot, pages_of(c) * page_size, MADV_DONTNEED);
  mprotect(slot, pages_of(c) * page_size, PROT_NONE);
  keep(closed[c], slot);
  --open_slots;
}

// Return whole pages that end before an inaccessible page. Null if the process has no mappings or
// addresses left.
unsigned char* take_pages(size_t pages) {
  const unsigned c = class_of(pages);
  const size_t unused = pages_of(c) * page_size - pages * page_size;
  if (ready[c].count) return ready[c].items[--ready[c].count] + unused;
  for (unsigned small = 1; open_slots >= MAX_SLOTS && small <= SMALL; ++small)
    while (ready[small].count) close_slot(small, ready[small].items[--ready[small].count]);
  if (open_slots >= MAX_SLOTS) return nullptr;
  unsigned char* slot =
      closed[c].count ? closed[c].items[--closed[c].count] : carve(pages_of(c) * page_size);
  if (!slot) return nullptr;
  if (mprotect(slot + unused, pages * page_size, PROT_READ | PROT_WRITE)) {
    keep(closed[c], slot);
    return nullptr;
  }
  ++open_slots;
  return slot + unused;
}

void give_pages(unsigned char* begin, size_t pages) {
  const unsigned c = class_of(pages);
  unsigned char* slot = begin + pages * page_size - pages_of(c) * page_size;
  if (pages > SMALL) close_slot(c, slot);
  else keep(ready[c], slot);
}

}  // namespace
