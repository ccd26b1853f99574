// Device memory of the emulator. Each allocation has its own pages (arena.h), tagged with its
// device. The unused bytes of the pages are guard bytes. Freed memory is filled and kept for a
// while, so that a late write is detected.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "sanitizer.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t ALIGNMENT = 512;        // as for cudaMalloc
constexpr size_t GUARD = 512;  // guard bytes on each side of an allocation without its own pages
constexpr size_t NEAR = 64;              // the part of a guard that is checked after every launch
// bytes of freed memory, with guards, that are kept for a while
constexpr size_t QUARANTINE = 32 << 20;
constexpr unsigned char FRESH = 0xff, GUARDED = 0xbd, FREED = 0xdd;

// dropped: no tensor refers to it, but queued work may still use it
enum state : int { LIVE, DROPPED };

struct allocation {
  unsigned char* begin;
  size_t nbytes;
  unsigned char* raw;
  size_t pages;       // 0 if raw comes from the C library
  size_t head, tail;  // sizes of the guards
  int device;
  int state;
  void* shadow;   // for the race check; allocated when a kernel first touches the memory
  unsigned used;  // stamp of the last launch that could reach it from its parameters

  size_t room() const { return head + nbytes + tail; }
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

// The allocation that contains p. The address after its end counts only for an empty range.
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

// Write a sentence about a damaged guard. False if both are intact, checked up to `width` bytes.
bool guard_broken(const allocation& a, size_t width, char* error, size_t room) {
  unsigned char* end = a.begin + a.nbytes;
  const size_t behind = a.tail < width ? a.tail : width, before = a.head < width ? a.head : width;
  if (!filled(end, behind, GUARDED)) {
    size_t i = 0;
    while (end[i] == GUARDED) ++i;
    snprintf(error, room,
             "wrote out of bounds: %zu bytes past the end of an allocation of %zu bytes at %p on "
             "device %d",
             i, a.nbytes, (void*)a.begin, a.device);
    // repair all of it, so that the same kernel is not reported twice
    memset(end, GUARDED, a.tail);
    return true;
  }
  if (!filled(a.begin - before, before, GUARDED)) {
    const unsigned char* p = a.begin - 1;
    while (*p == GUARDED) --p;
    const size_t i = (size_t)(a.begin - p);
    snprintf(error, room,
             "wrote out of bounds: %zu bytes before the begin of an allocation of %zu bytes at %p "
             "on device %d",
             i, a.nbytes, (void*)a.begin, a.device);
    memset(a.begin - a.head, GUARDED, a.head);
    return true;
  }
  return false;
}

void describe_late_write(const allocation& a, char* error, size_t room) {
  snprintf(error, room,
           "memory of %zu bytes at %p on device %d was written to after it was freed; a stream "
           "used it without record_stream, or an index led there",
           a.nbytes, (void*)a.begin, a.device);
}

void free_shadow(const allocation&);

template <class T>
void make_room(T*& items, size_t used, size_t& room) {
  if (used < room) return;
  room = room ? room * 2 : 256;
  items = (T*)realloc((void*)items, room * sizeof(T));
}

// Allocate so that the end is as close to the end of a page as the alignment permits. The next page
// is inaccessible.
bool place(allocation& a, size_t nbytes) {
  const size_t span = (nbytes + (nbytes == 0) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  const size_t pages = sanitized ? 0 : (span + page_size - 1) / page_size;
  if (unsigned char* raw = pages ? take_pages(pages) : nullptr) {
    a.raw = raw;
    a.pages = pages;
    a.head = pages * page_size - span;
    a.tail = span - nbytes;
  } else {
    void* p;
    a.head = a.tail = sanitized ? 0 : GUARD;  // libasan has its own red zones
    if (posix_memalign(&p, ALIGNMENT, nbytes + a.head + a.tail)) return false;
    a.raw = (unsigned char*)p;
    a.pages = 0;
  }
  a.begin = a.raw + a.head;
  a.nbytes = nbytes;
  return true;
}

void give_back(const allocation& a) {
  if (a.pages) give_pages(a.raw, a.pages);
  else free(a.raw);
}

}  // namespace

EXPORT void engine_configure(int with_checks) {
  sanitized = __asan_unpoison_memory_region != nullptr;
  checks = with_checks && !sanitized;
  if (!sanitized && !arena_begin) reserve_arena();
}

EXPORT void* engine_allocate(size_t nbytes, int device) {
  allocation a = {};
  if (!place(a, nbytes)) return nullptr;
  a.device = device;
  memset(a.raw, GUARDED, a.head);
  memset(a.begin + nbytes, GUARDED, a.tail);
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

// Free memory whose queued work has run. Returns 1 if a guard was damaged or memory freed before
// was written to; `error` has the sentence.
EXPORT int engine_free(void* p, char* error, size_t room) {
  size_t at = position(p) - 1;
  allocation a = table[at];
  int wrong = checks && guard_broken(a, ~(size_t)0, error, room);
  free_shadow(a);
  memmove(table + at, table + at + 1, (table_size - at - 1) * sizeof(allocation));
  --table_size;
  if (!checks) {
    give_back(a);
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
  quarantine_bytes += a.room();
  while (quarantine_bytes > QUARANTINE) {
    allocation old = quarantine[quarantine_first++];
    quarantine_bytes -= old.room();
    if (!wrong && !filled(old.begin, old.nbytes, FREED)) {
      describe_late_write(old, error, room);
      wrong = 1;
    }
    give_back(old);
  }
  return wrong;
}

// Check the guards of all memory: completely for memory that a launch's parameters point to,
// otherwise only the nearest part. Returns 1 for a damaged guard; `error` describes the first.
EXPORT int engine_check(const void* params, size_t size, char* error, size_t room) {
  for (size_t at = 0; checks && at + 8 <= size; at += 8) {
    void* p;
    memcpy(&p, (const char*)params + at, 8);
    const allocation* a = table_size && p >= table[0].begin ? find(p) : nullptr;
    if (a && guard_broken(*a, ~(size_t)0, error, room)) return 1;
  }
  if (checks)
    for (size_t i = 0; i < table_size; ++i)
      if (guard_broken(table[i], NEAR, error, room)) return 1;
  return 0;
}

// Check freed memory that is still kept. Returns 1 for a late write; `error` describes it.
EXPORT int engine_check_freed(char* error, size_t room) {
  for (size_t i = quarantine_first; checks && i < quarantine_end; ++i)
    if (!filled(quarantine[i].begin, quarantine[i].nbytes, FREED)) {
      describe_late_write(quarantine[i], error, room);
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

// The allocation that contains p, or the one whose begin or end is nearest to p.
EXPORT int engine_nearest(const void* p, found* result) {
  if (table_size == 0) return 0;
  const unsigned char* at = (const unsigned char*)p;
  const size_t after = position(p);
  allocation* a = after ? &table[after - 1] : &table[0];
  if (after && after < table_size && at >= a->begin + a->nbytes &&
      table[after].begin - at < at - (a->begin + a->nbytes))
    a = &table[after];
  *result = {a->begin, a->nbytes, a->device, a->state};
  return 1;
}

// Find a word in a parameter struct that points to memory that a kernel on `device` may not use.
// `reachable` has a bit per device with peer access. Returns 0, or 1 + the byte offset of the word.
EXPORT int engine_scan(const void* params, size_t size, int device, unsigned reachable,
                       found* result) {
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
