// Atomic operations of CUDA C, with CUDA's overloads, in every scope. The emulator switches threads
// only at barriers, so a plain read and write is one step. Included
// after cuda_on_cpu.h.
#pragma once

// Instrumented versions are not inlined, so that the return address lies in the kernel's line.
#ifdef __SANITIZE_THREAD__
#define GPUTENSOR_ATOMIC_FUNCTION GPUTENSOR_UNCHECKED __attribute__((noinline)) static
#define GPUTENSOR_NOTE_ATOMIC(p)                                                                   \
  ::gputensor::the_engine->access(p, sizeof *p, ::gputensor::ATOMIC, __builtin_return_address(0))
#else
#define GPUTENSOR_ATOMIC_FUNCTION static inline
#define GPUTENSOR_NOTE_ATOMIC(p) (void)0
#endif
#define GPUTENSOR_CALLER const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()
#define GPUTENSOR_TAKE_OLD(p)                                                                      \
  if ((__UINTPTR_TYPE__)p % sizeof *p)                                                             \
    ::gputensor::fail("misaligned atomic operation", file, line);                                  \
  GPUTENSOR_NOTE_ATOMIC(p);                                                                        \
  const auto old = *p

#define GPUTENSOR_ATOMIC(T, name, ...)                                                             \
  GPUTENSOR_ATOMIC_SCOPE(T, name, __VA_ARGS__)                                                     \
  GPUTENSOR_ATOMIC_SCOPE(T, name##_block, __VA_ARGS__)                                             \
  GPUTENSOR_ATOMIC_SCOPE(T, name##_system, __VA_ARGS__)
#define GPUTENSOR_ATOMIC_SCOPE(T, name, ...)                                                       \
  GPUTENSOR_ATOMIC_FUNCTION T name(T* p, T v, GPUTENSOR_CALLER) {                                  \
    GPUTENSOR_TAKE_OLD(p);                                                                         \
    *p = (__VA_ARGS__);                                                                            \
    return old;                                                                                    \
  }
#define GPUTENSOR_CAS(T, name)                                                                     \
  GPUTENSOR_ATOMIC_FUNCTION T name(T* p, T expected, T v, GPUTENSOR_CALLER) {                      \
    GPUTENSOR_TAKE_OLD(p);                                                                         \
    if (old == expected) *p = v;                                                                   \
    return old;                                                                                    \
  }

typedef unsigned long long gputensor_u64;
#define GPUTENSOR_INTEGER_ATOMICS(T)                                                               \
  GPUTENSOR_ATOMIC(T, atomicMin, v < old ? v : old)                                                \
  GPUTENSOR_ATOMIC(T, atomicMax, old < v ? v : old)                                                \
  GPUTENSOR_ATOMIC(T, atomicAnd, old & v)                                                          \
  GPUTENSOR_ATOMIC(T, atomicOr, old | v)                                                           \
  GPUTENSOR_ATOMIC(T, atomicXor, old ^ v)
GPUTENSOR_INTEGER_ATOMICS(int)
GPUTENSOR_INTEGER_ATOMICS(unsigned)
GPUTENSOR_INTEGER_ATOMICS(long long)
GPUTENSOR_INTEGER_ATOMICS(gputensor_u64)
GPUTENSOR_ATOMIC(int, atomicAdd, (int)((unsigned)old + (unsigned)v))
GPUTENSOR_ATOMIC(unsigned, atomicAdd, old + v)
GPUTENSOR_ATOMIC(gputensor_u64, atomicAdd, old + v)
GPUTENSOR_ATOMIC(float, atomicAdd, old + v)
GPUTENSOR_ATOMIC(double, atomicAdd, old + v)
GPUTENSOR_ATOMIC(int, atomicSub, (int)((unsigned)old - (unsigned)v))
GPUTENSOR_ATOMIC(unsigned, atomicSub, old - v)
GPUTENSOR_ATOMIC(int, atomicExch, v)
GPUTENSOR_ATOMIC(unsigned, atomicExch, v)
GPUTENSOR_ATOMIC(gputensor_u64, atomicExch, v)
GPUTENSOR_ATOMIC(float, atomicExch, v)
GPUTENSOR_ATOMIC(unsigned, atomicInc, old >= v ? 0 : old + 1)
GPUTENSOR_ATOMIC(unsigned, atomicDec, old == 0 || old > v ? v : old - 1)
#define GPUTENSOR_CAS_SCOPES(T)                                                                    \
  GPUTENSOR_CAS(T, atomicCAS) GPUTENSOR_CAS(T, atomicCAS_block) GPUTENSOR_CAS(T, atomicCAS_system)
GPUTENSOR_CAS_SCOPES(int)
GPUTENSOR_CAS_SCOPES(unsigned)
GPUTENSOR_CAS_SCOPES(unsigned short)
GPUTENSOR_CAS_SCOPES(gputensor_u64)
