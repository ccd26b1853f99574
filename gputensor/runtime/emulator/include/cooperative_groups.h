// Cooperative groups on the emulator: blocks, tiles of a warp, and coalesced threads. The grid has
// a rank and a size; its barrier is not covered.
#pragma once

namespace cooperative_groups {

#define GPUTENSOR_HERE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

namespace gputensor_details {
inline unsigned rank_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
inline unsigned block_size() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned long long meet(gputensor::collective what, unsigned mask, unsigned long long value,
                               const char* file, unsigned line) {
  return gputensor::the_engine->meet(what, mask, value, 0, 32, file, line);
}
template <class T>
T from_lane(unsigned mask, T value, int lane, const char* file, unsigned line) {
  return gputensor::shuffle(gputensor::SHUFFLE_INDEX, mask, value, lane, 32, file, line);
}
inline int nth_lane(unsigned mask, unsigned n) {
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1 && n-- == 0) return lane;
  return -1;
}
// the bits of a mask's lanes, packed together
inline unsigned packed(unsigned bits, unsigned mask) {
  unsigned result = 0, at = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) result |= (bits >> lane & 1) << at++;
  return result;
}
}  // namespace gputensor_details

class thread_block {
 public:
  static void sync(GPUTENSOR_HERE) {
    gputensor_details::meet(gputensor::SYNC_BLOCK, 0, 0, file, line);
  }
  static unsigned thread_rank() { return gputensor_details::rank_in_block(); }
  static unsigned size() { return gputensor_details::block_size(); }
  static unsigned num_threads() { return size(); }
  static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  static dim3 group_dim() { return blockDim; }
  static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return thread_block(); }

class grid_group {
 public:
  static unsigned long long size() { return num_blocks() * gputensor_details::block_size(); }
  static unsigned long long num_threads() { return size(); }
  static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  static unsigned long long block_rank() {
    return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  static unsigned long long thread_rank() {
    return block_rank() * gputensor_details::block_size() + gputensor_details::rank_in_block();
  }
  static dim3 dim_blocks() { return gridDim; }
  static dim3 group_dim() { return gridDim; }
  static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  void sync() const = delete;  // blocks of the emulator run one after the other
};
inline grid_group this_grid() { return grid_group(); }

// Lanes of one warp: a tile, or the lanes that reached coalesced_threads().
class gputensor_lanes {
 public:
  explicit gputensor_lanes(unsigned mask) : mask_(mask) {}
  unsigned thread_rank() const {
    return (unsigned)__builtin_popcount(mask_ & ((1u << lane()) - 1));
  }
  unsigned size() const { return (unsigned)__builtin_popcount(mask_); }
  unsigned num_threads() const { return size(); }
  void sync(GPUTENSOR_HERE) const {
    gputensor_details::meet(gputensor::SYNC_WARP, mask_, 0, file, line);
  }
  template <class T>
  T shfl(T value, int rank, GPUTENSOR_HERE) const {
    const int from = gputensor_details::nth_lane(mask_, (unsigned)rank % size());
    return gputensor_details::from_lane(mask_, value, from, file, line);
  }
  template <class T>
  T shfl_up(T value, unsigned by, GPUTENSOR_HERE) const {
    const unsigned r = thread_rank();
    const int from = gputensor_details::nth_lane(mask_, r < by ? r : r - by);
    return gputensor_details::from_lane(mask_, value, from, file, line);
  }
  template <class T>
  T shfl_down(T value, unsigned by, GPUTENSOR_HERE) const {
    const unsigned r = thread_rank();
    const int from = gputensor_details::nth_lane(mask_, r + by >= size() ? r : r + by);
    return gputensor_details::from_lane(mask_, value, from, file, line);
  }
  template <class T>
  T shfl_xor(T value, unsigned by, GPUTENSOR_HERE) const {
    const unsigned r = thread_rank() ^ by;
    const int from = gputensor_details::nth_lane(mask_, r >= size() ? thread_rank() : r);
    return gputensor_details::from_lane(mask_, value, from, file, line);
  }
  int any(int p, GPUTENSOR_HERE) const { return ballot(p, file, line) != 0; }
  int all(int p, GPUTENSOR_HERE) const { return ballot(!p, file, line) == 0; }
  unsigned ballot(int p, GPUTENSOR_HERE) const {
    const unsigned bits =
        (unsigned)gputensor_details::meet(gputensor::BALLOT, mask_, !!p, file, line);
    return gputensor_details::packed(bits, mask_);
  }
  template <class T>
  unsigned match_any(T value, GPUTENSOR_HERE) const {
    return gputensor_details::packed(
        (unsigned)gputensor_details::meet(gputensor::MATCH_ANY, mask_, gputensor::as_word(value),
                                          file, line),
        mask_);
  }
  template <class T>
  unsigned match_all(T value, int& is_same, GPUTENSOR_HERE) const {
    const unsigned bits = (unsigned)gputensor_details::meet(
        gputensor::MATCH_ALL, mask_, gputensor::as_word(value), file, line);
    is_same = bits != 0;
    return gputensor_details::packed(bits, mask_);
  }
  unsigned gputensor_mask() const { return mask_; }

 protected:
  static unsigned lane() { return gputensor_details::rank_in_block() % 32; }
  unsigned mask_;
};

template <unsigned N, class Parent = void>
class thread_block_tile;
template <unsigned N>
class thread_block_tile<N, void> : public gputensor_lanes {
  static_assert(N <= 32, "'tiles of more than 32 threads'");
  static_assert(N && !(N & (N - 1)), "a tile has a power of two of threads");

 public:
  thread_block_tile() : gputensor_lanes((N == 32 ? ~0u : (1u << N % 32) - 1) << lane() / N * N) {
    // the block's last warp may have fewer lanes
    const unsigned first = gputensor_details::rank_in_block() / 32 * 32;
    const unsigned left = gputensor_details::block_size() - first;
    if (left < 32) mask_ &= (1u << left) - 1;
  }
  static constexpr unsigned size() { return N; }
  static constexpr unsigned num_threads() { return N; }
  unsigned thread_rank() const { return lane() % N; }
  unsigned meta_group_rank() const { return gputensor_details::rank_in_block() / N; }
  unsigned meta_group_size() const { return (gputensor_details::block_size() + N - 1) / N; }
};
template <unsigned N, class Parent>
class thread_block_tile : public thread_block_tile<N, void> {};
template <unsigned N, class Parent>
thread_block_tile<N, Parent> tiled_partition(const Parent&) {
  return thread_block_tile<N, Parent>();
}

class coalesced_group : public gputensor_lanes {
 public:
  explicit coalesced_group(unsigned mask) : gputensor_lanes(mask) {}
  unsigned meta_group_rank() const { return 0; }
  unsigned meta_group_size() const { return 1; }
};
inline coalesced_group coalesced_threads(GPUTENSOR_HERE) {
  return coalesced_group(
      (unsigned)gputensor_details::meet(gputensor::ACTIVE_MASK, ~0u, 0, file, line));
}

// The lanes of a group that pass the same label, or the same predicate.
template <class Group, class Label>
coalesced_group labeled_partition(const Group& group, Label label, GPUTENSOR_HERE) {
  return coalesced_group((unsigned)gputensor_details::meet(
      gputensor::MATCH_ANY, group.gputensor_mask(), gputensor::as_word(label), file, line));
}
template <class Group>
coalesced_group binary_partition(const Group& group, bool is_true, GPUTENSOR_HERE) {
  return labeled_partition(group, (int)is_true, file, line);
}

// Any group type, chosen at run time.
class thread_group {
 public:
  thread_group(const thread_block&) : mask_(0) {}
  thread_group(const gputensor_lanes& lanes) : mask_(lanes.gputensor_mask()) {}
  unsigned gputensor_mask() const { return mask_; }
  unsigned size() const { return mask_ ? lanes().size() : thread_block::size(); }
  unsigned num_threads() const { return size(); }
  unsigned thread_rank() const {
    return mask_ ? lanes().thread_rank() : thread_block::thread_rank();
  }
  void sync(GPUTENSOR_HERE) const {
    if (mask_) lanes().sync(file, line);
    else thread_block::sync(file, line);
  }

 private:
  gputensor_lanes lanes() const { return gputensor_lanes(mask_); }
  unsigned mask_;  // 0 for a block
};

// Tiles of consecutive threads of a group. Their size is known only at run time.
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
  const unsigned lane = gputensor_details::rank_in_block() % 32;
  const unsigned own = parent.gputensor_mask();
  const unsigned all = own ? own : tiled_partition<32>(thread_block()).gputensor_mask();
  const unsigned rank = (unsigned)__builtin_popcount(all & ((1u << lane) - 1));
  unsigned mask = 0;
  for (unsigned n = rank / size * size; n < (rank / size + 1) * size; ++n) {
    const int member = gputensor_details::nth_lane(all, n);
    if (member >= 0) mask |= 1u << member;
  }
  return gputensor_lanes(mask);
}

template <class Group>
void sync(const Group& g, GPUTENSOR_HERE) {
  g.sync(file, line);
}
template <class Group>
unsigned thread_rank(const Group& g) {
  return g.thread_rank();
}
template <class Group>
unsigned group_size(const Group& g) {
  return g.size();
}

}  // namespace cooperative_groups
