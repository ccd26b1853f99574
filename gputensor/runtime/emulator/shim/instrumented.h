// The functions that g++ calls at every load and store of a kernel built with -fsanitize=thread, or
// at every store of one built with -fsanitize=kernel-address. They are implemented here and in the
// engine (memory_check.h) instead of by libtsan or an operating system. Part of cuda_on_cpu.h.
#pragma once

#define GPUTENSOR_HOOK                                                                             \
  extern "C" GPUTENSOR_UNCHECKED                                                                   \
      __attribute__((visibility("hidden"), used, section("gputensor_hooks")))
// Variables of the text are initialised before the engine exists.
#define GPUTENSOR_TOUCH(address, size, kind)                                                       \
  if (gputensor::the_engine && !gputensor::is_known(address, size, gputensor::kind))               \
  gputensor::the_engine->access(address, size, gputensor::kind, __builtin_return_address(0))

namespace gputensor {
GPUTENSOR_UNCHECKED inline __attribute__((always_inline)) bool is_known(const void* p, size_t size,
                                                                        access_kind kind) {
  const known_range* known = engine_here.known;
  // every access is checked further, or the kernel is to stop
  if (!known[OWN_STACK].nbytes) return false;
  for (int i = 0; i <= (kind == READ ? READABLE : OWN_STACK); ++i) {
    const size_t at = (size_t)((const unsigned char*)p - known[i].begin);
    if (at < known[i].nbytes && at + size <= known[i].nbytes) return true;
  }
  return false;
}
}  // namespace gputensor

#ifdef GPUTENSOR_CHECK_WRITES
#define GPUTENSOR_HOOKS(size) \
  GPUTENSOR_HOOK void __asan_store##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }
GPUTENSOR_HOOK void __asan_storeN(void* p, size_t n) { GPUTENSOR_TOUCH(p, n, WRITE); }
GPUTENSOR_HOOK void __asan_handle_no_return() {}
GPUTENSOR_HOOK void __asan_before_dynamic_init(const char*) {}
GPUTENSOR_HOOK void __asan_after_dynamic_init() {}
#else
#define GPUTENSOR_HOOKS(size)                                                                      \
  GPUTENSOR_HOOK void __tsan_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }               \
  GPUTENSOR_HOOK void __tsan_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }             \
  GPUTENSOR_HOOK void __tsan_unaligned_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }     \
  GPUTENSOR_HOOK void __tsan_unaligned_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }   \
  GPUTENSOR_HOOK void __tsan_volatile_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }      \
  GPUTENSOR_HOOK void __tsan_volatile_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }
GPUTENSOR_HOOK void __tsan_read_range(void* p, unsigned long n) { GPUTENSOR_TOUCH(p, n, READ); }
GPUTENSOR_HOOK void __tsan_write_range(void* p, unsigned long n) { GPUTENSOR_TOUCH(p, n, WRITE); }
GPUTENSOR_HOOK void __tsan_vptr_update(void**, void*) {}
GPUTENSOR_HOOK void __tsan_vptr_read(void**) {}
GPUTENSOR_HOOK void __tsan_func_entry(void*) {}
GPUTENSOR_HOOK void __tsan_func_exit() {}
GPUTENSOR_HOOK void __tsan_init() {}
#endif
GPUTENSOR_HOOKS(1) GPUTENSOR_HOOKS(2) GPUTENSOR_HOOKS(4) GPUTENSOR_HOOKS(8) GPUTENSOR_HOOKS(16)

// g++ does not always inline these functions. Calls of them then reach the C library without a
// hook.
GPUTENSOR_UNCHECKED __attribute__((noinline)) static void* gputensor_copied(void* to,
                                                                            const void* from,
                                                                            size_t n) {
#ifndef GPUTENSOR_CHECK_WRITES
  GPUTENSOR_TOUCH(from, n, READ);
#endif
  GPUTENSOR_TOUCH(to, n, WRITE);
  return memcpy(to, from, n);
}
GPUTENSOR_UNCHECKED __attribute__((noinline)) static void* gputensor_filled(void* to, int value,
                                                                            size_t n) {
  GPUTENSOR_TOUCH(to, n, WRITE);
  return memset(to, value, n);
}
#define memcpy gputensor_copied
#define memset gputensor_filled
