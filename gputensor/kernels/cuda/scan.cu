// out[r, c] = op::OP over in[r, 0 .. c]                                  family: scan
// Shapes   rows along one dimension, the others of any strides, up to DIMS.
// Types    scalar_t storage of in and out, acc_t arithmetic (f32 for f16, bf16; rounded once);
//          places, of cummax and cummin, are i64.
// Launch   one-dimensional, 256 threads; 2^lane_bits of them share a row; each takes ITEMS adjacent
//          elements at a time. If there are few long rows, they are divided into segments. A first
//          launch writes the total of each segment. In a second launch each segment begins with the
//          combined totals of the segments before it.
// Order    fixed: a lane's items one after the other, lanes by doubling distances, then tiles and
//          segments one after the other. The bits are equal on all runs and devices, except that
//          exp and log may differ between devices.
// Error    bound of a sum of n: (n / lanes + log2(lanes)) * eps * sum |x|.
#include "math/arithmetic.cuh"
#include "launch.cuh"
#include "lanes.cuh"

constexpr int ITEMS = 4;

DEVICE f32 scan_log1p(f32 x) { return log1pf(x); }
DEVICE f64 scan_log1p(f64 x) { return log1p(x); }
DEVICE f32 scan_atan2(f32 y, f32 x) { return atan2f(y, x); }
DEVICE f64 scan_atan2(f64 y, f64 x) { return atan2(y, x); }

// An element and its index; the index -1 means none.
template <class T> struct scan_place {
  T value;
  i64 index;
};

template <class scalar, class T> DEVICE void scan_write(char* to, char*, const T& x) {
  *(scalar*)to = cast<scalar>(x);
}
template <class scalar, class T>
DEVICE void scan_write(char* to, char* place, const scan_place<T>& x) {
  *(scalar*)to = cast<scalar>(x.value);
  *(i64*)place = x.index;
}

// acc: the type of the running value. The earlier operand comes first.
namespace op {

struct cumsum {
  template <class T> struct types { typedef typename acc_of<T>::type acc; };
  template <class acc, class T> static DEVICE acc take(T x, i64) { return cast<acc>(x); }
  template <class acc> static DEVICE acc identity() { return cast<acc>(0u); }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return plus(a, b); }
};

struct cumprod : cumsum {
  template <class acc> static DEVICE acc identity() { return cast<acc>(1u); }
  template <class acc> static DEVICE acc combine(acc a, acc b) { return times(a, b); }
};

struct logcumsumexp : cumsum {
  template <class acc> static DEVICE acc identity() {
    typedef typename real_of<acc>::type real;
    const real none = (real)-1 / (real)0;
    if constexpr (is_complex<acc>) {
      return acc{none, 0};
    } else {
      return none;
    }
  }
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    if (is_nan(a) || is_nan(b)) return plus(a, b);
    if constexpr (is_complex<acc>) {
      return combine_complex(a, b);
    } else {
      const acc low = a < b ? a : b, high = a < b ? b : a;
      if (low == high && low - low != 0) return low;  // infinite
      return high + scan_log1p(math_exp(low - high));
    }
  }

 private:
  template <class acc> static DEVICE acc exponential(acc z) {
    const auto size = math_exp(z.re);
    if (size == 0) return acc{0, 0};
    return acc{size * math_cos(z.im), size * math_sin(z.im)};
  }
  // Source: aten/src/ATen/native/cpu/LogAddExp.h.
  template <class acc> static DEVICE acc combine_complex(acc a, acc b) {
    typedef typename real_of<acc>::type real;
    const acc low = a.re > b.re ? b : a, high = a.re > b.re ? a : b;
    if (low.re == high.re && low.re - low.re != 0) {
      if (low.re < 0) return low;
      const acc sum = plus(exponential(low), exponential(high));
      return acc{math_log(math_hypot(sum.re, sum.im)), scan_atan2(sum.im, sum.re)};
    }
    const acc ratio = exponential(minus(low, high));
    const real squares = 2 * ratio.re + ratio.re * ratio.re + ratio.im * ratio.im;
    return plus(high, acc{scan_log1p(squares) / 2, scan_atan2(ratio.im, 1 + ratio.re)});
  }
};

struct cummax {
  template <class T> struct types { typedef scan_place<typename acc_of<T>::type> acc; };
  template <class acc, class T> static DEVICE acc take(T x, i64 index) {
    return acc{cast<decltype(acc::value)>(x), index};
  }
  template <class acc> static DEVICE acc identity() {
    return acc{cast<decltype(acc::value)>(0u), -1};
  }
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    return is_nan(b.value) || (!is_nan(a.value) && b.value >= a.value) ? b : a;
  }
};

struct cummin : cummax {
  template <class acc> static DEVICE acc combine(acc a, acc b) {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    return is_nan(b.value) || (!is_nan(a.value) && b.value <= a.value) ? b : a;
  }
};

}  // namespace op

// scan_launch.py packs this struct. along_bytes: of out, places and in, from one element of a row
// to the next. totals: the total of each segment, `segments` for each row. writes_totals: true in
// the first launch.
template <int MAX_DIMS> struct scan_params {
  static constexpr int dims = MAX_DIMS;
  char* data[3];
  char* totals;
  i64 along_bytes[3];
  u32 rows, count, per_segment;
  u32 lane_bits, slot_bits;  // threads per row and rows per block, powers of two
  u32 lanes_are_adjacent, writes_totals, ndim;
  divider segments;
  dimension<3> dim[MAX_DIMS];
};

// The position of a thread in its block, and a value of each thread.
template <class acc> struct scan_lane {
  u32 lane, lanes, apart, last;
  acc* shared;
};

// Combine `carry` with elements begin to end - 1, and call `store` with each running result. All
// threads of the block must call it with the same begin and end.
template <class O, class acc, class Load, class Store>
DEVICE acc scan_tiles(acc carry, u32 begin, u32 end, const scan_lane<acc>& at, const Load& load,
                      const Store& store) {
  const u32 t = threadIdx.x;
#pragma unroll 1
  for (u32 start = begin; start < end; start += at.lanes * ITEMS) {
    const u32 first = start + at.lane * ITEMS;
    acc x[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      x[k] = first + k < end ? load(first + k) : O::template identity<acc>();
    }
#pragma unroll
    for (int k = 1; k < ITEMS; ++k) x[k] = O::combine(x[k - 1], x[k]);
    at.shared[t] = x[ITEMS - 1];
    __syncthreads();
    for (u32 by = 1; by < at.lanes; by <<= 1) {
      acc sum = at.shared[t];
      if (at.lane >= by) sum = O::combine(at.shared[t - by * at.apart], sum);
      __syncthreads();
      at.shared[t] = sum;
      __syncthreads();
    }
    const acc before = at.lane ? O::combine(carry, at.shared[t - at.apart]) : carry;
    carry = O::combine(carry, at.shared[at.last]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
      if (first + k < end) store(first + k, O::combine(before, x[k]));
    }
  }
  return carry;
}

// ---- body ----
#ifndef OP
#define OP cumsum
#endif
#include "defaults.cuh"
typedef op::OP::types<scalar_t>::acc scan_t;

extern "C" __global__ void __launch_bounds__(THREADS, 1) scan_strided(const scan_params<DIMS> p) {
  __shared__ scan_t shared[THREADS];
  const lane_place place = place_of(p);
  const u32 segment = place.segment;
  scan_lane<scan_t> at;
  at.lanes = 1u << p.lane_bits;
  at.shared = shared;
  at.lane = place.lane;
  at.apart = p.lanes_are_adjacent ? 1 : 1u << p.slot_bits;
  at.last = threadIdx.x + (at.lanes - 1 - at.lane) * at.apart;
  const bool is_there = place.row < p.rows;
  const u32 row = is_there ? place.row : 0;
  i64 offset[3] = {};
  add_offsets<DIMS>(p.dim, p.ndim, row, offset);
  const char* in = p.data[2] + offset[2];
  const auto load = [&](u32 c) {
    const scalar_t x = *(const scalar_t*)(in + (i64)c * p.along_bytes[2]);
    return op::OP::take<scan_t>(x, c);
  };
  const auto store = [&](u32 c, const scan_t& x) {
    if (!is_there || p.writes_totals) return;
    scan_write<scalar_t>(p.data[0] + offset[0] + (i64)c * p.along_bytes[0],
                         p.data[1] + offset[1] + (i64)c * p.along_bytes[1], x);
  };
  scan_t* totals = (scan_t*)p.totals + (u64)row * p.segments.size;
  scan_t carry = op::OP::identity<scan_t>();
  if (!p.writes_totals) {
    carry = scan_tiles<op::OP>(carry, 0, segment, at, [&](u32 c) { return totals[c]; },
                               [](u32, const scan_t&) {});
  }
  const segment_units own = units_of(p, segment);
  carry = scan_tiles<op::OP>(carry, own.begin, own.end, at, load, store);
  if (p.writes_totals && is_there && at.lane == 0) totals[segment] = carry;
}
