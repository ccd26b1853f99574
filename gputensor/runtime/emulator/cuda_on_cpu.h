// CUDA C on a CPU: the words of the language, one block at a time, one thread at a time.
// Included once, before the text of a kernel. It includes no system header, since every build pays
// for it; libm and libc are declared by hand. What threads do together goes to the engine.
// Not covered: memory model and races, textures, cooperative groups, half intrinsics, inline PTX.
#pragma once
#include "engine.h"

#define GPUTENSOR_EMULATOR 1
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __builtin_assume(x) ((void)0)
// The `#` begins a comment for the assembler: the section has a name with start and stop symbols,
// yet takes no room in the file, which a named section otherwise does.
#define __shared__ __attribute__((section(GPUTENSOR_SHARED ",\"aw\",@nobits#"), aligned(16))) static

extern "C" {
int printf(const char*, ...);
void* memcpy(void*, const void*, __SIZE_TYPE__);
void* memset(void*, int, __SIZE_TYPE__);
}
typedef __SIZE_TYPE__ size_t;

typedef gputensor::index3 uint3;
struct dim3 : gputensor::index3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : index3{a, b, c} {}
};

// --- who runs ------------------------------------------------------------------------------------

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

namespace gputensor {

static const engine* the_engine;
static entry* entries;
static constexpr unsigned MAX_SHARED = 227 * 1024;
alignas(1024) static unsigned char dynamic_shared[MAX_SHARED + 1024];
static module this_module = {&threadIdx, &blockIdx, &blockDim, &gridDim,
                             dynamic_shared, MAX_SHARED, nullptr};

constexpr unsigned first_of(unsigned first = 0, ...) { return first; }

template <class F>
struct parameter;
template <class P>
struct parameter<void (*)(P)> {
  typedef P type;
};

template <auto kernel>
struct run {
  typedef typename parameter<decltype(kernel)>::type P;
  static void thread(const void* params) { kernel(*(const P*)params); }
  static void block(const void* params) {
    const P& p = *(const P*)params;
    uint3& t = threadIdx;
    const unsigned nx = blockDim.x, ny = blockDim.y, nz = blockDim.z;
    for (unsigned z = 0; z < nz; ++z)
      for (unsigned y = 0; y < ny; ++y)
        for (unsigned x = 0; x < nx; ++x) {
          t = {x, y, z};
          kernel(p);
        }
  }
};

struct registered {
  entry e;
  registered(entry given) : e(given) {
    e.next = entries;
    entries = &e;
  }
};

[[noreturn]] inline void fail(const char* what, const char* file, unsigned line) {
  the_engine->fail(what, file, line);
  __builtin_unreachable();
}

template <class T>
inline unsigned long long as_word(T value) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  return word;
}
template <class T>
inline T from_word(unsigned long long word) {
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}
template <class T>
inline T shuffle(collective what, unsigned mask, T value, int argument, int width, const char* file,
                 unsigned line) {
  return from_word<T>(the_engine->meet(what, mask, as_word(value), argument, width, file, line));
}
template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To result;
  __builtin_memcpy(&result, &value, sizeof(To));
  return result;
}

// The project's load and store functions call this for the width that they use.
inline void check_aligned(const void* pointer, unsigned alignment, const char* file,
                          unsigned line) {
  if ((__UINTPTR_TYPE__)pointer % alignment) fail("misaligned address", file, line);
}

}  // namespace gputensor

#define GPUTENSOR_CHECK_ALIGNED(pointer, alignment) \
  ::gputensor::check_aligned(pointer, alignment, __FILE__, __LINE__)

// Placed before each `__global__` function by the source assembly.
#define GPUTENSOR_ENTRY(name, collectives, ...) GPUTENSOR_ENTRY_(name, collectives, __VA_ARGS__)
#define GPUTENSOR_ENTRY_(name, collectives, ...)                                                   \
  static ::gputensor::registered gputensor_entry_##name({                                          \
      #name, GPUTENSOR_VARIANT, collectives, ::gputensor::first_of(__VA_ARGS__),                   \
      (unsigned)sizeof(::gputensor::run<&name>::P), &::gputensor::run<&name>::thread,              \
      &::gputensor::run<&name>::block, GPUTENSOR_SHARED_BEGIN, GPUTENSOR_SHARED_END, nullptr});

extern "C" __attribute__((visibility("default"))) gputensor::module* gputensor_attach(
    const gputensor::engine* engine) {
  gputensor::the_engine = engine;
  gputensor::this_module.first = gputensor::entries;
  return &gputensor::this_module;
}

// --- together ------------------------------------------------------------------------------------

#define GPUTENSOR_MEET(what, mask, value) \
  ::gputensor::the_engine->meet(::gputensor::what, mask, value, 0, 32, __FILE__, __LINE__)
#define __syncthreads() ((void)GPUTENSOR_MEET(SYNC_BLOCK, 0, 0))
#define __syncthreads_count(p) ((int)GPUTENSOR_MEET(SYNC_COUNT, 0, !!(p)))
#define __syncthreads_and(p) ((int)GPUTENSOR_MEET(SYNC_AND, 0, !!(p)))
#define __syncthreads_or(p) ((int)GPUTENSOR_MEET(SYNC_OR, 0, !!(p)))
#define GPUTENSOR_SYNC_WARP(mask, ...) ((void)GPUTENSOR_MEET(SYNC_WARP, mask, 0))
#define __syncwarp(...) GPUTENSOR_SYNC_WARP(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu)
#define __ballot_sync(mask, p) ((unsigned)GPUTENSOR_MEET(BALLOT, mask, !!(p)))
#define __any_sync(mask, p) (GPUTENSOR_MEET(BALLOT, mask, !!(p)) != 0)
#define __all_sync(mask, p) (GPUTENSOR_MEET(BALLOT, mask, !(p)) == 0)
#define __match_any_sync(mask, value) \
  ((unsigned)GPUTENSOR_MEET(MATCH_ANY, mask, ::gputensor::as_word(value)))
#define GPUTENSOR_SHUFFLE(what, mask, value, argument, width, ...) \
  ::gputensor::shuffle(::gputensor::what, mask, value, (int)(argument), width, __FILE__, __LINE__)
#define __shfl_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_INDEX, mask, value, __VA_ARGS__, 32)
#define __shfl_up_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_UP, mask, value, __VA_ARGS__, 32)
#define __shfl_down_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_DOWN, mask, value, __VA_ARGS__, 32)
#define __shfl_xor_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_XOR, mask, value, __VA_ARGS__, 32)
#define __trap() ::gputensor::fail("__trap()", __FILE__, __LINE__)
#undef assert
#define assert(...) \
  ((__VA_ARGS__) ? (void)0                                                                         \
                 : ::gputensor::fail("assertion failed: " #__VA_ARGS__, __FILE__, __LINE__))

inline unsigned __activemask() { return gputensor::the_engine->active_mask(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
inline long long clock64() { return 0; }

template <class T> inline T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
template <class T> inline T atomicSub(T* p, T v) { T old = *p; *p = old - v; return old; }
template <class T> inline T atomicMin(T* p, T v) { T old = *p; if (v < old) *p = v; return old; }
template <class T> inline T atomicMax(T* p, T v) { T old = *p; if (old < v) *p = v; return old; }
template <class T> inline T atomicAnd(T* p, T v) { T old = *p; *p = old & v; return old; }
template <class T> inline T atomicOr(T* p, T v) { T old = *p; *p = old | v; return old; }
template <class T> inline T atomicXor(T* p, T v) { T old = *p; *p = old ^ v; return old; }
template <class T> inline T atomicExch(T* p, T v) { T old = *p; *p = v; return old; }
template <class T> inline T atomicCAS(T* p, T expected, T v) {
  T old = *p;
  if (gputensor::bits<T>(old) == expected) *p = v;
  return old;
}
inline unsigned atomicInc(unsigned* p, unsigned most) {
  const unsigned old = *p;
  *p = old >= most ? 0 : old + 1;
  return old;
}
inline unsigned atomicDec(unsigned* p, unsigned most) {
  const unsigned old = *p;
  *p = old == 0 || old > most ? most : old - 1;
  return old;
}

#include "intrinsics.h"
#include "floating_point.h"
#include "findings.h"
