// What g++ calls at every load and store of a kernel built with -fsanitize=thread: answered here
// and by the engine (memory_check.h) instead of by libtsan. A part of cuda_on_cpu.h.
#pragma once

#define GPUTENSOR_HOOK                                                                             \
  extern "C" GPUTENSOR_UNCHECKED                                                                   \
      __attribute__((visibility("hidden"), used, section("gputensor_hooks")))
// Variables of the text are initialised before there is an engine.
#define GPUTENSOR_TOUCH(address, size, kind)                                                       \
  if (gputensor::the_engine)                                                                       \
  gputensor::the_engine->access(address, size, gputensor::kind, __builtin_return_address(0))
#define GPUTENSOR_HOOKS(size)                                                                      \
  GPUTENSOR_HOOK void __tsan_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }               \
  GPUTENSOR_HOOK void __tsan_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }             \
  GPUTENSOR_HOOK void __tsan_unaligned_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }     \
  GPUTENSOR_HOOK void __tsan_unaligned_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }   \
  GPUTENSOR_HOOK void __tsan_volatile_read##size(void* p) { GPUTENSOR_TOUCH(p, size, READ); }      \
  GPUTENSOR_HOOK void __tsan_volatile_write##size(void* p) { GPUTENSOR_TOUCH(p, size, WRITE); }
GPUTENSOR_HOOKS(1) GPUTENSOR_HOOKS(2) GPUTENSOR_HOOKS(4) GPUTENSOR_HOOKS(8) GPUTENSOR_HOOKS(16)
GPUTENSOR_HOOK void __tsan_read_range(void* p, unsigned long n) { GPUTENSOR_TOUCH(p, n, READ); }
GPUTENSOR_HOOK void __tsan_write_range(void* p, unsigned long n) { GPUTENSOR_TOUCH(p, n, WRITE); }
GPUTENSOR_HOOK void __tsan_vptr_update(void**, void*) {}
GPUTENSOR_HOOK void __tsan_vptr_read(void**) {}
GPUTENSOR_HOOK void __tsan_func_entry(void*) {}
GPUTENSOR_HOOK void __tsan_func_exit() {}
GPUTENSOR_HOOK void __tsan_init() {}

// Calls of these, which g++ does not always open up, reach the C library without a hook.
GPUTENSOR_UNCHECKED __attribute__((noinline)) static void* gputensor_copied(void* to,
                                                                            const void* from,
                                                                            size_t n) {
  GPUTENSOR_TOUCH(from, n, READ);
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
