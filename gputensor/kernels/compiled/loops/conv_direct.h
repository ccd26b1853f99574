// Convolutions by tiles of WIDTH consecutive windows, for windows that overlap, and for dense
// planes with one tap. Overlapping windows read a copy of some rows of all channels, which includes
// the padding; a tap reads a tile of it at an offset. The elements after each row are also
// computed, but not written. If windows are s elements apart, the copy has s parts, each of every
// s-th element.
//
// Order    as in conv.cpp, with the same bits.
#ifndef GPUTENSOR_CONV_DIRECT
#define GPUTENSOR_CONV_DIRECT

#include "conv_weights.h"

namespace CAPABILITY {

namespace {

template <class T> constexpr int WIDTH = wide<T>::LANES * wide<T>::COLUMNS;  // windows of a tile
template <class T> constexpr int ROWS = wide<T>::ROWS;                       // channels of a tile
// Taps of some channels that are used for all blocks. Those of x itself are far apart.
constexpr i64 DEPTH = 384, X_DEPTH = 128;
// In products: the transposition of a sum, and the copy of an element that is not beside the next.
constexpr double TURN = 35, SPREAD = 50;
// Tiles of few registers wait for their sums.
constexpr double FEW_REGISTERS = 1.2;
constexpr i64 NEAR = 384 << 10;  // bytes of a copy, which stays in the second-level cache

// The rows of the result that are computed from one copy, which has step[0] * step[1] parts. low:
// the smallest offset of a tap along h and w. more: the elements of a part for the further offsets.
struct Bands {
  i64 rows, count, pitch, step[2], low[2], more[2];
  bool is_x;  // x itself is read

  i64 part() const { return (rows + more[0]) * pitch; }
  i64 plane() const { return step[0] * step[1] * part(); }
  i64 place(i64 h, i64 w) const {
    const i64 y = h - low[0], x = w - low[1];
    return (y % step[0] * step[1] + x % step[1]) * part() + y / step[0] * pitch + x / step[1];
  }
};

// The layout of copies, without rows. The pitch is 0 if windows do not overlap.
static Bands layout_of(const Windows& of) {
  const Axis* along = of.along;
  Bands b = {};
  if (of.columns() == 0 || along[0].taps == 0) return b;
  const i64 taps = along[1].taps * along[2].taps;
  if (along[1].step >= taps || along[2].step >= taps) return b;
  if (taps <= along[1].step * along[2].step) return b;
  for (int d = 0; d < 2; ++d) {
    const Axis& axis = along[d + 1];
    b.more[d] = span_of(axis, &b.low[d]) / axis.step, b.step[d] = axis.step;
    if (b.more[d] > axis.count) return b;
  }
  b.pitch = along[2].count + b.more[1];
  return b;
}

// Divide a height into bands of up to `most` rows.
static inline void cut_bands(Bands& b, i64 height, i64 most) {
  const i64 count = (height + most - 1) / most;
  b.rows = (height + count - 1) / count, b.count = (height + b.rows - 1) / b.rows;
}

// Whether one tap reads x itself, whose planes are dense, for at least one tile.
template <class T> bool reads_planes(const Windows& of, const Array& x) {
  const Axis* along = of.along;
  if (of.taps() != 1 || x.stride[4] != (i64)sizeof(T)) return false;
  for (int d = 0; d < 3; ++d)
    if (along[d].step != 1 || along[d].offset[0] || along[d].count > along[d].size) return false;
  return along[2].count == along[2].size && x.stride[3] == along[2].size * (i64)sizeof(T);
}

// rows: 0 if windows do not overlap, or if a row is too long.
template <class T> Bands bands_of(const Products<T>& p, i64 threads) {
  const Axis* along = p.of.along;
  const i64 height = along[1].count, copies = p.of.samples * along[0].count * p.groups;
  const i64 wanted = smaller(height, (2 * threads - 1) / larger(1, copies) + 1);
  Bands b = {};
  if (p.inner == 0 || p.of.columns() == 0) return b;
  if (reads_planes<T>(p.of, *p.x)) {
    b = {0, 0, along[2].count, {1, 1}, {0, 0}, {0, 0}, true};
    cut_bands(b, height, larger((height + wanted - 1) / wanted, (WIDTH<T> - 1) / b.pitch + 1));
    const i64 last = height - (b.count - 1) * b.rows;
    if (last * b.pitch < WIDTH<T>) b.rows = b.count == 1 ? 0 : height, b.count = 1;
    return b;
  }
  b = layout_of(p.of);
  if (!b.pitch) return b;
  const i64 parts = b.step[0] * b.step[1];
  const i64 line = p.inner * along[0].taps * parts * b.pitch * (i64)sizeof(T);
  const i64 fit = NEAR / line - b.more[0];
  if (fit < 1) return b;
  cut_bands(b, height, smaller(fit, (height + wanted - 1) / wanted));
  return b;
}

// Whether tiles of consecutive windows compute the result faster than conv_pixels.h. They also
// compute the elements after each row; but channels need not fill registers, and sums of dense rows
// need not be transposed.
template <class T> bool is_cheaper(const Products<T>& p, const Bands& b) {
  if (!b.rows) return false;
  const auto whole = [](i64 n, i64 of) { return (n + of - 1) / of * of; };
  const i64 lanes = wide<T>::LANES, depth = p.inner * p.of.taps();
  const double windows = b.rows * p.of.along[2].count;
  const double columns = whole(b.rows * b.pitch - b.more[1], lanes);
  const bool is_slow = p.outer <= 2 * lanes;
  double here = columns * depth * whole(p.outer, ROWS<T> / 2);
  double there = windows * depth * whole(p.outer, lanes) * (is_slow ? FEW_REGISTERS : 1);
  if (p.x->stride[4] != (i64)sizeof(T)) here += windows * p.inner * SPREAD;
  (p.out->stride[4] == (i64)sizeof(T) ? there : here) += windows * p.outer * TURN;
  return here <= there;
}

// out[i, j] = the sum over channels c and taps t of a[c, t, i] * b[c * channel_size + offsets[t] +
// j], added to the elements of `out` if `adds`. Rows of a have ROWS elements, of which R are used;
// rows of out have WIDTH elements, of which COLUMNS registers are used.
template <class T, int R, int COLUMNS>
static void tile_at(const T* a, const T* b, i64 channels, i64 channel_size, const i64* offsets,
                    i64 taps, T* out, bool adds) {
  typedef wide<T> V;
  typename V::type sum[R][COLUMNS];
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j)
      sum[i][j] = adds ? V::load(out + i * WIDTH<T> + j * V::LANES) : V::zero();
  for (; channels; --channels, b += channel_size)
    for (i64 t = 0; t < taps; ++t, a += ROWS<T>) {
      const T* from = b + offsets[t];
      typename V::type right[COLUMNS];
#pragma GCC unroll 3
      for (int j = 0; j < COLUMNS; ++j) right[j] = V::load(from + j * V::LANES);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        const typename V::type left = V::all(a[i]);
#pragma GCC unroll 3
        for (int j = 0; j < COLUMNS; ++j) sum[i][j] = V::fma(left, right[j], sum[i][j]);
      }
    }
#pragma GCC unroll 8
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < COLUMNS; ++j) V::store(out + i * WIDTH<T> + j * V::LANES, sum[i][j]);
}

template <class T>
static auto tile_at_of(i64 rows, i64 columns) -> decltype(&tile_at<T, ROWS<T>, 1>) {
  const i64 registers = (columns + wide<T>::LANES - 1) / wide<T>::LANES;
  constexpr int HALF = ROWS<T> / 2;
  if (rows > HALF)
    return registers == 1   ? tile_at<T, ROWS<T>, 1>
           : registers == 2 ? tile_at<T, ROWS<T>, 2>
                            : tile_at<T, ROWS<T>, 3>;
  return registers == 1   ? tile_at<T, HALF, 1>
         : registers == 2 ? tile_at<T, HALF, 2>
                          : tile_at<T, HALF, 3>;
}

// A line of one part: elements `at` + k * step of a row of `size` elements, for k < n. stride: the
// distance of the row's elements in bytes.
template <class T>
void copy_part(T* line, const char* row, i64 at, i64 step, i64 size, i64 n, i64 stride) {
  const auto steps = [&](i64 distance) {  // a division takes as long as copying a short line
    return distance <= 0 ? 0 : step == 1 ? distance : (distance + step - 1) / step;
  };
  const i64 left = smaller(n, steps(-at)), right = larger(left, smaller(n, steps(size - at)));
  if (left) clear_line(line, left);
  if (left < right)
    spread(line + left, row + (at + left * step) * stride, step * stride, right - left);
  if (right < n) clear_line(line + right, n - right);
}

// to[channel][tap along d][part][row][pitch]: the elements that the windows of rows [first, first +
// rows) of one plane of the result read.
template <class T>
void copy_band(const Windows& of, const Array& x, const Bands& b, i64 sample, i64 at, i64 first,
               i64 rows, i64 channel, i64 channels, T* to) {
  const Axis* along = of.along;
  for (i64 c = 0; c < channels; ++c)
    for (i64 a = 0; a < along[0].taps; ++a, to += b.plane()) {
      const i64 depth = at * along[0].step + along[0].offset[a];
      const bool is_inside = depth >= 0 && depth < along[0].size;
      const char* plane = x.data + sample * x.stride[0] + (channel + c) * x.stride[1] +
                          (is_inside ? depth * x.stride[2] : 0);
      for (i64 h = 0; h < b.step[0]; ++h)
        for (i64 r = 0; r < rows + b.more[0]; ++r) {
          const i64 row = (first + r) * b.step[0] + b.low[0] + h;
          const bool is_padding = !is_inside || row < 0 || row >= along[1].size;
          const char* from = is_padding ? plane : plane + row * x.stride[3];
          for (i64 w = 0; w < b.step[1]; ++w)
            copy_part(to + (h * b.step[1] + w) * b.part() + r * b.pitch, from, b.low[1] + w,
                      b.step[1], is_padding ? 0 : along[2].size, b.pitch, x.stride[4]);
        }
    }
}

// The runs of a tile that begins at element `from` of a band of `rows` rows.
static i64 runs_of_band(const Windows& of, const Bands& b, i64 sample, i64 at, i64 first, i64 rows,
                        i64 from, i64 columns, Run* runs) {
  i64 count = 0;
  for (i64 row = from / b.pitch; row < rows && row * b.pitch < from + columns; ++row) {
    const i64 low = larger(from, row * b.pitch);
    const i64 high = smaller(from + columns, row * b.pitch + of.along[2].count);
    if (low >= high) continue;
    runs[count++] = {low - from, high - low, sample, {at, first + row, low - row * b.pitch}};
  }
  return count;
}

// The offset at which each tap reads the first window of a copy.
static void offsets_of(const Windows& of, const Bands& b, i64* offsets) {
  const Axis* along = of.along;
  for (i64 d = 0; d < along[0].taps; ++d)
    for (i64 h = 0; h < along[1].taps; ++h)
      for (i64 w = 0; w < along[2].taps; ++w)
        *offsets++ = d * b.plane() + b.place(along[1].offset[h], along[2].offset[w]);
}

// Write `rows` channels of the result, from `channel` on, for the windows of some runs. The bias is
// added to `sums` first.
template <class T>
void write(const Products<T>& p, T* sums, i64 channel, i64 rows, const Run* runs, i64 n_runs) {
  const Array& out = *p.out;
  const i64 step = p.of.along[2].apart * out.stride[4];
  for (i64 i = 0; p.bias && i < rows; ++i) {
    const T more = *(const T*)(p.bias + (channel + i) * p.bias_step);
    for (i64 k = 0; k < WIDTH<T>; ++k) sums[i * WIDTH<T> + k] += more;
  }
  for (i64 r = 0; r < n_runs; ++r) {
    const Run& run = runs[r];
    const T* from = sums + run.column;
    char* to = p.result_of(run, channel);
    if (out.stride[1] == (i64)sizeof(T) && step != (i64)sizeof(T)) {
      turn<T>(to, step, (const char*)from, WIDTH<T> * sizeof(T), rows, run.length);
      continue;
    }
    for (i64 i = 0; i < rows; ++i, to += out.stride[1], from += WIDTH<T>) {
      if (step == (i64)sizeof(T)) {
        copy_line((T*)to, from, run.length);
      } else {
        for (i64 k = 0; k < run.length; ++k) *(T*)(to + k * step) = from[k];
      }
    }
  }
}

template <class T> struct Direct {
  Products<T>* p;
  Bands bands;
};

template <class T> void multiply_bands(const Direct<T>& direct, i64 first, i64 last) {
  Products<T>& p = *direct.p;
  const Bands& b = direct.bands;
  const Axis* along = p.of.along;
  const i64 taps = p.of.taps(), tile_size = ROWS<T> * WIDTH<T>;
  const i64 most = larger(1, (b.is_x ? X_DEPTH : DEPTH) / taps);
  const Array& x = *p.x;
  const i64 channel_size = b.is_x ? x.stride[1] / sizeof(T) : along[0].taps * b.plane();
  const i64 copied = b.is_x ? 0 : p.inner * channel_size + WIDTH<T>;
  Room room(Room::bytes_of<T>(copied) + Room::bytes_of<i64>(taps) +
            Room::bytes_of<T>(p.blocks * tile_size) + Room::bytes_of<Run>(WIDTH<T>));
  if (!room) return note(&p.answer, NO_MEMORY);
  T* copy = room.take<T>(copied);
  const bool is_whole = p.inner <= most;  // the sums of a block are not needed again
  T* sums = room.take<T>(p.blocks * tile_size);
  i64* offsets = room.take<i64>(taps);
  Run* runs = room.take<Run>(WIDTH<T>);
  memset(copy, 0, copied * sizeof(T));
  offsets_of(p.of, b, offsets);
  for (i64 unit = first; unit < last; ++unit) {
    const i64 group = unit % p.groups, band = unit / p.groups % b.count;
    const i64 place = unit / p.groups / b.count, at = place % along[0].count;
    const i64 sample = place / along[0].count, low = band * b.rows;
    const i64 rows = smaller(b.rows, along[1].count - low);
    const T* source = copy;
    if (b.is_x)
      source = (const T*)(x.data + sample * x.stride[0] + group * p.inner * x.stride[1] +
                          at * x.stride[2] + low * x.stride[3]);
    else
      copy_band(p.of, x, b, sample, at, low, rows, group * p.inner, p.inner, copy);
    const i64 size = rows * b.pitch - b.more[1];
    for (i64 next = 0; next < size; next += WIDTH<T>) {
      const i64 left = smaller(WIDTH<T>, size - next), lanes = wide<T>::LANES;
      // No element after x is read: the last tile computes some windows again.
      const i64 from = b.is_x ? smaller(next, size - (left + lanes - 1) / lanes * lanes) : next;
      const i64 columns = left + next - from;
      const i64 n_runs = runs_of_band(p.of, b, sample, at, low, rows, from, columns, runs);
      for (i64 channel = 0; channel < p.inner; channel += most) {
        const i64 count = smaller(most, p.inner - channel);
        for (i64 block = 0; block < p.blocks; ++block) {
          const i64 n = smaller(ROWS<T>, p.outer - block * ROWS<T>);
          const i64 row = ((group * p.blocks + block) * p.inner + channel) * taps;
          T* sum = sums + (is_whole ? 0 : block * tile_size);
          const T* tile = source + channel * channel_size + from;
          tile_at_of<T>(n, columns)(p.weights + row * ROWS<T>, tile, count, channel_size, offsets,
                                    taps, sum, channel != 0);
          if (channel + count == p.inner)
            write(p, sum, group * p.outer + block * ROWS<T>, n, runs, n_runs);
        }
      }
    }
  }
}

template <class T> i64 read_directly(const Call& call, Products<T>& p, const Bands& bands) {
  Direct<T> direct = {&p, bands};
  const i64 units = p.of.samples * p.of.along[0].count * bands.count * p.groups;
  const i64 products = bands.rows * bands.pitch * p.inner * p.of.taps() * p.outer;
  call.share(as_body(multiply_bands<T>), &direct, units,
             larger(1, SHARE / larger(1, products / 8)));
  return p.answer;
}

}  // namespace

}  // namespace CAPABILITY

#endif
