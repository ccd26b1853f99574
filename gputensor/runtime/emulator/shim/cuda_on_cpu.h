// CUDA C on a CPU: the keywords of the language, run one block and one thread at a time. Included
// once, before the text of a kernel. It includes no system header, because that would slow each
// build; functions of libm and libc are declared by hand. Collective operations of threads are
// passed to the engine. coverage.py lists the covered constructs. A construct that is not covered
// has no declaration here, so that g++ reports its name.
#pragma once
#include "engine.h"

#define GPUTENSOR_EMULATOR 1
#if defined(__SANITIZE_THREAD__) || defined(GPUTENSOR_CHECK_WRITES)
#define GPUTENSOR_INSTRUMENTED 1
#endif
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
#ifdef GPUTENSOR_USERS
// g++ ignores the section of a variable in a template. Shared variables of a user's text are
// therefore in thread-local storage, which is a region of its own.
#define __shared__ static __thread __attribute__((aligned(16)))
#else
// The `#` begins an assembler comment, which hides g++'s own section type. The section gets start
// and stop symbols and takes no space in the file.
#define __shared__ __attribute__((section(GPUTENSOR_SHARED ",\"aw\",@nobits#"), aligned(16))) static
#endif

extern "C" {
int vsnprintf(char*, __SIZE_TYPE__, const char*, __builtin_va_list);
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

static engine engine_here;  // a copy, so that an instrumented kernel reads its own memory
static const engine* the_engine;
static entry* entries;
static unsigned char* dynamic_shared;  // owned by the engine
#ifdef GPUTENSOR_USERS
static __thread unsigned char anchor __attribute__((aligned(16)));
static void* shared_anchor() { return &anchor; }
#else
static void* (*const shared_anchor)() = nullptr;
#endif
#ifdef GPUTENSOR_INSTRUMENTED
extern "C" const unsigned char __start_gputensor_hooks[] __attribute__((visibility("hidden")));
extern "C" const unsigned char __stop_gputensor_hooks[] __attribute__((visibility("hidden")));
#else
constexpr const unsigned char *__start_gputensor_hooks = nullptr, *__stop_gputensor_hooks = nullptr;
#endif
static module this_module = {&threadIdx, &blockIdx, &blockDim, &gridDim,
                             nullptr, MAX_SHARED, nullptr, nullptr, shared_anchor,
                             __start_gputensor_hooks, __stop_gputensor_hooks};
static symbol* symbols;

constexpr unsigned first_of(unsigned first = 0, ...) { return first; }

// Run code of a kernel's text without instrumented reads of its parameters.
#ifdef GPUTENSOR_CHECK_WRITES
#define GPUTENSOR_UNCHECKED __attribute__((no_sanitize("kernel-address")))
#else
#define GPUTENSOR_UNCHECKED __attribute__((no_sanitize("thread")))
#endif

template <class T> struct plain { typedef T type; };
template <class T> struct plain<const T> { typedef T type; };

template <unsigned... I> struct indices {};

// Parameters are stored in order, each at a multiple of its alignment, as in a GPU's parameter
// buffer.
template <class... P>
struct parameters {
  static constexpr unsigned count = sizeof...(P);
  struct table {
    parameter_place places[count ? count : 1] = {};
    unsigned size = 0;
    constexpr table() {
      const unsigned sizes[] = {(unsigned)sizeof(P)..., 1}, to[] = {(unsigned)alignof(P)..., 1};
      for (unsigned i = 0; i < count; ++i) {
        size = (size + to[i] - 1) / to[i] * to[i];
        places[i] = {size, sizes[i]};
        size += sizes[i];
      }
    }
  };
  static constexpr table at = table();
};

template <auto kernel, class F = decltype(kernel)>
struct run;
template <auto kernel, class... P>
struct run<kernel, void (*)(P...)> {
  typedef parameters<P...> all;
  template <unsigned... I>
  GPUTENSOR_UNCHECKED static void call(const unsigned char* p, indices<I...>) {
    kernel(*(const typename plain<P>::type*)(p + all::at.places[I].offset)...);
  }
  GPUTENSOR_UNCHECKED static void thread(const void* params) {
    call((const unsigned char*)params, indices<__integer_pack(sizeof...(P))...>());
  }
  GPUTENSOR_UNCHECKED static void block(const void* params) {
    uint3& t = threadIdx;
    const unsigned nx = blockDim.x, ny = blockDim.y, nz = blockDim.z;
    for (unsigned z = 0; z < nz; ++z)
      for (unsigned y = 0; y < ny; ++y)
        for (unsigned x = 0; x < nx; ++x) {
          t = {x, y, z};
          thread(params);
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

struct registered_symbol {
  symbol s;
  registered_symbol(const char* name, const void* address, unsigned long long nbytes)
      : s{name, (void*)address, nbytes, symbols} {
    symbols = &s;
  }
};

// Not the C library's printf: a kernel that fails inside it would keep its lock.
__attribute__((format(printf, 1, 2))) inline int print(const char* format, ...) {
  char text[2048];
  __builtin_va_list values;
  __builtin_va_start(values, format);
  const int n = vsnprintf(text, sizeof text, format, values);
  __builtin_va_end(values);
  if (n > 0) the_engine->print(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
  return n;
}

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

// The project's load and store functions call this to check the alignment for their width.
inline void check_aligned(const void* pointer, unsigned alignment, const char* file,
                          unsigned line) {
  if ((__UINTPTR_TYPE__)pointer % alignment) fail("misaligned address", file, line);
}

}  // namespace gputensor

#define printf ::gputensor::print
#define GPUTENSOR_CHECK_ALIGNED(pointer, alignment) \
  ::gputensor::check_aligned(pointer, alignment, __FILE__, __LINE__)

// The source assembly places this before each `__global__` function, or after the text for a
// template.
#define GPUTENSOR_ENTRY(name, collectives, ...) \
  GPUTENSOR_ENTRY_(gputensor_entry_##name, #name, name, collectives, __VA_ARGS__)
#define GPUTENSOR_ENTRY_(variable, name, function, collectives, ...)                               \
  static ::gputensor::registered variable({                                                        \
      name, GPUTENSOR_VARIANT, collectives, ::gputensor::first_of(__VA_ARGS__),                    \
      ::gputensor::run<&function>::all::at.size, &::gputensor::run<&function>::thread,             \
      &::gputensor::run<&function>::block, GPUTENSOR_SHARED_BEGIN, GPUTENSOR_SHARED_END, nullptr,  \
      ::gputensor::run<&function>::all::at.places, ::gputensor::run<&function>::all::count});
#define GPUTENSOR_INSTANCE(number, name, collectives, bound, ...)                                  \
  static ::gputensor::registered gputensor_instance_##number({                                     \
      name, GPUTENSOR_VARIANT, collectives, ::gputensor::first_of(bound),                          \
      ::gputensor::run<&__VA_ARGS__>::all::at.size, &::gputensor::run<&__VA_ARGS__>::thread,       \
      &::gputensor::run<&__VA_ARGS__>::block, GPUTENSOR_SHARED_BEGIN, GPUTENSOR_SHARED_END,        \
      nullptr, ::gputensor::run<&__VA_ARGS__>::all::at.places,                                     \
      ::gputensor::run<&__VA_ARGS__>::all::count});

extern "C" GPUTENSOR_UNCHECKED __attribute__((visibility("default")))
gputensor::module* gputensor_attach(
    const gputensor::engine* engine) {
  gputensor::engine_here = *engine;
  gputensor::the_engine = &gputensor::engine_here;
  gputensor::this_module.dynamic_shared = gputensor::dynamic_shared = engine->dynamic_shared;
  gputensor::this_module.first = gputensor::entries;
  gputensor::this_module.first_symbol = gputensor::symbols;
  return &gputensor::this_module;
}

// --- together ------------------------------------------------------------------------------------

#define GPUTENSOR_MEET(what, mask, value) \
  ::gputensor::the_engine->meet(::gputensor::what, mask, value, 0, 32, __FILE__, __LINE__)
#define __syncthreads() ((void)GPUTENSOR_MEET(SYNC_BLOCK, 0, 0))
#define __trap() ::gputensor::fail("__trap()", __FILE__, __LINE__)
#undef assert
#define assert(...) \
  ((__VA_ARGS__) ? (void)0                                                                         \
                 : ::gputensor::fail("assertion failed: " #__VA_ARGS__, __FILE__, __LINE__))

#include "collectives.h"
#include "intrinsics.h"
#include "floating_point.h"
#include "findings.h"
#ifdef GPUTENSOR_INSTRUMENTED
#include "instrumented.h"
#endif
