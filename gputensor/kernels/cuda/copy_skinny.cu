// dst = src between planes and few interleaved channels                     family: copy
// Shapes   CHANNELS (2 to 16) x `pixels`, and outer dimensions. Planes are dense along pixels with
//          any distance between them; interleaved channels are dense along both.
// Types    SRC to DST, cast and scaled on the way; equal types move words.
// Launch   one thread per V pixels, V * the wider type = 16 bytes; blocks of up to 256 threads.
//          shared = threads * V * CHANNELS * the wider interleaved type, dynamic.
// Design   a thread transposes its pixels' channels in registers. Planes are read and written by 16
//          bytes per thread. The interleaved side goes through shared memory in its own order, so
//          that its global accesses are linear. A thread's part of shared memory is K chunks of 16
//          bytes. For an even K there would be conflicts, so chunks are permuted
//          (tests/cuda/kernels/test_bank_conflicts.py).
#include "copying.cuh"

template <bool IS_SCALED, int MAX_DIMS> struct skinny_params : copy_ends<IS_SCALED> {
  i64 plane_pitch[2];  // distance of planes, for dst and src
  u32 pixels, unused;  // of an image
  divider blocks;      // of an image
  outer_dims<2, MAX_DIMS> outer;
};

// ---- body ----
#ifndef SRC
#define SRC u32
#endif
#ifndef DST
#define DST SRC
#endif
#ifndef CHANNELS
#define CHANNELS 3
#endif
#ifndef FROM_PLANES
#define FROM_PLANES 1
#endif
#ifndef TO_PLANES
#define TO_PLANES 0
#endif
#ifndef LOAD
#define LOAD 16  // bytes
#endif
#ifndef STORE
#define STORE 16
#endif
#ifndef SCALED
#define SCALED UNSCALED
#endif
#ifndef DIMS
#define DIMS 4
#endif
#ifndef EDGES
#define EDGES 1
#endif
typedef SRC src_t;
typedef DST dst_t;
typedef skinny_params<SCALED != UNSCALED, DIMS> skinny_call;

constexpr u32 S = sizeof(src_t), D = sizeof(dst_t), V = 16 / (S > D ? S : D);

// The interleaved side of a block in shared memory.
template <class T> struct interleaved {
  static constexpr u32 each = V * CHANNELS * sizeof(T);  // bytes of a thread
  static constexpr u32 chunk = each % 16 == 0 ? 16 : each % 8 == 0 ? 8 : 4, chunks = each / chunk;
  static constexpr bool is_permuted = chunk == 16 && chunks % 2 == 0;
  static_assert(each % 4 == 0, "a thread has whole words");

  static DEVICE u32 at(u32 byte) {
    if constexpr (is_permuted) {
      const u32 c = byte / 16;
      return ((c & ~7u) | ((c ^ (c / chunks)) & 7)) * 16 + byte % 16;
    }
    return byte;
  }
};

struct image {
  const char* src;
  char* dst;
  u32 pixels;  // pixels from the block's first one to the image's end
};

#if FROM_PLANES
DEVICE void load_planes(const skinny_call& p, const image& at, vec<src_t, V> (&planes)[CHANNELS]) {
  constexpr u32 PIECE = LOAD / S < V ? LOAD / S : V;
  const u32 pixel = threadIdx.x * V;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    const char* from = at.src + c * p.plane_pitch[1] + pixel * S;
    vec<src_t, PIECE> piece[V / PIECE];
#pragma unroll
    for (u32 k = 0; k < V / PIECE; ++k) {
      piece[k] = vec<src_t, PIECE>{};
      if (INSIDE(pixel + (k + 1) * PIECE <= at.pixels)) {
        piece[k] = load_source<vec<src_t, PIECE>>(from + k * PIECE * S);
      } else if (PIECE > 1 && pixel + k * PIECE < at.pixels) {
        piece[k] = assembled<src_t, PIECE>([&](u32 i) {
          const u32 last = at.pixels - 1 - pixel, wanted = k * PIECE + i;
          return load_source<vec<src_t, 1>>(from + (wanted < last ? wanted : last) * S).at(0);
        });
      }
    }
    planes[c] = assembled<src_t, V>([&](u32 i) { return piece[i / PIECE].at(i % PIECE); });
  }
}
#else
// Load the bytes of the block, then read the thread's own bytes.
DEVICE void load_interleaved(const image& at, char* shared, vec<src_t, V> (&planes)[CHANNELS]) {
  typedef interleaved<src_t> side;
  const u32 threads = blockDim.x, all = threads * V < at.pixels ? threads * V : at.pixels;
  const u32 bytes = all * (CHANNELS * S);
  constexpr int ROUNDS = (side::each + LOAD - 1) / LOAD;
  vec<u8, LOAD> loaded[ROUNDS];
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const u32 byte = (threadIdx.x + i * threads) * LOAD;
    loaded[i] = vec<u8, LOAD>{};
    if (INSIDE(byte + LOAD <= bytes)) loaded[i] = load_source<vec<u8, LOAD>>(at.src + byte);
  }
#pragma unroll
  for (int i = 0; i < ROUNDS; ++i) {
    const u32 byte = (threadIdx.x + i * threads) * LOAD;
    // After the end of an image there are zeros. Their pixels are computed but not stored.
    if (side::each % LOAD == 0 || byte < threads * side::each) {
      store_vector(shared + side::at(byte), loaded[i]);
    }
    if (EDGES && LOAD > S && byte + LOAD > bytes) {
#pragma unroll 1
      for (u32 b = byte; b < bytes; b += S) {
        store_vector(shared + side::at(b), load_vector<vec<src_t, 1>>(at.src + b));
      }
    }
  }
  __syncthreads();
  vec<src_t, V * CHANNELS> own;
#pragma unroll
  for (u32 k = 0; k < side::chunks; ++k) {
    const u32 byte = (threadIdx.x * side::chunks + k) * side::chunk;
    const auto piece = load_vector<vec<u32, side::chunk / 4>>(shared + side::at(byte));
#pragma unroll
    for (u32 w = 0; w < side::chunk / 4; ++w) own.word[k * (side::chunk / 4) + w] = piece.word[w];
  }
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    planes[c] = assembled<src_t, V>([&](int i) { return own.at(i * CHANNELS + c); });
  }
}
#endif

#if TO_PLANES
DEVICE void store_planes(const skinny_call& p, const image& at,
                         const vec<dst_t, V> (&planes)[CHANNELS]) {
  constexpr u32 PIECE = STORE / D < V ? STORE / D : V;
  const u32 pixel = threadIdx.x * V;
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
    char* to = at.dst + c * p.plane_pitch[0] + pixel * D;
#pragma unroll
    for (u32 k = 0; k < V / PIECE; ++k) {
      if (INSIDE(pixel + (k + 1) * PIECE <= at.pixels)) {
        const auto piece =
            assembled<dst_t, PIECE>([&](u32 i) { return planes[c].at(k * PIECE + i); });
        store_vector(to + k * PIECE * D, piece);
      } else if (PIECE > 1) {
#pragma unroll
        for (u32 i = k * PIECE; i < (k + 1) * PIECE; ++i) {
          const auto one = assembled<dst_t, 1>([&](u32) { return planes[c].at(i); });
          if (pixel + i < at.pixels) store_vector(to + i * D, one);
        }
      }
    }
  }
}
#else
DEVICE void store_interleaved(const image& at, char* shared,
                              const vec<dst_t, V> (&planes)[CHANNELS]) {
  typedef interleaved<dst_t> side;
  const u32 threads = blockDim.x, all = threads * V < at.pixels ? threads * V : at.pixels;
  const u32 bytes = all * (CHANNELS * D);
  const auto own = assembled<dst_t, V * CHANNELS>(
      [&](int i) { return planes[i % CHANNELS].at(i / CHANNELS); });
#pragma unroll
  for (u32 k = 0; k < side::chunks; ++k) {
    vec<u32, side::chunk / 4> piece;
#pragma unroll
    for (u32 w = 0; w < side::chunk / 4; ++w) piece.word[w] = own.word[k * (side::chunk / 4) + w];
    const u32 byte = (threadIdx.x * side::chunks + k) * side::chunk;
    store_vector(shared + side::at(byte), piece);
  }
  __syncthreads();
  constexpr int ROUNDS = (side::each + STORE - 1) / STORE;
#pragma unroll(ROUNDS < 16 ? ROUNDS : 16)
  for (int i = 0; i < ROUNDS; ++i) {
    const u32 byte = (threadIdx.x + i * threads) * STORE;
    if (INSIDE(byte + STORE <= bytes)) {
      store_vector(at.dst + byte, load_vector<vec<u8, STORE>>(shared + side::at(byte)));
    } else if (STORE > D) {
#pragma unroll 1
      for (u32 b = byte; b < bytes; b += D) {
        store_vector(at.dst + b, load_vector<vec<dst_t, 1>>(shared + side::at(b)));
      }
    }
  }
}
#endif

extern "C" __global__ void __launch_bounds__(256)
copy_skinny(const __grid_constant__ skinny_call p) {
  extern __shared__ uint4 shared[];
  const u32 number = quotient_of(blockIdx.x, p.blocks);
  const u32 pixel = (blockIdx.x - number * p.blocks.size) * blockDim.x * V;
  i64 offset[2] = {};
  add_outer(p.outer, number, offset);
  image at;
  at.dst = p.data[0] + offset[0] + (u64)pixel * (TO_PLANES ? D : CHANNELS * D);
  at.src = p.data[1] + offset[1] + (u64)pixel * (FROM_PLANES ? S : CHANNELS * S);
  at.pixels = p.pixels - pixel;

  vec<src_t, V> loaded[CHANNELS];
  vec<dst_t, V> stored[CHANNELS];
#if FROM_PLANES
  load_planes(p, at, loaded);
#else
  load_interleaved(at, (char*)shared, loaded);
#endif
#pragma unroll
  for (int c = 0; c < CHANNELS; ++c) {
#if SCALED
    const f32 scale = p.by.scale_at(c), bias = p.by.bias_at(c);
    stored[c] = assembled<dst_t, V>(
        [&](int i) { return part_of(scaled<dst_t>(value_of(loaded[c].at(i)), scale, bias)); });
#else
    stored[c] = converted<dst_t>(loaded[c]);
#endif
  }
#if TO_PLANES
  store_planes(p, at, stored);
#else
  if (!FROM_PLANES) __syncthreads();  // both sides use this memory, one after the other
  store_interleaved(at, (char*)shared, stored);
#endif
}
