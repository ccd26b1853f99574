// Threads that share the work of loops and run without the interpreter's lock.
#ifndef GPUTENSOR_THREADS
#define GPUTENSOR_THREADS

#include "abi.h"

namespace engine {

// Run body(context, first, last) over [0, units), `step` units at a time. It uses at most the
// number of threads given to `set_threads`, including the caller's thread. Inside a body, it runs
// only in the calling thread.
void share(abi::Body body, void* context, abi::i64 units, abi::i64 step);

// A `share` for calls within a block: this thread does all of the work.
inline void run_whole(abi::Body body, void* context, abi::i64 units, abi::i64) {
  body(context, 0, units);
}

void set_threads(int count);
int threads();

}  // namespace engine

#endif
