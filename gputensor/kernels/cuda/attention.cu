// out[q] = the sum over k of softmax(scale * query[q] @ key[k] + mask[q, k]) * value[k], and its
// gradients                                                                      family: attention
// Shapes   query (samples, heads, queries, width), key and value (samples, heads / served, keys,
//          width), of any strides, with up to WIDTH elements in a row. Strides are bytes.
// Types    scalar_t storage, f32 arithmetic; the result is rounded once. mask: bool, f32, scalar_t.
// Launch   one-dimensional, 256 threads, 4 x 4 scores each. forward, queries: one block per 64
//          queries of a head; keys: one block per 64 keys of a head, for all query heads that share
//          it. 26 KB of shared memory; scores are stored nowhere else.
// Order    ascending elements of a row with fused multiply-add, then ascending keys, in blocks of
//          64; no atomics, so each run gives the same bits.
// Dropout  a weight is kept if the upper 53 bits of a Philox word are below a limit; kept weights
//          are multiplied by `grown`. The words are the call's random numbers, row-major over
//          (samples, heads, queries, keys). Each kernel draws the bits of a tile again.
// Numbers  the largest score so far is subtracted before exp, so no exponential overflows. A query
//          without keys gives zeros, and 0 as the logarithm of its sum.
// Source   Dao et al., FlashAttention, 2022; Milakov and Gimelshein, Online normalizer calculation
//          for softmax, 2018.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "philox.cuh"

// attention_launch.py packs these structs. by: stride bytes of samples, heads, rows and elements.
struct attention_operand {
  char* data;
  i64 by[4];
};

// out: the result; in backward, its gradient. sums: logarithms of the sums of exponentials. deltas:
// in backward, sums of out times its gradient. seed, block: of the first random number. With
// SEED_AT, seed is the address of {seed, block}; block is then added to the block stored there.
struct attention_params {
  attention_operand query, key, value, out, sums, deltas, mask, of_query, of_key, of_value;
  u64 seed, block, limit;
  u32 heads, served, queries, keys, width, value_width, mask_kind, is_causal, tiles;
  f32 scale, grown;
  u32 dropout_kind;
};

constexpr u32 NO_MASK = 0, BOOLS = 1, FLOATS = 2;  // or 3: of the operands' type
constexpr u32 NO_DROPOUT = 0, SEED = 1, SEED_AT = 2;

// A block has SIDE rows and SIDE columns of scores. Thread (x, y) has rows y + LANES i and columns
// x + LANES j. One element of padding avoids bank conflicts.
constexpr u32 SIDE = 64, LANES = 16, EACH = SIDE / LANES, DEPTH = 16, PITCH = SIDE + 1;

DEVICE f32 nothing_seen() { return -1.0f / 0.0f; }
DEVICE f32 larger(f32 a, f32 b) { return a > b || is_nan(a) ? a : b; }

DEVICE char* head_of(const attention_operand& x, u32 sample, u32 head) {
  return x.data + sample * x.by[0] + head * x.by[1];
}

DEVICE f32 number_at(const char* data, const attention_operand& of, u32 row) {
  return *(const f32*)(data + row * of.by[2]);
}

// The rows of one head, followed by zeros.
template <class scalar> struct rows_of {
  char* data;
  i64 row_bytes, element_bytes;
  u32 rows, size;

  DEVICE rows_of(const attention_operand& x, u32 sample, u32 head, u32 rows, u32 size)
      : data(head_of(x, sample, head)), row_bytes(x.by[2]), element_bytes(x.by[3]), rows(rows),
        size(size) {}
  DEVICE scalar* at(u32 row, u32 element) const {
    return (scalar*)(data + row * row_bytes + element * element_bytes);
  }
  DEVICE f32 read(u32 row, u32 element) const {
    return row < rows && element < size ? cast<f32>(*at(row, element)) : 0.0f;
  }
};

// The scores of one head: products plus the mask.
template <class scalar> struct scores_of {
  const attention_params& p;
  const char* mask;

  DEVICE scores_of(const attention_params& p, u32 sample, u32 head)
      : p(p), mask(p.mask_kind ? head_of(p.mask, sample, head) : nullptr) {}
  DEVICE f32 operator()(u32 query, u32 key, f32 product) const {
    if (query >= p.queries || key >= p.keys || (p.is_causal && key > query)) return nothing_seen();
    const f32 score = product * p.scale;
    if (p.mask_kind == NO_MASK) return score;
    const char* at = mask + query * p.mask.by[2] + key * p.mask.by[3];
    if (p.mask_kind == BOOLS) return *(const u8*)at ? score : nothing_seen();
    return score + (p.mask_kind == FLOATS ? *(const f32*)at : cast<f32>(*(const scalar*)at));
  }
};

// Bits that mark the kept weights of a tile: four for each Philox block of a row of scores.
constexpr u32 BLOCKS = SIDE / 4 + 1;

struct kept_weights {
  const attention_params& p;
  u8* bits;
  u64 seed, base;
  u32 start;  // index of the tile's first score, modulo 2^32

  DEVICE kept_weights(const attention_params& p, u8* bits)
      : p(p), bits(bits), seed(p.seed), base(p.block), start(0) {
    if (p.dropout_kind != SEED_AT) return;
    const u64* const place = (const u64*)p.seed;
    seed = place[0];
    base += place[1];
  }

  // each: index of the head over all samples. query, key: the first of the tile. The bits are
  // complete after the caller's next barrier.
  DEVICE void draw(u32 each, u32 query, u32 key) {
    if (p.dropout_kind == NO_DROPOUT) return;
    const u64 first = ((u64)each * p.queries + query) * p.keys + key;
    start = (u32)first;
    for (u32 k = threadIdx.x; k < SIDE * BLOCKS; k += THREADS) {
      const u32 row = k / BLOCKS;
      const u64 block = (first + (u64)row * p.keys) / 4 + (k - row * BLOCKS);
      const philox_block words = random_block(seed, base, block);
      u32 made = 0;
#pragma unroll
      for (u32 word = 0; word < 4; ++word) made |= (u32)(words.at[word] >> 11 < p.limit) << word;
      bits[k] = (u8)made;
    }
  }

  // `weight` if it is kept, otherwise zero.
  DEVICE f32 of(f32 weight, u32 query, u32 key) const {
    if (p.dropout_kind == NO_DROPOUT) return weight;
    const u32 at = (start + query * p.keys) % 4 + key;
    return bits[query * BLOCKS + at / 4] >> at % 4 & 1 ? weight : 0.0f;
  }
};

// The products of SIDE rows of `a` and SIDE rows of `b`. Begins with a barrier. After it, no thread
// reads the previous content of `staged` and of the caller's other shared memory.
template <class scalar>
DEVICE void multiply_rows(const rows_of<scalar>& a, u32 first_a, const rows_of<scalar>& b,
                          u32 first_b, f32* staged, f32 (&to)[EACH][EACH]) {
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
  f32 *of_a = staged, *of_b = staged + DEPTH * PITCH;
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
    for (u32 j = 0; j < EACH; ++j) to[i][j] = 0;
  }
  for (u32 depth = 0; depth < a.size; depth += DEPTH) {
    __syncthreads();
#pragma unroll
    for (u32 k = threadIdx.x; k < DEPTH * SIDE; k += THREADS) {
      const u32 along = k % DEPTH, across = k / DEPTH;
      of_a[along * PITCH + across] = a.read(first_a + across, depth + along);
      of_b[along * PITCH + across] = b.read(first_b + across, depth + along);
    }
    __syncthreads();
#pragma unroll 8
    for (u32 k = 0; k < DEPTH; ++k) {
      f32 right[EACH];
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) right[j] = of_b[k * PITCH + x + j * LANES];
#pragma unroll
      for (u32 i = 0; i < EACH; ++i) {
        const f32 left = of_a[k * PITCH + y + i * LANES];
#pragma unroll
        for (u32 j = 0; j < EACH; ++j) to[i][j] = math_fma(left, right[j], to[i][j]);
      }
    }
  }
}

// to += weights (SIDE, SIDE) @ SIDE rows of `of`. Begins with a barrier, after which `weights` are
// complete.
template <class scalar, u32 ACROSS>
DEVICE void add_product(const f32* weights, const rows_of<scalar>& of, u32 first, f32* staged,
                        f32 (&to)[EACH][ACROSS]) {
  constexpr u32 WHOLE = ACROSS * LANES;
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
  for (u32 part = 0; part < SIDE; part += DEPTH) {
    __syncthreads();
#pragma unroll
    for (u32 k = threadIdx.x; k < DEPTH * WHOLE; k += THREADS)
      staged[k] = of.read(first + part + k / WHOLE, k % WHOLE);
    __syncthreads();
#pragma unroll 8
    for (u32 k = 0; k < DEPTH; ++k) {
      f32 right[ACROSS];
#pragma unroll
      for (u32 j = 0; j < ACROSS; ++j) right[j] = staged[k * WHOLE + x + j * LANES];
#pragma unroll
      for (u32 i = 0; i < EACH; ++i) {
        const f32 left = weights[(y + i * LANES) * PITCH + part + k];
#pragma unroll
        for (u32 j = 0; j < ACROSS; ++j) to[i][j] = math_fma(left, right[j], to[i][j]);
      }
    }
  }
}

// Write rows y + LANES i, row i multiplied by by[i].
template <class scalar, u32 ACROSS>
DEVICE void write_rows(const rows_of<scalar>& to, u32 first, const f32 (&from)[EACH][ACROSS],
                       const f32 (&by)[EACH]) {
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    const u32 row = first + y + i * LANES;
#pragma unroll
    for (u32 j = 0; j < ACROSS; ++j) {
      const u32 element = x + j * LANES;
      if (row < to.rows && element < to.size)
        *to.at(row, element) = cast<scalar>(from[i][j] * by[i]);
    }
  }
}

// ---- body ----
#ifndef WIDTH
#define WIDTH 64
#endif
#include "defaults.cuh"

#define STAGED_SIZE (2 * DEPTH * PITCH > DEPTH * WIDTH ? 2 * DEPTH * PITCH : DEPTH * WIDTH)

// Blocks per multiprocessor. With two, rows of 128 elements would spill registers on sm_70.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750 && WIDTH > 64
#define FORWARD_BLOCKS 1
#else
#define FORWARD_BLOCKS 2
#endif

extern "C" __global__ void __launch_bounds__(THREADS, FORWARD_BLOCKS)
    attention_forward(const attention_params p) {
  constexpr u32 ACROSS = WIDTH / LANES;
  __shared__ f32 staged[STAGED_SIZE], weights[SIDE * PITCH];
  __shared__ u8 bits[SIDE * BLOCKS];
  const u32 each = blockIdx.x / p.tiles, first = (blockIdx.x - each * p.tiles) * SIDE;
  const u32 sample = each / p.heads, head = each - sample * p.heads, own = head / p.served;
  const rows_of<scalar_t> query(p.query, sample, head, p.queries, p.width);
  const rows_of<scalar_t> key(p.key, sample, own, p.keys, p.width);
  const rows_of<scalar_t> value(p.value, sample, own, p.keys, p.value_width);
  const scores_of<scalar_t> scored(p, sample, head);
  kept_weights kept(p, bits);
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
  f32 out[EACH][ACROSS], most[EACH], total[EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    most[i] = nothing_seen();
    total[i] = 0;
#pragma unroll
    for (u32 j = 0; j < ACROSS; ++j) out[i][j] = 0;
  }
  const u32 end = p.is_causal && first + SIDE < p.keys ? first + SIDE : p.keys;
  for (u32 begin = 0; begin < end; begin += SIDE) {
    f32 scores[EACH][EACH];
    kept.draw(each, first, begin);
    multiply_rows(query, first, key, begin, staged, scores);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
      f32 top = most[i], sum = 0;
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) {
        scores[i][j] = scored(first + y + i * LANES, begin + x + j * LANES, scores[i][j]);
        top = larger(top, scores[i][j]);
      }
#pragma unroll
      for (u32 apart = LANES / 2; apart > 0; apart /= 2)
        top = larger(top, __shfl_xor_sync(0xffffffffu, top, apart));
      const f32 base = top == nothing_seen() ? 0.0f : top;
      const f32 shrunk = math_exp(most[i] - base);
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) {
        const u32 row = y + i * LANES, column = x + j * LANES;
        const f32 weight = math_exp(scores[i][j] - base);
        weights[row * PITCH + column] = kept.of(weight, row, column);
        sum += weight;
      }
#pragma unroll
      for (u32 apart = LANES / 2; apart > 0; apart /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      total[i] = math_fma(total[i], shrunk, sum);
      most[i] = top;
#pragma unroll
      for (u32 j = 0; j < ACROSS; ++j) out[i][j] *= shrunk;
    }
    add_product(weights, value, begin, staged, out);
  }
  char* sums = head_of(p.sums, sample, head);
  f32 by[EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    const u32 row = first + y + i * LANES;
    by[i] = total[i] == 0 ? 0.0f : p.grown / total[i];
    const f32 sum = total[i] == 0 ? 0.0f : most[i] + math_log(total[i]);
    if (x == 0 && row < p.queries) *(f32*)(sums + row * p.sums.by[2]) = sum;
  }
  write_rows(rows_of<scalar_t>(p.out, sample, head, p.queries, p.value_width), first, out, by);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_queries(const attention_params p) {
  constexpr u32 ACROSS = WIDTH / LANES;
  __shared__ f32 staged[STAGED_SIZE], weights[SIDE * PITCH];
  __shared__ u8 bits[SIDE * BLOCKS];
  const u32 each = blockIdx.x / p.tiles, first = (blockIdx.x - each * p.tiles) * SIDE;
  const u32 sample = each / p.heads, head = each - sample * p.heads, own = head / p.served;
  const rows_of<scalar_t> query(p.query, sample, head, p.queries, p.width);
  const rows_of<scalar_t> grad(p.out, sample, head, p.queries, p.value_width);
  const rows_of<scalar_t> key(p.key, sample, own, p.keys, p.width);
  const rows_of<scalar_t> value(p.value, sample, own, p.keys, p.value_width);
  const scores_of<scalar_t> scored(p, sample, head);
  const char *sums = head_of(p.sums, sample, head), *deltas = head_of(p.deltas, sample, head);
  kept_weights kept(p, bits);
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
  f32 made[EACH][ACROSS], sum[EACH], delta[EACH], by[EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    const u32 row = first + y + i * LANES;
    sum[i] = row < p.queries ? number_at(sums, p.sums, row) : 0.0f;
    delta[i] = row < p.queries ? number_at(deltas, p.deltas, row) : 0.0f;
    by[i] = p.scale;
#pragma unroll
    for (u32 j = 0; j < ACROSS; ++j) made[i][j] = 0;
  }
  const u32 end = p.is_causal && first + SIDE < p.keys ? first + SIDE : p.keys;
  for (u32 begin = 0; begin < end; begin += SIDE) {
    f32 scores[EACH][EACH], slopes[EACH][EACH];
    kept.draw(each, first, begin);
    multiply_rows(query, first, key, begin, staged, scores);
    multiply_rows(grad, first, value, begin, staged, slopes);
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) {
        const u32 row = y + i * LANES, column = x + j * LANES;
        const f32 score = scored(first + row, begin + column, scores[i][j]);
        const f32 slope = kept.of(slopes[i][j] * p.grown, row, column);
        weights[row * PITCH + column] = math_exp(score - sum[i]) * (slope - delta[i]);
      }
    }
    add_product(weights, key, begin, staged, made);
  }
  write_rows(rows_of<scalar_t>(p.of_query, sample, head, p.queries, p.width), first, made, by);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_keys(const attention_params p) {
  constexpr u32 ACROSS = WIDTH / LANES;
  __shared__ f32 staged[STAGED_SIZE], weights[SIDE * PITCH];
  __shared__ u8 bits[SIDE * BLOCKS];
  const u32 each = blockIdx.x / p.tiles, first = (blockIdx.x - each * p.tiles) * SIDE;
  const u32 own_heads = p.heads / p.served, sample = each / own_heads;
  const u32 own = each - sample * own_heads;
  kept_weights kept(p, bits);
  const rows_of<scalar_t> key(p.key, sample, own, p.keys, p.width);
  const rows_of<scalar_t> value(p.value, sample, own, p.keys, p.value_width);
  const u32 x = threadIdx.x % LANES, y = threadIdx.x / LANES;
  f32 of_key[EACH][ACROSS], of_value[EACH][ACROSS], by[EACH], grown[EACH];
#pragma unroll
  for (u32 i = 0; i < EACH; ++i) {
    by[i] = p.scale;
    grown[i] = p.grown;
#pragma unroll
    for (u32 j = 0; j < ACROSS; ++j) of_key[i][j] = of_value[i][j] = 0;
  }
  for (u32 head = own * p.served; head < (own + 1) * p.served; ++head) {
    const rows_of<scalar_t> query(p.query, sample, head, p.queries, p.width);
    const rows_of<scalar_t> grad(p.out, sample, head, p.queries, p.value_width);
    const scores_of<scalar_t> scored(p, sample, head);
    const char *sums = head_of(p.sums, sample, head), *deltas = head_of(p.deltas, sample, head);
    for (u32 begin = p.is_causal ? first : 0; begin < p.queries; begin += SIDE) {
      f32 scores[EACH][EACH], slopes[EACH][EACH];
      kept.draw(sample * p.heads + head, begin, first);
      multiply_rows(key, first, query, begin, staged, scores);
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) {
        const u32 column = x + j * LANES, row = begin + column;
        const f32 sum = row < p.queries ? number_at(sums, p.sums, row) : 0.0f;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
          const u32 own_row = y + i * LANES;
          scores[i][j] = math_exp(scored(row, first + own_row, scores[i][j]) - sum);
          weights[own_row * PITCH + column] = kept.of(scores[i][j], column, own_row);
        }
      }
      add_product(weights, grad, begin, staged, of_value);
      multiply_rows(value, first, grad, begin, staged, slopes);
#pragma unroll
      for (u32 j = 0; j < EACH; ++j) {
        const u32 column = x + j * LANES, row = begin + column;
        const f32 delta = row < p.queries ? number_at(deltas, p.deltas, row) : 0.0f;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
          const u32 own_row = y + i * LANES;
          const f32 slope = kept.of(slopes[i][j] * p.grown, column, own_row);
          weights[own_row * PITCH + column] = scores[i][j] * (slope - delta);
        }
      }
      add_product(weights, query, begin, staged, of_key);
    }
  }
  write_rows(rows_of<scalar_t>(p.of_key, sample, own, p.keys, p.width), first, of_key, by);
  write_rows(rows_of<scalar_t>(p.of_value, sample, own, p.keys, p.value_width), first, of_value,
             grown);
}
