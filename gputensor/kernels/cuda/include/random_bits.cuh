// Philox words for the elements of a call, which a launch plan packs with numbers.pair.
#ifndef GPUTENSOR_RANDOM_BITS
#define GPUTENSOR_RANDOM_BITS

#include "pointwise/strided.cuh"
#include "philox.cuh"

// value[0] = {seed, counter of element 0}. value[1] = {whole Philox blocks, elements of one more
// block} that earlier launches of a split call used. value[2] = the operator's parameters.
// In a graph the upper half of value[1].high is set, and value[0] = {address of seed and counter,
// blocks of the graph's earlier calls}; the content at this address changes with each replay.
DEVICE philox_block random_bits(const value_slot (&value)[3], u32 block) {
  u64 seed = value[0].low, base = value[0].high;
  if (value[1].high >> 32) {
    const u64* const place = (const u64*)seed;
    seed = place[0];
    base += place[1];
  }
  return random_block(seed, base, value[1].low + block);
}

#endif
