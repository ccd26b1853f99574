// Barriers, votes, shuffles and reductions of CUDA C. The engine executes them. Part of
// cuda_on_cpu.h.
#pragma once

#define __syncthreads_count(p) ((int)GPUTENSOR_MEET(SYNC_COUNT, 0, !!(p)))
#define __syncthreads_and(p) ((int)GPUTENSOR_MEET(SYNC_AND, 0, !!(p)))
#define __syncthreads_or(p) ((int)GPUTENSOR_MEET(SYNC_OR, 0, !!(p)))
#define __barrier_sync(id) __syncthreads()
#define GPUTENSOR_SYNC_WARP(mask, ...) ((void)GPUTENSOR_MEET(SYNC_WARP, mask, 0))
#define __syncwarp(...) GPUTENSOR_SYNC_WARP(__VA_ARGS__ __VA_OPT__(,) 0xffffffffu)
#define __ballot_sync(mask, p) ((unsigned)GPUTENSOR_MEET(BALLOT, mask, !!(p)))
#define __any_sync(mask, p) ((int)(GPUTENSOR_MEET(BALLOT, mask, !!(p)) != 0))
#define __all_sync(mask, p) ((int)(GPUTENSOR_MEET(BALLOT, mask, !(p)) == 0))
#define __match_any_sync(mask, value) \
  ((unsigned)GPUTENSOR_MEET(MATCH_ANY, mask, ::gputensor::as_word(value)))
#define __match_all_sync(mask, value, all) \
  (::gputensor::match_all(mask, ::gputensor::as_word(value), all, __FILE__, __LINE__))
#define GPUTENSOR_SHUFFLE(what, mask, value, argument, width, ...) \
  ::gputensor::shuffle(::gputensor::what, mask, value, (int)(argument), width, __FILE__, __LINE__)
#define __shfl_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_INDEX, mask, value, __VA_ARGS__, 32)
#define __shfl_up_sync(mask, value, ...) GPUTENSOR_SHUFFLE(SHUFFLE_UP, mask, value, __VA_ARGS__, 32)
#define __shfl_down_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_DOWN, mask, value, __VA_ARGS__, 32)
#define __shfl_xor_sync(mask, value, ...) \
  GPUTENSOR_SHUFFLE(SHUFFLE_XOR, mask, value, __VA_ARGS__, 32)

namespace gputensor {

inline unsigned match_all(unsigned mask, unsigned long long value, int* all, const char* file,
                          unsigned line) {
  const unsigned found = (unsigned)the_engine->meet(MATCH_ALL, mask, value, 0, 32, file, line);
  *all = found != 0;
  return found;
}

// As in hardware: one result for all lanes of the mask, for 32-bit integers.
inline unsigned reduce(collective what, unsigned mask, unsigned value, const char* file,
                       unsigned line) {
  return (unsigned)the_engine->meet(what, mask, value, 0, 32, file, line);
}

}  // namespace gputensor

#define GPUTENSOR_REDUCE(T, name, what)                                                            \
  inline T name(unsigned mask, T value, const char* file = __builtin_FILE(),                       \
                unsigned line = __builtin_LINE()) {                                                \
    return (T)gputensor::reduce(gputensor::what, mask, (unsigned)value, file, line);               \
  }
GPUTENSOR_REDUCE(int, __reduce_add_sync, REDUCE_ADD)
GPUTENSOR_REDUCE(unsigned, __reduce_add_sync, REDUCE_ADD)
GPUTENSOR_REDUCE(int, __reduce_min_sync, REDUCE_MIN_SIGNED)
GPUTENSOR_REDUCE(unsigned, __reduce_min_sync, REDUCE_MIN)
GPUTENSOR_REDUCE(int, __reduce_max_sync, REDUCE_MAX_SIGNED)
GPUTENSOR_REDUCE(unsigned, __reduce_max_sync, REDUCE_MAX)
GPUTENSOR_REDUCE(unsigned, __reduce_and_sync, REDUCE_AND)
GPUTENSOR_REDUCE(unsigned, __reduce_or_sync, REDUCE_OR)
GPUTENSOR_REDUCE(unsigned, __reduce_xor_sync, REDUCE_XOR)

#define __activemask() ((unsigned)GPUTENSOR_MEET(ACTIVE_MASK, 0xffffffffu, 0))
inline void __threadfence() { gputensor::the_engine->fence(0); }
inline void __threadfence_block() { gputensor::the_engine->fence(1); }
inline void __threadfence_system() { gputensor::the_engine->fence(0); }
inline void __nanosleep(unsigned) {}
inline long long clock64() { return (long long)gputensor::the_engine->clock(); }
inline int clock() { return (int)gputensor::the_engine->clock(); }
inline unsigned long long __globaltimer() { return gputensor::the_engine->clock(); }
