// Normalisation of rows or channels to mean 0 and variance 1, or of rows to root mean square 1;
// scale and shift; gradients                                                         family: norm
// Shapes   x (samples, channels, size), dense. A row is a group of channels of one sample. The
//          parameters have one number per channel; the statistics one per row or per channel.
// Types    scalar_t storage of x, its gradient and the result; acc_t (f32 for f16, bf16) for
//          arithmetic, parameters and statistics. The result is rounded once.
// Launch   one-dimensional, 256 threads. rows, rows_backward: 2^lane_bits threads share a row; a
//          row of at most lanes * 64 bytes of acc_t is read once.
//          statistics, gradients: a block has 2^slot_bits adjacent channels of one segment; merge_*
//          combine the segments. scaled, scaled_backward: 16 bytes per thread.
// Order    fixed by the sizes: lane l takes elements, or pieces of 16 bytes, in ascending order;
//          lanes are combined in pairs, segments in ascending order. The bits are equal on all runs
//          and devices. Rows of f32 and f64 are added as by reduce.cu, so that norm_rows has the
//          bits of the operators of which a chain composes it.
// Numbers  two passes: the variance is the mean of the squared differences from the mean. Segments
//          are merged by their means and sums of squares. A row with inf or NaN gives NaN.
// Source   Chan, Golub and LeVeque, Updating formulae for computing sample variances, 1979.
#include "math/arithmetic.cuh"
#include "pointwise/contiguous.cuh"
#include "lanes.cuh"
#include "reducing.cuh"

constexpr int HELD_BYTES = 64;  // bytes of an operand's row per thread in registers, as acc_t

// norm_launch.py packs this struct. An operand that a kernel lacks is null.
// mean, rstd: one entry per row or channel. A channel of a sample has the entry `sample *
// sample_stats + channel / per_row`. has_variance: `rstd` contains variances. count: the number of
// elements of a row or channel. per_channel: of a channel in one sample. repeat: the number of rows
// of a sample, or of channels, after which the parameters repeat. sums_of_grad, sums_of_product:
// the gradients of bias and weight. parts: two results of each segment of a channel. in_packs:
// the lanes of a channel take 16 bytes at a time. narrow_stats: mean and rstd are of scalar_t, not
// of acc_t. narrow_numbers: so are weight, bias and the running statistics. If `mean` is null, rows
// are divided by their root mean square.
template <class acc> struct norm_params {
  char *x, *grad, *out, *mean, *rstd, *weight, *bias, *running_mean, *running_var;
  acc *sums_of_grad, *sums_of_product, *parts;
  f64 eps, momentum, unbiased;
  divider per_channel, repeat;
  u32 rows, count, channels, per_row, sample_stats, lane_bits, slot_bits;
  u32 segments, per_segment, in_packs, numel, has_variance, narrow_stats, narrow_numbers;
};

template <class scalar, class acc>
DEVICE acc number_at(const char* numbers, u32 at, u32 is_narrow) {
  return is_narrow ? cast<acc>(((const scalar*)numbers)[at]) : ((const acc*)numbers)[at];
}

template <class scalar, class acc>
DEVICE void put_number(char* numbers, u32 at, u32 is_narrow, acc x) {
  if (is_narrow) {
    ((scalar*)numbers)[at] = cast<scalar>(x);
  } else {
    ((acc*)numbers)[at] = x;
  }
}

template <class acc> DEVICE acc reciprocal_root(acc variance, f64 eps) {
  return (acc)1 / math_sqrt(variance + (acc)eps);
}

struct norm_sum {
  template <class acc> static DEVICE acc combine(acc a, acc b) { return a + b; }
};

// Add up the values of all lanes of a row, in the order of reduce_lanes. Each lane gets the sum.
// All threads of the block must call it. shared: THREADS values.
template <class acc> DEVICE acc sum_of_lanes(acc x, u32 lane, u32 lane_bits, acc* shared) {
  constexpr u32 MOST = THREADS / 32;
  if (lane_bits > 5) {
    const u32 warps = 1u << (lane_bits - 5), first = threadIdx.x - lane + (threadIdx.x & 31);
    __syncthreads();
    shared[threadIdx.x] = x;
    __syncthreads();
    acc part[MOST];
#pragma unroll
    for (u32 w = 0; w < MOST; ++w) part[w] = w < warps ? shared[first + w * 32] : (acc)0;
#pragma unroll
    for (u32 half = MOST / 2; half > 0; half >>= 1) {
#pragma unroll
      for (u32 w = 0; w < half; ++w) part[w] = half < warps ? part[w] + part[w + half] : part[w];
    }
    x = part[0];
  }
  const u32 near = lane_bits < 5 ? 1u << lane_bits : 32;
  for (u32 apart = near >> 1; apart > 0; apart >>= 1) {
    x += __shfl_xor_sync(0xffffffffu, x, apart);
  }
  return x;
}

// One row of a block, and the packs of it that a lane reads.
template <class scalar, class acc> struct norm_row {
  static constexpr int PACK = 16 / sizeof(scalar), CHAINS = PACK < 4 ? 4 / PACK : 1;
  u32 lane, lanes, row, count, first_channel;
  bool is_there;

  DEVICE norm_row(const norm_params<acc>& p) {
    lanes = 1u << p.lane_bits;
    lane = threadIdx.x & (lanes - 1);
    row = blockIdx.x * (THREADS >> p.lane_bits) + (threadIdx.x >> p.lane_bits);
    is_there = row < p.rows;
    if (!is_there) row = 0;
    count = is_there ? p.count : 0;
    first_channel = (row - quotient_of(row, p.repeat) * p.repeat.size) * p.per_row;
  }
  DEVICE char* of(char* operand) const {
    return operand + (u64)row * count * sizeof(scalar);
  }
  DEVICE u32 channel(const norm_params<acc>& p, u32 element) const {
    return first_channel + quotient_of(element, p.per_channel);
  }
  // Pack k. Elements after the row's end are 0.
  DEVICE void read(const char* data, bool is_aligned, u32 k, acc (&x)[PACK]) const {
    const auto loaded = load_within<scalar, PACK>(data, k * PACK, count, is_aligned);
#pragma unroll
    for (int e = 0; e < PACK; ++e) x[e] = cast<acc>(loaded.at[e]);
  }
  DEVICE void write(char* data, bool is_aligned, u32 k, const acc (&x)[PACK]) const {
    pack<scalar, PACK> made;
#pragma unroll
    for (int e = 0; e < PACK; ++e) made.at[e] = cast<scalar>(x[e]);
    store_within(data, k * PACK, count, is_aligned, made);
  }
  // Call f(chain, pack number, packs) for each pack of this lane; packs take turns in CHAINS. held:
  // the packs of up to two operands, which stay in registers if is_held. Otherwise read(pack
  // number, packs) reads them again.
  template <int OPERANDS, int PACKS, class R, class F>
  DEVICE void each(u32 whole, bool is_held, const acc (&held)[PACKS][OPERANDS][PACK],
                   const R& read, const F& f) const {
    if (is_held) {
#pragma unroll
      for (int k = 0; k < PACKS; ++k) f(k % CHAINS, lane + k * lanes, held[k]);
    } else {
      for (u32 k = lane; k < whole; k += lanes * CHAINS) {
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
          if (c && k + c * lanes >= whole) break;
          acc packs[OPERANDS][PACK];
          read(k + c * lanes, packs);
          f(c, k + c * lanes, packs);
        }
      }
    }
  }
};

// The elements of one channel in one segment: thread `lane` takes every `lanes`-th piece.
template <class acc> struct norm_channel {
  u32 lane, lanes, apart, channel, segment, begin, end;
  bool is_there;

  DEVICE norm_channel(const norm_params<acc>& p) {
    apart = 1u << p.slot_bits;
    lanes = THREADS >> p.slot_bits;
    lane = threadIdx.x >> p.slot_bits;
    const u32 group = blockIdx.x / p.segments;
    segment = blockIdx.x - group * p.segments;
    channel = (group << p.slot_bits) + (threadIdx.x & (apart - 1));
    is_there = channel < p.channels;
    begin = segment * p.per_segment;
    end = p.count - begin < p.per_segment ? p.count : begin + p.per_segment;
    if (!is_there) end = begin, channel = 0;
  }
  // The index of an element of the channel, and its sample.
  DEVICE u32 place(const norm_params<acc>& p, u32 element, u32& sample) const {
    sample = quotient_of(element, p.per_channel);
    const u32 at = element - sample * p.per_channel.size;
    return (sample * p.channels + channel) * p.per_channel.size + at;
  }
  // Call f(sample, elements of each operand) for each piece of N elements of this lane.
  template <int N, class scalar, int OPERANDS, class F>
  DEVICE void each_piece(const norm_params<acc>& p, char* const (&data)[OPERANDS], F& f) const {
    const bool is_aligned = all_aligned(data);
#pragma unroll 4
    for (u32 k = begin + lane * N; k < end; k += lanes * N) {
      u32 sample;
      const u32 at = place(p, k, sample);
      acc x[OPERANDS][N];
#pragma unroll
      for (int o = 0; o < OPERANDS; ++o) {
        pack<scalar, N> loaded;
        if (N > 1 && is_aligned) {
          loaded = load_pack<scalar, N>(data[o], at);
        } else {
#pragma unroll
          for (int e = 0; e < N; ++e) loaded.at[e] = load_one<scalar>(data[o], at + e);
        }
#pragma unroll
        for (int e = 0; e < N; ++e) x[o][e] = cast<acc>(loaded.at[e]);
      }
      f(sample, x);
    }
  }
  template <class scalar, int OPERANDS, class F>
  DEVICE void each(const norm_params<acc>& p, char* const (&data)[OPERANDS], F& f) const {
    if (p.in_packs) {
      each_piece<16 / sizeof(scalar), scalar>(p, data, f);
    } else {
      each_piece<1, scalar>(p, data, f);
    }
  }
};

// The channels of adjacent elements of a dense operand.
template <class acc> struct norm_walk {
  u32 channel, left;

  DEVICE norm_walk(const norm_params<acc>& p, u32 element) {
    const u32 outer = quotient_of(element, p.per_channel);
    channel = outer - quotient_of(outer, p.repeat) * p.repeat.size;
    left = p.per_channel.size - (element - outer * p.per_channel.size);
  }
  DEVICE void next(const norm_params<acc>& p) {
    if (--left) return;
    left = p.per_channel.size;
    channel = channel + 1 == p.repeat.size ? 0 : channel + 1;
  }
};

template <class scalar, class acc> DEVICE acc mean_of(const norm_params<acc>& p, u32 at) {
  return p.mean ? number_at<scalar, acc>(p.mean, at, p.narrow_stats) : (acc)0;
}

template <class scalar, class acc> DEVICE acc rstd_of(const norm_params<acc>& p, u32 at) {
  const acc found = number_at<scalar, acc>(p.rstd, at, p.narrow_stats);
  return p.has_variance ? reciprocal_root(found, p.eps) : found;
}

// x times the weight of a channel, plus its bias. Either may be missing.
template <class scalar, class acc>
DEVICE acc scaled(const norm_params<acc>& p, u32 channel, acc x) {
  if (p.weight) x *= number_at<scalar, acc>(p.weight, channel, p.narrow_numbers);
  if (p.bias) x += number_at<scalar, acc>(p.bias, channel, p.narrow_numbers);
  return x;
}

template <class acc> struct total_of {
  acc total;
  template <int N> DEVICE void operator()(u32, const acc (&x)[1][N]) {
#pragma unroll
    for (int e = 0; e < N; ++e) total += x[0][e];
  }
};

template <class acc> struct squares_of {
  acc mean, total;
  template <int N> DEVICE void operator()(u32, const acc (&x)[1][N]) {
#pragma unroll
    for (int e = 0; e < N; ++e) total += (x[0][e] - mean) * (x[0][e] - mean);
  }
};

// Sums of the gradient, and of the gradient times the normalised element. HAS_MEAN: a mean was
// subtracted from the element.
template <class scalar, class acc, bool HAS_MEAN> struct products_of {
  const norm_params<acc>& p;
  u32 own;
  acc mean, rstd, total, product;
  template <int N> DEVICE void operator()(u32 sample, const acc (&x)[2][N]) {
    if (p.sample_stats) {
      const u32 at = sample * p.sample_stats + own;
      if (HAS_MEAN) mean = number_at<scalar, acc>(p.mean, at, p.narrow_stats);
      rstd = rstd_of<scalar>(p, at);
    }
#pragma unroll
    for (int e = 0; e < N; ++e) {
      total += x[1][e];
      product += x[1][e] * ((x[0][e] - mean) * rstd);
    }
  }
};

template <class scalar, class acc>
DEVICE void mix(const norm_params<acc>& p, char* running, u32 channel, acc now) {
  if (!running) return;
  const acc before = number_at<scalar, acc>(running, channel, p.narrow_numbers);
  const acc made = before * (acc)(1 - p.momentum) + now * (acc)p.momentum;
  put_number<scalar>(running, channel, p.narrow_numbers, made);
}

// Store a channel's statistics, and mix them into the running ones. squares: the sum of squared
// differences from the mean.
template <class scalar, class acc>
DEVICE void finish_statistics(const norm_params<acc>& p, u32 channel, acc mean, acc squares) {
  const acc variance = squares / (acc)p.count;
  put_number<scalar>(p.mean, channel, p.narrow_stats, mean);
  put_number<scalar>(p.rstd, channel, p.narrow_stats, reciprocal_root(variance, p.eps));
  mix<scalar>(p, p.running_mean, channel, mean);
  mix<scalar>(p, p.running_var, channel, variance * (acc)p.unbiased);
}

template <class acc>
DEVICE void finish_gradients(const norm_params<acc>& p, u32 channel, acc grad, acc product) {
  if (p.sums_of_grad) p.sums_of_grad[channel] = grad;
  if (p.sums_of_product) p.sums_of_product[channel] = product;
}

// ---- body ----
#include "defaults.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 1) norm_rows(const norm_params<acc_t> p) {
  typedef norm_row<scalar_t, acc_t> row_t;
  constexpr int PACK = row_t::PACK, CHAINS = row_t::CHAINS;
  constexpr int PACKS = HELD_BYTES / sizeof(acc_t) / PACK;
  __shared__ acc_t shared[THREADS];
  const row_t row(p);
  char *x = row.of(p.x), *out = row.of(p.out);
  const bool is_aligned = (((u64)x | (u64)out) & 15) == 0;
  const auto read = [&](u32 k, acc_t(&packs)[1][PACK]) { row.read(x, is_aligned, k, packs[0]); };
  const u32 whole = (p.count + PACK - 1) / PACK;
  const bool is_held = whole <= row.lanes * PACKS;
  acc_t held[PACKS][1][PACK], sums[CHAINS][PACK] = {}, squares[CHAINS][PACK] = {};
  if (is_held) {
#pragma unroll
    for (int k = 0; k < PACKS; ++k) read(row.lane + k * row.lanes, held[k]);
  }
  acc_t mean = 0;
  if (p.mean) {
    row.each(whole, is_held, held, read, [&](int c, u32, const acc_t(&packs)[1][PACK]) {
#pragma unroll
      for (int e = 0; e < PACK; ++e) sums[c][e] += packs[0][e];
    });
    const acc_t total = fold<norm_sum, CHAINS * PACK>(sums[0]);
    mean = sum_of_lanes(total, row.lane, p.lane_bits, shared) / (acc_t)p.count;
  }
  row.each(whole, is_held, held, read, [&](int c, u32 k, const acc_t(&packs)[1][PACK]) {
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      const acc_t rest = packs[0][e] - mean;
      if (k * PACK + e < row.count) squares[c][e] += rest * rest;
    }
  });
  const acc_t of_squares = fold<norm_sum, CHAINS * PACK>(squares[0]);
  const acc_t variance = sum_of_lanes(of_squares, row.lane, p.lane_bits, shared) / (acc_t)p.count;
  const acc_t rstd = reciprocal_root(variance, p.eps);
  row.each(whole, is_held, held, read, [&](int, u32 k, const acc_t(&packs)[1][PACK]) {
    acc_t made[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      const u32 c = k * PACK + e < row.count ? row.channel(p, k * PACK + e) : 0;
      made[e] = scaled<scalar_t>(p, c, (packs[0][e] - mean) * rstd);
    }
    row.write(out, is_aligned, k, made);
  });
  if (row.lane == 0 && row.is_there) {
    if (p.mean) put_number<scalar_t>(p.mean, row.row, p.narrow_stats, mean);
    put_number<scalar_t>(p.rstd, row.row, p.narrow_stats, rstd);
  }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_rows_backward(const norm_params<acc_t> p) {
  typedef norm_row<scalar_t, acc_t> row_t;
  constexpr int PACK = row_t::PACK, PACKS = HELD_BYTES / sizeof(acc_t) / PACK;
  __shared__ acc_t shared[THREADS];
  const row_t row(p);
  char *x = row.of(p.x), *grad = row.of(p.grad), *out = row.of(p.out);
  const bool is_aligned = (((u64)x | (u64)grad | (u64)out) & 15) == 0;
  const acc_t mean = mean_of<scalar_t>(p, row.row), rstd = rstd_of<scalar_t>(p, row.row);
  // Pack 0: the normalised elements. Pack 1: the gradient times the weight.
  const auto read = [&](u32 k, acc_t(&packs)[2][PACK]) {
    row.read(x, is_aligned, k, packs[0]);
    row.read(grad, is_aligned, k, packs[1]);
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      const bool is_inside = k * PACK + e < row.count;
      packs[0][e] = is_inside ? (packs[0][e] - mean) * rstd : (acc_t)0;
      if (is_inside) packs[1][e] = scaled<scalar_t>(p, row.channel(p, k * PACK + e), packs[1][e]);
    }
  };
  const u32 whole = (p.count + PACK - 1) / PACK;
  const bool is_held = whole <= row.lanes * PACKS;
  acc_t held[PACKS][2][PACK], total = 0, product = 0;
  if (is_held) {
#pragma unroll
    for (int k = 0; k < PACKS; ++k) read(row.lane + k * row.lanes, held[k]);
  }
  row.each(whole, is_held, held, read, [&](int, u32, const acc_t(&packs)[2][PACK]) {
#pragma unroll
    for (int e = 0; e < PACK; ++e) {
      total += packs[1][e];
      product += packs[1][e] * packs[0][e];
    }
  });
  total = p.mean ? sum_of_lanes(total, row.lane, p.lane_bits, shared) / (acc_t)p.count : (acc_t)0;
  product = sum_of_lanes(product, row.lane, p.lane_bits, shared) / (acc_t)p.count;
  row.each(whole, is_held, held, read, [&](int, u32 k, const acc_t(&packs)[2][PACK]) {
    acc_t of_x[PACK];
#pragma unroll
    for (int e = 0; e < PACK; ++e) of_x[e] = (packs[1][e] - total - packs[0][e] * product) * rstd;
    row.write(out, is_aligned, k, of_x);
  });
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_statistics(const norm_params<acc_t> p) {
  __shared__ acc_t shared[THREADS];
  const norm_channel<acc_t> at(p);
  char* const operands[1] = {p.x};
  const auto sum_of = [](acc_t a, acc_t b) { return a + b; };
  total_of<acc_t> found = {0};
  at.each<scalar_t>(p, operands, found);
  const acc_t total = across_block(found.total, at.lane, at.lanes, at.apart, shared, sum_of);
  const acc_t mean = total / (acc_t)(at.end - at.begin);
  squares_of<acc_t> rest = {mean, 0};
  at.each<scalar_t>(p, operands, rest);
  const acc_t squares = across_block(rest.total, at.lane, at.lanes, at.apart, shared, sum_of);
  if (at.lane || !at.is_there) return;
  if (p.segments == 1) {
    finish_statistics<scalar_t>(p, at.channel, mean, squares);
  } else {
    acc_t* part = p.parts + ((u64)at.segment * p.channels + at.channel) * 2;
    part[0] = mean, part[1] = squares;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_merge_statistics(const norm_params<acc_t> p) {
  const u32 channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  acc_t mean = p.parts[channel * 2], squares = p.parts[channel * 2 + 1];
  for (u32 k = 1; k < p.segments; ++k) {
    const acc_t* part = p.parts + ((u64)k * p.channels + channel) * 2;
    const u32 before = k * p.per_segment;
    const u32 own = p.count - before < p.per_segment ? p.count - before : p.per_segment;
    const acc_t share = (acc_t)own / (acc_t)(before + own), apart = part[0] - mean;
    mean += apart * share;
    squares += part[1] + apart * apart * ((acc_t)before * share);
  }
  finish_statistics<scalar_t>(p, channel, mean, squares);
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_gradients(const norm_params<acc_t> p) {
  __shared__ acc_t shared[THREADS];
  const norm_channel<acc_t> at(p);
  char* const operands[2] = {p.x, p.grad};
  const auto sum_of = [](acc_t a, acc_t b) { return a + b; };
  const u32 own = at.channel / p.per_row;
  acc_t total, product;
  const acc_t mean = mean_of<scalar_t>(p, own), rstd = rstd_of<scalar_t>(p, own);
  if (p.mean) {
    products_of<scalar_t, acc_t, true> found = {p, own, mean, rstd, 0, 0};
    at.each<scalar_t>(p, operands, found);
    total = found.total, product = found.product;
  } else {
    products_of<scalar_t, acc_t, false> found = {p, own, mean, rstd, 0, 0};
    at.each<scalar_t>(p, operands, found);
    total = found.total, product = found.product;
  }
  total = across_block(total, at.lane, at.lanes, at.apart, shared, sum_of);
  product = across_block(product, at.lane, at.lanes, at.apart, shared, sum_of);
  if (at.lane || !at.is_there) return;
  if (p.segments == 1) {
    finish_gradients(p, at.channel, total, product);
  } else {
    acc_t* part = p.parts + ((u64)at.segment * p.channels + at.channel) * 2;
    part[0] = total, part[1] = product;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    norm_merge_gradients(const norm_params<acc_t> p) {
  const u32 channel = blockIdx.x * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  acc_t total = 0, product = 0;
  for (u32 k = 0; k < p.segments; ++k) {
    const acc_t* part = p.parts + ((u64)k * p.channels + channel) * 2;
    total += part[0], product += part[1];
  }
  finish_gradients(p, channel, total, product);
}

// An element is normalised by the statistics of its channel.
extern "C" __global__ void __launch_bounds__(THREADS) norm_scaled(const norm_params<acc_t> p) {
  constexpr int PACK = 16 / sizeof(scalar_t);
  const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) * PACK;
  if (first >= p.numel) return;
  const bool is_whole = (((u64)p.x | (u64)p.out) & 15) == 0 && p.numel - first >= PACK;
  pack<scalar_t, PACK> x;
  if (is_whole) x = load_pack<scalar_t, PACK>(p.x, first);
  norm_walk<acc_t> walk(p, first);
#pragma unroll
  for (int e = 0; e < PACK; ++e) {
    if (!is_whole) {
      if (first + e >= p.numel) break;
      x.at[e] = load_one<scalar_t>(p.x, first + e);
    }
    const u32 c = walk.channel;
    const acc_t normal = (cast<acc_t>(x.at[e]) - mean_of<scalar_t>(p, c)) * rstd_of<scalar_t>(p, c);
    x.at[e] = cast<scalar_t>(scaled<scalar_t>(p, c, normal));
    if (!is_whole) store_one(p.out, first + e, x.at[e]);
    walk.next(p);
  }
  if (is_whole) store_pack<scalar_t, PACK>(p.out, first, x);
}

// The gradient of an element. If statistics were computed from x, sums over its channel take part.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    norm_scaled_backward(const norm_params<acc_t> p) {
  constexpr int PACK = 16 / sizeof(scalar_t);
  const u32 first = (blockIdx.x * blockDim.x + threadIdx.x) * PACK;
  if (first >= p.numel) return;
  const bool is_whole =
      (((u64)p.x | (u64)p.grad | (u64)p.out) & 15) == 0 && p.numel - first >= PACK;
  pack<scalar_t, PACK> x, grad;
  if (is_whole) {
    x = load_pack<scalar_t, PACK>(p.x, first);
    grad = load_pack<scalar_t, PACK>(p.grad, first);
  }
  norm_walk<acc_t> walk(p, first);
#pragma unroll
  for (int e = 0; e < PACK; ++e) {
    if (!is_whole) {
      if (first + e >= p.numel) break;
      x.at[e] = load_one<scalar_t>(p.x, first + e);
      grad.at[e] = load_one<scalar_t>(p.grad, first + e);
    }
    const u32 c = walk.channel;
    const acc_t weight = scaled<scalar_t>(p, c, (acc_t)1), rstd = rstd_of<scalar_t>(p, c);
    acc_t made = cast<acc_t>(grad.at[e]) * weight;
    if (!p.has_variance) {
      const acc_t normal = (cast<acc_t>(x.at[e]) - mean_of<scalar_t>(p, c)) * rstd;
      const acc_t by = weight / (acc_t)p.count;
      made = made - p.sums_of_grad[c] * by - normal * (p.sums_of_product[c] * by);
    }
    x.at[e] = cast<scalar_t>(made * rstd);
    if (!is_whole) store_one(p.out, first + e, x.at[e]);
    walk.next(p);
  }
  if (is_whole) store_pack<scalar_t, PACK>(p.out, first, x);
}
