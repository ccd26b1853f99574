// The threads that loops share their work over, without the interpreter's lock.
#ifndef GPUTENSOR_THREADS
#define GPUTENSOR_THREADS

#include "abi.h"

namespace engine {

// Do body(context, first, last) over [0, units), `step` units at a time, on up to as many threads
// as `set_threads` says, the caller's included. Inside a body it runs in the calling thread alone.
void share(abi::Body body, void* context, abi::i64 units, abi::i64 step);

void set_threads(int count);
int threads();

}  // namespace engine

#endif
