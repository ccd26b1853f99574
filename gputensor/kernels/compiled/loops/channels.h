// Channels normalised to mean 0 and variance 1, scaled and shifted; and the gradients. See
// norm.cpp.
#ifndef GPUTENSOR_CHANNELS_H
#define GPUTENSOR_CHANNELS_H

#include "normal.h"

namespace CAPABILITY {

// Arrays (N, C, S). Either runs of S are dense; or channels are dense, S is 1, and N are rows.
struct Channels {
  const Call* call;
  bool are_beside;
  i64 samples, channels, run, itemsize;
};

// `of`: the arrays of the call that have channels.
static bool lay_out_channels(Channels& to, const Call& call, const int (&of)[3]) {
  const abi::Array& x = call.array[of[0]];
  to.call = &call;
  to.samples = x.shape[0], to.channels = x.shape[1], to.run = x.shape[2], to.itemsize = x.itemsize;
  to.are_beside = to.run == 1;
  for (int k = 0; k < 3; ++k) {
    const abi::Array& y = call.array[of[k]];
    if (!y.data) continue;
    if (to.are_beside ? y.stride[1] != to.itemsize && to.channels > 1 : !dense_rows(y, 1))
      return false;
  }
  return true;
}

// Rows of adjacent channels, COLUMNS of them at a time.
constexpr i64 COLUMNS = 256;

template <class A>
LOOP add_squares(A* sum, const A* x, const A* middle, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) sum[k] += (x[k] - middle[k]) * (x[k] - middle[k]);
}
template <class A>
LOOP add_line(A* sum, const A* x, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) sum[k] += x[k];
}
// Four lines are added one after the other, so that sums are loaded and stored only once.
template <class A>
LOOP add_four(A* sum, const A* a, const A* b, const A* c, const A* d, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) sum[k] = sum[k] + a[k] + b[k] + c[k] + d[k];
}
template <class A>
LOOP add_four_squares(A* sum, const A* a, const A* b, const A* c, const A* d, const A* middle,
                      i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    const A m = middle[k], p = a[k] - m, q = b[k] - m, r = c[k] - m, s = d[k] - m;
    sum[k] = sum[k] + p * p + q * q + r * r + s * s;
  }
}
template <class A>
LOOP add_products(A* sum, A* products, const A* grad, const A* x, const A* middle, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) {
    sum[k] += grad[k];
    products[k] += grad[k] * (x[k] - middle[k]);
  }
}
template <class A>
LOOP scaled_line(A* out, const A* x, const A* middle, const A* scale, const A* shift, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) out[k] = (x[k] - middle[k]) * scale[k] + shift[k];
}
template <class A>
LOOP through_line(A* out, const A* grad, const A* x, const A* by, const A* middle, const A* slope,
                  const A* more, i64 n) {
#pragma GCC ivdep
  for (i64 k = 0; k < n; ++k) out[k] = grad[k] * by[k] + (x[k] - middle[k]) * slope[k] + more[k];
}

// The channel's value; `otherwise` if there is no array.
template <class A>
static inline A number_of(const abi::Array& x, i64 c, A otherwise) {
  return x.data ? ((const A*)x.data)[c] : otherwise;
}

// Process rows of adjacent channels, in parts of the rows. middle …: (C) in A.
template <class A>
struct Beside {
  Channels* channels;
  Parts parts;
  enum Pass { SUM, SQUARES, PRODUCTS, SCALE, THROUGH } pass;
  const A *middle, *scale, *shift, *slope;
  const abi::Array *first, *second, *out;

  // Scale and shift of channels. They use the memory of the second sums, which SCALE does not have.
  void begin_scale(const A* rstd, const abi::Array& by, const abi::Array& more) {
    A *to = (A*)(parts.of<A>(0) + parts.n), *behind = to + parts.n;
    for (i64 c = 0; c < parts.n; ++c)
      to[c] = (rstd ? rstd[c] : to[c]) * number_of<A>(by, c, 1),
      behind[c] = number_of<A>(more, c, 0);
    scale = to, shift = behind;
  }

  void run(Pass wanted) {
    pass = wanted;
    parts.call->share(as_body(body), this, parts.rows, parts.step);
  }

  static void body(const Beside& me, i64 first, i64 last) {
    for (i64 r = first; r < last; r += me.parts.step)
      me.part(r, last - r < me.parts.step ? last : r + me.parts.step);
  }

  void part(i64 begin, i64 end) const {
    alignas(64) A room[2][COLUMNS], kept[COLUMNS];
    const i64 n = parts.n, itemsize = channels->itemsize;
    f64* sums = parts.of<A>(begin / parts.step);
    A* chain = (A*)(sums + 2 * n);
    const bool adds = pass <= PRODUCTS;
    if (adds) memset(sums, 0, 2 * n * sizeof(f64));
    for (i64 c = 0; c < n; c += COLUMNS) {
      const i64 count = n - c < COLUMNS ? n - c : COLUMNS;
      const bool takes_four = pass <= SQUARES && is_at_hand<A>(first->dtype, itemsize);
      i64 rows = 1;
      for (i64 r = begin; r < end; r += rows) {
        rows = takes_four && end - r >= 4 ? 4 : 1;
        const auto line = [&](const abi::Array* of, int k) {
          return widened(of->dtype, of->data + r * of->stride[0] + c * itemsize, itemsize, count,
                         room[k]);
        };
        const A* x = line(first, 0);
        if (rows == 4) {
          const auto below = [&](i64 k) {
            return (const A*)((const char*)x + k * first->stride[0]);
          };
          if (pass == SUM) {
            add_four(chain + c, x, below(1), below(2), below(3), count);
          } else {
            add_four_squares(chain + c, x, below(1), below(2), below(3), middle + c, count);
          }
        } else switch (pass) {
          case SUM: add_line(chain + c, x, count); break;
          case SQUARES: add_squares(chain + c, x, middle + c, count); break;
          case PRODUCTS:
            add_products(chain + c, chain + n + c, x, line(second, 1), middle + c, count);
            break;
          default: {
            char* to = out->data + r * out->stride[0] + c * itemsize;
            A* made = writable(out->dtype, to, itemsize, kept);
            if (pass == SCALE) {
              scaled_line(made, x, middle + c, scale + c, shift + c, count);
            } else {
              through_line(made, x, line(second, 1), scale + c, middle + c, slope + c, shift + c,
                           count);
            }
            narrowed(out->dtype, to, made, itemsize, count);
          }
        }
        const i64 last = r + rows - 1;
        if (adds && ((last - begin) % CHAIN == CHAIN - 1 || last == end - 1)) {
          add_chain(sums + c, chain + c, count);
          if (pass == PRODUCTS) add_chain(sums + n + c, chain + n + c, count);
        }
      }
    }
  }
};

template <class A>
static bool begin_beside(Beside<A>& to, Channels& channels) {
  to.channels = &channels;
  return to.parts.template begin<A>(*channels.call, channels.samples, channels.channels,
                                    channels.channels);
}

// Channels with consecutive runs are processed together, as many as fit into a piece.
constexpr i64 MOST_TOGETHER = 64;

static inline i64 channels_together(i64 run) {
  const i64 fitting = PIECE / run;
  return fitting < 1 ? 1 : fitting < MOST_TOGETHER ? fitting : MOST_TOGETHER;
}

// Call take(begin, end) for channels that are processed together.
template <class Take>
static inline void in_blocks(const Channels& channels, i64 first, i64 last, Take take) {
  const i64 step = channels_together(channels.run);
  for (i64 c = first; c < last; c += step) take(c, last - c < step ? last : c + step);
}

// Call take(channel, sample, bytes from the sample's begin, elements) for the runs of some
// channels.
template <class Take>
static inline void each_run(const Channels& channels, i64 begin, i64 end, Take take) {
  for (i64 s = 0; s < channels.samples; ++s)
    for (i64 c = begin; c < end; ++c)
      for (i64 i = 0; i < channels.run; i += ROOM) {
        const i64 left = channels.run - i;
        take(c, s, (c * channels.run + i) * channels.itemsize, left < ROOM ? left : ROOM);
      }
}

template <class A>
static const A* piece_of(const Channels& channels, const abi::Array& x, i64 sample, i64 at, i64 n,
                         A* room) {
  return widened(x.dtype, x.data + sample * x.stride[0] + at, channels.itemsize, n, room);
}

// scale …: for each channel from `begin` on.
template <class A>
static void scale_runs(const Channels& channels, const abi::Array& x, const abi::Array& out,
                       i64 begin, i64 end, const A* middle, const A* scale, const A* shift) {
  alignas(64) A room[ROOM], kept[ROOM];
  each_run(channels, begin, end, [&](i64 c, i64 s, i64 at, i64 n) {
    char* to = out.data + s * out.stride[0] + at;
    A* made = writable(out.dtype, to, channels.itemsize, kept);
    const A* from = piece_of(channels, x, s, at, n, room);
    scaled_by_one(made, from, middle[c - begin], scale[c - begin], (A)1, shift[c - begin], n);
    narrowed(out.dtype, to, made, channels.itemsize, n);
  });
}

template <class A>
static void normalize_channels(const Channels& channels, i64 first, i64 last) {
  const abi::Array *array = channels.call->array, &x = array[0];
  const i64 total = channels.samples * channels.run;
  A *means = (A*)array[4].data, *variances = (A*)array[5].data, *rstds = (A*)array[6].data;
  alignas(64) A room[ROOM];
  in_blocks(channels, first, last, [&](i64 begin, i64 end) {
    f64 sums[MOST_TOGETHER] = {}, squares[MOST_TOGETHER] = {};
    A scale[MOST_TOGETHER], shift[MOST_TOGETHER];
    each_run(channels, begin, end, [&](i64 c, i64 s, i64 at, i64 n) {
      sums[c - begin] += sum_of(piece_of(channels, x, s, at, n, room), n);
    });
    for (i64 c = begin; c < end; ++c) means[c] = (A)(sums[c - begin] / total);
    each_run(channels, begin, end, [&](i64 c, i64 s, i64 at, i64 n) {
      squares[c - begin] += squares_of(piece_of(channels, x, s, at, n, room), n, means[c]);
    });
    for (i64 c = begin; c < end; ++c) {
      variances[c] = (A)(squares[c - begin] / total);
      rstds[c] = root_of<A>(squares[c - begin], total, channels.call->real[0]);
      scale[c - begin] = rstds[c] * number_of<A>(array[1], c, 1),
                shift[c - begin] = number_of<A>(array[2], c, 0);
    }
    scale_runs(channels, x, array[3], begin, end, means + begin, scale, shift);
  });
}

template <class A>
static i64 share_channels(abi::Body body, Channels& channels) {
  const i64 grain = GRAIN / (channels.samples * channels.run),
            least = channels_together(channels.run);
  channels.call->share(body, &channels, channels.channels, grain < least ? least : grain);
  return 0;
}

template <class A>
static i64 channels_normalized(const Call& call) {
  const abi::Array* array = call.array;
  Channels channels;
  if (!lay_out_channels(channels, call, {0, 3, 3})) return -1;
  if (!channels.are_beside) return share_channels<A>(as_body(normalize_channels<A>), channels);
  Beside<A> beside;
  if (!begin_beside(beside, channels)) return -1;
  const i64 n = channels.channels, total = channels.samples;
  A *middle = (A*)array[4].data, *variance = (A*)array[5].data, *rstd = (A*)array[6].data;
  beside.first = &array[0], beside.out = &array[3], beside.middle = middle;
  beside.run(Beside<A>::SUM);
  const f64* sums = beside.parts.template total<A>();
  for (i64 c = 0; c < n; ++c) middle[c] = (A)(sums[c] / total);
  beside.run(Beside<A>::SQUARES);
  sums = beside.parts.template total<A>();
  for (i64 c = 0; c < n; ++c)
    variance[c] = (A)(sums[c] / total), rstd[c] = root_of<A>(sums[c], total, call.real[0]);
  beside.begin_scale(rstd, array[1], array[2]);
  beside.run(Beside<A>::SCALE);
  free(beside.parts.sums);
  return 0;
}

template <class A>
static inline A rstd_of(const abi::Array& variance, i64 c, f64 eps) {
  return (A)(1 / math_sqrt(((const A*)variance.data)[c] + eps));
}

template <class A>
static void scale_channels(const Channels& channels, i64 first, i64 last) {
  const abi::Array* array = channels.call->array;
  in_blocks(channels, first, last, [&](i64 begin, i64 end) {
    A middle[MOST_TOGETHER], scale[MOST_TOGETHER], shift[MOST_TOGETHER];
    for (i64 c = begin; c < end; ++c) {
      middle[c - begin] = number_of<A>(array[1], c, 0),
                 shift[c - begin] = number_of<A>(array[4], c, 0);
      scale[c - begin] =
          rstd_of<A>(array[2], c, channels.call->real[0]) * number_of<A>(array[3], c, 1);
    }
    scale_runs(channels, array[0], array[5], begin, end, middle, scale, shift);
  });
}

template <class A>
static i64 channels_scaled(const Call& call) {
  const abi::Array* array = call.array;
  Channels channels;
  if (!lay_out_channels(channels, call, {0, 5, 5})) return -1;
  if (!channels.are_beside) return share_channels<A>(as_body(scale_channels<A>), channels);
  Beside<A> beside;
  if (!begin_beside(beside, channels)) return -1;
  beside.first = &array[0], beside.out = &array[5], beside.middle = (const A*)array[1].data;
  A* rstd = (A*)(beside.parts.template of<A>(0) + channels.channels);
  for (i64 c = 0; c < channels.channels; ++c) rstd[c] = rstd_of<A>(array[2], c, call.real[0]);
  beside.begin_scale(nullptr, array[3], array[4]);
  beside.run(Beside<A>::SCALE);
  free(beside.parts.sums);
  return 0;
}

template <class A>
static void through_channels(const Channels& channels, i64 first, i64 last) {
  const abi::Array *array = channels.call->array, &grad = array[0], &x = array[1], &of_x = array[5];
  const i64 total = channels.samples * channels.run;
  const A *means = (const A*)array[2].data, *rstds = (const A*)array[3].data;
  const bool are_found = channels.call->integer[0],
             has_sums = are_found || array[6].data || array[7].data;
  alignas(64) A room[2][ROOM], kept[ROOM];
  in_blocks(channels, first, last, [&](i64 begin, i64 end) {
    two<f64> sums[MOST_TOGETHER] = {};
    if (has_sums) {
      each_run(channels, begin, end, [&](i64 c, i64 s, i64 at, i64 n) {
        const A *dy = piece_of(channels, grad, s, at, n, room[0]),
                *from = piece_of(channels, x, s, at, n, room[1]);
        add_products_of(sums[c - begin], dy, from, n, means[c]);
      });
    }
    A by[MOST_TOGETHER], slope[MOST_TOGETHER] = {}, more[MOST_TOGETHER] = {};
    for (i64 c = begin; c < end; ++c) {
      const i64 k = c - begin;
      const A rstd = rstds[c];
      by[k] = number_of<A>(array[4], c, 1) * rstd;
      if (array[6].data) ((A*)array[6].data)[c] = (A)(sums[k].second * rstd);
      if (array[7].data) ((A*)array[7].data)[c] = (A)sums[k].first;
      if (are_found)
        slope[k] = (A)(-sums[k].second / total * rstd * rstd * by[k]),
        more[k] = (A)(-sums[k].first / total * by[k]);
    }
    if (!of_x.data) return;
    each_run(channels, begin, end, [&](i64 c, i64 s, i64 at, i64 n) {
      char* to = of_x.data + s * of_x.stride[0] + at;
      A* made = writable(of_x.dtype, to, channels.itemsize, kept);
      const A *dy = piece_of(channels, grad, s, at, n, room[0]),
              *from = piece_of(channels, x, s, at, n, room[1]);
      through_run(made, dy, from, by[c - begin], means[c], slope[c - begin], more[c - begin], n);
      narrowed(of_x.dtype, to, made, channels.itemsize, n);
    });
  });
}

template <class A>
static i64 channels_backward(const Call& call) {
  const abi::Array* array = call.array;
  Channels channels;
  if (!lay_out_channels(channels, call, {0, 1, 5})) return -1;
  if (!channels.are_beside) return share_channels<A>(as_body(through_channels<A>), channels);
  Beside<A> beside;
  if (!begin_beside(beside, channels)) return -1;
  const i64 n = channels.channels, total = channels.samples;
  const A* rstd = (const A*)array[3].data;
  beside.first = &array[0], beside.second = &array[1], beside.out = &array[5];
  beside.middle = (const A*)array[2].data;
  beside.run(Beside<A>::PRODUCTS);
  const f64* sums = beside.parts.template total<A>();
  A* made = array[5].data ? (A*)malloc(3 * n * sizeof(A)) : nullptr;
  for (i64 c = 0; c < n; ++c) {
    if (array[6].data) ((A*)array[6].data)[c] = (A)(sums[n + c] * rstd[c]);
    if (array[7].data) ((A*)array[7].data)[c] = (A)sums[c];
    if (!made) continue;
    const A by = number_of<A>(array[4], c, 1) * rstd[c];
    made[c] = by, made[n + c] = made[2 * n + c] = 0;
    if (!call.integer[0]) continue;
    made[n + c] = (A)(-sums[n + c] / total * rstd[c] * rstd[c] * by),
             made[2 * n + c] = (A)(-sums[c] / total * by);
  }
  beside.scale = made, beside.slope = made + n, beside.shift = made + 2 * n;
  if (made) beside.run(Beside<A>::THROUGH);
  const bool lacks_memory = array[5].data && !made;
  free(made), free(beside.parts.sums);
  return lacks_memory ? -1 : 0;
}

}  // namespace CAPABILITY

#endif
